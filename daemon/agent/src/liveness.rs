//! Whether a process that has no segment lives: by its id, where that can be looked up.
//!
//! Never a guess: a process of another host's name, as in a container, is only known to be gone when its log says so or
//! has been silent for a day.

use std::time::Duration;

use super::procfs::{Stat, Status};

/// A process may start to write before the second in which the system says that it started is over.
const SLACK_NS: u64 = 2_000_000_000;
/// A log that nobody has written to for so long is nobody's, nor is a segment that was removed so long ago.
const SILENT: Duration = Duration::from_secs(24 * 3600);

/// What is known of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// It lives, and started then (nanoseconds since the Unix epoch).
    Lives(u64),
    Gone,
    /// It cannot be looked up from here.
    Unknown,
}

/// Looks for the process of this user that wrote a log last at `written_ns`, by its id on this machine.
pub(super) fn look(pid: u32, user: u32, written_ns: u64) -> Life {
    if Status::read(pid).is_some_and(|status| !status.is_of(user)) {
        // In a container the number may be another's than here.
        return Life::Unknown;
    }
    match start_ns(pid) {
        // The id may have been given to another process since.
        Some(start) if start <= written_ns.saturating_add(SLACK_NS) => Life::Lives(start),
        _ => Life::Gone,
    }
}

/// Whether a log that was written last at `written_ns`, or a segment removed then, counts as left alone.
pub(super) fn is_silent(written_ns: u64, now_ns: u64) -> bool {
    Duration::from_nanos(now_ns.saturating_sub(written_ns)) > SILENT
}

/// When a process started. A zombie writes no more.
fn start_ns(pid: u32) -> Option<u64> {
    Stat::read(pid).filter(|stat| !stat.has_ended())?.start_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_did_not_write_before_it_started() {
        let now = ringscope_api::clock::now().0;
        let user = rustix::process::geteuid().as_raw();
        let Life::Lives(start) = look(std::process::id(), user, now) else { panic!("it lives") };
        assert!(start <= now + SLACK_NS && start > now - 24 * 3600 * 1_000_000_000, "{start} {now}");
        assert_eq!(look(std::process::id(), user, start - 2 * SLACK_NS), Life::Gone, "another had its id");
        assert_eq!(look(std::process::id(), user + 1, now), Life::Unknown, "it is another user's");
        assert_eq!(look(u32::MAX, user, now), Life::Gone);
    }

    #[test]
    fn a_day_without_a_word_is_silence() {
        let day = u64::try_from(SILENT.as_nanos()).expect("small");
        assert!(!is_silent(1, day + 1) && is_silent(1, day + 2) && !is_silent(5, 1));
    }
}
