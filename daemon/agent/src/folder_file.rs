//! Files that are removed from the folder of segments. It is open to all users of the machine, and the agent may be root:
//! no path that somebody else has named is followed when a file goes, and only the file that was read goes.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, unlinkat};

use super::beneath::{FileId, Found, own_folder};
use super::log_folder::{self, Folder};

/// Removes `path` where its folder is `dir` by name, whatever links lead there: logs elsewhere are the user's. `is`: the
/// file that it must be, of that owner.
pub(super) fn remove(dir: &Path, path: &Path, is: FileId) {
    let Some((parent, name)) = path.parent().zip(path.file_name()) else { return };
    // `ringscope run` names the folder without links.
    let is_dir = |path: &Path| path == dir || dir.canonicalize().is_ok_and(|real| path == real);
    let removed = match parent.file_name().filter(|folder| log_folder::is_named(folder)) {
        _ if is_dir(parent) => remove_at(dir, Path::new(name), is),
        Some(folder) if parent.parent().is_some_and(is_dir) => {
            Folder::open(dir, folder).and_then(|folder| remove_from(folder.fd().as_fd(), Path::new(name), is))
        }
        _ => return,
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(file = %path.display(), %error, "cannot remove a file of a process that has ended");
        }
        _ => {}
    }
}

/// Removes a file by its name in the folder. `is`: the file that it must be; another one stays.
pub(super) fn remove_at(dir: &Path, name: &Path, is: FileId) -> io::Result<()> {
    remove_from(own_folder(dir)?.as_fd(), name, is)
}

fn remove_from(folder: BorrowedFd<'_>, name: &Path, is: FileId) -> io::Result<()> {
    if FileId::of(Found::beneath(folder, name)?.metadata()) != is {
        // Another file has its name by now.
        return Ok(());
    }
    Ok(unlinkat(folder, name, AtFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_file_that_was_read_goes_and_only_from_the_folder() {
        let root = tempfile::tempdir().unwrap();
        let (dir, link) = (root.path().join("dir"), root.path().join("link"));
        std::fs::create_dir(&dir).unwrap();
        std::os::unix::fs::symlink(&dir, &link).unwrap();
        let (file, other) = (dir.join("file"), dir.join("other"));
        std::fs::write(&file, "x").unwrap();
        std::fs::write(&other, "x").unwrap();
        let id = FileId::of(&file.metadata().unwrap());
        for (path, is) in [
            (link.join("file"), id),
            (dir.join("../dir/file"), id),
            (file.clone(), FileId { owner: id.owner + 1, ..id }),
            (other.clone(), id),
            (dir.join(".."), id),
        ] {
            remove(&dir, &path, is);
            assert!(file.exists() && other.exists(), "{}", path.display());
        }
        remove(&dir, &file, id);
        assert!(!file.exists());
        remove(&link, &other, FileId::of(&other.metadata().unwrap()));
        assert!(!other.exists(), "the agent's own folder may be named by a link");
        // A log in its user's folder, and one that a link leads to.
        std::fs::create_dir(dir.join("logs-7")).unwrap();
        std::os::unix::fs::symlink(dir.join("logs-7"), dir.join("logs-8")).unwrap();
        std::fs::write(dir.join("logs-7/log"), "x").unwrap();
        let id = FileId::of(&dir.join("logs-7/log").metadata().unwrap());
        remove(&dir, &dir.join("logs-8/log"), id);
        assert!(dir.join("logs-7/log").exists());
        remove(&link, &dir.join("logs-7/log"), id);
        assert!(!dir.join("logs-7/log").exists());
    }
}
