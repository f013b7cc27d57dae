//! Which codec, from a setting.

use std::num::NonZeroU32;
use std::str::FromStr;

use super::{Codec, Half, Kind, OneBit, Rows, TopK};

/// A codec by name: `f16`, `bf16`, `one-bit`, `top-k:` and a fraction, or `rows:` and the elements of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// IEEE 754 binary16.
    F16,
    /// The upper half of an `f32`.
    Bf16,
    /// Signs and one scale.
    OneBit,
    /// The largest magnitudes.
    TopK(Fraction),
    /// Rows of so many elements that have anything.
    Rows(NonZeroU32),
}

/// A share of the elements: above 0, at most 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fraction(f64);

// No NaN is a fraction.
impl Eq for Fraction {}

/// A setting that names no codec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseChoiceError {
    /// Not a name.
    #[error(
        "\"{found}\" is no codec: give f16, bf16, one-bit, top-k:<fraction>, such as top-k:0.01, or rows:<elements of a row>"
    )]
    Name {
        /// The setting.
        found: String,
    },
    /// Not a fraction.
    #[error("\"top-k:{found}\": the fraction must be a number above 0 and at most 1, such as top-k:0.01")]
    Fraction {
        /// What follows the colon.
        found: String,
    },
    /// No length of a row.
    #[error("\"rows:{found}\": a row has 1 to 2^32 - 1 elements, such as rows:64")]
    Row {
        /// What follows the colon.
        found: String,
    },
}

impl Choice {
    /// The codec itself.
    #[must_use]
    pub fn codec(self) -> Box<dyn Codec> {
        match self {
            Self::F16 => Box::new(Half::F16),
            Self::Bf16 => Box::new(Half::BF16),
            Self::OneBit => Box::new(OneBit),
            Self::TopK(fraction) => Box::new(TopK::new(fraction)),
            Self::Rows(width) => Box::new(Rows::new(width)),
        }
    }

    /// Whether one round's error is so large that it has to be fed back into the next: [`super::Feedback`].
    #[must_use]
    pub fn wants_feedback(self) -> bool {
        match self {
            Self::F16 | Self::Bf16 | Self::Rows(_) => false,
            Self::OneBit | Self::TopK(_) => true,
        }
    }

    /// Whether all encoded gradients of as many elements have as many bytes; otherwise that is the most they have.
    #[must_use]
    pub fn has_one_length(self) -> bool {
        !matches!(self, Self::Rows(_))
    }

    /// Elements that belong together: a part holds as many as fit, whole.
    #[must_use]
    pub fn grain(self) -> u64 {
        if let Self::Rows(width) = self { u64::from(width.get()) } else { 1 }
    }
}

impl FromStr for Choice {
    type Err = ParseChoiceError;

    fn from_str(text: &str) -> Result<Self, ParseChoiceError> {
        if let Some(fraction) = text.strip_prefix("top-k:") {
            let parsed = fraction.parse().ok().and_then(Fraction::new);
            return parsed
                .map(Self::TopK)
                .ok_or_else(|| ParseChoiceError::Fraction { found: fraction.to_owned() });
        }
        if let Some(width) = text.strip_prefix("rows:") {
            return width
                .parse()
                .map(Self::Rows)
                .map_err(|_| ParseChoiceError::Row { found: width.to_owned() });
        }
        [Self::F16, Self::Bf16, Self::OneBit]
            .into_iter()
            .find(|choice| choice.to_string() == text)
            .ok_or_else(|| ParseChoiceError::Name { found: text.to_owned() })
    }
}

impl std::fmt::Display for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::F16 => Kind::F16.fmt(f),
            Self::Bf16 => Kind::Bf16.fmt(f),
            Self::OneBit => Kind::OneBit.fmt(f),
            Self::TopK(Fraction(fraction)) => write!(f, "{}:{fraction}", Kind::TopK),
            Self::Rows(width) => write!(f, "{}:{width}", Kind::Rows),
        }
    }
}

impl Fraction {
    /// None of a number that is no such share.
    #[must_use]
    pub fn new(fraction: f64) -> Option<Self> {
        (fraction > 0.0 && fraction <= 1.0).then_some(Self(fraction))
    }

    /// The share of so many elements, rounded; at least one, if there is one.
    #[must_use]
    pub fn of(self, elements: usize) -> usize {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "rounding is the purpose, and neither factor is negative"
        )]
        let share = (elements as f64 * self.0).round() as usize;
        share.max(1).min(elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written_alike() {
        for text in ["f16", "bf16", "one-bit", "top-k:0.01", "top-k:1", "rows:64"] {
            let choice: Choice = text.parse().unwrap();
            assert_eq!(choice.to_string(), text);
            assert_eq!(choice.codec().kind().name(), text.split(':').next().unwrap());
        }
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_right_ones() {
        let error = "zip".parse::<Choice>().unwrap_err().to_string();
        assert_eq!(
            error,
            "\"zip\" is no codec: give f16, bf16, one-bit, top-k:<fraction>, such as top-k:0.01, or rows:<elements of a row>"
        );
        for text in ["", "F16", "top-k", "f16 "] {
            assert!(matches!(text.parse::<Choice>(), Err(ParseChoiceError::Name { .. })), "{text}");
        }
        for text in ["top-k:", "top-k:0", "top-k:-0.1", "top-k:1.01", "top-k:nan", "top-k:1%"] {
            assert!(matches!(text.parse::<Choice>(), Err(ParseChoiceError::Fraction { .. })), "{text}");
        }
        for text in ["rows:", "rows:0", "rows:-1", "rows:1.5", "rows:4294967296"] {
            assert!(matches!(text.parse::<Choice>(), Err(ParseChoiceError::Row { .. })), "{text}");
        }
    }

    #[test]
    fn a_share_is_rounded_and_never_empty() {
        let of = |fraction, elements| Fraction::new(fraction).unwrap().of(elements);
        let got = [of(0.01, 100), of(0.07, 100), of(0.01, 1_024_000), of(1e-9, 5), of(1.0, 7), of(0.5, 0)];
        assert_eq!(got, [1, 7, 10_240, 1, 7, 0]);
    }
}
