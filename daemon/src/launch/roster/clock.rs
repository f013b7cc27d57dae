//! How late it is on another host.

/// How another host's clock differs from ours, by the quickest answer so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    asked: Option<(u64, u64)>,
    best: Option<(u64, i128)>,
}

impl Clock {
    /// It is asked.
    pub(super) fn ask(&mut self, number: u64, now_ns: u64) {
        // An answer that is still out is of the question before.
        self.asked = Some((number, now_ns));
    }

    /// It has answered.
    pub(super) fn answered(&mut self, number: u64, theirs_ns: u64, now_ns: u64) {
        let Some((_, asked_ns)) = self.asked.filter(|(asked, _)| *asked == number) else { return };
        let took = now_ns.saturating_sub(asked_ns);
        if self.best.is_none_or(|(best, _)| took < best) {
            let middle = i128::from(asked_ns) + i128::from(took / 2);
            self.best = Some((took, middle - i128::from(theirs_ns)));
        }
    }

    /// A time of that host by our clock.
    pub(super) fn ours(&self, theirs_ns: u64) -> u64 {
        let ahead = self.best.map_or(0, |(_, ahead)| ahead);
        u64::try_from(i128::from(theirs_ns) + ahead).unwrap_or(theirs_ns)
    }
}
