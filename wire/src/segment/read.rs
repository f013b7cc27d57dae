//! From the bytes of a segment, whole, cut or hostile, to plain values or an error that says what is wrong.
//!
//! Never panics, never trusts a length or an index that the file gives.

use std::mem::offset_of;

use zerocopy::FromBytes;

use super::calls::hash::NO_OP;
use super::calls::layout::MAX_THREADS;
use super::calls::read::{Sequence, Thread, function, threads};
use super::clock::ClockAnchor;
use super::groups::{GroupOfRanks, groups};
use super::layout::{
    BEING_WRITTEN, Communicator as CommunicatorLayout, DropReason, ENDS_BY_ORDER, Fixed, GROUP_BITS,
    LAP_BITS, LAP_SHIFT, LINKS_PER_REGION, Link as LinkLayout, Live, MAGIC, MAX_COMMUNICATORS, MAX_RECORDS,
    NUMBERED, OPERATION_MASK, Record as RecordLayout, START_KNOWN, STARTED_SHIFT,
    Scheduled as ScheduledLayout, Segment, TICKS_COUNTER, TICKS_MONOTONIC_NS, VERSION, WHAT_OP_SHIFT,
    WHAT_PRIMITIVE_SHIFT, WHAT_SLOT_SHIFT,
};
use super::summation::read::{Summation, summation};
use crate::Primitive;
use crate::launch::{Scheduled, Slurm};

/// Why bytes are not a segment that this build can read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SegmentError {
    /// The first bytes are something else.
    #[error("not a ringscope segment (it begins with {found:02x?})")]
    NotASegment {
        /// What stands there.
        found: [u8; 8],
    },
    /// Another version of the layout.
    #[error(
        "segment version {found}, but this agent reads version {VERSION}: use the agent and the collector of one release"
    )]
    UnknownVersion {
        /// What the file says.
        found: u32,
    },
    /// The file ends too soon.
    #[error("segment is cut: {found} bytes, {needed} needed")]
    Truncated {
        /// Bytes there are.
        found: u64,
        /// Bytes there must be.
        needed: u64,
    },
    /// A value that no collector writes.
    #[error("segment is corrupt: {what}")]
    Corrupt {
        /// Which value, and what it is.
        what: String,
    },
}

/// Where a segment's bytes come from: a file, or a slice in tests.
pub trait Source {
    /// What reading can fail with, besides the bytes being no segment.
    type Error: From<SegmentError>;

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// [`SegmentError::Truncated`] where the source ends before the buffer is full, or the source's own error.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Self::Error>;
}

impl Source for &[u8] {
    type Error = SegmentError;

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), SegmentError> {
        let needed = offset.saturating_add(buffer.len() as u64);
        let truncated = SegmentError::Truncated { found: self.len() as u64, needed };
        let start = usize::try_from(offset).map_err(|_| truncated)?;
        let bytes = start
            .checked_add(buffer.len())
            .and_then(|end| self.get(start..end))
            .ok_or(SegmentError::Truncated { found: self.len() as u64, needed })?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}

/// All of a segment but its records and results, at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Who the process is.
    pub identity: Identity,
    /// How ticks become time.
    pub clock: ClockAnchor,
    /// What the agent has asked for: one of `layout::CONTROL_*`.
    pub control: u32,
    /// What the collector is doing: one of `layout::STATE_*`, 0 if it has not said.
    pub state: u32,
    /// Whether the process ran its exit handlers.
    pub exited: bool,
    /// With which status, 0 to 255, if it did. `None`: not said.
    pub exit_status: Option<u32>,
    /// `ncclGetVersion` of the real library, 0 if not known.
    pub library_version: u32,
    /// Version of the profiler interface in use, 0 if none.
    pub profiler_version: u32,
    /// How much the collector asks for: one of `layout::LEVEL_*`, 0 if it has not asked.
    pub level: u32,
    /// By how much device times may lie beside the truth, in ticks. `None`: there are none.
    pub device_error_ticks: Option<u64>,
    /// `layout::LIVE_*` bits.
    pub flags: u32,
    /// Copies of the library that calls were forwarded to.
    pub n_libraries: u32,
    /// Calls that register memory or windows.
    pub registrations: u64,
    /// What the collector dropped, reasons with at least one event only.
    pub dropped: Vec<(DropReason, u64)>,
    /// Every communicator slot that is or was in use.
    pub communicators: Vec<Communicator>,
    /// Every link with its bytes.
    pub links: Vec<Link>,
    /// Records written so far.
    pub next_ticket: u64,
    /// Places of records in use.
    pub n_places: usize,
    /// The summation group that the process is in, or was in last.
    pub summation: Summation,
    /// Groups of ranks that the program's framework has made.
    pub groups: Vec<GroupOfRanks>,
    /// Threads that have called the library, each with its last call.
    pub threads: Vec<Thread>,
    /// Ticks at which the collector was switched off, or switched itself off, if it is.
    pub off_since_ticks: Option<u64>,
}

