//! What `ringscope agent` can be told, by command line or environment.

use std::path::PathBuf;
use std::time::Duration;

use super::{default_data_dir, duration, environment, size};

use crate::agent::{AgentConfig, DEFAULT_BACKLOG_BYTES, DEFAULT_DIR, DEFAULT_INTERVAL, DEFAULT_KEEP_DEAD};

/// Command line of `ringscope agent`. A value that cannot be read is a wrong usage, named by clap.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:
  ringscope agent --daemon http://ringscope.cluster:9440")]
pub struct AgentArgs {
    /// Address of the daemon
    #[arg(long, env = "RINGSCOPE_DAEMON", value_name = "URL")]
    daemon: String,
    /// Directory in which this host's processes leave their segments
    #[arg(long, env = "RINGSCOPE_DIR", value_name = "DIR", default_value = DEFAULT_DIR)]
    dir: PathBuf,
    /// Directory in which batches wait while the daemon is away [default: $XDG_DATA_HOME/ringscope/agent]
    #[arg(long, env = "RINGSCOPE_STATE_DIR", value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Time between two readings [default: 250ms]
    #[arg(long, env = "RINGSCOPE_INTERVAL", value_name = "DURATION", value_parser = duration)]
    interval: Option<Duration>,
    /// Bytes of batches that may wait; beyond, the oldest are dropped and counted [default: 64MiB]
    #[arg(long, env = "RINGSCOPE_BACKLOG", value_name = "SIZE", value_parser = size)]
    backlog: Option<usize>,
    /// How long files of an ended process are kept after the daemon has heard of its end [default: 1h]
    #[arg(long, env = "RINGSCOPE_KEEP_DEAD", value_name = "DURATION", value_parser = duration)]
    keep_dead: Option<Duration>,
}

impl AgentArgs {
    /// The agent's configuration.
    #[must_use]
    pub fn into_config(self) -> AgentConfig {
        let state_dir = self.state_dir.unwrap_or_else(|| default_data_dir(&environment).join("agent"));
        AgentConfig {
            dir: self.dir,
            interval: self.interval.unwrap_or(DEFAULT_INTERVAL),
            backlog_bytes: self.backlog.map_or(DEFAULT_BACKLOG_BYTES, |bytes| bytes as u64),
            keep_dead: self.keep_dead.unwrap_or(DEFAULT_KEEP_DEAD),
            ..AgentConfig::new(self.daemon, state_dir)
        }
    }
}
