//! Fence: the file as its owner has it, mapped.

#![expect(unsafe_code, reason = "maps a file that readers see while it is written")]

use std::collections::VecDeque;
use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::mm::{MapFlags, ProtFlags};

use crate::layout::{
    BLOCK_PLACES, ERROR_BYTES, HEAD_BYTES, MAGIC, MAX_PLACES, MAX_QUEUE_PAIRS, NAME_BYTES, PLACE_BYTES,
    PLACE_BYTES_WORD, VERSION, at, head,
};
use crate::read::{QueuePair, State};

const FILE_BYTES: usize = HEAD_BYTES + MAX_PLACES * PLACE_BYTES;

/// What is told of a connection when it is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct About<'a> {
    /// Whether data leave this process.
    pub is_send: bool,
    /// The local device.
    pub device: &'a str,
    /// Its port.
    pub port: u32,
    /// Index of the local GID.
    pub gid_index: u32,
    /// The local GID and the remote one.
    pub gids: [[u8; 16]; 2],
    /// Their kinds, as in the layout.
    pub gid_kinds: [u32; 2],
    /// Bytes of payload in a packet: what this end can, what the other can, what is used.
    pub mtus_bytes: [u32; 3],
    /// Traffic class.
    pub traffic_class: u32,
    /// Service level.
    pub service_level: u32,
    /// The communicator, if it is known.
    pub comm_hash: u64,
    /// The other process's rank in its job; -1: not known.
    pub remote_rank: i32,
    /// The other process.
    pub remote_pid: u32,
    /// Its device.
    pub remote_device: &'a str,
    /// That device's port, from 1; 0: not known.
    pub remote_port: u32,
    /// Its host.
    pub remote_host: &'a str,
    /// The queue pairs.
    pub queue_pairs: &'a [QueuePair],
}

/// The file of a process.
#[derive(Debug)]
pub struct Table {
    memory: NonNull<u8>,
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    /// Places that were given back, the longest unused first: who reads rarely still sees how a connection ended.
    free: Mutex<VecDeque<u32>>,
}

// SAFETY: the mapping is the table's own, for as long as it lives; what several threads write there is atomic, or a place that
// one of them alone has taken.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// A connection's place. Counting is a few stores.
#[derive(Debug)]
pub struct Place {
    table: Arc<Table>,
    index: u32,
}

impl Table {
    /// Makes the file; whoever has a table of this name already keeps it. `global_rank`: -1 where it is not known.
    pub fn create(folder: &Path, pid: u32, start_ticks: u64, global_rank: i32) -> io::Result<Arc<Self>> {
        let path = folder.join(format!("{pid}-{start_ticks}.net"));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        let table = Self::fill(&file, path.clone(), pid, global_rank).inspect_err(|_| {
            let _ = std::fs::remove_file(&path);
        })?;
        Ok(Arc::new(table))
    }

