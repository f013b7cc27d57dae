//! What can be wrong with a store, told apart by what the operator does about it.

use super::DatabaseUrl;

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No answer, or not let in.
    #[error("the database {url} cannot be reached: {reason}. Check that it runs and that the URL is right")]
    Unreachable {
        /// Which, without its password.
        url: String,
        /// The driver's words.
        reason: String,
    },
    /// The file cannot be made or written.
    #[error(
        "the database file {path} cannot be written: {reason}. Make its directory writable, or give another with --database-url sqlite:PATH"
    )]
    Unwritable {
        /// The file.
        path: String,
        /// The system's words.
        reason: String,
    },
    /// What is written there would be lost.
    #[error(
        "the database file {path} was removed or replaced while this daemon uses it: put it back, or restart the daemon to begin with what is there"
    )]
    FileGone {
        /// The file.
        path: String,
    },
    /// The file is there and its contents are not whole.
    #[error("the database file {path} is damaged: {reason}. {MEND_FILE}")]
    Damaged {
        /// The file.
        path: String,
        /// SQLite's words.
        reason: String,
    },
    /// Two daemons would write over each other.
    #[error(
        "another daemon ({holder}) uses this database, {url}: stop that one, or give this one another with --database-url"
    )]
    InUse {
        /// Which.
        url: String,
        /// Its host, its process, and since when, in words.
        holder: String,
    },
    /// Another daemon may take it.
    #[error(
        "the connection that held this daemon's lock on the database {url} is lost ({reason}): nothing is stored until it is locked again"
    )]
    ClaimLost {
        /// Which.
        url: String,
        /// The driver's words.
        reason: String,
    },
    /// Another daemon has taken over.
    #[error("another daemon has taken over this database: nothing of this one is stored")]
    Deposed,
    /// A server without what our SQL needs.
    #[error("the database {url} is Postgres {found}, but ringscope needs 13 or newer: upgrade the server")]
    TooOld {
        /// Which.
        url: String,
        /// Its version.
        found: String,
    },
    /// A newer ringscope has been here.
    #[error(
        "the database {url} has schema version {found}, but this ringscope knows {known} at most: start the newer ringscope, or give another database"
    )]
    SchemaNewer {
        /// Which.
        url: String,
        /// Version found.
        found: i64,
        /// Newest version that this binary has.
        known: i64,
    },
    /// An older ringscope has been here, and may be still.
    #[error(
        "the database {url} has schema version {found}, and this ringscope needs {known}: restart the daemon with this release first, \
         which brings it up to date"
    )]
    SchemaOlder {
        /// Which.
        url: String,
        /// Version found.
        found: i64,
        /// Newest version that this binary has.
        known: i64,
    },
    /// Something else lives there.
    #[error("the database {url} is not ringscope's: {reason}. Give an empty one")]
    NotOurs {
        /// Which.
        url: String,
        /// What was found.
        reason: String,
    },
    /// An older ringscope's history is not yet in the form that this one reads.
    #[error(
        "the history that an older ringscope kept is being moved to its new tables: {done} of {all} communicators and summation groups are done. Ask again later; everything else works meanwhile"
    )]
    Moving {
        /// How many subjects are moved.
        done: i64,
        /// Of how many.
        all: i64,
    },
    /// It was open, and then a statement failed.
    #[error("the database failed: {0}{advice}", advice = if is_damage(.0) { format!(". Its file is damaged. {MEND_FILE}") } else { String::new() })]
    Failed(#[from] sqlx::Error),
}

impl StoreError {
    /// What was to be stored could not be made.
    pub fn crashed() -> Self {
        Self::Failed(sqlx::Error::WorkerCrashed)
    }

    /// The database did not answer for so long.
    pub fn silent(url: &DatabaseUrl, limit: std::time::Duration) -> Self {
        let reason = format!("no answer within {} s", limit.as_secs());
        Self::Unreachable { url: url.to_string(), reason }
    }

    /// Sorts the driver's error at opening into what the operator can do.
    pub(super) fn at_open(url: &DatabaseUrl, error: &sqlx::Error) -> Self {
        let reason = error.to_string();
        match url {
            DatabaseUrl::Sqlite(_) if reason.contains("not a database") => {
                Self::NotOurs { url: url.to_string(), reason }
            }
            DatabaseUrl::Sqlite(path) if is_damage(error) => {
                Self::Damaged { path: path.display().to_string(), reason }
            }
            DatabaseUrl::Sqlite(path) => Self::Unwritable { path: path.display().to_string(), reason },
            _ => Self::Unreachable { url: url.to_string(), reason },
        }
    }
}

/// What SQLite calls corrupt (code 11, and those that tell more of it): Postgres' codes have five characters.
fn is_damage(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.and_then(|code| code.parse::<u32>().ok()).is_some_and(|code| code & 0xff == SQLITE_CORRUPT)
}

const SQLITE_CORRUPT: u32 = 11;
/// What to do about a file that is damaged.
const MEND_FILE: &str = "Stop the daemon, and put a backup in its place, or move it away with its -wal and -shm: then a new one is \
                         made, without tokens and history";
