//! The host side of a launch: starts one host's processes, hands on what they write, and ends them.
//!
//! Two processes: a [`guard`], to which everything falls that loses its parent, and inside it the [`host`], which does the work.
//! Whichever of the two is killed, the other one ends what was started. Neither outlives the launching side: the end of the
//! channel, or silence on it, ends all.

mod agent;
mod guard;
mod host;
mod other_daemon;
mod output;
mod own;
mod ports;
pub mod rank;
mod start;
mod state;
mod tree;

use std::ffi::OsString;
use std::time::Duration;

use crate::launch::inherited::Inherited;
use crate::launch::place::Ways;
use crate::launch::signals;

pub(super) use own::Own;

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
    /// What this node's own line says, where it came by itself
    #[command(flatten)]
    pub(super) own: Own,
}

impl NodeArgs {
    /// Of a node that starts a command of its own.
    pub(super) fn inside_of(ways: &Ways, own: Own) -> Self {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self { inside: false, parent: None, silence_ms: ms(ways.silence), grace_ms: ms(ways.grace), own }
    }

    /// What is handed on from one process of this host to the next: the last arguments of its line.
    pub(super) fn handed_on(&self) -> Vec<OsString> {
        let (silence, grace) = (self.silence_ms.to_string(), self.grace_ms.to_string());
        let times = ["--silence-ms", &silence, "--grace-ms", &grace].map(OsString::from);
        [times.into(), self.own.arguments()].concat()
    }

    fn silence(&self) -> Duration {
        Duration::from_millis(self.silence_ms)
    }

    fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_ms)
    }
}

/// Runs the hidden command; its exit status.
#[must_use]
pub fn run(args: &NodeArgs) -> u8 {
    let inherited = Inherited::take_over();
    // One thread: what it starts is killed by the kernel when the thread ends that started it.
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return 1 };
    let status = runtime.block_on(async {
        let Some(signals) = signals::Signals::all() else { return 1 };
        if args.inside {
            host::serve(args, inherited, signals).await
        } else {
            guard::keep(args, inherited, signals).await
        }
    });
    // A thread may still be reading what never ends.
    runtime.shutdown_background();
    status
}
