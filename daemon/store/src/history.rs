//! Of what there is history: communicators, summation groups, and the pace of jobs. Only names; no statement is run here.

use super::columns::Values;
use super::rows::{PaceRow, SampleRow, SummationSampleRow};

/// One history.
pub(super) struct History {
    /// What the column `series.history` has.
    pub(super) name: &'static str,
    /// The table of its subjects, by `id`, each with its `job`.
    pub(super) subjects: &'static str,
    /// The places of values: see [`Values`].
    pub(super) values: &'static [&'static str],
}

impl History {
    /// The place of a value.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.values.iter().position(|value| *value == name)
    }
}

/// Of this many values, the first ones, rollups keep the last of a bucket, and both sides of a fall; of the others the largest.
pub(super) const LASTING: usize = 6;

pub(super) const COMMUNICATORS: History = History {
    name: "communicator",
    subjects: "communicators",
    values: &[
        "issued_calls",
        "issued_bytes",
        "completed_calls",
        "completed_bytes",
        "intra_bytes",
        "inter_bytes",
    ],
};

pub(super) const SUMMATIONS: History = History {
    name: "summation",
    subjects: "summation_groups",
    values: &[
        "pushed_bytes",
        "pulled_bytes",
        "summed_bytes",
        "finished_rounds",
        "share_ppm",
        "optimal_share_ppm",
        "spread_ns",
    ],
};

/// Totals: means of a time are told by two of them, whatever was left out in between.
pub(super) const PACES: History = History {
    name: "pace",
    subjects: "(SELECT id, id AS job FROM jobs)",
    values: &["known_ms", "millisteps", "own_ms", "in_operations_ms", "moving_ms", "since_ms"],
};

impl PaceRow {
    pub(super) fn values(&self) -> Values {
        [
            Some(self.known_ms),
            Some(self.millisteps),
            Some(self.own_ms),
            Some(self.in_operations_ms),
            Some(self.moving_ms),
            Some(self.since_ms),
            None,
        ]
    }

    /// The other way round. `None`: one is missing.
    pub(super) fn of(job: &str, ts_ms: i64, values: &Values) -> Option<Self> {
        Some(Self {
            job: job.to_owned(),
            ts_ms,
            known_ms: values[0]?,
            millisteps: values[1]?,
            own_ms: values[2]?,
            in_operations_ms: values[3]?,
            moving_ms: values[4]?,
            since_ms: values[5]?,
        })
    }
}

impl SampleRow {
    pub(super) fn values(&self) -> Values {
        [
            Some(self.issued_calls),
            Some(self.issued_bytes),
            Some(self.completed_calls),
            Some(self.completed_bytes),
            self.intra_bytes,
            self.inter_bytes,
            None,
        ]
    }
}

impl SummationSampleRow {
    pub(super) fn values(&self) -> Values {
        [
            Some(self.pushed_bytes),
            Some(self.pulled_bytes),
            self.summed_bytes,
            self.finished_rounds,
            Some(self.share_ppm),
            Some(self.optimal_share_ppm),
            self.spread_ns,
        ]
    }
}
