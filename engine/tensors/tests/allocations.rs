//! What a transfer costs on the heap, counted: a static one nothing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(unsafe_code, reason = "counts what the allocator is asked for")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{devices, ready};
use rtensor::device::Kind;
use rtensor::link::{Declaration, Hold, Link};
use rtensor::tensor::{DataType, Shape};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: the system's allocator, with a count beside it that allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_static_transfer_allocates_nothing() {
    let (one, other) = devices(Kind::Local);
    let (mut one, mut other) = (Link::new(one), Link::new(other));
    let shape = Shape::new(DataType::F32, &[100, 10]).unwrap();
    let hold = Hold::By("back".to_owned());
    let out = one.declare(Declaration::static_sender("out", shape.clone(), hold)).unwrap();
    let back = one.declare(Declaration::static_receiver("back", shape.clone())).unwrap();
    let received = other.declare(Declaration::static_receiver("out", shape.clone())).unwrap();
    let answer = other.declare(Declaration::static_sender("back", shape, Hold::Release)).unwrap();
    ready(&mut one, &mut other);
    let mut round = || {
        one.tensor_mut(out).unwrap().fill(1);
        one.send(out).unwrap();
        while !other.poll(received).unwrap() {}
        assert_eq!(other.tensor(received).unwrap().1[0], 1);
        other.release(received).unwrap();
        while !other.may_send(answer).unwrap() {}
        other.send(answer).unwrap();
        while !one.poll(back).unwrap() {}
        one.release(back).unwrap();
    };
    round();
    let before = ALLOCATIONS.get();
    (0..100).for_each(|_| round());
    assert_eq!(ALLOCATIONS.get() - before, 0);
}
