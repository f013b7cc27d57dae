//! What others do to the library's lines on their way into a file: Ray leaves out what looks alike and marks it, k9s
//! frames lines and doubles brackets, web pages escape them. Pure; what a line is without that is all that is told.

use std::borrow::Cow;

/// A line as the library wrote it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bare<'l> {
    pub(super) text: Cow<'l, str>,
    /// Lines of other processes that Ray has left out because it took them for this one.
    pub(super) left_out: u64,
}

/// Takes off what does not belong to the record.
pub(super) fn bare(text: &str) -> Bare<'_> {
    let text = text.trim_end().trim_end_matches(FRAME).trim_end();
    let (text, left_out) = without_ray(text);
    let mut text = Cow::Borrowed(text);
    if memchr::memchr(b'&', text.as_bytes()).is_some() {
        text = without_html(text);
    }
    if memchr::memmem::find(text.as_bytes(), b"[]").is_some() {
        text = without_doubled(text);
    }
    Bare { text, left_out }
}

/// `… [repeated 15x across cluster] (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0 …)`. Source: Ray
/// `python/ray/_private/ray_logging/__init__.py`, `LogDeduplicator`.
fn without_ray(text: &str) -> (&str, u64) {
    if !text.ends_with(RAY_END) && !text.ends_with(RAY_HINT_END) {
        return (text, 0);
    }
    let found = text.rfind(RAY_START).and_then(|at| {
        let (number, _) = text[at + RAY_START.len()..].split_once(RAY_END)?;
        Some((text[..at].trim_end(), number.parse().ok()?))
    });
    found.unwrap_or((text, 0))
}

/// `0[0] -&gt; 1[1]`.
fn without_html(text: Cow<'_, str>) -> Cow<'_, str> {
    let mut bare = String::with_capacity(text.len());
    let mut rest = &*text;
    while let Some(at) = rest.find('&') {
        bare.push_str(&rest[..at]);
        rest = &rest[at..];
        let known = ESCAPES.iter().find(|(escape, _)| rest.starts_with(escape));
        let (escape, meant) = known.copied().unwrap_or(("&", "&"));
        bare.push_str(meant);
        rest = &rest[escape.len()..];
    }
    if bare.is_empty() {
        return text;
    }
    bare.push_str(rest);
    Cow::Owned(bare)
}

/// `[0[] NCCL INFO … [send[] via`: in k9s a closing bracket is doubled where a bracket is open.
fn without_doubled(text: Cow<'_, str>) -> Cow<'_, str> {
    let mut bare = String::with_capacity(text.len());
    let mut is_open = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '[' && is_open && chars.peek() == Some(&']') {
            continue;
        }
        is_open = match c {
            '[' => true,
            ']' => false,
            _ => is_open,
        };
        bare.push(c);
    }
    Cow::Owned(bare)
}

const RAY_START: &str = " [repeated ";
const RAY_END: &str = "x across cluster]";
const RAY_HINT_END: &str = "for more options.)";
/// The frame of a terminal's window.
const FRAME: [char; 4] = ['│', '┃', '║', '▏'];
/// As browsers and bug trackers write what has a meaning in HTML.
const ESCAPES: [(&str, &str); 9] = [
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&amp;", "&"),
    ("&#39;", "'"),
    ("&#x27;", "'"),
    ("&apos;", "'"),
    ("&quot;", "\""),
    ("&#34;", "\""),
    ("&nbsp;", " "),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str, left_out: u64) {
        assert_eq!(bare(text), Bare { text: expected.into(), left_out });
    }

    #[test]
    fn what_does_not_belong_to_a_line_is_taken_off() {
        let line = "h:1:2 [0] NCCL INFO Ring 00 : 1 -> 0 -> 1";
        check(line, line, 0);
        check(&format!("{line} [repeated 15x across cluster]"), line, 15);
        let hint = "(Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0 to disable log deduplication, or see https://docs.ray.io/x for more options.)";
        check(&format!("{line} [repeated 3x across cluster] {hint}"), line, 3);
        check(
            &format!("{line} [repeated many x across cluster]"),
            &format!("{line} [repeated many x across cluster]"),
            0,
        );
        check(&line.replace('>', "&gt;"), line, 0);
        check("a &lt;b&gt; &amp;gt; &#39;c&#39; & d &unknown;", "a <b> &gt; 'c' & d &unknown;", 0);
        check(&format!("│ {line}            │"), &format!("│ {line}"), 0);
        let sent = "h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[4] [send] via NET/IB/0(PCI)";
        check(&sent.replace(']', "[]"), sent, 0);
        check("an empty match[] of a[1] and b[]", "an empty match[] of a[1] and b[]", 0);
    }
}
