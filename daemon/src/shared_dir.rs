//! The folder for segments and logs, which the processes of all users of a host share.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// As `/tmp`: whoever makes the folder, all users' jobs write into it, and none removes what another left.
const MODE: u32 = 0o1777;

/// Makes the folder, unless it is there: one that somebody else made keeps the mode that he gave it.
///
/// # Errors
/// It cannot be made, or what has its name is no folder.
pub(crate) fn create(dir: &Path) -> io::Result<()> {
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::create_dir(dir) {
        // Afterwards: what `mkdir` is given is cut by the umask.
        Ok(()) => fs::set_permissions(dir, Permissions::from_mode(MODE)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}
