//! The structures of `engine/include/rsum_observer.h`, field by field: the engine fills them, the watcher reads them, as any
//! other program may. Types and numbers, and no code.

#![expect(missing_docs, reason = "what each field means stands in the header, for all languages")]

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;

pub const ROLE_WORKER: i32 = 1;
pub const ROLE_SERVER: i32 = 2;

/// How many there are of `rsumKeyGradient`, `rsumKeyParameter` and `rsumKeyOther`.
pub const N_CLASSES: usize = 3;

pub const END_LEFT: c_int = 1;
pub const END_SUSPENDED: c_int = 2;
pub const END_FAILED: c_int = 3;

/// `rsumObserverService_v1`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Service {
    pub rank: u32,
    pub optimal_share_ppm: u32,
    pub share_ppm: u32,
    pub reserved: u32,
    pub host: *const c_char,
    pub owned_bytes: u64,
    pub predicted_sent_bytes: u64,
    pub predicted_received_bytes: u64,
}

/// `rsumObserverGroup_v1`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Group {
    pub size: usize,
    pub group: u64,
    pub session: u64,
    pub membership_epoch: u64,
    pub placement_epoch: u64,
    pub comm: u64,
    pub role: i32,
    pub index: u32,
    pub n_workers: u32,
    pub n_servers: u32,
    pub asynchronous: u32,
    pub n_services: u32,
    pub staleness_bound: u64,
    pub n_tensors: u64,
    pub n_parts: u64,
    pub model_bytes: u64,
    pub partition_bytes: u64,
    pub services: *const Service,
    pub worker_hosts: *const *const c_char,
}

/// `rsumObserverStage_v1`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Stage {
    pub name: *const c_char,
    pub waiting_parts: u64,
    pub running_parts: u64,
    pub entered_parts: u64,
    pub left_parts: u64,
    pub waited_ns: u64,
    pub worked_ns: u64,
    pub longest_wait_ns: u64,
}

/// `rsumObserverTraffic_v1`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Traffic {
    pub push_issued_bytes: u64,
    pub push_completed_bytes: u64,
    pub pull_issued_bytes: u64,
    pub pull_completed_bytes: u64,
    pub local_bytes: u64,
}

/// `rsumObserverContributor_v1`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Contributor {
    pub contributions: u64,
    pub bytes: u64,
    pub last_arrivals: u64,
    pub late_ns: u64,
    pub last_arrival_ns: u64,
    pub unanswered: u64,
    pub unanswered_bytes: u64,
}

/// `rsumObserverWait_v1`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Wait {
    pub key: u32,
    pub for_push: u32,
    pub round: u64,
    pub tensor: *const c_char,
    pub first_arrival_ns: u64,
    pub workers: *const u32,
    pub n_workers: u32,
    pub reserved: u32,
}

/// `rsumObserverComparison_v1`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Comparison {
    pub count: u64,
    pub every: u64,
    pub steps: u64,
    pub at_ns: u64,
    pub n_parameters: u64,
    pub n_different: u64,
    pub equal_steps: u64,
    pub different_steps: u64,
    pub different_at_ns: u64,
    pub parameter: *const c_char,
    pub hashes: *const u64,
    pub n_workers: u32,
    pub reserved: u32,
}

/// `rsumObserverSample_v1`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Sample {
    pub size: usize,
    pub now_ns: u64,
    pub n_stages: u32,
    pub n_services: u32,
    pub n_contributors: u32,
    pub n_waits: u32,
    pub stages: *const Stage,
    pub traffic: *const Traffic,
    pub contributors: *const Contributor,
    pub waits: *const Wait,
    pub credits_used_bytes: u64,
    pub credit_bytes: u64,
    pub credits_waited_ns: u64,
    pub finished_rounds: u64,
    pub reserved: u64,
    pub refused: u64,
    pub summed_bytes: u64,
    pub summing_ns: u64,
    pub staleness: *const u64,
    pub n_staleness: u64,
    pub comparison: *const Comparison,
}

/// `rsumObserverRound_v1`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Round {
    pub size: usize,
    pub key: u32,
    pub made: u32,
    pub round: u64,
    pub fingerprint: u64,
    pub contributors: u32,
    pub last_arriver: u32,
    pub spread_ns: u64,
    pub took_ns: u64,
    pub now_ns: u64,
}

/// `rsumObserverFinished_v1`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Finished {
    pub size: usize,
    pub tensor: u32,
    pub result: i32,
    pub round: u64,
    pub bytes: u64,
    pub submitted_ns: u64,
    pub now_ns: u64,
}

/// `rsumObserver_v1_t`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ObserverVtable {
    pub name: *const c_char,
    pub begin: Option<unsafe extern "C" fn(*mut *mut c_void, *const Group) -> c_int>,
    pub sample: Option<unsafe extern "C" fn(*mut c_void, *const Sample)>,
    pub round: Option<unsafe extern "C" fn(*mut c_void, *const Round)>,
    pub finished: Option<unsafe extern "C" fn(*mut c_void, *const Finished)>,
    pub end: Option<unsafe extern "C" fn(*mut c_void, c_int, c_int, *const c_char)>,
}

// As the header compiles where pointers have 64 bits; `engine/tests/c/observer.c` asserts the same.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<Service>() == 48);
    assert!(size_of::<Group>() == 128 && offset_of!(Group, services) == 112);
    assert!(size_of::<Stage>() == 64);
    assert!(size_of::<Traffic>() == 40);
    assert!(size_of::<Contributor>() == 56);
    assert!(size_of::<Wait>() == 48 && offset_of!(Wait, workers) == 32);
    assert!(size_of::<Comparison>() == 96 && offset_of!(Comparison, parameter) == 72);
    assert!(size_of::<Sample>() == 152 && offset_of!(Sample, comparison) == 144);
    assert!(size_of::<Round>() == 64 && offset_of!(Round, now_ns) == 56);
    assert!(size_of::<Finished>() == 48);
    assert!(size_of::<ObserverVtable>() == 48);
};
