//! What is said of processes that stand still or have ended, in jobs with communicators and in summation groups alike.

use std::time::Duration;

/// By what a process is stopped that has this state in `/proc`. `None`: it runs.
pub(super) fn stopped(state: char) -> Option<&'static str> {
    match state {
        'T' => Some("stopped (SIGSTOP)"),
        't' => Some("stopped by a debugger"),
        _ => None,
    }
}

/// What to do about somebody who has ended. No pid is in it.
pub(super) const ADVICE_ENDED: &str =
    "It has ended: nothing can be done to it any more. See its own output, and start the job again.";
/// Programs that give up have waited for longer: the shortest limits in use are of tens of seconds. What ends sooner has
/// something of its own.
pub(super) const GIVES_UP_AFTER: Duration = Duration::from_secs(10);
