//! Workers that push, pull and take answers in any order, against sums that are written down anew.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::DataType;
use super::addition::Addition;
use super::coded::Coded;
use super::fingerprint::fingerprint;
use super::message::{Added, Admission, Again, Answer, Finished, Landing, Pull, Push, Pushed, Sum};
use super::part::Part;
use super::reduction::Reduction;
use super::refusal::Refusal;
use super::service::{Pending, Phase, Service};
use crate::codec::Choice;
use rsccl_collective::kernels::float16::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};

/// Reproducible numbers (Steele, Lea and Flood, "splitmix", 2014).
fn mix(input: u64) -> u64 {
    let mut mixed = input.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn below(choice: u64, bound: usize) -> usize {
    usize::try_from(choice % bound as u64).unwrap()
}

/// A float of up to 1024 with a long fraction, of any of 25 magnitudes: sums of a few are rounded.
fn float(seed: u64) -> f32 {
    let fraction = i32::try_from(mix(seed) >> 40).map_or(0.0, |bits| bits as f32 / 8192.0 - 1024.0);
    fraction / (1 << (mix(!seed) % 25)) as f32
}

fn element(data_type: DataType, seed: u64) -> Vec<u8> {
    match data_type {
        DataType::F32 => float(seed).to_ne_bytes().to_vec(),
        DataType::F16 => f32_to_f16(float(seed)).to_ne_bytes().to_vec(),
        DataType::Bf16 => f32_to_bf16(float(seed)).to_ne_bytes().to_vec(),
        _ => mix(seed).to_ne_bytes()[..data_type.size_bytes()].to_vec(),
    }
}

/// Half of the keys are averaged.
fn reduction(key: u32) -> Reduction {
    [Reduction::Sum, Reduction::Average][below(u64::from(key), 2)]
}

fn contribution(part: Part, key: u32, round: u64, worker: usize) -> Vec<u8> {
    let seed = mix(mix(mix(u64::from(key)) ^ round) ^ worker as u64);
    (0..part.count).flat_map(|index| element(part.data_type, seed ^ index as u64)).collect()
}

fn reduced_element(part: Part, reduction: Reduction, elements: &[&[u8]]) -> Vec<u8> {
    let divisor = if reduction == Reduction::Average { elements.len() } else { 1 };
    let float = |widen: &dyn Fn(&[u8]) -> f32| {
        let sum = elements.iter().map(|bytes| widen(bytes)).reduce(|sum, value| sum + value);
        sum.unwrap_or(0.0) / divisor as f32
    };
    match part.data_type {
        DataType::F32 => float(&|bytes| f32::from_ne_bytes(bytes.try_into().unwrap())).to_ne_bytes().to_vec(),
        DataType::F16 => {
            let sum = float(&|bytes| f16_to_f32(u16::from_ne_bytes(bytes.try_into().unwrap())));
            f32_to_f16(sum).to_ne_bytes().to_vec()
        }
        DataType::Bf16 => {
            let sum = float(&|bytes| bf16_to_f32(u16::from_ne_bytes(bytes.try_into().unwrap())));
            f32_to_bf16(sum).to_ne_bytes().to_vec()
        }
        DataType::I32 => {
            let values = elements.iter().map(|bytes| i32::from_ne_bytes((*bytes).try_into().unwrap()));
            let sum = values.fold(0_i32, i32::wrapping_add);
            (sum / i32::try_from(divisor).unwrap()).to_ne_bytes().to_vec()
        }
        DataType::U8 => {
            let sum = elements.iter().fold(0_u8, |sum, bytes| sum.wrapping_add(bytes[0]));
            vec![sum / u8::try_from(divisor).unwrap()]
        }
        other => unimplemented!("{other:?}"),
    }
}

fn reduced(part: Part, reduction: Reduction, contributions: &[Vec<u8>]) -> Vec<u8> {
    let size = part.data_type.size_bytes();
    let at =
        |index: usize| contributions.iter().map(|bytes| &bytes[index * size..(index + 1) * size]).collect();
    (0..part.count).flat_map(|index| reduced_element(part, reduction, &at(index) as &Vec<&[u8]>)).collect()
}

/// A service, its workers, and what each round must give.
struct Job {
    service: Service,
    parts: BTreeMap<u32, Part>,
    n_rounds: u64,
    here: BTreeSet<usize>,
    seats: BTreeMap<(usize, u32), Seat>,
    contributors: BTreeMap<(u32, u64), BTreeSet<usize>>,
    last_arrivers: BTreeMap<(u32, u64), usize>,
    /// Not done yet.
    additions: Vec<Addition>,
    /// Not pushed once more yet.
    again: Vec<Again>,
    /// Whether contributions are turned away.
    is_short: bool,
    finished: BTreeMap<(u32, u64), Finished>,
    n_answers: usize,
}

/// One worker's way through the rounds of one key.
#[derive(Default)]
struct Seat {
    pushed: u64,
    landing: Option<Landing>,
    pulled: u64,
    answers: Vec<Sum>,
}

impl Job {
    fn new(seed: u64, n_workers: usize, n_keys: u64, n_rounds: u64) -> Self {
        let types = [DataType::F32, DataType::F16, DataType::Bf16, DataType::I32, DataType::U8];
        let counts = [0, 1, 2, 3, 7, 16, 33];
        let part = |key: u64| {
            let draw = |salt: u64, bound| below(mix(mix(seed ^ key) ^ salt), bound);
            Part { count: counts[draw(2, counts.len())], data_type: types[draw(3, types.len())], codec: None }
        };
        let key = |index: u64| u32::try_from(3 * index + 5).unwrap();
        let parts: BTreeMap<u32, Part> = (0..n_keys).map(|index| (key(index), part(index))).collect();
        Self {
            service: Service::new(n_workers, parts.clone()),
            n_rounds,
            here: (0..n_workers).collect(),
            seats: BTreeMap::new(),
            contributors: BTreeMap::new(),
            last_arrivers: BTreeMap::new(),
            additions: Vec::new(),
            again: Vec::new(),
            is_short: false,
            finished: BTreeMap::new(),
            n_answers: 0,
            parts,
        }
    }

    /// That keeps so many bytes of contributions.
    fn keeping(self, bytes: usize) -> Self {
        Self { service: self.service.keeping(bytes), is_short: true, ..self }
    }

    /// One action of one worker about one key, or something that must be refused.
    fn act(&mut self, choice: u64) {
        let workers: Vec<usize> = self.here.iter().copied().collect();
        let worker = workers[below(choice, workers.len())];
        let keys: Vec<u32> = self.parts.keys().copied().collect();
        let key = keys[below(mix(choice), keys.len())];
        match below(mix(mix(choice)), 13) {
            0..3 => self.push(key, worker),
            3..6 => self.land(key, worker),
            6..8 => self.pull(key, worker),
            8 => self.take_answer(key, worker, below(mix(choice ^ 1), 8)),
            9..11 => self.add(below(mix(choice ^ 3), 8)),
            11 => self.push_again(below(mix(choice ^ 4), 8)),
            _ => self.disturb(key, worker, mix(choice ^ 2)),
        }
    }

    fn seat(&mut self, key: u32, worker: usize) -> &mut Seat {
        self.seats.entry((worker, key)).or_default()
    }

    fn push_of(&self, key: u32, round: u64, worker: usize) -> Push {
        let (size_bytes, reduction) = (self.parts[&key].size_bytes(), reduction(key));
        Push { key, round, worker, size_bytes, reduction }
    }

    fn pull_of(&self, key: u32, round: u64, worker: usize) -> Pull {
        Pull { key, round, worker }
    }

    fn push(&mut self, key: u32, worker: usize) {
        let (part, n_rounds) = (self.parts[&key], self.n_rounds);
        let seat = self.seat(key, worker);
        let round = seat.pushed;
        if seat.landing.is_some() || round == n_rounds || round > seat.pulled + 1 {
            return;
        }
        match self.service.push(&self.push_of(key, round, worker)).unwrap() {
            Admission::Into(mut landing) => {
                landing.bytes_mut().copy_from_slice(&contribution(part, key, round, worker));
                let seat = self.seat(key, worker);
                (seat.landing, seat.pushed) = (Some(landing), round + 1);
            }
            Admission::Later => {
                let waits = |pending: &Pending| (pending.key, pending.round + 2) == (key, round);
                assert!(self.service.waits_for().iter().any(waits), "key {key} has room for round {round}");
            }
        }
    }

    fn land(&mut self, key: u32, worker: usize) {
        let Some(landing) = self.seat(key, worker).landing.take() else { return };
        let round = self.seat(key, worker).pushed - 1;
        let contributors = self.contributors.entry((key, round)).or_default();
        contributors.insert(worker);
        self.last_arrivers.insert((key, round), worker);
        self.pushed(landing);
    }

    fn pushed(&mut self, landing: Landing) {
        let (key, round) = (landing.key, landing.round);
        let is_complete = self.contributors[&(key, round)].is_superset(&self.here);
        match self.service.pushed(landing).unwrap() {
            Pushed::Kept => assert!(self.is_short || !is_complete),
            Pushed::Added(key) => panic!("rounds are no store, but key {key} was added to"),
            Pushed::Add(addition) => self.keep_addition(addition),
            Pushed::TurnedAway => assert!(self.is_short),
        }
        self.hear_again();
    }

    fn keep_addition(&mut self, addition: Addition) {
        let round = (addition.key, addition.round);
        let all = &self.contributors[&round];
        assert_eq!(addition.contributors.len(), self.here.len());
        assert!(addition.is_whole || self.is_short);
        if addition.is_whole {
            assert!(all.is_superset(&self.here));
            assert_eq!(addition.last_arriver, self.last_arrivers[&round], "who was turned away came then");
        }
        self.additions.push(addition);
    }

    fn hear_again(&mut self) {
        self.again.extend(std::iter::from_fn(|| self.service.next_again()));
    }

    /// What was turned away comes once more.
    fn push_again(&mut self, which: usize) {
        if self.again.is_empty() {
            return;
        }
        let Again { key, round, worker } = self.again.swap_remove(which % self.again.len());
        let Ok(Admission::Into(mut landing)) = self.service.push(&self.push_of(key, round, worker)) else {
            panic!("who is asked again has room");
        };
        assert!(landing.is_again());
        landing.bytes_mut().copy_from_slice(&contribution(self.parts[&key], key, round, worker));
        self.pushed(landing);
    }

    /// Does one of the additions that are to be done.
    fn add(&mut self, which: usize) {
        if self.additions.is_empty() {
            return;
        }
        let mut addition = self.additions.swap_remove(which % self.additions.len());
        addition.run();
        let added = self.service.added(addition).unwrap();
        self.hear_again();
        let finished = match added {
            Added::Finished(finished) => finished,
            Added::Kept => return assert!(self.is_short),
            Added::Add(addition) => return self.keep_addition(addition),
        };
        let before = self.finished.insert((finished.key, finished.round), finished);
        assert_eq!(before, None, "no round has two results");
    }

    fn wanted(&self, key: u32, round: u64) -> Vec<u8> {
        let part = self.parts[&key];
        let contributors = self.contributors[&(key, round)].iter();
        let contributions: Vec<Vec<u8>> =
            contributors.map(|worker| contribution(part, key, round, *worker)).collect();
        reduced(part, reduction(key), &contributions)
    }

    fn pull(&mut self, key: u32, worker: usize) {
        let seat = self.seat(key, worker);
        let round = seat.pulled;
        if round == seat.pushed {
            return;
        }
        match self.service.pull(&self.pull_of(key, round, worker)).unwrap() {
            Answer::Ready(sum) => {
                let wanted = self.wanted(key, round);
                assert_eq!(sum.bytes(), wanted, "round {round} of key {key}");
                assert_eq!(self.finished[&(key, round)].fingerprint, fingerprint(&wanted));
                let seat = self.seat(key, worker);
                seat.answers.push(sum);
                seat.pulled = round + 1;
            }
            Answer::Waiting(workers) => {
                assert!(!self.finished.contains_key(&(key, round)));
                let there = self.contributors.get(&(key, round)).cloned().unwrap_or_default();
                let is_adding =
                    self.additions.iter().any(|addition| (addition.key, addition.round) == (key, round));
                let is_missing = workers.iter().any(|worker| !there.contains(worker));
                let is_again = self.again.iter().any(|again| (again.key, again.round) == (key, round));
                assert!(if self.is_short {
                    is_adding || is_missing || is_again
                } else {
                    is_adding != is_missing
                });
            }
        }
    }

    /// The bytes are looked at again: others have pushed since.
    fn take_answer(&mut self, key: u32, worker: usize, which: usize) {
        let seat = self.seat(key, worker);
        if seat.answers.is_empty() {
            return;
        }
        let sum = seat.answers.swap_remove(which % seat.answers.len());
        assert_eq!(sum.bytes(), self.wanted(key, sum.round));
        self.n_answers += 1;
        self.service.answered(sum).unwrap();
    }

    /// Sends what must be refused, and must change nothing.
    fn disturb(&mut self, key: u32, worker: usize, choice: u64) {
        let (pushed, pulled) = (self.seat(key, worker).pushed, self.seat(key, worker).pulled);
        let (push, pull) = (self.push_of(key, pushed, worker), self.pull_of(key, pushed, worker));
        let before = (self.service.waits_for(), self.service.memory_bytes());
        let refusal = match below(choice, 10) {
            0 => self.service.push(&Push { size_bytes: push.size_bytes + 1, ..push }).unwrap_err(),
            1 => self.service.push(&Push { worker: 100, ..push }).unwrap_err(),
            2 => self.service.pull(&Pull { worker: 100, ..pull }).unwrap_err(),
            3 => self.service.push(&Push { key: 4, ..push }).unwrap_err(),
            4 => self.service.push(&Push { round: u64::MAX, ..push }).unwrap_err(),
            5 => self.service.pull(&Pull { key: 6, ..pull }).unwrap_err(),
            6 => self.service.push(&Push { round: pushed + 3 + choice % 9, ..push }).unwrap_err(),
            7 if pushed > 0 && self.again.is_empty() => {
                self.service.push(&Push { round: choice % pushed, ..push }).unwrap_err()
            }
            8 if pulled > 0 && self.seat(key, worker).answers.is_empty() => {
                self.service.pull(&Pull { round: choice % pulled, ..pull }).unwrap_err()
            }
            9 => self.service.pull(&Pull { round: u64::MAX, ..pull }).unwrap_err(),
            _ => return,
        };
        assert!(!refusal.to_string().is_empty());
        assert_eq!((self.service.waits_for(), self.service.memory_bytes()), before, "{refusal}");
    }

    /// Lets everybody go through all rounds.
    fn finish(&mut self) {
        let seats: Vec<(usize, u32)> =
            self.here.iter().flat_map(|worker| self.parts.keys().map(|key| (*worker, *key))).collect();
        for _ in 0..4 * self.n_rounds {
            for (worker, key) in &seats {
                self.push(*key, *worker);
                self.land(*key, *worker);
            }
            while !self.additions.is_empty() || !self.again.is_empty() {
                self.add(0);
                self.push_again(0);
            }
            for (worker, key) in &seats {
                self.pull(*key, *worker);
                self.take_answer(*key, *worker, 0);
            }
        }
        assert_eq!(self.finished.len() as u64, self.n_rounds * self.parts.len() as u64);
        assert_eq!(self.service.counters().finished_rounds, self.finished.len() as u64);
        assert_eq!(self.service.waits_for(), []);
    }
}

#[test]
fn every_answer_of_ten_thousand_rounds_in_any_order_is_the_naive_sum() {
    let mut n_rounds = 0;
    for seed in 0..50_u64 {
        let mut job = Job::new(seed, below(seed, 6) + 1, 4, 50);
        for step in 0..2000 {
            job.act(mix(mix(seed) ^ step));
        }
        job.finish();
        assert_eq!(job.n_answers, job.finished.len() * job.here.len());
        n_rounds += job.finished.len();
    }
    assert_eq!(n_rounds, 10_000);
}

#[test]
fn bytes_that_may_be_kept_change_no_bit() {
    let mut n_turned_away = 0;
    for seed in 0..60_u64 {
        let mut job = Job::new(seed, below(seed, 6) + 2, 4, 25).keeping([0, 10, 100][below(mix(seed), 3)]);
        for step in 0..1000 {
            job.act(mix(mix(seed) ^ step));
        }
        job.finish();
        assert_eq!(job.n_answers, job.finished.len() * job.here.len());
        assert_eq!(job.service.kept_bytes, 0);
        n_turned_away += job.service.counters().turned_away;
    }
    assert!(n_turned_away > 300, "{n_turned_away}");
}

/// The first worker is late: what the others have pushed takes no more memory than may be kept, and that of two a key.
#[test]
fn who_comes_late_costs_no_memory_of_all_the_others() {
    const N_WORKERS: usize = 16;
    const LIMIT: usize = 4096;
    let part = Part { count: 256, data_type: DataType::F32, codec: None };
    let (keys, size_bytes) = (0..8_u32, part.size_bytes());
    let service = Service::new(N_WORKERS, keys.clone().map(|key| (key, part)));
    let mut service = service.keeping(LIMIT);
    let push = |service: &mut Service, key: u32, worker: usize| {
        let message = Push { key, ..push_message(0, worker, &vec![0; size_bytes]) };
        let landing = land(service, &message, &contribution(part, key, 0, worker));
        let mut addition = match service.pushed(landing).unwrap() {
            Pushed::Add(addition) => Some(addition),
            _ => None,
        };
        while let Some(mut next) = addition.take() {
            next.run();
            if let Added::Add(behind) = service.added(next).unwrap() {
                addition = Some(behind);
            }
        }
        assert!(service.memory_bytes() <= LIMIT + 8 * 4 * size_bytes, "{}", service.memory_bytes());
    };
    for key in keys.clone() {
        (1..N_WORKERS).rev().for_each(|worker| push(&mut service, key, worker));
    }
    assert_eq!(service.next_again(), None, "nobody is asked before it helps");
    let waits: Vec<Vec<usize>> = service.waits_for().into_iter().map(|pending| pending.workers).collect();
    assert_eq!(waits, vec![vec![0]; 8], "who was turned away is not waited for");
    for key in keys.clone() {
        push(&mut service, key, 0);
    }
    while let Some(Again { key, worker, .. }) = service.next_again() {
        push(&mut service, key, worker);
    }
    for key in keys {
        let all: Vec<Vec<u8>> = (0..N_WORKERS).map(|worker| contribution(part, key, 0, worker)).collect();
        let pull = Pull { key, round: 0, worker: 5 };
        let Ok(Answer::Ready(sum)) = service.pull(&pull) else { panic!("key {key} has no sum") };
        assert_eq!(sum.bytes(), reduced(part, Reduction::Sum, &all));
    }
}

#[test]
fn memory_is_bounded_by_two_rounds_of_each_key() {
    let mut job = Job::new(11, 5, 3, 200);
    let bound: usize = job.parts.values().map(|part| (2 * 5 + 1) * part.size_bytes()).sum();
    for step in 0..10_000 {
        job.act(mix(step));
        assert!(job.service.memory_bytes() <= bound);
    }
}

proptest! {
    #[test]
    fn no_order_of_what_workers_do_changes_a_result(
        seed in 0..1000_u64,
        n_workers in 2..6_usize,
        kept_bytes in prop::option::of(0..300_usize),
        choices in prop::collection::vec(any::<u64>(), 0..300),
    ) {
        let job = Job::new(seed, n_workers, 2, 12);
        let mut job = if let Some(bytes) = kept_bytes { job.keeping(bytes) } else { job };
        choices.into_iter().for_each(|choice| job.act(choice));
        job.finish();
    }
}

fn service(n_workers: usize, part: Part) -> Service {
    Service::new(n_workers, [(0, part)])
}

fn push_message(round: u64, worker: usize, bytes: &[u8]) -> Push {
    let size_bytes = bytes.len();
    Push { key: 0, round, worker, size_bytes, reduction: Reduction::Sum }
}

fn admit(service: &mut Service, round: u64, worker: usize, bytes: &[u8]) -> Landing {
    let push = push_message(round, worker, bytes);
    land(service, &push, bytes)
}

fn land(service: &mut Service, push: &Push, bytes: &[u8]) -> Landing {
    let Admission::Into(mut landing) = service.push(push).unwrap() else { panic!("later") };
    landing.bytes_mut().copy_from_slice(bytes);
    landing
}

fn push(service: &mut Service, round: u64, worker: usize, bytes: &[u8]) -> Option<Finished> {
    let landing = admit(service, round, worker, bytes);
    pushed(service, landing)
}

fn push_for_average(service: &mut Service, round: u64, worker: usize, bytes: &[u8]) -> Option<Finished> {
    let push = push_message(round, worker, bytes);
    let landing = land(service, &Push { reduction: Reduction::Average, ..push }, bytes);
    pushed(service, landing)
}

/// With the addition, if it is complete.
fn pushed(service: &mut Service, landing: Landing) -> Option<Finished> {
    let Pushed::Add(mut addition) = service.pushed(landing).unwrap() else { return None };
    addition.run();
    let Added::Finished(finished) = service.added(addition).unwrap() else { return None };
    Some(finished)
}

fn pull(service: &mut Service, round: u64, worker: usize) -> Result<Answer, Refusal> {
    service.pull(&Pull { key: 0, round, worker })
}

fn ready(service: &mut Service, round: u64, worker: usize) -> Sum {
    let Answer::Ready(sum) = pull(service, round, worker).unwrap() else { panic!("not ready") };
    sum
}

const BYTE: Part = Part { count: 1, data_type: DataType::U8, codec: None };

#[test]
fn a_worker_that_pulls_late_gets_its_own_round_while_others_push_the_next() {
    let mut service = service(3, BYTE);
    for worker in 0..3 {
        push(&mut service, 0, worker, &[1]);
    }
    for worker in 0..2 {
        let sum = ready(&mut service, 0, worker);
        service.answered(sum).unwrap();
        push(&mut service, 1, worker, &[10]);
    }
    assert_eq!(pull(&mut service, 1, 0), Ok(Answer::Waiting(vec![2])));
    let later = push_message(2, 0, &[1]);
    assert_eq!(service.push(&later), Ok(Admission::Later));
    let slow = ready(&mut service, 0, 2);
    assert_eq!(slow.bytes(), [3]);
    push(&mut service, 1, 2, &[10]);
    assert_eq!(ready(&mut service, 1, 0).bytes(), [30]);
    assert_eq!(slow.bytes(), [3]);
    assert_eq!(service.push(&later), Ok(Admission::Later), "the slow one has not taken its answer");
    assert_eq!(service.answered(slow), Ok(true));
    assert!(matches!(service.push(&later), Ok(Admission::Into(_))));
    let over = Err(Refusal::Over { key: 0, round: 0, worker: 2 });
    assert_eq!(pull(&mut service, 0, 2), over);
}

#[test]
fn every_order_of_arrival_gives_one_fingerprint() {
    let part = Part { count: 99, data_type: DataType::F32, codec: None };
    let mut prints = BTreeSet::new();
    for order in 0..24 {
        let mut service = Service::new(4, [(0, part)]);
        let mut ranks: Vec<usize> = (0..4).collect();
        let drawn = [order / 6, order % 6 / 2, order % 2, 0].map(|index| ranks.remove(index));
        for worker in drawn {
            let pushed = push_for_average(&mut service, 0, worker, &contribution(part, 0, 0, worker));
            let Some(finished) = pushed else { continue };
            assert_eq!(finished.last_arriver, drawn[3]);
            prints.insert(finished.fingerprint);
        }
    }
    assert_eq!(prints.len(), 1);
}

#[test]
fn who_is_missing_is_named() {
    let mut service = service(4, BYTE);
    push(&mut service, 0, 2, &[1]);
    let landing = admit(&mut service, 0, 1, &[1]);
    let waits = |phase, workers| vec![Pending { key: 0, round: 0, phase, workers }];
    assert_eq!(service.waits_for(), waits(Phase::Push, vec![0, 1, 3]));
    service.pushed(landing).unwrap();
    push(&mut service, 0, 0, &[1]);
    push(&mut service, 0, 3, &[1]);
    let sum = ready(&mut service, 0, 2);
    service.answered(sum).unwrap();
    assert_eq!(service.waits_for(), waits(Phase::Pull, vec![0, 1, 3]));
}

#[test]
fn a_round_is_reduced_in_one_way() {
    let mut service = service(2, BYTE);
    push(&mut service, 0, 0, &[30]);
    let other = Push { reduction: Reduction::Average, ..push_message(0, 1, &[1]) };
    assert_eq!(service.push(&other), Err(Refusal::OtherReduction { key: 0, round: 0, worker: 1 }));
    push(&mut service, 0, 1, &[1]);
    assert_eq!(ready(&mut service, 0, 0).bytes(), [31]);
    push_for_average(&mut service, 1, 0, &[30]);
}

#[test]
fn an_average_is_divided_by_the_workers() {
    let mut service = service(3, BYTE);
    for (worker, value) in [(2, 30), (0, 60), (1, 60)] {
        push_for_average(&mut service, 0, worker, &[value]);
    }
    assert_eq!(ready(&mut service, 0, 1).bytes(), [50]);
}

#[test]
fn an_answer_in_flight_outlives_its_round() {
    let mut service = service(1, BYTE);
    push(&mut service, 0, 0, &[7]);
    let (first, second) = (ready(&mut service, 0, 0), ready(&mut service, 0, 0));
    assert_eq!(service.answered(first), Ok(true));
    for round in 1..5 {
        push(&mut service, round, 0, &[9]);
        let sum = ready(&mut service, round, 0);
        service.answered(sum).unwrap();
    }
    assert_eq!(second.bytes(), [7]);
    assert_eq!(service.answered(second), Err(Refusal::Over { key: 0, round: 0, worker: 0 }));
}

#[test]
fn a_round_that_is_added_up_waits_for_nobody() {
    let mut service = service(2, BYTE);
    push(&mut service, 0, 0, &[1]);
    let landing = admit(&mut service, 0, 1, &[2]);
    let Pushed::Add(mut addition) = service.pushed(landing).unwrap() else { panic!("kept") };
    assert_eq!((pull(&mut service, 0, 0), service.waits_for()), (Ok(Answer::Waiting(vec![])), vec![]));
    addition.run();
    service.added(addition).unwrap();
    let sum = ready(&mut service, 0, 0);
    assert_eq!(sum.bytes(), [3]);
    assert_eq!(service.answered(sum), Ok(false));
}

#[test]
fn encoded_contributions_are_added_up_in_the_order_of_the_ranks() {
    let numbers = |worker: usize| [1e8, 1.5, -3.0, 1e-3].map(|x: f32| x * (worker as f32 - 1.25));
    for (choice, answer_bytes) in [("f16", 16), ("bf16", 16), ("one-bit", 13), ("top-k:0.5", 16)] {
        let choice: Choice = choice.parse().unwrap();
        let part = Part { count: 4, data_type: DataType::F32, codec: Some(Coded { choice, n_workers: 3 }) };
        let encoded = |worker: usize| {
            let mut bytes = Vec::new();
            choice.codec().encode(&numbers(worker), &mut bytes).unwrap();
            bytes
        };
        let mut sums = [0.0; 4];
        choice.codec().decode(&encoded(0), &mut sums).unwrap();
        (1..3).for_each(|worker| choice.codec().add(&encoded(worker), &mut sums).unwrap());
        let mut wanted: Vec<u8> =
            sums.map(|sum| sum / 3.0).as_slice().iter().flat_map(|x| x.to_ne_bytes()).collect();
        if part.is_answered_coded() {
            wanted.clear();
            choice.codec().encode(&sums.map(|sum| sum / 3.0), &mut wanted).unwrap();
        }
        let mut service = Service::new(3, [(0, part)]);
        for worker in [2, 0, 1] {
            push_for_average(&mut service, 0, worker, &encoded(worker));
        }
        assert_eq!(ready(&mut service, 0, 1).bytes(), wanted, "{choice}");
        assert_eq!(wanted.len(), answer_bytes);
    }
}

#[test]
fn contributions_of_any_length_are_united_and_their_memory_is_not_kept() {
    let choice: Choice = "rows:3".parse().unwrap();
    let part = Part { count: 30, data_type: DataType::F32, codec: Some(Coded { choice, n_workers: 2 }) };
    let mut service = Service::new(2, [(0, part)]);
    for round in 0..10 {
        let gradient = |worker: usize| {
            let is_set = |index: u64| mix(round << 8 ^ (index / 3) << 1 ^ worker as u64) % 10 < round;
            (0..30).map(|index| if is_set(index) { float(round ^ index) } else { 0.0 }).collect::<Vec<f32>>()
        };
        for worker in 0..2 {
            let mut encoded = Vec::new();
            choice.codec().encode(&gradient(worker), &mut encoded).unwrap();
            let push = Push { size_bytes: part.pushed_bytes(), ..push_message(round, worker, &[]) };
            let Admission::Into(mut landing) = service.push(&push).unwrap() else { panic!("no room") };
            assert!(landing.bytes_mut().is_empty());
            landing.grow(encoded.len());
            landing.bytes_mut().copy_from_slice(&encoded);
            if let Pushed::Add(mut addition) = service.pushed(landing).unwrap() {
                addition.run();
                service.added(addition).unwrap();
            }
        }
        let wanted: Vec<f32> = gradient(0).iter().zip(gradient(1)).map(|(a, b)| a + b).collect();
        let mut answer = Vec::new();
        choice.codec().encode(&wanted, &mut answer).unwrap();
        for worker in 0..2 {
            let sum = ready(&mut service, round, worker);
            assert!(sum.bytes() == answer, "round {round}");
            service.answered(sum).unwrap();
        }
        assert_eq!(service.memory_bytes(), 0);
    }
}

#[test]
fn a_payload_that_no_codec_made_is_refused_with_its_key_and_worker() {
    let codec = Some(Coded { choice: Choice::F16, n_workers: 2 });
    let part = Part { count: 1, data_type: DataType::F32, codec };
    let mut service = Service::new(2, [(0, part)]);
    push(&mut service, 0, 1, b"garbage123");
    let landing = admit(&mut service, 0, 0, b"RSG\x01\x01\0\0\0\0\0");
    let Pushed::Add(mut addition) = service.pushed(landing).unwrap() else { panic!("kept") };
    addition.run();
    let refusal = service.added(addition).unwrap_err().to_string();
    let begins = "worker 1 pushed something else to round 0 of key 0: not an encoded gradient";
    assert!(refusal.starts_with(begins), "{refusal}");
}
