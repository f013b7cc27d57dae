//! JSON that is all in one line, as `aws logs` and log viewers export it: a line for each element of its arrays, so that
//! it can be read as a stream like any other log.

use std::io::{self, BufRead, BufReader, Read};

/// Bytes of a line beyond which JSON is taken apart; the reader of logs skips longer lines.
pub(super) const LONG_LINE_BYTES: usize = 16 * 1024;

/// Whether a text that begins so has to be taken apart: JSON with records in a line that is too long.
pub(super) fn is_one_line(head: &[u8]) -> bool {
    let begins = head.trim_ascii_start().first().is_some_and(|byte| b"[{".contains(byte));
    let line = memchr::memchr(b'\n', head).map_or(head, |end| &head[..end]);
    begins && line.len() > LONG_LINE_BYTES
}

/// The same bytes, with a line feed behind each comma that follows an object.
pub(super) struct Elements<R> {
    from: BufReader<R>,
    place: Place,
    /// A line feed is due.
    is_due: bool,
}

/// Where in the JSON a byte stands.
#[derive(Default)]
struct Place {
    in_string: bool,
    is_escaped: bool,
    after_object: bool,
}

impl<R: Read> Elements<R> {
    pub(super) fn new(from: R) -> Self {
        let from = BufReader::with_capacity(LONG_LINE_BYTES, from);
        Self { from, place: Place::default(), is_due: false }
    }
}

impl Place {
    /// Goes on by this byte. Returns whether an element ends with it.
    fn passes(&mut self, byte: u8) -> bool {
        if self.in_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return false;
        }
        let ends = byte == b',' && self.after_object;
        self.in_string = byte == b'"';
        self.after_object = byte == b'}' || self.after_object && byte.is_ascii_whitespace();
        ends
    }
}

impl<R: Read> Read for Elements<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(first) = buffer.first_mut() else { return Ok(0) };
        if std::mem::take(&mut self.is_due) {
            *first = b'\n';
            return Ok(1);
        }
        let chunk = self.from.fill_buf()?;
        let mut n = 0;
        for (to, byte) in buffer.iter_mut().zip(chunk) {
            *to = *byte;
            n += 1;
            self.is_due = self.place.passes(*byte);
            if self.is_due {
                break;
            }
        }
        self.from.consume(n);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_element_gets_a_line() {
        let text = r#"{"events":[{"m":"a },{ \" },{"},{"m":{"b":1}} , {"m":"c"}],"next":2}"#;
        let mut out = String::new();
        Elements::new(text.as_bytes()).read_to_string(&mut out).unwrap();
        let lines: Vec<&str> = out.lines().collect();
        let expected =
            [r#"{"events":[{"m":"a },{ \" },{"},"#, r#"{"m":{"b":1}} ,"#, r#" {"m":"c"}],"next":2}"#];
        assert_eq!(lines, expected);
    }

    #[test]
    fn only_long_lines_of_json_are_taken_apart() {
        let long = "x".repeat(LONG_LINE_BYTES);
        assert!(is_one_line(format!(" [{{\"m\": \"{long}\"}}").as_bytes()));
        assert!(!is_one_line(format!("{{}}\n{{\"m\": \"{long}\"}}").as_bytes()));
        assert!(!is_one_line(long.as_bytes()) && !is_one_line(b""));
    }
}
