//! Rolling up: of each series and bucket the rows are kept from which every coarser step can be told, with their true times.
//!
//! Kept is the last row of a bucket, and both sides of each place where growth cannot be taken as a difference: a series
//! begins, a counter falls, a counter is measured or is no longer. The others lie on the way between two that are kept.
//! Of what is judged by its worst, every row that is kept has the largest value of its bucket.
//!
//! A bucket is rolled up when nothing more is to come for it. Rows are written before the mark moves past them, and
//! writing them again changes nothing, so a run may end anywhere.

use std::collections::HashMap;

use ringscope_api::clock::Timestamp;
use sqlx::{AssertSqlSafe, QueryBuilder, Row as _};

use super::history::{self, History};
use super::resolution::Resolution;
use super::write::{chunks, upsert};
use super::{SeriesQuery, Store, StoreError, each};

/// Up to when each resolution holds everything; of the samples, from when.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks(HashMap<i64, i64>);

/// A row of a table of rollups, without what all of one slice have.
struct RollupRow {
    ts_ms: i64,
    host: String,
    kind: String,
    /// In the order of [`History::values`].
    values: Vec<Option<i64>>,
}

/// What has history, and the time of its first row.
struct Subject {
    of: &'static History,
    id: String,
    first_ms: i64,
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
            let subjects = self.next_rows(resolution.source(), done_ms, until_ms).await?;
            let first_ms = subjects.iter().map(|subject| subject.first_ms).min().unwrap_or(until_ms);
            let from_ms = resolution.floor_ms(first_ms);
            let to_ms = (from_ms + resolution.bucket_ms()).min(until_ms);
            for subject in subjects.iter().filter(|subject| subject.first_ms < to_ms) {
                let rows = self.rolled(resolution, subject, Slice { from_ms, to_ms }).await?;
                self.keep(resolution, subject, &rows).await?;
            }
            self.mark(resolution, to_ms).await?;
            done_ms = to_ms;
        }
        Ok(done_ms)
    }

    /// What has rows in that time, each with the time of its first.
    async fn next_rows(
        &self,
        source: Resolution,
        from_ms: i64,
        to_ms: i64,
    ) -> Result<Vec<Subject>, StoreError> {
        let mut next = Vec::new();
        for of in history::ALL {
            let (rows, subject, subjects) = (of.rows(source), of.subject, of.subjects);
            let sql = format!(
                "SELECT s.id AS id, (SELECT MIN(ts_ms) FROM {rows} {subject} = s.id AND ts_ms >= $1 AND ts_ms < $2) \
                 AS ts_ms FROM {subjects} s"
            );
            each!(read self, |pool| {
                for row in sqlx::query(AssertSqlSafe(sql)).bind(from_ms).bind(to_ms).fetch_all(pool).await? {
                    if let Some(first_ms) = row.try_get::<Option<i64>, _>("ts_ms")? {
                        next.push(Subject { of, id: row.try_get("id")?, first_ms });
                    }
                }
            });
        }
        Ok(next)
    }

    async fn keep(
        &self,
        resolution: Resolution,
        subject: &Subject,
        rows: &[RollupRow],
    ) -> Result<(), StoreError> {
        let (insert, replace) = subject.of.upsert();
        each!(write self, |pool, Db| {
            let mut tx = pool.begin().await?;
            for chunk in chunks(rows) {
                let mut query: QueryBuilder<Db> = QueryBuilder::new(insert.as_str());
                query.push_values(chunk, |mut values, row| {
                    values.push_bind(resolution.bucket_ms()).push_bind(&subject.id).push_bind(row.ts_ms);
                    values.push_bind(&row.host).push_bind(&row.kind);
                    for value in &row.values {
                        values.push_bind(value);
                    }
                });
                query.push(replace.as_str());
                query.build().execute(&mut *tx).await?;
            }
            tx.commit().await?;
        });
        Ok(())
    }

    /// What is kept of a slice. It is read beside the writer, who has it for the rows that are kept only.
    async fn rolled(
        &self,
        resolution: Resolution,
        subject: &Subject,
        slice: Slice,
    ) -> Result<Vec<RollupRow>, StoreError> {
        let sql = kept_sql(subject.of, resolution);
        let mut kept = Vec::new();
        each!(read self, |pool| {
            let query = sqlx::query(AssertSqlSafe(sql))
                .bind(&subject.id)
                .bind(slice.from_ms - SeriesQuery::LOOK_BACK_MS)
                .bind(slice.from_ms)
                .bind(slice.to_ms)
                .bind(resolution.bucket_ms());
            for row in query.fetch_all(pool).await? {
                let values = subject.of.values().map(|name| row.try_get(name));
                kept.push(RollupRow {
                    ts_ms: row.try_get("ts_ms")?,
                    host: row.try_get("host")?,
                    kind: row.try_get(subject.of.kind)?,
                    values: values.collect::<Result<_, sqlx::Error>>()?,
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

/// The statement that reads what is kept of a slice. Its parameters: the subject, since when to look at what was kept
/// before, from, to, the length of a bucket.
fn kept_sql(of: &History, resolution: Resolution) -> String {
    let History { subject, kind, .. } = of;
    let (before, source) = (of.rows(resolution), of.rows(resolution.source()));
    let begins: Vec<String> = of
        .lasting
        .iter()
        .map(|name| {
            format!(
                "LAG({name}) OVER series > {name} OR (LAG({name}) OVER series IS NULL) <> ({name} IS NULL)"
            )
        })
        .collect();
    let worst = of
        .worst
        .iter()
        .map(|name| format!("MAX({name}) OVER (PARTITION BY host, {kind}, ts_ms / $5) AS {name}"));
    let values: Vec<String> = of.lasting.iter().map(ToString::to_string).chain(worst).collect();
    let (begins, values) = (begins.join(" OR "), values.join(", "));
    let columns: Vec<&str> = ["ts_ms", "host", kind].into_iter().chain(of.values()).collect();
    let columns = columns.join(", ");
    // Window functions of the outer SELECT see what the inner found. A row without one before it has LAG NULL and
    // begins; one without one after it is the last.
    format!(
        "SELECT {columns} FROM ( \
             SELECT ts_ms, host, {kind}, {values}, begins, \
             LEAD(begins, 1, 1) OVER series AS ends, LEAD(ts_ms / $5) OVER series > ts_ms / $5 AS is_last \
             FROM ( \
                 SELECT {columns}, CASE WHEN {begins} THEN 1 ELSE 0 END AS begins FROM ( \
                     SELECT {columns} FROM {before} {subject} = $1 AND ts_ms >= $2 AND ts_ms < $3 \
                     UNION ALL SELECT {columns} FROM {source} {subject} = $1 AND ts_ms >= $3 AND ts_ms < $4 \
                 ) AS found WINDOW series AS (PARTITION BY host, {kind} ORDER BY ts_ms) \
             ) AS compared WINDOW series AS (PARTITION BY host, {kind} ORDER BY ts_ms) \
         ) AS judged WHERE ts_ms >= $3 AND (begins = 1 OR ends = 1 OR is_last)"
    )
}

/// Nothing comes later than this while the store is open: samples are written within seconds.
const SETTLED_MS: i64 = 2 * 60 * 1000;
/// Buckets rolled up in one call: two hours of the finest, so that a day that was never rolled up takes twelve calls.
const SLICES_MAX: usize = 120;
