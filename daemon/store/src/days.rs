//! History lies in a table a day, so that what is too old goes by dropping tables and not row by row. On Postgres they are
//! partitions of `samples` and `rollups`.
//!
//! A row has what is kept of one series in one span of time. Rows are written by time, then by series, so that a table grows
//! at its end and pages are written full; they are found by (level, span, series), for which no other index is needed.

use ringscope_api::clock::Timestamp;
use sqlx::{AssertSqlSafe, QueryBuilder, Row as _};

use super::leader::fence;
use super::resolution::{DAY_MS, Resolution};
use super::{Store, StoreError, each};

/// A table with the history of a day.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Day {
    /// Days since 1970.
    pub(super) day: i64,
    pub(super) family: Family,
}

/// What a table has of its day.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Family {
    Samples,
    Rollups,
}

/// What is kept of one series in one span.
pub(super) struct Kept {
    pub(super) series: i64,
    pub(super) points: Vec<u8>,
}

impl Family {
    const ALL: [Self; 2] = [Self::Samples, Self::Rollups];

    pub(super) const fn of(resolution: Resolution) -> Self {
        match resolution {
            Resolution::Samples => Self::Samples,
            _ => Self::Rollups,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Samples => "samples",
            Self::Rollups => "rollups",
        }
    }
}

impl Day {
    pub(super) const fn of(resolution: Resolution, ts_ms: i64) -> Self {
        Self { day: ts_ms.div_euclid(DAY_MS), family: Family::of(resolution) }
    }

    pub(super) const fn begins_ms(self) -> i64 {
        self.day * DAY_MS
    }

    pub(super) const fn ends_ms(self) -> i64 {
        (self.day + 1) * DAY_MS
    }

    /// The table, by its date: `samples_20261128`.
    pub(super) fn table(self) -> String {
        let date =
            i32::try_from(self.day + JULIAN_1970).ok().and_then(|day| time::Date::from_julian_day(day).ok());
        let family = self.family.name();
        match date {
            Some(date) => {
                format!("{family}_{:04}{:02}{:02}", date.year(), u8::from(date.month()), date.day())
            }
            None => format!("{family}_day_{}", self.day.unsigned_abs()),
        }
    }
}

impl Store {
    /// Makes the tables of today and tomorrow, so that none is made while somebody waits for it.
    pub(super) async fn make_next_days(&self, now: Timestamp) -> Result<(), StoreError> {
        let today = now.unix_ms().cast_signed();
        for family in Family::ALL {
            for ts_ms in [today, today + DAY_MS] {
                self.make_day(Day { day: ts_ms.div_euclid(DAY_MS), family }).await?;
            }
        }
        Ok(())
    }

    /// Makes the table of a day, unless it is there.
    pub(super) async fn make_day(&self, day: Day) -> Result<(), StoreError> {
        if self.known().has_day(day) {
            return Ok(());
        }
        let (table, parent) = (day.table(), day.family.name());
        let make = match self {
            Self::Pg(..) => format!(
                "CREATE TABLE IF NOT EXISTS {table} PARTITION OF {parent} FOR VALUES FROM ({}) TO ({})",
                day.begins_ms(),
                day.ends_ms()
            ),
            Self::Lite { .. } => format!(
                "CREATE TABLE IF NOT EXISTS {table} (level_ms INTEGER NOT NULL, from_ms INTEGER NOT NULL, \
                 series INTEGER NOT NULL, points BLOB NOT NULL, PRIMARY KEY (level_ms, from_ms, series))"
            ),
        };
        let note =
            "INSERT INTO history_days (family, day) VALUES ($1, $2) ON CONFLICT (family, day) DO NOTHING";
        let made = self.made_day(&make, note, parent, day).await;
        // Postgres says so where a statement that was given up has just made it.
        match made {
            Err(StoreError::Failed(sqlx::Error::Database(error)))
                if error.message().contains("already exists") =>
            {
                self.made_day(&make, note, parent, day).await?;
            }
            made => made?,
        }
        self.known().made_day(day);
        Ok(())
    }

    async fn made_day(
        &self,
        make: &str,
        note: &'static str,
        family: &str,
        day: Day,
    ) -> Result<(), StoreError> {
        each!(write self, |pool, _Db| {
            let mut tx = pool.begin().await?;
            fence!(self, tx);
            sqlx::query(AssertSqlSafe(make)).execute(&mut *tx).await?;
            sqlx::query(note).bind(family).bind(day.day).execute(&mut *tx).await?;
            tx.commit().await?;
        });
        Ok(())
    }

    /// The days of which there are tables, by time.
    pub(super) async fn days(&self, family: Family) -> Result<Vec<Day>, StoreError> {
        let query = "SELECT day FROM history_days WHERE family = $1 ORDER BY day";
        let mut days = Vec::new();
        each!(read self, |pool| {
            for row in sqlx::query(query).bind(family.name()).fetch_all(pool).await? {
                days.push(Day { day: row.try_get("day")?, family });
            }
        });
        Ok(days)
    }

