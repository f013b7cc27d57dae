//! The shared libraries that the binary carries: where they come from and how they get onto disk.
//!
//! `cargo xtask dist` builds them first and embeds them; a plain `cargo build` embeds nothing, nor does `cargo xtask demo`, and
//! then they are looked for beside the executable.

use std::borrow::Cow;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

include!(concat!(env!("OUT_DIR"), "/embedded_libraries.rs"));

/// One of the shared libraries that belong to ringscope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// `libringscope.so`, the collector.
    Collector,
    /// `libringscope_watcher.so`, which the collector opens beside itself where a summation group is made.
    Watcher,
    /// `libringscope_preload.so`, which is preloaded and opens the collector.
    Preload,
    /// `librsccl.so`, the engine; only the demo needs it.
    Engine,
}

impl Library {
    /// Name of its file.
    #[must_use]
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Collector => "libringscope.so",
            Self::Watcher => "libringscope_watcher.so",
            Self::Preload => "libringscope_preload.so",
            Self::Engine => "librsccl.so",
        }
    }

    const fn bytes(self) -> Option<&'static [u8]> {
        match self {
            Self::Collector => LIBRINGSCOPE,
            Self::Watcher => LIBRINGSCOPE_WATCHER,
            Self::Preload => LIBRINGSCOPE_PRELOAD,
            Self::Engine => LIBRSCCL,
        }
    }

    const fn package(self) -> &'static str {
        match self {
            Self::Collector => "ringscope-collector",
            Self::Watcher => "ringscope-summation-watcher",
            Self::Preload => "ringscope-preload",
            Self::Engine => "ringscope-engine",
        }
    }

    /// Libraries that it looks for in its own folder.
    const fn companions(self) -> &'static [Self] {
        match self {
            Self::Collector => &[Self::Watcher],
            _ => &[],
        }
    }
}

/// Why a library could not be had.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// Neither embedded nor beside the executable.
    #[error(
        "{file} is neither inside this ringscope nor beside it in {dir}: build one with `cargo xtask dist`, or the \
         library alone with `cargo build -p {package}`"
    )]
    Missing {
        /// File name.
        file: &'static str,
        /// Directory of the executable.
        dir: PathBuf,
        /// Cargo package that makes it.
        package: &'static str,
    },
    /// The one beside the executable cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It could not be written.
    #[error("cannot unpack {file} into {dir}: {source}; name a writable folder with --cache-dir")]
    Unpack {
        /// File name.
        file: &'static str,
        /// Where to.
        dir: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Path of a library on disk: unpacked into `cache_dir/<hash>/`, or the one beside the executable.
///
/// # Errors
/// [`LibraryError`], which says what to do.
pub fn path_of(library: Library, cache_dir: &Path) -> Result<PathBuf, LibraryError> {
    if let Some(bytes) = library.bytes() {
        let companions = library.companions().iter();
        let companions: Vec<_> = companions.filter_map(|one| Some((one.file_name(), one.bytes()?))).collect();
        return unpack(library, bytes, &companions, cache_dir);
    }
    beside(library)
}

/// A library as it is.
///
/// # Errors
/// [`LibraryError`], which says what to do.
pub(crate) fn bytes_of(library: Library) -> Result<Cow<'static, [u8]>, LibraryError> {
    if let Some(bytes) = library.bytes() {
        return Ok(bytes.into());
    }
    let path = beside(library)?;
    fs::read(&path).map(Cow::from).map_err(|source| LibraryError::Unreadable { path, source })
}

/// The one beside the executable.
fn beside(library: Library) -> Result<PathBuf, LibraryError> {
    let dir = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned())).unwrap_or_default();
    let file = library.file_name();
    // Test executables lie one folder below the libraries.
    [dir.join(file), dir.join("..").join(file)]
        .into_iter()
        .find_map(|path| path.canonicalize().ok())
        .ok_or(LibraryError::Missing { file, dir, package: library.package() })
}

/// Puts the library last: whoever finds it finds its companions.
fn unpack(
    library: Library,
    bytes: &[u8],
    companions: &[(&str, &[u8])],
    cache_dir: &Path,
) -> Result<PathBuf, LibraryError> {
    let all: Vec<_> = companions.iter().copied().chain([(library.file_name(), bytes)]).collect();
    let dir = unpack_all(&all, cache_dir).map_err(|(dir, source)| LibraryError::Unpack {
        file: library.file_name(),
        dir,
        source,
    })?;
    Ok(dir.join(library.file_name()))
}

/// A folder of these files, whose name says what is in it.
fn unpack_all(files: &[(&str, &[u8])], cache_dir: &Path) -> Result<PathBuf, (PathBuf, io::Error)> {
    let hash = files.iter().fold(Sha256::new(), |hash, (_, bytes)| hash.chain_update(bytes)).finalize();
    let dir = cache_dir.join(hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>());
    for (file, bytes) in files {
        write_if_absent(&dir, &dir.join(file), bytes).map_err(|source| (dir.clone(), source))?;
    }
    Ok(dir)
}

/// The folder of what Python runs when it starts, for PYTHONPATH.
///
/// # Errors
/// It cannot be written: where, and why.
pub fn python_hook(cache_dir: &Path) -> Result<PathBuf, (PathBuf, io::Error)> {
    unpack_all(&PYTHON_HOOK, cache_dir)
}

/// Whether a folder is one of these, of whichever release.
#[must_use]
pub fn is_python_hook(folder: &Path) -> bool {
    PYTHON_HOOK.iter().all(|(file, _)| folder.join(file).is_file())
}

/// The last one is what Python looks for. The names are those that the engine's backend gives its communicators.
pub(crate) const PYTHON_HOOK: [(&str, &[u8]); 3] = [
    ("ringscope_names.py", include_bytes!("../../engine/python/ringscope_engine/c10d/_names.py")),
    ("ringscope_groups.py", include_bytes!("../../collector/python/ringscope_groups.py")),
    ("sitecustomize.py", include_bytes!("../../collector/python/sitecustomize.py")),
];

/// Writes under another name and renames, so that ranks that start together never see half a library.
fn write_if_absent(dir: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|found| found == bytes) {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o755).open(&temporary)?;
    let written = file.write_all(bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // What a full file system holds of it is of no use.
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_unpacked_once_for_all_who_want_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = unpack(Library::Collector, b"library", &[], dir.path()).unwrap();
        let written = path.metadata().unwrap().modified().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"library");
        assert_eq!(unpack(Library::Collector, b"library", &[], dir.path()).unwrap(), path);
        assert_eq!(path.metadata().unwrap().modified().unwrap(), written);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn companions_lie_beside_their_library_and_another_one_goes_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let put = |watcher: &[u8]| {
            let companions = [("libringscope_watcher.so", watcher)];
            let path = unpack(Library::Collector, b"library", &companions, dir.path()).unwrap();
            assert_eq!(fs::read(path.with_file_name("libringscope_watcher.so")).unwrap(), watcher);
            path
        };
        assert_ne!(put(b"one"), put(b"two"));
    }

    #[test]
    fn an_unwritable_cache_is_named_with_what_to_do() {
        let error = unpack(Library::Collector, b"library", &[], Path::new("/dev/null/cache")).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("/dev/null/cache/") && text.contains("--cache-dir"), "{text}");
    }
}
