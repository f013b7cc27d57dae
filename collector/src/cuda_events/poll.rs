//! The thread that asks the events: started with the first lane, often looking while something is under way, rarely while
//! that takes long, waiting for a wake when there is nothing. It never enters the library and takes nothing from callers
//! but marks.

use std::time::Duration;

use crate::cuda_events::stream_events::Seen;
use crate::cuda_events::{driver, ending, poller, stream_events};
use crate::segment::segment;

/// Between looks while operations complete. It bounds how late a completion is seen, and how many events a lane uses.
const SHORTEST: Duration = Duration::from_micros(200);
/// Between looks while nothing completes (a hang, say): costs nothing, and is still soon for a screen.
const LONGEST: Duration = Duration::from_millis(10);
/// Looks that find nothing under way before the thread waits to be woken: 50 ms, so that a training step's pauses do not
/// cost the caller a system call each.
const IDLE_LOOKS: u32 = 250;

/// Starts the thread if need be; false if it cannot be.
pub(super) fn start() -> bool {
    poller::start(run)
}

fn run() {
    // For good: a thread of ours is never in another mode.
    poller::unless_ending(driver::relax_thread);
    let mut pace = Pace::default();
    while !poller::is_ending() {
        let seen = poller::look_once(|| {
            let Some(segment) = segment() else { return Seen::default() };
            let is_last = poller::is_leaving();
            let seen = stream_events::ask_all(segment);
            ending::settle(segment, is_last);
            seen
        });
        poller::pause(pace.next(&seen), || stream_events::any_recorded() || ending::any());
    }
}

/// How long to pause between looks.
struct Pace {
    pause: Duration,
    n_idle: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { pause: SHORTEST, n_idle: 0 }
    }
}

impl Pace {
    /// The pause after a look; `None` for waiting to be woken.
    fn next(&mut self, seen: &Seen) -> Option<Duration> {
        let is_idle = seen.completed == 0 && seen.still_pending == 0;
        self.n_idle = if is_idle { self.n_idle + 1 } else { 0 };
        if self.n_idle > IDLE_LOOKS {
            *self = Self::default();
            return None;
        }
        // Growing by an eighth, an operation of some length is seen at most an eighth of it late.
        let is_stuck = seen.completed == 0 && !is_idle;
        self.pause = if is_stuck { (self.pause + self.pause / 8).min(LONGEST) } else { SHORTEST };
        Some(self.pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_often_while_operations_complete_and_rarely_while_they_hang() {
        let mut pace = Pace::default();
        let moving = Seen { still_pending: 1, completed: 1 };
        let stuck = Seen { still_pending: 1, completed: 0 };
        assert_eq!(pace.next(&moving), Some(SHORTEST));
        let mut last = SHORTEST;
        for _ in 0..60 {
            let pause = pace.next(&stuck).unwrap();
            assert!(pause >= last && pause <= LONGEST);
            last = pause;
        }
        assert_eq!(last, LONGEST);
        assert_eq!(pace.next(&moving), Some(SHORTEST));
    }

    #[test]
    fn with_nothing_under_way_it_waits_to_be_woken() {
        let mut pace = Pace::default();
        let nothing = Seen::default();
        for _ in 0..IDLE_LOOKS {
            assert_eq!(pace.next(&nothing), Some(SHORTEST));
        }
        assert_eq!(pace.next(&nothing), None);
        assert_eq!(pace.next(&nothing), Some(SHORTEST));
    }
}