    /// Drops the tables of days that are over before `cutoff_ms`. Returns how many those were.
    pub(super) async fn drop_days(&self, family: Family, cutoff_ms: i64) -> Result<u64, StoreError> {
        let forget = "DELETE FROM history_days WHERE family = $1 AND day = $2";
        let mut n_dropped = 0;
        for day in self.days(family).await?.into_iter().filter(|day| day.ends_ms() <= cutoff_ms) {
            let drop_table = format!("DROP TABLE IF EXISTS {}", day.table());
            self.known().forget_day(day);
            each!(write self, |pool, _Db| {
                let mut tx = pool.begin().await?;
                fence!(self, tx);
                sqlx::query(AssertSqlSafe(drop_table)).execute(&mut *tx).await?;
                sqlx::query(forget).bind(family.name()).bind(day.day).execute(&mut *tx).await?;
                tx.commit().await?;
            });
            n_dropped += 1;
        }
        Ok(n_dropped)
    }

    /// Writes what is kept of one span, in steps of bounded size. Rows replace what was there of their series.
    pub(super) async fn keep(
        &self,
        resolution: Resolution,
        from_ms: i64,
        kept: &[Kept],
    ) -> Result<(), StoreError> {
        let day = Day::of(resolution, from_ms);
        self.make_day(day).await?;
        let insert = format!("INSERT INTO {} (level_ms, from_ms, series, points) ", day.table());
        for step in kept.chunks(STEP_ROWS) {
            each!(write self, |pool, Db| {
                let mut tx = pool.begin().await?;
                fence!(self, tx);
                for chunk in super::bulk::chunks(step) {
                    let mut query: QueryBuilder<Db> = QueryBuilder::new(insert.as_str());
                    query.push_values(chunk, |mut values, row| {
                        values.push_bind(resolution.bucket_ms()).push_bind(from_ms);
                        values.push_bind(row.series).push_bind(&row.points);
                    });
                    query.push(" ON CONFLICT (level_ms, from_ms, series) DO UPDATE SET points = excluded.points");
                    query.build().execute(&mut *tx).await?;
                }
                tx.commit().await?;
            });
        }
        Ok(())
    }

    /// What is kept of a span, of those series or of all.
    pub(super) async fn kept(
        &self,
        resolution: Resolution,
        from_ms: i64,
        of: Option<&[i64]>,
    ) -> Result<Vec<Kept>, StoreError> {
        let day = Day::of(resolution, from_ms);
        let mut kept = Vec::new();
        if !self.days(day.family).await?.contains(&day) {
            return Ok(kept);
        }
        let among = of.map(|of| of.iter().map(i64::to_string).collect::<Vec<_>>().join(", "));
        let among = among.map_or_else(String::new, |of| format!(" AND series IN ({of})"));
        let sql = format!(
            "SELECT series, points FROM {} WHERE level_ms = $1 AND from_ms = $2{among} ORDER BY series",
            day.table()
        );
        each!(read self, |pool| {
            let query = sqlx::query(AssertSqlSafe(sql)).persistent(false);
            for row in query.bind(resolution.bucket_ms()).bind(from_ms).fetch_all(pool).await? {
                kept.push(Kept { series: row.try_get("series")?, points: row.try_get("points")? });
            }
        });
        Ok(kept)
    }

    /// The start of the first span at or after `from_ms` of which something is kept.
    pub(super) async fn next_span(
        &self,
        resolution: Resolution,
        from_ms: i64,
    ) -> Result<Option<i64>, StoreError> {
        for day in self.days(Family::of(resolution)).await? {
            if day.ends_ms() <= from_ms {
                continue;
            }
            let sql = format!(
                "SELECT MIN(from_ms) AS from_ms FROM {} WHERE level_ms = $1 AND from_ms >= $2",
                day.table()
            );
            let found: Option<i64> = each!(read self, |pool| {
                let query = sqlx::query(AssertSqlSafe(sql)).bind(resolution.bucket_ms()).bind(from_ms);
                query.fetch_one(pool).await?.try_get("from_ms")?
            });
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

/// Rows written in one transaction: some ten milliseconds of the writer's time.
const STEP_ROWS: usize = 512;
/// The Julian day of 1970-01-01.
const JULIAN_1970: i64 = 2_440_588;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_named_by_their_date() {
        for (ts_ms, name) in [
            (0, "samples_19700101"),
            (1_795_824_000_000 - 1, "samples_20261127"),
            (1_795_824_000_000, "samples_20261128"),
        ] {
            assert_eq!(Day::of(Resolution::Samples, ts_ms).table(), name);
        }
        assert_eq!(Day::of(Resolution::Hour, -1).table(), "rollups_19691231");
        let day = Day::of(Resolution::Minute, 1_795_824_000_000);
        assert_eq!((day.begins_ms(), day.ends_ms()), (1_795_824_000_000, 1_795_824_000_000 + DAY_MS));
    }

    #[test]
    fn spans_lie_within_a_day() {
        for resolution in [Resolution::Samples].into_iter().chain(Resolution::ROLLUPS) {
            assert_eq!(DAY_MS % resolution.span_ms(), 0);
            assert_eq!(resolution.span_ms() % resolution.bucket_ms().max(1), 0);
            assert_eq!(resolution.span_ms() % resolution.source().span_ms(), 0);
        }
    }
}