    fn fill(file: &File, path: PathBuf, pid: u32, global_rank: i32) -> io::Result<Self> {
        rustix::fs::ftruncate(file, FILE_BYTES as u64)?;
        reserve(file, 0)?;
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address that the kernel chooses, of a file that is as long.
        let mapped =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), FILE_BYTES, prot, flags, file.as_fd(), 0) }?;
        let memory = NonNull::new(mapped.cast::<u8>()).ok_or_else(|| io::Error::other("mapped at 0"))?;
        let metadata = file.metadata()?;
        let identity = (metadata.dev(), metadata.ino());
        let table = Self { memory, path, identity, free: Mutex::new(VecDeque::new()) };
        table.word(head::VERSION).store(VERSION.to_le(), Ordering::Relaxed);
        table.word(head::PLACE_BYTES).store(PLACE_BYTES_WORD.to_le(), Ordering::Relaxed);
        table.word(head::PID).store(pid.to_le(), Ordering::Relaxed);
        table.word(head::GLOBAL_RANK).store(global_rank.cast_unsigned().to_le(), Ordering::Relaxed);
        table.long(head::MAGIC).store(MAGIC.to_le(), Ordering::Release);
        Ok(table)
    }

    /// Takes a place for a connection; none where all are taken, which is counted.
    pub fn take(self: &Arc<Self>, about: &About<'_>) -> Option<Place> {
        let Some(index) = self.free_place() else {
            let lost = self.long(head::N_LOST);
            lost.store((u64::from_le(lost.load(Ordering::Relaxed)) + 1).to_le(), Ordering::Relaxed);
            return None;
        };
        let place = Place { table: Arc::clone(self), index };
        place.begin(about);
        Some(place)
    }

    fn free_place(&self) -> Option<u32> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let used = self.word(head::N_USED);
        let n_used = u32::from_le(used.load(Ordering::Relaxed));
        // Ended connections stay to be read as long as there are places that nobody has used.
        let has_pages =
            || !(n_used as usize).is_multiple_of(BLOCK_PLACES) || self.grow(n_used as usize).is_ok();
        if (n_used as usize) < MAX_PLACES && has_pages() {
            used.store((n_used + 1).to_le(), Ordering::Release);
            return Some(n_used);
        }
        free.pop_front()
    }

    /// Asks for the pages of the block that begins with this place. The file is not kept open: a program that closes all its
    /// descriptors would give the number to another file.
    fn grow(&self, place: usize) -> io::Result<()> {
        let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let file = OpenOptions::new().write(true).custom_flags(flags).open(&self.path)?;
        let metadata = file.metadata()?;
        if (metadata.dev(), metadata.ino()) != self.identity {
            return Err(io::ErrorKind::NotFound.into());
        }
        reserve(&file, place)
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at.is_multiple_of(4) && at + 4 <= FILE_BYTES);
        // SAFETY: inside the mapping, which lives as long as `self`, and aligned: the mapping is, and every field is.
        let word = unsafe { self.memory.add(at) };
        // SAFETY: as above; all access to it is atomic.
        unsafe { word.cast::<AtomicU32>().as_ref() }
    }

    fn long(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= FILE_BYTES);
        // SAFETY: as in `word`.
        let long = unsafe { self.memory.add(at) };
        // SAFETY: as in `word`.
        unsafe { long.cast::<AtomicU64>().as_ref() }
    }

    fn bytes(&self, at: usize, bytes: &[u8]) {
        debug_assert!(at + bytes.len() <= FILE_BYTES);
        // SAFETY: inside the mapping.
        let target = unsafe { self.memory.add(at) };
        // SAFETY: inside the mapping, in a place that the caller alone writes; no reference to it exists.
        unsafe { target.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
    }
}

/// Pages are asked for before anything is written there: a full file system must not be a bus error in the user's job.
fn reserve(file: &File, place: usize) -> io::Result<()> {
    let start = if place == 0 { 0 } else { HEAD_BYTES + place * PLACE_BYTES };
    let end = HEAD_BYTES + (place + BLOCK_PLACES).min(MAX_PLACES) * PLACE_BYTES;
    let none = rustix::fs::FallocateFlags::empty();
    Ok(rustix::fs::fallocate(file, none, start as u64, (end - start) as u64)?)
}

impl Drop for Table {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        // SAFETY: our own mapping, of that length; every place holds the table, so none is left.
        let _ = unsafe { rustix::mm::munmap(self.memory.as_ptr().cast::<c_void>(), FILE_BYTES) };
    }
}

impl Place {
    const fn offset(&self, field: usize) -> usize {
        HEAD_BYTES + self.index as usize * PLACE_BYTES + field
    }

