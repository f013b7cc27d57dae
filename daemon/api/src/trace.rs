//! Traces: operations over time, for Perfetto and chrome://tracing.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// A trace in Chrome's trace event format, JSON object form.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    /// Names of hosts and ranks first, then everything by time.
    pub trace_events: Vec<TraceEvent>,
    /// Unit that viewers show: `ms`.
    pub display_time_unit: String,
    /// What the trace is of, when its time 0 is, and what it lacks.
    #[schema(value_type = Object)]
    pub other_data: Map<String, Value>,
}

/// One event.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct TraceEvent {
    /// E.g. `AllReduce #1041`.
    pub name: String,
    /// Primitive. Absent: no operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub cat: Option<String>,
    /// `X`: completed operation; `B`: one in flight; `C`: completed bytes of a host; `M`: name of a host or rank; `s` and `f`:
    /// beginning and end of an arrow, from who called an operation last to one that waited for that.
    pub ph: String,
    /// Microseconds since the trace's time 0.
    pub ts: f64,
    /// How long, of `X`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub dur: Option<f64>,
    /// Host: its place among the communicator's, from 1.
    pub pid: u32,
    /// Rank.
    pub tid: u32,
    /// Which `s` and `f` belong together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub id: Option<u64>,
    /// `e` of `f`: it leads to the operation that is drawn there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub bp: Option<String>,
    /// What else is known.
    #[schema(value_type = Object)]
    pub args: Map<String, Value>,
}
