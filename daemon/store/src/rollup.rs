//! Settling and rolling up: samples of the last minutes are sorted by series into the table of their day, together with the
//! rollups of their minutes, so that nobody reads them for that again; coarser rollups are made of finer ones.
//!
//! A span is rolled up when nothing more is to come for it. Rows are written before the mark moves past them, and
//! writing them again changes nothing, so a run may end anywhere.

use std::collections::{BTreeMap, HashMap};

use ringscope_api::clock::Timestamp;
use sqlx::{QueryBuilder, Row as _};

use super::bulk::{chunks, upsert};
use super::columns::{Packer, Values, unpack};
use super::days::Kept;
use super::fold::Fold;
use super::leader::fence;
use super::resolution::Resolution;
use super::{Store, StoreError, each};

/// Up to when each resolution holds everything; of the samples, from when; and since when there is history at all.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks(HashMap<i64, i64>);

/// A row of `rollup_marks`.
struct MarkRow {
    level_ms: i64,
    ts_ms: i64,
}

/// Samples of the last minutes, as they were written.
#[derive(Default)]
pub(super) struct Recent {
    /// The packed samples of a moment, with its time, by time.
    pub(super) moments: Vec<(i64, Vec<u8>)>,
    last_id: i64,
}

/// One series in one span, on its way into the tables.
struct Settling {
    samples: Packer,
    minutes: Fold,
    last_ms: i64,
}

impl Marks {
    #[cfg(test)]
    pub(super) fn new(marks: impl Iterator<Item = (Resolution, i64)>) -> Self {
        Self(marks.map(|(resolution, ts_ms)| (resolution.bucket_ms(), ts_ms)).collect())
    }

    pub(super) fn of(&self, resolution: Resolution) -> Option<i64> {
        self.0.get(&resolution.bucket_ms()).copied()
    }

    /// Before this, everything is forgotten.
    pub(super) fn forgotten_ms(&self) -> i64 {
        self.0.get(&FORGOTTEN).copied().unwrap_or(i64::MIN)
    }
}

impl Default for Settling {
    fn default() -> Self {
        let minutes = Fold::new(Resolution::Minute.bucket_ms());
        Self { samples: Packer::default(), minutes, last_ms: i64::MIN }
    }
}

impl Settling {
    /// Takes a sample, unless it has one of that time: one that was written twice.
    fn push(&mut self, ts_ms: i64, values: &Values) {
        if ts_ms > self.last_ms {
            self.last_ms = ts_ms;
            self.samples.push(ts_ms, values);
            self.minutes.push(ts_ms, values);
        }
    }
}

