//! Text in UTF-16, as PowerShell's `>` and Windows' editors write it, as UTF-8. Known by its byte order mark.

use std::io::{self, BufRead, BufReader, Read};

/// The bytes as UTF-8, if they begin with a byte order mark of UTF-16; else as they are.
pub(super) fn decoded<'r>(bytes: Box<dyn Read + 'r>) -> io::Result<Box<dyn Read + 'r>> {
    let mut bytes = BufReader::new(bytes);
    let is_big = match bytes.fill_buf()? {
        [0xff, 0xfe, ..] => false,
        [0xfe, 0xff, ..] => true,
        _ => return Ok(Box::new(bytes)),
    };
    bytes.consume(2);
    Ok(Box::new(Utf16::new(bytes, is_big)))
}

struct Utf16<R> {
    from: R,
    is_big: bool,
    /// The first byte of a unit whose second has not come.
    odd: Option<u8>,
    /// The first unit of a pair whose second has not come.
    first: Option<u16>,
    text: Vec<u8>,
    /// Bytes of it that were handed on.
    taken: usize,
}

impl<R: BufRead> Utf16<R> {
    fn new(from: R, is_big: bool) -> Self {
        Self { from, is_big, odd: None, first: None, text: Vec::new(), taken: 0 }
    }

    /// Decodes what is there. Returns whether there was anything.
    fn decode(&mut self) -> io::Result<bool> {
        self.text.clear();
        self.taken = 0;
        let bytes = self.from.fill_buf()?;
        let n = bytes.len();
        let mut units = Vec::with_capacity(n / 2 + 2);
        units.extend(self.first.take());
        let mut odd = self.odd.take();
        for byte in bytes {
            match odd.take() {
                None => odd = Some(*byte),
                Some(first) if self.is_big => units.push(u16::from_be_bytes([first, *byte])),
                Some(first) => units.push(u16::from_le_bytes([first, *byte])),
            }
        }
        if n > 0 {
            self.first = units.pop_if(|unit| (0xd800..0xdc00).contains(unit));
        }
        self.odd = odd;
        self.from.consume(n);
        let text: String =
            char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        self.text = text.into_bytes();
        Ok(n > 0 || !self.text.is_empty())
    }
}

impl<R: BufRead> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.text.len() {
            if !self.decode()? {
                return Ok(0);
            }
        }
        let left = &self.text[self.taken..];
        let n = left.len().min(buffer.len());
        buffer[..n].copy_from_slice(&left[..n]);
        self.taken += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands on one byte at a time.
    struct Slow<'b>(&'b [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let n = self.0.len().min(1).min(buffer.len());
            buffer[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn text(bytes: &[u8]) -> String {
        let mut text = String::new();
        decoded(Box::new(bytes)).unwrap().read_to_string(&mut text).unwrap();
        let mut slowly = String::new();
        let mut slow = Utf16::new(BufReader::with_capacity(1, Slow(bytes)), false);
        if bytes.starts_with(&[0xff, 0xfe]) {
            slow.read_to_string(&mut slowly).unwrap();
            assert_eq!(slowly.trim_start_matches('\u{feff}'), text, "by piece");
        }
        text
    }

    #[test]
    fn both_orders_are_read_and_anything_else_is_left() {
        let said = "node0 é \u{1f600}\r\n";
        let of = |bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
            std::iter::once(0xfeff).chain(said.encode_utf16()).flat_map(bytes).collect()
        };
        assert_eq!(text(&of(u16::to_le_bytes)), said);
        assert_eq!(text(&of(u16::to_be_bytes)), said);
        assert_eq!(text(said.as_bytes()), said);
        assert_eq!(text(b""), "");
        assert_eq!(text(b"\xff\xfea\x00b"), "a", "cut in a unit");
        assert_eq!(text(b"\xff\xfe\x00\xd8"), "\u{fffd}", "cut in a pair");
    }
}
