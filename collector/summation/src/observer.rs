//! What the engine tells of the group that the process is in. On the group's own thread: what it hands over is read and
//! left in the area.

#![expect(unsafe_code, reason = "reads the engine's structures")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::Relaxed;

use ringscope_wire::segment::summation::layout::{
    Area, Comparison, KEY_CLASSES, MAX_SERVICES, MAX_STAGES, MAX_STALENESS, MAX_WAITS, MAX_WORKERS,
    STATE_FAILED, STATE_LEFT, STATE_SUSPENDED, Service, Traffic, Wait,
};
use ringscope_wire::watcher::{Carrier, JOINED_NEW, JOINED_SECOND};
use rsum_observer::{END_FAILED, END_SUSPENDED, ROLE_WORKER};

use crate::area::set_text;
use crate::guard::guard;

use crate::{area, calls};

/// [`begin`]'s answers.
const FOLLOWED: c_int = 0;
const DECLINED: c_int = 1;

/// # Safety
/// NULL or an area, which is valid for ever; NULL or a group that is valid during the call.
pub(crate) unsafe extern "C" fn begin(area: *const Area, told: *const c_void) -> c_int {
    // SAFETY: the caller's promise; all in it is atomic.
    let area = unsafe { area.as_ref() };
    // SAFETY: the caller's promise.
    let told = unsafe { told.cast::<rsum_observer::Group>().as_ref() };
    let Some((area, told)) = area.zip(told) else { return DECLINED };
    guard(|collector| {
        if !area::fits(told.n_services, told.n_workers) {
            (collector.too_large)();
            return None;
        }
        let is_worker = told.role == ROLE_WORKER;
        let carrier = Carrier {
            group: told.group,
            pointer: told.comm,
            rank: if is_worker { told.index } else { told.n_workers.saturating_add(told.index) },
            n_ranks: told.n_workers.saturating_add(told.n_servers),
        };
        // SAFETY: it is valid during the call.
        let joined = unsafe { (collector.join)(&raw const carrier) };
        if joined.beginning == JOINED_SECOND {
            return None;
        }
        let is_new = joined.beginning == JOINED_NEW;
        area::write(area, |area| {
            area::begin(area, is_new, is_worker, joined.communicator, (collector.now_ns)());
            // SAFETY: the engine's own lists, as long as it says.
            unsafe { describe(area, told) };
        });
        Some(FOLLOWED)
    })
    .flatten()
    .unwrap_or(DECLINED)
}

/// # Safety
/// NULL or an area, which is valid for ever; NULL or a sample that is valid during the call.
pub(crate) unsafe extern "C" fn sample(area: *const Area, told: *const c_void) {
    // SAFETY: the caller's promise; all in it is atomic.
    let area = unsafe { area.as_ref() };
    // SAFETY: the caller's promise.
    let told = unsafe { whole(told) };
    let Some((area, told)) = area.zip(told) else { return };
    guard(|collector| {
        (collector.keep)();
        // SAFETY: the engine's own lists, as long as it says.
        area::write(area, |area| unsafe { note(area, &told) });
    });
}

/// # Safety
/// NULL or an area, which is valid for ever; NULL or a result that is valid during the call.
pub(crate) unsafe extern "C" fn round(area: *const Area, told: *const c_void) {
    // SAFETY: the caller's promise; all in it is atomic.
    let area = unsafe { area.as_ref() };
    // SAFETY: the caller's promise.
    let told = unsafe { told.cast::<rsum_observer::Round>().as_ref() };
    let Some((area, told)) = area.zip(told) else { return };
    guard(|_| {
        area::add(
            area,
            &area::Result {
                key: told.key,
                round: told.round,
                fingerprint: told.fingerprint,
                is_made: told.made != 0,
                contributors: told.contributors,
                last_arriver: told.last_arriver,
                spread_ns: told.spread_ns,
                took_ns: told.took_ns,
                at_ns: told.now_ns,
            },
        );
    });
}

/// # Safety
/// NULL or a structure that is valid during the call.
pub(crate) unsafe extern "C" fn finished(told: *const c_void) {
    // SAFETY: the caller's promise.
    let Some(told) = (unsafe { told.cast::<rsum_observer::Finished>().as_ref() }) else { return };
    guard(|collector| {
        let took_ns = told.now_ns.saturating_sub(told.submitted_ns);
        calls::ended(collector, told.tensor, told.bytes, took_ns, told.result == 0);
    });
}

/// # Safety
/// NULL or an area, which is valid for ever; NULL or a terminated text.
pub(crate) unsafe extern "C" fn end(area: *const Area, how: c_int, lost_rank: c_int, why: *const c_char) {
    // SAFETY: the caller's promise; all in it is atomic.
    let area = unsafe { area.as_ref() };
    // SAFETY: the caller's promise.
    let why = unsafe { bytes(why) };
    guard(|collector| {
        if let Some(area) = area {
            area::write(area, |area| {
                let state = match how {
                    END_SUSPENDED => STATE_SUSPENDED,
                    END_FAILED => STATE_FAILED,
                    _ => STATE_LEFT,
                };
                area.group.state.store(state, Relaxed);
                area.group.ended_ns.store((collector.now_ns)(), Relaxed);
                area.group.lost_rank.store(lost_rank, Relaxed);
                set_text(&area.group.failure, why);
            });
        }
        calls::fail_all(collector);
        (collector.leave)();
    });
}

