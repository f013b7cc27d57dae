//! One daemon a database: two would write over each other.
//!
//! SQLite: a lock on a file beside the database, which ends with the process. Postgres: an advisory lock, which a connection
//! holds that is kept for it alone and ends with it; whoever holds it must look whether that connection lives.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringscope_api::clock::{self, Timestamp};
use rustix::fs::{FlockOperation, flock};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _};

use super::migrations::{self, FOUND};
use super::open::{SOON_FOUND_DEAD, prepare};
use super::{DatabaseUrl, StoreError};

/// That this daemon alone uses a database, for as long as this is held.
#[derive(Debug)]
pub struct Claim {
    url: DatabaseUrl,
    held: Held,
}

#[derive(Debug)]
enum Held {
    /// Nobody else can use it.
    Nothing,
    File(LockedFile),
    Connection(Box<PgConnection>),
}

/// A database that is a file.
#[derive(Debug)]
struct LockedFile {
    /// The lock ends when it is closed.
    lock: File,
    lock_path: PathBuf,
    database: File,
    database_path: PathBuf,
}

impl LockedFile {
    /// Whether the files are still those that were opened.
    fn is_there(&self) -> bool {
        is_file_at(&self.database, &self.database_path) && is_file_at(&self.lock, &self.lock_path)
    }
}

fn is_file_at(file: &File, path: &Path) -> bool {
    let opened = file.metadata().map(|known| (known.dev(), known.ino()));
    let found = std::fs::metadata(path).map(|known| (known.dev(), known.ino()));
    matches!((opened, found), (Ok(opened), Ok(found)) if opened == found)
}

impl Claim {
    /// Claims a database.
    ///
    /// # Errors
    /// [`StoreError::InUse`] if another daemon has it, and what [`super::Store::open`] says of one that cannot be reached.
    pub async fn take(url: &DatabaseUrl) -> Result<Self, StoreError> {
        let started = clock::monotonic();
        loop {
            match Self::take_once(url).await {
                // Of a daemon that was killed Postgres hears a moment later.
                Err(StoreError::InUse { .. }) if started.elapsed() < LET_GO_WITHIN => {
                    tokio::time::sleep(ASKED_AGAIN_AFTER).await;
                }
                taken => return taken,
            }
        }
    }

    /// Waits until nobody else has it: where several daemons share a database, the next in line has it as soon as it is given
    /// back, or its holder is gone.
    ///
    /// # Errors
    /// What [`super::Store::open`] says of a database that cannot be reached.
    pub async fn wait(url: &DatabaseUrl) -> Result<Self, StoreError> {
        let DatabaseUrl::Postgres(postgres) = url else { return Self::take(url).await };
        let at_open = |error| StoreError::at_open(url, &error);
        let mut connection = connect(url, postgres.options().map_err(at_open)?).await?;
        // So that a connection that is dead is found out.
        let bound = format!("SET lock_timeout = {}", WAITS_AT_ONCE.as_millis());
        sqlx::query(AssertSqlSafe(bound)).execute(&mut connection).await.map_err(at_open)?;
        loop {
            let lock = sqlx::query("SELECT pg_advisory_lock($1)").bind(LOCK).execute(&mut connection);
            match tokio::time::timeout(WAITS_AT_ONCE + ANSWERED_WITHIN, lock).await {
                Ok(Ok(_)) => break,
                Ok(Err(sqlx::Error::Database(error)))
                    if error.code().as_deref() == Some(LOCK_NOT_AVAILABLE) => {}
                Ok(Err(error)) => return Err(at_open(error)),
                Err(_) => return Err(StoreError::silent(url, ANSWERED_WITHIN)),
            }
        }
        Ok(Self { url: url.clone(), held: Held::Connection(Box::new(connection)) })
    }

    async fn take_once(url: &DatabaseUrl) -> Result<Self, StoreError> {
        let held = match url {
            DatabaseUrl::None | DatabaseUrl::SqliteMemory => Held::Nothing,
            DatabaseUrl::Sqlite(path) => Held::File(lock_file(url, path)?),
            DatabaseUrl::Postgres(postgres) => {
                let options = postgres.options().map_err(|error| StoreError::at_open(url, &error))?;
                Held::Connection(Box::new(lock_connection(url, options).await?))
            }
        };
        Ok(Self { url: url.clone(), held })
    }

