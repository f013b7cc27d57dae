//! The only place that reads a clock. Everything else takes `now` as an argument.

#![expect(clippy::disallowed_methods, reason = "this is the clock module")]

use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

/// A wall time: nanoseconds since the Unix epoch, UTC. In JSON an RFC 3339 text with milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Time passed since `earlier`, zero if it is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Milliseconds since the Unix epoch, as JavaScript counts.
    #[must_use]
    pub const fn unix_ms(self) -> u64 {
        self.0 / 1_000_000
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format =
            format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
        let text = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0))
            .ok()
            .and_then(|time| time.format(&format).ok());
        f.write_str(text.as_deref().unwrap_or("invalid"))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Why a text is not a [`Timestamp`].
#[derive(Debug, thiserror::Error)]
#[error("not an RFC 3339 time after 1970, e.g. 2026-01-31T12:00:00Z")]
pub struct TimestampError;

impl std::str::FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        let time = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| TimestampError)?;
        u64::try_from(time.unix_timestamp_nanos()).map(Self).map_err(|_| TimestampError)
    }
}

/// Wall time now.
#[must_use]
pub fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX))
}

/// Monotonic time now, for durations.
#[must_use]
pub fn monotonic() -> Instant {
    Instant::now()
}
