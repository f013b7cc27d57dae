//! History: cumulative counters by time.

use sqlx::{AssertSqlSafe, Row as _};

use super::{Store, StoreError, each};

/// What the history has of each series.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "the names are the columns of `samples`")]
pub enum Metric {
    IssuedCalls,
    IssuedBytes,
    CompletedCalls,
    CompletedBytes,
    IntraBytes,
    InterBytes,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Self; 6] = [
        Self::IssuedBytes,
        Self::CompletedBytes,
        Self::IssuedCalls,
        Self::CompletedCalls,
        Self::IntraBytes,
        Self::InterBytes,
    ];

    /// Its column, which is also its word in the API.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::IssuedCalls => "issued_calls",
            Self::IssuedBytes => "issued_bytes",
            Self::CompletedCalls => "completed_calls",
            Self::CompletedBytes => "completed_bytes",
            Self::IntraBytes => "intra_bytes",
            Self::InterBytes => "inter_bytes",
        }
    }

    /// What it counts.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::IssuedCalls | Self::CompletedCalls => "calls",
            _ => "bytes",
        }
    }
}

/// Which samples to read.
#[derive(Clone, Debug)]
pub struct SeriesQuery {
    /// The counter.
    pub metric: Metric,
    /// Only this communicator.
    pub comm: Option<String>,
    /// Only this host.
    pub host: Option<String>,
    /// Only this primitive.
    pub primitive: Option<String>,
    /// From, inclusive, milliseconds since 1970. Samples up to [`SeriesQuery::LOOK_BACK_MS`] older are read too.
    pub from_ms: i64,
    /// To, exclusive.
    pub to_ms: i64,
    /// Width of a bucket.
    pub step_ms: i64,
}

impl SeriesQuery {
    /// How far back a series may have its last change: an unchanged series has no rows.
    pub const LOOK_BACK_MS: i64 = 5 * 60 * 1000;
    /// Most points (times × lines) that one answer carries.
    pub const POINTS_MAX: i64 = 1_000_000;
}

/// The counter of one series at the end of one bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplePoint {
    /// Communicator.
    pub comm: String,
    /// Host.
    pub host: String,
    /// Primitive.
    pub primitive: String,
    /// Bucket, counted from `from_ms`; negative in the look-back.
    pub bucket: i64,
    /// The counter.
    pub value: i64,
}

impl Store {
    /// The last value of each series in each bucket, by time.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn series(&self, query: &SeriesQuery) -> Result<Vec<SamplePoint>, StoreError> {
        // Buckets count from the start of the look-back, so that no dividend is negative: the two databases agree
        // on nothing else. Counters only grow, so the greatest is the last.
        let look_back = next_multiple(SeriesQuery::LOOK_BACK_MS, query.step_ms);
        let start = query.from_ms - look_back;
        let metric = query.metric.label();
        let sql = format!(
            "SELECT comm, host, primitive, (ts_ms - $1) / $2 AS bucket, MAX({metric}) AS value FROM samples \
             WHERE comm IN (SELECT id FROM communicators WHERE $3 IS NULL OR id = $3) \
             AND ts_ms >= $1 AND ts_ms < $4 AND ($5 IS NULL OR host = $5) AND ($6 IS NULL OR primitive = $6) \
             AND {metric} IS NOT NULL \
             GROUP BY comm, host, primitive, bucket ORDER BY bucket LIMIT $7"
        );
        let points = each!(read self, |pool| {
            let rows = sqlx::query(AssertSqlSafe(sql))
                .bind(start)
                .bind(query.step_ms)
                .bind(query.comm.clone())
                .bind(query.to_ms)
                .bind(query.host.clone())
                .bind(query.primitive.clone())
                .bind(SeriesQuery::POINTS_MAX)
                .fetch_all(pool)
                .await?;
            let mut points = Vec::with_capacity(rows.len());
            for row in rows {
                points.push(SamplePoint {
                    comm: row.try_get("comm")?,
                    host: row.try_get("host")?,
                    primitive: row.try_get("primitive")?,
                    bucket: row.try_get::<i64, _>("bucket")? - look_back / query.step_ms,
                    value: row.try_get("value")?,
                });
            }
            points
        });
        Ok(points)
    }
}

const fn next_multiple(value: i64, of: i64) -> i64 {
    (value + of - 1) / of * of
}
