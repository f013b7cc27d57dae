//! Opening a database: connect, check that it is fit, migrate.

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions as _, Row as _};

use super::migrations::{self, Older};
use super::{DatabaseUrl, Known, StoreError, each};

/// An open database of ringscope's.
#[derive(Clone, Debug)]
pub enum Store {
    /// Postgres.
    Pg(PgPool, Arc<Known>),
    /// SQLite, which takes one writer at a time: so one connection writes and the others only read.
    Lite {
        /// One connection.
        write: SqlitePool,
        /// Several, read-only.
        read: SqlitePool,
        /// What was found in it.
        known: Arc<Known>,
    },
}

impl Store {
    /// Opens the database and brings its schema up to date. `None` for [`DatabaseUrl::None`].
    ///
    /// # Errors
    /// A [`StoreError`] that names the database and what to do.
    pub async fn open(url: &DatabaseUrl) -> Result<Option<Self>, StoreError> {
        Self::open_and(url, Older::BroughtUpToDate).await
    }

    /// The same for a command beside a daemon: a schema of an older release is left as it is, for a daemon of that release
    /// may use it.
    ///
    /// # Errors
    /// The same, and [`StoreError::SchemaOlder`].
    pub async fn open_beside(url: &DatabaseUrl) -> Result<Option<Self>, StoreError> {
        Self::open_and(url, Older::Refused).await
    }

    async fn open_and(url: &DatabaseUrl, older: Older) -> Result<Option<Self>, StoreError> {
        let store = match url {
            DatabaseUrl::None => return Ok(None),
            DatabaseUrl::SqliteMemory => memory(url).await?,
            DatabaseUrl::Sqlite(path) => sqlite(url, path).await?,
            DatabaseUrl::Postgres(_) => {
                // A migration of a large table takes longer than any statement of a daemon that runs.
                let migrating = postgres(url, 1, Duration::ZERO).await?;
                let migrated = migrations::migrate(&migrating, url, older).await;
                migrating.close().await;
                migrated?;
                postgres(url, PG_CONNECTIONS, STATEMENT_TIMEOUT).await?
            }
        };
        if matches!(store, Self::Lite { .. }) {
            migrations::migrate(&store, url, older).await?;
        }
        if older == Older::BroughtUpToDate {
            store.drop_empty_sources().await?;
        }
        Ok(Some(store))
    }

    /// Whether it answers.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn ping(&self) -> Result<(), StoreError> {
        each!(read self, |pool| { sqlx::query("SELECT 1").execute(pool).await.map(drop)? });
        Ok(())
    }

    pub(super) fn known(&self) -> &Known {
        let (Self::Pg(_, known) | Self::Lite { known, .. }) = self;
        known
    }

    /// Closes every connection.
    pub async fn close(&self) {
        match self {
            Self::Pg(pool, _) => pool.close().await,
            Self::Lite { write, read, .. } => {
                read.close().await;
                write.close().await;
            }
        }
    }
}

