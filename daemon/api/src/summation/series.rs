//! History of a group.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One figure of a group over time.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct SummationSeries {
    /// The metric asked for.
    pub metric: String,
    /// `bytes`, `rounds`, `ppm` or `nanoseconds`; with `_per_second` of rates.
    pub unit: String,
    /// Seconds between points.
    pub step_s: f64,
    /// Times of the points, milliseconds since the Unix epoch.
    pub times_ms: Vec<u64>,
    /// One line, or one a service and host.
    pub lines: Vec<SummationSeriesLine>,
}

/// One line of a group's history.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct SummationSeriesLine {
    /// Number of the service. Absent: of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub service: Option<u32>,
    /// Host of the service; empty: not known. Absent: of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub host: Option<String>,
    /// One value a time; null where nothing is known.
    pub values: Vec<Option<f64>>,
}
