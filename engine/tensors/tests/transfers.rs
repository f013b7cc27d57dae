//! Tensors of random shapes, at random moments, over each device: whole, in order, and counted.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::{KINDS, Random, devices, fill, is_whole, ready, reordering, soon};
use rtensor::device::{Device, FlagForm, Kind};
use rtensor::link::{Declaration, EdgeId, Hold, Link};
use rtensor::tensor::{DataType, Shape};

/// Which edges a link of the random test has.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mix {
    Static,
    Dynamic,
    Both,
}

const TRANSFERS: u64 = 10_000;
const LINKS: u64 = 25;
const LIMIT_BYTES: u64 = 1 << 20;

/// Edges of one link, the same at both ends: forward ones, and back ones of which the first tells the senders.
#[derive(Clone, Debug)]
struct Edges {
    /// Shape of a static edge, none of a dynamic one; whether the data flow holds it.
    forward: Vec<(Option<Shape>, bool)>,
    back: Option<Shape>,
}

impl Edges {
    fn random(mix: Mix, random: &mut Random) -> Self {
        let one = |random: &mut Random| match mix {
            Mix::Static => Some(random.shape()),
            Mix::Dynamic => None,
            Mix::Both => (random.below(2) == 0).then(|| random.shape()),
        };
        let n_edges = 1 + random.below(4);
        let forward = (0..n_edges).map(|_| (one(random), random.below(2) == 0)).collect();
        Self { forward, back: one(random) }
    }

    fn declare(&self, link: &mut Link, sends_forward: bool) -> (Vec<EdgeId>, EdgeId) {
        link.set_arena_bytes(8 << 20);
        let mut one = |name: String, shape: &Option<Shape>, sends: bool, hold: Hold| {
            let declaration = match (shape, sends) {
                (Some(shape), true) => Declaration::static_sender(name, shape.clone(), hold),
                (Some(shape), false) => Declaration::static_receiver(name, shape.clone()),
                (None, true) => Declaration::dynamic_sender(name, LIMIT_BYTES, hold),
                (None, false) => Declaration::dynamic_receiver(name, LIMIT_BYTES),
            };
            link.declare(declaration).unwrap()
        };
        let held = |by_flow: bool| if by_flow { Hold::By("back".to_owned()) } else { Hold::Release };
        let forward = self.forward.iter().enumerate().map(|(number, (shape, by_flow))| {
            one(format!("forward {number}"), shape, sends_forward, held(*by_flow))
        });
        let forward = forward.collect();
        (forward, one("back".to_owned(), &self.back, !sends_forward, Hold::Release))
    }
}

fn send(
    link: &mut Link,
    edge: EdgeId,
    shape: &Option<Shape>,
    number: u64,
    iteration: u64,
    random: &mut Random,
) {
    link.wait_to_send(edge, soon()).unwrap();
    if shape.is_none() {
        link.begin(edge, &random.shape()).unwrap();
    }
    fill(link.tensor_mut(edge).unwrap(), number, iteration);
    random.delay();
    link.send(edge).unwrap();
}

fn receive(link: &mut Link, edge: EdgeId, number: u64, iteration: u64) {
    link.wait(edge, soon()).unwrap();
    let (shape, bytes) = link.tensor(edge).unwrap();
    assert_eq!(bytes.len() as u64, shape.size_bytes());
    assert!(is_whole(bytes, number, iteration), "edge {number}, iteration {iteration}: {shape} is torn");
    link.release(edge).unwrap();
}

/// One end: `is_first` sends forward and receives what comes back.
fn run(device: Box<dyn Device>, edges: &Edges, is_first: bool, iterations: u64, seed: u64) -> Link {
    let mut link = Link::new(device);
    let (forward, back) = edges.declare(&mut link, is_first);
    link.ready(soon()).unwrap();
    let mut random = Random(seed);
    for iteration in 1..=iterations {
        for (number, (edge, (shape, _))) in forward.iter().zip(&edges.forward).enumerate() {
            random.delay();
            match is_first {
                true => send(&mut link, *edge, shape, number as u64, iteration, &mut random),
                false => receive(&mut link, *edge, number as u64, iteration),
            }
        }
        match is_first {
            true => receive(&mut link, back, 99, iteration),
            false => send(&mut link, back, &edges.back, 99, iteration, &mut random),
        }
    }
    link.finish(soon()).unwrap();
    link
}

fn many(mix: Mix, pair: impl Fn(u64) -> (Box<dyn Device>, Box<dyn Device>)) {
    let mut random = Random(mix as u64 + 1);
    for number in 0..LINKS {
        let edges = Edges::random(mix, &mut random);
        let iterations = TRANSFERS / LINKS / (edges.forward.len() as u64 + 1) + 1;
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
fn a_flag_behind_the_data_is_right_where_the_order_within_a_write_is_any() {
    for mix in [Mix::Static, Mix::Dynamic, Mix::Both] {
        many(mix, |seed| reordering(FlagForm::Behind, seed));
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
fn a_flag_in_the_last_word_is_wrong_there_and_a_second_write_right() {
    assert!(torn(FlagForm::Tail) > 100, "the reordering device does not reorder");
    assert_eq!(torn(FlagForm::Behind), 0);
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
        // What comes back before the tensor was released frees nobody.
        other.wait(their_out, soon()).unwrap();
        other.send(their_back).unwrap();
        one.wait(back, soon()).unwrap();
        assert!(!one.may_send(out).unwrap());
        one.send(out).unwrap_err();
        one.release(back).unwrap();
        assert!(one.tensor(back).unwrap_err().to_string().contains("no tensor is there"));
        other.release(their_out).unwrap();
        other.wait_to_send(their_back, soon()).unwrap();
        other.send(their_back).unwrap();
        one.wait(back, soon()).unwrap();
        one.send(out).unwrap();
    }
}
