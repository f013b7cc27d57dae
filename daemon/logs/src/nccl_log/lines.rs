//! Cuts a stream of bytes into lines, whatever the chunks, and hands on those that can hold a record. The others are
//! only counted: most of a training log is not NCCL's.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;

/// Longest line that is looked at. NCCL's records are at most a few KiB ([2.29+] has no bound of its own).
pub(super) const MAX_LINE_BYTES: usize = 16 * 1024;

/// What every record has: "NCCL INFO", "NCCL WARN", "NCCL version", "RCCL version".
static MARK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("CCL "));

/// The part of a line that has not ended yet.
#[derive(Debug, Default)]
pub(super) struct Lines {
    partial: Vec<u8>,
    /// The line has grown too long: what follows is skipped up to its end.
    skipping: bool,
    too_long: u64,
    /// Lines that have ended.
    ended: u64,
}

impl Lines {
    /// Calls `each` with the number and the text of every line that ends within `bytes` and may hold a record, and with
    /// the place of its mark if it has only one. A line without an end is kept for the next call, never read early: half
    /// a number is a wrong number.
    pub(super) fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(u64, &str, Option<usize>)) {
        let mut rest = bytes;
        if self.skipping || !self.partial.is_empty() {
            let Some(at) = memchr::memchr(b'\n', rest) else { return self.keep(rest) };
            self.keep(&rest[..at]);
            self.ended += 1;
            if !self.skipping && MARK.find(&self.partial).is_some() {
                each(self.ended, &clean(&self.partial), None);
            }
            self.partial.clear();
            self.skipping = false;
            rest = &rest[at + 1..];
        }
        let Some(last) = memchr::memrchr(b'\n', rest) else { return self.keep(rest) };
        self.whole(&rest[..=last], &mut each);
        self.keep(&rest[last + 1..]);
    }

    /// Lines are missing from here on; what follows may begin within one.
    pub(super) fn gap(&mut self) {
        self.partial.clear();
        self.skipping = true;
    }

    /// The line that has no end, now that nothing follows; it may be cut.
    pub(super) fn rest(&mut self) -> Option<(u64, String)> {
        let partial = std::mem::take(&mut self.partial);
        if partial.is_empty() {
            return None;
        }
        self.ended += 1;
        MARK.find(&partial).map(|_| (self.ended, clean(&partial).into_owned()))
    }

    /// Lines skipped because of their length, as far as they held a record or came in pieces.
    pub(super) fn too_long(&self) -> u64 {
        self.too_long
    }

    /// Lines that have ended.
    pub(super) fn ended(&self) -> u64 {
        self.ended
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.skipping {
            return;
        }
        if self.partial.len() + bytes.len() > MAX_LINE_BYTES {
            self.partial = Vec::new();
            self.skipping = true;
            self.too_long += 1;
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }

    /// `block` ends with a line feed.
    fn whole(&mut self, block: &[u8], each: &mut impl FnMut(u64, &str, Option<usize>)) {
        let count = |bytes: &[u8]| memchr::memchr_iter(b'\n', bytes).count() as u64;
        let mut from = 0;
        let find = |from: usize| MARK.find(&block[from..]).map(|at| from + at);
        let mut next = find(0);
        while let Some(hit) = next {
            let start = memchr::memrchr(b'\n', &block[from..hit]).map_or(from, |at| from + at + 1);
            let end = memchr::memchr(b'\n', &block[hit..]).map_or(block.len(), |at| hit + at);
            self.ended += count(&block[from..start]) + 1;
            from = (end + 1).min(block.len());
            // Most lines have one mark, so that the search for the next one is the next line's too.
            next = find(hit + 1);
            let only = next.is_none_or(|next| next > end);
            if !only {
                next = find(from);
            }
            if end - start > MAX_LINE_BYTES {
                self.too_long += 1;
            } else {
                let text = clean(&block[start..end]);
                let mark = (only && matches!(text, Cow::Borrowed(_))).then_some(hit - start);
                each(self.ended, &text, mark);
            }
        }
        self.ended += count(&block[from..]);
    }
}

/// The line as text, without the terminal's colours and NULs. A carriage return parts words: what a progress bar wrote
/// before it is not part of the record.
fn clean(line: &[u8]) -> Cow<'_, str> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = std::str::from_utf8(line).map_or_else(|_| String::from_utf8_lossy(line), Cow::Borrowed);
    if memchr::memchr3(0x1b, b'\r', 0, line).is_none() {
        return text;
    }
    let mut cleaned = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\x1b' && chars.peek() == Some(&'[') {
            chars.next();
            chars.by_ref().find(|c| c.is_ascii_alphabetic());
        } else if c == '\r' {
            cleaned.push(' ');
        } else if c != '\0' {
            cleaned.push(c);
        }
    }
    Cow::Owned(cleaned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]]) -> (Vec<(u64, String)>, u64) {
        let mut reader = Lines::default();
        let mut found = Vec::new();
        for chunk in chunks {
            reader.feed(chunk, |number, line, mark| {
                assert!(mark.is_none_or(|at| line[at..].starts_with("CCL ")), "{line}");
                found.push((number, line.to_owned()));
            });
        }
        (found, reader.too_long())
    }

    #[test]
    fn chunks_do_not_matter() {
        let whole = lines(&[b"NCCL one\nother\n\nNCCL two\r\nNCCL three"]);
        assert_eq!(whole, (vec![(1, "NCCL one".into()), (4, "NCCL two".into())], 0));
        assert_eq!(lines(&[b"NC", b"CL one", b"\noth", b"er\n\nNCCL two\r\nNCC", b"L three"]), whole);
    }

    #[test]
    fn a_line_without_an_end_is_told_apart() {
        let mut reader = Lines::default();
        reader.feed(b"x\nNCCL cut", |_, _, _| {});
        assert_eq!(reader.rest(), Some((2, "NCCL cut".into())));
        assert_eq!(reader.rest(), None);
    }

    #[test]
    fn halves_on_either_side_of_a_gap_are_no_line() {
        let (mut reader, mut found) = (Lines::default(), Vec::new());
        let mut feed = |reader: &mut Lines, bytes: &[u8]| {
            reader.feed(bytes, |_, text, _| found.push(text.to_owned()));
        };
        feed(&mut reader, b"NCCL one\nNCCL rank 1");
        reader.gap();
        feed(&mut reader, b"0 NCCL of 16\nNCCL two\n");
        assert_eq!(found, ["NCCL one", "NCCL two"]);
    }

    #[test]
    fn colours_and_bytes_that_are_no_text() {
        let found = lines(&[b"\x1b[1;31mNCCL red\x1b[0m\n\0\0CCL \xff\n45%\rNCCL x\n"]).0;
        let texts: Vec<_> = found.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["NCCL red", "CCL \u{fffd}", "45% NCCL x"]);
    }

    #[test]
    fn a_huge_line_is_skipped_and_the_next_is_read() {
        let huge = vec![b'x'; MAX_LINE_BYTES];
        assert_eq!(lines(&[&huge, &huge, b"y NCCL \nNCCL next\n"]), (vec![(2, "NCCL next".into())], 1));
        let line = [&huge[..], b"NCCL \nNCCL next\n"].concat();
        assert_eq!(lines(&[&line]), (vec![(2, "NCCL next".into())], 1));
    }
}
