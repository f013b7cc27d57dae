//! Writes segments as a collector would, field by field.

use std::fs::{File, OpenOptions};
use std::mem::offset_of;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ringscope_wire::Primitive;
use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{
    COMMUNICATOR_ACTIVE, Communicator, Counters, Fixed, Link, Live, MAGIC, MAX_RECORDS, Record, STATE_ON,
    TICKS_MONOTONIC_NS, VERSION, link_key,
};
use rustix::fs::{FlockOperation, flock};
use zerocopy::{FromZeros as _, IntoBytes as _};

pub const ANCHOR_WALL_NS: u64 = 1_700_000_000_000_000_000;
pub const ANCHOR_TICKS: u64 = 1_000_000;

/// A segment whose lock this value holds, as its process would: dropping it is the process's death.
pub struct SegmentWriter {
    pub path: PathBuf,
    file: File,
    next_ticket: u64,
}

pub fn fixed(pid: u32, log_file: &str) -> Fixed {
    let mut fixed = Fixed::new_zeroed();
    fixed.magic = MAGIC;
    fixed.version = VERSION;
    fixed.pid = pid;
    fixed.segment_bytes = size_of::<Segment>() as u64;
    fixed.start_time_ns = 77;
    fixed.anchor_ticks = ANCHOR_TICKS;
    fixed.anchor_monotonic_ns = ANCHOR_TICKS;
    fixed.anchor_wall_ns = ANCHOR_WALL_NS;
    fixed.tick_kind = TICKS_MONOTONIC_NS;
    fixed.global_rank = 3;
    (fixed.world_size, fixed.local_rank) = (-1, -1);
    fixed.host[..5].copy_from_slice(b"node1");
    fixed.log_file[..log_file.len()].copy_from_slice(log_file.as_bytes());
    fixed
}

impl SegmentWriter {
    pub fn create(dir: &Path, pid: u32, log_file: &str) -> Self {
        Self::create_from(dir, &fixed(pid, log_file))
    }

    pub fn create_from(dir: &Path, fixed: &Fixed) -> Self {
        let path = dir.join(format!("{}-{}.seg", fixed.pid, fixed.start_time_ns));
        let unfinished = path.with_extension("tmp");
        let mut options = OpenOptions::new();
        let file =
            options.read(true).write(true).create_new(true).mode(0o600).open(&unfinished).expect("create");
        file.set_len(size_of::<Segment>() as u64).expect("size");
        flock(&file, FlockOperation::NonBlockingLockExclusive).expect("lock");
        let writer = Self { path, file, next_ticket: 0 };
        writer.write(0, fixed.as_bytes());
        writer.live(offset_of!(Live, state), STATE_ON);
        std::fs::rename(unfinished, &writer.path).expect("rename");
        writer
    }

    pub fn write(&self, offset: usize, bytes: &[u8]) {
        self.file.write_all_at(bytes, offset as u64).expect("write");
    }

    pub fn live(&self, field: usize, value: u32) {
        self.write(offset_of!(Segment, live) + field, &value.to_le_bytes());
    }

    pub fn drop_event(&self, reason: usize, events: u64) {
        let at = offset_of!(Segment, live) + offset_of!(Live, dropped) + 8 * reason;
        self.write(at, &events.to_le_bytes());
    }

    fn slot(slot: usize) -> usize {
        offset_of!(Segment, communicators) + slot * size_of::<Communicator>()
    }

    pub fn communicator(&self, slot: usize, generation: u32, pointer: u64, hash: u64) {
        let at = Self::slot(slot);
        let created = ANCHOR_TICKS + u64::from(generation) * 1000 + slot as u64;
        self.write(at, &[0_u8; size_of::<Communicator>()]);
        self.write(at + offset_of!(Communicator, generation), &generation.to_le_bytes());
        self.write(at + offset_of!(Communicator, pointer), &pointer.to_le_bytes());
        self.write(at + offset_of!(Communicator, comm_hash), &hash.to_le_bytes());
        self.write(at + offset_of!(Communicator, created_ticks), &created.to_le_bytes());
        self.write(at + offset_of!(Communicator, n_ranks), &2_i32.to_le_bytes());
        self.write(at + offset_of!(Communicator, device), &4_i32.to_le_bytes());
        self.communicator_state(slot, COMMUNICATOR_ACTIVE);
        self.live(offset_of!(Live, n_communicators), u32::try_from(slot + 1).expect("few"));
    }

