//! Forgetting: what is older than the operator wants to keep goes in small steps, so that no writer waits long.

use std::time::Duration;

use ringscope_api::clock::Timestamp;
use sqlx::{AssertSqlSafe, Row as _};

use super::history::{self, History};
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

impl Store {
    /// Deletes what is older than it shall be kept, in steps of bounded size. Returns the rows deleted.
    ///
    /// # Errors
    /// What the driver says; what was deleted until then stays deleted.
    pub async fn sweep(&self, now: Timestamp, keep: Keep) -> Result<u64, StoreError> {
        let cutoff_ns = before_ns(now, keep.all);
        let cutoff_ms = (cutoff_ns / 1_000_000).cast_signed();
        let samples_ms = (before_ns(now, keep.samples) / 1_000_000).cast_signed();
        let mut deleted = self.sweep_samples(samples_ms, cutoff_ms).await?;
        for resolution in Resolution::ROLLUPS {
            deleted += self.sweep_history(resolution, cutoff_ms).await?;
        }
        for step in STEPS {
            loop {
                let rows = self.delete(step, cutoff_ns.cast_signed()).await?;
                deleted += rows;
                if rows < STEP_ROWS.cast_unsigned() {
                    break;
                }
            }
        }
        Ok(deleted)
    }

    /// Samples go when they are rolled up, or too old for anything. The mark comes first: who reads looks no further back.
    async fn sweep_samples(&self, samples_ms: i64, all_ms: i64) -> Result<u64, StoreError> {
        let marks = self.marks().await?;
        let rolled_up_ms = marks.of(Resolution::Minute).unwrap_or(0);
        let cutoff_ms = Resolution::Minute.floor_ms(samples_ms).min(rolled_up_ms).max(all_ms);
        if marks.of(Resolution::Samples).is_none_or(|mark_ms| mark_ms < cutoff_ms) {
            self.mark(Resolution::Samples, cutoff_ms).await?;
        }
        self.sweep_history(Resolution::Samples, cutoff_ms).await
    }

    async fn sweep_history(&self, resolution: Resolution, cutoff_ms: i64) -> Result<u64, StoreError> {
        let mut deleted = 0;
        for of in history::ALL {
            deleted += self.sweep_history_of(of, resolution, cutoff_ms).await?;
        }
        Ok(deleted)
    }

    /// One subject after the other, a slice of time at once: both lead the primary key.
    async fn sweep_history_of(
        &self,
        of: &History,
        resolution: Resolution,
        cutoff_ms: i64,
    ) -> Result<u64, StoreError> {
        let statement = format!("DELETE FROM {} {} = $1 AND ts_ms < $2", of.rows(resolution), of.subject);
        let slice_ms = SLICE_MS.max(resolution.bucket_ms());
        let mut deleted = 0;
        let mut subject = String::new();
        while let Some((next, oldest_ms)) = self.oldest(of, resolution, &subject).await? {
            if oldest_ms >= cutoff_ms {
                subject = next;
                continue;
            }
            let until_ms = cutoff_ms.min(oldest_ms.saturating_add(slice_ms));
            each!(write self, |pool, _Db| {
                deleted += sqlx::query(AssertSqlSafe(statement.as_str()))
                    .bind(next)
                    .bind(until_ms)
                    .execute(pool)
                    .await?
                    .rows_affected();
            });
        }
        Ok(deleted)
    }

    /// The first subject after `after` that has history, and the time of its oldest row.
    async fn oldest(
        &self,
        of: &History,
        resolution: Resolution,
        after: &str,
    ) -> Result<Option<(String, i64)>, StoreError> {
        let (rows, subject) = (of.rows(resolution), of.subject);
        let query = format!(
            "SELECT {subject} AS subject, ts_ms FROM {rows} {subject} > $1 ORDER BY {subject}, ts_ms LIMIT 1"
        );
        Ok(each!(read self, |pool| {
            match sqlx::query(AssertSqlSafe(query)).bind(after).fetch_optional(pool).await? {
                Some(row) => Some((row.try_get("subject")?, row.try_get("ts_ms")?)),
                None => None,
            }
        }))
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
/// Time of which one subject's samples are deleted in one statement.
const SLICE_MS: i64 = 5 * 60 * 1000;
/// What is deleted, each statement with the cutoff and the number of rows. What depends on another comes first.
const STEPS: [&str; 12] = [
    "DELETE FROM process_counters WHERE key IN (SELECT key FROM processes WHERE ended_ns < $1 LIMIT $2)",
    "DELETE FROM processes WHERE key IN (SELECT p.key FROM processes p LEFT JOIN process_counters c \
     ON c.key = p.key WHERE p.ended_ns < $1 OR (p.updated_ns < $1 AND COALESCE(c.updated_ns, 0) < $1) LIMIT $2)",
    "DELETE FROM process_counters WHERE key IN (SELECT c.key FROM process_counters c LEFT JOIN processes p \
     ON p.key = c.key WHERE p.key IS NULL AND c.updated_ns < $1 LIMIT $2)",
    "DELETE FROM ring_hops WHERE (comm, channel, rank) IN (SELECT h.comm, h.channel, h.rank FROM ring_hops h \
     JOIN communicators c ON c.id = h.comm WHERE c.updated_ns < $1 LIMIT $2)",
    "DELETE FROM communicator_ranks WHERE (comm, rank) IN (SELECT r.comm, r.rank FROM communicator_ranks r \
     JOIN communicators c ON c.id = r.comm WHERE c.updated_ns < $1 LIMIT $2)",
    "DELETE FROM communicators WHERE id IN (SELECT id FROM communicators WHERE updated_ns < $1 LIMIT $2)",
    "DELETE FROM summation_groups WHERE id IN (SELECT id FROM summation_groups WHERE updated_ns < $1 LIMIT $2)",
    "DELETE FROM findings WHERE id IN (SELECT id FROM findings WHERE state = 'resolved' AND last_seen_ns < $1 LIMIT $2)",
    "DELETE FROM incidents WHERE id IN (SELECT id FROM incidents WHERE state = 'resolved' AND last_seen_ns < $1 LIMIT $2)",
    "DELETE FROM agents WHERE agent_id IN (SELECT agent_id FROM agents WHERE last_seen_ns < $1 LIMIT $2)",
    "DELETE FROM hosts WHERE host IN (SELECT host FROM hosts WHERE updated_ns < $1 LIMIT $2)",
    "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE updated_ns < $1 LIMIT $2)",
];
