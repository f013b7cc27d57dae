//! Segments of another version of the layout: nothing in them can be read, but their name says whose they are, and their
//! head which version. So a process that is known by its note or its log can be told with it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ringscope_wire::segment::SegmentError;

use super::account::Account;
use super::segment_file::ReadError;

/// Such segments.
#[derive(Debug, Default)]
pub(super) struct OtherVersions(BTreeMap<PathBuf, Other>);

#[derive(Debug)]
struct Other {
    /// Number of the process as it knows itself.
    pid: u32,
    start_time_ns: u64,
    version: u32,
}

impl OtherVersions {
    /// Takes note of a segment that cannot be read, if that is why.
    pub(super) fn note(&mut self, path: &Path, error: &ReadError) {
        let ReadError::Segment(SegmentError::UnknownVersion { found }) = error else { return };
        if self.0.len() >= MAX_NOTED || self.0.contains_key(path) {
            return;
        }
        if let Some((pid, start_time_ns)) = owner(path) {
            self.0.insert(path.to_owned(), Other { pid, start_time_ns, version: *found });
        }
    }

    /// Tells an account with the version of its process's segment, if that is another one.
    pub(super) fn tell(&self, account: &mut Account) {
        let Some(identity) = &account.now.identity else { return };
        let is_its = |other: &&Other| {
            other.pid == identity.pid && other.start_time_ns.abs_diff(identity.start_time_ns) <= SLACK_NS
        };
        if let Some(other) = self.0.values().find(is_its) {
            account.now.segment_version = other.version;
        }
    }

    /// Forgets those whose files are gone.
    pub(super) fn retain(&mut self, paths: &BTreeSet<PathBuf>) {
        self.0.retain(|path, _| paths.contains(path));
    }
}

/// Whose segment it is: `<pid>-<start time>.seg`.
fn owner(path: &Path) -> Option<(u32, u64)> {
    let (pid, start_time_ns) = path.file_stem()?.to_str()?.split_once('-')?;
    Some((pid.parse().ok()?, start_time_ns.parse().ok()?))
}

/// Segments that are remembered: a host has some hundred ranks.
const MAX_NOTED: usize = 4096;
/// Two who compute a process's start from the boot's time differ by less.
const SLACK_NS: u64 = 2_000_000_000;

#[cfg(test)]
mod tests {
    use ringscope_wire::batch;

    use super::*;

    const START: u64 = 1_763_820_000_000_000_000;

    fn version_of(pid: u32, start_time_ns: u64, others: &OtherVersions) -> u32 {
        let mut account = Account::new("node1/4711/1".to_owned());
        others.tell(&mut account);
        assert_eq!(account.now.segment_version, 0, "nobody knows whose it is");
        account.now.identity = Some(batch::Identity { pid, start_time_ns, ..batch::Identity::default() });
        others.tell(&mut account);
        account.now.segment_version
    }

    #[test]
    fn the_process_of_a_segment_of_another_version_is_told_with_it() {
        let mut others = OtherVersions::default();
        let path = PathBuf::from(format!("/dev/shm/ringscope/4711-{START}.seg"));
        let error = |error: SegmentError| ReadError::Segment(error);
        others.note(&path, &error(SegmentError::Truncated { found: 1, needed: 2 }));
        assert_eq!(version_of(4711, START, &others), 0);
        others.note(&path, &error(SegmentError::UnknownVersion { found: 3 }));
        others.note(Path::new("/x/other.seg"), &error(SegmentError::UnknownVersion { found: 9 }));
        assert_eq!(version_of(4711, START + 1_000, &others), 3);
        assert_eq!(version_of(4712, START, &others), 0);
        assert_eq!(version_of(4711, START + 60_000_000_000, &others), 0, "an earlier process of that number");
        others.retain(&BTreeSet::new());
        assert_eq!(version_of(4711, START, &others), 0);
    }
}
