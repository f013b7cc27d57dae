//! Cuts a stream of bytes into lines, whatever the chunks.

/// Longest line that is looked at. NCCL's records are at most a few KiB ([2.29+] has no bound of its own).
pub(super) const MAX_LINE_BYTES: usize = 16 * 1024;

/// The part of a line that has not ended yet.
#[derive(Debug, Default)]
pub(super) struct Lines {
    partial: Vec<u8>,
    /// The line has grown too long: what follows is skipped up to its end.
    skipping: bool,
    too_long: u64,
}

impl Lines {
    /// Calls `each` with every line that ends within `bytes`. A line without an end is kept for the next call, never
    /// read early: half a number is a wrong number.
    pub(super) fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(&str)) {
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = (&rest[..at], &rest[at + 1..]);
            rest = after;
            if self.skipping || self.partial.len() + line.len() > MAX_LINE_BYTES {
                self.too_long += 1;
            } else if self.partial.is_empty() {
                each(&clean(line));
            } else {
                self.partial.extend_from_slice(line);
                each(&clean(&self.partial));
            }
            self.partial.clear();
            self.skipping = false;
        }
        if self.skipping || self.partial.len() + rest.len() > MAX_LINE_BYTES {
            self.partial.clear();
            self.skipping = true;
        } else {
            self.partial.extend_from_slice(rest);
        }
    }

    /// Lines skipped because of their length.
    pub(super) fn too_long(&self) -> u64 {
        self.too_long
    }
}

/// The line as text, without the terminal's colours, NULs and the carriage return.
fn clean(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut cleaned = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\x1b' && chars.peek() == Some(&'[') {
            chars.by_ref().find(|c| c.is_ascii_alphabetic());
        } else if !matches!(c, '\r' | '\0') {
            cleaned.push(c);
        }
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]]) -> (Vec<String>, u64) {
        let mut reader = Lines::default();
        let mut found = Vec::new();
        for chunk in chunks {
            reader.feed(chunk, |line| found.push(line.to_owned()));
        }
        (found, reader.too_long())
    }

    #[test]
    fn chunks_do_not_matter() {
        let whole = lines(&[b"one\ntwo\r\nthree"]);
        assert_eq!(whole, (vec!["one".into(), "two".into()], 0));
        assert_eq!(lines(&[b"on", b"e", b"\ntw", b"o\r\nth", b"ree"]), whole);
    }

    #[test]
    fn colours_and_bytes_that_are_no_text() {
        assert_eq!(lines(&[b"\x1b[1;31mred\x1b[0m\n\0\0a\xff\n"]).0, ["red", "a\u{fffd}"]);
    }

    #[test]
    fn a_huge_line_is_skipped_and_the_next_is_read() {
        let huge = vec![b'x'; MAX_LINE_BYTES];
        assert_eq!(lines(&[&huge, &huge, b"y\nnext\n"]), (vec!["next".into()], 1));
    }
}
