//! What lies where in a segment. `#[repr(C)]`, little-endian, no padding that means anything.
//!
//! Invariant: [`Fixed`] is written before the file gets its name and never again. All else is atomic and starts as
//! zero, so a sparse file of the right length is an empty segment.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First eight bytes of every segment.
pub const MAGIC: [u8; 8] = *b"ringscop";
/// Version of this layout. A reader refuses any other. Since 7 the area of the summation service ends in what comparisons of
/// parameters have come to, results have their placement, and there are
/// [groups](super::groups).
pub const VERSION: u32 = 7;
/// Communicators that one process can have at once. A slot is used again once its last state has been read, or where no
/// other is left.
pub const MAX_COMMUNICATORS: usize = 4096;
/// Counter blocks per communicator, of which [`crate::Primitive::ALL`] are in use.
pub const MAX_PRIMITIVES: usize = 16;
/// Distinct (communicator, primitive, peer) whose network bytes are counted apart.
pub const MAX_LINKS: usize = 4096;
/// Links of one region: the table is read region by region, and most jobs have few links.
pub const LINKS_PER_REGION: usize = MAX_LINKS / 64;
/// Regions of the table of pairs, likewise.
pub const PAIRS_PER_REGION: usize = super::calls::layout::MAX_PAIRS / 64;
/// Operation records kept at most: the newest. A power of two. Most processes do with fewer: [`Live::n_places`].
pub const MAX_RECORDS: usize = 16_384;
/// Tickets that a thread gets at once.
pub const RECORDS_PER_BLOCK: usize = 64;
/// [`Record::ticket`]: the rest of the record is not to be read.
pub const BEING_WRITTEN: u64 = 1 << 63;
/// Bytes at the start of the file for [`Fixed`] and [`Live`].
pub const HEADER_BYTES: usize = 4096;

/// A segment, whole. Never built by value: the collector maps the file and refers to it.
#[repr(C)]
#[expect(missing_docs, reason = "each part is documented at its type")]
pub struct Segment {
    pub fixed: Fixed,
    pub live: Live,
    pub communicators: [Communicator; MAX_COMMUNICATORS],
    pub links: [Link; MAX_LINKS],
    pub records: [Record; MAX_RECORDS],
    pub summation: super::summation::layout::Area,
    pub calls: super::calls::layout::Area,
    pub groups: super::groups::Area,
}

/// Written once, before anyone can see the file. Texts are UTF-8, cut to fit, padded with NUL.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Fixed {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// Process id as the process sees it.
    pub pid: u32,
    /// Length of the whole file in bytes: `size_of::<Segment>()`.
    pub segment_bytes: u64,
    /// Wall time at which the process started, nanoseconds since the Unix epoch.
    pub start_time_ns: u64,
    /// Clock anchor: value of the tick counter ...
    pub anchor_ticks: u64,
    /// ... `CLOCK_MONOTONIC` in nanoseconds at the same instant ...
    pub anchor_monotonic_ns: u64,
    /// ... and `CLOCK_REALTIME`.
    pub anchor_wall_ns: u64,
    /// What a tick is: [`TICKS_MONOTONIC_NS`] or [`TICKS_COUNTER`].
    pub tick_kind: u32,
    /// Rank in the job as the launcher says, -1 if it does not.
    pub global_rank: i32,
    /// Ranks in the job, -1 if not said.
    pub world_size: i32,
    /// Rank among the job's processes on this host, -1 if not said.
    pub local_rank: i32,
    /// Host that the process counts itself to.
    pub host: [u8; 128],
    /// Job id; empty if no launcher named one.
    pub job: [u8; 128],
    /// What `ringscope run` called this start (it is in the name of the private log); empty without it.
    pub run_id: [u8; 64],
    /// Name of the executable.
    pub executable: [u8; 64],
    /// Kubernetes namespace.
    pub k8s_namespace: [u8; 64],
    /// Kubernetes pod.
    pub k8s_pod: [u8; 128],
    /// Path of the library's log (`NCCL_DEBUG_FILE` as set, `%h` and `%p` not replaced); empty if it has none.
    pub log_file: [u8; 512],
    /// User whose file this is, as the process knows him, plus one. 0: not said, as by collectors that do not know this field.
    pub user: u64,
}

