//! History: cumulative counters by time.

use futures::TryStreamExt as _;
use sqlx::{AssertSqlSafe, Row as _};

use super::{Store, StoreError, each};

/// What the history has of each series.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "the names are those of the API")]
pub enum Metric {
    IssuedCalls,
    IssuedBytes,
    CompletedCalls,
    CompletedBytes,
    IntraBytes,
    InterBytes,
    /// Issued and not completed: no counter, it falls too.
    BacklogBytes,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Self; 7] = [
        Self::IssuedBytes,
        Self::CompletedBytes,
        Self::IssuedCalls,
        Self::CompletedCalls,
        Self::IntraBytes,
        Self::InterBytes,
        Self::BacklogBytes,
    ];

    /// Its word in the API; of a counter also its column.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::IssuedCalls => "issued_calls",
            Self::IssuedBytes => "issued_bytes",
            Self::CompletedCalls => "completed_calls",
            Self::CompletedBytes => "completed_bytes",
            Self::IntraBytes => "intra_bytes",
            Self::InterBytes => "inter_bytes",
            Self::BacklogBytes => "backlog_bytes",
        }
    }

    /// Whether it only grows.
    #[must_use]
    pub const fn is_counter(self) -> bool {
        !matches!(self, Self::BacklogBytes)
    }

    /// Its value in terms of columns.
    const fn expression(self) -> &'static str {
        match self {
            Self::BacklogBytes => "issued_bytes - completed_bytes",
            _ => self.label(),
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
    /// What of them.
    pub metric: Metric,
    /// Only of this job.
    pub job: Option<String>,
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
    /// Time between the points that are made of them: samples need not be closer.
    pub step_ms: i64,
}

impl SeriesQuery {
    /// How far back a series may have its last change: an unchanged series has no rows.
    pub const LOOK_BACK_MS: i64 = 5 * 60 * 1000;
    /// Most samples that one query reads: what the hub writes in an hour at most is 3.6 million.
    pub const SAMPLES_MAX: usize = 5_000_000;
}

/// One series at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplePoint<'a> {
    /// Communicator.
    pub comm: &'a str,
    /// Host.
    pub host: &'a str,
    /// Primitive.
    pub primitive: &'a str,
    /// When, milliseconds since 1970.
    pub ts_ms: i64,
    /// The value.
    pub value: i64,
}

impl Store {
    /// Gives `take` the samples, those of each series by time. Returns false if there are more than
    /// [`SeriesQuery::SAMPLES_MAX`]: then not all were given.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn series(
        &self,
        query: &SeriesQuery,
        mut take: impl FnMut(SamplePoint<'_>),
    ) -> Result<bool, StoreError> {
        let value = query.metric.expression();
        let sql = format!(
            "SELECT comm, ts_ms, host, primitive, {value} AS value FROM samples WHERE comm IN \
             (SELECT id FROM communicators WHERE ($1 IS NULL OR id = $1) AND ($2 IS NULL OR job = $2)) \
             AND ts_ms >= $3 AND ts_ms < $4 AND ($5 IS NULL OR host = $5) AND ($6 IS NULL OR primitive = $6) \
             AND {value} IS NOT NULL ORDER BY comm, ts_ms"
        );
        let mut room = SeriesQuery::SAMPLES_MAX;
        each!(read self, |pool| {
            let mut rows = sqlx::query(AssertSqlSafe(sql))
                .bind(query.comm.clone())
                .bind(query.job.clone())
                .bind(query.from_ms - SeriesQuery::LOOK_BACK_MS)
                .bind(query.to_ms)
                .bind(query.host.clone())
                .bind(query.primitive.clone())
                .fetch(pool);
            while let Some(row) = rows.try_next().await? {
                if room == 0 {
                    return Ok(false);
                }
                room -= 1;
                take(SamplePoint {
                    comm: row.try_get("comm")?,
                    host: row.try_get("host")?,
                    primitive: row.try_get("primitive")?,
                    ts_ms: row.try_get("ts_ms")?,
                    value: row.try_get("value")?,
                });
            }
        });
        Ok(true)
    }
}
