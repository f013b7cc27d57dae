//! Processes whose segments this agent may not read: nothing else would tell that they are not watched.

use std::io;
use std::path::Path;

use super::rights::Rights;
use super::segment_file::ReadError;
use super::sweep::{is_here, segment_name};

/// Those that were found in one reading of the folder.
#[derive(Debug, Default)]
pub(super) struct Denied {
    n: usize,
}

impl Denied {
    /// Takes in a segment that could not be read. One of a process that has ended tells of nobody.
    pub(super) fn note(&mut self, path: &Path, error: &ReadError) {
        let is_denied =
            matches!(error, ReadError::Io(error) if error.kind() == io::ErrorKind::PermissionDenied);
        let name = path.file_name().and_then(|name| segment_name(name.to_str()?));
        self.n += usize::from(is_denied && name.is_some_and(|(pid, start_ns)| is_here(pid, Some(start_ns))));
    }

    /// How many there are and why, in words. `None`: there are none.
    pub(super) fn words(&self, dir: &Path) -> Option<String> {
        let (processes, whose) = match self.n {
            0 => return None,
            1 => ("1 process is".to_owned(), "its segment"),
            n => (format!("{n} processes are"), "their segments"),
        };
        Some(format!(
            "{processes} not watched, because the agent may not read {whose} in {} (permission denied): {}",
            dir.display(),
            Rights::remedy()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procfs;

    #[test]
    fn only_processes_that_run_and_are_denied_count() {
        let dir = Path::new("/dev/shm/ringscope");
        let own = format!("{}-{}.seg", std::process::id(), procfs::own_start_ns().unwrap());
        let told = |name: &str, kind: io::ErrorKind| {
            let mut denied = Denied::default();
            denied.note(&dir.join(name), &io::Error::from(kind).into());
            denied.words(dir)
        };
        let words = told(&own, io::ErrorKind::PermissionDenied).unwrap();
        assert!(words.starts_with("1 process is not watched, because the agent may not read"), "{words}");
        assert_eq!(told(&own, io::ErrorKind::NotFound), None);
        assert_eq!(told("1-1.seg", io::ErrorKind::PermissionDenied), None, "it has ended");
        assert_eq!(told("x.seg", io::ErrorKind::PermissionDenied), None);
    }
}
