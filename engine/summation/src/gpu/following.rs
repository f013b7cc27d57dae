//! The thread that follows the calls: it asks events and handles, sleeps in between, and says for what a GPU is late.

use std::collections::BTreeSet;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::driver::Driver;
use super::shared::Shared;
use super::transfer::{Look, Means, Remains, Transfer};
use rsccl_collective::clock::{self, Deadline};
use rsccl_collective::log;

/// Between looks while calls move on: far below the time of a copy of a part.
const SHORTEST: Duration = Duration::from_micros(20);
/// Between looks while nothing moves: a millisecond late after a wait of eight is not noticed.
const LONGEST: Duration = Duration::from_millis(1);
/// Who leaves waits so long for a GPU that has still to write memory which nobody reads any more: longer than the step of a
/// training that goes on, and no more than anybody waits for the end of a program.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// What the thread has.
#[derive(Debug)]
struct Following<'a> {
    shared: &'a Shared,
    driver: &'static Driver,
    under_way: Vec<Transfer>,
    /// Of calls that are over for their callers, and not for a GPU.
    remains: Vec<Remains>,
    /// Once the group is left, and nothing but remains is there.
    gives_up: Option<Deadline>,
    /// A warning comes once, then after twice the time, and so on.
    next_warning: Duration,
}

/// Follows the calls until no more come, and lets nobody wait where that fails.
pub(super) fn follow(shared: &Shared, driver: &'static Driver) {
    let follow = || driver.relaxed(|| Following::new(shared, driver).run());
    match catch_unwind(AssertUnwindSafe(follow)) {
        Ok(0) => {}
        Ok(n_left_behind) => {
            shared.leave_behind(n_left_behind);
            let text = format!(
                "summation: a GPU has still to copy {n_left_behind} contributions that nobody reads any more, and has \
                     not for seconds: pinned memory, streams and events of this group stay until the process ends"
            );
            log::warn(0, &text);
        }
        Err(panic) => shared.break_down(&*panic),
    }
}

impl<'a> Following<'a> {
    /// Of these calls.
    fn new(shared: &'a Shared, driver: &'static Driver) -> Self {
        let (under_way, remains, gives_up) = (Vec::new(), Vec::new(), None);
        Self { shared, driver, under_way, remains, gives_up, next_warning: shared.warning }
    }

    /// Follows them until no more come. How many GPUs' writes were left behind.
    fn run(mut self) -> usize {
        let mut pause = SHORTEST;
        loop {
            self.under_way.append(&mut self.shared.arrived());
            if self.under_way.is_empty() {
                if self.remains.is_empty() {
                    if self.shared.is_over() {
                        return 0;
                    }
                    continue;
                }
                if self.is_left_alone() {
                    return self.remains.len();
                }
            }
            let moved = self.look_at_calls() | self.look_at_remains();
            self.look_for_late();
            pause = if moved { SHORTEST } else { (pause + pause / 8).min(LONGEST) };
            if !moved {
                self.shared.sleep(pause);
            }
        }
    }

    /// Looks at every call, in their order. Whether any has moved.
    fn look_at_calls(&mut self) -> bool {
        let means = self.shared.means(self.driver);
        let (mut has_left, mut moved) = (Vec::new(), false);
        // Tensors with a contribution that has not left: later ones of them wait.
        let mut held = BTreeSet::new();
        for transfer in mem::take(&mut self.under_way) {
            let (tensor, was_leaving) = (transfer.tensor, transfer.is_leaving());
            let stays = match transfer.look(&means, !held.contains(&tensor)) {
                Look::Waits(transfer) => Some(transfer),
                Look::Moved(transfer) => {
                    moved = true;
                    Some(transfer)
                }
                Look::Over(remains) => {
                    moved = true;
                    self.remains.extend(remains);
                    None
                }
            };
            let is_leaving = stays.as_ref().is_some_and(Transfer::is_leaving);
            has_left.extend((was_leaving && !is_leaving).then_some(tensor));
            if is_leaving {
                held.insert(tensor);
            }
            self.under_way.extend(stays);
        }
        self.shared.have_left(has_left.len());
        moved
    }

    /// Gives back what a GPU has written meanwhile. Whether there was any.
    fn look_at_remains(&mut self) -> bool {
        let means: Means<'_> = self.shared.means(self.driver);
        let (over, stay): (Vec<_>, Vec<_>) =
            mem::take(&mut self.remains).into_iter().partition(|remains| remains.are_over(&means));
        self.remains = stay;
        let moved = !over.is_empty();
        over.into_iter().for_each(|remains| remains.give_back(&means));
        moved
    }

    /// Whether the group is left, and a GPU has not written for too long.
    fn is_left_alone(&mut self) -> bool {
        self.shared.is_closing() && self.gives_up.get_or_insert_with(|| Deadline::after(LAST_WAIT)).passed()
    }

    /// Says what has waited longest for a GPU.
    fn look_for_late(&mut self) {
        let now = clock::now();
        let waits = self.under_way.iter().filter_map(|transfer| Some((transfer.on_gpu_since()?, transfer)));
        let oldest = waits.min_by_key(|(since, _)| *since);
        let Some((age, transfer)) = oldest.map(|(since, transfer)| (now - since, transfer)) else {
            self.next_warning = self.shared.warning;
            return;
        };
        if age < self.shared.warning {
            self.next_warning = self.shared.warning;
        }
        if age < self.next_warning {
            return;
        }
        self.next_warning = age.saturating_mul(2);
        log::warn(0, &format!("summation: {} (RSUM_WARN_S)", transfer.lateness(age)));
    }
}
