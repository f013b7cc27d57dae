//! Why a file could not be read.

use std::io;

use ringscope_logs::nccl_xml::XmlError;

/// Why one file could not be read to its end. The others still are. Nothing of the file is repeated: it may be anybody's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// The system, or the packing.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// A document that has to be in memory as a whole, and is too large for that.
    #[error(
        "is larger than {} MiB, which is the most that is read of a document of this kind",
        crate::source::MAX_DOCUMENT_BYTES >> 20
    )]
    TooLarge,
    /// JSON that is cut or garbled.
    #[error("is no whole JSON document that can be read, by line {} at column {}", .0.line(), .0.column())]
    Json(#[from] serde_json::Error),
    /// A pickle that is cut, garbled, or holds more than data.
    #[error("is no pickle that can be read: {0}")]
    Pickle(#[from] crate::pickle::PickleError),
    /// XML that is cut, garbled, or not NCCL's.
    #[error("is no XML of NCCL: {0}")]
    Xml(#[from] XmlError),
    /// A document that lacks what its kind must have.
    #[error("lacks {0}")]
    Lacks(&'static str),
}
