//! How fine history is kept: samples as they came, and rollups of them. Only names and lengths; no statement is run here.

/// One of the grains that history is kept in.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Resolution {
    Samples,
    Minute,
    TenMinutes,
    Hour,
}

impl Resolution {
    /// Rollups, the finest first: each is made of the one before, the first of the samples.
    pub(super) const ROLLUPS: [Self; 3] = [Self::Minute, Self::TenMinutes, Self::Hour];

    /// Length of a bucket; 0 of the samples. The column `level_ms`.
    pub(super) const fn bucket_ms(self) -> i64 {
        match self {
            Self::Samples => 0,
            Self::Minute => 60_000,
            Self::TenMinutes => 600_000,
            Self::Hour => 3_600_000,
        }
    }

    /// The time of which one row has what is kept of a series: so much that a row is some hundred bytes or more, and that a
    /// day is read by few rows. Each divides a day.
    pub(super) const fn span_ms(self) -> i64 {
        match self {
            Self::Samples | Self::Minute => 600_000,
            Self::TenMinutes => 4 * 3_600_000,
            Self::Hour => DAY_MS,
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

    /// The start of the bucket that a time is in.
    pub(super) const fn floor_ms(self, ts_ms: i64) -> i64 {
        ts_ms - ts_ms.rem_euclid(self.bucket_ms())
    }

    /// The start of the span that a time is in.
    pub(super) const fn span_of(self, ts_ms: i64) -> i64 {
        ts_ms - ts_ms.rem_euclid(self.span_ms())
    }
}

/// What one table has.
pub(super) const DAY_MS: i64 = 86_400_000;
