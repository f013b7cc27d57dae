//! Reading history: of the series that are asked for, what is kept of each span, and what has not settled.

use std::collections::{BTreeMap, HashMap};

use futures::TryStreamExt as _;
use sqlx::{AssertSqlSafe, Row as _};

use super::columns::Values;
use super::days::{Day, Family};
use super::history::{COMMUNICATORS, History, PACES, SUMMATIONS};
use super::resolution::Resolution;
use super::rollup::read;
use super::rows::PaceRow;
use super::series::{Metric, PaceQuery, SamplePoint, Segment, SeriesQuery, segments};
use super::{Store, StoreError, each};

/// What a series is of, by its number.
type Names = HashMap<i64, Name>;

struct Name {
    subject: String,
    host: String,
    kind: String,
}

/// Of which series history is read; what is `None` is not asked for.
struct Which<'a> {
    history: &'static History,
    id: Option<&'a str>,
    job: Option<&'a str>,
    host: Option<&'a str>,
    kind: Option<&'a str>,
    of_jobs: Option<&'a str>,
}

/// Takes what was read, as long as there is room.
struct Taker<'a, V, F> {
    /// What of a row is wanted.
    of: Of<'a, V>,
    segment: Segment,
    names: &'a Names,
    room: &'a mut usize,
    take: &'a mut F,
}

/// Takes out of a row what is wanted of it.
type Of<'a, V> = &'a (dyn Fn(&Values) -> Option<V> + Sync);

