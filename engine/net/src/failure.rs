//! What goes wrong, and NCCL's number for it.

use nccl_net::{Code, INTERNAL_ERROR, INVALID_USAGE, REMOTE_ERROR, SYSTEM_ERROR};

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// NCCL's number.
    pub(crate) code: Code,
    /// What happened, where, and what to do.
    pub(crate) text: String,
}

/// What a call gives.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// The system or the device refused something.
    pub(crate) fn system(text: impl Into<String>) -> Self {
        Self { code: SYSTEM_ERROR, text: text.into() }
    }

    /// The caller has broken the interface's rules.
    pub(crate) fn internal(text: impl Into<String>) -> Self {
        Self { code: INTERNAL_ERROR, text: text.into() }
    }

    /// The program or its settings are wrong.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self { code: INVALID_USAGE, text: text.into() }
    }

    /// The other end is gone or has failed.
    pub(crate) fn remote(text: impl Into<String>) -> Self {
        Self { code: REMOTE_ERROR, text: text.into() }
    }
}

impl From<verbs::Error> for Failure {
    fn from(error: verbs::Error) -> Self {
        Self::system(error.to_string())
    }
}
