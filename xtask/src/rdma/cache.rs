//! `target/rdma/`: what is kept between runs, and the folders of runs. Several runs may use it at once: what is made appears under its
//! name as a whole, and nothing is changed after that.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};

use crate::process::target_dir;

/// Initial file systems that are kept: one for each set of programs that somebody works with.
const KEPT_IMAGES: usize = 6;

/// The cache.
pub(super) fn folder() -> Result<PathBuf> {
    let folder = target_dir().join("rdma");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// A folder of this process's own; goes with this value. Those of processes that were killed are taken away by the next.
#[derive(Debug)]
pub(super) struct Fresh(pub(super) PathBuf, File);

impl Fresh {
    /// `name` says what it is for.
    pub(super) fn folder(name: &str) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        sweep()?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = folder()?.join(format!("{RUN}{name}-{}-{number}", std::process::id()));
        let lock = File::create(path.with_extension(LOCK)).context("cannot make a lock")?;
        lock.lock().context("cannot lock")?;
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path, lock))
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
        let _ = fs::remove_file(self.0.with_extension(LOCK));
        let _ = self.1.unlock();
    }
}

/// Takes away the folders of processes that are gone: whose lock is free.
fn sweep() -> Result<()> {
    for entry in fs::read_dir(folder()?)?.flatten() {
        let path = entry.path();
        let is_lock = path.extension().is_some_and(|extension| extension == LOCK);
        if is_lock && File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(path.with_extension(""));
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}

/// Gives what was made its name; if another run was first, its one stays.
pub(super) fn settle(made: &Path, name: &Path) -> Result<()> {
    match fs::rename(made, name) {
        Err(_) if name.exists() => Ok(()),
        renamed => renamed.with_context(|| format!("cannot make {}", name.display())),
    }
}

/// Removes the oldest of the files whose names begin so, but for [`KEPT_IMAGES`].
pub(super) fn bound(prefix: &str) -> Result<()> {
    let is_one = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)) && path.is_file()
    };
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder()?)?.flatten().map(|entry| entry.path()).filter(is_one).collect();
    files.sort_by_key(|path| path.metadata().and_then(|about| about.modified()).ok());
    let n_old = files.len().saturating_sub(KEPT_IMAGES);
    files.iter().take(n_old).for_each(|path| drop(fs::remove_file(path)));
    Ok(())
}

const RUN: &str = "run-";
const LOCK: &str = "lock";
