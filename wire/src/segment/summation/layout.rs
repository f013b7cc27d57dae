//! What lies where. As in the rest of the segment all that changes is atomic, and zeros are an empty area.

use std::sync::atomic::{AtomicI32, AtomicU16, AtomicU32, AtomicU64};

use zerocopy::{FromBytes, KnownLayout};

/// Services of a group that fit: a server machine each, and each worker.
pub const MAX_SERVICES: usize = 256;
/// Workers of a group that fit.
pub const MAX_WORKERS: usize = 256;
/// Stages of a pipeline that fit; there are seven.
pub const MAX_STAGES: usize = 8;
/// Waiting rounds that fit, the longest first.
pub const MAX_WAITS: usize = 64;
/// Buckets of staleness that fit.
pub const MAX_STALENESS: usize = 64;
/// Results kept: the newest. A power of two; as many as a batch carries.
pub const MAX_ROUNDS: usize = 1024;
/// Classes of keys: those of gradients, of parameters, all others.
pub const KEY_CLASSES: usize = 3;
/// Words of a host's name: 64 bytes, the most that Linux has.
pub const HOST_WORDS: usize = 8;
/// Words of a tensor's name.
pub const TENSOR_WORDS: usize = 6;
/// Words of a parameter's name: frameworks nest modules deep.
pub const PARAMETER_WORDS: usize = 16;
/// Words of a stage's name.
pub const STAGE_WORDS: usize = 2;
/// Words of the text that says why a group failed.
pub const FAILURE_WORDS: usize = 32;

/// The area. Times are `CLOCK_MONOTONIC` nanoseconds, texts little-endian UTF-8, cut to fit, padded with NUL.
#[derive(FromBytes, KnownLayout)]
#[repr(C, align(64))]
pub struct Area {
    /// Odd while something else than `rounds` is being written; else another number after each change.
    pub sequence: AtomicU64,
    /// Ticket that the next result gets.
    pub next_ticket: AtomicU64,
    _pad: [AtomicU64; 6],
    /// The group.
    pub group: Group,
    /// Its services, of which [`Group::n_services`] are there: those of servers first.
    pub services: [Service; MAX_SERVICES],
    /// Its workers, of which [`Group::n_workers`] are there.
    pub workers: [Worker; MAX_WORKERS],
    /// The stages of this worker's pipeline.
    pub stages: [Stage; MAX_STAGES],
    /// Rounds that wait.
    pub waits: [Wait; MAX_WAITS],
    /// Pulls by rounds that the slowest worker was behind.
    pub staleness: [AtomicU64; MAX_STALENESS],
    /// Results. Ticket `t` lies at index `t % MAX_ROUNDS`.
    pub rounds: [Round; MAX_ROUNDS],
    /// The last group that failed and that another one has followed, as it was at its end: the next one may come before
    /// anybody has read that. All zeros while there is none.
    pub failed: Group,
    /// Its services, of which its [`Group::n_services`] are there. It has no other tables.
    pub failed_services: [Service; MAX_SERVICES],
    /// What the group's comparisons of parameters have come to.
    pub comparison: Comparison,
}

