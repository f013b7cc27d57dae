//! What processes do besides calling the library: what the operating system says of them, and, where the daemon asks, a
//! look at them.

use std::path::Path;
use std::time::Instant;

use ringscope_wire::batch::Inquiry;

use super::activity::{Activities, Wanted};
use super::inquiries::Seen;
use super::launches::Launches;
use super::look::{Asked, Looker};
use super::process::Process;
use super::procfs::Pid;
use super::programs::Programs;

/// See the module.
#[derive(Debug)]
pub(super) struct Watch {
    activities: Activities,
    looker: Looker,
    seen: Seen,
}

impl Watch {
    /// `programs` has the one that looks; `None`: nobody does.
    pub(super) fn new(programs: Option<Programs>) -> Self {
        Self { activities: Activities::default(), looker: Looker::new(programs), seen: Seen::default() }
    }

    /// Writes into the processes' accounts what was seen since the last time.
    pub(super) fn poll(&mut self, mut processes: Vec<&mut Process>, launches: &mut Launches, now: Instant) {
        let wanted: Vec<Wanted<'_>> = processes.iter().map(|process| wanted(process)).collect();
        let activities = self.activities.poll(&wanted, now);
        for (index, activity) in activities {
            processes[index].account.now.activity = Some(activity);
        }
        for (key, look) in self.looker.poll(now) {
            // One that has a segment by now has the key that it had before.
            let process = processes.iter_mut().map(|process| &mut process.account);
            let account = process.chain(launches.accounts_mut()).find(|account| account.key() == key);
            if let Some(account) = account {
                account.now.look = Some(look);
            }
        }
    }

    /// Takes the daemon's questions.
    pub(super) fn inquire(
        &mut self,
        inquiries: &[Inquiry],
        mut processes: Vec<&mut Process>,
        launches: &Launches,
    ) {
        for inquiry in inquiries {
            if !self.seen.take(inquiry) {
                continue;
            }
            let process = processes.iter_mut().find(|process| process.account.key() == inquiry.process);
            let pid = match process {
                Some(process) => {
                    process.inquired(inquiry);
                    self.activities.pid(&process.path)
                }
                None => launches.pid(&inquiry.process),
            };
            if inquiry.look {
                let (process, id) = (inquiry.process.clone(), inquiry.id.clone());
                self.looker.ask(Asked { process, inquiry: id, watch: inquiry.watch, pid });
            }
        }
    }

    /// The processes with segments, as this agent knows them.
    pub(super) fn pids(&self) -> impl Iterator<Item = Pid> {
        self.activities.pids()
    }

    /// Whether the process of a segment lives; `None` if it was never found among those of this machine.
    pub(super) fn lives(&self, segment: &Path) -> Option<bool> {
        let pid = self.activities.pid(segment)?;
        Some(pid.stat().is_some_and(|stat| !stat.has_ended()))
    }

    /// The segment of the process that has this number on this machine.
    pub(super) fn segment(&self, number: u32) -> Option<&Path> {
        self.activities.segment(number)
    }
}

fn wanted(process: &Process) -> Wanted<'_> {
    let start_ns = process.account.now.identity.as_ref().map_or(0, |identity| identity.start_time_ns);
    Wanted {
        segment: &process.path,
        file: process.file,
        own_pid: process.pid,
        start_ns,
        is_final: process.is_final,
    }
}