/// Who a process is, as its segment says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Process id as the process sees it.
    pub pid: u32,
    /// Wall time of its start, nanoseconds since the Unix epoch.
    pub start_time_ns: u64,
    /// Host that it counts itself to.
    pub host: String,
    /// Job id; empty if no launcher named one.
    pub job: String,
    /// What `ringscope run` called this start; empty without it.
    pub run_id: String,
    /// Name of the executable.
    pub executable: String,
    /// Rank in the job, if said.
    pub global_rank: Option<u32>,
    /// Ranks in the job, if said.
    pub world_size: Option<u32>,
    /// Rank among the job's processes on its host, if said.
    pub local_rank: Option<u32>,
    /// Where a scheduler has put it.
    pub scheduled: Scheduled,
    /// Path of the library's log with `%h` and `%p` not replaced; empty if it has none.
    pub log_file: String,
    /// User whose segment it is, as the process knows him, if said.
    pub user: Option<u32>,
}

/// What a segment of any version says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Process id as the process sees it.
    pub pid: u32,
    /// Wall time of its start, nanoseconds since the Unix epoch.
    pub start_time_ns: u64,
    /// Length of the file in bytes.
    pub segment_bytes: u64,
    /// What `ringscope run` called this start; empty without it, and where the version is not this one.
    pub run_id: String,
    /// Job id; empty where no launcher named one, and where the version is not this one.
    pub job: String,
}

/// One communicator slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Communicator {
    /// Index of the slot.
    pub slot: u16,
    /// Counts the uses of the slot from 1.
    pub generation: u32,
    /// One of `layout::COMMUNICATOR_*`.
    pub state: u32,
    /// One of `layout::MADE_BY_*`.
    pub made_by: u32,
    /// `ncclComm_t` as a number; 0 while forming.
    pub pointer: u64,
    /// commHash, 0 while not known.
    pub comm_hash: u64,
    /// commHash of the parent, 0 if there is none.
    pub parent_hash: u64,
    /// Ticks at which its init was called.
    pub created_ticks: u64,
    /// Ticks at its end, 0 before.
    pub ended_ticks: u64,
    /// Rank of this process.
    pub rank: u32,
    /// Number of ranks.
    pub n_ranks: u32,
    /// Number of NCCL nodes, if known.
    pub n_nodes: Option<u32>,
    /// Device number, if known.
    pub device: Option<u32>,
    /// Name given in the configuration; empty if none.
    pub name: String,
    /// `layout::SOURCE_*` bits.
    pub sources: u32,
    /// One of `layout::COMPLETION_*`.
    pub completion: u32,
    /// Compute capability times ten, if known.
    pub compute_capability: Option<u32>,
    /// `minCTAs` of the configuration, if the program set it.
    pub min_ctas: Option<u32>,
    /// `maxCTAs` of the configuration, if the program set it.
    pub max_ctas: Option<u32>,
    /// Whether it shares its parent's channels, if known.
    pub shares_resources: Option<bool>,
    /// Which copy of the library has it.
    pub library: u32,
    /// The last error that was heard of, if any.
    pub error: Option<Failure>,
    /// `layout::LOST_*` bits.
    pub lost: u32,
    /// Its collective calls; `None` while they are being written.
    pub sequence: Option<Sequence>,
    /// Counters of the primitives that were ever called.
    pub counters: Vec<(Primitive, Counters)>,
}

