//! Links of random edges, and what both ends do with them.

use std::time::Duration;

use rtensor::clock::Deadline;
use rtensor::device::Device;
use rtensor::link::{Declaration, EdgeId, Hold, Link};
use rtensor::tensor::Shape;

use super::contents::{Random, fill, is_whole};

fn deadline() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

/// Which edges a link of the random test has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mix {
    Static,
    Dynamic,
    Both,
}

/// Transfers of each mix.
pub(crate) const TRANSFERS: u64 = 10_000;
/// Links that they are spread over.
pub(crate) const LINKS: u64 = 25;
/// Bytes of a dynamic tensor at most.
pub(crate) const LIMIT_BYTES: u64 = 1 << 20;

/// Edges of one link, the same at both ends: forward ones, and back ones of which the first tells the senders.
#[derive(Clone, Debug)]
pub(crate) struct Edges {
    /// Shape of a static edge, none of a dynamic one; whether the data flow holds it.
    forward: Vec<(Option<Shape>, bool)>,
    back: Option<Shape>,
}

impl Edges {
    pub(crate) fn random(mix: Mix, random: &mut Random) -> Self {
        let one = |random: &mut Random| match mix {
            Mix::Static => Some(random.shape()),
            Mix::Dynamic => None,
            Mix::Both => (random.below(2) == 0).then(|| random.shape()),
        };
        let n_edges = 1 + random.below(4);
        let forward = (0..n_edges).map(|_| (one(random), random.below(2) == 0)).collect();
        Self { forward, back: one(random) }
    }

    /// Iterations in which one of the links makes its share of the transfers.
    pub(crate) fn iterations(&self) -> u64 {
        TRANSFERS / LINKS / (self.forward.len() as u64 + 1) + 1
    }

    fn declare(&self, link: &mut Link, sends_forward: bool) -> (Vec<EdgeId>, EdgeId) {
        link.set_arena_bytes(8 << 20).unwrap();
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
    link.wait_to_send(edge, deadline()).unwrap();
    if shape.is_none() {
        link.begin(edge, &random.shape()).unwrap();
    }
    fill(link.tensor_mut(edge).unwrap(), number, iteration);
    random.delay();
    link.send(edge).unwrap();
}

fn receive(link: &mut Link, edge: EdgeId, number: u64, iteration: u64) {
    link.wait(edge, deadline()).unwrap();
    let (shape, bytes) = link.tensor(edge).unwrap();
    assert_eq!(bytes.len() as u64, shape.size_bytes());
    assert!(is_whole(bytes, number, iteration), "edge {number}, iteration {iteration}: {shape} is torn");
    link.release(edge).unwrap();
}

/// One end: `is_first` sends forward and receives what comes back.
pub(crate) fn run(
    device: Box<dyn Device>,
    edges: &Edges,
    is_first: bool,
    iterations: u64,
    seed: u64,
) -> Link {
    let mut link = Link::new(device);
    let (forward, back) = edges.declare(&mut link, is_first);
    link.ready(deadline()).unwrap();
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
    link.finish(deadline()).unwrap();
    link
}
