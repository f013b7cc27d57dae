//! Log lines inside JSON: container runtimes, journald, CloudWatch, GCP and others each have a key of their own for the
//! text. So keys are not looked at: a string with a record in it is a line. Lenient, for a line of a document that goes
//! over several is no JSON by itself. Pure.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;

/// Texts taken from one line of JSON: an array in one line has many, each of some hundred bytes.
const MAX_TEXTS: usize = 1_024;
/// JSON within JSON: a runtime's around an agent's around a program's.
const MAX_DEPTH: u32 = 3;

static MARKS: LazyLock<[Finder<'static>; 3]> =
    LazyLock::new(|| [" NCCL INFO ", " NCCL WARN ", "CCL version"].map(Finder::new));

/// The texts of a line that is JSON, or a part of it, as far as they hold records. Empty: it is none.
pub(super) fn texts(line: &str) -> Vec<String> {
    let mut texts = Vec::new();
    collect(line, 0, &mut texts);
    texts
}

/// Whether a line can be JSON.
pub(super) fn may_be(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with(['{', '[', '"']) && memchr::memchr(b'"', line.as_bytes()).is_some()
}

fn collect(line: &str, depth: u32, texts: &mut Vec<String>) {
    let mut rest = line;
    while let Some((literal, after)) = next_string(rest).filter(|_| texts.len() < MAX_TEXTS) {
        rest = after;
        if !MARKS.iter().any(|mark| mark.find(literal.as_bytes()).is_some()) {
            continue;
        }
        let Ok(text) = serde_json::from_str::<Cow<'_, str>>(literal) else { continue };
        let before = texts.len();
        if depth < MAX_DEPTH && may_be(&text) {
            collect(&text, depth + 1, texts);
        }
        if texts.len() == before {
            texts.push(text.into_owned());
        }
    }
}

/// The next string with its quotes, and what follows it.
fn next_string(text: &str) -> Option<(&str, &str)> {
    let start = memchr::memchr(b'"', text.as_bytes())?;
    let mut at = start + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.as_bytes().get(at..)?)?;
        if text.as_bytes()[at] == b'"' {
            return Some((text.get(start..=at)?, text.get(at + 1..)?));
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        assert_eq!(texts(line), expected, "{line}");
    }

    #[test]
    fn a_string_with_a_record_is_a_line_whatever_its_key() {
        let x = "h:1:2 [0] NCCL INFO x";
        check(&format!("{{\"log\":\"{x}\\n\",\"stream\":\"stdout\"}}"), &[&format!("{x}\n")]);
        check(&format!("{{\"MESSAGE\":\"{x}\",\"_PID\":\"7\"}}"), &[x]);
        check(&format!("  \"textPayload\": \"{x}\","), &[x]);
        check(&format!("{{\"jsonPayload\":{{\"message\":\"{x}\"}}}}"), &[x]);
        check(
            &format!("[{{\"m\":\"{x} 1\"}},{{\"m\":\"y\"}},{{\"m\":\"{x} 2\"}}]"),
            &[&format!("{x} 1"), &format!("{x} 2")],
        );
        let inner = serde_json::to_string(&format!("{{\"msg\": \"{x} \\u003e \\\"é\\\"\"}}")).unwrap();
        check(&format!("{{\"log\": {inner}}}"), &[&format!("{x} > \"é\"")]);
        check("{\"log\": \"no record\"}", &[]);
        check(&format!("{{\"cut\": \"{x}"), &[]);
        check("\"\\", &[]);
        check("[0] a \"b", &[]);
    }

    #[test]
    fn lines_that_are_no_json_are_told_at_once() {
        for line in ["h:1:2 [0] NCCL INFO x", "[1,0]<stdout>:h:1:2 [0] NCCL INFO x", ""] {
            assert!(!may_be(line), "{line}");
        }
        assert!(may_be("  {\"a\": 1}"));
    }
}
