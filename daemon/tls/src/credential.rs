//! The token with which commands and agents come to a daemon. Shown nowhere.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Where a token comes from.
#[derive(Clone, Eq, PartialEq)]
pub enum TokenSource {
    /// From a file, which may be replaced while the program runs.
    File(PathBuf),
    /// As it is.
    Given(String),
}

/// A token, read when it is first needed, and again when it has opened nothing.
#[derive(Clone)]
pub struct Credential {
    source: Option<TokenSource>,
    read: Arc<Mutex<Option<String>>>,
}

impl Credential {
    /// The token of `source`; `None`: there is none, and none is needed.
    pub fn new(source: Option<TokenSource>) -> Self {
        Self { source, read: Arc::default() }
    }

    /// The token, if there is one.
    ///
    /// # Errors
    /// Why the file has none, and what to do.
    pub fn token(&self) -> Result<Option<String>, String> {
        let Some(source) = &self.source else { return Ok(None) };
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.is_none() {
            *read = Some(source.read()?);
        }
        Ok(read.clone())
    }

    /// It has opened nothing: perhaps there is another one in its file by now.
    pub fn refused(&self) {
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl std::fmt::Debug for Credential {
    /// Shows no token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.source.fmt(f)
    }
}

impl TokenSource {
    /// The token.
    ///
    /// # Errors
    /// Why the file has none, and what to do.
    pub fn read(&self) -> Result<String, String> {
        let file = match self {
            Self::Given(token) => return Ok(token.clone()),
            Self::File(file) => file,
        };
        let said = |why: &str| format!("the token file {}: {why}", file.display());
        let mut text = String::new();
        let file = std::fs::File::open(file).map_err(|error| said(&error.to_string()))?;
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| said(&error.to_string()))?;
        let token = text.trim();
        if token.is_empty() || token.chars().any(|c| !c.is_ascii_graphic()) {
            return Err(said("expected one line with a token, as `ringscope token create` prints it"));
        }
        Ok(token.to_owned())
    }
}

/// A token has some hundred bytes; what goes on without end is none.
const FILE_BYTES_MAX: u64 = 64 << 10;

impl std::fmt::Debug for TokenSource {
    /// Shows no token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(file) => f.debug_tuple("File").field(file).finish(),
            Self::Given(_) => f.write_str("Given(..)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_token_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let source = TokenSource::File(path.clone());
        assert!(source.read().unwrap_err().contains(&path.display().to_string()));
        for (text, is_one) in [("rsc_1\n", true), ("", false), ("a b", false), ("one\ntwo\n", false)] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(source.read().is_ok(), is_one, "{text:?}");
        }
    }

    #[test]
    fn a_token_that_was_replaced_is_read_when_the_old_one_opens_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, "one\n").unwrap();
        let credential = Credential::new(Some(TokenSource::File(path.clone())));
        assert_eq!(credential.token(), Ok(Some("one".to_owned())));
        std::fs::write(&path, "two\n").unwrap();
        assert_eq!(credential.token(), Ok(Some("one".to_owned())));
        credential.refused();
        assert_eq!(credential.token(), Ok(Some("two".to_owned())));
        assert_eq!(Credential::new(None).token(), Ok(None));
    }
}
