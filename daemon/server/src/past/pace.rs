//! The pace of a job over time, as means of what its samples total. Of a time of which nothing is kept it says nothing.

use ringscope_api::{PaceSeries, PastPace};
use ringscope_store::PaceRow;

/// Means of a job by step of time, while its samples come.
pub(crate) struct Means {
    from_ms: i64,
    step_ms: i64,
    last: Option<PaceRow>,
    sums: Vec<Sums>,
}

/// What fell into one step of time.
#[derive(Clone, Copy, Default)]
struct Sums {
    known_ms: f64,
    steps: f64,
    own_ms: f64,
    in_operations_ms: f64,
    moving_ms: f64,
}

impl Means {
    pub(crate) fn new(from_ms: i64, step_ms: i64, n: usize) -> Self {
        Self { from_ms, step_ms: step_ms.max(1), last: None, sums: vec![Sums::default(); n] }
    }

    /// Takes the next sample. What grew since the one before did so in the time of which the pace was known: the last of it.
    pub(crate) fn take(&mut self, row: PaceRow) {
        let ts_ms = row.ts_ms;
        let Some(last) = self.last.replace(row.clone()) else { return };
        // Another daemon counts anew.
        let Some(grown) = Sums::between(&last, &row) else { return };
        #[expect(clippy::cast_possible_truncation, reason = "it is a difference of two integers")]
        let begins_ms = last.ts_ms.max(ts_ms - grown.known_ms as i64).min(ts_ms - 1);
        let bucket = |ms: i64| (ms - self.from_ms).div_euclid(self.step_ms);
        let n = i64::try_from(self.sums.len()).unwrap_or(i64::MAX);
        for place in bucket(begins_ms).max(0)..=bucket(ts_ms - 1).min(n - 1) {
            let from_ms = self.from_ms + place * self.step_ms;
            let within_ms = ts_ms.min(from_ms + self.step_ms) - begins_ms.max(from_ms);
            let part = real(within_ms) / real(ts_ms - begins_ms);
            if let Some(sums) = usize::try_from(place).ok().and_then(|place| self.sums.get_mut(place)) {
                sums.add(&grown, part);
            }
        }
    }

    /// A line of each mean.
    pub(crate) fn finish(self, job: &str) -> PaceSeries {
        let line = |of: fn(&Sums) -> Option<f64>| self.sums.iter().map(of).collect();
        PaceSeries {
            job: job.to_owned(),
            step_s: real(self.step_ms) / 1000.0,
            times_ms: (0..self.sums.len() as u64)
                .map(|n| self.from_ms.unsigned_abs() + n * self.step_ms.unsigned_abs())
                .collect(),
            step_seconds: line(Sums::step_seconds),
            own_seconds: line(Sums::own_seconds),
            in_operations_share: line(Sums::in_operations_share),
            waiting_share: line(Sums::waiting_share),
        }
    }

    /// The mean of all of it. `None`: nothing is known.
    pub(crate) fn mean(&self, job: &str) -> Option<PastPace> {
        let mut all = Sums::default();
        self.sums.iter().for_each(|sums| all.add(sums, 1.0));
        Some(PastPace {
            job: job.to_owned(),
            step_seconds: all.step_seconds()?,
            own_seconds: all.own_seconds()?,
            in_operations_share: all.in_operations_share()?,
            waiting_share: all.waiting_share()?,
        })
    }
}

impl Sums {
    /// What grew. `None`: these are not totals of one count, or nothing did.
    fn between(last: &PaceRow, row: &PaceRow) -> Option<Self> {
        let grown = |of: fn(&PaceRow) -> i64| Some(real(of(row) - of(last))).filter(|grown| *grown >= 0.0);
        let sums = Self {
            known_ms: grown(|row| row.known_ms)?,
            steps: grown(|row| row.millisteps)? / 1000.0,
            own_ms: grown(|row| row.own_ms)?,
            in_operations_ms: grown(|row| row.in_operations_ms)?,
            moving_ms: grown(|row| row.moving_ms)?,
        };
        (last.since_ms == row.since_ms && sums.known_ms > 0.0).then_some(sums)
    }

    fn add(&mut self, other: &Self, part: f64) {
        self.known_ms += other.known_ms * part;
        self.steps += other.steps * part;
        self.own_ms += other.own_ms * part;
        self.in_operations_ms += other.in_operations_ms * part;
        self.moving_ms += other.moving_ms * part;
    }

    fn step_seconds(&self) -> Option<f64> {
        (self.steps > 0.0).then(|| self.known_ms / self.steps / 1000.0)
    }

    fn own_seconds(&self) -> Option<f64> {
        (self.steps > 0.0).then(|| self.own_ms / self.steps / 1000.0)
    }

    fn in_operations_share(&self) -> Option<f64> {
        (self.known_ms > 0.0).then(|| self.in_operations_ms / self.known_ms)
    }

    fn waiting_share(&self) -> Option<f64> {
        (self.known_ms > 0.0).then(|| ((self.in_operations_ms - self.moving_ms) / self.known_ms).max(0.0))
    }
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of some years")]
fn real(ms: i64) -> f64 {
    ms as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Totals at a second: steps of 100 ms, 30 of them own, half in operations and a fifth moving.
    fn row(ts_s: i64, known_s: i64, since_ms: i64) -> PaceRow {
        let known_ms = known_s * 1000;
        PaceRow {
            job: "train".into(),
            ts_ms: ts_s * 1000,
            known_ms,
            millisteps: known_ms * 10,
            own_ms: known_ms * 3 / 10,
            in_operations_ms: known_ms / 2,
            moving_ms: known_ms / 5,
            since_ms,
        }
    }

    #[test]
    fn means_are_of_the_time_that_is_known() {
        let mut means = Means::new(100_000, 10_000, 6);
        // Known from the 95th second to the 110th and from the 135th to the 140th; another daemon goes on from the 145th.
        for row in [row(95, 0, 1), row(110, 15, 1), row(140, 20, 1), row(145, 2, 2), row(155, 12, 2)] {
            means.take(row);
        }
        let all = means.mean("train").unwrap();
        assert!((all.step_seconds - 0.1).abs() < 1e-9 && (all.own_seconds - 0.03).abs() < 1e-9, "{all:?}");
        assert!((all.in_operations_share - 0.5).abs() < 1e-9 && (all.waiting_share - 0.3).abs() < 1e-9);
        let told = means.finish("train");
        let known: Vec<bool> = told.step_seconds.iter().map(Option::is_some).collect();
        assert_eq!(known, [true, false, false, true, true, true]);
        assert_eq!((told.times_ms[5], told.step_s), (150_000, 10.0));
    }

    #[test]
    fn of_nothing_nothing_is_said() {
        let mut means = Means::new(0, 1000, 2);
        means.take(row(1, 5, 1));
        assert!(means.mean("train").is_none());
        // The same totals again, and smaller ones.
        means.take(row(2, 5, 1));
        means.take(row(2, 4, 1));
        assert!(means.mean("train").is_none());
    }
}
