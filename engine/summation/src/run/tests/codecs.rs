//! Groups whose tensors travel in fewer bytes.

use super::{Shape, TRANSPORTS, float, mix, payload_bytes};
use crate::codec::{Choice, Feedback};
use crate::run::agree::list;
use crate::run::members::Role;
use crate::server::coded::Coded;
use crate::server::reduction::Reduction;
use crate::tensor::{Declaration, Declarations, Options};
use crate::worker;
use rsccl_collective::memory::Region;
use rsccl_collective::types::DataType;

/// Two parts: one that the adding threads encode and decode, and one that is short enough for the driver.
const ELEMENTS: usize = 80_000;
const PART_ELEMENTS: usize = 50_000;
const N_ROUNDS: u64 = 3;

fn tensor() -> Declaration {
    Declaration { name: "w".to_owned(), elements: ELEMENTS as u64, data_type: DataType::F32 }
}

fn gradient(choice: Choice, round: u64, worker: usize) -> Vec<f32> {
    let seed = mix(mix(round) ^ worker as u64);
    let element = |index: u64| float(seed ^ index) / 1000.0;
    // Of rows one in eight or so, others for each worker, and in round 1 none of worker 0.
    let is_there = |index: u64| match choice {
        Choice::Rows(width) => {
            (round, worker) != (1, 0) && mix(seed ^ (index / u64::from(width.get()))).is_multiple_of(8)
        }
        _ => true,
    };
    (0..ELEMENTS as u64).map(|index| if is_there(index) { element(index) } else { 0.0 }).collect()
}

/// The elements of each part.
const PARTS: [std::ops::Range<usize>; 2] = [0..PART_ELEMENTS, PART_ELEMENTS..ELEMENTS];

/// Of a part, in all rounds: bytes that each worker pushes, and of the answers to one.
#[derive(Clone, Default)]
struct Bytes {
    pushed: Vec<usize>,
    answered: usize,
}

/// What all workers have after each round, and for each part its bytes.
fn wanted(choice: Choice, n_workers: usize, declares_more: Option<u64>) -> (Vec<Vec<f32>>, Vec<Bytes>) {
    let codec = choice.codec();
    let coded = Coded { choice, n_workers };
    let mut services = vec![Feedback::default(); PARTS.len()];
    let mut senders = vec![vec![Feedback::default(); n_workers]; PARTS.len()];
    let nothing = Bytes { pushed: vec![0; n_workers], answered: 0 };
    let (mut sums, mut bytes) = (Vec::new(), vec![nothing; PARTS.len()]);
    for round in 0..N_ROUNDS {
        if declares_more == Some(round) {
            services.fill(Feedback::default());
        }
        let mut sum = vec![0.0; ELEMENTS];
        for (((part, senders), service), bytes) in
            PARTS.iter().zip(&mut senders).zip(&mut services).zip(&mut bytes)
        {
            let into = &mut sum[part.clone()];
            for (worker, sender) in senders.iter_mut().enumerate() {
                let (gradient, mut encoded) = (gradient(choice, round, worker), Vec::new());
                if choice.wants_feedback() {
                    sender.encode(codec.as_ref(), &gradient[part.clone()], &mut encoded).unwrap();
                } else {
                    codec.encode(&gradient[part.clone()], &mut encoded).unwrap();
                }
                bytes.pushed[worker] += encoded.len();
                if worker == 0 {
                    codec.decode(&encoded, into).unwrap();
                } else {
                    codec.add(&encoded, into).unwrap();
                }
            }
            let mut encoded = Vec::new();
            match choice {
                Choice::F16 | Choice::Bf16 | Choice::Rows(_) => codec.encode(into, &mut encoded).unwrap(),
                Choice::OneBit => service.encode(codec.as_ref(), into, &mut encoded).unwrap(),
                Choice::TopK(_) => {
                    bytes.answered += coded.answered_bytes(part.len());
                    continue;
                }
            }
            bytes.answered += encoded.len();
            codec.decode(&encoded, into).unwrap();
        }
        sums.push(sum);
    }
    (sums, bytes)
}

