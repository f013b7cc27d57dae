//! How long a process waits that was refused at once, before it tries again: nobody is flooded, and no core is spent on it.

use std::time::Duration;

/// After the first failure, and after one that follows a success.
const SHORTEST: Duration = Duration::from_secs(1);
/// Well below the time that workers wait for servers by default.
const LONGEST: Duration = Duration::from_secs(30);

/// Attempts, one after the other.
#[derive(Debug)]
pub(super) struct Attempts {
    next: Duration,
}

impl Attempts {
    /// None was made yet.
    pub(super) fn new() -> Self {
        Self { next: SHORTEST }
    }

    /// One has succeeded.
    pub(super) fn succeeded(&mut self) {
        self.next = SHORTEST;
    }

    /// One has failed; how long to wait before the next one.
    pub(super) fn failed(&mut self) -> Duration {
        let pause = self.next;
        self.next = (2 * pause).min(LONGEST);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_and_a_success_ends_that() {
        let mut attempts = Attempts::new();
        let pauses: Vec<u64> = (0..7).map(|_| attempts.failed().as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        attempts.succeeded();
        assert_eq!(attempts.failed(), SHORTEST);
    }
}
