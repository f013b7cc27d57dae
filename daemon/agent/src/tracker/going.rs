//! When files may go: those of processes whose end the daemon has had for long enough or for which there is no room, and
//! notes that nobody needs.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::Tracker;
use super::listing::Listing;
use crate::account::Account;
use crate::beneath::{FileId, metadata};
use crate::connections::Owner;
use crate::folder_file::remove;
use crate::log_only::Claimed;
use crate::run_file::run_id;
use crate::sweep::{is_here, segment_name};
use crate::{log_folder, room};

/// How long the side file of a run is kept that has no process: a launcher may wait for hours before it starts one.
const SIDE_FILE_KEPT: Duration = Duration::from_secs(24 * 3600);

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
        self.remove_connections(listing);
    }

    /// Removes files of connections that no segment's process has left and that are old, unless a process is there that may
    /// have.
    fn remove_connections(&self, listing: &Listing) {
        let is_known = |of: Owner| {
            let mut segments = listing.segments.iter().filter_map(|path| path.file_name()?.to_str());
            segments.any(|name| segment_name(name).is_some_and(|(pid, start_ns)| of.is(pid, start_ns)))
        };
        for (owner, path) in listing.connections.all() {
            let Ok(file) = metadata(&self.dir, path) else { continue };
            let is_old = age(&file).is_some_and(|age| age > SIDE_FILE_KEPT);
            if is_old && !is_known(owner) && !is_here(owner.pid, owner.start_ns()) {
                remove(&self.dir, path, FileId::of(&file));
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
