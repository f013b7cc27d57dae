//! Texts as words, and how one differs from another.
//!
//! A word is a run of letters and digits, or one other byte. A difference is, for each run of words that are not the
//! same: the words before it that are, the words in it, and their bytes. Of each word, twice its length and its bytes; or of
//! a number below 2^64, one more than twice the number of its bytes, and these, little-endian.

/// What is still to be read.
#[derive(Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    /// The next number.
    pub(crate) fn number(&mut self) -> Option<usize> {
        let mut number = 0_u64;
        for shift in (0..63).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return usize::try_from(number).ok();
            }
        }
        None
    }

    /// The next `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next bytes with their length before them.
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.number()?;
        self.take(len)
    }
}

/// Appends a number as LEB128.
pub(crate) fn put(bytes: &mut Vec<u8>, mut number: usize) {
    while number > 0x7f {
        bytes.push(0x80 | (number & 0x7f).to_le_bytes()[0]);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

/// Appends bytes after their length.
pub(crate) fn put_bytes(bytes: &mut Vec<u8>, more: &[u8]) {
    put(bytes, more.len());
    bytes.extend_from_slice(more);
}

/// The words of a text.
pub(crate) fn split(text: &[u8]) -> Vec<&[u8]> {
    text.chunk_by(|one, other| one.is_ascii_alphanumeric() && other.is_ascii_alphanumeric()).collect()
}

/// How `text` differs from `from`; nothing where they have not as many words.
pub(crate) fn difference(from: &[&[u8]], text: &[&[u8]]) -> Option<Vec<u8>> {
    if from.len() != text.len() {
        return None;
    }
    let (mut bytes, mut same) = (Vec::new(), 0);
    let pairs: Vec<(&[u8], &[u8])> = from.iter().copied().zip(text.iter().copied()).collect();
    for run in pairs.chunk_by(|one, other| (one.0 == one.1) == (other.0 == other.1)) {
        if run[0].0 == run[0].1 {
            same = run.len();
            continue;
        }
        put(&mut bytes, same);
        put(&mut bytes, run.len());
        run.iter().for_each(|(_, word)| put_word(&mut bytes, word));
        same = 0;
    }
    Some(bytes)
}

/// The number that a word writes, without zeros before it.
fn number(word: &[u8]) -> Option<u64> {
    let number: u64 = std::str::from_utf8(word).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == word).then_some(number)
}

fn put_word(bytes: &mut Vec<u8>, word: &[u8]) {
    if let Some(number) = number(word) {
        let number = number.to_le_bytes();
        let len = number.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        put(bytes, 2 * len + 1);
        bytes.extend_from_slice(&number[..len]);
    } else {
        put(bytes, 2 * word.len());
        bytes.extend_from_slice(word);
    }
}

fn read_word(reader: &mut Reader<'_>, text: &mut Vec<u8>) -> Option<()> {
    let told = reader.number()?;
    let word = reader.take(told / 2)?;
    if told % 2 == 0 {
        text.extend_from_slice(word);
    } else {
        let mut number = [0; 8];
        number.get_mut(..word.len())?.copy_from_slice(word);
        text.extend_from_slice(u64::from_le_bytes(number).to_string().as_bytes());
    }
    Some(())
}

/// The text that differs so from `from`.
pub(crate) fn apply(from: &[u8], difference: &[u8]) -> Option<Vec<u8>> {
    let mut from = split(from).into_iter();
    let mut reader = Reader(difference);
    let mut text = Vec::new();
    while !reader.0.is_empty() {
        for _ in 0..reader.number()? {
            text.extend_from_slice(from.next()?);
        }
        for _ in 0..reader.number()? {
            from.next()?;
            read_word(&mut reader, &mut text)?;
        }
    }
    text.extend(from.flatten());
    Some(text)
}