/// Ticks are `CLOCK_MONOTONIC` nanoseconds.
pub const TICKS_MONOTONIC_NS: u32 = 1;
/// Ticks are the processor's constant-rate counter (`rdtsc`, `cntvct_el0`), the same on every core of the machine.
/// A reader on the same machine finds its rate from the anchor and a second reading of its own.
pub const TICKS_COUNTER: u32 = 2;

/// What changes while the process runs. Padded so that head and header end on [`HEADER_BYTES`].
#[derive(FromBytes, KnownLayout)]
#[repr(C, align(64))]
pub struct Live {
    /// Written by the agent: one of the `CONTROL_*`.
    pub control: AtomicU32,
    /// Written by the collector: [`STATE_ON`], [`STATE_OFF`] or [`STATE_FAULT`].
    pub state: AtomicU32,
    /// 1 once the process has run its exit handlers.
    pub exited: AtomicU32,
    /// Communicator slots ever used (the rest are zero).
    pub n_communicators: AtomicU32,
    /// `ncclGetVersion` of the real library, 0 while not known.
    pub library_version: AtomicU32,
    /// Version of the profiler interface through which the library speaks to the collector, 0 while it does not.
    pub profiler_version: AtomicU32,
    /// Events dropped, by [`DropReason`].
    pub dropped: [AtomicU64; MAX_REASONS],
    /// How much the collector asks the library for now: one of the `LEVEL_*`, 0 while nothing has been asked.
    pub level: AtomicU32,
    /// The `LIVE_*` bits that hold.
    pub flags: AtomicU32,
    /// Copies of the library in this process that calls have been forwarded to.
    pub n_libraries: AtomicU32,
    /// Entries of [`super::calls::layout::Area::threads`] ever used (the rest are zero).
    pub n_threads: AtomicU32,
    /// Calls that register memory or windows.
    pub registrations: AtomicU64,
    /// Regions of the link table that were ever used: bit `i` stands for the [`LINKS_PER_REGION`] links from
    /// `i * LINKS_PER_REGION` on. Set before the first key of the region, never cleared: a reader skips the others.
    pub link_regions: AtomicU64,
    /// The same of the table of pairs and its [`PAIRS_PER_REGION`].
    pub pair_regions: AtomicU64,
    /// Ticks at which the collector was switched off, or switched itself off; 0 while it is on.
    pub off_since_ticks: AtomicU64,
    /// Ticket from which the next thread gets some. Not every earlier one has a record: see [`Record`]. No call
    /// reads what else lies in its cache line.
    pub next_ticket: AtomicU64,
    /// Places of records in use, from the first on; 0 stands for all. Never fewer than before.
    pub n_places: AtomicU32,
    /// Written by the agent: how many there should be, so that a record stays until it has been read. 0: as many as there are.
    pub wanted_places: AtomicU32,
    /// By how much device times may lie beside the truth, in ticks: the worst of all streams. 0: there are none.
    pub device_error_ticks: AtomicU64,
    /// Written once, before anyone can see the file.
    pub scheduled: Scheduled,
    /// What the program gave to `exit`, its low 8 bits, plus one. 0: not said, as by collectors that do not know this.
    pub exit_status: AtomicU32,
    _reserved: AtomicU32,
    _tail: [[u8; 8]; LIVE_TAIL_WORDS],
}

