//! The little language of the format table: `{}` captures, a blank stands for any number of blanks (also none),
//! everything else for itself.

/// Captures of one pattern: the longest row has ten.
const MAX_CAPTURES: usize = 12;

/// What the `{}` of a pattern stood for, in order.
#[derive(Debug)]
pub(super) struct Captures<'t> {
    texts: [&'t str; MAX_CAPTURES],
    len: usize,
}

impl<'t> Captures<'t> {
    pub(super) fn text(&self, at: usize) -> Option<&'t str> {
        self.texts[..self.len].get(at).copied()
    }

    pub(super) fn u32(&self, at: usize) -> Option<u32> {
        self.text(at)?.parse().ok()
    }

    fn push(&mut self, text: &'t str) -> Option<()> {
        *self.texts.get_mut(self.len)? = text;
        self.len += 1;
        Some(())
    }
}

/// A number as `%p`, `0x%llx` or `%lx` prints it.
pub(super) fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// Matches all of `text`. A capture ends where the text that follows it in the pattern first occurs.
pub(super) fn captures<'t>(pattern: &str, text: &'t str) -> Option<Captures<'t>> {
    let (first, mut rest_of_pattern) = cut(pattern);
    let mut rest = after_literal(first, text)?;
    let mut found = Captures { texts: [""; MAX_CAPTURES], len: 0 };
    while let Some(after_capture) = rest_of_pattern {
        let (literal, more) = cut(after_capture);
        rest_of_pattern = more;
        if literal.is_empty() && more.is_none() {
            found.push(rest.trim())?;
            return Some(found);
        }
        let (at, after) = find_literal(literal, rest)?;
        found.push(rest[..at].trim())?;
        rest = after;
    }
    rest.trim().is_empty().then_some(found)
}

/// The text before the first `{}`, and what follows it.
fn cut(pattern: &str) -> (&str, Option<&str>) {
    match memchr::memchr(b'{', pattern.as_bytes()) {
        Some(at) => (&pattern[..at], pattern.get(at + 2..)),
        None => (pattern, None),
    }
}

/// Where `literal` first occurs, and what follows it. Blanks before the capture's end are trimmed from it anyway, so the
/// search is for the first character that is not one.
fn find_literal<'t>(literal: &str, text: &'t str) -> Option<(usize, &'t str)> {
    let solid = literal.trim_start_matches(' ');
    let Some(first) = solid.bytes().next() else {
        let at = text.find([' ', '\t'])?;
        return Some((at, text[at..].trim_start_matches([' ', '\t'])));
    };
    memchr::memchr_iter(first, text.as_bytes())
        .find_map(|at| Some((at, after_literal(solid, text.get(at..)?)?)))
}

/// What follows `literal` at the start of `text`.
fn after_literal<'t>(literal: &str, text: &'t str) -> Option<&'t str> {
    let mut rest = text.as_bytes();
    for byte in literal.bytes() {
        if byte == b' ' {
            while let [b' ' | b'\t', after @ ..] = rest {
                rest = after;
            }
        } else {
            rest = rest.split_first().filter(|(first, _)| **first == byte)?.1;
        }
    }
    text.get(text.len() - rest.len()..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str, expected: Option<&[&str]>) {
        let found = captures(pattern, text);
        let found = found.as_ref().map(|found| &found.texts[..found.len]);
        assert_eq!(found, expected, "{pattern} on {text}");
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
        check("{} {} end", "a b end", Some(&["a", "b"]));
        check("{}é", "xé", Some(&["x"]));
    }
}
