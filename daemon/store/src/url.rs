//! Where the data is kept, as the user writes it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;

/// Where the data is kept. Its `Display` never shows a password.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DatabaseUrl {
    /// Nowhere: history and findings end with the daemon. For trials and benchmarks.
    None,
    /// In this process's memory.
    SqliteMemory,
    /// In this file.
    Sqlite(PathBuf),
    /// In this Postgres database.
    Postgres(PostgresUrl),
}

/// A Postgres URL whose `Debug` and `Display` leave the password out.
#[derive(Clone, Eq, PartialEq)]
pub struct PostgresUrl(String);

/// Why a text is not a [`DatabaseUrl`].
#[derive(Debug, thiserror::Error)]
pub enum DatabaseUrlError {
    /// Not one of the forms.
    #[error("not a database: expected sqlite:PATH, sqlite::memory:, postgres://USER@HOST/DATABASE or none")]
    Form,
    /// Begins like a Postgres URL, and is none.
    #[error("not a Postgres URL (postgres://USER:PASSWORD@HOST:PORT/DATABASE): {0}")]
    Postgres(String),
}

impl PostgresUrl {
    /// What the driver connects with.
    pub(super) fn options(&self) -> Result<PgConnectOptions, sqlx::Error> {
        PgConnectOptions::from_str(&self.0)
    }
}

impl FromStr for DatabaseUrl {
    type Err = DatabaseUrlError;

    fn from_str(text: &str) -> Result<Self, DatabaseUrlError> {
        if text == "none" {
            return Ok(Self::None);
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            let url = PostgresUrl(text.to_owned());
            return match url.options() {
                Ok(_) => Ok(Self::Postgres(url)),
                Err(error) => Err(DatabaseUrlError::Postgres(error.to_string())),
            };
        }
        let path = text.strip_prefix("sqlite:").ok_or(DatabaseUrlError::Form)?;
        let path = path.strip_prefix("//").unwrap_or(path);
        match path {
            "" => Err(DatabaseUrlError::Form),
            ":memory:" => Ok(Self::SqliteMemory),
            path => Ok(Self::Sqlite(PathBuf::from(path))),
        }
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::SqliteMemory => f.write_str("sqlite::memory:"),
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => url.fmt(f),
        }
    }
}

impl fmt::Display for PostgresUrl {
    /// Drops `:PASSWORD` from the authority, and every query parameter (`password=` may be one).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (url, _) = self.0.split_once('?').unwrap_or((&self.0, ""));
        let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", url));
        let Some((user_info, place)) = rest.rsplit_once('@') else {
            return write!(f, "{scheme}://{rest}");
        };
        let (user, _) = user_info.split_once(':').unwrap_or((user_info, ""));
        write!(f, "{scheme}://{user}@{place}")
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_no_password() {
        let shown = [
            ("postgres://u:s3cret@db:5432/ring", "postgres://u@db:5432/ring"),
            ("postgres://u:s3c@ret@db/ring?password=s3cret", "postgres://u@db/ring"),
            ("postgresql://db/ring?user=u&password=s3cret", "postgresql://db/ring"),
            ("sqlite:/var/lib/ringscope/a.db", "sqlite:/var/lib/ringscope/a.db"),
            ("sqlite:///var/lib/a.db", "sqlite:/var/lib/a.db"),
            ("sqlite::memory:", "sqlite::memory:"),
            ("none", "none"),
        ];
        for (text, expected) in shown {
            let url: DatabaseUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), expected);
            assert!(!format!("{url:?}").contains("s3c"), "{url:?}");
        }
    }

    #[test]
    fn refuses_other_forms() {
        for text in ["", "mysql://x", "sqlite:", "postgres://[", "/var/lib/a.db"] {
            assert!(text.parse::<DatabaseUrl>().is_err(), "{text}");
        }
    }
}
