//! The command line of ringscope: each command, and what joins the crates of the daemon into `serve`. A map of the rooms;
//! ARCHITECTURE.md tells the way through them.

pub mod alert;
pub mod cli;
pub mod client;
pub mod collector;
pub mod config;
pub mod demo;
pub mod doctor;
pub mod drain;
pub mod embedded;
pub mod import;
pub mod incidents;
pub mod launch;
pub mod level;
pub mod program;
pub mod run;
pub mod serve;
pub mod status;
pub mod sweep;
pub mod tokens;
pub mod top;
