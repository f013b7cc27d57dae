//! Whether a thread had the processor that it needed.

use rsccl_collective::clock;

/// What a thread has used of it, and for how long it waited for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Processor {
    at_ns: u64,
    /// Used and waited for; none where the kernel does not tell.
    wanted_ns: Option<u64>,
}

/// Of the time, how much a thread wants of a processor where that is what bounds it. One that waits for a link sleeps.
const LIMIT_PERCENT: u64 = 70;

impl Processor {
    /// This thread's.
    pub(super) fn now() -> Self {
        let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
        Self { at_ns: clock::monotonic_ns(), wanted_ns: told.as_deref().and_then(wanted_ns) }
    }

    /// Whether it was what bounded this thread since then.
    pub(super) fn was_the_limit(self) -> bool {
        self.bounds_until(Self::now())
    }

    fn bounds_until(self, now: Self) -> bool {
        let (Some(before), Some(after)) = (self.wanted_ns, now.wanted_ns) else { return false };
        let took_ns = now.at_ns.saturating_sub(self.at_ns);
        after.saturating_sub(before) >= took_ns / 100 * LIMIT_PERCENT
    }
}

/// Nanoseconds on a processor, and waiting for one.
fn wanted_ns(schedstat: &str) -> Option<u64> {
    let mut words = schedstat.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
    Some(words.next()?? + words.next()??)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64, schedstat: &str) -> Processor {
        Processor { at_ns: ms * 1_000_000, wanted_ns: wanted_ns(schedstat) }
    }

    #[test]
    fn who_works_or_waits_for_a_processor_is_bounded_by_it() {
        let before = at(100, "5000000 1000000 17");
        assert!(before.bounds_until(at(200, "60000000 31000000 20")));
        assert!(!before.bounds_until(at(200, "30000000 31000000 20")));
        assert!(!before.bounds_until(at(200, "")), "the kernel does not tell");
    }
}
