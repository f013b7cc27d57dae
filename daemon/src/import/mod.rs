//! `ringscope import`: `command`, the command line; `show`, its verdict in the terminal; `deliver`, into a daemon.

mod command;
mod deliver;
mod error;
mod show;

pub use command::{ImportArgs, Outcome, run};
pub use error::ImportError;
