//! Connections as every version since 2.7 words them, read without the table, whose answer this must not differ from.

use super::{Direction, Ends, Message, via};

/// Reads `Channel 00/0 : 3[3] -> 4[4] [send] via …` and, up to 2.11, `Channel 00 : …`. `None`: ask the table.
pub(super) fn message(text: &str) -> Option<Message> {
    let (channel, rest) = number(text.strip_prefix("Channel ")?)?;
    let (index, rest) = match rest.strip_prefix('/') {
        Some(rest) => number(rest)?,
        None => (0, rest),
    };
    let (from, rest) = number(rest.strip_prefix(" : ")?)?;
    let (of_from, rest) = brackets(rest)?;
    let (to, rest) = number(rest.strip_prefix(" -> ")?)?;
    let (of_to, rest) = brackets(rest)?;
    let (direction, path) = if let Some(path) = rest.strip_prefix(" via ") {
        (Direction::Both, path)
    } else if let Some(path) = rest.strip_prefix(" [send] via ") {
        (Direction::Send, path)
    } else {
        (Direction::Receive, rest.strip_prefix(" [receive] via ")?)
    };
    let own = if direction == Direction::Receive { of_to } else { of_from };
    via(Ends { channel, index, from, to, direction }, own, path)
}

/// A number of at most nine digits, and what follows it.
fn number(text: &str) -> Option<(u32, &str)> {
    let digits = text.bytes().take(10).take_while(u8::is_ascii_digit).count();
    if !(1..10).contains(&digits) {
        return None;
    }
    let number = text.bytes().take(digits).fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
    Some((number, &text[digits..]))
}

/// `[1b000]`, and what follows it.
fn brackets(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('[')?;
    let end = inner.bytes().position(|byte| !byte.is_ascii_hexdigit())?;
    Some((&inner[..end], inner[end..].strip_prefix(']')?))
}
