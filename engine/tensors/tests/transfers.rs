//! Tensors of random shapes, at random moments, over each device: whole, in order, and counted.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::mixes::{Edges, LIMIT_BYTES, LINKS, Mix, run};
use common::{KINDS, Random, devices, fill, is_whole, ready, reordering, soon};
use rtensor::device::{Device, FlagForm, Kind};
use rtensor::link::{Declaration, Hold, Link};
use rtensor::tensor::{DataType, Shape};

fn many(mix: Mix, pair: impl Fn(u64) -> (Box<dyn Device>, Box<dyn Device>)) {
    let mut random = Random(mix as u64 + 1);
    for number in 0..LINKS {
        let edges = Edges::random(mix, &mut random);
        let iterations = edges.iterations();
        let (one, other) = pair(number);
        std::thread::scope(|scope| {
            let one = scope.spawn(|| run(one, &edges, true, iterations, number));
            let other = run(other, &edges, false, iterations, number + 1000);
            // The arenas of dynamic edges come to rest: all but what senders keep for the last tensors came back.
            assert!(other.arena_used_bytes() <= LIMIT_BYTES);
            drop(one.join().unwrap());
        });
    }
}

#[test]
fn static_tensors_are_whole() {
    KINDS.iter().for_each(|kind| many(Mix::Static, |_| devices(*kind)));
}

#[test]
fn dynamic_tensors_are_whole() {
    KINDS.iter().for_each(|kind| many(Mix::Dynamic, |_| devices(*kind)));
}

#[test]
fn mixed_tensors_are_whole() {
    KINDS.iter().for_each(|kind| many(Mix::Both, |_| devices(*kind)));
}

#[test]
fn a_second_write_is_right_where_the_order_within_a_write_is_any() {
    for mix in [Mix::Static, Mix::Dynamic, Mix::Both] {
        many(mix, |seed| reordering(FlagForm::Behind, seed));
    }
}

#[test]
fn an_immediate_is_right_where_the_order_within_a_write_is_any() {
    for mix in [Mix::Static, Mix::Dynamic, Mix::Both] {
        many(mix, |seed| reordering(FlagForm::Immediate, seed));
    }
}

/// Transfers, of 1 000, whose flag was there before their data.
fn torn(form: FlagForm) -> u32 {
    let (one, other) = reordering(form, 7);
    let (mut one, mut other) = (Link::new(one), Link::new(other));
    let shape = Shape::new(DataType::U8, &[20_000]).unwrap();
    let sender = one.declare(Declaration::static_sender("edge", shape.clone(), Hold::Release)).unwrap();
    let receiver = other.declare(Declaration::static_receiver("edge", shape)).unwrap();
    ready(&mut one, &mut other);
    let mut torn = 0;
    for iteration in 1..=1000 {
        fill(one.tensor_mut(sender).unwrap(), 1, iteration);
        one.send(sender).unwrap();
        while !other.poll(receiver).unwrap() {
            // A packet arrives.
            one.may_send(sender).unwrap();
        }
        torn += u32::from(!is_whole(other.tensor(receiver).unwrap().1, 1, iteration));
        other.release(receiver).unwrap();
        one.wait_to_send(sender, soon()).unwrap();
    }
    torn
}

#[test]
fn a_flag_in_the_last_word_is_wrong_there_and_the_other_forms_right() {
    assert!(torn(FlagForm::Tail) > 100, "the reordering device does not reorder");
    assert_eq!((torn(FlagForm::Behind), torn(FlagForm::Immediate)), (0, 0));
}

#[test]
fn a_static_transfer_is_one_request_and_nothing_else() {
    for kind in KINDS {
        let (one, other) = devices(kind);
        let (mut one, mut other) = (Link::new(one), Link::new(other));
        let shape = Shape::new(DataType::F32, &[1000]).unwrap();
        let hold = Hold::By("back".to_owned());
        let out = one.declare(Declaration::static_sender("out", shape.clone(), hold)).unwrap();
        let back = one.declare(Declaration::static_receiver("back", shape.clone())).unwrap();
        let their_out = other.declare(Declaration::static_receiver("out", shape.clone())).unwrap();
        let hold = Hold::By("out".to_owned());
        let their_back = other.declare(Declaration::static_sender("back", shape, hold)).unwrap();
        ready(&mut one, &mut other);
        let before = (one.counts(), other.counts());
        for _ in 0..100 {
            one.send(out).unwrap();
            while !other.poll(their_out).unwrap() {}
            other.release(their_out).unwrap();
            other.send(their_back).unwrap();
            while !one.poll(back).unwrap() {}
            one.release(back).unwrap();
        }
        for (before, after) in [(before.0, one.counts()), (before.1, other.counts())] {
            assert_eq!(after.work_requests - before.work_requests, 100, "{kind}");
            assert_eq!(after.registrations, before.registrations, "{kind}");
            assert_eq!(after.controls, before.controls, "{kind}");
            let messages = if kind == Kind::Local { 0 } else { 100 };
            assert_eq!(after.messages - before.messages, messages, "{kind}");
            // Payload and flag are copied into a buffer and out of one, where there are messages.
            let copied = if kind == Kind::Local { 0 } else { 2 * 100 * (4032 + 8) };
            assert_eq!(after.copied_bytes - before.copied_bytes, copied, "{kind}");
        }
    }
}

#[test]
fn a_write_before_the_data_flow_allows_it_is_an_error() {
    for kind in KINDS {
        let (one, other) = devices(kind);
        let (mut one, mut other) = (Link::new(one), Link::new(other));
        let shape = Shape::new(DataType::F32, &[10]).unwrap();
        let hold = Hold::By("back".to_owned());
        let out = one.declare(Declaration::static_sender("out", shape.clone(), hold)).unwrap();
        let back = one.declare(Declaration::static_receiver("back", shape.clone())).unwrap();
        let their_out = other.declare(Declaration::static_receiver("out", shape.clone())).unwrap();
        let their_back = other.declare(Declaration::static_sender("back", shape, Hold::Release)).unwrap();
        ready(&mut one, &mut other);
        one.send(out).unwrap();
        let text = one.send(out).unwrap_err().to_string();
        assert!(
            text.contains("edge out: transfer 2 before") && text.contains("done with transfer 1"),
            "{text}"
        );
        // What comes back before the tensor was received frees nobody.
        other.send(their_back).unwrap();
        one.wait(back, soon()).unwrap();
        assert!(!one.may_send(out).unwrap());
        one.send(out).unwrap_err();
        one.release(back).unwrap();
        assert!(one.tensor(back).unwrap_err().to_string().contains("no tensor is there"));
        // Nor could it before the tensor was released.
        other.wait(their_out, soon()).unwrap();
        other.wait_to_send(their_back, soon()).unwrap();
        let text = other.send(their_back).unwrap_err().to_string();
        assert_eq!(text, "edge back: release out first");
        other.release(their_out).unwrap();
        other.send(their_back).unwrap();
        one.wait(back, soon()).unwrap();
        one.send(out).unwrap();
    }
}
