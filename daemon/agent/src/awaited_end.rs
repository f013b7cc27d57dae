//! Asks the note of a run how a process ended, for as long as the launch may still write it.

use std::path::Path;
use std::time::{Duration, Instant};

use super::ending::Ending;
use super::run_file::RunFile;
use super::sweep::is_here;

/// What is known of the end of a process that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// This.
    Ends(Ending),
    /// It may come yet.
    NotYet,
    /// Nothing, and nothing will come.
    Nothing,
}

/// Asks for the word of the launch, for a while.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    since: Option<Instant>,
}

impl Awaited {
    /// What the note says of the end of this process of it, which is gone.
    pub(super) fn ask(&mut self, note: &RunFile, pid: u32, now: Instant) -> Said {
        let is_own = note.pid == Some(pid);
        match note.ending {
            Some(ending) if is_own => return Said::Ends(ending),
            Some(ending) => return ending.of_descendant().map_or(Said::Nothing, Said::Ends),
            None => {}
        }
        let goes_on = || !is_own && note.pid.is_some_and(|pid| is_here(pid, note.start_time_ns));
        let since = *self.since.get_or_insert(now);
        if !note.is_reaped || now.saturating_duration_since(since) >= PATIENCE || goes_on() {
            return Said::Nothing;
        }
        Said::NotYet
    }

    /// The same, of a run of this user.
    pub(super) fn ask_run(&mut self, dir: &Path, (run, owner): (&str, u32), pid: u32, now: Instant) -> Said {
        if run.is_empty() {
            return Said::Nothing;
        }
        self.ask(&RunFile::read_of(dir, run, owner), pid, now)
    }
}

/// A launch writes within milliseconds, on a machine that is not busy. One that was killed never does.
const PATIENCE: Duration = Duration::from_secs(2);
