//! Why an import came to nothing.

use std::io;

use crate::nccl_xml::XmlError;
use crate::serve::ServeError;

/// Why an import came to nothing. What is wrong with single files is in their reports instead.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The daemon that serves the import cannot.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// A daemon elsewhere did not take it.
    #[error("the daemon at {url} did not take the import: {reason}")]
    Refused {
        /// Address of the daemon.
        url: String,
        /// Why not.
        reason: String,
    },
    /// A daemon elsewhere did not answer.
    #[error("no answer from {url}: {reason}. Is `ringscope serve` running there?")]
    NoAnswer {
        /// Address of the daemon.
        url: String,
        /// Why not.
        reason: String,
    },
    /// Others would see it.
    #[error(
        "{0} can be reached from other machines, and an import that is served asks nobody who they are: to let whoever \
         reaches that address see all of it, say --insecure-open. On 127.0.0.1 nothing is needed, and --daemon sends it to a \
         daemon that has tokens"
    )]
    Open(String),
    /// A file for TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] crate::tls::TlsError),
    /// The terminal.
    #[error("cannot write the verdict: {0}")]
    Write(#[from] io::Error),
}

/// Why one file could not be read to its end. The others still are. Nothing of the file is repeated: it may be anybody's.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// The system, or the packing.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// A document that has to be in memory as a whole, and is too large for that.
    #[error(
        "is larger than {} MiB, which is the most that is read of a document of this kind",
        super::source::MAX_DOCUMENT_BYTES >> 20
    )]
    TooLarge,
    /// JSON that is cut or garbled.
    #[error("is no whole JSON document that can be read, by line {} at column {}", .0.line(), .0.column())]
    Json(#[from] serde_json::Error),
    /// A pickle that is cut, garbled, or holds more than data.
    #[error("is no pickle that can be read: {0}")]
    Pickle(#[from] super::pickle::PickleError),
    /// XML that is cut, garbled, or not NCCL's.
    #[error("is no XML of NCCL: {0}")]
    Xml(#[from] XmlError),
    /// A document that lacks what its kind must have.
    #[error("lacks {0}")]
    Lacks(&'static str),
}