    fn begin(&self, about: &About<'_>) {
        let word = |field: usize, value: u32| {
            self.table.word(self.offset(field)).store(value.to_le(), Ordering::Relaxed);
        };
        let generation = u32::from_le(self.table.word(self.offset(at::GENERATION)).load(Ordering::Relaxed));
        let generation = generation.wrapping_add(1).max(1);
        // Who reads goes upwards: it sees the new mark at the end before it sees anything else that is new, and the one at the
        // beginning only once all is.
        word(at::GENERATION_AGAIN, generation);
        std::sync::atomic::fence(Ordering::Release);
        word(at::STATE, State::Open.number());
        word(at::IS_SEND, u32::from(about.is_send));
        word(at::PORT, about.port);
        word(at::GID_INDEX, about.gid_index);
        word(at::GID_KIND, about.gid_kinds[0]);
        word(at::REMOTE_GID_KIND, about.gid_kinds[1]);
        word(at::MTU, about.mtus_bytes[0]);
        word(at::REMOTE_MTU, about.mtus_bytes[1]);
        word(at::PATH_MTU, about.mtus_bytes[2]);
        word(at::TRAFFIC_CLASS, about.traffic_class);
        word(at::SERVICE_LEVEL, about.service_level);
        word(at::REMOTE_RANK, about.remote_rank.cast_unsigned());
        word(at::REMOTE_PID, about.remote_pid);
        word(at::REMOTE_PORT, about.remote_port);
        let queue_pairs = about.queue_pairs.get(..MAX_QUEUE_PAIRS).unwrap_or(about.queue_pairs);
        word(at::N_QUEUE_PAIRS, u32::try_from(queue_pairs.len()).unwrap_or_default());
        for (which, pair) in queue_pairs.iter().enumerate() {
            word(at::QUEUE_PAIRS + 8 * which, pair.number);
            word(at::QUEUE_PAIRS + 8 * which + 4, pair.remote_number);
        }
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now = Duration::try_from(now).map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        self.table.long(self.offset(at::MADE_NS)).store(now.to_le(), Ordering::Relaxed);
        self.table.long(self.offset(at::COMM_HASH)).store(about.comm_hash.to_le(), Ordering::Relaxed);
        self.table.bytes(self.offset(at::GID), &about.gids[0]);
        self.table.bytes(self.offset(at::REMOTE_GID), &about.gids[1]);
        self.text(at::DEVICE, about.device, NAME_BYTES);
        self.text(at::REMOTE_DEVICE, about.remote_device, NAME_BYTES);
        self.text(at::REMOTE_HOST, about.remote_host, NAME_BYTES);
        self.text(at::ERROR, "", ERROR_BYTES);
        (0..crate::layout::N_COUNTS).for_each(|which| self.count(which).store(0, Ordering::Relaxed));
        self.table.word(self.offset(at::GENERATION)).store(generation.to_le(), Ordering::Release);
    }

    /// A text, filled up with zeros; one that is too long is cut between characters.
    fn text(&self, field: usize, text: &str, len: usize) {
        let mut bytes = [0; ERROR_BYTES];
        let cut = text.floor_char_boundary(len - 1);
        bytes[..cut].copy_from_slice(&text.as_bytes()[..cut]);
        self.table.bytes(self.offset(field), &bytes[..len]);
    }

    fn count(&self, which: usize) -> &AtomicU64 {
        self.table.long(self.offset(at::COUNTS + 8 * which))
    }

    /// Stores all counts, of which the connection's owner keeps the true ones.
    pub fn store(&self, counts: &crate::Counts) {
        for (which, count) in counts.to_array().into_iter().enumerate() {
            self.count(which).store(count.to_le(), Ordering::Relaxed);
        }
    }