/// Where a scheduler has put the process. Numbers are one more than what they say; 0: not said, as by collectors that do not
/// know this. Texts as in [`Fixed`].
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Scheduled {
    /// Kubernetes pod, where [`Fixed::k8s_pod`] has no room for all of it.
    pub k8s_pod: [u8; 256],
    /// Kubernetes node.
    pub k8s_node: [u8; 256],
    /// Container of the pod.
    pub k8s_container: [u8; 64],
    /// Slurm's node.
    pub slurm_node: [u8; 64],
    /// Slurm's job.
    pub slurm_job_id: u32,
    /// Its step.
    pub slurm_step_id: u32,
    /// The array that it is a task of ...
    pub slurm_array_job_id: u32,
    /// ... and which.
    pub slurm_array_task_id: u32,
    /// The heterogeneous job that it is a part of ...
    pub slurm_het_job_id: u32,
    /// ... and which.
    pub slurm_het_component: u32,
    /// How often it was put back into the queue.
    pub slurm_restarts: u32,
    /// Nothing yet.
    pub reserved: u32,
}

/// Room for reasons in [`Live::dropped`].
pub const MAX_REASONS: usize = 23;
const LIVE_TAIL_WORDS: usize = (HEADER_BYTES - LIVE_OFFSET - 288 - size_of::<Scheduled>()) / 8;
const LIVE_OFFSET: usize = size_of::<Fixed>().next_multiple_of(64);

/// [`Live::control`]: count and record, at the level that the process was started with.
pub const CONTROL_ON: u32 = 0;
/// [`Live::control`]: forward calls and record none. Communicators are still followed, so that their calls count once
/// the collector is on again; what was issued before still completes.
pub const CONTROL_OFF: u32 = 1;

/// [`Live::control`]: count and record at [`LEVEL_COUNTERS`].
pub const CONTROL_COUNTERS: u32 = 2;
/// [`Live::control`]: count and record at [`LEVEL_CHANNELS`].
pub const CONTROL_CHANNELS: u32 = 3;
/// [`Live::control`]: count and record at [`LEVEL_STEPS`].
pub const CONTROL_STEPS: u32 = 4;
/// [`Live::control`]: as [`CONTROL_STEPS`], by diagnosis and for a while, where it was [`CONTROL_ON`]: nobody had said
/// another level. To a collector that does not know it, it is [`CONTROL_ON`].
pub const CONTROL_RAISED: u32 = 5;
/// [`Live::control`]: count and record at [`LEVEL_EVENTS`]. To a collector that does not know it, it is [`CONTROL_ON`].
pub const CONTROL_EVENTS: u32 = 6;

/// [`Live::level`]: issued and completed counters, at the least cost that gives them.
pub const LEVEL_COUNTERS: u32 = 1;
/// [`Live::level`]: also when each channel of each operation finishes (`KernelCh`).
pub const LEVEL_CHANNELS: u32 = 2;
/// [`Live::level`]: also each network step, and so bytes per link (`ProxyStep`).
pub const LEVEL_STEPS: u32 = 3;
/// [`Live::level`]: as [`LEVEL_COUNTERS`], and CUDA events tell when the device begins and ends each operation.
pub const LEVEL_EVENTS: u32 = 4;

/// [`Live::flags`]: another profiler plugin was configured and gets all events too.
pub const LIVE_CHAINED: u32 = 1;
/// [`Live::flags`]: a CUDA driver is there and completion by events is possible.
pub const LIVE_DRIVER: u32 = 2;
/// [`Live::flags`]: at least one function of the library was called through the collector's own.
pub const LIVE_CALLED: u32 = 4;

/// [`Live::state`]: counting.
pub const STATE_ON: u32 = 1;
/// [`Live::state`]: obeying [`CONTROL_OFF`].
pub const STATE_OFF: u32 = 2;
/// [`Live::state`]: switched itself off after a fault.
pub const STATE_FAULT: u32 = 3;

