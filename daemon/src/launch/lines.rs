//! Lines of many writers into one stream: whole lines with a prefix, and long or unfinished ones in pieces. Knows no stream.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Bytes of an unfinished line that are kept; what is longer goes out in pieces.
const MAX_PIECE_BYTES: usize = 8 << 10;
/// What has no end after so long is shown: a prompt, a bar of progress.
const SHOWN_AFTER: Duration = Duration::from_millis(250);

/// Lines on their way to one stream; `S` is who writes.
#[derive(Debug)]
pub(super) struct Lines<S> {
    partial: HashMap<S, Partial>,
    /// Who wrote last without ending the line.
    open: Option<S>,
}

#[derive(Debug)]
struct Partial {
    bytes: Vec<u8>,
    since: Instant,
}

impl<S: Copy + Eq + std::hash::Hash> Lines<S> {
    pub(super) fn new() -> Self {
        Self { partial: HashMap::new(), open: None }
    }

    /// Takes what `source` has written, and gives out what is to be shown.
    pub(super) fn feed(&mut self, source: S, prefix: &str, bytes: &[u8], now: Instant, out: &mut Vec<u8>) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let kept =
                self.partial.entry(source).or_insert_with(|| Partial { bytes: Vec::new(), since: now });
            if kept.bytes.is_empty() {
                kept.since = now;
            }
            kept.bytes.extend(piece);
            if piece.ends_with(b"\n") || kept.bytes.len() >= MAX_PIECE_BYTES {
                let line = std::mem::take(&mut kept.bytes);
                self.show(source, prefix, &line, out);
            }
        }
        if self.partial.get(&source).is_some_and(|kept| kept.bytes.is_empty()) {
            self.partial.remove(&source);
        }
    }

    /// Shows what has waited for its end for long; `prefix` of whom.
    pub(super) fn show_unfinished<'a>(
        &mut self,
        now: Instant,
        prefix: impl Fn(S) -> &'a str,
        out: &mut Vec<u8>,
    ) {
        let is_due = |kept: &Partial| now.saturating_duration_since(kept.since) >= SHOWN_AFTER;
        let due: Vec<S> =
            self.partial.iter().filter(|(_, kept)| is_due(kept)).map(|(source, _)| *source).collect();
        for source in due {
            if let Some(kept) = self.partial.remove(&source) {
                self.show(source, prefix(source), &kept.bytes, out);
            }
        }
    }

    /// Shows all that is left, and ends the line.
    pub(super) fn finish<'a>(&mut self, prefix: impl Fn(S) -> &'a str, out: &mut Vec<u8>) {
        let mut left: Vec<(S, Partial)> = self.partial.drain().collect();
        left.sort_by_key(|(_, kept)| kept.since);
        for (source, kept) in left {
            self.show(source, prefix(source), &kept.bytes, out);
        }
        if self.open.take().is_some() {
            out.push(b'\n');
        }
    }

    fn show(&mut self, source: S, prefix: &str, bytes: &[u8], out: &mut Vec<u8>) {
        if self.open != Some(source) {
            if self.open.is_some() {
                out.push(b'\n');
            }
            out.extend(prefix.as_bytes());
        }
        out.extend(bytes);
        self.open = (!bytes.ends_with(b"\n")).then_some(source);
    }
}

/// The last lines of one writer.
#[derive(Debug, Default)]
pub(super) struct Tail {
    lines: std::collections::VecDeque<Vec<u8>>,
    is_unfinished: bool,
    /// When the last of it came, nanoseconds since the epoch.
    pub(super) at_ns: u64,
}

impl Tail {
    /// Takes what was written.
    pub(super) fn feed(&mut self, bytes: &[u8], now_ns: u64) {
        self.at_ns = now_ns;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if !self.is_unfinished {
                if self.lines.len() == TAIL_LINES {
                    self.lines.pop_front();
                }
                self.lines.push_back(Vec::new());
            }
            if let Some(line) = self.lines.back_mut() {
                let room = TAIL_LINE_BYTES.saturating_sub(line.len());
                line.extend(&piece[..piece.len().min(room)]);
            }
            self.is_unfinished = !piece.ends_with(b"\n");
        }
    }

    /// As text.
    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.iter().map(|line| String::from_utf8_lossy(line).trim_end().to_owned()).collect()
    }
}