/// An error that a function of the library told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// `ncclResult_t`.
    pub result: u32,
    /// Which function said so; empty if this build does not know it.
    pub function: &'static str,
    /// Ticks at which it was heard of.
    pub ticks: u64,
}

impl Communicator {
    /// Unique within the process for its whole life: `generation << 16 | slot`.
    #[must_use]
    pub fn local_id(&self) -> u64 {
        u64::from(self.generation) << 16 | u64::from(self.slot)
    }
}

/// Counters of one (communicator, primitive); see the layout for the meaning of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "documented in layout::Counters")]
pub struct Counters {
    pub next_seq_number: u64,
    pub issued_calls: u64,
    pub issued_bytes: u64,
    pub failed_calls: u64,
    pub completed_calls: u64,
    pub completed_bytes: u64,
    pub busy_ticks: u64,
    pub captured_calls: u64,
    pub captured_bytes: u64,
    pub replayed_calls: u64,
    pub replayed_bytes: u64,
}

/// Network bytes to one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Slot of the communicator.
    pub communicator: u16,
    /// Low 15 bits of the slot's generation.
    pub generation: u32,
    /// What the bytes were sent for.
    pub primitive: Primitive,
    /// Rank in the communicator.
    pub peer: u32,
    /// Payload bytes whose network step has completed.
    pub sent_bytes: u64,
    /// Such steps.
    pub sent_steps: u64,
    /// Ticks that they took with the network; of several at once each counts.
    pub sending_ticks: u64,
}

/// One operation record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Counts the records of the process from 0.
    pub ticket: u64,
    /// Slot of the communicator.
    pub communicator: u16,
    /// Low 24 bits of the slot's generation.
    pub generation: u32,
    /// What was called.
    pub primitive: Primitive,
    /// `ncclDataType_t`.
    pub datatype: crate::Datatype,
    /// One of `layout::OPERATION_*`.
    pub state: u32,
    /// Low 32 bits of its number among the calls of this (communicator, primitive), from 0.
    pub seq_number: u32,
    /// Low 32 bits of its number among the collective calls of the communicator, if it is numbered.
    pub call_number: Option<u32>,
    /// Reduction, if the primitive has one and it is known ([`super::calls::hash::op`]).
    pub op: Option<u8>,
    /// Number of its stream within the process, 0 if not known.
    pub stream: u32,
    /// Number of the group that it was called in, 0 for none.
    pub group: u32,
    /// Payload bytes.
    pub bytes: u64,
    /// Elements.
    pub count: u64,
    /// Peer or root, if the primitive has one.
    pub peer: Option<u32>,
    /// Ticks at the call.
    pub issued_ticks: u64,
    /// Whether something would tell that it has started.
    pub start_known: bool,
    /// Whether nobody tells when it is over but what begins after it on its stream.
    pub ends_by_order: bool,
    /// Ticks at which it began on the device, to a microsecond or so, if that was told.
    pub started_ticks: Option<u64>,
    /// Ticks at completion, if completed.
    pub completed_ticks: Option<u64>,
    /// Channels that have finished.
    pub channels_done: u16,
    /// Channels that take part, 0 while not known.
    pub channels_expected: u16,
}

/// Records of a segment from some ticket on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// Those that were whole, by ticket.
    pub records: Vec<Record>,
    /// Tickets asked for whose place is in use.
    pub placed: u64,
    /// Tickets asked for whose record newer ones had already overwritten. Those that are known never to have had one are
    /// not among them.
    pub overwritten: u64,
    /// Tickets whose record was being written during the read, or never was finished.
    pub torn: Vec<u64>,
    /// Tickets whose place has not held any record so far.
    pub unused: Vec<u64>,
    /// Tickets whose place holds the record of an older one, with that record. As a rule the older operation was in
    /// flight and the ticket was passed over: it will never have a record. Else it is of those that a thread has got and
    /// not used, which it may do at any time.
    pub older: Vec<(u64, Record)>,
}

