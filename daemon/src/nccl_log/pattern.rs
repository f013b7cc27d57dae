//! The little language of the format table: `{}` captures, a blank stands for any number of blanks (also none),
//! everything else for itself.

/// What the `{}` of a pattern stood for, in order.
pub(super) struct Captures<'t>(Vec<&'t str>);

impl<'t> Captures<'t> {
    pub(super) fn text(&self, at: usize) -> Option<&'t str> {
        self.0.get(at).copied()
    }

    pub(super) fn u32(&self, at: usize) -> Option<u32> {
        self.text(at)?.parse().ok()
    }
}

/// A number as `%p`, `0x%llx` or `%lx` prints it.
pub(super) fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// Matches all of `text`. A capture ends where the text that follows it in the pattern first occurs.
pub(super) fn captures<'t>(pattern: &str, text: &'t str) -> Option<Captures<'t>> {
    let mut pieces = pattern.split("{}");
    let mut rest = after_literal(pieces.next()?, text)?;
    let mut found = Captures(Vec::new());
    let mut pieces = pieces.peekable();
    while let Some(literal) = pieces.next() {
        if literal.is_empty() && pieces.peek().is_none() {
            found.0.push(rest.trim());
            return Some(found);
        }
        let (capture, after) = rest
            .char_indices()
            .find_map(|(at, _)| Some((&rest[..at], after_literal(literal, &rest[at..])?)))?;
        found.0.push(capture.trim());
        rest = after;
    }
    rest.trim().is_empty().then_some(found)
}

/// What follows `literal` at the start of `text`.
fn after_literal<'t>(literal: &str, text: &'t str) -> Option<&'t str> {
    let mut rest = text;
    for c in literal.chars() {
        rest = if c == ' ' { rest.trim_start_matches([' ', '\t']) } else { rest.strip_prefix(c)? };
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str, expected: Option<&[&str]>) {
        assert_eq!(captures(pattern, text).map(|found| found.0).as_deref(), expected, "{pattern} on {text}");
    }

    #[test]
    fn patterns() {
        check("Ring {} : {} -> {} -> {}", "Ring 00 : 2 -> 3 -> 4", Some(&["00", "2", "3", "4"]));
        check("Ring {} : {} -> {} -> {}", "Ring 00 :  2->3 -> 4 ", Some(&["00", "2", "3", "4"]));
        check("Ring {} : {} -> {} -> {}", "Ring 00 : 2 -> 3", None);
        check("{}comm {}- Init START", "a comm 0x1 key 0- Init START", Some(&["a", "0x1 key 0"]));
        check("Connected all rings{}", "Connected all rings", Some(&[""]));
        check("exact", "exact", Some(&[]));
        check("exact", "exactly", None);
        check("{}", "", Some(&[""]));
    }
}