/// A `statement_timeout` of zero is none.
async fn postgres(
    url: &DatabaseUrl,
    max_connections: u32,
    statement_timeout: Duration,
) -> Result<Store, StoreError> {
    let DatabaseUrl::Postgres(postgres) = url else { unreachable!("called for Postgres only") };
    let at_open = |error| StoreError::at_open(url, &error);
    let timeout = statement_timeout.as_millis().to_string();
    let options = postgres
        .options()
        .map_err(at_open)?
        .application_name("ringscope")
        .options([
            ("statement_timeout", timeout.as_str()),
            ("idle_in_transaction_session_timeout", "5000"),
            QUIET,
        ])
        .options(SOON_FOUND_DEAD)
        .disable_statement_logging();
    let pool = PgPoolOptions::new()
        .max_connections(max_connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_with(options.clone())
        .await;
    let pool = match pool {
        // The pool has tried again and again, and does not say what it met: one that is not there, most often.
        Err(sqlx::Error::PoolTimedOut) => {
            let met = tokio::time::timeout(ACQUIRE_TIMEOUT, options.connect()).await;
            let error = met.ok().and_then(Result::err).unwrap_or(sqlx::Error::PoolTimedOut);
            return Err(at_open(error));
        }
        pool => pool.map_err(at_open)?,
    };
    let query = "SELECT current_setting('server_version_num')::bigint AS num, current_setting('server_version') AS text";
    let row = sqlx::query(query).fetch_one(&pool).await.map_err(at_open)?;
    let number: i64 = row.try_get("num").map_err(at_open)?;
    fit(url, number, row.try_get("text").map_err(at_open)?)?;
    Ok(Store::Pg(pool, Arc::default()))
}

/// Refuses a server that lacks what our SQL needs; `number` is its `server_version_num`.
fn fit(url: &DatabaseUrl, number: i64, found: String) -> Result<(), StoreError> {
    if number < PG_OLDEST { Err(StoreError::TooOld { url: url.to_string(), found }) } else { Ok(()) }
}

/// Makes the folder and the file, where they are not there, for their owner alone: jobs of all, and hashes of tokens.
pub(super) fn prepare(path: &Path) -> std::io::Result<()> {
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

async fn sqlite(url: &DatabaseUrl, path: &Path) -> Result<Store, StoreError> {
    prepare(path).map_err(|error| StoreError::Unwritable {
        path: path.display().to_string(),
        reason: error.to_string(),
    })?;
    let at_open = |error| StoreError::at_open(url, &error);
    let options = SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        // In WAL mode a crash of the process loses nothing committed; a power cut may lose the last commits,
        // which agents resend.
        .synchronous(SqliteSynchronous::Normal)
        .busy_timeout(ACQUIRE_TIMEOUT)
        .disable_statement_logging();
    let writing = options
        .clone()
        .create_if_missing(true)
        // Pages written again between checkpoints are copied once: 16 MiB of WAL.
        .pragma("wal_autocheckpoint", "4000");
    let write = SqlitePoolOptions::new()
        .max_connections(1)
        // A file does not hang up: asking it before every transaction would only wake its thread once more.
        .test_before_acquire(false)
        // A transaction that a full disk has cut off may still be open, and would swallow what is written next.
        .after_release(|connection, _| {
            Box::pin(async move {
                let _ = sqlx::query("ROLLBACK").execute(connection).await;
                Ok(true)
            })
        })
        .connect_with(writing)
        .await
        .map_err(at_open)?;
    let read = SqlitePoolOptions::new()
        .max_connections(SQLITE_READERS)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_lazy_with(options.read_only(true));
    Ok(Store::Lite { write, read, known: Arc::default() })
}

/// One connection for all: a second would see another database.
async fn memory(url: &DatabaseUrl) -> Result<Store, StoreError> {
    let pool = SqlitePoolOptions::new()
        .max_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_with(SqliteConnectOptions::new().in_memory(true).disable_statement_logging())
        .await
        .map_err(|error| StoreError::at_open(url, &error))?;
    Ok(Store::Lite { write: pool.clone(), read: pool, known: Arc::default() })
}

/// One writes, one sweeps, the others answer queries.
const PG_CONNECTIONS: u32 = 6;
/// History queries that run at a time on SQLite.
const SQLITE_READERS: u32 = 4;
/// Oldest Postgres still maintained when this was written; `server_version_num`.
const PG_OLDEST: i64 = 130_000;
/// How long to wait for a connection: shorter than an agent waits for its answer.
pub(super) const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);
/// Of a daemon whose machine is gone Postgres hears within seconds, and ends what that daemon had begun: it holds locks.
pub(super) const SOON_FOUND_DEAD: [(&str, &str); 4] = [
    ("tcp_keepalives_idle", "3"),
    ("tcp_keepalives_interval", "1"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "6000"),
];
/// That a table is there already is no news.
const QUIET: (&str, &str) = ("client_min_messages", "warning");
/// A statement that takes longer has met a lock or a sick server.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_are_refused_by_name() {
        let url = "postgres://u:s3cret@db/ring".parse().unwrap();
        for (number, found) in [(90_624, "9.6.24"), (120_022, "12.22 (Debian 12.22-1)")] {
            let text = fit(&url, number, found.to_owned()).unwrap_err().to_string();
            assert!(text.contains(&format!("Postgres {found}")) && text.contains("13 or newer"), "{text}");
            assert!(text.contains("postgres://u@db/ring") && !text.contains("s3cret"), "{text}");
        }
        for number in [130_000, 130_001, 170_006] {
            assert!(fit(&url, number, String::new()).is_ok(), "{number}");
        }
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_said_to_refuse() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let url = format!("postgres://u:s3cret@{closed}/ring").parse().unwrap();
        let text = Store::open(&url).await.unwrap_err().to_string();
        assert!(text.contains("refused") && !text.contains("s3cret"), "{text}");
    }
}
