//! Pages of lists.

use ringscope_api::Page;
use utoipa::IntoParams;

use super::problem::ApiError;
use super::query::{Params, wrong};

/// `limit` and `cursor`, for the document.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "Paging reads them, with words for every mistake")]
pub(super) struct PageParams {
    /// Items of a page; 100 if not given.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
    /// `next_cursor` of the page before.
    #[param(max_length = 4096, pattern = "^([0-9a-f]{2})*$")]
    cursor: Option<String>,
}

/// Which page is asked for.
#[derive(Debug)]
pub(super) struct Paging {
    limit: usize,
    after: Option<Cursor>,
}

/// Where the last page ended: after the item with this key, or, if that is gone, at this place.
#[derive(Debug, PartialEq, Eq)]
struct Cursor {
    place: usize,
    key: String,
}

impl Paging {
    /// Reads `limit` and `cursor`.
    pub(super) fn from_params(params: &Params) -> Result<Self, ApiError> {
        let limit = params.number("limit", 1..=LIMIT_MAX)?.unwrap_or(LIMIT_DEFAULT);
        let after = match params.text("cursor") {
            Some(text) => {
                let allowed = "allowed: what the last page gave as next_cursor";
                Some(Cursor::parse(text).ok_or_else(|| wrong("cursor", text, allowed))?)
            }
            None => None,
        };
        Ok(Self { limit, after })
    }

    /// That page of `items`, which are told apart by `key`.
    pub(super) fn page<T>(&self, mut items: Vec<T>, key: impl Fn(&T) -> String) -> Page<T> {
        let start = self.after.as_ref().map_or(0, |cursor| {
            let found = items.iter().position(|item| key(item) == cursor.key);
            found.map_or(cursor.place, |index| index + 1).min(items.len())
        });
        let end = (start + self.limit).min(items.len());
        let next_cursor = match items.get(end.wrapping_sub(1)) {
            Some(last) if end < items.len() => Some(Cursor { place: end, key: key(last) }.text()),
            _ => None,
        };
        items.truncate(end);
        items.drain(..start);
        Page { items, next_cursor }
    }
}

impl Cursor {
    fn text(&self) -> String {
        let plain = format!("{}:{}", self.place, self.key);
        plain.bytes().map(|byte| format!("{byte:02x}")).collect()
    }

    fn parse(text: &str) -> Option<Self> {
        if !text.is_ascii() || !text.len().is_multiple_of(2) || text.len() > CURSOR_BYTES_MAX {
            return None;
        }
        let bytes: Option<Vec<u8>> =
            (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect();
        let plain = String::from_utf8(bytes?).ok()?;
        let (place, key) = plain.split_once(':')?;
        Some(Self { place: place.parse().ok()?, key: key.to_owned() })
    }
}

/// Items of a page where the client does not say.
const LIMIT_DEFAULT: usize = 100;
/// Most items of a page.
const LIMIT_MAX: usize = 1000;
/// Keys are ids and names; none is longer.
const CURSOR_BYTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn page(limit: usize, cursor: Option<&str>, items: &[&str]) -> Page<String> {
        let after = cursor.map(|text| Cursor::parse(text).unwrap());
        let items = items.iter().map(|item| (*item).to_owned()).collect();
        Paging { limit, after }.page(items, Clone::clone)
    }

    #[test]
    fn pages_cover_the_list() {
        let first = page(2, None, &["a", "b", "c", "d", "e"]);
        assert_eq!(first.items, ["a", "b"]);
        let second = page(2, first.next_cursor.as_deref(), &["a", "b", "c", "d", "e"]);
        assert_eq!(second.items, ["c", "d"]);
        let third = page(2, second.next_cursor.as_deref(), &["a", "b", "c", "d", "e"]);
        assert_eq!((third.items, third.next_cursor), (vec!["e".to_owned()], None));
        assert_eq!(page(5, None, &["a", "b", "c", "d", "e"]).next_cursor, None);
        assert!(page(5, None, &[]).items.is_empty());
    }

    #[test]
    fn a_cursor_survives_what_comes_and_goes() {
        let cursor = page(2, None, &["a", "b", "c"]).next_cursor;
        assert_eq!(page(2, cursor.as_deref(), &["0", "a", "b", "c"]).items, ["c"], "one more before it");
        assert_eq!(page(2, cursor.as_deref(), &["a", "c", "d"]).items, ["d"], "its item is gone");
        assert!(page(2, cursor.as_deref(), &[]).items.is_empty());
    }

    #[test]
    fn other_texts_are_no_cursors() {
        for text in ["x", "zz", "31", "ää", "3a3a"] {
            assert_eq!(Cursor::parse(text), None, "{text}");
        }
    }
}