/// # Safety
/// A group as the interface has it.
unsafe fn describe(area: &Area, told: &rsum_observer::Group) {
    let group = &area.group;
    group.index.store(told.index, Relaxed);
    group.n_workers.store(told.n_workers, Relaxed);
    group.n_servers.store(told.n_servers, Relaxed);
    group.asynchronous.store(told.asynchronous, Relaxed);
    group.n_services.store(told.n_services, Relaxed);
    group.group.store(told.group, Relaxed);
    group.session.store(told.session, Relaxed);
    group.membership_epoch.store(told.membership_epoch, Relaxed);
    group.placement_epoch.store(told.placement_epoch, Relaxed);
    group.staleness_bound.store(told.staleness_bound, Relaxed);
    group.n_tensors.store(told.n_tensors, Relaxed);
    group.n_parts.store(told.n_parts, Relaxed);
    group.model_bytes.store(told.model_bytes, Relaxed);
    group.partition_bytes.store(told.partition_bytes, Relaxed);
    // SAFETY: the caller's promise.
    let services = unsafe { list(told.services, told.n_services, MAX_SERVICES) };
    for (place, service) in area.services.iter().zip(services) {
        // SAFETY: the caller's promise.
        unsafe { describe_service(place, service) };
    }
    // SAFETY: the caller's promise.
    let hosts = unsafe { list(told.worker_hosts, told.n_workers, MAX_WORKERS) };
    for (place, host) in area.workers.iter().zip(hosts) {
        // SAFETY: the caller's promise.
        set_text(&place.host, unsafe { bytes(*host) });
    }
}

/// The sample of an engine that may be older: fields that it does not have are zeros, which say nothing.
///
/// # Safety
/// NULL, or a sample of the size that its first field says.
unsafe fn whole(told: *const c_void) -> Option<rsum_observer::Sample> {
    let mut whole = MaybeUninit::<rsum_observer::Sample>::zeroed();
    if told.is_null() {
        return None;
    }
    // SAFETY: the first field is there whatever the size.
    let size = unsafe { told.cast::<usize>().read_unaligned() }.min(size_of::<rsum_observer::Sample>());
    // SAFETY: as many bytes as both have.
    unsafe { std::ptr::copy_nonoverlapping(told.cast::<u8>(), whole.as_mut_ptr().cast::<u8>(), size) };
    // SAFETY: zeros are a sample, and so are an engine's bytes.
    Some(unsafe { whole.assume_init() })
}

/// # Safety
/// A service as the interface has it.
unsafe fn describe_service(place: &Service, told: &rsum_observer::Service) {
    place.rank.store(told.rank, Relaxed);
    place.optimal_share_ppm.store(told.optimal_share_ppm, Relaxed);
    place.share_ppm.store(told.share_ppm, Relaxed);
    place.owned_bytes.store(told.owned_bytes, Relaxed);
    place.predicted_sent_bytes.store(told.predicted_sent_bytes, Relaxed);
    place.predicted_received_bytes.store(told.predicted_received_bytes, Relaxed);
    // SAFETY: the caller's promise.
    set_text(&place.host, unsafe { bytes(told.host) });
}

