//! Makes the segment, at the first communicator.

#![expect(unsafe_code, reason = "refers to mapped memory")]

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::STATE_ON;

use super::config::Config;
use super::file::Unnamed;
use super::{budget, bus_error, exit, folder, fork, identity};
use crate::calls::resolve;
use crate::profiler::{asked, plugin};
use crate::segment::forks::between_forks;
use crate::segment::{lineage, map, switch, ticks};

/// When the last attempt failed (`CLOCK_MONOTONIC`); 0 if none has.
static FAILED_NS: AtomicU64 = AtomicU64::new(0);
/// How long no other attempt follows one that failed: it may look through a whole folder.
const PAUSE_NS: u64 = 1_000_000_000;

/// A [`crate::segment::maker::Maker`].
pub(super) fn make() -> Option<&'static Segment> {
    let (now_ns, failed_ns) = (ticks::monotonic_ns(), FAILED_NS.load(Relaxed));
    if failed_ns != 0 && now_ns.saturating_sub(failed_ns) < PAUSE_NS {
        return None;
    }
    let made = create().ok();
    FAILED_NS.store(if made.is_some() { 0 } else { now_ns }, Relaxed);
    made
}

/// The default hook would print to the job's stderr. This is the hook of our own copy of Rust's library alone. Once, as
/// children inherit it: also the lock that guards it, as it stands when they are made.
fn silence_panics() {
    static IS_SILENT: AtomicBool = AtomicBool::new(false);
    if !IS_SILENT.swap(true, Relaxed) {
        between_forks(|| std::panic::set_hook(Box::new(|_| {})));
    }
}

fn create() -> io::Result<&'static Segment> {
    silence_panics();
    plugin::note_pid();
    let config = Config::from_env();
    switch::disobey();
    asked::begin(config.level);
    lineage::begin(config.shares_of_children);
    let fixed = identity::fixed(&config, &ticks::anchor());
    folder::make(&config, &fixed)?;
    budget::set(&config);
    let file = Unnamed::create(&config.dir, &fixed)
        .inspect_err(|error| folder::tell_if_full(&config.dir, error, &fixed))?;
    folder::check_made(&config, &fixed)?;
    file.write_scheduled(identity::scheduled(&config));
    let memory = file.memory();
    // SAFETY: `live` lies in the mapping, and what is not atomic in it is written; `fixed`, which is written below, lies
    // outside of it.
    let live = unsafe { &(*memory.as_ptr()).live };
    live.library_version.store(resolve::library_version(), Relaxed);
    live.n_libraries.store(resolve::n_libraries(), Relaxed);
    live.state.store(STATE_ON, Relaxed);
    file.publish(&config.dir, fixed)?;
    // SAFETY: `fixed` is written, all else is atomic and valid as zeros; it is never unmapped.
    let segment = unsafe { memory.as_ref() };
    bus_error::watch();
    exit::watch();
    fork::note_mapped(memory.as_ptr());
    map::set(segment);
    switch::settle_without_segment(segment);
    Ok(segment)
}