/// Where `declares_more` says so, all workers declare another tensor before that round.
fn sums_are_right(shape: Shape, choice: Choice, declares_more: Option<u64>) {
    let (wanted, part_bytes) = wanted(choice, shape.n_workers, declares_more);
    let ranks = shape.run(|mut group, role| {
        if let Role::Worker(worker) = role {
            group.declare(tensor(), Options { priority: 0, codec: Some(choice) }).unwrap();
            group.start().unwrap();
            for (round, wanted) in (0..N_ROUNDS).zip(&wanted) {
                if declares_more == Some(round) {
                    let more = Declaration { name: "more".to_owned(), elements: 0, data_type: DataType::F32 };
                    group.declare(more, Options::default()).unwrap();
                    group.start().unwrap();
                }
                let mut bytes: Vec<u8> = gradient(choice, round, worker)
                    .iter()
                    .flat_map(|element| element.to_ne_bytes())
                    .collect();
                let region = Region::of_slice_mut(&mut bytes);
                group.push_pull(0, region, region, Reduction::Sum).unwrap().wait().unwrap();
                let wanted: Vec<u8> = wanted.iter().flat_map(|element| element.to_ne_bytes()).collect();
                assert!(bytes == wanted, "{choice}: round {round} on {worker} of {shape:?}");
            }
        }
        group.finish().unwrap();
        let owners = group.placement().unwrap().owners().to_vec();
        let sent_bytes = payload_bytes(&group).0;
        group.leave().unwrap();
        (owners, sent_bytes)
    });
    let crossing = part_bytes.iter().zip(&ranks[0].0).map(|(bytes, owner)| {
        let own = usize::from(*owner).checked_sub(shape.n_servers);
        let others = (0..shape.n_workers).filter(|worker| Some(*worker) != own);
        others.map(|worker| (bytes.pushed[worker] + bytes.answered) as u64).sum::<u64>()
    });
    // Worker 0 tells each server what is declared.
    let mut declarations = Declarations::new(shape.partition_bytes).unwrap();
    declarations.declare_with(tensor(), Options { priority: 0, codec: Some(choice) }).unwrap();
    let list_bytes = shape.n_servers * list(&declarations).unwrap().len();
    let sent_bytes = ranks.iter().map(|rank| rank.1).sum::<u64>() - list_bytes as u64;
    if declares_more.is_some() {
        return;
    }
    assert_eq!(sent_bytes, crossing.sum::<u64>(), "{choice} of {shape:?}");
}

#[test]
fn encoded_gradients_give_the_sums_that_their_codecs_say() {
    for choice in ["f16", "bf16", "one-bit", "top-k:0.02", "top-k:0.5", "rows:50"] {
        for transport in TRANSPORTS {
            for (n_workers, n_servers) in [(1, 1), (3, 1)] {
                let shape = Shape::new(transport, n_workers, n_servers, 4 * PART_ELEMENTS as u64);
                sums_are_right(shape, choice.parse().unwrap(), None);
            }
        }
    }
}

#[test]
fn rows_of_many_frames_are_put_together() {
    let frames = worker::Settings { frame_bytes: 1000, ..worker::Settings::default() };
    for transport in TRANSPORTS {
        let shape = Shape { pipeline: frames, ..Shape::new(transport, 3, 1, 4 * PART_ELEMENTS as u64) };
        sums_are_right(shape, "rows:50".parse().unwrap(), Some(1));
        sums_are_right(shape, "rows:1".parse().unwrap(), None);
    }
}

#[test]
fn what_was_left_out_is_sent_though_more_was_declared() {
    for choice in ["one-bit", "top-k:0.02"] {
        let shape = Shape::new(TRANSPORTS[0], 2, 1, 4 * PART_ELEMENTS as u64);
        sums_are_right(shape, choice.parse().unwrap(), Some(N_ROUNDS - 1));
    }
}