/// Why the collector dropped an event. The discriminant is the index in [`Live::dropped`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DropReason {
    /// All communicator slots are taken, or there is no memory for another: nothing of the communicator is counted.
    CommunicatorTableFull = 0,
    /// All links are taken, or there is no memory for another: the bytes are not attributed to a peer.
    LinkTableFull = 1,
    /// The record had been overwritten by newer ones before its operation completed, which is then never counted.
    RecordOverwritten = 2,
    /// A call on a communicator that the collector never saw made.
    UnknownCommunicator = 3,
    /// A profiler event that belongs to no record.
    UnmatchedEvent = 4,
    /// A network step beyond those that can be followed at once: counted when handed over, not when done.
    StepTableFull = 5,
    /// A panic caught at the C fence.
    Panic = 6,
    /// A call made while the segment could not be created.
    NoSegment = 7,
    /// A profiler event of a type that this collector does not know.
    UnknownEvent = 8,
    /// A profiler event out of order: stopped twice, stopped without a start, or never stopped.
    EventOutOfOrder = 9,
    /// A call behind which no CUDA event could be recorded: it completes with the next one of its stream. Where the stream
    /// has none at all (too many streams at once, or a driver that gives none) it never does.
    EventPoolFull = 10,
    /// A call for which no loaded copy of the library was found.
    NoLibrary = 11,
    /// A profiler event that the program's own plugin asked for and did not get: too many were under way at once.
    ChainedEvent = 12,
    /// A summation group of more services or workers than the segment has room for: it is not followed.
    SummationGroupTooLarge = 13,
    /// A summation group that nobody follows: `libringscope_watcher.so` is not beside the collector, or not of its version.
    NoSummationWatcher = 14,
    /// A call of send or recv whose peer found no place among the pairs: it is counted, but not by peer.
    PairTableFull = 15,
    /// A communicator that had ended and whose end nobody had read when its slot was used again.
    CommunicatorNotRead = 16,
    /// A communicator whose end nobody saw: the library has given its pointer to another one.
    CommunicatorReplaced = 17,
    /// An operation without device times: too many on its stream had times to come.
    DeviceTimesFull = 18,
    /// The driver failed to tell device times. None are asked for until the level is set anew.
    DeviceTimesFailed = 19,
    /// An operation without device times: its calls failed, or the library was still enqueueing it when they returned.
    DeviceTimesUnbounded = 20,
}

impl DropReason {
    /// Every reason, in the order of its index.
    pub const ALL: [Self; 21] = [
        Self::CommunicatorTableFull,
        Self::LinkTableFull,
        Self::RecordOverwritten,
        Self::UnknownCommunicator,
        Self::UnmatchedEvent,
        Self::StepTableFull,
        Self::Panic,
        Self::NoSegment,
        Self::UnknownEvent,
        Self::EventOutOfOrder,
        Self::EventPoolFull,
        Self::NoLibrary,
        Self::ChainedEvent,
        Self::SummationGroupTooLarge,
        Self::NoSummationWatcher,
        Self::PairTableFull,
        Self::CommunicatorNotRead,
        Self::CommunicatorReplaced,
        Self::DeviceTimesFull,
        Self::DeviceTimesFailed,
        Self::DeviceTimesUnbounded,
    ];

    /// The word used in labels and in JSON.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::CommunicatorTableFull => "communicator_table_full",
            Self::LinkTableFull => "link_table_full",
            Self::RecordOverwritten => "record_overwritten",
            Self::UnknownCommunicator => "unknown_communicator",
            Self::UnmatchedEvent => "unmatched_event",
            Self::StepTableFull => "step_table_full",
            Self::Panic => "panic",
            Self::NoSegment => "no_segment",
            Self::UnknownEvent => "unknown_event",
            Self::EventOutOfOrder => "event_out_of_order",
            Self::EventPoolFull => "event_pool_full",
            Self::NoLibrary => "no_library",
            Self::ChainedEvent => "chained_event",
            Self::SummationGroupTooLarge => "summation_group_too_large",
            Self::NoSummationWatcher => "no_summation_watcher",
            Self::PairTableFull => "pair_table_full",
            Self::CommunicatorNotRead => "communicator_not_read",
            Self::CommunicatorReplaced => "communicator_replaced",
            Self::DeviceTimesFull => "device_times_full",
            Self::DeviceTimesFailed => "device_times_failed",
            Self::DeviceTimesUnbounded => "device_times_unbounded",
        }
    }
}

