//! When files may go: those of processes whose end the daemon has had for long enough or for which there is no room, and
//! notes that nobody needs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::Tracker;
use super::listing::Listing;
use crate::account::Account;
use crate::beneath::{FileId, Found, metadata, own_folder};
use crate::folder_file::remove;
use crate::log_only::Claimed;
use crate::run_file::run_id;
use crate::sweep::{is_here, segment_name};
use crate::{log_folder, room};

/// How long the side file of a run is kept that has no process: a launcher may wait for hours before it starts one.
const SIDE_FILE_KEPT: Duration = Duration::from_secs(24 * 3600);
/// Time between two looks at the files of connections that may go: they are kept for a day.
const CONNECTIONS_CLEANED: Duration = Duration::from_secs(60);
/// Old files of connections of one user whose process is looked up at once; the others wait for the next time.
const MAX_LOOKED_UP: usize = 1024;

impl Tracker {
    /// Removes the files of processes whose end the daemon has had for long enough, and forgets what is gone.
    pub(super) fn clean(&mut self, monotonic: Instant, listing: &Listing, claimed: &Claimed) {
        let paths = &listing.segments;
        let (dir, keep_dead) = (self.dir.clone(), self.keep_dead);
        let shadowed = self.shadowed();
        let without_room = self.without_room();
        self.processes.retain(|path, tracked| {
            let heard = tracked
                .process
                .account
                .end_acknowledged
                .or_else(|| shadowed.contains(path).then_some(monotonic));
            let Some(heard) = heard.filter(|_| tracked.process.is_final) else { return true };
            let kept = monotonic.saturating_duration_since(heard);
            if kept < keep_dead && !tracked.is_stale && paths.contains(path) && !without_room.contains(path) {
                return true;
            }
            if let Some((log, id)) = tracked.process.log.file() {
                remove(&dir, log, id);
            }
            if let Some((connections, id)) = tracked.process.connections.file() {
                remove(&dir, connections, id);
            }
            remove(&dir, path, tracked.process.file);
            false
        });
        self.warned.retain(|path| paths.contains(path));
        self.other_versions.retain(paths);
        self.refusals.retain(|path, _| paths.contains(path));
        self.budgets.retain(paths);
        self.forget_keys();
        for (log, id) in self.log_only.clean(monotonic, keep_dead, claimed) {
            remove(&dir, &log, id);
        }
        for (note, id) in self.launches.clean() {
            let is_used = run_id(&note).is_none_or(|run| self.is_used(run));
            if !is_used {
                remove(&dir, &note, id);
            }
        }
        self.remove_side_files(&listing.runs);
        self.remove_connections(listing, monotonic);
    }

    /// Removes files of connections that no segment's process has left and that are old, unless a process is there that may
    /// have. Once in a while: their owners may leave as many as they like.
    fn remove_connections(&mut self, listing: &Listing, monotonic: Instant) {
        let is_due = self
            .connections_cleaned_at
            .is_none_or(|at| monotonic.saturating_duration_since(at) >= CONNECTIONS_CLEANED);
        if !is_due {
            return;
        }
        self.connections_cleaned_at = Some(monotonic);
        let Ok(folder) = own_folder(&self.dir) else { return };
        let names = listing.segments.iter().filter_map(|path| path.file_name()?.to_str());
        let segments: BTreeSet<(u32, u64)> = names.filter_map(segment_name).collect();
        let mut looked_up = BTreeMap::<u32, usize>::new();
        for (owner, path) in listing.connections.all() {
            let of_pid = segments.range((owner.pid, 0)..=(owner.pid, u64::MAX));
            if of_pid.into_iter().any(|(pid, start_ns)| owner.is(*pid, *start_ns)) {
                continue;
            }
            let Some(Ok(found)) = path.file_name().map(|name| Found::beneath(&folder, name)) else {
                continue;
            };
            let id = FileId::of(found.metadata());
            let of_user = looked_up.entry(id.owner).or_default();
            let is_old = age(found.metadata()).is_some_and(|age| age > SIDE_FILE_KEPT);
            if !is_old || *of_user >= MAX_LOOKED_UP {
                continue;
            }
            *of_user += 1;
            if !is_here(owner.pid, owner.start_ns()) {
                remove(&self.dir, path, id);
            }
        }
    }

    fn forget_keys(&mut self) {
        let with_segment = self.processes.values().map(|tracked| &tracked.process.account);
        let logged = self.log_only.processes.values().map(|logged| &logged.account);
        let accounts = with_segment.chain(logged).chain(self.launches.accounts());
        self.keys.retain(&accounts.map(Account::key).collect());
    }

