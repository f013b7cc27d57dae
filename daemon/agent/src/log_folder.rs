//! Folders of one user's own, `<kind>-<id>` of mode 0700, and above all that of his private logs, `logs-<id>`, in the folder of segments, which is everybody's. The library opens its
//! log by name: whoever could put a pipe there would stop the job for ever. So nobody but its user comes into it.
//!
//! Also the folder itself is opened by name and could be a link by then: no link is followed by who reads or removes a log.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::Dir;

use super::beneath::{self, Found, own_folder};
use super::regular;
use super::run_file::{Log, log_name};

/// How its name begins.
pub const PREFIX: &str = "logs-";
/// Entries of the folder of segments that are looked at for one of this user's: a command is about to begin.
const MAX_ENTRIES: usize = 16_384;
/// Folders of one user that are read: there are several where somebody else has the name of the first.
const MAX_PER_USER: usize = 8;
/// Logs of a folder that are looked at.
const MAX_LOGS: usize = 65_536;

/// This user's own in `dir`, a path without links, whose name begins so; made if there is none.
///
/// # Errors
/// It cannot be made, or somebody else could put another in its place.
pub fn own(dir: &Path, prefix: &str) -> io::Result<PathBuf> {
    dir.ancestors().try_for_each(is_safe)?;
    let user = rustix::process::geteuid().as_raw();
    let entries = std::fs::read_dir(dir)?.take(MAX_ENTRIES).flatten().map(|entry| entry.path());
    let is_own =
        |metadata: &Metadata| metadata.is_dir() && metadata.uid() == user && metadata.mode() & 0o777 == MODE;
    let is_usable = |path: &Path| path.symlink_metadata().is_ok_and(|metadata| is_own(&metadata));
    let mut named = entries.filter(|path| path.file_name().is_some_and(|name| has_prefix(name, prefix)));
    if let Some(found) = named.find(|path| is_usable(path)) {
        return Ok(found);
    }
    // Runs that begin at once meet in one folder.
    let common = dir.join(format!("{prefix}{user}"));
    match make(&common) {
        Ok(()) => Ok(common),
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Err(_) if is_usable(&common) => Ok(common),
        Err(_) => {
            // Somebody else has the name. Nobody knows this one before it is there.
            let path = dir.join(format!("{prefix}{}", uuid::Uuid::new_v4().simple()));
            make(&path).map(|()| path)
        }
    }
}

fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(MODE).create(path)?;
    // What `mkdir` is given is cut by the umask.
    std::fs::set_permissions(path, Permissions::from_mode(MODE))
}

/// Whether nobody but this user and root can rename what lies in the folder.
fn is_safe(folder: &Path) -> io::Result<()> {
    let metadata = folder.metadata()?;
    let owner = metadata.uid();
    let is_root = owner == ROOT || owner == OVERFLOW_USER && is_in_namespace();
    if !is_root && owner != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other(format!(
            "{} is user {owner}'s, who could put other files there: make it root's (chown root, chmod 1777)",
            folder.display()
        )));
    }
    let is_open = metadata.mode() & WRITTEN_BY_OTHERS != 0 && metadata.mode() & STICKY == 0;
    if is_open {
        return Err(io::Error::other(format!(
            "all users may rename what lies in {}: chmod +t",
            folder.display()
        )));
    }
    Ok(())
}

/// Whether users of the machine have no number here, root among them: so a container without root's help is.
fn is_in_namespace() -> bool {
    std::fs::read_to_string("/proc/self/uid_map")
        .is_ok_and(|map| map.split_whitespace().collect::<Vec<_>>() != ["0", "0", "4294967295"])
}

/// Whether it is the name of such a folder.
pub(super) fn is_named(name: &OsStr) -> bool {
    has_prefix(name, PREFIX)
}

fn has_prefix(name: &OsStr, prefix: &str) -> bool {
    name.as_bytes().starts_with(prefix.as_bytes())
}

/// One that is read.
#[derive(Debug)]
pub(super) struct Folder {
    fd: OwnedFd,
    /// Whose it is, and so whose its logs must be.
    pub(super) owner: u32,
}

impl Folder {
    /// The folder of this name in `dir`. A link is none.
    pub(super) fn open(dir: &Path, name: &OsStr) -> io::Result<Self> {
        let fd = beneath::folder(own_folder(dir)?, name)?;
        let owner = rustix::fs::fstat(&fd)?.st_uid;
        Ok(Self { fd, owner })
    }

    /// The folder of a log, where that is a folder of logs in `dir`.
    pub(super) fn of(dir: &Path, log: &Path) -> Option<io::Result<Self>> {
        let folder = log.parent()?;
        let name = folder.file_name().filter(|name| is_named(name))?;
        (folder.parent() == Some(dir)).then(|| Self::open(dir, name))
    }

    /// What lies there.
    pub(super) fn names(&self) -> io::Result<Vec<OsString>> {
        let entries = Dir::read_from(&self.fd)?.flatten().take(MAX_LOGS);
        Ok(entries.map(|entry| OsString::from_vec(entry.file_name().to_bytes().to_vec())).collect())
    }

    /// What is known of one of its files.
    fn metadata(&self, name: &OsStr) -> io::Result<Metadata> {
        Ok(Found::beneath(&self.fd, name)?.metadata().clone())
    }