/// One communicator slot with its counters.
#[derive(FromBytes, KnownLayout)]
#[repr(C, align(64))]
pub struct Communicator {
    /// One of the `COMMUNICATOR_*` states; written last with Release when a slot is filled.
    pub state: AtomicU32,
    /// Counts the uses of this slot from 1.
    pub generation: AtomicU32,
    /// Written by the agent: the generation whose ended state it has read. The slot may then be used again.
    pub read_generation: AtomicU32,
    /// How the end of its operations is known now: one of the `COMPLETION_*`. Threads that call on other communicators read it, so
    /// it lies where no call writes.
    pub completion: AtomicU32,
    /// `ncclComm_t`: the number that NCCL's log prints as `comm %p`.
    pub pointer: AtomicU64,
    /// commHash, 0 while not known.
    pub comm_hash: AtomicU64,
    /// commHash of the parent, 0 if there is none.
    pub parent_hash: AtomicU64,
    /// Ticks at which its init was called.
    pub created_ticks: AtomicU64,
    /// Ticks at which it was destroyed or aborted, 0 before.
    pub ended_ticks: AtomicU64,
    /// Rank of this process in it.
    pub rank: AtomicI32,
    /// Number of ranks.
    pub n_ranks: AtomicI32,
    /// Number of NCCL nodes, 0 while not known (the profiler's init says it).
    pub n_nodes: AtomicI32,
    /// `ncclCommCuDevice`, -1 if not known.
    pub device: AtomicI32,
    /// `ncclConfig_t.commName`, little-endian UTF-8, padded with NUL.
    pub name: [AtomicU64; 8],
    /// Who has spoken of it: `SOURCE_*` bits.
    pub sources: AtomicU32,
    /// Which function made it: one of the `MADE_BY_*`.
    pub made_by: AtomicU32,
    /// Compute capability of the device times ten (90 is 9.0), 0 while not known.
    pub compute_capability: AtomicU32,
    /// `ncclConfig_t.minCTAs`, 0 where the program set none.
    pub min_ctas: AtomicI32,
    /// `ncclConfig_t.maxCTAs`, 0 where the program set none.
    pub max_ctas: AtomicI32,
    /// Whether it shares its parent's channels (`splitShare`, `shrinkShare`): 0 not said, 1 no, 2 yes.
    pub shares_resources: AtomicU32,
    /// Which copy of the library has it, counting from 0.
    pub library: AtomicU32,
    /// `ncclResult_t` of the last error: what `ncclCommGetAsyncError` said, or what a call on it returned. 0: none. The
    /// same error again changes neither function nor time. Written last of the three, with Release.
    pub error: AtomicU32,
    /// Ticks at which it was heard of.
    pub error_ticks: AtomicU64,
    /// Function that said so: its number ([`super::calls::layout::FUNCTIONS`]).
    pub error_function: AtomicU32,
    /// The `LOST_*` bits that hold: why it is not known of all its operations whether they are over. They stay.
    pub lost: AtomicU32,
    /// Collective calls so far, whatever has become of them.
    pub calls: AtomicU64,
    /// Hash over their signatures ([`super::calls::hash`]).
    pub calls_hash: AtomicU64,
    /// [`super::calls::hash::check`] of the two: with any other number they are being written.
    pub calls_check: AtomicU64,
    /// Marks so far; the newest lie in [`super::calls::layout::Area::marks`].
    pub n_marks: AtomicU64,
    /// The collector's own: number of the group that it last made a collective call in ...
    pub group: AtomicU64,
    /// ... and calls and hash as they were before that group.
    pub group_calls: AtomicU64,
    /// See there.
    pub group_hash: AtomicU64,
    /// Counters by [`crate::Primitive`].
    pub counters: [Counters; MAX_PRIMITIVES],
}

