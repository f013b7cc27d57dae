//! The life of the process: the segment made ([`create`], [`file`], [`folder`], [`mounts`]), what it may take ([`budget`], [`taken`]) and caught where it has no page
//! ([`bus_error`]), a forked child ([`fork`]), the end ([`exit`]). The only layer that knows all others, so it also leaves them
//! what they need of those behind them.
//!
//! * [`config`] and [`identity`]: who this process is

#![expect(unsafe_code, reason = "leaves functions for the start and the end of the process")]

mod budget;
mod bus_error;
pub(crate) mod config;
mod create;
mod exit;
mod file;
mod folder;
mod fork;
mod identity;
mod mounts;
mod taken;

use crate::calls::order;
use crate::cuda_events::follow;
use crate::exports::nonblocking;
use crate::profiler::{asked, chain};
use crate::segment::{communicators, forks, maker, own, room, switch};

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
