//! The history that an older ringscope kept, a row a sample, on its way into the tables of days: one communicator or summation
//! group after the other, while the daemon runs.
//!
//! What is moved is joined with what is there, and nothing is removed before all of a table is moved, so it may end anywhere
//! and begin again: nothing is lost, and nothing comes twice.

use std::collections::{BTreeMap, HashMap};

use sqlx::{AssertSqlSafe, Row as _};

use super::columns::{Packer, Values};
use super::days::Kept;
use super::fold::Fold;
use super::history::{COMMUNICATORS, History, SUMMATIONS};
use super::resolution::Resolution;
use super::rollup::{blocking, read};
use super::series_ids::SeriesOf;
use super::{Store, StoreError, each};

/// A table of an older ringscope's.
struct Source {
    table: &'static str,
    of: &'static History,
    /// The column that says of which subject a row is.
    subject: &'static str,
    /// The column that, beside `host`, tells the series of a subject apart.
    kind: &'static str,
    /// What it has.
    resolutions: &'static [Resolution],
}

const SOURCES: [Source; 4] = [
    Source {
        table: "old_samples",
        of: &COMMUNICATORS,
        subject: "comm",
        kind: "primitive",
        resolutions: &[Resolution::Samples],
    },
    Source {
        table: "old_rollups",
        of: &COMMUNICATORS,
        subject: "comm",
        kind: "primitive",
        resolutions: &Resolution::ROLLUPS,
    },
    Source {
        table: "old_summation_samples",
        of: &SUMMATIONS,
        subject: "group_id",
        kind: "service",
        resolutions: &[Resolution::Samples],
    },
    Source {
        table: "old_summation_rollups",
        of: &SUMMATIONS,
        subject: "group_id",
        kind: "service",
        resolutions: &Resolution::ROLLUPS,
    },
];

/// The rows of one span, by series and time.
type Span = BTreeMap<i64, BTreeMap<i64, Values>>;

impl Source {
    /// What a statement says to mean the rows of a resolution, up to further conditions.
    fn rows(&self, resolution: Resolution) -> String {
        match resolution {
            Resolution::Samples => format!("{} WHERE", self.table),
            coarser => format!("{} WHERE level_ms = {} AND", self.table, coarser.bucket_ms()),
        }
    }
}

impl Store {
    /// Refuses to read while not all of an older ringscope's history is where it is read from: half of it would look like
    /// all.
    pub(super) async fn refuse_moving(&self) -> Result<(), StoreError> {
        match self.moves().await?.first() {
            Some((_, subject)) => Err(self.progress(subject).await?),
            None => Ok(()),
        }
    }

    /// Forgets the tables that never had anything, as those of a new database.
    pub(super) async fn drop_empty_sources(&self) -> Result<(), StoreError> {
        for (table, _) in self.moves().await? {
            let Some(source) = SOURCES.iter().find(|source| source.table == table) else { continue };
            let sql = format!("SELECT 1 FROM {table} LIMIT 1");
            let has_rows = each!(write self, |pool, _Db| {
                sqlx::query(AssertSqlSafe(sql)).fetch_optional(pool).await?.is_some()
            });
            if !has_rows {
                self.drop_source(source).await?;
            }
        }
        Ok(())
    }

    /// Moves the next part. Returns whether nothing is left.
    pub(super) async fn move_history(&self) -> Result<bool, StoreError> {
        let moves = self.moves().await?;
        let Some((table, after)) = moves.first() else { return Ok(true) };
        let Some(source) = SOURCES.iter().find(|source| source.table == *table) else { return Ok(true) };
        let mut after = after.clone();
        for _ in 0..SUBJECTS_MAX {
            let Some(subject) = self.next_subject(source, &after).await? else {
                self.drop_source(source).await?;
                return Ok(moves.len() == 1);
            };
            for resolution in source.resolutions {
                self.move_subject(source, *resolution, &subject).await?;
            }
            let query = "UPDATE history_moves SET subject = $1 WHERE source = $2";
            each!(write self, |pool, _Db| {
                sqlx::query(query).bind(&subject).bind(source.table).execute(pool).await?;
            });
            after = subject;
        }
        tracing::info!("{}", self.progress(&after).await?);
        Ok(false)
    }

