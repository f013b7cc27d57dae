//! Pairs of ends in one process, and contents that tell a torn tensor.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

pub(crate) mod graphs;

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rtensor::clock::Deadline;
use rtensor::device::{self, Device, FlagForm, Kind, Role, local, reordering::Reordering};
use rtensor::link::Link;
use rtensor::tensor::{DataType, Shape};

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
    let address = address(Kind::Local);
    std::thread::scope(|scope| {
        let called = scope.spawn(|| local::connect(Role::Listen, &address, soon()).unwrap());
        let caller = local::connect(Role::Call, &address, soon()).unwrap();
        let called = called.join().unwrap();
        (
            Box::new(Reordering::new(caller, form, seed)) as _,
            Box::new(Reordering::new(called, form, seed)) as _,
        )
    })
}

/// Sets both ends up at once.
pub(crate) fn ready(one: &mut Link, other: &mut Link) {
    std::thread::scope(|scope| {
        scope.spawn(|| other.ready(soon()).unwrap());
        one.ready(soon()).unwrap();
    });
}

/// Numbers that look random (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Of up to three dimensions; most tensors small, some of 100 KB and more.
    pub(crate) fn shape(&mut self) -> Shape {
        let n_dims = self.below(4);
        let most = if self.below(8) == 0 { 36 } else { 12 };
        let dims: Vec<u64> = (0..n_dims).map(|_| self.below(most)).collect();
        let data_type = DataType::ALL[usize::try_from(self.below(7)).unwrap()];
        Shape::new(data_type, &dims).unwrap()
    }

    /// Nothing, or a short while.
    pub(crate) fn delay(&mut self) {
        match self.below(16) {
            0 => std::thread::sleep(Duration::from_micros(self.below(300))),
            1..5 => std::thread::yield_now(),
            _ => {}
        }
    }
}

/// Fills a tensor with what only this transfer has.
pub(crate) fn fill(bytes: &mut [u8], edge: u64, iteration: u64) {
    let mut random = Random(edge << 32 ^ iteration);
    for piece in bytes.chunks_mut(8) {
        piece.copy_from_slice(&random.next().to_le_bytes()[..piece.len()]);
    }
}

/// Whether a tensor is that of this transfer.
pub(crate) fn is_whole(bytes: &[u8], edge: u64, iteration: u64) -> bool {
    let mut random = Random(edge << 32 ^ iteration);
    bytes.chunks(8).all(|piece| piece == &random.next().to_le_bytes()[..piece.len()])
}