/// Reads everything but the records and the results of the summation service.
///
/// # Errors
/// [`SegmentError`] if the bytes are no segment of this version, and the source's own.
pub fn snapshot<S: Source>(source: &mut S) -> Result<Snapshot, S::Error> {
    let fixed: Fixed = read_one(source, offset_of!(Segment, fixed))?;
    check(&fixed)?;
    let live: Live = read_one(source, offset_of!(Segment, live))?;
    let n_communicators = live.n_communicators.into_inner() as usize;
    if n_communicators > MAX_COMMUNICATORS {
        return Err(
            corrupt(format!("{n_communicators} communicators, at most {MAX_COMMUNICATORS} fit")).into()
        );
    }
    let n_threads = (live.n_threads.into_inner() as usize).min(MAX_THREADS);
    let communicators = communicators(source, n_communicators)?;
    let threads = threads(source, n_threads)?;
    let links = links(source, live.link_regions.into_inner())?;
    let summation = summation(source)?;
    let groups = groups(source)?;
    Ok(Snapshot {
        identity: identity(&fixed, &live.scheduled),
        clock: ClockAnchor {
            is_counter: fixed.tick_kind == TICKS_COUNTER,
            ticks: fixed.anchor_ticks,
            monotonic_ns: fixed.anchor_monotonic_ns,
            wall_ns: fixed.anchor_wall_ns,
        },
        control: live.control.into_inner(),
        state: live.state.into_inner(),
        exited: live.exited.into_inner() != 0,
        exit_status: live.exit_status.into_inner().checked_sub(1),
        library_version: live.library_version.into_inner(),
        profiler_version: live.profiler_version.into_inner(),
        level: live.level.into_inner(),
        device_error_ticks: Some(live.device_error_ticks.into_inner()).filter(|ticks| *ticks > 0),
        flags: live.flags.into_inner(),
        n_libraries: live.n_libraries.into_inner(),
        registrations: live.registrations.into_inner(),
        dropped: DropReason::ALL
            .into_iter()
            .zip(live.dropped)
            .map(|(reason, events)| (reason, events.into_inner()))
            .filter(|(_, events)| *events > 0)
            .collect(),
        communicators,
        links,
        next_ticket: live.next_ticket.into_inner(),
        n_places: in_use(live.n_places.into_inner()),
        summation,
        groups,
        threads,
        off_since_ticks: Some(live.off_since_ticks.into_inner()).filter(|ticks| *ticks > 0),
    })
}

/// Reads the beginning of a segment of whatever version: its first fields are in the same places in all of them.
///
/// # Errors
/// [`SegmentError`] if the bytes are no segment, and the source's own.
pub fn head<S: Source>(source: &mut S) -> Result<Head, S::Error> {
    let fixed: Fixed = read_one(source, offset_of!(Segment, fixed))?;
    if fixed.magic != MAGIC {
        return Err(SegmentError::NotASegment { found: fixed.magic }.into());
    }
    Ok(Head {
        pid: fixed.pid,
        start_time_ns: fixed.start_time_ns,
        segment_bytes: fixed.segment_bytes,
        run_id: if fixed.version == VERSION { text(&fixed.run_id) } else { String::new() },
        job: if fixed.version == VERSION { text(&fixed.job) } else { String::new() },
    })
}

