//! The outer of the two processes on a host: orphans fall to it, and it ends them when the inner one has ended, however that was.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus};

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_child_subreaper,
    set_parent_process_death_signal, setsid,
};

use super::{NodeArgs, tree};
use crate::launch::OWN_PROGRAM;
use crate::launch::inherited::Inherited;
use crate::launch::signals::Signals;

/// Starts the inner process and stays until it has ended; its exit status.
pub(super) async fn keep(args: &NodeArgs, inherited: Inherited, mut signals: Signals) -> u8 {
    // Away from the terminal: its Ctrl-C goes to the launching side, which says what is to be done.
    let _ = setsid();
    let _ = set_child_subreaper(Some(getpid()));
    if let Some(parent) = args.parent {
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
        if getppid().map(|parent| parent.as_raw_nonzero().get()) != Some(parent) {
            return 1;
        }
    }
    let mut command = Command::new(OWN_PROGRAM);
    command.arg0("ringscope").args(["launch-node", "--inside"]).args(args.handed_on());
    inherited.hand_on(&mut command);
    let inner = match command.spawn() {
        Ok(inner) => inner.id(),
        Err(error) => {
            tracing::error!("cannot start the host side of a launch: {error}");
            return 1;
        }
    };
    let status = loop {
        match signals.next().await {
            libc::SIGCHLD => {
                if let Some(status) = ended(inner) {
                    break status;
                }
            }
            signal => pass_on(inner, signal),
        }
    };
    tree::kill_all(&[]).await;
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(1),
        (None, signal) => u8::try_from(128 + signal.unwrap_or_default()).unwrap_or(1),
    }
}

/// Takes the ends of all children; that of the inner process, if it was among them.
fn ended(inner: u32) -> Option<ExitStatus> {
    let mut found = None;
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if u32::try_from(pid.as_raw_nonzero().get()) == Ok(inner) {
            found = Some(ExitStatus::from_raw(status.as_raw()));
        }
    }
    found
}

fn pass_on(inner: u32, signal: i32) {
    let pid = i32::try_from(inner).ok().and_then(Pid::from_raw);
    if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
        let _ = kill_process(pid, signal);
    }
}
