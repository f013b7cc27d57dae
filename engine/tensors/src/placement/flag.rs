//! Flags: one word that says which transfer is there, and up to which one its sender is done with what it received.
//!
//! A number and not a boolean: with a boolean a receiver that is late by two transfers takes the second one for the first.

/// A flag's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flag {
    /// The transfer, from 1 on; it wraps around.
    pub sequence: u32,
    /// The last transfer that the flag's writer has released on the edges that this one tells of.
    pub released: u32,
}

impl Flag {
    /// As a word.
    pub fn to_word(self) -> u64 {
        u64::from(self.released) << 32 | u64::from(self.sequence)
    }

    /// Of a word.
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of a word")]
    pub fn from_word(word: u64) -> Self {
        Self { sequence: word as u32, released: (word >> 32) as u32 }
    }
}

/// The earlier of two numbers that wrap around and are close to each other.
pub fn earlier(one: u32, other: u32) -> u32 {
    if one.wrapping_sub(other) > u32::MAX / 2 { one } else { other }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_words_and_numbers_wrap_around() {
        let flag = Flag { sequence: u32::MAX, released: 7 };
        assert_eq!(Flag::from_word(flag.to_word()), flag);
        assert_eq!(
            (earlier(3, 5), earlier(5, 3), earlier(u32::MAX, 1), earlier(1, u32::MAX)),
            (3, 3, u32::MAX, u32::MAX)
        );
    }
}
