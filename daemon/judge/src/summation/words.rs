//! Members in words.

use std::time::Duration;

use ringscope_api::SummationRole as Role;
use ringscope_api::words;
use ringscope_model::summation::Place;

use super::Subject;

impl Subject<'_> {
    /// "worker 2 (train-2, rank 18)", "server 0 (sum-0)".
    pub(super) fn who(self, place: Place) -> String {
        let (role, index) = place;
        let process = self.group.process(place, self.model);
        let rank = process.and_then(|process| process.identity()?.global_rank);
        let host = match self.group.host(place, self.model) {
            "" => "unknown host",
            host => host,
        };
        match rank.filter(|_| role == Role::Worker) {
            Some(rank) => format!("{} {index} ({host}, rank {rank})", role.label()),
            None => format!("{} {index} ({host})", role.label()),
        }
    }

    /// The same of several ranks of the group.
    pub(super) fn who_all(self, ranks: impl Iterator<Item = u32>) -> String {
        let names: Vec<String> = ranks.filter_map(|rank| Some(self.who(self.group.place(rank)?))).collect();
        words::list(&names, NAMED)
    }
}

/// How long something lasts at least, in steps, so that a message does not change with every look.
pub(super) fn at_least(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let step = STEPS_S.into_iter().rev().find(|step| *step <= seconds).unwrap_or(seconds);
    words::duration(Duration::from_secs_f64(step))
}

/// A number with one digit that counts: "17" as "10", for the same reason.
pub(super) fn rounded(number: u64) -> u64 {
    let power = 10_u64.pow(number.checked_ilog10().unwrap_or(0));
    number / power * power
}

/// More names than this tell an operator nothing that the page does not tell better.
const NAMED: usize = 4;

/// Seconds.
const STEPS_S: [f64; 10] = [1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 300.0, 600.0, 3_600.0, 36_000.0];
