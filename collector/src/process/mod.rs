//! The life of the process: the segment made ([`create`], [`file`], [`folder`], [`mounts`]), what it may take ([`budget`], [`taken`]) and caught where it has no page
//! ([`bus_error`]), a forked child ([`fork`]), the exit. The only layer that knows all others, so it also leaves them
//! what they need of those behind them.
//!
//! * [`config`] and [`identity`]: who this process is

#![expect(unsafe_code, reason = "leaves functions for the start and the end of the process")]

mod budget;
mod bus_error;
pub(crate) mod config;
mod create;
mod file;
mod folder;
mod fork;
mod identity;
mod mounts;
mod taken;

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

use crate::calls::order;
use crate::cuda_events::follow;
use crate::exports::nonblocking;
use crate::profiler::{asked, chain};
use crate::segment::{communicators, forks, maker, map, own, room, switch};

/// Runs when the object is loaded: what layers before this one need of those behind them. The linker's lock is held
/// meanwhile, so that it may wait for nobody.
extern "C" fn begin() {
    own::begin();
    own::set_watch(watch);
    maker::set_maker(create::make);
    room::set_grant(budget::grant);
    chain::set_name(config::chained_plugin);
    own::set_forget(fork::forget_parent);
    communicators::set_clear(clear_slot);
    switch::set_asker(asked::ASKER);
}

/// At the first call. glibc 2.28 to 2.35 has the lock of these handlers taken as long as a fork runs them, and one that runs
/// may wait for whoever loads the object.
fn watch() {
    config::take_back_lent_log();
    fork::watch();
    // Later ones run first: a fork is only counted as under way once it waits for nobody.
    forks::watch();
    // The C library's lock of exit functions is taken for a moment. A child that was forked while another thread had it would wait
    // for good, and would do so in the library too, which registers its own.
    // SAFETY: the handler is a function of an object that is never unloaded (-z nodelete), and takes what it is given.
    unsafe { on_exit(note_status, ptr::null_mut()) };
}

/// The slot gets another communicator.
fn clear_slot(slot: usize) {
    nonblocking::clear_slot(slot);
    follow::clear_slot(slot);
    order::forget(slot);
    asked::forget_slot(slot);
}

// SAFETY: the section holds pointers to functions that may take no argument, and this takes none.
#[unsafe(link_section = ".init_array")]
#[used]
static BEGIN: extern "C" fn() = begin;

unsafe extern "C" {
    /// glibc's own: as `atexit`, and tells the status.
    fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Says with which status the process is ending. Who waits for it gets the low 8 bits.
extern "C" fn note_status(status: c_int, _: *mut c_void) {
    if let Some(segment) = map::existing().filter(|_| fork::is_maker()) {
        segment.live.exit_status.store((status.cast_unsigned() & 0xff) + 1, Relaxed);
    }
}

/// Says that the process ended in order. Runs after the program's own exit handlers.
extern "C" fn mark_exit() {
    if let Some(segment) = map::existing().filter(|_| fork::is_maker()) {
        segment.live.exited.store(1, Relaxed);
    }
}

// SAFETY: the section holds pointers to functions without arguments, and this is one.
#[unsafe(link_section = ".fini_array")]
#[used]
static MARK_EXIT: extern "C" fn() = mark_exit;
