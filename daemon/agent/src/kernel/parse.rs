//! Messages of the kernel, one after the other → what the daemon is told. Pure: records in, messages out.
//!
//! Messages that a fault repeats without end are cut by kind, so that none drowns the others; what is cut is counted.

use std::collections::BTreeMap;

use ringscope_wire::batch::{KernelMessage, KernelMessageKind};

use super::record::{MAX_TEXT, Record};
use super::rules::{Said, judge};
use crate::foreign::clean;

/// Messages of one kind that are told of in one window.
const MAX_PER_WINDOW: u32 = 32;
/// Window of the kernel's time.
const WINDOW_US: u64 = 10_000_000;
/// Bytes of a cgroup's path in a message.
const MAX_CGROUP: usize = 160;

/// Reads the messages of one boot.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// Of the newest kill for lack of memory: the process and its cgroup, which stand in the line before.
    killed: Option<(u32, String)>,
    windows: BTreeMap<i32, (u64, u32)>,
    /// Messages that were cut.
    pub(super) lost: u64,
}

impl Reader {
    /// What a message written at `at_ns` says; `None`: nothing that is wrong, or it is one too many.
    pub(super) fn read(&mut self, record: &Record, at_ns: u64, boot_id: &str) -> Option<KernelMessage> {
        if let Some(killed) = oom_kill(&record.text) {
            self.killed = Some(killed);
            return None;
        }
        let mut said = judge(&record.text)?;
        self.add_cgroup(&mut said);
        if !self.has_room(said.kind, record.since_boot_us) {
            self.lost += 1;
            return None;
        }
        Some(KernelMessage {
            boot_id: boot_id.to_owned(),
            number: record.number,
            at_ns,
            kind: said.kind.into(),
            text: record.text.clone(),
            meaning: clean(&said.meaning, MAX_TEXT),
            pci: said.pci.unwrap_or_default(),
            nic: said.nic.unwrap_or_default(),
            pid: said.pid,
            xid: said.xid,
        })
    }

    fn add_cgroup(&mut self, said: &mut Said) {
        if said.kind != KernelMessageKind::OutOfMemory {
            return;
        }
        if let Some((pid, cgroup)) = self.killed.take()
            && said.pid == Some(pid)
            && said.meaning.contains("in its cgroup")
        {
            said.meaning = said.meaning.replacen("in its cgroup", &format!("in its cgroup {cgroup}"), 1);
        }
    }

    fn has_room(&mut self, kind: KernelMessageKind, now_us: u64) -> bool {
        let window = self.windows.entry(kind.into()).or_insert((now_us, 0));
        if now_us.saturating_sub(window.0) >= WINDOW_US {
            *window = (now_us, 0);
        }
        window.1 += 1;
        window.1 <= MAX_PER_WINDOW
    }
}

/// `oom-kill:constraint=..,oom_memcg=/a,task_memcg=/a/b,task=python,pid=7899,uid=0`: process and cgroup. It comes just
/// before the line that says that the process was killed. Kernels before 4.20 have none.
fn oom_kill(line: &str) -> Option<(u32, String)> {
    let fields = line.strip_prefix("oom-kill:")?;
    // The name may hold commas and anything else: the number stands after it, the cgroup before.
    let (before, rest) = fields.split_once(",task=").unwrap_or((fields, ""));
    let (_, pid) = rest.rsplit_once(",pid=")?;
    let cgroup = before.rsplit_once("task_memcg=").map_or("", |(_, cgroup)| cgroup);
    let end = (0..=cgroup.len().min(MAX_CGROUP)).rev().find(|end| cgroup.is_char_boundary(*end));
    let pid = pid.split(',').next().unwrap_or_default().parse().ok()?;
    Some((pid, cgroup[..end.unwrap_or_default()].to_owned()))
}

const _: () = assert!(MAX_CGROUP * 2 < MAX_TEXT, "what was killed must still be said");

#[cfg(test)]
mod tests;
