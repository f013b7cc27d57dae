//! What a rank is before it is the user's command: its own session, which dies with the host side, and then `ringscope run`.

use std::os::unix::process::CommandExt as _;

use rustix::process::{Signal, getppid, set_parent_process_death_signal, setsid};

use crate::run::{self, RunArgs, RunError};

/// Arguments of the hidden command.
#[derive(Debug, clap::Args)]
pub struct RankArgs {
    /// The process that starts it
    #[arg(long)]
    parent: i32,
    /// Start it without ringscope's collector
    #[arg(long)]
    bare: bool,
    #[command(flatten)]
    run: RunArgs,
}

/// Becomes the command. Returns only if that failed, or who started it is gone.
#[must_use]
pub fn run(args: &RankArgs) -> Option<RunError> {
    // A session of its own: a signal to its group is one to all that it starts in an ordinary way.
    let _ = setsid();
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if getppid().map(|parent| parent.as_raw_nonzero().get()) != Some(args.parent) {
        return None;
    }
    if args.bare {
        let mut command = args.run.plain();
        let source = command.exec();
        return Some(RunError::Exec { command: command.get_program().to_owned(), source });
    }
    Some(run::run(&args.run))
}
