//! Which daemon a command asks, and as whom.

use std::path::PathBuf;

use ringscope_tls::Trust;

use super::{Client, ClientError, daemon_url};
use crate::config::token_source;

/// What every command takes that asks a daemon.
#[derive(Clone, Debug, clap::Args)]
pub struct DaemonArgs {
    /// Address of the daemon
    #[arg(long, env = "RINGSCOPE_DAEMON", default_value = "http://127.0.0.1:9440", value_parser = daemon_url)]
    pub daemon: String,
    /// File with the token that the daemon wants [default: $RINGSCOPE_TOKEN, else $RINGSCOPE_TOKEN_FILE]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    #[command(flatten)]
    trust: Trust,
}

impl DaemonArgs {
    /// A client of that daemon.
    ///
    /// # Errors
    /// [`ClientError::Tls`].
    pub fn client(&self) -> Result<Client, ClientError> {
        let token = token_source(self.token_file.as_deref(), &[&self.daemon]);
        Client::trusting(&self.trust, &self.daemon, token)
    }
}
