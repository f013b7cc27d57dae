//! What goes wrong, and NCCL's number for it.

use nccl_net::{Code, INTERNAL_ERROR, INVALID_USAGE, REMOTE_ERROR, SYSTEM_ERROR};
use rsnet_connections::layout::OTHER_END;

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// NCCL's number.
    pub(crate) code: Code,
    /// What happened, where, and what to do.
    pub(crate) text: String,
    /// The verbs' own words in it, where there are any: for who knows the rest.
    pub(crate) words: Option<String>,
}

/// What a call gives.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// The system or the device refused something.
    pub(crate) fn system(text: impl Into<String>) -> Self {
        Self { code: SYSTEM_ERROR, text: text.into(), words: None }
    }

    /// The caller has broken the interface's rules.
    pub(crate) fn internal(text: impl Into<String>) -> Self {
        Self { code: INTERNAL_ERROR, text: text.into(), words: None }
    }

    /// The program or its settings are wrong.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self { code: INVALID_USAGE, text: text.into(), words: None }
    }

    /// The other end is gone or has failed.
    pub(crate) fn remote(text: impl Into<String>) -> Self {
        Self { code: REMOTE_ERROR, text: text.into(), words: None }
    }

    /// All that is known is what the other end did: `what` follows its name.
    pub(crate) fn of_other_end(who: &str, peer: &str, what: &str) -> Self {
        let words = Some(format!("{OTHER_END}{what}"));
        Self { words, ..Self::remote(format!("{who}: {peer} {what}")) }
    }

    /// Says also who meets it, and where.
    pub(crate) fn at(self, who: &str) -> Self {
        let text = format!("{who}: {}", self.text);
        Self { words: self.words.or(Some(self.text)), text, ..self }
    }

    /// Without who and where, as far as that can be told apart.
    pub(crate) fn words(&self) -> &str {
        self.words.as_deref().unwrap_or(&self.text)
    }
}

impl From<verbs::Error> for Failure {
    fn from(error: verbs::Error) -> Self {
        let text = error.to_string();
        Self { words: Some(text.clone()), ..Self::system(text) }
    }
}
