//! How a process ended by the word of the launch that started it and took its exit status: it writes that into the note of
//! the run, a moment after the end.

use std::path::Path;
use std::time::{Duration, Instant};

use ringscope_wire::batch::{self, LaunchEnd, launch_end::Cause};
use serde_json::Value;

use super::account::Account;
use super::process::Now;
use super::run_file::RunFile;
use super::sweep::is_here;

/// How a process ended, as its launch says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Exit status.
    pub status: Option<u8>,
    /// The signal that ended it.
    pub signal: Option<u8>,
    /// When, nanoseconds since the Unix epoch.
    pub at_ns: u64,
    /// Why the launch had told it to end. `None`: it had not.
    pub told: Option<LaunchEnd>,
}

impl Ending {
    /// Out of a note. `None`: it does not say, or nothing that can be read.
    pub(super) fn parse(value: &Value) -> Option<Self> {
        let number = |name: &str| value[name].as_u64();
        let small = |name: &str| number(name).and_then(|number| u8::try_from(number).ok());
        let cause = match value["told"].as_str() {
            Some("failure") => Some(Cause::Failure),
            Some("signal") => Some(Cause::Signal),
            Some("launch_gone") => Some(Cause::LaunchGone),
            Some("workers_done") => Some(Cause::WorkersDone),
            _ => None,
        };
        let told = cause.map(|cause| LaunchEnd {
            cause: cause.into(),
            signal: small("told_signal").map(u32::from).unwrap_or_default(),
        });
        let ending = Self { status: small("status"), signal: small("signal"), at_ns: number("at_ns")?, told };
        (ending.status.is_some() || ending.signal.is_some()).then_some(ending)
    }

    /// Writes it into what is told of the process; `seen`: how it ended as far as is seen without it.
    pub(super) fn tell(&self, account: &mut Account, seen: batch::ProcessState, now_ns: u64) {
        let state = match (self.signal, self.status) {
            (Some(_), _) => batch::ProcessState::Killed,
            (None, Some(_)) => batch::ProcessState::Exited,
            (None, None) => seen,
        };
        // Of clocks that were set between nobody learns an end that is to come.
        account.end(state, if self.at_ns == 0 { now_ns } else { self.at_ns.min(now_ns) });
        let told = &mut account.now;
        told.exit_status = self.status.map(u32::from).or(told.exit_status);
        told.exit_signal = self.signal.map(u32::from);
        told.launch_end = self.told;
    }

    /// What it says of a process that the one whose end it is has started: why it had to end, if it had to.
    fn of_descendant(self) -> Option<Self> {
        self.told.is_some().then_some(Self { status: None, signal: None, at_ns: 0, told: self.told })
    }
}

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
    pub(super) fn ask(&mut self, note: &RunFile, pid: u32, now: Now<'_>) -> Said {
        let is_own = note.pid == Some(pid);
        match note.ending {
            Some(ending) if is_own => return Said::Ends(ending),
            Some(ending) => return ending.of_descendant().map_or(Said::Nothing, Said::Ends),
            None => {}
        }
        let goes_on = || !is_own && note.pid.is_some_and(|pid| is_here(pid, note.start_time_ns));
        let since = *self.since.get_or_insert(now.monotonic);
        if !note.is_reaped || now.monotonic.saturating_duration_since(since) >= PATIENCE || goes_on() {
            return Said::Nothing;
        }
        Said::NotYet
    }

    /// The same, of a run of this user.
    pub(super) fn ask_run(&mut self, dir: &Path, (run, owner): (&str, u32), pid: u32, now: Now<'_>) -> Said {
        if run.is_empty() {
            return Said::Nothing;
        }
        self.ask(&RunFile::read_of(dir, run, owner), pid, now)
    }
}

/// A launch writes within milliseconds, on a machine that is not busy. One that was killed never does.
const PATIENCE: Duration = Duration::from_secs(2);
