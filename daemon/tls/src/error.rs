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

impl TlsError {
    /// The same for who may not know where the daemon's files lie.
    #[must_use]
    pub fn without_paths(&self) -> String {
        match self {
            Self::File { reason, .. } => format!("{reason}. Whoever runs the daemon can mend it"),
            Self::Mismatch { .. } => {
                "the key does not belong to the certificate. Whoever runs the daemon can mend it".to_owned()
            }
            Self::Ended { ended, .. } => {
                format!("it ended on {ended}. Whoever runs the daemon can give a new one")
            }
            Self::Half { .. } | Self::Setup(_) => self.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_reads_what_is_wrong_and_no_path() {
        let (cert, key) =
            (PathBuf::from("/etc/ringscope/host.pem"), PathBuf::from("/etc/ringscope/host.key"));
        for error in [
            TlsError::File {
                path: cert.clone(),
                reason: "no certificate is in it".to_owned(),
                advice: "Give one",
            },
            TlsError::Mismatch { cert: cert.clone(), key },
            TlsError::Ended { path: cert, ended: "2026-01-31".to_owned() },
        ] {
            let words = error.without_paths();
            assert!(error.to_string().contains("/etc/ringscope") && !words.contains("/etc"), "{words}");
            assert!(words.contains("Whoever runs the daemon"), "{words}");
        }
    }
}
