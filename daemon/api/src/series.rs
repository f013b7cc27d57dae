//! History from the store.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One metric over time.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Series {
    /// The metric asked for.
    pub metric: String,
    /// `bytes`, `calls`, `bytes_per_second` or `calls_per_second`.
    pub unit: String,
    /// Seconds between points.
    pub step_s: f64,
    /// Times of the points, milliseconds since the Unix epoch.
    pub times_ms: Vec<u64>,
    /// One line a primitive (and host or communicator, if asked to keep them apart).
    pub lines: Vec<SeriesLine>,
}

/// One line of a series.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct SeriesLine {
    /// Primitive.
    pub primitive: String,
    /// Host. Absent: summed over hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub host: Option<String>,
    /// Communicator id. Absent: summed over communicators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub comm: Option<String>,
    /// One value a time; null where nothing is known.
    pub values: Vec<Option<f64>>,
}
