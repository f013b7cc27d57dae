//! The thread that asks the events: started with the first event, often looking while something is under way, rarely while
//! that takes long, waiting for a wake when there is nothing. It never enters the library and takes nothing from callers
//! but pending events. It may take half a percent of a core, and nobody waits for what it finds, so its looks are few.

use std::time::Duration;

use crate::cuda_events::ask::Seen;
use crate::cuda_events::{alone, ask, driver, ending, poller, stream_events};
use crate::segment::segment;

/// After a wake.
const SHORTEST: Duration = Duration::from_millis(1);
/// Between looks while operations complete. It bounds how late a completion is seen, and how many events a stream uses.
const STEADY: Duration = Duration::from_millis(5);
/// Between looks while nothing completes (a hang, say): costs nothing, and is still soon for a screen.
const LONGEST: Duration = Duration::from_millis(32);
/// Looks that find nothing under way before the thread waits to be woken: 50 ms, so that a training step's pauses do not
/// cost the caller a system call each.
const IDLE_LOOKS: u32 = 10;
/// Events asked in one look. A query takes up to 1 us; more streams than this take turns.
const MAX_QUERIES: usize = 16;

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
            let max_queries = if is_last { usize::MAX } else { MAX_QUERIES };
            let seen = ask::oldest(segment, max_queries);
            ending::settle(segment, is_last);
            seen
        });
        let pause = pace.next(&seen);
        poller::pause(pause, || stream_events::any_recorded() || ending::any());
        if pause.is_none_or(|pause| pause == LONGEST) && alone::is_alone() {
            return alone::end();
        }
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
        let is_stuck = seen.completed == 0 && seen.timed == 0 && !is_idle;
        self.pause = if is_stuck {
            // Growing by an eighth, an operation of some length is seen at most an eighth of it late.
            (self.pause + self.pause / 8).min(LONGEST)
        } else {
            (self.pause + self.pause / 4).min(STEADY)
        };
        Some(self.pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_often_while_operations_complete_and_rarely_while_they_hang() {
        let mut pace = Pace::default();
        let moving = Seen { still_pending: 1, completed: 0, timed: 1 };
        let stuck = Seen { still_pending: 1, ..Seen::default() };
        let mut last = SHORTEST;
        for (seen, limit) in [(&moving, STEADY), (&stuck, LONGEST)] {
            for _ in 0..60 {
                let pause = pace.next(seen).unwrap();
                assert!(pause >= last && pause <= limit);
                last = pause;
            }
            assert_eq!(last, limit);
        }
        assert_eq!(pace.next(&moving), Some(STEADY));
    }

    #[test]
    fn with_nothing_under_way_it_waits_to_be_woken() {
        let mut pace = Pace::default();
        let nothing = Seen::default();
        for _ in 0..IDLE_LOOKS {
            assert!(pace.next(&nothing).is_some_and(|pause| pause <= STEADY));
        }
        assert_eq!(pace.next(&nothing), None);
        assert!(pace.next(&nothing).is_some_and(|pause| pause < STEADY));
    }
}