impl Store {
    /// Settles and rolls up what nothing more is to come for. Returns whether that is all: one call goes a bounded way.
    ///
    /// # Errors
    /// What the driver says; what was rolled up until then stays.
    pub async fn roll_up(&self, now: Timestamp) -> Result<bool, StoreError> {
        self.make_next_days(now).await?;
        let settled_ms = now.unix_ms().cast_signed() - SETTLED_MS;
        let until_ms = Resolution::Minute.span_of(settled_ms);
        let mut done_ms = self.settle_to(until_ms).await?;
        // Coarser rollups replace what stands there: they want all of the finer ones.
        if done_ms < until_ms || !self.move_history().await? {
            return Ok(false);
        }
        for resolution in [Resolution::TenMinutes, Resolution::Hour] {
            let until_ms = resolution.span_of(done_ms);
            // The next is made of this one.
            done_ms = self.roll_up_to(resolution, until_ms).await?;
            if done_ms < until_ms {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns how far it came.
    async fn settle_to(&self, until_ms: i64) -> Result<i64, StoreError> {
        let marked_ms = self.marks().await?.of(Resolution::Minute).unwrap_or(0);
        for _ in 0..SPANS_MAX {
            let Some(first_ms) = self.first_recent(until_ms).await? else {
                if marked_ms < until_ms {
                    self.mark(Resolution::Minute, until_ms).await?;
                }
                return Ok(until_ms);
            };
            let from_ms = Resolution::Samples.span_of(first_ms);
            let to_ms = from_ms + Resolution::Samples.span_ms();
            self.settle(from_ms, to_ms, marked_ms).await?;
        }
        Ok(i64::MIN)
    }

    async fn first_recent(&self, before_ms: i64) -> Result<Option<i64>, StoreError> {
        let query = "SELECT MIN(ts_ms) AS ts_ms FROM recent_samples WHERE ts_ms < $1";
        Ok(each!(read self, |pool| {
            sqlx::query(query).bind(before_ms).fetch_one(pool).await?.try_get("ts_ms")?
        }))
    }

    /// The samples of a time that have not settled.
    pub(super) async fn recent(&self, from_ms: i64, to_ms: i64) -> Result<Recent, StoreError> {
        let query = "SELECT id, ts_ms, points FROM recent_samples WHERE ts_ms >= $1 AND ts_ms < $2 ORDER BY ts_ms, id";
        let mut recent = Recent::default();
        each!(read self, |pool| {
            for row in sqlx::query(query).bind(from_ms).bind(to_ms).fetch_all(pool).await? {
                recent.last_id = recent.last_id.max(row.try_get("id")?);
                recent.moments.push((row.try_get("ts_ms")?, row.try_get("points")?));
            }
        });
        Ok(recent)
    }

    async fn settle(&self, from_ms: i64, to_ms: i64, marked_ms: i64) -> Result<(), StoreError> {
        let Recent { moments, last_id } = self.recent(from_ms, to_ms).await?;
        // Only where samples came late, or a run was cut off.
        let settled = self.kept(Resolution::Samples, from_ms, None).await?;
        let (samples, minutes) = blocking(move || sort_by_series(&moments, settled)).await?;
        self.keep(Resolution::Samples, from_ms, &samples).await?;
        self.keep(Resolution::Minute, from_ms, &minutes).await?;
        let remove = "DELETE FROM recent_samples WHERE ts_ms >= $1 AND ts_ms < $2 AND id <= $3";
        let rows = [MarkRow { level_ms: Resolution::Minute.bucket_ms(), ts_ms: to_ms.max(marked_ms) }];
        each!(write self, |pool, Db| {
            let mut tx = pool.begin().await?;
            fence!(self, tx);
            sqlx::query(remove).bind(from_ms).bind(to_ms).bind(last_id).execute(&mut *tx).await?;
            upsert!(Db, tx, rows, MarkRow: "rollup_marks" ["level_ms"] level_ms, ts_ms);
            tx.commit().await?;
        });
        Ok(())
    }

    /// Returns how far it came.
    async fn roll_up_to(&self, resolution: Resolution, until_ms: i64) -> Result<i64, StoreError> {
        let mut done_ms = resolution.span_of(self.marks().await?.of(resolution).unwrap_or(0));
        for _ in 0..SPANS_MAX {
            if done_ms >= until_ms {
                break;
            }
            // An idle time is one step.
            let next_ms = self.next_span(resolution.source(), done_ms).await?;
            let from_ms = next_ms.map_or(until_ms, |next_ms| resolution.span_of(next_ms)).max(done_ms);
            done_ms = (from_ms + resolution.span_ms()).min(until_ms);
            if from_ms < until_ms {
                let rolled = self.rolled(resolution, from_ms).await?;
                self.keep(resolution, from_ms, &rolled).await?;
            }
            self.mark(resolution, done_ms).await?;
        }
        Ok(done_ms)
    }

    /// What is kept of a span.
    async fn rolled(&self, resolution: Resolution, from_ms: i64) -> Result<Vec<Kept>, StoreError> {
        let source = resolution.source();
        let step = usize::try_from(source.span_ms()).unwrap_or(usize::MAX);
        let mut folds: BTreeMap<i64, Fold> = BTreeMap::new();
        for ts_ms in (from_ms..from_ms + resolution.span_ms()).step_by(step) {
            let kept = self.kept(source, ts_ms, None).await?;
            folds = blocking(move || {
                for Kept { series, points } in kept {
                    let fold = folds.entry(series).or_insert_with(|| Fold::new(resolution.bucket_ms()));
                    read(&points, |ts_ms, values| fold.push(ts_ms, &values));
                }
                folds
            })
            .await?;
        }
        let pack = |(series, fold): (i64, Fold)| Some(Kept { series, points: fold.pack()? });
        blocking(move || folds.into_iter().filter_map(pack).collect()).await
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
        self.mark_level(resolution.bucket_ms(), ts_ms).await
    }

    pub(super) async fn mark_forgotten(&self, ts_ms: i64) -> Result<(), StoreError> {
        self.mark_level(FORGOTTEN, ts_ms).await
    }

    async fn mark_level(&self, level_ms: i64, ts_ms: i64) -> Result<(), StoreError> {
        let rows = [MarkRow { level_ms, ts_ms }];
        each!(write self, |pool, Db| {
            let mut tx = pool.begin().await?;
            fence!(self, tx);
            upsert!(Db, tx, rows, MarkRow: "rollup_marks" ["level_ms"] level_ms, ts_ms);
            tx.commit().await?;
        });
        Ok(())
    }
}

/// The samples of moments, and what had settled of their span, by series; and the rollups of their minutes.
fn sort_by_series(moments: &[(i64, Vec<u8>)], settled: Vec<Kept>) -> (Vec<Kept>, Vec<Kept>) {
    let mut by_series: BTreeMap<i64, Settling> = BTreeMap::new();
    if settled.is_empty() {
        for (ts_ms, points) in moments {
            read(points, |series, values| by_series.entry(series).or_default().push(*ts_ms, &values));
        }
    } else {
        let mut late: BTreeMap<i64, BTreeMap<i64, Values>> = BTreeMap::new();
        for (ts_ms, points) in moments {
            read(points, |series, values| {
                late.entry(series).or_default().insert(*ts_ms, values);
            });
        }
        for Kept { series, points } in settled {
            let Some(late) = late.get_mut(&series) else { continue };
            read(&points, |ts_ms, values| {
                late.entry(ts_ms).or_insert(values);
            });
        }
        for (series, samples) in late {
            let settling = by_series.entry(series).or_default();
            samples.iter().for_each(|(ts_ms, values)| settling.push(*ts_ms, values));
        }
    }
    let (mut samples, mut minutes) = (Vec::new(), Vec::new());
    for (series, settling) in by_series {
        samples.extend(settling.samples.pack().map(|points| Kept { series, points }));
        minutes.extend(settling.minutes.pack().map(|points| Kept { series, points }));
    }
    (samples, minutes)
}

/// Gives `take` what a value holds; one that is damaged is told in the log and left out.
pub(super) fn read(points: &[u8], take: impl FnMut(i64, Values)) {
    if let Err(error) = unpack(points, take) {
        tracing::warn!("{error}; what it held is left out of the history");
    }
}

/// Computes on a thread of its own: what settles is some hundred thousand samples.
pub(super) async fn blocking<R: Send + 'static>(
    compute: impl FnOnce() -> R + Send + 'static,
) -> Result<R, StoreError> {
    tokio::task::spawn_blocking(compute).await.map_err(|_| StoreError::crashed())
}

/// The level of the mark that says since when there is history.
const FORGOTTEN: i64 = -1;
/// Nothing comes later than this while the store is open: samples are written within seconds. What does is joined with what
/// had settled.
const SETTLED_MS: i64 = 60 * 1000;
/// Spans settled, or rolled up, in one call: of ten minutes each, two hours.
const SPANS_MAX: usize = 12;
