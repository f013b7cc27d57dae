//! The libraries as files, and their place in `LD_PRELOAD`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use ringscope_agent::refused;
use ringscope_wire::settings::is_sanitizer;

use super::error::RunError;
use super::library_folder;
use crate::embedded::{self, Library};

/// The libraries as files.
#[derive(Debug)]
pub(super) struct Unpacked {
    pub(super) folder: PathBuf,
    pub(super) collector: PathBuf,
    pub(super) preload: PathBuf,
}

impl Unpacked {
    /// In the first of these folders that they can be had in.
    pub(super) fn any(folders: &[PathBuf]) -> Result<Self, RunError> {
        let mut failed = None;
        for folder in folders {
            match Self::into(folder) {
                Ok(unpacked) => return Ok(unpacked),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| unreachable!("there is a folder")))
    }

    fn into(folder: &Path) -> Result<Self, RunError> {
        let collector = embedded::path_of(Library::Collector, folder)?;
        let preload = embedded::path_of(Library::Preload, folder)?;
        let unpacked = Self { folder: folder.to_owned(), collector, preload };
        preloaded(&[&unpacked.preload], None)?;
        // On a disk that several machines have, nobody knows who else uses what lies there.
        if refused::is_memory(folder) {
            let used = [unpacked.collector.as_path(), &unpacked.preload];
            library_folder::sweep(folder, &used, ringscope_api::clock::now());
        }
        Ok(unpacked)
    }
}

/// Whether a path that somebody inherits means the collector, this one or that of another release or machine.
pub(super) fn is_collector(path: &OsStr) -> bool {
    is_file(path.as_bytes(), Library::Collector)
}

/// Ours before others, which may get past what comes behind them; but a sanitizer's runtime first, which has nothing in front of
/// it. What an outer run has put there already is not put there twice: also not from where another machine or release has it,
/// for two of them would call each other, and the loader complains of one that is not there.
pub(super) fn preloaded(ours: &[&Path], inherited: Option<&OsStr>) -> Result<OsString, RunError> {
    let separates = |byte: &u8| matches!(byte, b' ' | b':');
    if let Some(path) = ours.iter().find(|path| path.as_os_str().as_bytes().iter().any(separates)) {
        return Err(RunError::Unloadable { path: (*path).to_owned() });
    }
    let ours: Vec<&[u8]> = ours.iter().map(|path| path.as_os_str().as_bytes()).collect();
    let theirs = inherited.unwrap_or_default().as_bytes().split(separates);
    let (first, others): (Vec<&[u8]>, Vec<&[u8]>) = theirs
        .filter(|name| !name.is_empty() && !ours.contains(name) && !is_file(name, Library::Preload))
        .partition(|name| is_sanitizer(name));
    Ok(OsString::from_vec([first, ours, others].concat().join(&b':')))
}

fn is_file(path: &[u8], library: Library) -> bool {
    Path::new(OsStr::from_bytes(path)).file_name() == Some(OsStr::new(library.file_name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_come_before_others_and_behind_sanitizers() {
        let ours = [Path::new("/c/p.so"), Path::new("/c/shim.so")];
        let check = |theirs: &str, expected: &str| {
            assert_eq!(preloaded(&ours, Some(OsStr::new(theirs))).unwrap(), expected, "{theirs}");
        };
        check("", "/c/p.so:/c/shim.so");
        check("a.so  b.so:/c/p.so", "/c/p.so:/c/shim.so:a.so:b.so");
        check("a.so:libasan.so.8", "libasan.so.8:/c/p.so:/c/shim.so:a.so");
        check("/other/libringscope_preload.so:a.so", "/c/p.so:/c/shim.so:a.so");
        assert!(preloaded(&[Path::new("/a b.so")], None).is_err());
    }

    #[test]
    fn a_collector_is_known_wherever_it_lies() {
        assert!(is_collector(OsStr::new("/dev/shm/ringscope/libs-7/ab/libringscope.so")));
        for other in ["libringscope_preload.so", "/x/libringscope.so.d/other.so", "", "STATIC_PLUGIN"] {
            assert!(!is_collector(OsStr::new(other)), "{other}");
        }
    }
}
