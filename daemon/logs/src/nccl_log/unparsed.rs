//! Counts the lines that no format fits, by shape, so that a new wording of the library shows.

use std::collections::{BTreeMap, HashMap};

/// Shapes told apart; the rest counts as [`OTHER`].
const MAX_SHAPES: usize = 64;
/// Characters of a message that make its shape.
const SHAPE_CHARS: usize = 40;
/// Shape of all that came after the table was full.
const OTHER: &str = "other";

/// Counts by shape.
#[derive(Debug, Default)]
pub(super) struct Unparsed {
    counts: HashMap<String, u64>,
    /// The shape under construction: most shapes have been seen, so that nothing is allocated for them.
    shape: String,
}

impl Unparsed {
    pub(super) fn count(&mut self, message: &str) {
        shape(message, &mut self.shape);
        if let Some(count) = self.counts.get_mut(&self.shape) {
            *count += 1;
        } else if self.counts.len() < MAX_SHAPES {
            self.counts.insert(self.shape.clone(), 1);
        } else {
            *self.counts.entry(OTHER.to_owned()).or_default() += 1;
        }
    }

    pub(super) fn by_shape(&self) -> BTreeMap<String, u64> {
        self.counts.iter().map(|(shape, count)| (shape.clone(), *count)).collect()
    }
}

/// The beginning of a message with every word that has a digit replaced by `#`.
fn shape(message: &str, shape: &mut String) {
    shape.clear();
    for word in message.split_ascii_whitespace() {
        if !shape.is_empty() {
            shape.push(' ');
        }
        shape.push_str(if word.bytes().any(|byte| byte.is_ascii_digit()) { "#" } else { word });
        if shape.len() >= SHAPE_CHARS {
            break;
        }
    }
    shape.truncate(shape.floor_char_boundary(SHAPE_CHARS));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_few_and_counted() {
        let mut unparsed = Unparsed::default();
        unparsed.count("Mem Realloc old size 0, new size 256 pointer 0x1494ab556fd0");
        unparsed.count("Mem Realloc old size 7, new size 9 pointer 0x14");
        assert_eq!(unparsed.by_shape().len(), 1);
        for n in 0..1000_u32 {
            let letters: String = n.to_string().chars().map(|c| char::from(c as u8 + 50)).collect();
            unparsed.count(&letters);
        }
        assert_eq!(unparsed.by_shape().len(), MAX_SHAPES + 1);
        assert_eq!(unparsed.by_shape().values().sum::<u64>(), 1002);
    }
}
