//! Rolling up: of each series and bucket the rows are kept from which every coarser step can be told, with their true times.
//!
//! Kept is the last row of a bucket, and both sides of each place where growth cannot be taken as a difference: a series
//! begins, a counter falls, a counter is measured or is no longer. The others lie on the way between two that are kept.
//!
//! A bucket is rolled up when nothing more is to come for it. Rows are written before the mark moves past them, and
//! writing them again changes nothing, so a run may end anywhere.

use std::collections::HashMap;

use sqlx::{AssertSqlSafe, QueryBuilder, Row as _};

use super::resolution::Resolution;
use super::write::{chunks, upsert};
use super::{SeriesQuery, Store, StoreError, each};
use crate::clock::Timestamp;

/// Up to when each resolution holds everything; of the samples, from when.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks(HashMap<i64, i64>);

/// A row of `rollups`.
struct RollupRow {
    level_ms: i64,
    comm: String,
    ts_ms: i64,
    host: String,
    primitive: String,
    issued_calls: i64,
    issued_bytes: i64,
    completed_calls: i64,
    completed_bytes: i64,
    intra_bytes: Option<i64>,
    inter_bytes: Option<i64>,
}

/// A row of `rollup_marks`.
struct MarkRow {
    level_ms: i64,
    ts_ms: i64,
}

/// From, inclusive, to, exclusive; on bounds of buckets.
#[derive(Clone, Copy)]
struct Slice {
    from_ms: i64,
    to_ms: i64,
}

impl Marks {
    #[cfg(test)]
    pub(super) fn new(marks: impl Iterator<Item = (Resolution, i64)>) -> Self {
        Self(marks.map(|(resolution, ts_ms)| (resolution.bucket_ms(), ts_ms)).collect())
    }

    pub(super) fn of(&self, resolution: Resolution) -> Option<i64> {
        self.0.get(&resolution.bucket_ms()).copied()
    }
}

