//! Characters that nobody sees, and that let a text look like another one.

/// Whether it turns the direction of what follows.
pub const fn is_bidirectional(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether it takes no room. Two of them (U+200C, U+200D) belong to the writing of some languages, and to emoji.
const fn is_zero_width(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// Whether a name or a line may not have it.
pub fn is_odd(c: char) -> bool {
    c.is_control() || is_bidirectional(c) || is_zero_width(c) && !matches!(c, '\u{200c}' | '\u{200d}')
}

/// Whether a reader sees nothing of a text.
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || c.is_control() || is_bidirectional(c) || is_zero_width(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_odd_and_what_people_write_is_not() {
        for text in ["", " \t", "\u{200b}", "\u{200d}\u{2060}", "\u{202e}\u{feff}"] {
            assert!(is_blank(text), "{text:?}");
        }
        for text in ["trän-7", "می\u{200c}خواهم", "👩\u{200d}💻", "模型"] {
            assert!(!is_blank(text) && !text.chars().any(is_odd), "{text}");
        }
        for c in ['\0', '\u{1b}', '\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}', '\u{200b}', '\u{feff}'] {
            assert!(is_odd(c), "{c:?}");
        }
    }
}
