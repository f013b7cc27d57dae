//! Which codec, from a setting.

use std::str::FromStr;

use super::{Codec, Half, Kind, OneBit, TopK};

/// A codec by name: `f16`, `bf16`, `one-bit`, or `top-k:` and a fraction.
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
    #[error("\"{found}\" is no codec: give f16, bf16, one-bit or top-k:<fraction>, such as top-k:0.01")]
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
        }
    }

    /// Whether one round's error is so large that it has to be fed back into the next: [`super::Feedback`].
    #[must_use]
    pub fn wants_feedback(self) -> bool {
        match self {
            Self::F16 | Self::Bf16 => false,
            Self::OneBit | Self::TopK(_) => true,
        }
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
        for text in ["f16", "bf16", "one-bit", "top-k:0.01", "top-k:1"] {
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
            "\"zip\" is no codec: give f16, bf16, one-bit or top-k:<fraction>, such as top-k:0.01"
        );
        for text in ["", "F16", "top-k", "f16 "] {
            assert!(matches!(text.parse::<Choice>(), Err(ParseChoiceError::Name { .. })), "{text}");
        }
        for text in ["top-k:", "top-k:0", "top-k:-0.1", "top-k:1.01", "top-k:nan", "top-k:1%"] {
            assert!(matches!(text.parse::<Choice>(), Err(ParseChoiceError::Fraction { .. })), "{text}");
        }
    }

    #[test]
    fn a_share_is_rounded_and_never_empty() {
        let of = |fraction, elements| Fraction::new(fraction).unwrap().of(elements);
        let got = [of(0.01, 100), of(0.07, 100), of(0.01, 1_024_000), of(1e-9, 5), of(1.0, 7), of(0.5, 0)];
        assert_eq!(got, [1, 7, 10_240, 1, 7, 0]);
    }
}
