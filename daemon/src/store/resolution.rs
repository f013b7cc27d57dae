//! How fine history is kept: samples as they came, and rollups of them. Only names and lengths; no statement is run here.

/// One of the grains that history is kept in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Resolution {
    Samples,
    Minute,
    TenMinutes,
    Hour,
}

impl Resolution {
    /// Rollups, the finest first: each is made of the one before, the first of the samples.
    pub(super) const ROLLUPS: [Self; 3] = [Self::Minute, Self::TenMinutes, Self::Hour];

    /// Length of a bucket; 0 of the samples. `rollups.level_ms`.
    pub(super) const fn bucket_ms(self) -> i64 {
        match self {
            Self::Samples => 0,
            Self::Minute => 60_000,
            Self::TenMinutes => 600_000,
            Self::Hour => 3_600_000,
        }
    }

    /// What it is made of.
    pub(super) const fn source(self) -> Self {
        match self {
            Self::Samples | Self::Minute => Self::Samples,
            Self::TenMinutes => Self::Minute,
            Self::Hour => Self::TenMinutes,
        }
    }

    /// What a statement says to mean its rows, up to further conditions: the columns after that lead the primary key.
    pub(super) const fn rows(self) -> &'static str {
        match self {
            Self::Samples => "samples WHERE",
            Self::Minute => "rollups WHERE level_ms = 60000 AND",
            Self::TenMinutes => "rollups WHERE level_ms = 600000 AND",
            Self::Hour => "rollups WHERE level_ms = 3600000 AND",
        }
    }

    /// The start of the bucket that a time is in.
    pub(super) const fn floor_ms(self, ts_ms: i64) -> i64 {
        ts_ms - ts_ms.rem_euclid(self.bucket_ms())
    }
}
