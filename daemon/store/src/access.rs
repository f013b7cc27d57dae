//! Tokens and sessions: hashes, never what they are hashes of.

use ringscope_access::{Hash, SessionRow, Tenant, TokenRow};
use ringscope_api::Token;
use ringscope_api::clock::Timestamp;
use sqlx::Row as _;

use super::{Store, StoreError, each};

impl Store {
    /// Every token that was ever made, the newest first. One whose role, tenant or hash cannot be read, being of another
    /// version or damaged, opens nothing and is left out.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
        let query = "SELECT id, name, role, tenant, hash, created_ns, created_by, expires_ns, revoked_ns, last_used_ns \
                     FROM tokens ORDER BY created_ns DESC, id LIMIT $1";
        let mut tokens = Vec::new();
        each!(read self, |pool| {
            for row in sqlx::query(query).bind(TOKENS_MAX).fetch_all(pool).await? {
                let (role, hash): (String, Vec<u8>) = (row.try_get("role")?, row.try_get("hash")?);
                let tenant = Some(row.try_get::<String, _>("tenant")?).filter(|tenant| !tenant.is_empty());
                let is_tenant = tenant.as_ref().is_none_or(|tenant| tenant.parse::<Tenant>().is_ok());
                let (Ok(role), Ok(hash), true) = (role.parse(), Hash::try_from(hash), is_tenant) else {
                    continue;
                };
                let token = Token {
                    id: row.try_get("id")?,
                    name: row.try_get("name")?,
                    role,
                    tenant,
                    created_at: time(row.try_get("created_ns")?),
                    created_by: row.try_get("created_by")?,
                    expires_at: row.try_get::<Option<i64>, _>("expires_ns")?.map(time),
                    revoked_at: row.try_get::<Option<i64>, _>("revoked_ns")?.map(time),
                    unwritten: None,
                    last_used_at: row.try_get::<Option<i64>, _>("last_used_ns")?.map(time),
                };
                tokens.push(TokenRow { token, hash });
            }
        });
        Ok(tokens)
    }

    /// Keeps a new token. False: there are as many as there may be.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn add_token(&self, row: &TokenRow) -> Result<bool, StoreError> {
        let query = "INSERT INTO tokens (id, name, role, tenant, hash, created_ns, created_by, expires_ns) \
                     SELECT $1, $2, $3, $4, $5, $6, $7, $8 WHERE (SELECT COUNT(*) FROM tokens) < $9";
        let token = &row.token;
        let added = each!(write self, |pool, _Db| {
            sqlx::query(query)
                .bind(&token.id)
                .bind(&token.name)
                .bind(token.role.label())
                .bind(token.tenant.as_deref().unwrap_or_default())
                .bind(&row.hash[..])
                .bind(ns(token.created_at))
                .bind(&token.created_by)
                .bind(token.expires_at.map(ns))
                .bind(TOKENS_MAX)
                .execute(pool)
                .await?
                .rows_affected()
        });
        Ok(added > 0)
    }

    /// Revokes a token, unless it is revoked already, and forgets its sessions.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn revoke_token(&self, id: &str, now: Timestamp) -> Result<(), StoreError> {
        each!(write self, |pool, _Db| {
            sqlx::query("UPDATE tokens SET revoked_ns = $2 WHERE id = $1 AND revoked_ns IS NULL")
                .bind(id)
                .bind(ns(now))
                .execute(pool)
                .await?;
            sqlx::query("DELETE FROM sessions WHERE token = $1").bind(id).execute(pool).await?;
        });
        Ok(())
    }

    /// Keeps when tokens were used.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn use_tokens(&self, used: &[(String, Timestamp)]) -> Result<(), StoreError> {
        each!(write self, |pool, _Db| {
            for (id, at) in used {
                sqlx::query("UPDATE tokens SET last_used_ns = $2 WHERE id = $1")
                    .bind(id)
                    .bind(ns(*at))
                    .execute(pool)
                    .await?;
            }
        });
        Ok(())
    }

    /// The sessions that were used last.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn sessions(&self) -> Result<Vec<SessionRow>, StoreError> {
        let query = "SELECT hash, token, began_ns, seen_ns FROM sessions ORDER BY seen_ns DESC LIMIT $1";
        let mut sessions = Vec::new();
        each!(read self, |pool| {
            for row in sqlx::query(query).bind(SESSIONS_MAX).fetch_all(pool).await? {
                let Ok(hash) = Hash::try_from(row.try_get::<Vec<u8>, _>("hash")?) else { continue };
                sessions.push(SessionRow {
                    hash,
                    token: row.try_get("token")?,
                    began_at: time(row.try_get("began_ns")?),
                    seen_at: time(row.try_get("seen_ns")?),
                });
            }
        });
        Ok(sessions)
    }

    /// Keeps a new session.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn add_session(&self, session: &SessionRow) -> Result<(), StoreError> {
        let query = "INSERT INTO sessions (hash, token, began_ns, seen_ns) VALUES ($1, $2, $3, $4)";
        each!(write self, |pool, _Db| {
            sqlx::query(query)
                .bind(&session.hash[..])
                .bind(&session.token)
                .bind(ns(session.began_at))
                .bind(ns(session.seen_at))
                .execute(pool)
                .await?;
        });
        Ok(())
    }

    /// Keeps when sessions were used.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn use_sessions(&self, used: &[(Hash, Timestamp)]) -> Result<(), StoreError> {
        each!(write self, |pool, _Db| {
            for (hash, at) in used {
                sqlx::query("UPDATE sessions SET seen_ns = $2 WHERE hash = $1")
                    .bind(&hash[..])
                    .bind(ns(*at))
                    .execute(pool)
                    .await?;
            }
        });
        Ok(())
    }

    /// Forgets a session.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn remove_session(&self, hash: &Hash) -> Result<(), StoreError> {
        each!(write self, |pool, _Db| {
            sqlx::query("DELETE FROM sessions WHERE hash = $1").bind(&hash[..]).execute(pool).await?;
        });
        Ok(())
    }

    /// Forgets the sessions that were begun, or last used, before these times.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn sweep_sessions(&self, begun: Timestamp, used: Timestamp) -> Result<(), StoreError> {
        each!(write self, |pool, _Db| {
            sqlx::query("DELETE FROM sessions WHERE began_ns <= $1 OR seen_ns <= $2")
                .bind(ns(begun))
                .bind(ns(used))
                .execute(pool)
                .await?;
        });
        Ok(())
    }
}

fn time(ns: i64) -> Timestamp {
    Timestamp(ns.max(0).cast_unsigned())
}

fn ns(time: Timestamp) -> i64 {
    time.0.cast_signed()
}

/// Tokens that can ever be made: one a host of the largest fleet.
const TOKENS_MAX: i64 = 10_000;
/// Sessions read back.
const SESSIONS_MAX: i64 = 10_000;