    pub fn communicator_state(&self, slot: usize, state: u32) {
        self.write(Self::slot(slot) + offset_of!(Communicator, state), &state.to_le_bytes());
    }

    pub fn control(&self) -> u32 {
        self.live_word(offset_of!(Live, control))
    }

    pub fn wanted_places(&self) -> u32 {
        self.live_word(offset_of!(Live, wanted_places))
    }

    fn live_word(&self, field: usize) -> u32 {
        let mut bytes = [0; 4];
        self.file.read_exact_at(&mut bytes, (offset_of!(Segment, live) + field) as u64).expect("read");
        u32::from_le_bytes(bytes)
    }

    pub fn read_generation(&self, slot: usize) -> u32 {
        let mut bytes = [0; 4];
        let at = Self::slot(slot) + offset_of!(Communicator, read_generation);
        self.file.read_exact_at(&mut bytes, at as u64).expect("read");
        u32::from_le_bytes(bytes)
    }

    /// Cumulative calls, each of 100 bytes.
    pub fn calls(&self, slot: usize, primitive: Primitive, issued: u64, completed: u64) {
        let at =
            Self::slot(slot) + offset_of!(Communicator, counters) + primitive.index() * size_of::<Counters>();
        for (field, value) in [
            (offset_of!(Counters, issued_calls), issued),
            (offset_of!(Counters, issued_bytes), issued * 100),
            (offset_of!(Counters, completed_calls), completed),
            (offset_of!(Counters, completed_bytes), completed * 100),
            (offset_of!(Counters, busy_ticks), completed * 10),
        ] {
            self.write(at + field, &value.to_le_bytes());
        }
    }

    /// A link in one of the first 64 places, which are the first region.
    pub fn link(&self, index: usize, generation: u32, slot: u16, peer: u32, bytes: u64) {
        let regions = offset_of!(Segment, live) + offset_of!(Live, link_regions);
        self.write(regions, &1_u64.to_le_bytes());
        let at = offset_of!(Segment, links) + index * size_of::<Link>();
        let key = link_key(generation, slot, Primitive::AllReduce as u8, peer);
        self.write(at + offset_of!(Link, sent_bytes), &bytes.to_le_bytes());
        self.write(at + offset_of!(Link, key), &key.to_le_bytes());
    }

    /// Writes a record of slot 0, generation 1, and returns its ticket.
    pub fn record(&mut self, seq_number: u64, state: u32) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.record_at(ticket, seq_number, state);
        let at = offset_of!(Segment, live) + offset_of!(Live, next_ticket);
        self.write(at, &self.next_ticket.to_le_bytes());
        ticket
    }

    pub fn record_field(&self, ticket: u64, field: usize, bytes: &[u8]) {
        let index = usize::try_from(ticket).expect("small") % MAX_RECORDS;
        self.write(offset_of!(Segment, records) + index * size_of::<Record>() + field, bytes);
    }

    pub fn record_at(&self, ticket: u64, seq_number: u64, state: u32) {
        let index = usize::try_from(ticket).expect("small") % MAX_RECORDS;
        let at = offset_of!(Segment, records) + index * size_of::<Record>();
        for (field, value) in [
            (offset_of!(Record, ticket), ticket + 1),
            (offset_of!(Record, issued_ticks), ANCHOR_TICKS + seq_number),
            (offset_of!(Record, completed_ticks), ANCHOR_TICKS + seq_number + 50),
            (offset_of!(Record, count), 25),
            (offset_of!(Record, numbers), seq_number),
        ] {
            self.write(at + field, &value.to_le_bytes());
        }
        self.write(at + offset_of!(Record, what), &7_u32.to_le_bytes());
        self.write(at + offset_of!(Record, peer), &(-1_i32).to_le_bytes());
        self.write(at + offset_of!(Record, state), &(state | 1 << 8).to_le_bytes());
    }
}
