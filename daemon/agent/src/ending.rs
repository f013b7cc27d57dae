//! How a process ended by the word of the launch that started it and took its exit status: it writes that into the note of
//! the run, a moment after the end.

use ringscope_wire::batch::{self, LaunchEnd, launch_end::Cause};
use serde_json::Value;

use super::account::Account;

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
        let word = value["told"].as_str();
        let cause = CAUSES.iter().find(|(_, name)| Some(*name) == word).map(|(cause, _)| *cause);
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
    pub(super) fn of_descendant(self) -> Option<Self> {
        self.told.is_some().then_some(Self { status: None, signal: None, at_ns: 0, told: self.told })
    }
}

/// The word for a cause in a note. `None`: there is none for it.
#[must_use]
pub fn cause_name(cause: Cause) -> Option<&'static str> {
    CAUSES.iter().find(|(known, _)| *known == cause).map(|(_, name)| *name)
}

const CAUSES: [(Cause, &str); 4] = [
    (Cause::Failure, "failure"),
    (Cause::Signal, "signal"),
    (Cause::LaunchGone, "launch_gone"),
    (Cause::WorkersDone, "workers_done"),
];
