//! Why a command was not started, or is not watched.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use super::shim::ShimError;
use crate::embedded::LibraryError;

/// Why the command was not started, or is not watched.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The collector could not be had.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// What `--shim` names is no library.
    #[error(transparent)]
    Shim(#[from] ShimError),
    /// The folder for segments cannot be used.
    #[error("cannot use {dir} for segments and logs: {source}; make it writable or name another with --dir")]
    Dir {
        /// The folder.
        dir: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The loader would take the path for two.
    #[error(
        "cannot preload {path}: LD_PRELOAD cannot hold a path with a space or a colon; use another --cache-dir"
    )]
    Unloadable {
        /// The file.
        path: PathBuf,
    },
    /// Nothing that starts now can be watched.
    #[error("nothing that starts now would be watched, because {lack}")]
    Unwatched {
        /// What the folder of segments lacks, and what to do.
        lack: String,
    },
    /// The command itself cannot be executed.
    #[error("cannot execute {command:?}: {source}; is it installed, executable and in PATH?")]
    Exec {
        /// Its first word.
        command: OsString,
        /// Why not.
        source: io::Error,
    },
}

impl RunError {
    /// Whether the user has to name another in an option.
    pub(super) fn is_wrong_option(&self) -> bool {
        matches!(self, Self::Shim(_))
    }

    /// The exit status that tells it: for the command as shells and `env` have it, 1 for what is ringscope's.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Exec { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::Exec { .. } => 126,
            Self::Shim(_) => 64,
            // The command has been started.
            Self::Library(_) | Self::Dir { .. } | Self::Unloadable { .. } | Self::Unwatched { .. } => 1,
        }
    }
}