    /// The tables that are not yet moved, and up to which subject each is.
    async fn moves(&self) -> Result<Vec<(String, String)>, StoreError> {
        let mut moves = Vec::new();
        each!(read self, |pool| {
            let query = "SELECT source, subject FROM history_moves ORDER BY source";
            for row in sqlx::query(query).fetch_all(pool).await? {
                moves.push((row.try_get("source")?, row.try_get("subject")?));
            }
        });
        Ok(moves)
    }

    async fn progress(&self, after: &str) -> Result<StoreError, StoreError> {
        let query = "SELECT (SELECT COUNT(*) FROM communicators) + (SELECT COUNT(*) FROM summation_groups) AS n, \
                     (SELECT COUNT(*) FROM communicators WHERE id <= $1) AS n_communicators, \
                     (SELECT COUNT(*) FROM summation_groups WHERE id <= $1) AS n_groups";
        Ok(each!(read self, |pool| {
            let row = sqlx::query(query).bind(after).fetch_one(pool).await?;
            let (communicators, groups): (i64, i64) = (row.try_get("n_communicators")?, row.try_get("n_groups")?);
            let all = row.try_get("n")?;
            StoreError::Moving { done: communicators + groups, all }
        }))
    }

    async fn next_subject(&self, source: &Source, after: &str) -> Result<Option<String>, StoreError> {
        let mut next: Option<String> = None;
        for resolution in source.resolutions {
            let (rows, subject) = (source.rows(*resolution), source.subject);
            let sql = format!("SELECT MIN({subject}) AS subject FROM {rows} {subject} > $1");
            let found: Option<String> = each!(read self, |pool| {
                sqlx::query(AssertSqlSafe(sql)).bind(after).fetch_one(pool).await?.try_get("subject")?
            });
            next = match (next, found) {
                (Some(next), Some(found)) => Some(next.min(found)),
                (next, found) => next.or(found),
            };
        }
        Ok(next)
    }

    async fn move_subject(
        &self,
        source: &Source,
        resolution: Resolution,
        subject: &str,
    ) -> Result<(), StoreError> {
        let rows = source.rows(resolution);
        let first = format!("SELECT MIN(ts_ms) AS ts_ms FROM {rows} {} = $1 AND ts_ms >= $2", source.subject);
        let mut from_ms = i64::MIN;
        loop {
            let found: Option<i64> = each!(read self, |pool| {
                let query = sqlx::query(AssertSqlSafe(first.as_str())).bind(subject).bind(from_ms);
                query.fetch_one(pool).await?.try_get("ts_ms")?
            });
            let Some(first_ms) = found else { return Ok(()) };
            from_ms = resolution.span_of(first_ms);
            let to_ms = from_ms + resolution.span_ms() * spans_at_once(resolution);
            let spans = self.old_rows(source, resolution, subject, (from_ms, to_ms)).await?;
            for (span_ms, span) in spans {
                self.join_span(resolution, span_ms, span).await?;
            }
            from_ms = to_ms;
        }
    }

    async fn old_rows(
        &self,
        source: &Source,
        resolution: Resolution,
        subject: &str,
        (from_ms, to_ms): (i64, i64),
    ) -> Result<BTreeMap<i64, Span>, StoreError> {
        let Source { subject: column, kind, of, .. } = source;
        let rows = source.rows(resolution);
        let values = of.values.join(", ");
        let sql = format!(
            "SELECT ts_ms, host, {kind} AS kind, {values} FROM {rows} {column} = $1 AND ts_ms >= $2 AND ts_ms < $3"
        );
        let mut found: Vec<(i64, String, String, Values)> = Vec::new();
        each!(read self, |pool| {
            let query = sqlx::query(AssertSqlSafe(sql)).bind(subject).bind(from_ms).bind(to_ms);
            for row in query.fetch_all(pool).await? {
                let mut of_row = Values::default();
                for (place, name) in of.values.iter().enumerate() {
                    of_row[place] = row.try_get(*name)?;
                }
                found.push((row.try_get("ts_ms")?, row.try_get("host")?, row.try_get("kind")?, of_row));
            }
        });
        let series = |host, kind| SeriesOf { history: of.name, subject, host, kind };
        let series: Vec<SeriesOf<'_>> = found.iter().map(|(_, host, kind, _)| series(host, kind)).collect();
        let numbers = self.series_numbers(&series).await?;
        let mut spans: BTreeMap<i64, Span> = BTreeMap::new();
        for ((ts_ms, .., values), number) in found.iter().zip(numbers) {
            let span = spans.entry(resolution.span_of(*ts_ms)).or_default();
            span.entry(number).or_default().insert(*ts_ms, *values);
        }
        Ok(spans)
    }

