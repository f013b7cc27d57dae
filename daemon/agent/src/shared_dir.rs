//! The folder for segments and logs, which the processes of all users of a host share.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::Path;

use rustix::fs::OFlags;

/// As `/tmp`: whoever makes the folder, all users' jobs write into it, and none removes what another left.
const MODE: u32 = 0o1777;

/// Makes the folder, unless it is there: one that somebody else made keeps the mode that he gave it.
///
/// # Errors
/// It cannot be made, or what has its name is no folder.
pub fn create(dir: &Path) -> io::Result<()> {
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::create_dir(dir) {
        // Afterwards: what `mkdir` is given is cut by the umask.
        Ok(()) => fs::set_permissions(dir, Permissions::from_mode(MODE)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {
            let _ = take_over(dir);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Lets one that is everybody's be root's once root comes by: whose it is can rename what others have in it.
fn take_over(dir: &Path) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC).bits().cast_signed();
    let folder = OpenOptions::new().read(true).custom_flags(flags).open(dir)?;
    let metadata = folder.metadata()?;
    if metadata.uid() != 0 && metadata.mode() & 0o7777 == MODE {
        fchown(&folder, Some(0), None)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_everybodys_becomes_roots() {
        let parent = tempfile::tempdir().unwrap();
        for (mode, expected) in [(MODE, 0), (0o755, 4711)] {
            let dir = parent.path().join(mode.to_string());
            create(&dir).unwrap();
            fs::set_permissions(&dir, Permissions::from_mode(mode)).unwrap();
            if std::os::unix::fs::chown(&dir, Some(4711), None).is_ok() {
                create(&dir).unwrap();
                assert_eq!(dir.metadata().unwrap().uid(), expected, "{mode:o}");
            }
        }
    }
}
