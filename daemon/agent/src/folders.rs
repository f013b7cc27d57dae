//! The folders that an agent needs, made where they are not there.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::beneath::FileId;
use super::error::AgentError;
use crate::shared_dir;

/// Those of segments and of batches that wait.
pub(super) fn prepare(dir: &Path, state_dir: &Path) -> Result<(), AgentError> {
    prepare_dir(dir)?;
    let wrong = |source| AgentError::StateDir { path: state_dir.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(state_dir).map_err(wrong)
}

/// That of segments, which the agent must be able to list and write in.
pub(super) fn prepare_dir(dir: &Path) -> Result<(), AgentError> {
    let wrong = |source| AgentError::Dir { path: dir.to_owned(), source };
    shared_dir::create(dir).map_err(wrong)?;
    std::fs::read_dir(dir).map_err(wrong)?;
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(dir, access).map_err(|error| wrong(error.into()))
}

/// The folder of segments that a confined agent may write in: that one, and no other that gets its name later.
#[derive(Debug)]
pub(super) struct Held {
    dir: PathBuf,
    is: Option<FileId>,
}

impl Held {
    pub(super) fn to(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), is: id(dir) }
    }

    /// Whether another folder has its name by now. While there is none, one may still come back.
    pub(super) fn is_lost(&self) -> bool {
        id(&self.dir).is_some_and(|now| Some(now) != self.is)
    }

    /// [`AgentError::DirReplaced`] where it is lost.
    pub(super) fn or_lost(self) -> Result<(), AgentError> {
        if self.is_lost() { Err(AgentError::DirReplaced(self.dir)) } else { Ok(()) }
    }
}

fn id(dir: &Path) -> Option<FileId> {
    // Who owns it may change: root takes it over.
    dir.metadata().ok().map(|folder| FileId { owner: 0, ..FileId::of(&folder) })
}