/// The group that the process is in, or was in last. Totals count from its join.
#[derive(FromBytes, KnownLayout)]
#[repr(C, align(64))]
pub struct Group {
    /// Counts the groups of this process from 1; 0 while there was none.
    pub generation: AtomicU32,
    /// One of the `STATE_*`.
    pub state: AtomicU32,
    /// One of the `ROLE_*`.
    pub role: AtomicU32,
    /// Its number among the workers, or the servers.
    pub index: AtomicU32,
    /// Workers.
    pub n_workers: AtomicU32,
    /// Servers.
    pub n_servers: AtomicU32,
    /// 1 if sums are asynchronous.
    pub asynchronous: AtomicU32,
    /// Rank whose loss ended the group, -1 if none.
    pub lost_rank: AtomicI32,
    /// How many of each of the area's tables are there.
    pub n_services: AtomicU32,
    /// Of [`Area::stages`]; 0 of a server.
    pub n_stages: AtomicU32,
    /// Of [`Area::waits`].
    pub n_waits: AtomicU32,
    /// Of [`Area::staleness`].
    pub n_staleness: AtomicU32,
    /// Slot of the communicator that carries it, and the slot's generation shifted left by 16; 0 if it is not followed.
    pub communicator: AtomicU64,
    /// The same in all processes of the group.
    pub group: AtomicU64,
    /// Stays when members change.
    pub session: AtomicU64,
    /// Counts changes of members.
    pub membership_epoch: AtomicU64,
    /// Counts changes of owners.
    pub placement_epoch: AtomicU64,
    /// `u64::MAX`: there is none.
    pub staleness_bound: AtomicU64,
    /// Tensors declared.
    pub n_tensors: AtomicU64,
    /// Their parts.
    pub n_parts: AtomicU64,
    /// Their bytes.
    pub model_bytes: AtomicU64,
    /// Bytes of a part at most.
    pub partition_bytes: AtomicU64,
    /// When it began.
    pub joined_ns: AtomicU64,
    /// When it ended, 0 before.
    pub ended_ns: AtomicU64,
    /// When its state was taken last.
    pub sampled_ns: AtomicU64,
    /// Bytes of parts in flight.
    pub credits_used_bytes: AtomicU64,
    /// Their bound.
    pub credit_bytes: AtomicU64,
    /// For how long parts waited for credits.
    pub credits_waited_ns: AtomicU64,
    /// Rounds that this process's service has made a result of.
    pub finished_rounds: AtomicU64,
    /// Always 0.
    pub reserved: AtomicU64,
    /// Messages refused.
    pub refused: AtomicU64,
    /// Bytes of the contributions in results.
    pub summed_bytes: AtomicU64,
    /// Time that took.
    pub summing_ns: AtomicU64,
    /// Why it failed; empty if it has not.
    pub failure: [AtomicU64; FAILURE_WORDS],
}

/// [`Group::state`]: has joined, declarations are not agreed.
pub const STATE_STARTING: u32 = 1;
/// [`Group::state`]: at work.
pub const STATE_RUNNING: u32 = 2;
/// [`Group::state`]: left for one with other members.
pub const STATE_SUSPENDED: u32 = 3;
/// [`Group::state`]: left.
pub const STATE_LEFT: u32 = 4;
/// [`Group::state`]: failed.
pub const STATE_FAILED: u32 = 5;

/// [`Group::role`]: contributes, and sums what it owns.
pub const ROLE_WORKER: u32 = 1;
/// [`Group::role`]: only sums.
pub const ROLE_SERVER: u32 = 2;

/// One service, and this worker's traffic with it.
#[derive(FromBytes, KnownLayout)]
#[repr(C)]
pub struct Service {
    /// Of its process: workers first, then servers.
    pub rank: AtomicU32,
    /// Share of all bytes that it should own, in millionths.
    pub optimal_share_ppm: AtomicU32,
    /// That it owns.
    pub share_ppm: AtomicU32,
    _pad: AtomicU32,
    /// Bytes of its parts.
    pub owned_bytes: AtomicU64,
    /// Bytes that its process sends in one round of all tensors, by the placement.
    pub predicted_sent_bytes: AtomicU64,
    /// That it receives.
    pub predicted_received_bytes: AtomicU64,
    /// Of its process.
    pub host: [AtomicU64; HOST_WORDS],
    /// By class of key.
    pub traffic: [Traffic; KEY_CLASSES],
}

/// Traffic of this worker with one service in one class of keys; bytes as on the wire.
#[derive(FromBytes, KnownLayout)]
#[repr(C)]
pub struct Traffic {
    /// Submitted for it.
    pub push_issued_bytes: AtomicU64,
    /// Of those, sent.
    pub push_completed_bytes: AtomicU64,
    /// Asked for.
    pub pull_issued_bytes: AtomicU64,
    /// Of those, come.
    pub pull_completed_bytes: AtomicU64,
    /// Of the completed ones those that crossed no NIC.
    pub local_bytes: AtomicU64,
}

/// A worker, and what this process's service has heard from it.
#[derive(FromBytes, KnownLayout)]
#[repr(C)]
pub struct Worker {
    /// Of its process.
    pub host: [AtomicU64; HOST_WORDS],
    /// Contributions that came.
    pub contributions: AtomicU64,
    /// Their bytes.
    pub bytes: AtomicU64,
    /// Rounds in which it came last.
    pub last_arrivals: AtomicU64,
    /// After the first one, summed over all rounds.
    pub late_ns: AtomicU64,
    /// When its last contribution came, 0 if none did.
    pub last_arrival_ns: AtomicU64,
    /// Answers that are not sent whole.
    pub unanswered: AtomicU64,
    /// Their bytes.
    pub unanswered_bytes: AtomicU64,
    _pad: AtomicU64,
}