/// [`Communicator::state`]: the slot holds nothing (yet, or because it is being filled again).
pub const COMMUNICATOR_FREE: u32 = 0;
/// [`Communicator::state`]: its init has been called and is not over. One that does not block has its pointer already.
pub const COMMUNICATOR_FORMING: u32 = 1;
/// [`Communicator::state`]: its init succeeded.
pub const COMMUNICATOR_ACTIVE: u32 = 2;
/// [`Communicator::state`]: destroyed.
pub const COMMUNICATOR_DESTROYED: u32 = 3;
/// [`Communicator::state`]: aborted.
pub const COMMUNICATOR_ABORTED: u32 = 4;
/// [`Communicator::state`]: its init failed.
pub const COMMUNICATOR_FAILED: u32 = 5;

/// [`Communicator::made_by`]: `ncclCommInitRank` and its variants.
pub const MADE_BY_INIT: u32 = 1;
/// [`Communicator::made_by`]: `ncclCommSplit`.
pub const MADE_BY_SPLIT: u32 = 2;
/// [`Communicator::made_by`]: `ncclCommShrink`.
pub const MADE_BY_SHRINK: u32 = 3;
/// [`Communicator::made_by`]: `ncclCommGrow`.
pub const MADE_BY_GROW: u32 = 4;
/// [`Communicator::made_by`]: no call was seen, only the profiler spoke of it.
pub const MADE_BY_UNSEEN: u32 = 5;
/// [`Communicator::made_by`]: the summation service, whose group it carries; no call of NCCL's made it.
pub const MADE_BY_SUMMATION: u32 = 6;

/// [`Communicator::sources`]: its init was called through the collector.
pub const SOURCE_CALLS: u32 = 1;
/// [`Communicator::sources`]: the library initialised the profiler plugin for it.
pub const SOURCE_PLUGIN: u32 = 2;

/// [`Communicator::completion`]: nothing tells it.
pub const COMPLETION_NONE: u32 = 0;
/// [`Communicator::completion`]: the profiler tells it, channel by channel.
pub const COMPLETION_PROFILER: u32 = 1;
/// [`Communicator::completion`]: a CUDA event behind the operations of a stream tells it for all before it.
pub const COMPLETION_EVENTS: u32 = 2;

/// [`Communicator::lost`]: the record of an operation in flight was overwritten by newer ones.
pub const LOST_RECORD: u32 = 1;
/// [`Communicator::lost`]: no CUDA event could be recorded behind an operation.
pub const LOST_CUDA_EVENT: u32 = 2;
/// [`Communicator::lost`]: the profiler's events of an operation could not be followed.
pub const LOST_PROFILER_EVENT: u32 = 4;
/// [`Communicator::lost`]: a CUDA graph has run of which nobody tells the end, for the library was asked for no channels when it
/// was captured. Its calls count as completed when it begins.
pub const LOST_RUN: u32 = 8;

/// Counters of one (communicator, primitive). Issued and completed lie in different cache lines because different
/// threads write them.
///
/// Issued counters advance when the library has taken the call, and it may finish a call before it returns: for an
/// instant completed may be ahead of issued. A reader takes issued to be at least completed. Within one
/// generation of the slot none decreases.
#[derive(FromBytes, KnownLayout)]
#[repr(C, align(128))]
pub struct Counters {
    /// Calls handed to the library.
    pub issued_calls: AtomicU64,
    /// Payload bytes of those calls, by NCCL's convention (`reference` in the repository's ARCHITECTURE.md).
    pub issued_bytes: AtomicU64,
    /// Calls that the library refused, which are not in issued; and, once the communicator is aborted, those that were
    /// in flight then, which are.
    pub failed_calls: AtomicU64,
    /// Calls so far, whether issued yet or not: the next record's sequence number.
    pub next_seq_number: AtomicU64,
    /// Calls captured into a CUDA graph: templates, not in issued.
    pub captured_calls: AtomicU64,
    /// Payload bytes of one run of each of those.
    pub captured_bytes: AtomicU64,
    _pad: [AtomicU64; 2],
    /// Calls that the library has finished.
    pub completed_calls: AtomicU64,
    /// Their bytes.
    pub completed_bytes: AtomicU64,
    /// Sum over completed calls of completed minus issued, in ticks.
    pub busy_ticks: AtomicU64,
    /// Runs of captured calls that the library reported. They are in issued and in completed too.
    pub replayed_calls: AtomicU64,
    /// Their bytes.
    pub replayed_bytes: AtomicU64,
    _tail: [AtomicU64; 3],
}