    /// Looks whether this ringscope knows the schema of the database; nothing is changed there. What cannot be read is left to
    /// [`super::Store::open`] to say.
    ///
    /// # Errors
    /// [`StoreError::SchemaNewer`].
    pub async fn check_schema(&mut self) -> Result<(), StoreError> {
        let asked = async {
            match (&mut self.held, &self.url) {
                (Held::Connection(connection), _) => {
                    sqlx::query_scalar(FOUND).fetch_one(&mut **connection).await
                }
                (Held::File { .. }, DatabaseUrl::Sqlite(path)) => {
                    let options = SqliteConnectOptions::new().filename(path).read_only(true);
                    let mut connection = options.disable_statement_logging().connect().await?;
                    let found = sqlx::query_scalar(FOUND).fetch_one(&mut connection).await;
                    connection.close().await?;
                    found
                }
                _ => Ok(None),
            }
        };
        let found: Option<i64> = match tokio::time::timeout(ANSWERED_WITHIN, asked).await {
            Ok(Ok(found)) => found,
            // There is none, or it is said later why it cannot be read.
            Ok(Err(_)) | Err(_) => None,
        };
        migrations::refuse_newer(&self.url, found.unwrap_or(0)).map(drop)
    }

    /// Looks whether it still holds.
    ///
    /// # Errors
    /// [`StoreError::ClaimLost`]: then it is to be taken anew. [`StoreError::FileGone`]: it is not there.
    pub async fn check(&mut self) -> Result<(), StoreError> {
        let connection = match &mut self.held {
            Held::Nothing => return Ok(()),
            Held::File(file) if file.is_there() => return Ok(()),
            Held::File(file) => {
                return Err(StoreError::FileGone { path: file.database_path.display().to_string() });
            }
            Held::Connection(connection) => connection,
        };
        let reason = match tokio::time::timeout(ANSWERED_WITHIN, is_writable(connection)).await {
            Ok(Ok(true)) => return Ok(()),
            Ok(Ok(false)) => READ_ONLY.to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", ANSWERED_WITHIN.as_secs()),
        };
        Err(StoreError::ClaimLost { url: self.url.to_string(), reason })
    }

    /// Returns when it no longer holds, and why: to be waited for beside what may take long.
    pub async fn lost(&mut self) -> StoreError {
        loop {
            tokio::time::sleep(LOOKED_AT_EVERY).await;
            if let Err(error) = self.check().await {
                return error;
            }
        }
    }

    /// Gives it back before another daemon asks.
    pub async fn release(self) {
        if let Held::Connection(mut connection) = self.held {
            let unlock = sqlx::query("SELECT pg_advisory_unlock($1)").bind(LOCK).execute(&mut *connection);
            // What does not answer ends with the process.
            let _ = tokio::time::timeout(ANSWERED_WITHIN, unlock).await;
            let _ = connection.close().await;
        }
    }
}

fn lock_file(url: &DatabaseUrl, database: &Path) -> Result<LockedFile, StoreError> {
    let at_database = |error| unwritable(database, &error);
    prepare(database).map_err(at_database)?;
    // However it is named, it has one lock.
    let database_path = database.canonicalize().map_err(at_database)?;
    let opened = File::open(&database_path).map_err(at_database)?;
    let path = lock_path(&database_path);
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    let mut file = open.map_err(|error| unwritable(&path, &error))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut holder = String::new();
            let _ = file.take(HOLDER_MAX_BYTES).read_to_string(&mut holder);
            return Err(StoreError::InUse { url: url.to_string(), holder: holder.trim().to_owned() });
        }
        Err(error) => return Err(unwritable(&path, &error.into())),
    }
    let since = clock::now();
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", holder(&machine(), &std::process::id().to_string(), since)))
        .map_err(|error| unwritable(&path, &error))?;
    Ok(LockedFile { lock: file, lock_path: path, database: opened, database_path })
}

fn lock_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}

fn unwritable(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Unwritable { path: path.display().to_string(), reason: error.to_string() }
}

