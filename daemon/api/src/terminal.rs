//! What others wrote, on its way to a terminal or a log: without characters that move the cursor, hide or turn text, or
//! make one line look like two, and without passwords of addresses.

use std::borrow::Cow;
use std::io::{self, Write};
use std::mem;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::unseen::is_odd;

/// A text without what must not reach a terminal. Lines and tabs stay.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unwelcome) {
        return text.into();
    }
    text.chars().map(welcome).collect::<String>().into()
}

/// JSON that says the same with texts that are clean. Takes the bytes as they are: what is no JSON stays none.
pub fn clean_json(json: &[u8]) -> Vec<u8> {
    let mut cleaned = Vec::with_capacity(json.len());
    for chunk in json.utf8_chunks() {
        let mut rest = chunk.valid();
        // Those below a blank are no part of a text in JSON.
        while let Some(at) = rest.find(|c| c == '\\' || c >= ' ' && is_unwelcome(c)) {
            let (before, found) = rest.split_at(at);
            cleaned.extend_from_slice(before.as_bytes());
            let length = found.chars().next().map_or(1, char::len_utf8);
            rest = if found.starts_with('\\') {
                let (escape, rest) = escape(found);
                cleaned.extend_from_slice(escape.as_bytes());
                rest
            } else {
                cleaned.extend_from_slice(REPLACEMENT.as_bytes());
                &found[length..]
            };
        }
        cleaned.extend_from_slice(rest.as_bytes());
        cleaned.extend_from_slice(chunk.invalid());
    }
    cleaned
}

/// A document with all its texts clean.
pub fn cleaned<T: Serialize + DeserializeOwned>(document: &T) -> serde_json::Result<T> {
    serde_json::from_slice(&clean_json(&serde_json::to_vec(document)?))
}

/// The escape that the text begins with, cleaned, and what follows it.
fn escape(text: &str) -> (&str, &str) {
    let number = |digits: &str| u32::from_str_radix(digits, 16).ok();
    match text.as_bytes().get(1) {
        Some(b'u') if text.is_char_boundary(text.len().min(6)) && text.len() >= 6 => {
            let c = number(&text[2..6]).and_then(char::from_u32);
            (if c.is_some_and(is_unwelcome) { REPLACEMENT } else { &text[..6] }, &text[6..])
        }
        Some(b'b' | b'f' | b'r') => (REPLACEMENT, &text[2..]),
        Some(_) => {
            let length = 1 + text[1..].chars().next().map_or(0, char::len_utf8);
            text.split_at(length)
        }
        None => (text, ""),
    }
}

/// A text whose addresses have lost their user and password: `http://…@host` for `http://ann:secret@host`.
pub fn without_passwords(text: &str) -> Cow<'_, str> {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, address) = rest.split_at(at + 3);
        let end =
            address.find(|c: char| c.is_whitespace() || "/?#\"'`<>".contains(c)).unwrap_or(address.len());
        shown.push_str(before);
        rest = address;
        if let Some(user) = address[..end].rfind('@') {
            shown.push('…');
            rest = &address[user..];
        }
    }
    if shown.is_empty() {
        return text.into();
    }
    shown.push_str(rest);
    shown.into()
}

/// Writes to a terminal: passes on text and colours, and replaces whatever else would do something there.
pub struct Clean<W: Write> {
    to: W,
    /// Bytes that begin a character or a colour.
    begun: Vec<u8>,
}

impl<W: Write> Clean<W> {
    /// Writes to `to`.
    pub fn new(to: W) -> Self {
        Self { to, begun: Vec::new() }
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.begun.extend_from_slice(bytes);
        let bytes = mem::take(&mut self.begun);
        let mut passed = String::with_capacity(bytes.len());
        let mut rest = &*bytes;
        while !rest.is_empty() {
            let text = match str::from_utf8(rest) {
                Ok(text) => text,
                Err(error) => str::from_utf8(&rest[..error.valid_up_to()]).unwrap_or_default(),
            };
            let taken = pass(text, &mut passed);
            rest = &rest[taken..];
            if taken < text.len() {
                // A colour that has begun.
                break;
            }
            match str::from_utf8(rest).map_err(|error| error.error_len()) {
                Err(Some(length)) => {
                    passed.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[length..];
                }
                Err(None) => break,
                Ok(_) => {}
            }
        }
        self.begun = rest.to_vec();
        self.to.write_all(passed.as_bytes())
    }
}

/// Passes on a text up to a colour that has begun and not ended. Returns how many bytes it took.
fn pass(text: &str, passed: &mut String) -> usize {
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        if c == '\u{1b}' {
            match colour(&text[at..]) {
                Some(0) => return at,
                Some(length) => {
                    passed.push_str(&text[at..at + length]);
                    at += length;
                    continue;
                }
                None => {}
            }
        }
        passed.push(welcome(c));
        at += c.len_utf8();
    }
    at
}

