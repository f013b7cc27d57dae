//! The processes that descend from this one, by `/proc`, and signals to them. As a reaper of orphans it keeps even those that
//! have left their session and lost their parents.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use ringscope_agent::procfs::Stat;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Processes of the machine that are looked at.
const MAX_PROCESSES: usize = 1 << 20;

/// One process, told from another that gets its number later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    /// Its number.
    pub(super) pid: u32,
    parent: u32,
    start_ticks: u64,
    /// It runs no more, and its parent has not asked for its end yet.
    pub(super) is_zombie: bool,
}

/// All that descend from this process and still run, but for `spared` and what descends from them.
pub(super) fn descendants(spared: &[u32]) -> Vec<Process> {
    let mut children: BTreeMap<u32, Vec<Process>> = BTreeMap::new();
    for process in all() {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut next = vec![std::process::id()];
    while let Some(parent) = next.pop() {
        for child in children.get(&parent).into_iter().flatten() {
            // Read one after the other, so numbers may have gone round.
            if spared.contains(&child.pid) || !seen.insert(child.pid) {
                continue;
            }
            next.push(child.pid);
            if !child.is_zombie {
                found.push(*child);
            }
        }
    }
    found
}

fn all() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.take(MAX_PROCESSES).filter_map(read)
}

fn read(pid: u32) -> Option<Process> {
    let stat = Stat::read(pid)?;
    Some(Process { pid, parent: stat.parent, start_ticks: stat.start_ticks, is_zombie: stat.has_ended() })
}

impl Process {
    /// Sends it a signal, unless another process has its number by now.
    pub(super) fn signal(&self, signal: Signal) {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return };
        let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        if read(self.pid).is_some_and(|now| now.start_ticks == self.start_ticks) {
            let _ = pidfd_send_signal(held, signal);
        }
    }

    /// Whether it is one of ours that ends by itself, or may be: it copies the library's log until the processes are gone that write it.
    pub(super) fn is_log_relay(&self) -> bool {
        let command = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        // One that is just becoming another program has no arguments for a moment.
        command.is_empty() || command.split(|byte| *byte == 0).nth(1) == Some(b"log-relay")
    }
}

/// Kills them all, again and again until there are none, or so many times.
pub(super) async fn kill_all(spared: &[u32]) -> usize {
    let mut left = descendants(spared);
    let killed = left.len();
    for _ in 0..KILL_ROUNDS {
        if left.is_empty() {
            break;
        }
        left.iter().for_each(|process| process.signal(Signal::KILL));
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        reap();
        left = descendants(spared);
    }
    killed
}

/// Takes the ends of all children that have ended.
pub(super) fn reap() {
    while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
}

/// Two seconds: a process that the kernel does not let go longer hangs in a driver, and nobody can end it.
const KILL_ROUNDS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_found_and_spared() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let has = |spared: &[u32]| descendants(spared).iter().any(|process| process.pid == child.id());
        assert!(has(&[]));
        assert!(!has(&[child.id()]));
        let found = descendants(&[]).into_iter().find(|process| process.pid == child.id()).unwrap();
        let reused = Process { start_ticks: found.start_ticks + 1, ..found };
        reused.signal(Signal::KILL);
        assert!(child.try_wait().unwrap().is_none(), "that was another one's number");
        found.signal(Signal::KILL);
        assert!(!child.wait().unwrap().success());
    }
}
