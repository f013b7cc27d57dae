//! Where the libraries lie that the processes of a job map. In memory, if that can be: a page of a file on a server that does
//! not answer never comes, and whoever needs it waits for ever, `ncclCommAbort` too.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringscope_agent::log_folder;
use ringscope_agent::refused::is_memory;
use ringscope_api::clock::Timestamp;
use rustix::fs::{AtFlags, CWD, StatVfsMountFlags, Timespec, Timestamps, UTIME_NOW, utimensat};

/// How the name of the folder begins: `libs-<id>`, this user's own, in the folder of segments.
const PREFIX: &str = "libs-";
/// Libraries take some MiB; the rest is for segments, and for the job.
const MIN_FREE_BYTES: u64 = 32 << 20;
/// A version that no run has used for so long goes, once no process has it.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// This user's folder below that of segments; `None` where programs may not be run from there, or there is no room.
pub(super) fn in_memory(dir: &Path) -> Option<PathBuf> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let has_room = stat.f_blocks == 0 || free >= MIN_FREE_BYTES;
    let may_run = !stat.f_flag.contains(StatVfsMountFlags::NOEXEC);
    (has_room && may_run && is_memory(dir)).then(|| log_folder::own(dir, PREFIX).ok())?
}

/// Says that these files of the folder are used, and removes what is not any more.
pub(super) fn sweep(folder: &Path, used: &[&Path], now: Timestamp) {
    let used: Vec<&Path> =
        used.iter().filter_map(|file| file.parent()).filter(|version| version.starts_with(folder)).collect();
    used.iter().for_each(|version| renew(version));
    let versions = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let old: Vec<PathBuf> =
        versions.filter(|path| !used.contains(&path.as_path()) && age(path, now) > KEPT).collect();
    // The maps of all processes are read only where something may go.
    if old.is_empty() {
        return;
    }
    let Ok(mapped) = mapped_in(folder) else { return };
    for version in old.iter().filter(|version| !mapped.iter().any(|file| file.starts_with(version))) {
        let _ = fs::remove_dir_all(version);
    }
}

/// Says that a file of the folder is used.
pub(super) fn touch(file: &Path) {
    file.parent().into_iter().for_each(renew);
}

fn renew(version: &Path) {
    let at = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: at, last_modification: at };
    let _ = utimensat(CWD, version, &times, AtFlags::SYMLINK_NOFOLLOW);
}

fn age(path: &Path, now: Timestamp) -> Duration {
    let modified = path.symlink_metadata().and_then(|metadata| metadata.modified()).ok();
    let since_epoch = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    since_epoch.map_or(Duration::ZERO, |at| Duration::from_nanos(now.0).saturating_sub(at))
}

/// Files of the folder that processes of this user have mapped.
fn mapped_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let folder = folder.to_string_lossy();
    let mut mapped = Vec::new();
    for process in fs::read_dir("/proc")?.flatten() {
        let Ok(maps) = fs::read(process.path().join("maps")) else { continue };
        let maps = String::from_utf8_lossy(&maps);
        mapped.extend(maps.lines().filter_map(|line| Some(PathBuf::from(&line[line.find(&*folder)?..]))));
    }
    Ok(mapped)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    const DAY_NS: u64 = 24 * 3600 * 1_000_000_000;

    #[test]
    fn it_is_this_users_in_memory_from_where_programs_run() {
        let shm = tempfile::tempdir_in("/dev/shm").unwrap();
        let runs = !rustix::fs::statvfs("/dev/shm").unwrap().f_flag.contains(StatVfsMountFlags::NOEXEC);
        let found = in_memory(shm.path());
        assert_eq!(found.is_some(), runs);
        assert!(found.is_none_or(|folder| folder.metadata().unwrap().permissions().mode() & 0o777 == 0o700));
        assert_eq!(in_memory(Path::new("/proc/self")), None, "no memory to write to");
    }

    #[test]
    fn what_no_run_has_used_for_long_and_no_process_has_goes() {
        let folder = tempfile::tempdir().unwrap();
        let file = |version: &str| {
            let path = folder.path().join(version).join("lib.so");
            fs::create_dir(path.parent().unwrap()).unwrap();
            fs::write(&path, [0; 4096]).unwrap();
            path
        };
        let (current, old) = (file("0f"), file("1e"));
        let at = |days: u64| Timestamp(ringscope_api::clock::now().0 + days * DAY_NS);
        sweep(folder.path(), &[&current], at(6));
        assert!(old.exists(), "it was used a week ago");
        sweep(folder.path(), &[&current], at(8));
        assert!(current.exists() && !old.exists());
    }

    #[test]
    fn what_a_process_has_mapped_stays() {
        let folder = tempfile::tempdir().unwrap();
        let version = folder.path().join("2d");
        fs::create_dir(&version).unwrap();
        let program = version.join("cat");
        fs::copy("/bin/cat", &program).unwrap();
        let mut process = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let later = Timestamp(ringscope_api::clock::now().0 + 8 * DAY_NS);
        sweep(folder.path(), &[], later);
        assert!(program.exists());
        process.kill().unwrap();
        process.wait().unwrap();
        sweep(folder.path(), &[], later);
        assert!(!program.exists());
    }
}
