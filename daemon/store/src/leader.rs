//! Which of several daemons on one Postgres leads. It holds the claim, has a term of its own, and each of its transactions looks
//! whether that term still is the last one: what a daemon writes that was paused, or cut off, while another took over is refused.

use ringscope_api::clock::{self, Timestamp};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::{ConnectOptions as _, Row as _};
use tokio::sync::Mutex;

use super::claim::{ANSWERED_WITHIN, Holder};
use super::open::SOON_FOUND_DEAD;
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
    /// When its term began, by its own clock.
    pub since: Timestamp,
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
#[derive(Debug)]
pub struct LeaderWatch {
    options: PgConnectOptions,
    /// `None`: the next question makes one.
    connection: Mutex<Option<PgConnection>>,
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
            .options(SOON_FOUND_DEAD)
            .disable_statement_logging();
        Ok(Some(Self { options, connection: Mutex::default(), url: url.clone() }))
    }

    /// Who leads. `None`: nobody has led yet.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`], after [`ANSWERED_WITHIN`] at most.
    pub async fn leader(&self) -> Result<Option<Leader>, StoreError> {
        let found = match self.ask(LEADER, None).await {
            Ok(found) => found,
            // No daemon of this release has led.
            Err(error) if is_without_table(&error) => None,
            Err(error) => return Err(StoreError::at_open(&self.url, &error)),
        };
        let leader = |row: PgRow| {
            let since_ns: i64 = row.try_get("since_ns")?;
            Ok(Leader {
                term: row.try_get("term")?,
                url: row.try_get("url")?,
                secret: TermSecret(row.try_get("secret")?),
                since: Timestamp(since_ns.unsigned_abs()),
            })
        };
        found.map(leader).transpose().map_err(StoreError::Failed)
    }

    /// Who has the database to itself. `None`: nobody.
    ///
    /// # Errors
    /// The same.
    pub async fn holder(&self) -> Result<Option<Holder>, StoreError> {
        let found = self.ask(Holder::QUERY, Some(Holder::LOCK)).await;
        let found = found.map_err(|error| StoreError::at_open(&self.url, &error))?;
        found.map(|row| Holder::of(&row)).transpose().map_err(StoreError::Failed)
    }

    /// At most one row. A connection whose answer does not come is dropped with the question, and the next one has a fresh one.
    async fn ask(&self, query: &'static str, argument: Option<i64>) -> Result<Option<PgRow>, sqlx::Error> {
        let asked = async {
            let mut kept = self.connection.lock().await;
            if let Some(mut connection) = kept.take() {
                let found = fetch(&mut connection, query, argument).await;
                if found.as_ref().err().is_none_or(is_without_table) {
                    *kept = Some(connection);
                    return found;
                }
                // It may have ended since the last question.
            }
            let mut connection = self.options.connect().await?;
            let found = fetch(&mut connection, query, argument).await;
            *kept = Some(connection);
            found
        };
        tokio::time::timeout(ANSWERED_WITHIN, asked).await.unwrap_or_else(|_| {
            let reason = format!("no answer within {} s", ANSWERED_WITHIN.as_secs());
            Err(sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, reason)))
        })
    }
}

async fn fetch(
    connection: &mut PgConnection,
    query: &'static str,
    argument: Option<i64>,
) -> Result<Option<PgRow>, sqlx::Error> {
    let query = sqlx::query(query);
    let query = if let Some(argument) = argument { query.bind(argument) } else { query };
    query.fetch_optional(connection).await
}

fn is_without_table(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Database(error) if error.code().as_deref() == Some(UNDEFINED_TABLE))
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

const LEADER: &str = "SELECT term, url, secret, since_ns FROM leader WHERE id = 1";
/// Whether a term is the last one; until the end of the transaction no other can begin. Asked of Postgres alone.
pub(super) const HOLDS: &str = "SELECT 1 AS holds FROM leader WHERE id = 1 AND term = $1 FOR SHARE";
/// SQLSTATE.
const UNDEFINED_TABLE: &str = "42P01";