/// Reads the records with tickets in `from..to`, where `to` is at most [`Snapshot::next_ticket`].
///
/// To follow an operation in flight whatever came after it, read its ticket alone (`ticket..ticket + 1`).
///
/// # Errors
/// The source's own.
pub fn records<S: Source>(source: &mut S, from: u64, to: u64) -> Result<Records, S::Error> {
    let n_places = n_places(source)?;
    let oldest = to.saturating_sub(MAX_RECORDS as u64);
    let mut found = Records {
        placed: placed(from, to, n_places),
        overwritten: placed(from, oldest, n_places),
        ..Records::default()
    };
    let mut ticket = from.max(oldest);
    while ticket < to {
        let index = usize::try_from(ticket % MAX_RECORDS as u64).unwrap_or_default();
        if index >= n_places {
            ticket = ticket.saturating_add((MAX_RECORDS - index) as u64);
            continue;
        }
        let run = usize::try_from(to - ticket).unwrap_or(MAX_RECORDS).min(n_places - index);
        let offset = offset_of!(Segment, records) + index * size_of::<RecordLayout>();
        let [first, second] = [&mut vec![0; run * size_of::<RecordLayout>()], &mut Vec::new()];
        source.read_at(offset as u64, first)?;
        second.resize(first.len(), 0);
        source.read_at(offset as u64, second)?;
        let twice =
            first.chunks_exact(size_of::<RecordLayout>()).zip(second.chunks_exact(size_of::<RecordLayout>()));
        for (at, (first, second)) in twice.enumerate() {
            let wanted = ticket + at as u64;
            if is_unused(first) && is_unused(second) {
                found.unused.push(wanted);
                continue;
            }
            match record(second).filter(|_| is_same(first, second)) {
                Some(record) if record.ticket == wanted => found.records.push(record),
                Some(record) if record.ticket > wanted => found.overwritten += 1,
                Some(record) if (wanted - record.ticket).is_multiple_of(MAX_RECORDS as u64) => {
                    let not_lost = not_lost(record.ticket, from, oldest);
                    found.overwritten = found.overwritten.saturating_sub(not_lost);
                    found.older.push((wanted, record));
                }
                _ => found.torn.push(wanted),
            }
        }
        ticket += run as u64;
    }
    Ok(found)
}

/// Places of records in use.
fn n_places<S: Source>(source: &mut S) -> Result<usize, S::Error> {
    let n_places: u32 = read_one(source, offset_of!(Segment, live) + offset_of!(Live, n_places))?;
    Ok(in_use(n_places))
}

fn in_use(n_places: u32) -> usize {
    let n_places = usize::try_from(n_places).unwrap_or(MAX_RECORDS);
    if n_places == 0 { MAX_RECORDS } else { n_places.min(MAX_RECORDS) }
}

/// Tickets from `from` to before `to` whose place is in use.
fn placed(from: u64, to: u64, n_places: usize) -> u64 {
    const LAP: u64 = MAX_RECORDS as u64;
    let n_places = n_places as u64;
    let up_to = |end: u64| end / LAP * n_places + (end % LAP).min(n_places);
    up_to(to).saturating_sub(up_to(from))
}

fn is_unused(record: &[u8]) -> bool {
    let at = offset_of!(RecordLayout, ticket);
    record[at..at + 8] == [0; 8]
}

/// Whether two readings are of one record: what is written once is the same in both.
fn is_same(first: &[u8], second: &[u8]) -> bool {
    /// From where to where it is written once. Of the state, the generation.
    const WRITTEN_ONCE: [(usize, usize); 4] = [
        (offset_of!(RecordLayout, ticket), offset_of!(RecordLayout, completed_ticks)),
        (offset_of!(RecordLayout, count), offset_of!(RecordLayout, state)),
        (offset_of!(RecordLayout, state) + 1, offset_of!(RecordLayout, channels)),
        (offset_of!(RecordLayout, place), size_of::<RecordLayout>()),
    ];
    WRITTEN_ONCE.iter().all(|(from, to)| first[*from..*to] == second[*from..*to])
}

/// Tickets from `from` to before `oldest` that had the place of a record that still stands there: its own, and those
/// that were passed over for it.
fn not_lost(ticket: u64, from: u64, oldest: u64) -> u64 {
    let up_to = |end: u64| end.saturating_sub(ticket).div_ceil(MAX_RECORDS as u64);
    up_to(oldest).saturating_sub(up_to(from))
}

