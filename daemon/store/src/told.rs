//! What webhooks were told, so that a restart tells nothing twice.

use ringscope_api::Incident;
use sqlx::Row as _;

use super::{Store, StoreError, each};

impl Store {
    /// What this target was told and is not over: ids, each with the incident as it was told. A row that cannot be
    /// read is left out.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn told(&self, target: &str) -> Result<Vec<(String, Incident)>, StoreError> {
        let query = "SELECT subject, body FROM told WHERE target = $1 ORDER BY subject LIMIT $2";
        let mut told = Vec::new();
        each!(read self, |pool| {
            for row in sqlx::query(query).bind(target).bind(TOLD_MAX).fetch_all(pool).await? {
                let body: String = row.try_get("body")?;
                if let Ok(incident) = serde_json::from_str(&body) {
                    told.push((row.try_get("subject")?, incident));
                }
            }
        });
        Ok(told)
    }

    /// Keeps that the target was told.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn tell(&self, target: &str, subject: &str, incident: &Incident) -> Result<(), StoreError> {
        let body = serde_json::to_string(incident).unwrap_or_default();
        let query = "INSERT INTO told (target, subject, body) VALUES ($1, $2, $3) \
                     ON CONFLICT (target, subject) DO UPDATE SET body = excluded.body";
        each!(write self, |pool, _Db| {
            sqlx::query(query).bind(target).bind(subject).bind(body).execute(pool).await?;
        });
        Ok(())
    }

    /// Forgets it: the target was told that it is over.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn untell(&self, target: &str, subject: &str) -> Result<(), StoreError> {
        let query = "DELETE FROM told WHERE target = $1 AND subject = $2";
        each!(write self, |pool, _Db| {
            sqlx::query(query).bind(target).bind(subject).execute(pool).await?;
        });
        Ok(())
    }
}

/// Subjects read back: as many as incidents can be open.
const TOLD_MAX: i64 = 10_000;
