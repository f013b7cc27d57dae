//! What every encoded gradient begins with, and what can be wrong with one.
//!
//! Three bytes `RSG`, one for the codec, four for the count of elements. Numbers are little-endian; 16-bit floats are in
//! the machine's order, as elements are in every collective.

/// Bytes before a codec's own.
pub const HEADER_BYTES: usize = 8;

const MAGIC: [u8; 3] = *b"RSG";

/// A codec's tag in headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// IEEE 754 binary16.
    F16,
    /// The upper half of an `f32`.
    Bf16,
    /// Signs and one scale.
    OneBit,
    /// The largest magnitudes.
    TopK,
    /// Rows that have anything.
    Rows,
}

/// What an encoded gradient says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its codec.
    pub kind: Kind,
    /// Elements of the gradient.
    pub elements: usize,
}

/// Why a gradient was not encoded, or bytes were not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// More elements than the header can count.
    #[error("a gradient of {elements} elements is too long to encode: a part has 2^32 - 1 at most")]
    TooMany {
        /// Of the gradient.
        elements: usize,
    },
    /// The bytes are something else.
    #[error("not an encoded gradient: it begins with {found:02x?}, not with \"RSG\"")]
    Magic {
        /// The first bytes.
        found: [u8; 3],
    },
    /// A codec that this build does not know.
    #[error("an encoded gradient of unknown codec {tag}")]
    UnknownCodec {
        /// In the header.
        tag: u8,
    },
    /// Another codec's bytes.
    #[error("a gradient encoded as {found}, where {expected} is set: give all processes the same codec")]
    WrongCodec {
        /// The one that was asked to decode.
        expected: Kind,
        /// The one in the header.
        found: Kind,
    },
    /// A gradient of another length.
    #[error("an encoded gradient of {found} elements for a part of {expected}")]
    WrongElements {
        /// The caller's.
        expected: usize,
        /// In the header.
        found: usize,
    },
    /// Bytes are missing.
    #[error("an encoded gradient is cut off: {found} bytes of {expected}")]
    Truncated {
        /// By what it says of itself so far.
        expected: usize,
        /// As given.
        found: usize,
    },
    /// There are more bytes than it says.
    #[error("an encoded gradient of {expected} bytes is followed by {} more", found - expected)]
    Trailing {
        /// By what it says of itself.
        expected: usize,
        /// As given.
        found: usize,
    },
    /// `one-bit`: a scale that is no mean of magnitudes.
    #[error("an encoded gradient has the negative scale {scale_bits:#010x}")]
    NegativeScale {
        /// Bits of the `f32`.
        scale_bits: u32,
    },
    /// `one-bit`: signs of elements that there are not.
    #[error("an encoded gradient has signs beyond its last element: its last byte is {last:#04x}")]
    SignsBeyond {
        /// The last byte.
        last: u8,
    },
    /// `top-k`: more values than elements.
    #[error("an encoded gradient has {values} values for {elements} elements")]
    TooManyValues {
        /// In the bytes.
        values: usize,
        /// Of the gradient.
        elements: usize,
    },
    /// `top-k`, `rows`: a value for an element, or a row, that there is not.
    #[error("index {position} of an encoded gradient is {index}, and there are {elements}")]
    IndexOutOfRange {
        /// Of the index among all, from 0.
        position: usize,
        /// Of an element, or a row, from 0.
        index: usize,
        /// Of the gradient: elements, or rows.
        elements: usize,
    },
    /// `top-k`, `rows`: indices do not ascend, so an element or a row may be there twice.
    #[error("index {position} of an encoded gradient is {index}, after {before}: they must ascend")]
    IndexOrder {
        /// Of the index among all, from 0.
        position: usize,
        /// Of an element, or a row, from 0.
        index: usize,
        /// The one before it.
        before: usize,
    },
    /// `rows`: rows of another length.
    #[error(
        "an encoded gradient has rows of {found} elements, where {expected} are set: give all processes the same codec"
    )]
    OtherRows {
        /// The caller's.
        expected: u32,
        /// In the bytes.
        found: u32,
    },
    /// `rows`: more of them than there are.
    #[error("an encoded gradient has {found} rows of {most}")]
    TooManyRows {
        /// In the bytes.
        found: usize,
        /// Of the gradient.
        most: usize,
    },
}

impl Kind {
    const ALL: [Self; 5] = [Self::F16, Self::Bf16, Self::OneBit, Self::TopK, Self::Rows];

    fn tag(self) -> u8 {
        match self {
            Self::F16 => 1,
            Self::Bf16 => 2,
            Self::OneBit => 3,
            Self::TopK => 4,
            Self::Rows => 5,
        }
    }

    fn from_tag(tag: u8) -> Result<Self, CodecError> {
        Self::ALL.into_iter().find(|kind| kind.tag() == tag).ok_or(CodecError::UnknownCodec { tag })
    }

    /// Its name in settings and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::OneBit => "one-bit",
            Self::TopK => "top-k",
            Self::Rows => "rows",
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Header {
    /// Reads the header of an encoded gradient, whose codec may be any.
    ///
    /// # Errors
    /// The bytes are too few, something else, or of an unknown codec.
    pub fn read(encoded: &[u8]) -> Result<Self, CodecError> {
        let Some(&[a, b, c, tag, d, e, f, g]) = encoded.first_chunk::<HEADER_BYTES>() else {
            return Err(CodecError::Truncated { expected: HEADER_BYTES, found: encoded.len() });
        };
        if [a, b, c] != MAGIC {
            return Err(CodecError::Magic { found: [a, b, c] });
        }
        Ok(Self { kind: Kind::from_tag(tag)?, elements: u32::from_le_bytes([d, e, f, g]) as usize })
    }

    /// Appends the header, and makes room for what follows it.
    pub(super) fn write(self, encoded_bytes: usize, into: &mut Vec<u8>) -> Result<(), CodecError> {
        let elements =
            u32::try_from(self.elements).map_err(|_| CodecError::TooMany { elements: self.elements })?;
        into.reserve(encoded_bytes);
        into.extend_from_slice(&MAGIC);
        into.push(self.kind.tag());
        into.extend_from_slice(&elements.to_le_bytes());
        Ok(())
    }

    /// What follows the header, if that is this one.
    pub(super) fn strip(self, encoded: &[u8]) -> Result<&[u8], CodecError> {
        let found = Self::read(encoded)?;
        if found.kind != self.kind {
            return Err(CodecError::WrongCodec { expected: self.kind, found: found.kind });
        }
        if found.elements != self.elements {
            return Err(CodecError::WrongElements { expected: self.elements, found: found.elements });
        }
        Ok(encoded.get(HEADER_BYTES..).unwrap_or_default())
    }
}

/// Whether an encoded gradient has the bytes that it should have.
pub(super) fn check_bytes(expected: usize, found: usize) -> Result<(), CodecError> {
    match found.cmp(&expected) {
        std::cmp::Ordering::Less => Err(CodecError::Truncated { expected, found }),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(CodecError::Trailing { expected, found }),
    }
}

/// Whether indices ascend, and all are below the count of elements, or of rows.
pub(super) fn check_indices(indices: impl Iterator<Item = usize>, elements: usize) -> Result<(), CodecError> {
    let mut before = None;
    for (position, index) in indices.enumerate() {
        if index >= elements {
            return Err(CodecError::IndexOutOfRange { position, index, elements });
        }
        if let Some(before) = before.filter(|before| *before >= index) {
            return Err(CodecError::IndexOrder { position, index, before });
        }
        before = Some(index);
    }
    Ok(())
}
