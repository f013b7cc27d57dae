//! Why an import came to nothing.

use std::io;

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
    Tls(#[from] ringscope_tls::TlsError),
    /// The terminal.
    #[error("cannot write the verdict: {0}")]
    Write(#[from] io::Error),
}
