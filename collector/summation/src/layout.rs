//! The structures of `rsum_observer.h`, field by field; as far as they are read.

use std::ffi::{c_char, c_int};
use std::mem::offset_of;

pub(crate) const ROLE_WORKER: i32 = 1;
pub(crate) const END_SUSPENDED: c_int = 2;
pub(crate) const END_FAILED: c_int = 3;

/// `rsumObserverService_v1`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Service {
    pub(crate) rank: u32,
    pub(crate) optimal_share_ppm: u32,
    pub(crate) share_ppm: u32,
    _reserved: u32,
    pub(crate) host: *const c_char,
    pub(crate) owned_bytes: u64,
    pub(crate) predicted_sent_bytes: u64,
    pub(crate) predicted_received_bytes: u64,
}

/// `rsumObserverGroup_v1`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Group {
    pub(crate) size: usize,
    pub(crate) group: u64,
    pub(crate) session: u64,
    pub(crate) membership_epoch: u64,
    pub(crate) placement_epoch: u64,
    pub(crate) comm: u64,
    pub(crate) role: i32,
    pub(crate) index: u32,
    pub(crate) n_workers: u32,
    pub(crate) n_servers: u32,
    pub(crate) asynchronous: u32,
    pub(crate) n_services: u32,
    pub(crate) staleness_bound: u64,
    pub(crate) n_tensors: u64,
    pub(crate) n_parts: u64,
    pub(crate) model_bytes: u64,
    pub(crate) partition_bytes: u64,
    pub(crate) services: *const Service,
    pub(crate) worker_hosts: *const *const c_char,
}

/// `rsumObserverStage_v1`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Stage {
    pub(crate) name: *const c_char,
    pub(crate) waiting_parts: u64,
    pub(crate) running_parts: u64,
    pub(crate) entered_parts: u64,
    pub(crate) left_parts: u64,
    pub(crate) waited_ns: u64,
    pub(crate) worked_ns: u64,
    pub(crate) longest_wait_ns: u64,
}

/// `rsumObserverTraffic_v1`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Traffic {
    pub(crate) push_issued_bytes: u64,
    pub(crate) push_completed_bytes: u64,
    pub(crate) pull_issued_bytes: u64,
    pub(crate) pull_completed_bytes: u64,
    pub(crate) local_bytes: u64,
}

/// `rsumObserverContributor_v1`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Contributor {
    pub(crate) contributions: u64,
    pub(crate) bytes: u64,
    pub(crate) last_arrivals: u64,
    pub(crate) late_ns: u64,
    pub(crate) last_arrival_ns: u64,
    pub(crate) unanswered: u64,
    pub(crate) unanswered_bytes: u64,
}

/// `rsumObserverWait_v1`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Wait {
    pub(crate) key: u32,
    pub(crate) for_push: u32,
    pub(crate) round: u64,
    pub(crate) tensor: *const c_char,
    pub(crate) first_arrival_ns: u64,
    pub(crate) workers: *const u32,
    pub(crate) n_workers: u32,
    _reserved: u32,
}

/// `rsumObserverSample_v1`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Sample {
    pub(crate) size: usize,
    pub(crate) now_ns: u64,
    pub(crate) n_stages: u32,
    pub(crate) n_services: u32,
    pub(crate) n_contributors: u32,
    pub(crate) n_waits: u32,
    pub(crate) stages: *const Stage,
    pub(crate) traffic: *const Traffic,
    pub(crate) contributors: *const Contributor,
    pub(crate) waits: *const Wait,
    pub(crate) credits_used_bytes: u64,
    pub(crate) credit_bytes: u64,
    pub(crate) credits_waited_ns: u64,
    pub(crate) finished_rounds: u64,
    pub(crate) given_up_rounds: u64,
    pub(crate) refused: u64,
    pub(crate) summed_bytes: u64,
    pub(crate) summing_ns: u64,
    pub(crate) staleness: *const u64,
    pub(crate) n_staleness: u64,
}

/// `rsumObserverRound_v1`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Round {
    pub(crate) size: usize,
    pub(crate) key: u32,
    pub(crate) made: u32,
    pub(crate) round: u64,
    pub(crate) fingerprint: u64,
    pub(crate) contributors: u32,
    pub(crate) last_arriver: u32,
    pub(crate) spread_ns: u64,
    pub(crate) took_ns: u64,
    pub(crate) now_ns: u64,
}

/// `rsumObserverFinished_v1`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Finished {
    pub(crate) size: usize,
    pub(crate) tensor: u32,
    pub(crate) result: i32,
    pub(crate) round: u64,
    pub(crate) bytes: u64,
    pub(crate) submitted_ns: u64,
    pub(crate) now_ns: u64,
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
    assert!(size_of::<Sample>() == 144 && offset_of!(Sample, staleness) == 128);
    assert!(size_of::<Round>() == 64 && offset_of!(Round, now_ns) == 56);
    assert!(size_of::<Finished>() == 48);
};
