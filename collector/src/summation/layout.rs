//! The structures of `rsum_observer.h`, field by field; as far as they are read.

#![expect(unsafe_code, reason = "a table that another library reads")]

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;

pub(super) const ROLE_WORKER: i32 = 1;
pub(super) const END_SUSPENDED: c_int = 2;
pub(super) const END_FAILED: c_int = 3;

/// `rsumObserverService_v1`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Service {
    pub(super) rank: u32,
    pub(super) optimal_share_ppm: u32,
    pub(super) share_ppm: u32,
    _reserved: u32,
    pub(super) host: *const c_char,
    pub(super) owned_bytes: u64,
    pub(super) predicted_sent_bytes: u64,
    pub(super) predicted_received_bytes: u64,
}

/// `rsumObserverGroup_v1`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Group {
    pub(super) size: usize,
    pub(super) group: u64,
    pub(super) session: u64,
    pub(super) membership_epoch: u64,
    pub(super) placement_epoch: u64,
    pub(super) comm: u64,
    pub(super) role: i32,
    pub(super) index: u32,
    pub(super) n_workers: u32,
    pub(super) n_servers: u32,
    pub(super) asynchronous: u32,
    pub(super) n_services: u32,
    pub(super) staleness_bound: u64,
    pub(super) n_tensors: u64,
    pub(super) n_parts: u64,
    pub(super) model_bytes: u64,
    pub(super) partition_bytes: u64,
    pub(super) services: *const Service,
    pub(super) worker_hosts: *const *const c_char,
}

/// `rsumObserverStage_v1`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Stage {
    pub(super) name: *const c_char,
    pub(super) waiting_parts: u64,
    pub(super) running_parts: u64,
    pub(super) entered_parts: u64,
    pub(super) left_parts: u64,
    pub(super) waited_ns: u64,
    pub(super) worked_ns: u64,
    pub(super) longest_wait_ns: u64,
}

/// `rsumObserverTraffic_v1`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Traffic {
    pub(super) push_issued_bytes: u64,
    pub(super) push_completed_bytes: u64,
    pub(super) pull_issued_bytes: u64,
    pub(super) pull_completed_bytes: u64,
    pub(super) local_bytes: u64,
}

/// `rsumObserverContributor_v1`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Contributor {
    pub(super) contributions: u64,
    pub(super) bytes: u64,
    pub(super) last_arrivals: u64,
    pub(super) late_ns: u64,
    pub(super) last_arrival_ns: u64,
    pub(super) unanswered: u64,
    pub(super) unanswered_bytes: u64,
}

/// `rsumObserverWait_v1`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Wait {
    pub(super) key: u32,
    pub(super) for_push: u32,
    pub(super) round: u64,
    pub(super) tensor: *const c_char,
    pub(super) first_arrival_ns: u64,
    pub(super) workers: *const u32,
    pub(super) n_workers: u32,
    _reserved: u32,
}

/// `rsumObserverSample_v1`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Sample {
    pub(super) size: usize,
    pub(super) now_ns: u64,
    pub(super) n_stages: u32,
    pub(super) n_services: u32,
    pub(super) n_contributors: u32,
    pub(super) n_waits: u32,
    pub(super) stages: *const Stage,
    pub(super) traffic: *const Traffic,
    pub(super) contributors: *const Contributor,
    pub(super) waits: *const Wait,
    pub(super) credits_used_bytes: u64,
    pub(super) credit_bytes: u64,
    pub(super) credits_waited_ns: u64,
    pub(super) finished_rounds: u64,
    pub(super) given_up_rounds: u64,
    pub(super) refused: u64,
    pub(super) summed_bytes: u64,
    pub(super) summing_ns: u64,
    pub(super) staleness: *const u64,
    pub(super) n_staleness: u64,
}

/// `rsumObserverRound_v1`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Round {
    pub(super) size: usize,
    pub(super) key: u32,
    pub(super) made: u32,
    pub(super) round: u64,
    pub(super) fingerprint: u64,
    pub(super) contributors: u32,
    pub(super) last_arriver: u32,
    pub(super) spread_ns: u64,
    pub(super) took_ns: u64,
    pub(super) now_ns: u64,
}

/// `rsumObserverFinished_v1`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Finished {
    pub(super) size: usize,
    pub(super) tensor: u32,
    pub(super) result: i32,
    pub(super) round: u64,
    pub(super) bytes: u64,
    pub(super) submitted_ns: u64,
    pub(super) now_ns: u64,
}

/// `rsumObserver_v1_t`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Table {
    pub(super) name: *const c_char,
    pub(super) begin: unsafe extern "C" fn(*mut *mut c_void, *const Group) -> c_int,
    pub(super) sample: unsafe extern "C" fn(*mut c_void, *const Sample),
    pub(super) round: unsafe extern "C" fn(*mut c_void, *const Round),
    pub(super) finished: unsafe extern "C" fn(*mut c_void, *const Finished),
    pub(super) end: unsafe extern "C" fn(*mut c_void, c_int, c_int, *const c_char),
}

// SAFETY: never written; the name is static.
unsafe impl Sync for Table {}

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
    assert!(size_of::<Table>() == 48);
};
