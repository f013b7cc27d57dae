//! The host side of a launch: starts one host's processes, hands on what they write, and ends them.
//!
//! Two processes: a [`guard`], to which everything falls that loses its parent, and inside it the [`host`], which does the work.
//! Whichever of the two is killed, the other one ends what was started. Neither outlives the launching side: the end of the
//! channel, or silence on it, ends all.

mod agent;
mod guard;
mod host;
mod output;
mod ports;
pub mod rank;
mod start;
mod tree;

use std::time::Duration;

use crate::launch::place::Ways;
use crate::launch::signals;

/// Arguments of the hidden command.
#[derive(Clone, Debug, clap::Args)]
pub struct NodeArgs {
    /// Inside its guard
    #[arg(long)]
    pub(super) inside: bool,
    /// End with this parent
    #[arg(long)]
    pub(super) parent: Option<i32>,
    /// Milliseconds after which a launching side that says nothing is gone
    #[arg(long, default_value_t = 30_000)]
    pub(super) silence_ms: u64,
    /// Milliseconds that processes have to end when the launching side is gone
    #[arg(long, default_value_t = 5_000)]
    pub(super) grace_ms: u64,
    /// The workers' command, where this node was started with it
    #[arg(last = true)]
    pub(super) command: Vec<std::ffi::OsString>,
}

impl NodeArgs {
    /// Of a node that starts a command of its own.
    pub(super) fn inside_of(ways: &Ways, command: Vec<std::ffi::OsString>) -> Self {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self { inside: false, parent: None, silence_ms: ms(ways.silence), grace_ms: ms(ways.grace), command }
    }

    fn silence(&self) -> Duration {
        Duration::from_millis(self.silence_ms)
    }

    fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_ms)
    }
}

/// The program that runs: also where its file was replaced meanwhile.
pub(super) const OWN_PROGRAM: &str = "/proc/self/exe";

/// Runs the hidden command; its exit status.
#[must_use]
pub fn run(args: &NodeArgs) -> u8 {
    // One thread: what it starts is killed by the kernel when the thread ends that started it.
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return 1 };
    let status = runtime.block_on(async {
        let Some(signals) = signals::Signals::all() else { return 1 };
        if args.inside { host::serve(args, signals).await } else { guard::keep(args, signals).await }
    });
    // A thread may still be reading what never ends.
    runtime.shutdown_background();
    status
}
