//! The trail of who did what.

use ringscope_api::AuditEntry;
use ringscope_api::clock::Timestamp;
use sqlx::Row as _;

use super::{Store, StoreError, each};

/// Which entries.
#[derive(Clone, Copy, Debug)]
pub struct AuditQuery<'q> {
    /// Only those with a number below.
    pub before: Option<u64>,
    /// Only what who has this name did.
    pub who: Option<&'q str>,
    /// Only this action.
    pub action: Option<&'q str>,
    /// So many at most.
    pub limit: u32,
}

impl AuditQuery<'_> {
    /// The newest, whoever did what.
    #[must_use]
    pub const fn newest(limit: u32) -> Self {
        Self { before: None, who: None, action: None, limit }
    }
}

impl Store {
    /// Adds an entry; its number is given here.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn add_audit(&self, entry: &AuditEntry) -> Result<(), StoreError> {
        let query = "INSERT INTO audit (at_ns, who, token, tenant, role, address, action, subject, detail, status) \
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        each!(write self, |pool, _Db| {
            sqlx::query(query)
                .bind(entry.at.0.cast_signed())
                .bind(&entry.who)
                .bind(&entry.token)
                .bind(&entry.tenant)
                .bind(&entry.role)
                .bind(&entry.address)
                .bind(&entry.action)
                .bind(&entry.subject)
                .bind(&entry.detail)
                .bind(i64::from(entry.status))
                .execute(pool)
                .await?;
        });
        Ok(())
    }

    /// The entries that fit, the newest first.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn audit(&self, asked: AuditQuery<'_>) -> Result<Vec<AuditEntry>, StoreError> {
        let AuditQuery { before, who, action, limit } = asked;
        let query = "SELECT id, at_ns, who, token, tenant, role, address, action, subject, detail, status FROM audit \
                     WHERE id < $1 AND ($2 = '' OR who = $2) AND ($3 = '' OR action = $3) ORDER BY id DESC LIMIT $4";
        let before = before.and_then(|before| i64::try_from(before).ok()).unwrap_or(i64::MAX);
        let mut entries = Vec::new();
        each!(read self, |pool| {
            let query = sqlx::query(query)
                .bind(before)
                .bind(who.unwrap_or_default())
                .bind(action.unwrap_or_default())
                .bind(i64::from(limit));
            for row in query.fetch_all(pool).await? {
                entries.push(AuditEntry {
                    id: row.try_get::<i64, _>("id")?.cast_unsigned(),
                    at: Timestamp(row.try_get::<i64, _>("at_ns")?.cast_unsigned()),
                    who: row.try_get("who")?,
                    token: row.try_get("token")?,
                    tenant: row.try_get("tenant")?,
                    role: row.try_get("role")?,
                    address: row.try_get("address")?,
                    action: row.try_get("action")?,
                    subject: row.try_get("subject")?,
                    detail: row.try_get("detail")?,
                    status: u16::try_from(row.try_get::<i64, _>("status")?).unwrap_or(0),
                });
            }
        });
        Ok(entries)
    }

    /// Forgets entries from before then.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn sweep_audit(&self, before: Timestamp) -> Result<(), StoreError> {
        each!(write self, |pool, _Db| {
            sqlx::query("DELETE FROM audit WHERE at_ns < $1").bind(before.0.cast_signed()).execute(pool).await?;
        });
        Ok(())
    }
}
