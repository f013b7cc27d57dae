//! Why an agent cannot work at all. What goes wrong with one segment, log or batch is counted and logged instead.

use std::io;
use std::path::PathBuf;

/// Why an agent did not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The address of the daemon is none.
    #[error(
        "the daemon's address {url:?} is wrong: {why}. Give one like http://daemon.example:9440 or https://daemon.example:9440"
    )]
    DaemonUrl {
        /// As given.
        url: String,
        /// What is wrong.
        why: String,
    },
    /// The interval is zero.
    #[error("the agent's interval is 0: give a time between two readings, e.g. 250 ms")]
    Interval,
    /// The folder of the segments cannot be used.
    #[error(
        "cannot use {} as the folder of segments: {source}. Make it a folder that this user and the training processes \
         can write (mode 1777), or name another one: --dir of `ringscope agent` and `run` (RINGSCOPE_DIR), \
         --agent-dir of `ringscope serve`",
        path.display()
    )]
    Dir {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A confined agent may not write in a folder that was made after it.
    #[error(
        "{} was removed and made again: this agent is held to the folder that was there when it started, and ends. Start it again \
         (its unit and Kubernetes do so), or run it with --no-sandbox",
        .0.display()
    )]
    DirReplaced(PathBuf),
    /// The folder of the backlog cannot be used.
    #[error(
        "cannot use {} to keep batches while the daemon is away: {source}. Make it a folder that this user can write, \
         or name another one: --state-dir of `ringscope agent`, --data-dir of `ringscope serve`",
        path.display()
    )]
    StateDir {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Nobody would start programs for a confined agent.
    #[error(
        "cannot start the process that starts programs for this agent, which may start none itself: {0}. Say --no-sandbox \
         (RINGSCOPE_SANDBOX=off) to run the agent unconfined and without it"
    )]
    Starter(io::Error),
    /// A file for TLS cannot be used.
    #[error("cannot speak TLS to the daemon: {0}")]
    Tls(#[from] ringscope_tls::TlsError),
    /// The reader failed; a fault of ringscope's.
    #[error("the agent's reader stopped: {0}. Please report this with the lines before it")]
    Reader(#[from] tokio::task::JoinError),
}
