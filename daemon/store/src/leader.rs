//! Which of several daemons on one Postgres leads. It holds the claim, has a term of its own, and each of its transactions looks
//! whether that term still is the last one: what a daemon writes that was paused, or cut off, while another took over is refused.

use ringscope_api::clock;
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{ConnectOptions as _, Row as _};

use super::{DatabaseUrl, Store, StoreError, each};

/// The daemon that leads, or did when it ended without another one having begun.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Leader {
    /// Counts those who have led.
    pub term: i64,
    /// Address at which the other daemons reach it.
    pub url: String,
    /// With which they show that they are daemons of this database.
    pub secret: TermSecret,
}

/// What the daemons of one database know of each other, for as long as one of them leads. Not shown.
#[derive(Clone, Eq, PartialEq)]
pub struct TermSecret(pub String);

impl std::fmt::Debug for TermSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TermSecret(..)")
    }
}

/// Looks who leads, for a daemon that does not.
#[derive(Clone, Debug)]
pub struct LeaderWatch {
    pool: PgPool,
    url: DatabaseUrl,
}

impl LeaderWatch {
    /// Connects when it is first asked. `None`: the database is no Postgres, so nobody shares it.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`]: the URL cannot be used.
    pub fn new(url: &DatabaseUrl) -> Result<Option<Self>, StoreError> {
        let DatabaseUrl::Postgres(postgres) = url else { return Ok(None) };
        let options = postgres.options().map_err(|error| StoreError::at_open(url, &error))?;
        let options = options
            .application_name("ringscope standby")
            .options([("statement_timeout", "3000")])
            .disable_statement_logging();
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(super::open::ACQUIRE_TIMEOUT)
            .connect_lazy_with(options);
        Ok(Some(Self { pool, url: url.clone() }))
    }

    /// Who leads. `None`: nobody has led yet.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`].
    pub async fn leader(&self) -> Result<Option<Leader>, StoreError> {
        let row =
            sqlx::query("SELECT term, url, secret FROM leader WHERE id = 1").fetch_optional(&self.pool).await;
        let found = match row {
            Ok(found) => found,
            // No daemon of this release has led: there is no such table.
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(UNDEFINED_TABLE) => None,
            Err(error) => return Err(StoreError::at_open(&self.url, &error)),
        };
        let leader = |row: sqlx::postgres::PgRow| {
            Ok(Leader {
                term: row.try_get("term")?,
                url: row.try_get("url")?,
                secret: TermSecret(row.try_get("secret")?),
            })
        };
        found.map(leader).transpose().map_err(StoreError::Failed)
    }
}

impl Store {
    /// Begins a term: from now on this store alone writes.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn lead(&self, url: &str, secret: &TermSecret) -> Result<(), StoreError> {
        let query = "INSERT INTO leader (id, term, url, secret, since_ns) VALUES (1, 1, $1, $2, $3) ON CONFLICT (id) DO \
                     UPDATE SET term = leader.term + 1, url = excluded.url, secret = excluded.secret, \
                     since_ns = excluded.since_ns RETURNING term";
        let since_ns = clock::now().0.cast_signed();
        each!(write self, |pool, _Db| {
            let asked = sqlx::query(query).bind(url).bind(&secret.0).bind(since_ns);
            self.known().set_term(asked.fetch_one(pool).await?.try_get("term")?);
        });
        Ok(())
    }
}

/// Ends a transaction of a daemon that has led and leads no more.
macro_rules! fence {
    ($store:expr, $tx:ident) => {
        if let Some(term) = $store.known().term() {
            let holds = sqlx::query($crate::leader::HOLDS).bind(term).fetch_optional(&mut *$tx).await?;
            if holds.is_none() {
                return Err($crate::StoreError::Deposed);
            }
        }
    };
}
pub(super) use fence;

/// Whether a term is the last one; until the end of the transaction no other can begin. Asked of Postgres alone.
pub(super) const HOLDS: &str = "SELECT 1 AS holds FROM leader WHERE id = 1 AND term = $1 FOR SHARE";
/// SQLSTATE.
const UNDEFINED_TABLE: &str = "42P01";
