//! The batches that an agent sends, as `proto/ringscope/v1/batch.proto` defines them, and their strict decoding.

#![expect(missing_docs, reason = "the generated types are documented in batch.proto")]

mod weight;

pub use weight::Scales;

use prost::Message as _;

include!(concat!(env!("OUT_DIR"), "/ringscope.v1.rs"));

/// The version of the format that this build writes and reads.
pub const FORMAT_VERSION: u32 = 2;

/// `Communicator.made_by` of the communicators that carry summation groups: the engine's function.
pub const MADE_BY_RSUM: &str = "rsum_init";

/// `Evidence.fact` of a line that says that a communicator was destroyed in good order: what was called in it has ended.
pub const FACT_DESTROYED: &str = "destroyed";

/// Why bytes are not a batch that this build can take.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BatchError {
    /// The bytes are not the protobuf message at all.
    #[error("not a ringscope batch: {0}")]
    Malformed(String),
    /// A batch of another version.
    #[error(
        "batch format version {found}, but this daemon reads version {FORMAT_VERSION}: upgrade the older of the two"
    )]
    UnknownVersion {
        /// What the batch says.
        found: u32,
    },
    /// It would take more memory than it may.
    #[error(
        "the batch would take more than {} MiB of memory already at byte {at}: send fewer processes at once",
        most_bytes >> 20
    )]
    TooHeavy {
        /// How far it was looked at.
        at: u64,
        /// How much it may take.
        most_bytes: u64,
    },
    /// A field that must be there is not.
    #[error("batch lacks {0}")]
    Missing(&'static str),
}

impl Batch {
    /// Decodes one batch and checks what every batch must have.
    ///
    /// # Errors
    /// A [`BatchError`] that says what is wrong; never panics, whatever the bytes.
    pub fn decode_checked(bytes: &[u8]) -> Result<Self, BatchError> {
        let batch = Self::decode(bytes).map_err(|error| BatchError::Malformed(error.to_string()))?;
        if batch.format_version != FORMAT_VERSION {
            return Err(BatchError::UnknownVersion { found: batch.format_version });
        }
        if batch.agent_id.is_empty() {
            return Err(BatchError::Missing("agent_id"));
        }
        if batch.seq_number == 0 {
            return Err(BatchError::Missing("seq_number"));
        }
        if batch.processes.iter().any(|process| process.key.is_empty()) {
            return Err(BatchError::Missing("the key of a process"));
        }
        Ok(batch)
    }
}

/// What a job is called that belongs to this user, where another user has a job of that name already.
#[must_use]
pub fn job_of(job: &str, user: u32) -> String {
    format!("{job}@user{user}")
}

impl From<crate::Primitive> for Primitive {
    fn from(primitive: crate::Primitive) -> Self {
        Self::try_from(primitive as i32 + 1).unwrap_or(Self::Unspecified)
    }
}

impl Primitive {
    /// The primitive as the rest of ringscope names it; `None` for a value from a newer agent.
    #[must_use]
    pub fn known(self) -> Option<crate::Primitive> {
        u8::try_from(self as i32 - 1).ok().and_then(crate::Primitive::from_index)
    }
}