    /// Joins rows with what is kept of their span. Of samples also the minutes are kept: not all had been rolled up.
    async fn join_span(&self, resolution: Resolution, span_ms: i64, span: Span) -> Result<(), StoreError> {
        let minutes = (resolution == Resolution::Samples).then(|| rolled_up(&span));
        self.join(resolution, span_ms, span).await?;
        match minutes {
            Some(minutes) => self.join(Resolution::Minute, span_ms, minutes).await,
            None => Ok(()),
        }
    }

    async fn join(&self, resolution: Resolution, span_ms: i64, span: Span) -> Result<(), StoreError> {
        let numbers: Vec<i64> = span.keys().copied().collect();
        let mut there: HashMap<i64, Vec<u8>> = HashMap::new();
        for some in numbers.chunks(SERIES_AT_ONCE) {
            let kept = self.kept(resolution, span_ms, Some(some)).await?;
            there.extend(kept.into_iter().map(|kept| (kept.series, kept.points)));
        }
        let joined = blocking(move || joined(span, &there)).await?;
        self.keep(resolution, span_ms, &joined).await
    }

    async fn drop_source(&self, source: &Source) -> Result<(), StoreError> {
        let drop_table = format!("DROP TABLE IF EXISTS {}", source.table);
        each!(write self, |pool, _Db| {
            let mut tx = pool.begin().await?;
            sqlx::query(AssertSqlSafe(drop_table)).execute(&mut *tx).await?;
            let done = "DELETE FROM history_moves WHERE source = $1";
            sqlx::query(done).bind(source.table).execute(&mut *tx).await?;
            tx.commit().await?;
        });
        Ok(())
    }
}

fn rolled_up(span: &Span) -> Span {
    let mut minutes = Span::new();
    for (series, rows) in span {
        let mut fold = Fold::new(Resolution::Minute.bucket_ms());
        rows.iter().for_each(|(ts_ms, values)| fold.push(*ts_ms, values));
        let kept = minutes.entry(*series).or_default();
        if let Some(points) = fold.pack() {
            read(&points, |ts_ms, values| {
                kept.insert(ts_ms, values);
            });
        }
    }
    minutes
}

/// What is there stays where both have a row of one time.
fn joined(span: Span, there: &HashMap<i64, Vec<u8>>) -> Vec<Kept> {
    let join = |(series, mut rows): (i64, BTreeMap<i64, Values>)| {
        if let Some(points) = there.get(&series) {
            read(points, |ts_ms, values| {
                rows.insert(ts_ms, values);
            });
        }
        let mut packer = Packer::default();
        rows.iter().for_each(|(ts_ms, values)| packer.push(*ts_ms, values));
        Some(Kept { series, points: packer.pack()? })
    };
    span.into_iter().filter_map(join).collect()
}

/// Spans read at once: of one communicator, what a daemon writes in ten minutes at most, or of rollups a day.
fn spans_at_once(resolution: Resolution) -> i64 {
    match resolution {
        Resolution::Samples => 1,
        coarser => super::resolution::DAY_MS / coarser.span_ms(),
    }
}

/// Subjects moved in one call, after which progress is told.
const SUBJECTS_MAX: usize = 64;
/// Series looked up by one statement.
const SERIES_AT_ONCE: usize = 2_000;
