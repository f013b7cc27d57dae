//! A watcher that writes down what it is told, for tests.

#![expect(unsafe_code, reason = "it is called as foreign watchers are")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Arc, Mutex};

use rsum_observer::{Finished, Group, ObserverVtable, Round, Sample};

use super::plugin::Observer;
use super::watch::Watching;
use rsccl_collective::lock::lock;

/// What one process of a group told.
#[derive(Debug, Default)]
pub(in crate::run) struct Recording {
    pub(in crate::run) group: u64,
    /// Each beginning: role, number, workers, servers, tensors.
    pub(in crate::run) began: Vec<(i32, u32, u32, u32, u64)>,
    /// By service: rank, bytes that it owns, host.
    pub(in crate::run) services: Vec<(u32, u64, String)>,
    pub(in crate::run) samples: Vec<Seen>,
    /// Key, round, fingerprint, contributors.
    pub(in crate::run) made: Vec<(u32, u64, u64, u32)>,
    /// Key, round, fingerprint.
    pub(in crate::run) pulled: Vec<(u32, u64, u64)>,
    /// Tensor, round, bytes, result.
    pub(in crate::run) finished: Vec<(u32, u64, u64, i32)>,
    /// How, lost rank, why.
    pub(in crate::run) ended: Vec<(i32, i32, String)>,
}

/// One sample.
#[derive(Clone, Debug, Default)]
pub(in crate::run) struct Seen {
    /// By stage: name, entered, left.
    pub(in crate::run) stages: Vec<(String, u64, u64)>,
    /// By stage.
    pub(in crate::run) worked_ns: Vec<u64>,
    /// Over services, by class: push issued, push completed, pull issued, pull completed, local.
    pub(in crate::run) traffic: Vec<[u64; 5]>,
    /// By worker: contributions, bytes, last arrivals, unanswered.
    pub(in crate::run) contributors: Vec<[u64; 4]>,
    /// Tensor, round, whether for pushes, workers.
    pub(in crate::run) waits: Vec<(String, u64, bool, Vec<u32>)>,
    pub(in crate::run) finished_rounds: u64,
    pub(in crate::run) summed_bytes: u64,
    /// Pulls by rounds that the slowest worker was behind.
    pub(in crate::run) staleness: Vec<u64>,
    pub(in crate::run) comparison: Option<SeenComparison>,
}

/// What comparisons have come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::run) struct SeenComparison {
    pub(in crate::run) count: u64,
    pub(in crate::run) steps: u64,
    pub(in crate::run) n_different: u64,
    pub(in crate::run) different_steps: u64,
    pub(in crate::run) parameter: String,
    pub(in crate::run) hashes: Vec<u64>,
}

/// Where it is written.
pub(in crate::run) type Page = Arc<Mutex<Recording>>;

static TABLE: Table = Table(ObserverVtable {
    name: c"recorder".as_ptr(),
    begin: Some(begin),
    sample: Some(sample),
    round: Some(round),
    finished: Some(finished),
    end: Some(end),
});

struct Table(ObserverVtable);

// SAFETY: never written; the name is static.
unsafe impl Sync for Table {}

/// Of a group of which every `one_of`th result is looked at.
pub(in crate::run) fn watching(one_of: u64) -> (Arc<Watching>, Page) {
    let page = Page::default();
    let context = Arc::as_ptr(&page).cast_mut().cast();
    (Watching::by(Observer::of_table(&TABLE.0), 1, one_of).with_context(context), page)
}

fn page<'a>(context: *mut c_void) -> &'a Mutex<Recording> {
    // SAFETY: the address of a page that its test holds for longer than the group lives.
    unsafe { &*context.cast::<Mutex<Recording>>() }
}

fn list<'a, T>(first: *const T, n: u32) -> &'a [T] {
    // SAFETY: by the interface, that many are there during the call.
    if n == 0 { &[] } else { unsafe { std::slice::from_raw_parts(first, n as usize) } }
}

fn text(text: *const c_char) -> String {
    // SAFETY: by the interface, a terminated text.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

unsafe extern "C" fn begin(context: *mut *mut c_void, group: *const Group) -> c_int {
    // SAFETY: by the interface.
    let group = unsafe { &*group };
    // SAFETY: as above; the context is there before the group begins.
    let context = unsafe { *context };
    let mut told = lock(page(context));
    told.group = group.group;
    told.began.push((group.role, group.index, group.n_workers, group.n_servers, group.n_tensors));
    let services = list(group.services, group.n_services);
    told.services = services.iter().map(|one| (one.rank, one.owned_bytes, text(one.host))).collect();
    0
}

unsafe extern "C" fn sample(context: *mut c_void, sample: *const Sample) {
    // SAFETY: by the interface.
    let sample = unsafe { &*sample };
    let stages = list(sample.stages, sample.n_stages).iter();
    let mut traffic = vec![[0; 5]; rsum_observer::N_CLASSES];
    for (index, one) in list(sample.traffic, sample.n_services * 3).iter().enumerate() {
        let new = [
            one.push_issued_bytes,
            one.push_completed_bytes,
            one.pull_issued_bytes,
            one.pull_completed_bytes,
            one.local_bytes,
        ];
        traffic[index % 3].iter_mut().zip(new).for_each(|(total, new)| *total += new);
    }
    let contributors = list(sample.contributors, sample.n_contributors).iter();
    let waits = list(sample.waits, sample.n_waits).iter();
    let seen = Seen {
        worked_ns: stages.clone().map(|one| one.worked_ns).collect(),
        stages: stages.map(|one| (text(one.name), one.entered_parts, one.left_parts)).collect(),
        traffic,
        contributors: contributors
            .map(|one| [one.contributions, one.bytes, one.last_arrivals, one.unanswered])
            .collect(),
        waits: waits
            .map(|one| {
                let workers = list(one.workers, one.n_workers).to_vec();
                (text(one.tensor), one.round, one.for_push == 1, workers)
            })
            .collect(),
        finished_rounds: sample.finished_rounds,
        summed_bytes: sample.summed_bytes,
        staleness: list(sample.staleness, u32::try_from(sample.n_staleness).unwrap_or(0)).to_vec(),
        // SAFETY: by the interface, NULL or valid during the call.
        comparison: unsafe { sample.comparison.as_ref() }.map(|one| SeenComparison {
            count: one.count,
            steps: one.steps,
            n_different: one.n_different,
            different_steps: one.different_steps,
            parameter: text(one.parameter),
            hashes: list(one.hashes, one.n_workers).to_vec(),
        }),
    };
    lock(page(context)).samples.push(seen);
}

unsafe extern "C" fn round(context: *mut c_void, round: *const Round) {
    // SAFETY: by the interface.
    let Round { key, made, round, fingerprint, contributors, .. } = unsafe { *round };
    let mut told = lock(page(context));
    if made == 1 {
        told.made.push((key, round, fingerprint, contributors));
    } else {
        told.pulled.push((key, round, fingerprint));
    }
}

unsafe extern "C" fn finished(context: *mut c_void, finished: *const Finished) {
    // SAFETY: by the interface.
    let Finished { tensor, round, bytes, result, .. } = unsafe { *finished };
    lock(page(context)).finished.push((tensor, round, bytes, result));
}

unsafe extern "C" fn end(context: *mut c_void, how: c_int, lost_rank: c_int, why: *const c_char) {
    let why = text(why);
    lock(page(context)).ended.push((how, lost_rank, why));
}
