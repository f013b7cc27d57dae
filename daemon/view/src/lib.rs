//! The model and the findings as the objects of the REST API. Pure functions; every list has a stable order.
//!
//! Bandwidth: `completed_bytes_per_s` is algbw, payload bytes over time; `bus_bytes_per_s` is busbw, what each link of
//! the ring carries for it: see [`bus_factor`].

mod bandwidth;
mod bandwidths;
mod channels;
mod clocks;
mod communicators;
mod connections;
mod filter;
mod findings;
mod graphs;
mod hardware;
mod health;
mod hosts;
mod incidents;
mod jobs;
mod operations;
mod pace;
mod primitives;
mod purpose;
mod rings;
mod search;
mod summation;
mod timeline;
mod trace;

#[cfg(test)]
pub(crate) mod tests;

pub use bandwidths::bandwidths;
pub use channels::host_channels;
pub use clocks::host_clocks;
pub use communicators::{CommunicatorFilter, communicator, communicators, communicators_of};
pub use connections::{connection_state, connections};
pub use filter::{HostFilter, JobFilter, Part};
pub use findings::{FindingFilter, findings};
pub use hardware::bytes_per_s;
pub use health::{health, health_now};
pub use hosts::{host, hosts, hosts_of_job};
pub use incidents::{IncidentFilter, incident, incidents};
pub use jobs::{job, jobs};
pub use operations::operations;
pub use pace::pace;
pub use primitives::primitives;
pub use rings::rings;
pub use ringscope_judge::standings::job_state;
pub use ringscope_model::bus_factor;
pub use search::search;
pub use summation::{SummationFilter, summation_group, summation_groups, summation_rounds};
pub use timeline::timeline;
pub use trace::trace;

use ringscope_model::Name;

/// A count as it is shown.
fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// A name, if there is one.
fn text(name: &Name) -> Option<String> {
    (!name.is_empty()).then(|| name.to_string())
}
