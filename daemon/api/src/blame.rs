//! Which of several processes that failed is to blame, as far as their ends tell: for a launch and for the daemon by one rule.

use super::signal::{KILL, is_crash};

/// Who fails because another one did does so sooner than this, nanoseconds: news of a lost peer takes less.
pub const AT_ONCE_NS: u64 = 500_000_000;

/// How an end by a signal, or by none, counts among those that came at once, the lowest first: SIGKILL comes from outside; a crash
/// may be a victim's, and is still no way in which a process ends by itself.
#[must_use]
pub fn order(signal: Option<i32>) -> u8 {
    match signal {
        Some(KILL) => 0,
        Some(signal) if is_crash(signal) => 1,
        _ => 2,
    }
}
