//! When each part of a round was where: `RSUM_TIMELINE` names a folder, in which every process of a group leaves a file of the
//! instants that it saw. `python3 -m ringscope_engine.timeline` makes one trace of them.
//!
//! An instant is kept in memory, which is there from the beginning for the first generation and grows in later ones, and written when
//! its generation ends; of more than there is room for in a group, the first ones are kept and
//! the others are counted. Nothing is kept where the setting is not there.
//!
//! Each file is a JSON object: the process, with its clock and the machine's boot, the parts with their tensors, and instants as
//! `[kind, key, round, other, ns]`, in nanoseconds of the monotonic clock, which all processes of a machine share.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::Serialize;

use crate::tensor::Declarations;
use rsccl_collective::clock;
use rsccl_collective::comm::Comm;
use rsccl_collective::error::{Error, Result};
use rsccl_collective::lock::lock;
use rsccl_collective::log::{self, Level, subsystem};

/// Instants of a process in one group at most: 13 MB of memory, some 16 MB of files.
const MOST: usize = 400_000;

/// What happens to a part, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A worker begins to push it to a service.
    Began,
    /// A worker has sent the last byte.
    Sent,
    /// A service has all of a worker's.
    Arrived,
    /// A service has its sum; the other is the worker that came last.
    Summed,
    /// A service sends the last byte of the answer to a worker.
    Left,
    /// A worker has the answer of a service.
    Pulled,
}

/// One.
#[derive(Clone, Copy, Debug)]
struct Instant {
    kind: Kind,
    key: u32,
    other: u32,
    round: u64,
    at_ns: u64,
}

/// What a process has seen.
#[derive(Debug)]
pub(super) struct Timeline {
    folder: PathBuf,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    instants: Vec<Instant>,
    /// Instants for which there is room yet.
    room: usize,
    dropped: u64,
}

/// Whose file it is.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Process {
    pub(super) rank: usize,
    pub(super) role: &'static str,
    /// Among the workers, or the servers.
    pub(super) number: usize,
    pub(super) n_workers: usize,
    pub(super) n_servers: usize,
    pub(super) epoch: u32,
    pub(super) generation: u32,
    /// By service: its rank.
    pub(super) services: Vec<usize>,
}

#[derive(Serialize)]
struct File<'a> {
    #[serde(flatten)]
    process: &'a Process,
    group: String,
    host: &'a str,
    boot: String,
    pid: u32,
    dropped: u64,
    /// Key, tensor, index in the tensor, bytes.
    parts: Vec<(u32, &'a str, u32, u64)>,
    instants: Vec<(&'static str, u32, u64, u32, u64)>,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Began => "began",
            Self::Sent => "sent",
            Self::Arrived => "arrived",
            Self::Summed => "summed",
            Self::Left => "left",
            Self::Pulled => "pulled",
        }
    }
}

impl Timeline {
    /// To be left in this folder.
    ///
    /// # Errors
    /// There is no such folder, and none can be made.
    pub(super) fn new(folder: &Path) -> Result<Self> {
        Self::with_room(folder, MOST)
    }

    fn with_room(folder: &Path, room: usize) -> Result<Self> {
        std::fs::create_dir_all(folder)
            .map_err(|error| Error::system(format!("RSUM_TIMELINE: making {}", folder.display()), &error))?;
        let seen = Seen { instants: Vec::with_capacity(room), room, dropped: 0 };
        Ok(Self { folder: folder.to_owned(), seen: Mutex::new(seen) })
    }

    /// Something happens now.
    pub(super) fn note(&self, kind: Kind, key: u32, round: u64, other: usize) {
        self.note_at(kind, key, round, other, clock::monotonic_ns());
    }

    /// Something happened then.
    pub(super) fn note_at(&self, kind: Kind, key: u32, round: u64, other: usize, at_ns: u64) {
        let mut seen = lock(&self.seen);
        if seen.room == 0 {
            seen.dropped += 1;
            return;
        }
        seen.room -= 1;
        let other = u32::try_from(other).unwrap_or(u32::MAX);
        seen.instants.push(Instant { kind, key, other, round, at_ns });
    }

    /// A generation has ended: leaves its file, if anything was seen in it. That it cannot ends no group.
    pub(super) fn leave(&self, process: &Process, comm: &Comm, declarations: &Declarations) {
        let (instants, dropped) = {
            let mut seen = lock(&self.seen);
            (std::mem::take(&mut seen.instants), std::mem::take(&mut seen.dropped))
        };
        if instants.is_empty() && dropped == 0 {
            return;
        }
        let group = format!("{:016x}", comm.identity.comm_hash);
        let Process { rank, epoch, generation, .. } = process;
        let path = self.folder.join(format!("rsum-{group}-{epoch}-{generation}-{rank}.json"));
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let name =
            |tensor: usize| declarations.tensors().get(tensor).map_or("", |tensor| tensor.name.as_str());
        let parts =
            declarations.parts().map(|part| (part.key, name(part.tensor), part.index, part.size_bytes));
        let row = |one: &Instant| (one.kind.name(), one.key, one.round, one.other, one.at_ns);
        let file = File {
            process,
            group,
            host: comm.host_name(*rank),
            boot: boot.trim().to_owned(),
            pid: std::process::id(),
            dropped,
            parts: parts.collect(),
            instants: instants.iter().map(row).collect(),
        };
        let written = serde_json::to_vec(&file).map_err(std::io::Error::from);
        if let Err(error) = written.and_then(|bytes| std::fs::write(&path, bytes)) {
            let text = format!("RSUM_TIMELINE: {}: {error}", path.display());
            log::write(Level::Warn, subsystem::ALL, *rank, &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_no_room_for_is_counted() {
        let timeline = Timeline::with_room(&std::env::temp_dir(), 2).unwrap();
        (0..5).for_each(|round| timeline.note_at(Kind::Began, 1, round, 0, round));
        let seen = lock(&timeline.seen);
        assert_eq!((seen.instants.len(), seen.dropped), (2, 3));
        assert_eq!(seen.instants.capacity(), 2);
    }
}
