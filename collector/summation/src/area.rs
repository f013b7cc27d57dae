//! What the segment says of the group. Written by the group's own thread, one group at a time.

use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use ringscope_wire::segment::summation::layout::{
    Area, Comparison, Group, MAX_ROUNDS, MAX_SERVICES, MAX_WORKERS, ROLE_SERVER, ROLE_WORKER, STATE_FAILED,
    STATE_RUNNING, Service, Traffic,
};

/// A group that fits is followed.
pub(crate) fn fits(n_services: u32, n_workers: u32) -> bool {
    n_services as usize <= MAX_SERVICES && n_workers as usize <= MAX_WORKERS
}

/// Runs `write` while readers take nothing.
pub(crate) fn write(area: &Area, write: impl FnOnce(&Area)) {
    let sequence = area.sequence.load(Relaxed) | 1;
    area.sequence.store(sequence, Relaxed);
    fence(Release);
    write(area);
    area.sequence.store(sequence + 1, Release);
}

/// The state of a group that begins; the `communicator` carries it. With `is_new` all that was of the one before is cleared.
pub(crate) fn begin(area: &Area, is_new: bool, is_worker: bool, communicator: u64, now_ns: u64) {
    let group = &area.group;
    if is_new {
        if group.state.load(Relaxed) == STATE_FAILED {
            keep_failed(area);
        }
        clear(area);
        group.generation.fetch_add(1, Relaxed);
        group.joined_ns.store(now_ns, Relaxed);
        group.lost_rank.store(-1, Relaxed);
    }
    group.state.store(STATE_RUNNING, Relaxed);
    group.role.store(if is_worker { ROLE_WORKER } else { ROLE_SERVER }, Relaxed);
    group.communicator.store(communicator, Relaxed);
}

fn clear(area: &Area) {
    let group = &area.group;
    for count in [&group.n_stages, &group.n_waits, &group.n_staleness, &group.n_services] {
        count.store(0, Relaxed);
    }
    totals(group).into_iter().chain(&group.failure).for_each(|number| number.store(0, Relaxed));
    let Comparison { count, n_different, n_hashes, .. } = &area.comparison;
    [count, n_different, n_hashes].into_iter().for_each(|number| number.store(0, Relaxed));
    let traffic = area.services.iter().flat_map(|service| &service.traffic);
    traffic.flat_map(bytes).for_each(|number| number.store(0, Relaxed));
    for worker in &area.workers {
        worker.contributions.store(0, Relaxed);
        worker.bytes.store(0, Relaxed);
        worker.last_arrivals.store(0, Relaxed);
        worker.late_ns.store(0, Relaxed);
        worker.last_arrival_ns.store(0, Relaxed);
        worker.unanswered.store(0, Relaxed);
        worker.unanswered_bytes.store(0, Relaxed);
    }
}

/// Says of a group that failed what it was, beside the one that follows: readers come by less often than groups may.
fn keep_failed(area: &Area) {
    let (from, to) = (&area.group, &area.failed);
    for (from, to) in facts(from).into_iter().zip(facts(to)) {
        to.store(from.load(Relaxed), Relaxed);
    }
    to.lost_rank.store(from.lost_rank.load(Relaxed), Relaxed);
    let numbers = |group| identity(group).into_iter().chain(totals(group)).chain(&group.failure);
    numbers(from).zip(numbers(to)).for_each(|(from, to)| to.store(from.load(Relaxed), Relaxed));
    let n_services = from.n_services.load(Relaxed) as usize;
    for (from, to) in area.services.iter().zip(&area.failed_services).take(n_services) {
        for (from, to) in shares(from).into_iter().zip(shares(to)) {
            to.store(from.load(Relaxed), Relaxed);
        }
        for (from, to) in loads(from).zip(loads(to)) {
            to.store(from.load(Relaxed), Relaxed);
        }
    }
}

fn facts(group: &Group) -> [&AtomicU32; 8] {
    let Group { generation, state, role, index, n_workers, n_servers, asynchronous, n_services, .. } = group;
    [generation, state, role, index, n_workers, n_servers, asynchronous, n_services]
}

