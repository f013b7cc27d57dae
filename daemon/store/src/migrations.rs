//! The schema and its versions, carried inside the binary.

use std::borrow::Cow;

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, SqlSafeStr as _};

use super::{DatabaseUrl, Store, StoreError, each};

/// What becomes of the schema of an older release.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Older {
    BroughtUpToDate,
    Refused,
}

/// Brings the schema to the newest version.
pub(super) async fn migrate(store: &Store, url: &DatabaseUrl, older: Older) -> Result<(), StoreError> {
    let found = each!(write store, |pool, _Db| {
        match sqlx::query_scalar::<_, Option<i64>>(FOUND).fetch_one(pool).await {
            Ok(found) => found.unwrap_or(0),
            // The table is not there in a new database.
            Err(sqlx::Error::Database(_)) => 0,
            Err(error) => return Err(StoreError::at_open(url, &error)),
        }
    });
    let known = refuse_newer(url, found)?;
    if (1..known).contains(&found) {
        if older == Older::Refused {
            return Err(StoreError::SchemaOlder { url: url.to_string(), found, known });
        }
        tracing::info!("bringing the schema of {url} from version {found} to {known}");
    }
    let result = each!(write store, |pool, _Db| { migrator(store).run(pool).await });
    result.map_err(|error| match error {
        MigrateError::VersionMismatch(version) | MigrateError::Dirty(version) => StoreError::NotOurs {
            url: url.to_string(),
            reason: format!("its schema version {version} is not the one that this ringscope made"),
        },
        MigrateError::ExecuteMigration(sqlx::Error::Database(error), _)
            if error.message().contains("already exists") =>
        {
            StoreError::NotOurs { url: url.to_string(), reason: error.message().to_owned() }
        }
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            StoreError::at_open(url, &error)
        }
        other => StoreError::NotOurs { url: url.to_string(), reason: other.to_string() },
    })
}

/// A newer ringscope's schema must stay as it is, whatever this binary would do with it.
/// Returns the newest version that there is.
pub(super) fn refuse_newer(url: &DatabaseUrl, found: i64) -> Result<i64, StoreError> {
    let known = VERSIONS.iter().map(|(version, ..)| *version).max().unwrap_or(0);
    if found > known {
        return Err(StoreError::SchemaNewer { url: url.to_string(), found, known });
    }
    Ok(known)
}

fn migrator(store: &Store) -> Migrator {
    let migrations = VERSIONS.iter().map(|(version, name, postgres, sqlite)| {
        let sql = if matches!(store, Store::Pg(..)) { *postgres } else { *sqlite };
        let sql = AssertSqlSafe(sql).into_sql_str();
        Migration::new(*version, Cow::Borrowed(*name), MigrationType::Simple, sql, false)
    });
    Migrator::with_migrations(migrations.collect())
}

/// The version of the schema that is there.
pub(super) const FOUND: &str = "SELECT MAX(version) AS version FROM _sqlx_migrations";
/// Version, name, text for Postgres, text for SQLite.
const VERSIONS: [(i64, &str, &str, &str); 14] = [
    (
        1,
        "tables",
        include_str!("../../../migrations/postgres/0001_tables.sql"),
        include_str!("../../../migrations/sqlite/0001_tables.sql"),
    ),
    (
        2,
        "bytes_not_measured",
        include_str!("../../../migrations/postgres/0002_bytes_not_measured.sql"),
        include_str!("../../../migrations/sqlite/0002_bytes_not_measured.sql"),
    ),
    (
        3,
        "told",
        include_str!("../../../migrations/postgres/0003_told.sql"),
        include_str!("../../../migrations/sqlite/0003_told.sql"),
    ),
    (
        4,
        "rollups",
        include_str!("../../../migrations/postgres/0004_rollups.sql"),
        include_str!("../../../migrations/sqlite/0004_rollups.sql"),
    ),
    (
        5,
        "summations",
        include_str!("../../../migrations/postgres/0005_summations.sql"),
        include_str!("../../../migrations/sqlite/0005_summations.sql"),
    ),
    (
        6,
        "incidents",
        include_str!("../../../migrations/postgres/0006_incidents.sql"),
        include_str!("../../../migrations/sqlite/0006_incidents.sql"),
    ),
    (
        7,
        "access",
        include_str!("../../../migrations/postgres/0007_access.sql"),
        include_str!("../../../migrations/sqlite/0007_access.sql"),
    ),
    (
        8,
        "audit",
        include_str!("../../../migrations/postgres/0008_audit.sql"),
        include_str!("../../../migrations/sqlite/0008_audit.sql"),
    ),
    (
        9,
        "audit_token",
        include_str!("../../../migrations/postgres/0009_audit_token.sql"),
        include_str!("../../../migrations/sqlite/0009_audit_token.sql"),
    ),
    (
        10,
        "history",
        include_str!("../../../migrations/postgres/0010_history.sql"),
        include_str!("../../../migrations/sqlite/0010_history.sql"),
    ),
    (
        11,
        "leader",
        include_str!("../../../migrations/postgres/0011_leader.sql"),
        include_str!("../../../migrations/sqlite/0011_leader.sql"),
    ),
    (
        12,
        "rank_hops",
        include_str!("../../../migrations/postgres/0012_rank_hops.sql"),
        include_str!("../../../migrations/sqlite/0012_rank_hops.sql"),
    ),
    (
        13,
        "pace",
        include_str!("../../../migrations/postgres/0013_pace.sql"),
        include_str!("../../../migrations/sqlite/0013_pace.sql"),
    ),
    (
        14,
        "spans",
        include_str!("../../../migrations/postgres/0014_spans.sql"),
        include_str!("../../../migrations/sqlite/0014_spans.sql"),
    ),
];