/// Offset of [`super::layout::Communicator::read_generation`] of a slot, for the agent to write.
#[must_use]
pub fn read_generation_offset(slot: u16) -> u64 {
    let at = offset_of!(Segment, communicators)
        + usize::from(slot) * size_of::<CommunicatorLayout>()
        + offset_of!(CommunicatorLayout, read_generation);
    at as u64
}

/// Offset of [`Live::wanted_places`], for the agent to write.
#[must_use]
pub fn wanted_places_offset() -> u64 {
    (offset_of!(Segment, live) + offset_of!(Live, wanted_places)) as u64
}

/// Offset of the control word, for the agent to write.
#[must_use]
pub fn control_offset() -> u64 {
    (offset_of!(Segment, live) + offset_of!(Live, control)) as u64
}

fn check(fixed: &Fixed) -> Result<(), SegmentError> {
    if fixed.magic != MAGIC {
        return Err(SegmentError::NotASegment { found: fixed.magic });
    }
    if fixed.version != VERSION {
        return Err(SegmentError::UnknownVersion { found: fixed.version });
    }
    if fixed.segment_bytes != size_of::<Segment>() as u64 {
        return Err(corrupt(format!(
            "says it is {} bytes long, not {}",
            fixed.segment_bytes,
            size_of::<Segment>()
        )));
    }
    if !matches!(fixed.tick_kind, TICKS_MONOTONIC_NS | TICKS_COUNTER) {
        return Err(corrupt(format!("tick kind {}", fixed.tick_kind)));
    }
    Ok(())
}

fn corrupt(what: String) -> SegmentError {
    SegmentError::Corrupt { what }
}

pub(super) fn read_one<S: Source, T: FromBytes>(source: &mut S, offset: usize) -> Result<T, S::Error> {
    let mut bytes = vec![0; size_of::<T>()];
    source.read_at(offset as u64, &mut bytes)?;
    T::read_from_bytes(&bytes).map_err(|_| {
        SegmentError::Truncated { found: bytes.len() as u64, needed: size_of::<T>() as u64 }.into()
    })
}

fn identity(fixed: &Fixed, told: &ScheduledLayout) -> Identity {
    Identity {
        pid: fixed.pid,
        start_time_ns: fixed.start_time_ns,
        host: text(&fixed.host),
        job: text(&fixed.job),
        run_id: text(&fixed.run_id),
        executable: text(&fixed.executable),
        global_rank: u32::try_from(fixed.global_rank).ok(),
        world_size: u32::try_from(fixed.world_size).ok(),
        local_rank: u32::try_from(fixed.local_rank).ok(),
        scheduled: scheduled(fixed, told),
        log_file: text(&fixed.log_file),
        user: fixed.user.checked_sub(1).and_then(|user| u32::try_from(user).ok()),
    }
}

fn scheduled(fixed: &Fixed, told: &ScheduledLayout) -> Scheduled {
    let number = |told: u32| told.checked_sub(1);
    let slurm = |job_id| Slurm {
        job_id,
        step_id: number(told.slurm_step_id),
        array_job_id: number(told.slurm_array_job_id),
        array_task_id: number(told.slurm_array_task_id),
        het_job_id: number(told.slurm_het_job_id),
        het_component: number(told.slurm_het_component),
        restarts: number(told.slurm_restarts),
        node: text(&told.slurm_node),
    };
    let long_name = Some(text(&told.k8s_pod)).filter(|pod| !pod.is_empty());
    Scheduled {
        k8s_namespace: text(&fixed.k8s_namespace),
        k8s_pod: long_name.unwrap_or_else(|| text(&fixed.k8s_pod)),
        k8s_node: text(&told.k8s_node),
        k8s_container: text(&told.k8s_container),
        slurm: number(told.slurm_job_id).map(slurm),
    }
}

/// Text up to the first NUL; bytes that are not UTF-8 and control characters become U+FFFD.
pub(super) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end])
        .chars()
        .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

