//! What outlives the daemon: SQLite on one machine, Postgres on a cluster, one SQL text for both.
//!
//! The only place with SQL. It never judges: it keeps what the model knew, and gives it back.

mod access;
mod audit;
mod bulk;
mod claim;
mod columns;
mod days;
mod error;
mod fold;
mod history;
mod leader;
mod migrations;
mod move_history;
mod open;
mod past;
mod read;
mod resolution;
mod restore;
mod retention;
mod rollup;
mod rows;
mod series;
mod series_ids;
mod spans;
mod told;
mod url;
mod write;

pub use audit::AuditQuery;
pub use claim::{Claim, Holder};
pub use error::StoreError;
pub use leader::{Leader, LeaderWatch, TermSecret};
pub use open::Store;
pub use past::{KeptCommunicator, KeptHop, KeptHops, KeptPast, KeptPlace, KeptRanks, PastQuery};
pub use restore::{Restored, StoredCommunicator};
pub use retention::{Keep, Swept};
pub use rows::{
    AgentRow, CommunicatorRow, CountersRow, HopsRow, HostRow, JobRow, PaceMemoryRow, PaceRow, ProcessRow,
    RankRow, SampleRow, SummationGroupRow, SummationSampleRow, WriteSet,
};
pub use series::{Metric, PaceQuery, Reading, SamplePoint, SeriesQuery};
pub use series_ids::Known;
pub use spans::{Told, Turn};
pub use url::{DatabaseUrl, DatabaseUrlError};

/// Runs one body for whichever database it is, with `$pool` the pool to write through (or to read from) and `$db`
/// its type.
macro_rules! each {
    (write $store:expr, |$pool:ident, $db:ident| $body:block) => {
        match $store {
            $crate::Store::Pg($pool, _) => {
                type $db = sqlx::Postgres;
                $body
            }
            $crate::Store::Lite { write: $pool, .. } => {
                type $db = sqlx::Sqlite;
                $body
            }
        }
    };
    (read $store:expr, |$pool:ident| $body:block) => {
        match $store {
            $crate::Store::Pg($pool, _) => $body,
            $crate::Store::Lite { read: $pool, .. } => $body,
        }
    };
}
use each;