fn identity(group: &Group) -> [&AtomicU64; 11] {
    [
        &group.communicator,
        &group.group,
        &group.session,
        &group.membership_epoch,
        &group.placement_epoch,
        &group.staleness_bound,
        &group.n_tensors,
        &group.n_parts,
        &group.model_bytes,
        &group.partition_bytes,
        &group.joined_ns,
    ]
}

/// What starts anew with every group.
fn totals(group: &Group) -> [&AtomicU64; 9] {
    [
        &group.ended_ns,
        &group.sampled_ns,
        &group.credits_used_bytes,
        &group.credit_bytes,
        &group.credits_waited_ns,
        &group.finished_rounds,
        &group.refused,
        &group.summed_bytes,
        &group.summing_ns,
    ]
}

fn shares(service: &Service) -> [&AtomicU32; 3] {
    [&service.rank, &service.optimal_share_ppm, &service.share_ppm]
}

fn loads(service: &Service) -> impl Iterator<Item = &AtomicU64> {
    let Service { owned_bytes, predicted_sent_bytes, predicted_received_bytes, host, traffic, .. } = service;
    let predicted = [owned_bytes, predicted_sent_bytes, predicted_received_bytes];
    predicted.into_iter().chain(host).chain(traffic.iter().flat_map(bytes))
}

fn bytes(traffic: &Traffic) -> [&AtomicU64; 5] {
    [
        &traffic.push_issued_bytes,
        &traffic.push_completed_bytes,
        &traffic.pull_issued_bytes,
        &traffic.pull_completed_bytes,
        &traffic.local_bytes,
    ]
}

/// A result.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Result {
    pub(crate) key: u32,
    pub(crate) round: u64,
    pub(crate) fingerprint: u64,
    pub(crate) is_made: bool,
    pub(crate) contributors: u32,
    pub(crate) last_arriver: u32,
    pub(crate) spread_ns: u64,
    pub(crate) took_ns: u64,
    pub(crate) at_ns: u64,
}

/// Adds a result to the ring.
pub(crate) fn add(area: &Area, result: &Result) {
    let ticket = area.next_ticket.load(Relaxed);
    let Some(place) = area.rounds.get(usize::try_from(ticket % MAX_ROUNDS as u64).unwrap_or(0)) else {
        return;
    };
    place.ticket.store(0, Relaxed);
    fence(Release);
    place.round.store(result.round, Relaxed);
    place.fingerprint.store(result.fingerprint, Relaxed);
    place.spread_ns.store(result.spread_ns, Relaxed);
    place.took_ns.store(result.took_ns, Relaxed);
    place.at_ns.store(result.at_ns, Relaxed);
    place.key.store(result.key, Relaxed);
    place.generation.store(area.group.generation.load(Relaxed), Relaxed);
    place.placement_epoch.store(low(area.group.placement_epoch.load(Relaxed)), Relaxed);
    // A group that fits has few enough workers for both.
    let contributors = u16::try_from(result.contributors).unwrap_or(u16::MAX) << 1;
    place.contributors.store(contributors | u16::from(result.is_made), Relaxed);
    place.last_arriver.store(u16::try_from(result.last_arriver).unwrap_or(u16::MAX), Relaxed);
    place.ticket.store(ticket + 1, Release);
    area.next_ticket.store(ticket + 1, Release);
}

/// The lowest 32 bits.
fn low(number: u64) -> u32 {
    u32::try_from(number & u64::from(u32::MAX)).unwrap_or(0)
}

/// Writes a text, cut to fit at a character's end.
pub(crate) fn set_text<const N: usize>(words: &[AtomicU64; N], text: &[u8]) {
    let mut text = &text[..text.len().min(8 * N)];
    if let Err(error) = std::str::from_utf8(text)
        && error.error_len().is_none()
    {
        text = &text[..error.valid_up_to()];
    }
    let chunks = text.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    for (word, value) in words.iter().zip(chunks.chain(std::iter::repeat(0))) {
        word.store(value, Relaxed);
    }
}
