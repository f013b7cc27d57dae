//! Of what there is history: communicators, and summation groups. Only names; no statement is run here.

use super::columns::Values;
use super::rows::{SampleRow, SummationSampleRow};

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