/// # Safety
/// A sample as the interface has it.
unsafe fn note(area: &Area, told: &rsum_observer::Sample) {
    let group = &area.group;
    group.sampled_ns.store(told.now_ns, Relaxed);
    group.credits_used_bytes.store(told.credits_used_bytes, Relaxed);
    group.credit_bytes.store(told.credit_bytes, Relaxed);
    group.credits_waited_ns.store(told.credits_waited_ns, Relaxed);
    group.finished_rounds.store(told.finished_rounds, Relaxed);
    group.refused.store(told.refused, Relaxed);
    group.summed_bytes.store(told.summed_bytes, Relaxed);
    group.summing_ns.store(told.summing_ns, Relaxed);
    // SAFETY: the caller's promise.
    let stages = unsafe { list(told.stages, told.n_stages, MAX_STAGES) };
    group.n_stages.store(len(stages), Relaxed);
    for (place, stage) in area.stages.iter().zip(stages) {
        // SAFETY: the caller's promise.
        set_text(&place.name, unsafe { bytes(stage.name) });
        place.waiting_parts.store(stage.waiting_parts, Relaxed);
        place.running_parts.store(stage.running_parts, Relaxed);
        place.entered_parts.store(stage.entered_parts, Relaxed);
        place.left_parts.store(stage.left_parts, Relaxed);
        place.waited_ns.store(stage.waited_ns, Relaxed);
        place.worked_ns.store(stage.worked_ns, Relaxed);
        place.longest_wait_ns.store(stage.longest_wait_ns, Relaxed);
    }
    let n_traffic = told.n_services.saturating_mul(CLASSES);
    // SAFETY: the caller's promise.
    let traffic = unsafe { list(told.traffic, n_traffic, MAX_SERVICES * KEY_CLASSES) };
    let places = area.services.iter().flat_map(|service| &service.traffic);
    places.zip(traffic).for_each(|(place, traffic)| note_traffic(place, traffic));
    // SAFETY: the caller's promise.
    let contributors = unsafe { list(told.contributors, told.n_contributors, MAX_WORKERS) };
    for (place, one) in area.workers.iter().zip(contributors) {
        place.contributions.store(one.contributions, Relaxed);
        place.bytes.store(one.bytes, Relaxed);
        place.last_arrivals.store(one.last_arrivals, Relaxed);
        place.late_ns.store(one.late_ns, Relaxed);
        place.last_arrival_ns.store(one.last_arrival_ns, Relaxed);
        place.unanswered.store(one.unanswered, Relaxed);
        place.unanswered_bytes.store(one.unanswered_bytes, Relaxed);
    }
    // SAFETY: the caller's promise.
    let waits = unsafe { list(told.waits, told.n_waits, MAX_WAITS) };
    group.n_waits.store(len(waits), Relaxed);
    for (place, wait) in area.waits.iter().zip(waits) {
        // SAFETY: the caller's promise.
        unsafe { note_wait(place, wait) };
    }
    let n_staleness = u32::try_from(told.n_staleness).unwrap_or(u32::MAX);
    // SAFETY: the caller's promise.
    let staleness = unsafe { list(told.staleness, n_staleness, MAX_STALENESS) };
    group.n_staleness.store(len(staleness), Relaxed);
    area.staleness.iter().zip(staleness).for_each(|(place, pulls)| place.store(*pulls, Relaxed));
    // SAFETY: the caller's promise.
    if let Some(comparison) = unsafe { told.comparison.as_ref() } {
        // SAFETY: the caller's promise.
        unsafe { note_comparison(&area.comparison, comparison) };
    }
}

/// # Safety
/// A comparison as the interface has it.
unsafe fn note_comparison(place: &Comparison, told: &rsum_observer::Comparison) {
    place.count.store(told.count, Relaxed);
    place.every.store(told.every, Relaxed);
    place.steps.store(told.steps, Relaxed);
    place.at_ns.store(told.at_ns, Relaxed);
    place.n_parameters.store(told.n_parameters, Relaxed);
    place.n_different.store(told.n_different, Relaxed);
    place.equal_steps.store(told.equal_steps, Relaxed);
    place.different_steps.store(told.different_steps, Relaxed);
    place.different_at_ns.store(told.different_at_ns, Relaxed);
    // SAFETY: the caller's promise.
    set_text(&place.parameter, unsafe { bytes(told.parameter) });
    // SAFETY: the caller's promise.
    let hashes = unsafe { list(told.hashes, told.n_workers, MAX_WORKERS) };
    place.n_hashes.store(hashes.len() as u64, Relaxed);
    place.hashes.iter().zip(hashes).for_each(|(place, hash)| place.store(*hash, Relaxed));
}

fn note_traffic(place: &Traffic, told: &rsum_observer::Traffic) {
    place.push_issued_bytes.store(told.push_issued_bytes, Relaxed);
    place.push_completed_bytes.store(told.push_completed_bytes, Relaxed);
    place.pull_issued_bytes.store(told.pull_issued_bytes, Relaxed);
    place.pull_completed_bytes.store(told.pull_completed_bytes, Relaxed);
    place.local_bytes.store(told.local_bytes, Relaxed);
}

/// # Safety
/// A wait as the interface has it.
unsafe fn note_wait(place: &Wait, told: &rsum_observer::Wait) {
    place.key.store(told.key, Relaxed);
    place.for_push.store(told.for_push, Relaxed);
    place.round.store(told.round, Relaxed);
    place.first_arrival_ns.store(told.first_arrival_ns, Relaxed);
    // SAFETY: the caller's promise.
    set_text(&place.tensor, unsafe { bytes(told.tensor) });
    let mut words = [0_u64; MAX_WORKERS / 64];
    // SAFETY: the caller's promise.
    for worker in unsafe { list(told.workers, told.n_workers, MAX_WORKERS) } {
        if let Some(word) = words.get_mut(*worker as usize / 64) {
            *word |= 1 << (worker % 64);
        }
    }
    place.workers.iter().zip(words).for_each(|(place, word)| place.store(word, Relaxed));
}

const CLASSES: u32 = 3;
const _: () = assert!(CLASSES as usize == KEY_CLASSES);

/// The entries of a list, at most `max`.
///
/// # Safety
/// NULL, or `n` entries.
unsafe fn list<'a, T>(first: *const T, n: u32, max: usize) -> &'a [T] {
    if first.is_null() || n == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(first, (n as usize).min(max)) }
}

/// # Safety
/// NULL or a terminated text.
unsafe fn bytes<'a>(text: *const c_char) -> &'a [u8] {
    // SAFETY: the caller's promise.
    if text.is_null() { &[] } else { unsafe { CStr::from_ptr(text) }.to_bytes() }
}

fn len<T>(entries: &[T]) -> u32 {
    u32::try_from(entries.len()).unwrap_or(u32::MAX)
}
