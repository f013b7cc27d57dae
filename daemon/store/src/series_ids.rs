//! Numbers of series: what a sample is of is said once, and samples have a number.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ringscope_api::clock;
use sqlx::{QueryBuilder, Row as _};

use super::bulk::chunks;
use super::days::Day;
use super::leader::fence;
use super::{Store, StoreError, each};

/// What a series is of.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct SeriesOf<'a> {
    pub(super) history: &'static str,
    /// Communicator, or summation group.
    pub(super) subject: &'a str,
    pub(super) host: &'a str,
    /// Primitive, or service.
    pub(super) kind: &'a str,
}

/// What an open database was found to have, so that nobody asks for it again.
#[derive(Debug, Default)]
pub struct Known(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    series: HashMap<String, i64>,
    days: BTreeSet<Day>,
    /// In which this daemon leads, where several share the database.
    term: Option<i64>,
}

impl Known {
    pub(super) fn term(&self) -> Option<i64> {
        self.lock().term
    }

    pub(super) fn set_term(&self, term: i64) {
        self.lock().term = Some(term);
    }

    pub(super) fn has_day(&self, day: Day) -> bool {
        self.lock().days.contains(&day)
    }

    pub(super) fn made_day(&self, day: Day) {
        self.lock().days.insert(day);
    }

    pub(super) fn forget_day(&self, day: Day) {
        self.lock().days.remove(&day);
    }

    pub(super) fn forget_series(&self) {
        self.lock().series.clear();
    }

    /// Numbers of those that are known, in their order.
    fn numbers(&self, of: &[SeriesOf<'_>]) -> Vec<Option<i64>> {
        let state = self.lock();
        let mut key = String::new();
        let number = |series: &SeriesOf<'_>| {
            series.key(&mut key);
            state.series.get(&key).copied()
        };
        of.iter().map(number).collect()
    }

    fn found(&self, series: SeriesOf<'_>, number: i64) {
        let mut state = self.lock();
        // Those that are in use are soon found again.
        if state.series.len() >= SERIES_MAX {
            state.series.clear();
        }
        let mut key = String::new();
        series.key(&mut key);
        state.series.insert(key, number);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SeriesOf<'_> {
    fn key(&self, key: &mut String) {
        key.clear();
        for part in [self.history, self.subject, self.host, self.kind] {
            key.push_str(part);
            key.push('\0');
        }
    }
}

impl Store {
    /// The numbers of series, in their order; those that have none get one.
    pub(super) async fn series_numbers(&self, of: &[SeriesOf<'_>]) -> Result<Vec<i64>, StoreError> {
        let known = self.known().numbers(of);
        let missing: BTreeSet<SeriesOf<'_>> =
            of.iter().zip(&known).filter(|(_, number)| number.is_none()).map(|(series, _)| *series).collect();
        if missing.is_empty() {
            return Ok(known.into_iter().flatten().collect());
        }
        let missing: Vec<SeriesOf<'_>> = missing.into_iter().collect();
        let made_ms = clock::now().unix_ms().cast_signed();
        each!(write self, |pool, Db| {
            let mut tx = pool.begin().await?;
            fence!(self, tx);
            for chunk in chunks(&missing) {
                let insert = "INSERT INTO series (history, subject, host, kind, made_ms) ";
                let mut query: QueryBuilder<Db> = QueryBuilder::new(insert);
                query.push_values(chunk, |mut values, series| {
                    values.push_bind(series.history).push_bind(series.subject);
                    values.push_bind(series.host).push_bind(series.kind).push_bind(made_ms);
                });
                query.push(" ON CONFLICT (history, subject, host, kind) DO NOTHING");
                query.build().execute(&mut *tx).await?;
            }
            tx.commit().await?;
        });
        let subjects: BTreeSet<(&'static str, &str)> =
            missing.iter().map(|series| (series.history, series.subject)).collect();
        let mut numbers = HashMap::new();
        for (history, subject) in subjects {
            let query = "SELECT id, host, kind FROM series WHERE history = $1 AND subject = $2";
            // As it was written: on SQLite another connection might see an older moment.
            each!(write self, |pool, _Db| {
                for row in sqlx::query(query).bind(history).bind(subject).fetch_all(pool).await? {
                    let (host, kind): (String, String) = (row.try_get("host")?, row.try_get("kind")?);
                    let series = SeriesOf { history, subject, host: &host, kind: &kind };
                    let number = row.try_get("id")?;
                    self.known().found(series, number);
                    let mut key = String::new();
                    series.key(&mut key);
                    numbers.insert(key, number);
                }
            });
        }
        let mut key = String::new();
        let number = |(series, known): (&SeriesOf<'_>, Option<i64>)| {
            series.key(&mut key);
            known.or_else(|| numbers.get(&key).copied()).ok_or_else(StoreError::crashed)
        };
        of.iter().zip(known).map(number).collect()
    }
}

/// Numbers kept in memory: those of a hundred thousand ranks, some 100 MB at most.
const SERIES_MAX: usize = 500_000;