    /// Its descriptor.
    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }
}

/// The logs in these folders of `dir`.
pub(super) fn logs(dir: &Path, folders: &[OsString]) -> Vec<(PathBuf, Log)> {
    let (mut logs, mut of_user) = (Vec::new(), BTreeMap::<u32, usize>::new());
    for name in folders {
        // One that is another user's cannot be read by this agent, nor can his segments.
        let Ok(folder) = Folder::open(dir, name) else { continue };
        let n_read = of_user.entry(folder.owner).or_default();
        if *n_read == MAX_PER_USER {
            continue;
        }
        *n_read += 1;
        let paths = folder.names().unwrap_or_default().into_iter().map(|log| dir.join(name).join(log));
        let owner = folder.owner;
        logs.extend(paths.filter_map(|path| log_name(&path).map(|name| (path, Log { name, owner }))));
    }
    logs
}

/// Opens a log that is as `check` wants it: in `dir`, in a folder of logs there, or anywhere else.
pub(super) fn open_log(
    dir: &Path,
    log: &Path,
    check: impl Fn(&Metadata) -> io::Result<()>,
) -> io::Result<File> {
    match (Folder::of(dir, log), log.file_name()) {
        (Some(folder), Some(name)) => regular::open_in(folder?.fd(), name, check),
        (None, Some(name)) if log.parent() == Some(dir) => regular::open_in(own_folder(dir)?, name, check),
        _ => regular::open(log, check),
    }
}

/// What is known of a log in `dir`, or in a folder of logs there.
pub(super) fn metadata(dir: &Path, log: &Path) -> io::Result<Metadata> {
    match (Folder::of(dir, log), log.file_name()) {
        (Some(folder), Some(name)) => folder?.metadata(name),
        (None, Some(_)) if log.parent() == Some(dir) => beneath::metadata(dir, log),
        _ => Err(io::Error::other("it lies elsewhere")),
    }
}

const ROOT: u32 = 0;
/// The user that the kernel shows in place of one that has no number here.
const OVERFLOW_USER: u32 = 65_534;
const MODE: u32 = 0o700;
const WRITTEN_BY_OTHERS: u32 = 0o002;
const STICKY: u32 = 0o1000;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    /// A folder whose path is this user's and root's alone, as `/dev/shm` is.
    fn shared() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        dir
    }

    #[test]
    fn it_is_one_for_all_runs_of_a_user_and_for_nobody_else() {
        let dir = shared();
        std::fs::create_dir(dir.path().join("logs-open")).unwrap();
        symlink("/", dir.path().join("logs-link")).unwrap();
        std::fs::write(dir.path().join("logs-file"), "").unwrap();
        let again = || own(dir.path(), PREFIX).unwrap();
        let made = again();
        assert_eq!(made.metadata().unwrap().mode() & 0o7777, 0o700);
        assert_eq!(again(), made);
        // As root only: nobody else can give a folder away.
        if chown(&made, Some(4711), None).is_ok() {
            assert_ne!(again(), made);
        }
    }

    #[test]
    fn runs_that_begin_at_once_meet_in_one_and_the_name_may_be_anothers() {
        let dir = shared();
        let make = || own(dir.path(), PREFIX).unwrap();
        let made = std::thread::scope(|scope| {
            let runs: Vec<_> = (0..32).map(|_| scope.spawn(make)).collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(made.iter().all(|folder| *folder == made[0]), "{made:?}");
        std::fs::set_permissions(&made[0], Permissions::from_mode(0o755)).unwrap();
        assert_ne!(make(), made[0]);
    }

    #[test]
    fn there_is_none_where_others_could_replace_it() {
        let dir = shared();
        let check = |mode: u32, part: &str| {
            std::fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
            let error = own(dir.path(), PREFIX).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains(&dir.path().display().to_string()), "{error}");
        };
        check(0o777, "chmod +t");
        if chown(dir.path(), Some(4711), None).is_ok() {
            check(0o1777, "user 4711's");
        }
    }

    #[test]
    fn logs_are_found_and_links_are_not_followed() {
        let (dir, elsewhere) = (shared(), shared());
        let folder = own(dir.path(), PREFIX).unwrap();
        let log = folder.join("nccl-0f3a-node-7.log");
        std::fs::write(&log, "lines").unwrap();
        std::fs::write(folder.join("other"), "").unwrap();
        std::fs::rename(own(elsewhere.path(), PREFIX).unwrap(), elsewhere.path().join("real")).unwrap();
        std::fs::write(elsewhere.path().join("real/nccl-0f3a-node-8.log"), "lines").unwrap();
        symlink(elsewhere.path().join("real"), dir.path().join("logs-link")).unwrap();
        let named = [folder.file_name().unwrap().to_owned(), "logs-link".into(), "logs-none".into()];
        let found: Vec<PathBuf> = logs(dir.path(), &named).into_iter().map(|(path, _)| path).collect();
        assert_eq!(found, std::slice::from_ref(&log));
        assert_eq!(metadata(dir.path(), &log).unwrap().len(), 5);
        assert!(metadata(dir.path(), &dir.path().join("logs-link/nccl-0f3a-node-8.log")).is_err());
        assert!(metadata(elsewhere.path(), &log).is_err());
    }
}
