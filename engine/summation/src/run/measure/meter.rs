//! How fast bytes come: what and when, and what that comes to.

/// Counts what comes.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// When, and how many until then.
    seen: Vec<(u64, u64)>,
    total: u64,
}

/// Of the time, how much does not count: TCP begins slowly, and a shaped link lets some pass at once.
const BEGINNING_PERCENT: u64 = 30;

impl Meter {
    /// Bytes have come.
    pub(super) fn count(&mut self, bytes: u64, now_ns: u64) {
        self.total += bytes;
        self.seen.push((now_ns, self.total));
    }

    /// Bytes per second, but for the beginning; 0 where too little came to tell.
    pub(super) fn bytes_per_s(&self) -> u64 {
        let (Some(first), Some((last_ns, last))) = (self.seen.first(), self.seen.last()) else { return 0 };
        let begin_ns = first.0 + (last_ns - first.0) * BEGINNING_PERCENT / 100;
        let place = self.seen.partition_point(|(seen_ns, _)| *seen_ns < begin_ns);
        let (from_ns, from) = self.seen.get(place).unwrap_or(first);
        let took_ns = last_ns.saturating_sub(*from_ns);
        if took_ns == 0 {
            return 0;
        }
        let rate = u128::from(last.saturating_sub(*from)) * 1_000_000_000 / u128::from(took_ns);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_does_not_count() {
        let mut meter = Meter::default();
        assert_eq!(meter.bytes_per_s(), 0);
        for ms in 0..=100_u64 {
            // All at once in the beginning, then 2 bytes each microsecond.
            let bytes = if ms < 30 { 1_000_000 } else { 2000 };
            meter.count(bytes, 5_000_000 + ms * 1_000_000);
        }
        assert_eq!(meter.bytes_per_s(), 2_000_000);
    }

    #[test]
    fn one_frame_says_nothing() {
        let mut meter = Meter::default();
        meter.count(100, 7);
        assert_eq!(meter.bytes_per_s(), 0);
    }
}
