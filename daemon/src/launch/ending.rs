//! When and how a job is ended: by a failure, by signals, by its end. No I/O: times come as arguments.

use std::time::{Duration, Instant};

use super::protocol::WhyEnd;

/// What all hosts are to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Termination {
    /// The signal.
    pub(super) signal: i32,
    /// How long until SIGKILL.
    pub(super) grace: Duration,
    /// Why.
    pub(super) why: WhyEnd,
}

/// How far the end of a job is.
#[derive(Debug)]
pub(super) struct Ending {
    grace: Duration,
    phase: Phase,
    /// The first signal that ended it.
    interrupted: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Runs,
    /// All workers have ended; servers have until then to leave by themselves.
    ServersLeave {
        until: Instant,
    },
    /// They were told to end. Who has not said by then that all is over is given up.
    Ends {
        until: Instant,
    },
}

impl Ending {
    /// Of a job that runs.
    pub(super) const fn new(grace: Duration) -> Self {
        Self { grace, phase: Phase::Runs, interrupted: None }
    }

    /// A process has failed, or a host is lost.
    pub(super) fn failed(&mut self, now: Instant) -> Option<Termination> {
        if matches!(self.phase, Phase::Ends { .. }) {
            return None;
        }
        Some(self.end(libc::SIGTERM, WhyEnd::Failure, now))
    }

    /// Somebody wants it to end: at once, where he wants it a second time.
    pub(super) fn signalled(&mut self, signal: i32, now: Instant) -> Termination {
        let (is_again, why) = (self.interrupted.is_some(), WhyEnd::Signal(signal));
        self.interrupted.get_or_insert(signal);
        if is_again {
            self.phase = Phase::Ends { until: now + GIVEN_UP_AFTER };
            return Termination { signal: libc::SIGKILL, grace: Duration::ZERO, why };
        }
        self.end(signal, why, now)
    }

    /// All workers have ended well.
    pub(super) fn workers_done(&mut self, now: Instant) {
        if self.phase == Phase::Runs {
            self.phase = Phase::ServersLeave { until: now + SERVERS_LEAVE };
        }
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Instant) -> Option<Termination> {
        match self.phase {
            Phase::ServersLeave { until } if now >= until => {
                Some(self.end(libc::SIGTERM, WhyEnd::WorkersDone, now))
            }
            _ => None,
        }
    }

    /// Whether hosts that have not said that all is over are given up.
    pub(super) fn is_given_up(&self, now: Instant) -> bool {
        matches!(self.phase, Phase::Ends { until } if now >= until)
    }

    /// The first signal that ended it.
    pub(super) const fn interrupted(&self) -> Option<i32> {
        self.interrupted
    }

    fn end(&mut self, signal: i32, why: WhyEnd, now: Instant) -> Termination {
        self.phase = Phase::Ends { until: now + self.grace + GIVEN_UP_AFTER };
        Termination { signal, grace: self.grace, why }
    }
}

/// Servers leave with the last worker; those whose job never used them do not know it.
const SERVERS_LEAVE: Duration = Duration::from_secs(3);
/// A host that answers says within this time after SIGKILL that all is over.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(5);

    fn termination(signal: i32, grace: Duration, why: WhyEnd) -> Termination {
        Termination { signal, grace, why }
    }

    #[test]
    fn a_failure_ends_all_once() {
        let (mut ending, now) = (Ending::new(GRACE), ringscope_api::clock::monotonic());
        assert_eq!(ending.failed(now), Some(termination(libc::SIGTERM, GRACE, WhyEnd::Failure)));
        assert_eq!(ending.failed(now), None);
        assert_eq!(ending.interrupted(), None);
        assert!(!ending.is_given_up(now + GRACE));
        assert!(ending.is_given_up(now + GRACE + GIVEN_UP_AFTER));
    }

    #[test]
    fn a_signal_is_passed_on_and_a_second_one_kills() {
        let (mut ending, now) = (Ending::new(GRACE), ringscope_api::clock::monotonic());
        assert_eq!(
            ending.signalled(libc::SIGINT, now),
            termination(libc::SIGINT, GRACE, WhyEnd::Signal(libc::SIGINT))
        );
        assert_eq!(ending.failed(now), None, "it fails because it was told to end");
        assert_eq!(
            ending.signalled(libc::SIGTERM, now),
            termination(libc::SIGKILL, Duration::ZERO, WhyEnd::Signal(libc::SIGTERM))
        );
        assert_eq!(ending.interrupted(), Some(libc::SIGINT));
    }

    #[test]
    fn a_signal_during_the_end_of_a_failure_is_the_first() {
        let (mut ending, now) = (Ending::new(GRACE), ringscope_api::clock::monotonic());
        ending.failed(now);
        assert_eq!(
            ending.signalled(libc::SIGINT, now),
            termination(libc::SIGINT, GRACE, WhyEnd::Signal(libc::SIGINT))
        );
    }

    #[test]
    fn servers_may_leave_by_themselves_after_the_workers() {
        let (mut ending, now) = (Ending::new(GRACE), ringscope_api::clock::monotonic());
        ending.workers_done(now);
        assert_eq!(ending.tick(now), None);
        assert_eq!(
            ending.tick(now + SERVERS_LEAVE),
            Some(termination(libc::SIGTERM, GRACE, WhyEnd::WorkersDone))
        );
        assert_eq!(ending.tick(now + SERVERS_LEAVE), None);
    }
}