/// Lines that are kept of each process, and bytes of each.
const TAIL_LINES: usize = 20;
const TAIL_LINE_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn prefix(source: u8) -> &'static str {
        ["[0] ", "[1] ", "[2] "][usize::from(source)]
    }

    /// Pieces as they come, `...` where time passes.
    fn shown(pieces: &[(u8, &str)]) -> String {
        let (mut lines, mut out) = (Lines::new(), Vec::new());
        let mut now = ringscope_api::clock::monotonic();
        for (source, text) in pieces {
            if *text == "..." {
                now += SHOWN_AFTER;
                lines.show_unfinished(now, prefix, &mut out);
            } else {
                lines.feed(*source, prefix(*source), text.as_bytes(), now, &mut out);
            }
        }
        lines.finish(prefix, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_come_whole() {
        assert_eq!(shown(&[(0, "a"), (1, "b\n"), (0, "c\n")]), "[1] b\n[0] ac\n");
        assert_eq!(shown(&[(0, "a\nb\n\n")]), "[0] a\n[0] b\n[0] \n");
        assert_eq!(shown(&[(0, "end")]), "[0] end\n");
        assert_eq!(shown(&[]), "");
    }

    #[test]
    fn what_has_no_end_is_shown_after_a_while_and_goes_on_where_nobody_came_between() {
        assert_eq!(shown(&[(0, "a"), (0, "..."), (0, "b\n")]), "[0] ab\n");
        assert_eq!(shown(&[(0, "a"), (0, "..."), (1, "x\n"), (0, "b\n")]), "[0] a\n[1] x\n[0] b\n");
    }

    #[test]
    fn a_line_without_end_goes_out_in_pieces() {
        let (mut lines, mut out) = (Lines::new(), Vec::new());
        let now = ringscope_api::clock::monotonic();
        for _ in 0..1000 {
            lines.feed(0_u8, "[0] ", &[b'x'; 1000], now, &mut out);
            assert!(lines.partial.values().all(|kept| kept.bytes.len() < MAX_PIECE_BYTES));
        }
        lines.finish(prefix, &mut out);
        assert_eq!(out.len(), 1_000_000 + "[0] \n".len());
    }

    #[test]
    fn the_last_lines_are_kept_and_bounded() {
        let mut tail = Tail::default();
        (0..30).for_each(|number| tail.feed(format!("line {number}\n").as_bytes(), 1));
        tail.feed(b"un", 2);
        tail.feed(b"finished", 3);
        let lines = tail.lines();
        assert_eq!((lines.len(), lines[0].as_str(), lines[19].as_str()), (20, "line 11", "unfinished"));
        (0..10_000).for_each(|_| tail.feed(&[b'x'; 100], 4));
        assert!(tail.lines().iter().all(|line| line.len() <= TAIL_LINE_BYTES));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_no_line_is_mixed(pieces in proptest::collection::vec((0_u8..3, "[ab\n]{0,6}"), 0..40)) {
            let (mut lines, mut out) = (Lines::new(), Vec::new());
            let now = ringscope_api::clock::monotonic();
            for (source, text) in &pieces {
                lines.feed(*source, prefix(*source), text.as_bytes(), now, &mut out);
            }
            lines.finish(prefix, &mut out);
            let out = String::from_utf8(out).unwrap();
            for source in 0..3_u8 {
                let own: String = pieces.iter().filter(|(of, _)| *of == source).map(|(_, text)| text.as_str()).collect();
                let shown: Vec<&str> = out.lines().filter_map(|line| line.strip_prefix(prefix(source))).collect();
                prop_assert_eq!(shown, own.lines().collect::<Vec<_>>());
            }
        }
    }
}
