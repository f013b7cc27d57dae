//! Pairs of ends in one process, and contents that tell a torn tensor.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

pub(crate) mod contents;
pub(crate) mod graphs;
pub(crate) mod mixes;
pub(crate) mod reordering;

#[allow(unused_imports, reason = "each test file uses its part")]
pub(crate) use contents::{Random, fill, is_whole};

use reordering::Reordering;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rtensor::clock::Deadline;
use rtensor::device::{self, Device, FlagForm, Kind, Role, local};
use rtensor::link::Link;

pub(crate) const KINDS: [Kind; 2] = [Kind::Local, Kind::Tcp];

/// Far more than anything here takes.
pub(crate) fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

/// An address that nobody uses.
pub(crate) fn address(kind: Kind) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    match kind {
        Kind::Local => format!("test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)),
        _ => TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string(),
    }
}

/// Both ends of a connection.
pub(crate) fn devices(kind: Kind) -> (Box<dyn Device>, Box<dyn Device>) {
    let address = address(kind);
    std::thread::scope(|scope| {
        let called = scope.spawn(|| device::connect(kind, Role::Listen, &address, soon()).unwrap());
        let caller = device::connect(kind, Role::Call, &address, soon()).unwrap();
        (caller, called.join().unwrap())
    })
}

/// Both ends of a connection that keeps no order within a write, both claiming `form`.
pub(crate) fn reordering(form: FlagForm, seed: u64) -> (Box<dyn Device>, Box<dyn Device>) {
    of_forms([form, form], seed)
}

/// The same, each end claiming a form of its own.
pub(crate) fn of_forms(forms: [FlagForm; 2], seed: u64) -> (Box<dyn Device>, Box<dyn Device>) {
    let address = address(Kind::Local);
    std::thread::scope(|scope| {
        let called = scope.spawn(|| local::connect(Role::Listen, &address, soon()).unwrap());
        let caller = local::connect(Role::Call, &address, soon()).unwrap();
        let called = called.join().unwrap();
        let (one, other) = Reordering::pair(caller, called, forms, seed);
        (Box::new(one) as _, Box::new(other) as _)
    })
}

/// Sets both ends up at once.
pub(crate) fn ready(one: &mut Link, other: &mut Link) {
    std::thread::scope(|scope| {
        scope.spawn(|| other.ready(soon()).unwrap());
        one.ready(soon()).unwrap();
    });
}
