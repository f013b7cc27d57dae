//! Of what there is history: communicators, and summation groups. Only the names of tables and columns; no statement is
//! run here.

use super::resolution::Resolution;

/// One history: a table of samples, and one of their rollups.
pub(super) struct History {
    samples: &'static str,
    rollups: &'static str,
    /// The table of its subjects, by `id`, each with its `job`.
    pub(super) subjects: &'static str,
    /// The column that says of which subject a row is.
    pub(super) subject: &'static str,
    /// The column that, beside `host`, tells the series of a subject apart.
    pub(super) kind: &'static str,
    /// Columns of which rollups keep the last value of a bucket, and both sides of a fall.
    pub(super) lasting: &'static [&'static str],
    /// Columns of which rollups keep the largest value of a bucket.
    pub(super) worst: &'static [&'static str],
}

impl History {
    /// What a statement says to mean the rows of a resolution, up to further conditions: the columns after that lead the
    /// primary key.
    pub(super) fn rows(&self, resolution: Resolution) -> String {
        match resolution {
            Resolution::Samples => format!("{} WHERE", self.samples),
            coarser => format!("{} WHERE level_ms = {} AND", self.rollups, coarser.bucket_ms()),
        }
    }

    /// The statement that writes rollups, up to their values, and what follows these: a row replaces the one of its key.
    pub(super) fn upsert(&self) -> (String, String) {
        let Self { rollups, subject, kind, .. } = self;
        let values: Vec<&str> = self.values().collect();
        let replaced: Vec<String> = values.iter().map(|name| format!("{name} = excluded.{name}")).collect();
        (
            format!(
                "INSERT INTO {rollups} (level_ms, {subject}, ts_ms, host, {kind}, {}) ",
                values.join(", ")
            ),
            format!(
                " ON CONFLICT (level_ms, {subject}, ts_ms, host, {kind}) DO UPDATE SET {}",
                replaced.join(", ")
            ),
        )
    }

    /// Every column that is no part of the key.
    pub(super) fn values(&self) -> impl Iterator<Item = &'static str> {
        self.lasting.iter().chain(self.worst).copied()
    }
}

pub(super) const COMMUNICATORS: History = History {
    samples: "samples",
    rollups: "rollups",
    subjects: "communicators",
    subject: "comm",
    kind: "primitive",
    lasting: &[
        "issued_calls",
        "issued_bytes",
        "completed_calls",
        "completed_bytes",
        "intra_bytes",
        "inter_bytes",
    ],
    worst: &[],
};

pub(super) const SUMMATIONS: History = History {
    samples: "summation_samples",
    rollups: "summation_rollups",
    subjects: "summation_groups",
    subject: "group_id",
    kind: "service",
    lasting: &[
        "pushed_bytes",
        "pulled_bytes",
        "summed_bytes",
        "finished_rounds",
        "share_ppm",
        "optimal_share_ppm",
    ],
    worst: &["spread_ns"],
};

/// Every history.
pub(super) const ALL: [&History; 2] = [&COMMUNICATORS, &SUMMATIONS];