/// A stage of a worker's pipeline.
#[derive(FromBytes, KnownLayout)]
#[repr(C)]
pub struct Stage {
    /// Which.
    pub name: [AtomicU64; STAGE_WORDS],
    /// Parts that wait.
    pub waiting_parts: AtomicU64,
    /// Parts that have begun.
    pub running_parts: AtomicU64,
    /// Parts that came.
    pub entered_parts: AtomicU64,
    /// Parts that went through.
    pub left_parts: AtomicU64,
    /// From coming to beginning, over all parts.
    pub waited_ns: AtomicU64,
    /// From beginning to leaving, over all parts.
    pub worked_ns: AtomicU64,
    /// The longest wait.
    pub longest_wait_ns: AtomicU64,
    _pad: [AtomicU64; 3],
}

/// A round of this process's service that is not over.
#[derive(FromBytes, KnownLayout)]
#[repr(C)]
pub struct Wait {
    /// Of which part.
    pub key: AtomicU32,
    /// 1: for contributions. 0: for answers to be taken.
    pub for_push: AtomicU32,
    /// Which of its rounds.
    pub round: AtomicU64,
    /// When its first contribution came.
    pub first_arrival_ns: AtomicU64,
    _pad: AtomicU64,
    /// Name of the part's tensor.
    pub tensor: [AtomicU64; TENSOR_WORDS],
    /// For whom it waits: bit `i` of word `w` is worker `64 * w + i`.
    pub workers: [AtomicU64; MAX_WORKERS / 64],
    _tail: [AtomicU64; 2],
}

/// What comparisons of the parameters between all workers have come to, as this worker says it.
#[derive(FromBytes, KnownLayout)]
#[repr(C, align(64))]
pub struct Comparison {
    /// Comparisons so far; 0: there was none, and nothing else means anything.
    pub count: AtomicU64,
    /// Steps from one to the next.
    pub every: AtomicU64,
    /// Steps that were made before the last one.
    pub steps: AtomicU64,
    /// When that was.
    pub at_ns: AtomicU64,
    /// Parameters in it.
    pub n_parameters: AtomicU64,
    /// Those that differed; 0: all workers had the same.
    pub n_different: AtomicU64,
    /// Steps before the last one in which all were the same; `u64::MAX`: there was none.
    pub equal_steps: AtomicU64,
    /// Steps before the first one since then in which some differed; 0 where `n_different` is.
    pub different_steps: AtomicU64,
    /// When that was.
    pub different_at_ns: AtomicU64,
    /// Of `hashes`, those that are there.
    pub n_hashes: AtomicU64,
    /// Name of the first parameter that differed then.
    pub parameter: [AtomicU64; PARAMETER_WORDS],
    /// Its hash, by worker.
    pub hashes: [AtomicU64; MAX_WORKERS],
}

/// A result. A writer sets `ticket` to 0, fills the rest and stores `t + 1` with Release.
#[derive(FromBytes, KnownLayout)]
#[repr(C, align(64))]
pub struct Round {
    /// Ticket plus one; 0 while being written.
    pub ticket: AtomicU64,
    /// Which round of its part.
    pub round: AtomicU64,
    /// Of the bytes.
    pub fingerprint: AtomicU64,
    /// From the first contribution to the last.
    pub spread_ns: AtomicU64,
    /// From the first contribution, or from the push, until it was there.
    pub took_ns: AtomicU64,
    /// When it was there.
    pub at_ns: AtomicU64,
    /// Which part.
    pub key: AtomicU32,
    /// [`Group::generation`] of its group.
    pub generation: AtomicU32,
    /// [`Group::placement_epoch`] at that time, its lowest 32 bits: parts and rounds count anew with each.
    pub placement_epoch: AtomicU32,
    /// Contributions in it, shifted left by 1; the lowest bit says that it was made here and not pulled.
    pub contributors: AtomicU16,
    /// The worker that came last.
    pub last_arriver: AtomicU16,
}

const _: () = {
    assert!(size_of::<Group>().is_multiple_of(64));
    assert!(size_of::<Service>() == 224);
    assert!(size_of::<Worker>() == 128);
    assert!(size_of::<Stage>() == 96);
    assert!(size_of::<Wait>() == 128);
    assert!(size_of::<Round>() == 64);
    assert!(MAX_ROUNDS.is_power_of_two());
};
