//! The program that looks at one process: `ringscope look-at`, started by the agent. It writes what it has seen to its
//! output, each time whole, in the batch's format with its length before it.

use std::io::{self, Write};
use std::path::PathBuf;

use prost::Message as _;
use rustix::process::{Resource, Rlimit, setrlimit};

use super::observe::observe;
use crate::procfs::Pid;
use crate::sandbox::{Role, deny_calls};

/// Memory that it may map: files of an interpreter, and what a process makes it read.
const MAX_MEMORY_BYTES: u64 = 4 << 30;
/// Processor time that it may take.
const MAX_SECONDS: u64 = 8;

/// Arguments of `ringscope look-at`.
#[derive(Debug, clap::Args)]
pub struct LookArgs {
    /// The process
    #[arg(long)]
    pid: u32,
    /// When it started, so that no other is looked at
    #[arg(long)]
    start_ticks: u64,
    /// Read its state for a second and a half too: how much of the time it is stopped
    #[arg(long)]
    watch: bool,
    /// Where the kernel shows its cgroups
    #[arg(long)]
    cgroups: PathBuf,
}

/// Looks once.
///
/// # Errors
/// The output cannot be written.
pub fn run(args: &LookArgs) -> io::Result<()> {
    limit();
    // Where the kernel cannot do it, the look is done all the same.
    let _ = deny_calls(Role::Look);
    let pid = Pid { number: args.pid, start_ticks: args.start_ticks };
    let mut written = Ok(());
    observe(pid, &args.cgroups, args.watch, |look| {
        let mut out = io::stdout().lock();
        if written.is_ok() {
            written = out.write_all(&look.encode_length_delimited_to_vec()).and_then(|()| out.flush());
        }
    });
    written
}

/// What it reads is another's: it must not be able to cost more than this program.
fn limit() {
    for (resource, most) in
        [(Resource::As, MAX_MEMORY_BYTES), (Resource::Cpu, MAX_SECONDS), (Resource::Core, 0)]
    {
        // A lower limit that is there already is as good.
        let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
    }
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}
