//! Files for TLS that cannot be used.

use std::path::PathBuf;

/// Why TLS cannot be spoken as the settings say it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// A file.
    #[error("{}: {reason}. {advice}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        reason: String,
        /// What to do.
        advice: &'static str,
    },
    /// Two files that are not of one pair.
    #[error(
        "the key in {} does not belong to the certificate in {}: give both of one pair, the host's own certificate first in its file",
        key.display(),
        cert.display()
    )]
    Mismatch {
        /// The certificate.
        cert: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// A certificate that has ended takes no other's place.
    #[error("{}: the certificate ended on {ended}. Give a new one", path.display())]
    Ended {
        /// Its file.
        path: PathBuf,
        /// When.
        ended: String,
    },
    /// A certificate without its key, or a key alone.
    #[error("{given} is given without {lacking}: give both, or neither")]
    Half {
        /// What there is.
        given: &'static str,
        /// What there is not.
        lacking: &'static str,
    },
    /// rustls or reqwest does not like what the files make together.
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}
