//! From the ticks of one process to time: an anchor that the process left, and a second reading of the reader's own.

/// One clock reading of the process, to turn its ticks into time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockAnchor {
    /// Whether ticks are a counter of unknown rate rather than nanoseconds.
    pub is_counter: bool,
    /// Ticks at the anchor.
    pub ticks: u64,
    /// `CLOCK_MONOTONIC` at the anchor, nanoseconds.
    pub monotonic_ns: u64,
    /// Wall time at the anchor, nanoseconds since the Unix epoch.
    pub wall_ns: u64,
}

/// Turns the ticks of one process into nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    anchor: ClockAnchor,
    ns_per_tick: f64,
}

impl ClockAnchor {
    /// The clock, given a second reading {counter ticks, `CLOCK_MONOTONIC` ns} taken later on the same machine.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate; 53 bits are more than a clock has")]
    pub fn clock(self, ticks: u64, monotonic_ns: u64) -> Clock {
        let elapsed_ticks = ticks.saturating_sub(self.ticks);
        let elapsed_ns = monotonic_ns.saturating_sub(self.monotonic_ns);
        let ns_per_tick =
            if self.is_counter && elapsed_ticks > 0 { elapsed_ns as f64 / elapsed_ticks as f64 } else { 1.0 };
        Clock { anchor: self, ns_per_tick }
    }
}

impl Clock {
    /// Wall time of a tick, nanoseconds since the Unix epoch.
    #[must_use]
    pub fn wall_ns(self, ticks: u64) -> u64 {
        if ticks >= self.anchor.ticks {
            self.anchor.wall_ns.saturating_add(self.duration_ns(ticks - self.anchor.ticks))
        } else {
            self.anchor.wall_ns.saturating_sub(self.duration_ns(self.anchor.ticks - ticks))
        }
    }

    /// Wall time of a moment of `CLOCK_MONOTONIC`, nanoseconds since the Unix epoch.
    #[must_use]
    pub fn wall_of_monotonic_ns(self, monotonic_ns: u64) -> u64 {
        let since = monotonic_ns.wrapping_sub(self.anchor.monotonic_ns).cast_signed();
        self.anchor.wall_ns.saturating_add_signed(since)
    }

    /// Nanoseconds of a number of ticks.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a product of two non-negative numbers; `as` saturates"
    )]
    pub fn duration_ns(self, ticks: u64) -> u64 {
        (ticks as f64 * self.ns_per_tick) as u64
    }
}
