//! What the daemon takes and what it serves. It asks the judge, and judges nothing.
//!
//! * `ingest`: batches in. `hub`: the one owner of model and diagnosis.
//! * `gate`: who asks, and what they may. `oidc`: where people sign in.
//! * `http`: routes. `metrics`: what Prometheus scrapes. `plots`: pictures. `runbook`: what to do about findings.
//! * `kubernetes`: pods that ask for the collector.
//! * `past`: what the database keeps of a moment, as the API tells it.
//! * `remote_write`: metrics, to a database for long. `notify`: incidents to webhooks and Alertmanagers.

pub mod gate;
pub mod http;
pub mod hub;
pub mod ingest;
pub mod kubernetes;
pub mod metrics;
pub mod notify;
pub mod oidc;
mod past;
pub mod plots;
pub mod remote_write;
pub mod runbook;