/// Network bytes from this rank to one peer for one primitive. An entry is taken by setting `key` from 0.
#[derive(FromBytes, KnownLayout)]
#[repr(C)]
pub struct Link {
    /// [`link_key`] of what is counted here, 0 if free; without the highest bit: freed, to be skipped.
    pub key: AtomicU64,
    /// Payload bytes whose network step has completed.
    pub sent_bytes: AtomicU64,
    /// Such steps.
    pub sent_steps: AtomicU64,
    /// Ticks from the moment in which a step's bytes were handed to the network until it was done with them, over all of these
    /// steps: of several at once each counts. 0 where collectors do not know this field.
    pub sending_ticks: AtomicU64,
}

/// Packs what a [`Link`] counts: `1 << 63 | generation (low 15 bits) << 48 | communicator << 36 | primitive << 32 | peer`.
#[must_use]
pub const fn link_key(generation: u32, communicator: u16, primitive: u8, peer: u32) -> u64 {
    1 << 63
        | ((generation & 0x7fff) as u64) << 48
        | ((communicator & 0xfff) as u64) << 36
        | ((primitive & 0xf) as u64) << 32
        | peer as u64
}

/// One operation. Ticket `t` lies at index `t % MAX_RECORDS`. A ticket whose place is not in use ([`Live::n_places`]) is passed
/// over, as are those that are left of a lap when places are added.
///
/// A thread gets [`RECORDS_PER_BLOCK`] tickets at once and uses them one after the other, so that threads do not meet at a
/// counter: tickets tell the order of one thread's calls, not of those of several, and some may not be used for long. A
/// thread that comes back to its tickets when their places have been given to another one drops them.
///
/// A new record passes over up to three places whose operation is still in flight, so that a hang stays readable
/// however much comes after it. The tickets passed over never get a record: the older one stands in their place.
///
/// A writer sets `ticket` to `t + 1` with [`BEING_WRITTEN`], fills the rest and stores `t + 1` with Release. A reader reads
/// twice: where what does not change in a record has changed, it was being replaced.
#[derive(FromBytes, KnownLayout)]
#[repr(C, align(64))]
pub struct Record {
    /// Ticket plus one, with [`BEING_WRITTEN`] while it is; 0 where there never was a record, or it does not count.
    pub ticket: AtomicU64,
    /// Ticks at which the call was made.
    pub issued_ticks: AtomicU64,
    /// Ticks at which the last channel finished; 0 before. While queued in a group: ticket plus one of the group's
    /// previous record, 0 at its first.
    pub completed_ticks: AtomicU64,
    /// Elements as the caller gave them. Bytes follow from them and the datatype.
    pub count: AtomicU64,
    /// Counts the calls of this (communicator, primitive) from 0 (low 32 bits, the low half), and the collective calls of
    /// the communicator (low 32 bits, the high half; nothing where the primitive is not numbered).
    pub numbers: AtomicU64,
    /// `communicator << 20 | flags << 16 | op << 12 | primitive << 8 | datatype`; flags: [`START_KNOWN`], [`NUMBERED`],
    /// [`ENDS_BY_ORDER`].
    pub what: AtomicU32,
    /// Peer of send and recv, root of rooted collectives, else -1.
    pub peer: AtomicI32,
    /// `generation << 8 | lap << 3 | state`: the low 24 bits of the communicator slot's generation, the low [`LAP_BITS`] of
    /// the ticket's lap (`ticket / MAX_RECORDS`), and one of the `OPERATION_*` states.
    pub state: AtomicU32,
    /// Channels that take part (low 16 bits) and that have finished (high 16 bits).
    pub channels: AtomicU32,
    /// From the call until its first channel began on the device, in units of `1 << STARTED_SHIFT` ticks, at least 1 and at
    /// most what fits; 0 before.
    pub started: AtomicU32,
    /// `stream << 20 | group`: a number for the stream within the process, 0 if not known; a number for the group that it
    /// was called in, 0 for none.
    pub place: AtomicU32,
}