impl Store {
    /// Gives `take` the samples, those of each series by time. Returns false if there are more than
    /// [`SeriesQuery::SAMPLES_MAX`]: then not all were given.
    ///
    /// # Errors
    /// What the driver says; [`StoreError::Moving`] while history is brought into the form that this ringscope reads.
    pub async fn series(
        &self,
        query: &SeriesQuery,
        mut take: impl FnMut(SamplePoint<'_>),
    ) -> Result<bool, StoreError> {
        let which = Which {
            history: query.metric.history(),
            id: query.id.as_deref(),
            job: query.job.as_deref(),
            host: query.host.as_deref(),
            kind: query.kind.as_deref(),
            of_jobs: query.of_jobs.as_deref(),
        };
        let of = |values: &Values| query.metric.of(values);
        let give = |name: &Name, segment: Segment, ts_ms, value| {
            take(SamplePoint {
                id: &name.subject,
                host: &name.host,
                kind: &name.kind,
                ts_ms,
                apart_ms: segment.resolution.bucket_ms(),
                value,
            });
        };
        self.history(&which, (query.from_ms, query.to_ms, query.step_ms), &of, give).await
    }

    /// Gives `take` the samples of the pace of jobs, those of each job by time. Returns false as [`Store::series`] does.
    ///
    /// # Errors
    /// As [`Store::series`].
    pub async fn paces(&self, query: &PaceQuery, mut take: impl FnMut(PaceRow)) -> Result<bool, StoreError> {
        let (job, of_jobs) = (query.job.as_deref(), query.of_jobs.as_deref());
        let which = Which { history: &PACES, id: None, job, host: None, kind: None, of_jobs };
        let of = |values: &Values| Some(*values);
        let give = |name: &Name, _: Segment, ts_ms, values: Values| {
            PaceRow::of(&name.subject, ts_ms, &values).into_iter().for_each(&mut take);
        };
        self.history(&which, (query.from_ms, query.to_ms, query.step_ms), &of, give).await
    }

    /// `times`: from, to, step.
    async fn history<V>(
        &self,
        which: &Which<'_>,
        times: (i64, i64, i64),
        of: Of<'_, V>,
        mut take: impl FnMut(&Name, Segment, i64, V),
    ) -> Result<bool, StoreError> {
        self.refuse_moving().await?;
        let names = self.names(which).await?;
        let mut room = SeriesQuery::SAMPLES_MAX;
        for segment in segments(times, &self.marks().await?) {
            let taker = Taker { of, segment, names: &names, room: &mut room, take: &mut take };
            if !self.segment(taker).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn names(&self, query: &Which<'_>) -> Result<Names, StoreError> {
        let History { name, subjects, .. } = query.history;
        // What is not asked for is no condition at all, so that an index serves the others.
        let given = |is_given: bool, parameter: &str, condition: &str| match is_given {
            true => condition.to_owned(),
            false => format!("CAST({parameter} AS TEXT) IS NULL"),
        };
        let sql = format!(
            "SELECT s.id AS id, s.subject AS subject, s.host AS host, s.kind AS kind FROM series s \
             JOIN {subjects} c ON c.id = s.subject WHERE s.history = '{name}' AND {} AND {} AND {} AND {} AND {}",
            given(query.id.is_some(), "$1", "s.subject = $1"),
            given(query.job.is_some(), "$2", "c.job = $2"),
            given(query.host.is_some(), "$3", "s.host = $3"),
            given(query.kind.is_some(), "$4", "s.kind = $4"),
            given(query.of_jobs.is_some(), "$5", "substr(c.job, 1, length($5)) = $5"),
        );
        let mut names = Names::new();
        each!(read self, |pool| {
            let mut rows = sqlx::query(AssertSqlSafe(sql))
                .bind(query.id)
                .bind(query.job)
                .bind(query.host)
                .bind(query.kind)
                .bind(query.of_jobs)
                .fetch(pool);
            while let Some(row) = rows.try_next().await? {
                let name = Name {
                    subject: row.try_get("subject")?,
                    host: row.try_get("host")?,
                    kind: row.try_get("kind")?,
                };
                names.insert(row.try_get("id")?, name);
            }
        });
        Ok(names)
    }

    /// Returns false when there is no more room.
    async fn segment<V, F: FnMut(&Name, Segment, i64, V)>(
        &self,
        mut taker: Taker<'_, V, F>,
    ) -> Result<bool, StoreError> {
        if taker.names.is_empty() {
            return Ok(true);
        }
        let Segment { resolution, from_ms, to_ms } = taker.segment;
        // First: what settles meanwhile is then read twice, and taken once.
        let mut recent = match resolution {
            Resolution::Samples => self.recent_of(&taker).await?,
            _ => HashMap::new(),
        };
        for day in self.days(Family::of(resolution)).await? {
            if day.ends_ms() <= from_ms || day.begins_ms() >= to_ms {
                continue;
            }
            match self.day(day, &mut taker, &mut recent).await {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                // Retention has dropped it meanwhile.
                Err(StoreError::Failed(sqlx::Error::Database(_)))
                    if !self.days(day.family).await?.contains(&day) => {}
                Err(error) => return Err(error),
            }
        }
        for (series, points) in recent {
            if !taker.take(series, points) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What has not settled of a segment, by series and time.
    async fn recent_of<V, F>(
        &self,
        taker: &Taker<'_, V, F>,
    ) -> Result<HashMap<i64, BTreeMap<i64, V>>, StoreError> {
        let mut found: HashMap<i64, BTreeMap<i64, V>> = HashMap::new();
        let recent = self.recent(taker.segment.from_ms, taker.segment.to_ms).await?;
        for (ts_ms, points) in recent.moments {
            read(&points, |series, values| {
                if taker.names.contains_key(&series)
                    && let Some(value) = (taker.of)(&values)
                {
                    found.entry(series).or_default().insert(ts_ms, value);
                }
            });
        }
        Ok(found)
    }

    /// Takes what one day has of the segment. Returns false when there is no more room.
    async fn day<V, F: FnMut(&Name, Segment, i64, V)>(
        &self,
        day: Day,
        taker: &mut Taker<'_, V, F>,
        recent: &mut HashMap<i64, BTreeMap<i64, V>>,
    ) -> Result<bool, StoreError> {
        let Segment { resolution, from_ms, to_ms } = taker.segment;
        let sql = day_sql(day, taker.segment, taker.names);
        each!(read self, |pool| {
            let mut rows = sqlx::query(AssertSqlSafe(sql)).persistent(false).fetch(pool);
            while let Some(row) = rows.try_next().await? {
                let series: i64 = row.try_get("series")?;
                if !taker.names.contains_key(&series) {
                    continue;
                }
                let span_ends_ms: i64 = row.try_get::<i64, _>("from_ms")? + resolution.span_ms();
                let mut points = match recent.get_mut(&series) {
                    Some(recent) => {
                        let later = recent.split_off(&span_ends_ms);
                        std::mem::replace(recent, later)
                    }
                    None => BTreeMap::new(),
                };
                read(row.try_get("points")?, |ts_ms, values| {
                    if (from_ms..to_ms).contains(&ts_ms)
                        && let Some(value) = (taker.of)(&values)
                    {
                        points.insert(ts_ms, value);
                    }
                });
                if !taker.take(series, points) {
                    return Ok(false);
                }
            }
        });
        Ok(true)
    }
}

impl<V, F: FnMut(&Name, Segment, i64, V)> Taker<'_, V, F> {
    /// Returns false when there is no more room.
    fn take(&mut self, series: i64, points: BTreeMap<i64, V>) -> bool {
        let Some(name) = self.names.get(&series) else { return true };
        for (ts_ms, value) in points {
            let Some(left) = self.room.checked_sub(1) else { return false };
            *self.room = left;
            (self.take)(name, self.segment, ts_ms, value);
        }
        true
    }
}

impl Metric {
    pub(super) fn history(self) -> &'static History {
        if Self::OF_SUMMATIONS.contains(&self) { &SUMMATIONS } else { &COMMUNICATORS }
    }

    /// Its value among those of a row.
    fn of(self, values: &Values) -> Option<i64> {
        let value = |name| self.history().place(name).and_then(|place| values[place]);
        match self {
            Self::BacklogBytes => Some(value("issued_bytes")? - value("completed_bytes")?),
            _ => value(self.label()),
        }
    }
}

/// The statement that reads what a day has of a segment. Few series are looked up in each span; of many the whole spans are read.
fn day_sql(day: Day, segment: Segment, names: &Names) -> String {
    let Segment { resolution, from_ms, to_ms } = segment;
    let first_ms = resolution.span_of(from_ms).max(day.begins_ms());
    let last_ms = to_ms.min(day.ends_ms());
    let select = format!(
        "SELECT from_ms, series, points FROM {} WHERE level_ms = {}",
        day.table(),
        resolution.bucket_ms()
    );
    if names.len() > LOOKED_UP_MAX {
        return format!("{select} AND from_ms >= {first_ms} AND from_ms < {last_ms} ORDER BY from_ms");
    }
    let step = usize::try_from(resolution.span_ms()).unwrap_or(usize::MAX);
    let spans = list((first_ms..last_ms).step_by(step));
    let series = list(names.keys().copied());
    format!("{select} AND from_ms IN ({spans}) AND series IN ({series}) ORDER BY from_ms")
}

fn list(numbers: impl Iterator<Item = i64>) -> String {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    numbers.join(", ")
}

/// Series that are looked up one by one.
const LOOKED_UP_MAX: usize = 2_000;