    /// Segments of processes whose end the daemon has and for whose files the folder has no room.
    fn without_room(&mut self) -> BTreeSet<PathBuf> {
        let mut ended = Vec::new();
        for (path, tracked) in self.processes.iter_mut().filter(|(_, tracked)| tracked.process.is_final) {
            let Some(at) = tracked.process.account.end_acknowledged else { continue };
            let log = tracked.process.log.file().map(|(log, _)| log);
            let of_log = || log.map_or(0, |log| room::taken(log_folder::metadata(&self.dir, log)));
            let connections = tracked.process.connections.file().map(|(path, _)| path);
            let of_connections = || connections.map_or(0, |path| room::taken(metadata(&self.dir, path)));
            let all = || room::taken(metadata(&self.dir, path)) + of_log() + of_connections();
            let bytes = tracked.bytes.get_or_insert_with(all);
            ended.push((at, path.as_path(), *bytes));
        }
        if ended.is_empty() {
            return BTreeSet::new();
        }
        room::beyond(ended, room::for_ended(&self.dir, self.ended_bytes))
    }

    /// Whether something else is known of this run.
    fn is_used(&self, run: &str) -> bool {
        self.processes.values().any(|tracked| tracked.process.run_id == run)
            || self.log_only.runs().any(|used| used == run)
    }

    /// Removes the side files of runs of which nothing is left, once they are old: their processes may be yet to come.
    fn remove_side_files(&self, runs: &[PathBuf]) {
        for path in runs {
            let Some(run) = run_id(path) else { continue };
            let is_used = self.is_used(run) || self.launches.knows(run);
            let Ok(note) = metadata(&self.dir, path) else { continue };
            if !is_used && age(&note).is_some_and(|age| age > SIDE_FILE_KEPT) {
                remove(&self.dir, path, FileId::of(&note));
            }
        }
    }
}

/// Time since a file was last written to.
fn age(file: &Metadata) -> Option<Duration> {
    let modified = file.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(Duration::from_nanos(ringscope_api::clock::now().0).saturating_sub(modified))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;

    use super::*;
    use crate::connections::Owner;

    /// No process has this number.
    const NOBODY: u32 = u32::MAX;

    fn leave(dir: &Path, ticks: u32, age: Duration) -> PathBuf {
        let path = dir.join(format!("{NOBODY}-{ticks}.net"));
        let file = File::create(&path).unwrap();
        let now = std::time::UNIX_EPOCH + Duration::from_nanos(ringscope_api::clock::now().0);
        file.set_modified(now - age).unwrap();
        path
    }

    #[test]
    fn old_files_of_connections_go_once_a_minute_and_no_more_of_a_user_than_are_looked_up() {
        let dir = tempfile::tempdir().unwrap();
        let mut tracker =
            Tracker::new(dir.path().to_owned(), "host-0".to_owned(), Duration::ZERO, Duration::ZERO);
        let start = ringscope_api::clock::monotonic();
        let at = |s| start + Duration::from_secs(s);
        let (old, new) = (SIDE_FILE_KEPT * 2, SIDE_FILE_KEPT / 2);
        let (first, young) = (leave(dir.path(), 1, old), leave(dir.path(), 2, new));
        tracker.poll(at(0));
        assert_eq!((first.exists(), young.exists()), (false, true));
        let second = leave(dir.path(), 3, old);
        tracker.poll(at(59));
        assert!(second.exists(), "not yet");
        tracker.poll(at(60));
        assert!(!second.exists());
        let listing = |n: usize| {
            let mut listing = Listing::default();
            for ticks in 0..n {
                let pid = NOBODY - u32::try_from(ticks).unwrap();
                let path = dir.path().join(format!("{pid}-1.net"));
                std::fs::copy(&young, &path).unwrap();
                let file = File::options().append(true).open(&path).unwrap();
                let now = std::time::UNIX_EPOCH + Duration::from_nanos(ringscope_api::clock::now().0);
                file.set_modified(now - old).unwrap();
                listing.connections.add(Owner::of(&path).unwrap(), path);
            }
            listing
        };
        let listing = listing(MAX_LOOKED_UP + 3);
        tracker.remove_connections(&listing, at(120));
        let n_left = listing.connections.all().filter(|(_, path)| path.exists()).count();
        assert_eq!(n_left, 3, "at the next time");
        tracker.remove_connections(&listing, at(180));
        assert!(listing.connections.all().all(|(_, path)| !path.exists()));
    }

    #[test]
    fn the_connections_of_a_segment_stay() {
        let dir = tempfile::tempdir().unwrap();
        let mut tracker =
            Tracker::new(dir.path().to_owned(), "host-0".to_owned(), Duration::ZERO, Duration::ZERO);
        let path = leave(dir.path(), 8771, SIDE_FILE_KEPT * 2);
        let owner = Owner::of(&path).unwrap();
        let mut listing = Listing::default();
        listing.connections.add(owner, path.clone());
        listing.segments.insert(dir.path().join(format!("{NOBODY}-{}.seg", owner.start_ns().unwrap() + 1)));
        let now = ringscope_api::clock::monotonic();
        tracker.remove_connections(&listing, now);
        assert!(path.exists());
    }
}