/// [`Record::what`] from here up: the communicator's slot.
pub const WHAT_SLOT_SHIFT: u32 = 20;
/// [`Record::what`] from here up: the reduction, in 4 bits.
pub const WHAT_OP_SHIFT: u32 = 12;
/// [`Record::what`] from here up: the primitive, in 4 bits.
pub const WHAT_PRIMITIVE_SHIFT: u32 = 8;
/// [`Record::what`]: something would tell that the operation has started.
pub const START_KNOWN: u32 = 1 << 19;
/// [`Record::what`]: it has a number among the collective calls.
pub const NUMBERED: u32 = 1 << 18;
/// [`Record::what`]: nobody tells when it is over but what begins after it on its stream, so one that is in flight may have
/// ended long ago.
pub const ENDS_BY_ORDER: u32 = 1 << 17;
/// [`Record::started`] counts so many ticks as one: about a microsecond, over hours.
pub const STARTED_SHIFT: u32 = 12;
/// Bits of [`Record::place`] that are the group's.
pub const GROUP_BITS: u32 = 20;
/// Highest number of a stream.
pub const MAX_STREAM: u32 = (1 << (32 - GROUP_BITS)) - 1;

/// [`Record::state`]: bits that are the `OPERATION_*` state.
pub const OPERATION_MASK: u32 = (1 << LAP_SHIFT) - 1;
/// [`Record::state`]: where the lap is, which tells a record from the one that had its place before.
pub const LAP_SHIFT: u32 = 3;
/// [`Record::state`]: bits of the lap.
pub const LAP_BITS: u32 = 5;
/// [`Record::state`]: called inside a group that has not ended.
pub const OPERATION_QUEUED: u32 = 1;
/// [`Record::state`]: handed to the library. A call outside a group is so from the start.
pub const OPERATION_ISSUED: u32 = 2;
/// [`Record::state`]: every channel has finished.
pub const OPERATION_COMPLETED: u32 = 3;
/// [`Record::state`]: refused by the library, or its communicator was aborted.
pub const OPERATION_FAILED: u32 = 4;
/// [`Record::state`]: captured into a CUDA graph: a template that runs when the graph does.
pub const OPERATION_CAPTURED: u32 = 5;

const _: () = {
    assert!(size_of::<Counters>() == 128);
    assert!(size_of::<Communicator>() == 256 + 128 * MAX_PRIMITIVES);
    assert!(size_of::<Link>() == 32);
    assert!(size_of::<Record>() == 64);
    assert!(MAX_COMMUNICATORS <= 1 << (32 - WHAT_SLOT_SHIFT));
    assert!(MAX_PRIMITIVES <= 16);
    assert!(size_of::<Segment>().is_multiple_of(64));
    assert!(MAX_RECORDS.is_power_of_two());
    assert!(std::mem::offset_of!(Segment, live) == LIVE_OFFSET);
    assert!(std::mem::offset_of!(Segment, communicators) == HEADER_BYTES);
    assert!(std::mem::offset_of!(Live, next_ticket).is_multiple_of(64));
};
