//! The agent: reads the segments and the NCCL logs of its host and sends what changed to the daemon.
//!
//! It only reads: no process waits for it, and what it may write into a segment is one word per ended communicator (that
//! its last counters have arrived). It never maps a segment, for a file that is cut would then kill the agent.
//!
//! * [`run`]: two loops. The reader asks the `tracker` for what changed each interval and numbers batches; the `sender`
//!   keeps them in the `backlog` until the daemon has them.
//! * `tracker`: the segments of the folder. `process`: one of them, with its `operations`, its `log_tail` and the `join`
//!   of both. `delta`: what is worth saying. `segment_file`: bytes of a segment and whether its process lives.
//! * `backlog`: batches on disk while the daemon is away. `transport`: one HTTP request.
//!
//! Nothing is lost with the agent itself: segments and logs outlive it, values are absolute, and the next agent reads
//! and sends them again.

mod backlog;
mod config;
mod delta;
mod error;
mod join;
mod log_tail;
mod loss;
mod operations;
mod process;
mod run;
mod segment_file;
mod sender;
mod ticks;
mod tracker;
mod transport;

pub use config::{
    AgentConfig, DEFAULT_BACKLOG_BYTES, DEFAULT_DIR, DEFAULT_INTERVAL, DEFAULT_KEEP_DEAD, host_name,
};
pub use error::AgentError;
pub use run::run;