impl Store {
    /// Rolls up what has settled. Returns whether that is all: one call goes a bounded way.
    ///
    /// # Errors
    /// What the driver says; what was rolled up until then stays.
    pub async fn roll_up(&self, now: Timestamp) -> Result<bool, StoreError> {
        let mut settled_ms = now.unix_ms().cast_signed() - SETTLED_MS;
        for resolution in Resolution::ROLLUPS {
            let until_ms = resolution.floor_ms(settled_ms);
            // The next is made of this one.
            settled_ms = self.roll_up_to(resolution, until_ms).await?;
            if settled_ms < until_ms {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns how far it came.
    async fn roll_up_to(&self, resolution: Resolution, until_ms: i64) -> Result<i64, StoreError> {
        let mut done_ms = self.marks().await?.of(resolution).unwrap_or(0);
        for _ in 0..SLICES_MAX {
            if done_ms >= until_ms {
                break;
            }
            // An idle time is one step.
            let comms = self.next_rows(resolution.source(), done_ms, until_ms).await?;
            let first_ms = comms.iter().map(|(_, ts_ms)| *ts_ms).min().unwrap_or(until_ms);
            let from_ms = resolution.floor_ms(first_ms);
            let to_ms = (from_ms + resolution.bucket_ms()).min(until_ms);
            for (comm, _) in comms.iter().filter(|(_, ts_ms)| *ts_ms < to_ms) {
                let rows = self.rolled(resolution, comm, Slice { from_ms, to_ms }).await?;
                each!(write self, |pool, Db| {
                    let mut tx = pool.begin().await?;
                    upsert!(Db, tx, rows, RollupRow: "rollups" ["level_ms, comm, ts_ms, host, primitive"] level_ms,
                        comm, ts_ms, host, primitive, issued_calls, issued_bytes, completed_calls, completed_bytes,
                        intra_bytes, inter_bytes);
                    tx.commit().await?;
                });
            }
            self.mark(resolution, to_ms).await?;
            done_ms = to_ms;
        }
        Ok(done_ms)
    }

    /// The communicators that have rows in that time, each with the time of its first.
    async fn next_rows(
        &self,
        source: Resolution,
        from_ms: i64,
        to_ms: i64,
    ) -> Result<Vec<(String, i64)>, StoreError> {
        let rows = source.rows();
        let sql = format!(
            "SELECT c.id AS comm, (SELECT MIN(ts_ms) FROM {rows} comm = c.id AND ts_ms >= $1 AND ts_ms < $2) AS ts_ms \
             FROM communicators c"
        );
        let mut next = Vec::new();
        each!(read self, |pool| {
            for row in sqlx::query(AssertSqlSafe(sql)).bind(from_ms).bind(to_ms).fetch_all(pool).await? {
                if let Some(ts_ms) = row.try_get::<Option<i64>, _>("ts_ms")? {
                    next.push((row.try_get("comm")?, ts_ms));
                }
            }
        });
        Ok(next)
    }

    /// What is kept of a slice. It is read beside the writer, who has it for the rows that are kept only.
    async fn rolled(
        &self,
        resolution: Resolution,
        comm: &str,
        slice: Slice,
    ) -> Result<Vec<RollupRow>, StoreError> {
        let (before, source) = (resolution.rows(), resolution.source().rows());
        let begins = COUNTERS.map(|name| {
            format!(
                "LAG({name}) OVER series > {name} OR (LAG({name}) OVER series IS NULL) <> ({name} IS NULL)"
            )
        });
        let (begins, counters) = (begins.join(" OR "), COUNTERS.join(", "));
        let columns = format!("ts_ms, host, primitive, {counters}");
        // Window functions of the outer SELECT see what the inner found. A row without one before it has LAG NULL and
        // begins; one without one after it is the last.
        let sql = format!(
            "SELECT {columns} FROM ( \
                 SELECT {columns}, begins, \
                 LEAD(begins, 1, 1) OVER series AS ends, LEAD(ts_ms / $5) OVER series > ts_ms / $5 AS is_last \
                 FROM ( \
                     SELECT {columns}, CASE WHEN {begins} THEN 1 ELSE 0 END AS begins FROM ( \
                         SELECT {columns} FROM {before} comm = $1 AND ts_ms >= $2 AND ts_ms < $3 \
                         UNION ALL SELECT {columns} FROM {source} comm = $1 AND ts_ms >= $3 AND ts_ms < $4 \
                     ) AS found WINDOW series AS (PARTITION BY host, primitive ORDER BY ts_ms) \
                 ) AS compared WINDOW series AS (PARTITION BY host, primitive ORDER BY ts_ms) \
             ) AS judged WHERE ts_ms >= $3 AND (begins = 1 OR ends = 1 OR is_last)"
        );
        let mut kept = Vec::new();
        each!(read self, |pool| {
            let query = sqlx::query(AssertSqlSafe(sql))
                .bind(comm)
                .bind(slice.from_ms - SeriesQuery::LOOK_BACK_MS)
                .bind(slice.from_ms)
                .bind(slice.to_ms)
                .bind(resolution.bucket_ms());
            for row in query.fetch_all(pool).await? {
                kept.push(RollupRow {
                    level_ms: resolution.bucket_ms(),
                    comm: comm.to_owned(),
                    ts_ms: row.try_get("ts_ms")?,
                    host: row.try_get("host")?,
                    primitive: row.try_get("primitive")?,
                    issued_calls: row.try_get("issued_calls")?,
                    issued_bytes: row.try_get("issued_bytes")?,
                    completed_calls: row.try_get("completed_calls")?,
                    completed_bytes: row.try_get("completed_bytes")?,
                    intra_bytes: row.try_get("intra_bytes")?,
                    inter_bytes: row.try_get("inter_bytes")?,
                });
            }
        });
        Ok(kept)
    }

    pub(super) async fn marks(&self) -> Result<Marks, StoreError> {
        let mut marks = Marks::default();
        each!(read self, |pool| {
            for row in sqlx::query("SELECT level_ms, ts_ms FROM rollup_marks").fetch_all(pool).await? {
                marks.0.insert(row.try_get("level_ms")?, row.try_get("ts_ms")?);
            }
        });
        Ok(marks)
    }

    pub(super) async fn mark(&self, resolution: Resolution, ts_ms: i64) -> Result<(), StoreError> {
        let rows = [MarkRow { level_ms: resolution.bucket_ms(), ts_ms }];
        each!(write self, |pool, Db| {
            let mut tx = pool.begin().await?;
            upsert!(Db, tx, rows, MarkRow: "rollup_marks" ["level_ms"] level_ms, ts_ms);
            tx.commit().await?;
        });
        Ok(())
    }
}

const COUNTERS: [&str; 6] =
    ["issued_calls", "issued_bytes", "completed_calls", "completed_bytes", "intra_bytes", "inter_bytes"];
/// Nothing comes later than this while the store is open: samples are written within seconds.
const SETTLED_MS: i64 = 2 * 60 * 1000;
/// Buckets rolled up in one call: two hours of the finest, so that a day that was never rolled up takes twelve calls.
const SLICES_MAX: usize = 120;
