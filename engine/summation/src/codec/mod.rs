//! Codecs: gradients in fewer bytes, for links that are slower than the processors at their ends.
//!
//! n elements, k the kept ones, H = 8 bytes of header:
//!
//! | codec | what is kept | bytes | error |
//! |---|---|---|---|
//! | `f16` | 11 significant bits | H + 2n | at most 2^-11 \|x\| from 2^-14 to 65 504; at most 2^-25 below; infinite above |
//! | `bf16` | 8 significant bits | H + 2n | at most 2^-8 \|x\| from 2^-126 on |
//! | `one-bit` | signs, and the mean of \|x\| | H + 4 + ⌈n/8⌉ | unbounded for one round: see [`Feedback`] |
//! | `top-k` | the k largest magnitudes | H + 4 + 8k | what was left out: see [`Feedback`] |
//! | `rows` | rows of w elements, r of which have anything | H + 8 + 4r(1 + w), at most H + 8 + 4n | none |
//!
//! An encoded gradient says which codec made it and how many elements it has, and is refused where it does not fit: by
//! an error that says what was wrong, with nothing written. Bytes may come from anywhere.
//!
//! A NaN or an infinity is never lost silently: halves and `top-k` keep it where it was (`top-k`: the first k of them,
//! NaNs before infinities), `rows` loses nothing, `one-bit` makes the whole part NaN or infinite. Whoever looks for such values before a step,
//! as mixed precision does, finds them after the sum too.

mod choice;
mod feedback;
mod form;
mod half;
mod one_bit;
mod rows;
#[cfg(test)]
mod tests;
mod top_k;

pub use choice::{Choice, Fraction, ParseChoiceError};
pub use feedback::Feedback;
pub use form::{CodecError, HEADER_BYTES, Header, Kind};
pub use half::Half;
pub use one_bit::OneBit;
pub use rows::Rows;
pub use top_k::TopK;

/// One way to encode the gradient of one part.
pub trait Codec: std::fmt::Debug + Send + Sync {
    /// Which one, as headers have it.
    fn kind(&self) -> Kind;

    /// Bytes of an encoded gradient of so many elements, header included; at most, of rows.
    fn encoded_bytes(&self, elements: usize) -> usize;

    /// Appends the encoded gradient: [`Codec::encoded_bytes`] of its length, of rows no more, the same ones for the same bits.
    ///
    /// # Errors
    /// [`CodecError::TooMany`]; `into` is then as it was.
    fn encode(&self, gradient: &[f32], into: &mut Vec<u8>) -> Result<(), CodecError>;

    /// The same of the gradient and a residual of its length, which becomes what is left out of their sum; it stays as it is
    /// where that or what is decoded has a NaN or an infinity.
    ///
    /// # Errors
    /// [`CodecError::TooMany`]; nothing is changed then.
    fn encode_fed(
        &self,
        gradient: &[f32],
        residual: &mut Vec<f32>,
        into: &mut Vec<u8>,
    ) -> Result<(), CodecError>;

    /// Writes the decoded gradient over `into`, which has as many elements.
    ///
    /// # Errors
    /// The bytes are no such gradient; `into` is then as it was.
    fn decode(&self, encoded: &[u8], into: &mut [f32]) -> Result<(), CodecError>;

    /// Adds the decoded gradient to `into` in `f32`, which has as many elements.
    ///
    /// # Errors
    /// As [`Codec::decode`].
    fn add(&self, encoded: &[u8], into: &mut [f32]) -> Result<(), CodecError>;
}

/// [`Codec::encode_fed`] for a codec that has no quicker way.
fn encode_fed_plainly(
    codec: &dyn Codec,
    gradient: &[f32],
    residual: &mut Vec<f32>,
    into: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let mut rest: Vec<f32> =
        gradient.iter().zip(&*residual).map(|(value, left_out)| value + left_out).collect();
    let start = into.len();
    codec.encode(&rest, into)?;
    let mut decoded = vec![0.0; rest.len()];
    codec.decode(into.get(start..).unwrap_or_default(), &mut decoded)?;
    rest.iter_mut().zip(&decoded).for_each(|(value, decoded)| *value -= decoded);
    if rest.iter().all(|value| value.is_finite()) {
        *residual = rest;
    }
    Ok(())
}