    /// The connection failed. The first words stay: what comes after is what came of it.
    pub fn fail(&self, error: &str) {
        let state = self.table.word(self.offset(at::STATE));
        if u32::from_le(state.load(Ordering::Relaxed)) == State::Failed.number() {
            return;
        }
        self.text(at::ERROR, error, ERROR_BYTES);
        state.store(State::Failed.number().to_le(), Ordering::Release);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let state = self.table.word(self.offset(at::STATE));
        if u32::from_le(state.load(Ordering::Relaxed)) != State::Failed.number() {
            state.store(State::Closed.number().to_le(), Ordering::Release);
        }
        self.table.free.lock().unwrap_or_else(PoisonError::into_inner).push_back(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Counts, Malformed, parse};

    fn table(folder: &Path) -> (Arc<Table>, PathBuf) {
        (Table::create(folder, 7, 99, 3).unwrap(), folder.join("7-99.net"))
    }

    fn about<'a>(pairs: &'a [QueuePair]) -> About<'a> {
        About {
            is_send: true,
            device: "rxe0",
            port: 1,
            gid_index: 1,
            gids: [[1; 16], [2; 16]],
            gid_kinds: [3, 2],
            mtus_bytes: [4096, 1024, 1024],
            traffic_class: 106,
            service_level: 1,
            comm_hash: 0xabc,
            remote_rank: 2,
            remote_pid: 44,
            remote_device: "rxe1",
            remote_port: 2,
            remote_host: "g2",
            queue_pairs: pairs,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let (table, path) = table(folder.path());
        let pairs =
            [QueuePair { number: 17, remote_number: 18 }, QueuePair { number: 19, remote_number: 20 }];
        let place = table.take(&about(&pairs)).unwrap();
        place.store(&Counts { bytes: 5, wait_ns: 6, last_done_ns: 7, ..Counts::default() });
        let all = parse(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!((all.pid, all.global_rank, all.n_lost, all.all.len()), (7, Some(3), 0, 1));
        let found = &all.all[0];
        assert_eq!((found.state, found.is_send, found.port), (State::Open, true, 1));
        assert_eq!((found.device.as_str(), found.remote_host.as_str()), ("rxe0", "g2"));
        assert_eq!(
            (found.gid, found.remote_gid, found.gid_kind, found.remote_gid_kind),
            ([1; 16], [2; 16], 3, 2)
        );
        assert_eq!((found.comm_hash, found.remote_rank, found.remote_pid), (Some(0xabc), Some(2), 44));
        assert_eq!(found.queue_pairs, pairs);
        assert!(found.remote_port == 2 && found.made_ns > 0);
        assert_eq!((found.counts.bytes, found.counts.wait_ns, found.counts.last_done_ns), (5, 6, 7));
        place.fail("transport retry counter exceeded");
        place.fail("Work Request Flushed Error");
        drop(place);
        let ended = &parse(&std::fs::read(&path).unwrap()).unwrap().all[0];
        assert_eq!((ended.state, ended.error.as_str()), (State::Failed, "transport retry counter exceeded"));
        drop(table);
        assert!(!path.exists());
    }

    #[test]
    fn places_are_used_again_when_all_have_been() {
        let folder = tempfile::tempdir().unwrap();
        let (table, path) = table(folder.path());
        let mut held: Vec<_> = (0..MAX_PLACES).map(|_| table.take(&about(&[])).unwrap()).collect();
        assert!(table.take(&about(&[])).is_none());
        held.remove(5);
        let again = table.take(&about(&[])).unwrap();
        let all = parse(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!((all.n_lost, all.all.len(), again.index), (1, MAX_PLACES, 5));
        assert_eq!((all.all[5].generation, all.all[6].generation), (2, 1));
    }

    #[test]
    fn a_few_connections_take_a_few_pages() {
        let folder = tempfile::tempdir().unwrap();
        let (table, path) = table(folder.path());
        let _places: Vec<_> = (0..3).map(|_| table.take(&about(&[]))).collect();
        let blocks = std::fs::metadata(&path).unwrap().blocks();
        assert!(blocks * 512 <= 32 * 1024, "{blocks} blocks");
    }

    #[test]
    fn a_place_that_is_being_written_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let (table, path) = table(folder.path());
        let _place = table.take(&about(&[])).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[HEAD_BYTES + at::GENERATION] = 2;
        assert!(parse(&bytes).unwrap().all.is_empty());
    }

    #[test]
    fn bytes_that_are_not_ours_are_refused() {
        assert_eq!(parse(&[]), Err(Malformed::Short));
        assert_eq!(parse(&[0xff; 4096]), Err(Malformed::NotOurs));
        let mut bytes = vec![0xff; HEAD_BYTES + PLACE_BYTES];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        assert_eq!(parse(&bytes), Err(Malformed::OtherVersion(u32::MAX)));
        bytes[8..12].copy_from_slice(&1_u32.to_le_bytes());
        bytes[12..16].copy_from_slice(&PLACE_BYTES_WORD.to_le_bytes());
        assert!(parse(&bytes).unwrap().all.is_empty());
    }
}