/// The slots that were ever used, in one read.
fn communicators<S: Source>(source: &mut S, n_slots: usize) -> Result<Vec<Communicator>, S::Error> {
    let mut bytes = vec![0; n_slots * size_of::<CommunicatorLayout>()];
    source.read_at(offset_of!(Segment, communicators) as u64, &mut bytes)?;
    let slots = bytes.chunks_exact(size_of::<CommunicatorLayout>()).enumerate();
    Ok(slots
        .filter_map(|(slot, bytes)| communicator(slot, CommunicatorLayout::read_from_bytes(bytes).ok()?))
        .collect())
}

/// The links of the regions whose bit is set.
fn links<S: Source>(source: &mut S, regions: u64) -> Result<Vec<Link>, S::Error> {
    let region_bytes = LINKS_PER_REGION * size_of::<LinkLayout>();
    let bytes = used_regions(source, offset_of!(Segment, links), regions, region_bytes)?;
    Ok(bytes.chunks_exact(size_of::<LinkLayout>()).filter_map(link).collect())
}

/// The bytes of a table's regions whose bit is set, one after the other; neighbours in one read.
pub(super) fn used_regions<S: Source>(
    source: &mut S,
    table: usize,
    mut regions: u64,
    region_bytes: usize,
) -> Result<Vec<u8>, S::Error> {
    let mut bytes = Vec::new();
    while regions != 0 {
        let first = regions.trailing_zeros();
        let run = (regions >> first).trailing_ones();
        let before = bytes.len();
        bytes.resize(before + run as usize * region_bytes, 0);
        source.read_at((table + first as usize * region_bytes) as u64, &mut bytes[before..])?;
        regions &= u64::MAX.checked_shl(first + run).unwrap_or(0);
    }
    Ok(bytes)
}

fn communicator(slot: usize, raw: CommunicatorLayout) -> Option<Communicator> {
    let state = raw.state.into_inner();
    if state == super::layout::COMMUNICATOR_FREE {
        return None;
    }
    let name: Vec<u8> = raw.name.into_iter().flat_map(|word| word.into_inner().to_le_bytes()).collect();
    Some(Communicator {
        slot: u16::try_from(slot).ok()?,
        generation: raw.generation.into_inner(),
        state,
        made_by: raw.made_by.into_inner(),
        pointer: raw.pointer.into_inner(),
        comm_hash: raw.comm_hash.into_inner(),
        parent_hash: raw.parent_hash.into_inner(),
        created_ticks: raw.created_ticks.into_inner(),
        ended_ticks: raw.ended_ticks.into_inner(),
        rank: u32::try_from(raw.rank.into_inner()).unwrap_or_default(),
        n_ranks: u32::try_from(raw.n_ranks.into_inner()).unwrap_or_default(),
        n_nodes: u32::try_from(raw.n_nodes.into_inner()).ok().filter(|n| *n > 0),
        device: u32::try_from(raw.device.into_inner()).ok(),
        name: text(&name),
        sources: raw.sources.into_inner(),
        completion: raw.completion.into_inner(),
        compute_capability: Some(raw.compute_capability.into_inner()).filter(|capability| *capability > 0),
        min_ctas: u32::try_from(raw.min_ctas.into_inner()).ok().filter(|n| *n > 0),
        max_ctas: u32::try_from(raw.max_ctas.into_inner()).ok().filter(|n| *n > 0),
        shares_resources: match raw.shares_resources.into_inner() {
            1 => Some(false),
            2 => Some(true),
            _ => None,
        },
        library: raw.library.into_inner(),
        error: Some(raw.error.into_inner()).filter(|result| *result != 0).map(|result| Failure {
            result,
            function: function(raw.error_function.into_inner()),
            ticks: raw.error_ticks.into_inner(),
        }),
        lost: raw.lost.into_inner(),
        sequence: Sequence::of(
            raw.calls.into_inner(),
            raw.calls_hash.into_inner(),
            raw.calls_check.into_inner(),
            raw.n_marks.into_inner(),
        ),
        counters: Primitive::ALL
            .into_iter()
            .zip(raw.counters)
            .map(|(primitive, raw)| (primitive, counters(raw)))
            .filter(|(_, counters)| *counters != Counters::default())
            .collect(),
    })
}

