//! How a process ended.

use ringscope_wire::batch::{self, launch_end::Cause};

/// How a process ended, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// The status that it gave to `exit`, also where something killed it then. Absent: it gave none, or not known.
    pub status: Option<u8>,
    /// The signal that ended it. Absent: none, or not known.
    pub signal: Option<u8>,
    /// Why its launch had told it to end. Absent: it had not, or not known.
    pub told: Option<ToldToEnd>,
}

/// Why `ringscope launch` told a process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToldToEnd {
    /// Another process of the job had failed, or a host was lost.
    Failure,
    /// The launch was sent this signal. 0: not known which.
    Signal(u8),
    /// The launching side was gone, or somebody ended its part on this host.
    LaunchGone,
    /// All workers had ended well.
    WorkersDone,
}

impl Exit {
    /// As an agent says it.
    pub(super) fn told(told: &batch::Process) -> Self {
        let small = |number: Option<u32>| number.and_then(|number| u8::try_from(number).ok());
        let why = |end: batch::LaunchEnd| match end.cause() {
            Cause::Unspecified => None,
            Cause::Failure => Some(ToldToEnd::Failure),
            Cause::Signal => Some(ToldToEnd::Signal(u8::try_from(end.signal).unwrap_or_default())),
            Cause::LaunchGone => Some(ToldToEnd::LaunchGone),
            Cause::WorkersDone => Some(ToldToEnd::WorkersDone),
        };
        Self {
            status: small(told.exit_status),
            signal: small(told.exit_signal),
            told: told.launch_end.and_then(why),
        }
    }

    /// What is known first stays.
    pub(super) fn or(self, later: Self) -> Self {
        Self {
            status: self.status.or(later.status),
            signal: self.signal.or(later.signal),
            told: self.told.or(later.told),
        }
    }

    /// As an agent would say why its launch had told it to end.
    pub(super) fn launch_end(&self) -> Option<batch::LaunchEnd> {
        let (cause, signal) = match self.told? {
            ToldToEnd::Failure => (Cause::Failure, 0),
            ToldToEnd::Signal(signal) => (Cause::Signal, signal),
            ToldToEnd::LaunchGone => (Cause::LaunchGone, 0),
            ToldToEnd::WorkersDone => (Cause::WorkersDone, 0),
        };
        Some(batch::LaunchEnd { cause: cause.into(), signal: signal.into() })
    }
}
