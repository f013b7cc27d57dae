//! Forgetting what is older than the operator wants to keep: history by dropping the tables of days, the rest in small steps,
//! so that no writer waits long.

use std::time::Duration;

use ringscope_api::clock::Timestamp;

use super::days::Family;
use super::resolution::Resolution;
use super::{Store, StoreError, each};

/// How long to keep.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// Samples that are rolled up.
    pub samples: Duration,
    /// Everything.
    pub all: Duration,
}

/// What was forgotten.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Swept {
    /// Days of history: of samples, and of rollups.
    pub days: u64,
    /// Rows of everything else.
    pub rows: u64,
}

impl Store {
    /// Forgets what is older than it shall be kept: history by the day, the rest in steps of bounded size.
    ///
    /// # Errors
    /// What the driver says; what was deleted until then stays deleted.
    pub async fn sweep(&self, now: Timestamp, keep: Keep) -> Result<Swept, StoreError> {
        let cutoff_ns = before_ns(now, keep.all);
        let mut swept = Swept { days: self.sweep_history(now, keep).await?, rows: 0 };
        for step in STEPS {
            swept.rows += self.delete_all(step, cutoff_ns.cast_signed()).await?;
        }
        let series = self.delete_all(OF_NOTHING, cutoff_ns.cast_signed()).await?;
        if series > 0 {
            self.known().forget_series();
        }
        swept.rows += series;
        Ok(swept)
    }

    /// Samples go when they are rolled up, or too old for anything. The marks come first: who reads looks no further back,
    /// whatever the tables of a day still have.
    async fn sweep_history(&self, now: Timestamp, keep: Keep) -> Result<u64, StoreError> {
        let all_ms = (before_ns(now, keep.all) / 1_000_000).cast_signed();
        let samples_ms = (before_ns(now, keep.samples) / 1_000_000).cast_signed();
        let marks = self.marks().await?;
        let rolled_up_ms = marks.of(Resolution::Minute).unwrap_or(0);
        let cutoff_ms = Resolution::Minute.floor_ms(samples_ms).min(rolled_up_ms).max(all_ms);
        if marks.of(Resolution::Samples).is_none_or(|mark_ms| mark_ms < cutoff_ms) {
            self.mark(Resolution::Samples, cutoff_ms).await?;
        }
        if marks.forgotten_ms() < all_ms {
            self.mark_forgotten(all_ms).await?;
        }
        Ok(self.drop_days(Family::Samples, cutoff_ms).await?
            + self.drop_days(Family::Rollups, all_ms).await?)
    }

    async fn delete_all(&self, statement: &'static str, cutoff: i64) -> Result<u64, StoreError> {
        let mut deleted = 0;
        loop {
            let rows = self.delete(statement, cutoff).await?;
            deleted += rows;
            if rows < STEP_ROWS.cast_unsigned() {
                return Ok(deleted);
            }
        }
    }

    async fn delete(&self, statement: &'static str, cutoff: i64) -> Result<u64, StoreError> {
        Ok(each!(write self, |pool, _Db| {
            sqlx::query(statement).bind(cutoff).bind(STEP_ROWS).execute(pool).await?.rows_affected()
        }))
    }
}

fn before_ns(now: Timestamp, keep: Duration) -> u64 {
    now.0.saturating_sub(u64::try_from(keep.as_nanos()).unwrap_or(u64::MAX))
}

/// Rows deleted in one statement: some milliseconds of the writer's time.
const STEP_ROWS: i64 = 500;
/// Series of which the communicator, the summation group or the job is forgotten.
const OF_NOTHING: &str = "DELETE FROM series WHERE id IN (SELECT s.id FROM series s LEFT JOIN communicators c \
    ON c.id = s.subject LEFT JOIN summation_groups g ON g.id = s.subject LEFT JOIN jobs j ON j.id = s.subject \
    WHERE c.id IS NULL AND g.id IS NULL AND j.id IS NULL AND s.made_ms < $1 / 1000000 LIMIT $2)";
/// What is deleted, each statement with the cutoff and the number of rows. What depends on another comes first.
const STEPS: [&str; 14] = [
    "DELETE FROM process_counters WHERE key IN (SELECT key FROM processes WHERE ended_ns < $1 LIMIT $2)",
    "DELETE FROM processes WHERE key IN (SELECT p.key FROM processes p LEFT JOIN process_counters c \
     ON c.key = p.key WHERE p.ended_ns < $1 OR (p.updated_ns < $1 AND COALESCE(c.updated_ns, 0) < $1) LIMIT $2)",
    "DELETE FROM process_counters WHERE key IN (SELECT c.key FROM process_counters c LEFT JOIN processes p \
     ON p.key = c.key WHERE p.key IS NULL AND c.updated_ns < $1 LIMIT $2)",
    "DELETE FROM rank_hops WHERE (comm, rank) IN (SELECT h.comm, h.rank FROM rank_hops h \
     JOIN communicators c ON c.id = h.comm WHERE c.updated_ns < $1 LIMIT $2)",
    "DELETE FROM communicator_ranks WHERE (comm, rank) IN (SELECT r.comm, r.rank FROM communicator_ranks r \
     JOIN communicators c ON c.id = r.comm WHERE c.updated_ns < $1 LIMIT $2)",
    "DELETE FROM communicators WHERE id IN (SELECT id FROM communicators WHERE updated_ns < $1 LIMIT $2)",
    "DELETE FROM summation_groups WHERE id IN (SELECT id FROM summation_groups WHERE updated_ns < $1 LIMIT $2)",
    "DELETE FROM findings WHERE id IN (SELECT id FROM findings WHERE state = 'resolved' AND last_seen_ns < $1 LIMIT $2)",
    "DELETE FROM incidents WHERE id IN (SELECT id FROM incidents WHERE state = 'resolved' AND last_seen_ns < $1 LIMIT $2)",
    "DELETE FROM spans WHERE (kind, subject, from_ns) IN (SELECT kind, subject, from_ns FROM spans \
     WHERE kind IN ('finding', 'incident') AND until_ns < $1 LIMIT $2)",
    "DELETE FROM agents WHERE agent_id IN (SELECT agent_id FROM agents WHERE last_seen_ns < $1 LIMIT $2)",
    "DELETE FROM hosts WHERE host IN (SELECT host FROM hosts WHERE updated_ns < $1 LIMIT $2)",
    "DELETE FROM pace_memories WHERE job IN (SELECT job FROM pace_memories WHERE updated_ns < $1 LIMIT $2)",
    "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE updated_ns < $1 LIMIT $2)",
];