fn counters(raw: super::layout::Counters) -> Counters {
    Counters {
        next_seq_number: raw.next_seq_number.into_inner(),
        issued_calls: raw.issued_calls.into_inner(),
        issued_bytes: raw.issued_bytes.into_inner(),
        failed_calls: raw.failed_calls.into_inner(),
        completed_calls: raw.completed_calls.into_inner(),
        completed_bytes: raw.completed_bytes.into_inner(),
        busy_ticks: raw.busy_ticks.into_inner(),
        captured_calls: raw.captured_calls.into_inner(),
        captured_bytes: raw.captured_bytes.into_inner(),
        replayed_calls: raw.replayed_calls.into_inner(),
        replayed_bytes: raw.replayed_bytes.into_inner(),
    }
}

fn link(bytes: &[u8]) -> Option<Link> {
    let raw = LinkLayout::read_from_bytes(bytes).ok()?;
    let key = raw.key.into_inner();
    if key >> 63 == 0 {
        return None;
    }
    Some(Link {
        communicator: (key >> 36 & 0xfff) as u16,
        generation: (key >> 48 & 0x7fff) as u32,
        primitive: Primitive::from_index((key >> 32 & 0xf) as u8)?,
        peer: (key & 0xffff_ffff) as u32,
        sent_bytes: raw.sent_bytes.into_inner(),
        sent_steps: raw.sent_steps.into_inner(),
        sending_ticks: raw.sending_ticks.into_inner(),
    })
}

fn record(bytes: &[u8]) -> Option<Record> {
    let raw = RecordLayout::read_from_bytes(bytes).ok()?;
    let what = raw.what.into_inner();
    let state = raw.state.into_inner();
    let ticket =
        Some(raw.ticket.into_inner()).filter(|ticket| ticket & BEING_WRITTEN == 0)?.checked_sub(1)?;
    // A place is given to another ticket between two bytes of a reading too: the state says whose it is.
    let lap = ticket / MAX_RECORDS as u64;
    if (u64::from(state >> LAP_SHIFT) ^ lap) & ((1 << LAP_BITS) - 1) != 0 {
        return None;
    }
    let channels = raw.channels.into_inner();
    let completed_ticks = raw.completed_ticks.into_inner();
    let (numbers, place) = (raw.numbers.into_inner(), raw.place.into_inner());
    let (count, issued_ticks) = (raw.count.into_inner(), raw.issued_ticks.into_inner());
    let datatype = crate::Datatype((what & 0xff) as u8);
    let started = u64::from(raw.started.into_inner()) << STARTED_SHIFT;
    Some(Record {
        ticket,
        communicator: (what >> WHAT_SLOT_SHIFT) as u16,
        generation: state >> 8,
        primitive: Primitive::from_index((what >> WHAT_PRIMITIVE_SHIFT & 0xf) as u8)?,
        datatype,
        state: state & OPERATION_MASK,
        seq_number: (numbers & 0xffff_ffff) as u32,
        call_number: (what & NUMBERED != 0).then_some((numbers >> 32) as u32),
        op: Some((what >> WHAT_OP_SHIFT & 0xf) as u8).filter(|op| *op != NO_OP),
        stream: place >> GROUP_BITS,
        group: place & ((1 << GROUP_BITS) - 1),
        bytes: count.wrapping_mul(datatype.size_bytes()),
        count,
        peer: u32::try_from(raw.peer.into_inner()).ok(),
        issued_ticks,
        start_known: what & START_KNOWN != 0,
        ends_by_order: what & ENDS_BY_ORDER != 0,
        started_ticks: Some(issued_ticks.saturating_add(started)).filter(|_| started > 0),
        completed_ticks: Some(completed_ticks)
            .filter(|_| state & OPERATION_MASK == super::layout::OPERATION_COMPLETED),
        channels_done: (channels >> 16) as u16,
        channels_expected: (channels & 0xffff) as u16,
    })
}
