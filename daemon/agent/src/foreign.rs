//! Text that others wrote: names of processes, paths, lines of the kernel's log. It is shown to people, so it must not be
//! able to look like anything else.

use ringscope_api::unseen::is_bidirectional;

/// On one line, without control characters and without those that turn the direction of what follows, and cut.
pub(super) fn clean(text: &str, max_bytes: usize) -> String {
    let mut clean = String::with_capacity(text.len().min(max_bytes));
    for c in text.trim_end().chars() {
        let c = if c.is_control() || is_bidirectional(c) { ' ' } else { c };
        if c == ' ' && clean.ends_with(' ') {
            continue;
        }
        if clean.len() + c.len_utf8() > max_bytes {
            break;
        }
        clean.push(c);
    }
    clean
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;

    /// Makes a program of a script, by another process: what this one has open to write to, a child of another test may
    /// have inherited, and then it cannot be executed.
    pub(crate) fn write_script(path: &Path, script: &str) {
        let command = "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"";
        let status = Command::new("sh").args(["-c", command, "sh", script]).arg(path).status().unwrap();
        assert!(status.success());
    }

    #[test]
    fn foreign_text_is_harmless_and_short() {
        assert_eq!(clean("a\u{1b}[31mred\u{202e}x\r\n", 100), "a [31mred x");
        assert_eq!(clean(&"ä".repeat(1000), 401).len(), 400);
        assert_eq!(clean("two  \t words", 100), "two words");
    }
}
