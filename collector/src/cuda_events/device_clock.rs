//! The clock of a device in the host's ticks. A CUDA event tells the time only since another one, so an event that has completed
//! is the anchor: of each event that completes it is known when the host had not seen it yet, and when it had. What all of them
//! allow at once is where the anchor lies.

/// How much the two clocks may drift apart: crystals of 50 ppm each, and as much for temperature.
const DRIFT_PPM: i64 = 200;

/// Where the anchor lies, in ticks of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeviceClock {
    pub(super) earliest: i64,
    pub(super) latest: i64,
}

impl DeviceClock {
    /// An event that the device got to so long after the anchor had not happened before `earliest`, and had by `latest`.
    pub(super) fn narrow(&mut self, since: i64, earliest: i64, latest: i64) {
        let own = Self { earliest: earliest - since, latest: latest - since };
        let both = Self { earliest: self.earliest.max(own.earliest), latest: self.latest.min(own.latest) };
        // Where the two contradict each other a clock has jumped: what is newest holds.
        *self = if both.earliest <= both.latest { both } else { own };
    }

    /// So long after the anchor.
    pub(super) fn at(&self, since: i64) -> i64 {
        self.earliest + self.error() + since
    }

    /// By how much [`DeviceClock::at`] may be wrong, near the anchor.
    pub(super) fn error(&self) -> i64 {
        (self.latest - self.earliest) / 2
    }

    /// The anchor is now an event so long after it, which had not happened before `earliest`, and had by `latest`.
    pub(super) fn move_on(&mut self, since: i64, earliest: i64, latest: i64) {
        let drift = since / 1_000_000 * DRIFT_PPM + 1;
        self.earliest += since - drift;
        self.latest += since + drift;
        // After a long time what clocks drift is more than what is known of the event itself.
        self.narrow(0, earliest, latest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_narrows_down_where_the_anchor_lies() {
        let mut clock = DeviceClock { earliest: 1000, latest: 6000 };
        assert_eq!((clock.at(0), clock.error()), (3500, 2500));
        // One that was seen early, and one that had not happened late.
        clock.narrow(10_000, 11_000, 12_000);
        clock.narrow(20_000, 21_800, 27_000);
        assert_eq!(clock, DeviceClock { earliest: 1800, latest: 2000 });
        assert_eq!((clock.at(500), clock.at(-100), clock.error()), (2400, 1800, 100));
    }

    #[test]
    fn a_new_anchor_is_known_less_well_by_what_clocks_drift() {
        let mut clock = DeviceClock { earliest: 0, latest: 100 };
        clock.move_on(10_000_000, 0, 20_000_000);
        assert_eq!(clock, DeviceClock { earliest: 9_997_999, latest: 10_002_101 });
    }

    #[test]
    fn after_a_long_rest_a_new_anchor_is_known_as_well_as_it_was_seen() {
        let hour = 3_600_000_000_000;
        let mut clock = DeviceClock { earliest: 0, latest: 100 };
        clock.move_on(hour, hour - 3000, hour + 7000);
        assert_eq!((clock.at(0), clock.error()), (hour + 2000, 5000));
    }

    #[test]
    fn a_clock_that_has_jumped_is_known_anew() {
        let mut clock = DeviceClock { earliest: 0, latest: 100 };
        clock.narrow(1000, 5000, 5400);
        assert_eq!(clock, DeviceClock { earliest: 4000, latest: 4400 });
    }
}