/// A connection that shows who holds it.
async fn connect(url: &DatabaseUrl, options: PgConnectOptions) -> Result<PgConnection, StoreError> {
    // The server cuts names off after 63 bytes.
    let name = format!("{NAMED} {} {}", std::process::id(), machine());
    let options = options.application_name(&name).options(SOON_FOUND_DEAD).disable_statement_logging();
    match tokio::time::timeout(ANSWERED_WITHIN, options.connect()).await {
        Ok(connected) => connected.map_err(|error| StoreError::at_open(url, &error)),
        Err(_) => Err(StoreError::silent(url, ANSWERED_WITHIN)),
    }
}

async fn lock_connection(url: &DatabaseUrl, options: PgConnectOptions) -> Result<PgConnection, StoreError> {
    let at_open = |error| StoreError::at_open(url, &error);
    let mut connection = connect(url, options).await?;
    let lock = sqlx::query("SELECT pg_try_advisory_lock($1) AS is_locked").bind(LOCK);
    let is_locked =
        lock.fetch_one(&mut connection).await.and_then(|row| row.try_get("is_locked")).map_err(at_open)?;
    if is_locked && is_writable(&mut connection).await.map_err(at_open)? {
        return Ok(connection);
    }
    if is_locked {
        return Err(StoreError::Unreachable { url: url.to_string(), reason: READ_ONLY.to_owned() });
    }
    let found =
        sqlx::query(Holder::QUERY).bind(LOCK).fetch_optional(&mut connection).await.map_err(at_open)?;
    let _ = connection.close().await;
    let held_by = found.map(|row| Holder::of(&row)).transpose().map_err(at_open)?;
    Err(StoreError::InUse {
        url: url.to_string(),
        holder: held_by.map_or(String::new(), |held_by| held_by.words),
    })
}

/// Who has a Postgres to itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Holder {
    /// Its host, its process, and since when.
    pub words: String,
    /// When it connected, by the clock of Postgres: before it had the database, if it had to wait for that.
    pub since: Timestamp,
}

impl Holder {
    /// Of the lock, whose number it is told. A number of 64 bits is told in two halves.
    pub(super) const QUERY: &str = "SELECT a.application_name AS name, \
        CAST(EXTRACT(EPOCH FROM a.backend_start) * 1000 AS BIGINT) AS since_ms FROM pg_locks l \
        JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 \
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
        AND CAST(l.classid AS BIGINT) = $1 >> 32 AND CAST(l.objid AS BIGINT) = $1 & 4294967295";
    pub(super) const LOCK: i64 = LOCK;

    pub(super) fn of(row: &PgRow) -> Result<Self, sqlx::Error> {
        let name: Option<String> = row.try_get("name")?;
        let since_ms: Option<i64> = row.try_get("since_ms")?;
        let since = Timestamp(since_ms.unwrap_or_default().unsigned_abs().saturating_mul(1_000_000));
        let name = name.unwrap_or_default();
        let named = name.strip_prefix(NAMED).and_then(|rest| rest.trim_start().split_once(' '));
        let (pid, host) = named.unwrap_or(("not told", "not told"));
        Ok(Self { words: holder(host, pid, since), since })
    }
}

/// A server that was made a standby of another takes the lock, and nothing that is to be stored.
async fn is_writable(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let query = "SELECT 1 WHERE NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off'";
    Ok(sqlx::query(query).fetch_optional(connection).await?.is_some())
}

/// How another daemon is told who has the database.
fn holder(host: &str, pid: &str, since: Timestamp) -> String {
    format!("host {host}, pid {pid}, since {since}")
}

fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// With which the name of a connection begins that holds the lock.
const NAMED: &str = "ringscope daemon";
/// "ringscop", the advisory lock's number.
const LOCK: i64 = 0x7269_6e67_7363_6f70;
const READ_ONLY: &str = "the server takes nothing to store: it is read-only";
/// How long a database is in use at most after the daemon that had it was killed.
const LET_GO_WITHIN: Duration = Duration::from_secs(2);
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(50);
/// How long one statement waits for the lock; then another one does, if the connection lives.
const WAITS_AT_ONCE: Duration = Duration::from_secs(2);
/// How often a claim is looked at that something waits beside.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(1);
/// SQLSTATE.
const LOCK_NOT_AVAILABLE: &str = "55P03";
/// As long as for any other connection.
pub(super) const ANSWERED_WITHIN: Duration = Duration::from_secs(3);
/// Of the words in the lock's file: a name of a host has at most 64.
const HOLDER_MAX_BYTES: u64 = 256;
