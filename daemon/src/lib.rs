//! Agent, daemon and command line of ringscope. A map of the rooms; ARCHITECTURE.md tells the way through them.

pub mod agent;
pub mod api;
pub mod cli;
pub mod client;
pub mod clock;
pub mod config;
pub mod demo;
pub mod diagnose;
pub mod doctor;
pub mod embedded;
pub mod http;
pub mod hub;
pub mod import;
pub mod ingest;
pub mod level;
pub mod metrics;
pub mod model;
pub mod nccl_log;
pub mod nccl_xml;
pub mod plots;
pub mod program;
pub mod run;
pub mod serve;
mod shared_dir;
pub mod status;
pub mod store;
pub mod view;