/// Length of the colour, or the clearing of a line, that a text begins with; 0: it has not ended. `None`: it begins with
/// something else.
fn colour(text: &str) -> Option<usize> {
    let length = text.len().min(COLOUR_BYTES_MAX);
    for (index, byte) in text.bytes().enumerate().take(length) {
        match (index, byte) {
            (0, 0x1b) | (1, b'[') => {}
            (2.., b'0'..=b'9' | b';') => {}
            (2.., b'm' | b'K') => return Some(index + 1),
            _ => return None,
        }
    }
    (length < COLOUR_BYTES_MAX).then_some(0)
}

impl<W: Write> Write for Clean<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl<W: Write> Drop for Clean<W> {
    fn drop(&mut self) {
        if !self.begun.is_empty() {
            // Nowhere is left to say that the terminal is gone.
            let _ = self.to.write_all(REPLACEMENT.as_bytes());
        }
    }
}

/// Writes a log: one line for each event, which comes in one piece.
pub struct Lines<W: Write>(pub W);

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let line = without_passwords(line).replace('\n', "\\n");
        let mut to = Clean::new(&mut self.0);
        writeln!(to, "{line}")?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn is_unwelcome(c: char) -> bool {
    is_odd(c) && c != '\n' && c != '\t'
}

fn welcome(c: char) -> char {
    if is_unwelcome(c) { char::REPLACEMENT_CHARACTER } else { c }
}

const REPLACEMENT: &str = "\u{fffd}";
/// Longer is no colour: `ESC [ 38;2;255;255;255;48;2;255;255;255 m` has 39.
const COLOUR_BYTES_MAX: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;

    /// A job's name that clears the screen, sets the title, types for the user, and turns the line around.
    const HOSTILE: &str = "tr\u{1b}[2J\u{1b}]0;x\u{7}\u{9b}6n\u{202e}ain\r\u{8}";
    const HARMLESS: &str = "tr\u{fffd}[2J\u{fffd}]0;x\u{fffd}\u{fffd}6n\u{fffd}ain\u{fffd}\u{fffd}";

    #[test]
    fn no_text_does_anything_to_a_terminal() {
        assert_eq!(clean(HOSTILE), HARMLESS);
        assert_eq!(clean("a\tb\nc, 模型, 👩\u{200d}💻"), "a\tb\nc, 模型, 👩\u{200d}💻");
    }

    #[test]
    fn json_says_the_same_with_clean_texts() {
        let document = serde_json::json!({ "job": HOSTILE, "line": "a\tb\nc \\ \" / é 💻", "n": [1, null] });
        let expected = serde_json::json!({ "job": HARMLESS, "line": "a\tb\nc \\ \" / é 💻", "n": [1, null] });
        let escaped: String = document
            .to_string()
            .chars()
            .map(|c| match u32::from(c) {
                code @ 0x80..=0xffff => format!("\\u{code:04x}"),
                _ => c.to_string(),
            })
            .collect();
        for json in [document.to_string(), escaped] {
            let cleaned: serde_json::Value = serde_json::from_slice(&clean_json(json.as_bytes())).unwrap();
            assert_eq!(cleaned, expected, "{json}");
        }
        for odd in ["\"\\", "\"\\u00", "\"\\u1é34", "\\\u{9b}"] {
            clean_json(odd.as_bytes());
        }
        assert_eq!(clean_json(b"{\r\n\"\xff\x7f\"}"), b"{\r\n\"\xff\xef\xbf\xbd\"}");
    }

    #[test]
    fn colours_pass_and_nothing_else_does_in_any_pieces() {
        let text = format!("\u{1b}[1;31mred\u{1b}[0m é💻 {HOSTILE}\u{1b}[31\u{1b}[");
        let expected = format!("\u{1b}[1;31mred\u{1b}[0m é💻 {HARMLESS}\u{fffd}[31\u{fffd}");
        for piece in 1..text.len() {
            let mut written = Vec::new();
            let mut clean = Clean::new(&mut written);
            text.as_bytes().chunks(piece).for_each(|piece| clean.write_all(piece).unwrap());
            drop(clean);
            assert_eq!(String::from_utf8(written).unwrap(), expected, "{piece}");
        }
    }

    #[test]
    fn an_event_is_one_line_of_the_log() {
        let mut written = Vec::new();
        Lines(&mut written)
            .write_all(b"WARN no answer: x\n2026 ERROR forged http://ann:s3cret@h\x1b]0;\x07\n")
            .unwrap();
        let expected = "WARN no answer: x\\n2026 ERROR forged http://…@h\u{fffd}]0;\u{fffd}\n";
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }

    #[test]
    fn addresses_lose_their_passwords() {
        for (text, expected) in [
            ("no answer from http://ann:s3cret@h:1/x, really", "no answer from http://…@h:1/x, really"),
            ("'https://u:s3c@ret@h' and postgres://u:s3cret@db/x?y", "'https://…@h' and postgres://…@db/x?y"),
            ("http://h/a@b sqlite:x", "http://h/a@b sqlite:x"),
            ("ann@example.org", "ann@example.org"),
        ] {
            assert_eq!(without_passwords(text), expected);
        }
    }
}
