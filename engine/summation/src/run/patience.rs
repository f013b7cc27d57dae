//! How long a group has waited, and for whom: for who asks, for the log, and for an end where one is wanted.
//!
//! It is looked at once a second, so ages are short by as much. A round waits from its first contribution on, a group
//! from the first worker on that wants to contribute, and its end from the first one on that leaves: where nobody sums, nobody
//! waits.

use std::collections::BTreeMap;
use std::time::Duration;

use super::report::{Report, Waiting};
use crate::config::WaitLimits;
use crate::server::service::{Pending, Phase};
use rsccl_collective::net::watch::SILENT;

/// Between two looks: who waits for minutes does not mind a second, and a look costs as much as the rounds that are open.
const LOOK_NS: u64 = 1_000_000_000;

/// Of a driver.
#[derive(Debug)]
pub(super) struct Patience {
    limits: WaitLimits,
    due_ns: u64,
    since_ns: BTreeMap<What, u64>,
    next_warning: Duration,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// That they agree to what is declared, which they do before their first push.
    Start,
    /// Contributions to a round.
    Push { round: u64, key: u32 },
    /// That they take a round's answer.
    Pull { round: u64, key: u32 },
    /// That they leave the group, or declare more, as others have.
    Leave,
}

/// Something that workers are waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) what: What,
    /// In the order of the ranks.
    pub(super) workers: Vec<usize>,
}

/// What has waited longest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Late {
    pub(super) wait: Wait,
    /// For how long.
    pub(super) age: Duration,
    /// Whether that is the end of the group.
    pub(super) is_final: bool,
}

impl From<Pending> for Wait {
    fn from(Pending { key, round, phase, workers }: Pending) -> Self {
        let what = match phase {
            Phase::Push => What::Push { round, key },
            Phase::Pull => What::Pull { round, key },
        };
        Self { what, workers }
    }
}

impl What {
    /// Of which part.
    pub(super) fn key(self) -> Option<u32> {
        match self {
            Self::Start | Self::Leave => None,
            Self::Push { key, .. } | Self::Pull { key, .. } => Some(key),
        }
    }
}

impl Patience {
    /// As the settings say.
    pub(super) fn new(limits: WaitLimits) -> Self {
        Self { limits, due_ns: 0, since_ns: BTreeMap::new(), next_warning: limits.warning }
    }

    /// Looks at what waits, if it is time to. A warning comes once, then after twice the time, and so on.
    pub(super) fn look(&mut self, now_ns: u64, waits: impl FnOnce() -> Vec<Wait>) -> Option<Late> {
        if now_ns < self.due_ns {
            return None;
        }
        let late_ns = now_ns.saturating_sub(self.due_ns);
        if self.due_ns > 0 && late_ns > 2 * LOOK_NS {
            // This process was stopped itself, and perhaps all others with it: nobody is late by that.
            self.since_ns.values_mut().for_each(|since_ns| *since_ns += late_ns);
        }
        self.due_ns = now_ns.saturating_add(LOOK_NS);
        let waits = waits();
        let before = std::mem::take(&mut self.since_ns);
        let since = |what: What| before.get(&what).copied().unwrap_or(now_ns);
        self.since_ns = waits.iter().map(|wait| (wait.what, since(wait.what))).collect();
        let oldest = waits.into_iter().min_by_key(|wait| (since(wait.what), wait.what));
        let age = oldest.as_ref().map_or(Duration::ZERO, |wait| self.age(wait.what, now_ns));
        if age < self.limits.warning {
            self.next_warning = self.limits.warning;
        }
        let is_final = age >= self.limits.end;
        if !is_final && age < self.next_warning {
            return None;
        }
        self.next_warning = age.saturating_mul(2);
        oldest.map(|wait| Late { wait, age, is_final })
    }

    /// Adds to a report how long its round has waited; where there is none, what `other` than a round the group waits for.
    pub(super) fn date(&self, mut report: Report, other: Option<Wait>, now_ns: u64) -> Report {
        let other = other.map(|Wait { what, workers }| Waiting {
            phase: if what == What::Leave { Waiting::LEAVE } else { Waiting::START },
            workers,
            ..Waiting::default()
        });
        report.waiting = report.waiting.or(other);
        if let Some(waiting) = &mut report.waiting {
            let Waiting { key, round, .. } = *waiting;
            let what = match waiting.phase {
                Waiting::START => What::Start,
                Waiting::LEAVE => What::Leave,
                Waiting::PUSH => What::Push { round, key },
                _ => What::Pull { round, key },
            };
            waiting.waited_s = self.age(what, now_ns).as_secs();
        }
        report
    }

