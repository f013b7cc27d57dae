//! The agent: reads the segments and the NCCL logs of its host and sends what changed to the daemon.
//!
//! It trusts nobody whose files it reads, and needs no root for it (`rights`). What lies in the folder is one user's claim,
//! and counts for him alone (`claims`); it costs the others nothing (`budget`); and no name that he chooses leads anywhere
//! else (`beneath`).
//!
//! It only reads: no process waits for it, and what it may write into a segment is one word per ended communicator (that
//! its last counters have arrived) and the control word, where the daemon says that somebody wishes for another level. It never maps a segment, for a file that is cut would then kill the agent.
//!
//! * [`run`]: two loops. The reader asks the `tracker` for what changed each interval and numbers batches; the `sender`
//!   keeps them in the `backlog` until the daemon has them.
//! * `tracker`: what lies in the folder. `process`: one segment, with its `operations`, its `log_tail` (whose `log_file` is
//!   read by `log_readers`) and the `join` of both, what is lost of the `completion` of its operations, its `calls`, its `summations`, and its RDMA `connections`. `segment_file`: bytes of a segment and whether its process lives. `control`: the control word, `wishes`: what the daemon wants there.
//! * `other_version`: segments that only another release can read.
//! * `log_only`: processes of which only the log is known, with what `run_file` says of their run and the `liveness` of
//!   their ids. `log_folder`: where private logs lie. `log_hole`: frees what has been read of them. `lacks`: what a log does not say, and what of the host goes unseen.
//! * `hardware`: the host's NICs and GPUs. `kernel`: what its kernel says.
//! * `watch`: what processes do besides calling the library: their `activity`, and a `look` where the daemon's
//!   `inquiries` ask for one; whose number a segment's process has is known by its lock (`holder`). `launches`: processes
//!   that were started and have not called the library yet. `ending`: how a process ended by the word of its launch, for which
//!   `awaited_end` asks. `procfs`: what `/proc` says. `foreign`: text of others.
//!   `beneath`, `regular`: files whose paths others have named. `claims`: whether a segment is what it says. `budget`: what one
//!   user's files may cost. `rights`: what the agent may do. `folders`: those that an agent needs. `folder_file`: which files of the folder may go. `room`: whether the
//!   folder has room for one more segment. `refused`: processes that have found none; `denied`: those whose segments may not be
//!   read.
//! * `mark`: says in the folder that an agent reads it. `sweep`: removes what processes without an agent have left there.
//! * `sandbox`: gives up what an agent never needs. `programs`: the two programs that it needs, and who starts them for it.
//! * `account`: what is known of a process and what has been said of it. `tell`: a communicator in the words of the batch.
//!   `delta`: what is worth saying; `steady`: what of it may wait for a moment.
//! * `backlog`: batches on disk while the daemon is away. `transport`: one HTTP request.
//!
//! Nothing is lost with the agent itself: segments and logs outlive it, values are absolute, and the next agent reads
//! and sends them again.

mod account;
mod activity;
mod awaited_end;
mod backlog;
mod beneath;
mod budget;
mod calls;
mod claims;
mod completion;
mod config;
mod connections;
mod control;
mod delta;
mod denied;
pub mod ending;
mod error;
mod folder_file;
mod folders;
mod foreign;
pub mod hardware;
mod holder;
mod inquiries;
mod join;
mod kernel;
mod lacks;
mod launches;
mod liveness;
mod log_file;
pub mod log_folder;
pub mod log_hole;
mod log_only;
mod log_readers;
mod log_tail;
mod look;
mod loss;
mod mark;
mod operations;
mod other_version;
mod own_time;
mod process;
pub mod procfs;
mod programs;
pub mod refused;
mod regular;
mod rights;
pub mod room;
mod run;
pub mod run_file;
mod sandbox;
mod scheduled;
mod segment_file;
mod sender;
pub mod shared_dir;
mod steady;
mod summations;
pub mod sweep;
mod tell;
mod ticks;
mod tracker;
mod transport;
mod watch;
mod wishes;

pub use config::{
    AgentConfig, DEFAULT_BACKLOG_BYTES, DEFAULT_DIR, DEFAULT_HARDWARE_INTERVAL, DEFAULT_INTERVAL,
    DEFAULT_KEEP_DEAD, DEFAULT_SYSFS, KernelLog, PretendedSysfs, host_name,
};
pub use control::{Written, write_level};
pub use error::AgentError;
pub use look::command as look_at;
pub use programs::{Starter, starter};
pub use run::run;
pub use sandbox::enter as confine;
pub use tracker::Tracker;