    fn age(&self, what: What, now_ns: u64) -> Duration {
        let since_ns = self.since_ns.get(&what).copied().unwrap_or(now_ns);
        Duration::from_nanos(now_ns.saturating_sub(since_ns))
    }
}

impl Late {
    /// In words that begin with the first of those who are late. `names` are those of all ranks.
    pub(super) fn tell(&self, names: &[String], tensor: &str) -> String {
        let name = |worker: &usize| names.get(*worker).map_or("nobody", String::as_str);
        let mut names = self.wait.workers.iter().map(name);
        let first = names.next().unwrap_or("nobody");
        let what = match self.wait.what {
            What::Start => "the first round waits for its first push".to_owned(),
            What::Leave => "others have left the group or declared more, and wait for it".to_owned(),
            What::Push { round, key } => {
                format!("round {round} of tensor {tensor:?}, part {key}, waits for its push")
            }
            What::Pull { round, key } => {
                format!("round {round} of tensor {tensor:?}, part {key}, waits for its pull")
            }
        };
        let others: String = names.map(|other| format!(", and for {other}")).collect();
        format!("{first} {SILENT} {} s: {what}{others}", self.age.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn patience(warning_s: u64, end_s: u64) -> Patience {
        let [warning, end] = [warning_s, end_s].map(Duration::from_secs);
        Patience::new(WaitLimits { warning, end })
    }

    fn waits(round: u64) -> Vec<Wait> {
        vec![Wait { what: What::Push { round, key: 3 }, workers: vec![1, 2] }]
    }

    /// At which seconds something is said of rounds that wait.
    fn said(mut patience: Patience, seconds: u64, waits: impl Fn(u64) -> Vec<Wait>) -> Vec<(u64, bool)> {
        let looks = (0..seconds).map(|second| (second, patience.look(second * SECOND_NS, || waits(second))));
        looks.filter_map(|(second, late)| Some((second, late?.is_final))).collect()
    }

    #[test]
    fn who_is_late_is_told_of_less_and_less_often_until_the_end() {
        let all = said(patience(10, 100), 102, |_| waits(5));
        assert_eq!(all, [(10, false), (20, false), (40, false), (80, false), (100, true), (101, true)]);
    }

    #[test]
    fn rounds_that_end_in_time_are_nobodys_fault() {
        assert_eq!(said(patience(10, 20), 100, |second| waits(second / 10)), []);
        assert_eq!(said(patience(10, 20), 100, |_| Vec::new()), []);
        let each = said(patience(10, 1000), 60, |second| waits(second / 15));
        assert_eq!(each, [(10, false), (25, false), (40, false), (55, false)]);
    }

    #[test]
    fn time_in_which_this_process_was_stopped_is_nobodys() {
        let mut patience = patience(10, 20);
        let mut look =
            |second: u64| patience.look(second * SECOND_NS, || waits(5)).map(|late| late.age.as_secs());
        assert_eq!((0..9).filter_map(&mut look).count(), 0);
        // Stopped for an hour.
        assert_eq!(look(3600), None);
        let ages: Vec<u64> = (3601..3612).filter_map(look).collect();
        assert_eq!(ages.first(), Some(&10));
    }

    #[test]
    fn a_report_says_how_long_and_words_say_for_whom() {
        let mut patience = patience(10, 1000);
        let late =
            (0..11).filter_map(|second| patience.look(second * SECOND_NS, || waits(5))).last().unwrap();
        let names: Vec<String> = (0..3).map(|rank| format!("rank {rank} (host-{rank})")).collect();
        let words = "rank 1 (host-1) has not answered for 10 s: round 5 of tensor \"a\", part 3, waits for its push, and for rank 2 (host-2)";
        assert_eq!(late.tell(&names, "a"), words);
        let waiting = Waiting { key: 3, round: 5, phase: Waiting::PUSH, ..Waiting::default() };
        let report = Report { waiting: Some(waiting), ..Report::default() };
        assert_eq!(patience.date(report, None, 12 * SECOND_NS).waiting.unwrap().waited_s, 12);
        let start = Some(Wait { what: What::Start, workers: vec![1] });
        let waiting = patience.date(Report::default(), start, 12 * SECOND_NS).waiting.unwrap();
        assert_eq!((waiting.phase, waiting.workers.as_slice(), waiting.waited_s), ("start", &[1][..], 0));
    }
}
