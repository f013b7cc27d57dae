//! What a watcher is told of groups whose ranks are threads.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::*;
use crate::run::observe::Compared;
use crate::run::observe::recorder::{Page, Recording, Seen, SeenComparison, watching};
use rsccl_collective::clock::Deadline;

/// A worker's class of keys for each of [`NAMED`].
const NAMED: [(&str, u64); 4] =
    [("gradient.a", 1000), ("gradient.b", 40_000), ("parameter.a", 500), ("steps", 1)];
const N_ROUNDS: u64 = 5;

fn shape(n_workers: usize, n_servers: usize, partition_bytes: u64) -> Shape {
    Shape::new(Transport::Mixed, n_workers, n_servers, partition_bytes)
}

/// Runs as each rank with a watcher that looks at one of so many results; what each told, by rank.
fn watched(shape: Shape, one_of: u64, rank: impl Fn(&Group, usize) + Sync) -> Vec<Recording> {
    let pages = shape.run(|mut group, role| {
        let (watching, page): (_, Page) = watching(one_of);
        group.watch(watching);
        let is_worker = matches!(role, Role::Worker(_));
        for (name, elements) in NAMED.into_iter().filter(|_| is_worker) {
            declare_one(&mut group, name, elements, DataType::F32).unwrap();
        }
        group.start().unwrap();
        if let Role::Worker(worker) = role {
            rank(&group, worker);
        }
        group.leave().unwrap();
        page
    });
    pages.into_iter().map(|page| std::mem::take(&mut *lock(&page))).collect()
}

fn declare_where_worker(group: &mut Group, role: Role, name: &str, elements: u64) {
    if let Role::Worker(_) = role {
        declare_one(group, name, elements, DataType::F32).unwrap();
    }
}

fn sum_once(group: &Group, bytes: &mut [u8]) {
    let region = Region::of_slice_mut(bytes);
    group.push_pull(0, region, region, Reduction::Sum).unwrap().wait().unwrap();
}

fn sum_rounds(group: &Group, worker: usize) {
    for round in 0..N_ROUNDS {
        let mut buffers = NAMED.map(|(_, elements)| {
            let values =
                (0..elements).flat_map(|index| float(mix(round ^ index) ^ worker as u64).to_ne_bytes());
            values.collect::<Vec<u8>>()
        });
        let handles: Vec<_> = (buffers.iter_mut().enumerate())
            .map(|(tensor, bytes)| {
                let region = Region::of_slice_mut(bytes);
                group.push_pull(tensor, region, region, Reduction::Sum).unwrap()
            })
            .collect();
        handles.iter().for_each(|handle| handle.wait().unwrap());
    }
}

/// A comparison of three workers' parameters, of which worker 2 has another one.
fn compared(steps: u64, is_different: bool) -> Compared {
    let difference = is_different.then(|| (c"layer.bias".to_owned(), vec![7, 7, 9]));
    Compared { steps, every: 2, n_parameters: 4, n_different: is_different.into(), difference }
}

fn last(told: &Recording) -> &Seen {
    told.samples.last().unwrap()
}

#[test]
fn every_result_has_one_fingerprint_wherever_it_is() {
    let shape = shape(3, 1, 64_000);
    let told = watched(shape, 1, sum_rounds);
    assert!(told.iter().all(|told| last(told).staleness.is_empty()), "rounds are never stale");
    let mut made = BTreeMap::new();
    for told in &told {
        for (key, round, fingerprint, contributors) in &told.made {
            assert_eq!(*contributors, 3);
            assert!(made.insert((*key, *round), *fingerprint).is_none(), "made twice");
        }
    }
    let n_parts = 1 + 3 + 1 + 1;
    assert_eq!(made.len() as u64, n_parts * N_ROUNDS);
    for told in &told[..3] {
        let pulled: BTreeMap<_, _> =
            told.pulled.iter().map(|(key, round, print)| ((*key, *round), *print)).collect();
        assert_eq!(pulled, made);
    }
    assert!(told[3].pulled.is_empty());
}

#[test]
fn all_processes_tell_of_one_group_and_its_services() {
    let told = watched(shape(3, 1, 64_000), 0, sum_rounds);
    let groups: Vec<u64> = told.iter().map(|told| told.group).collect();
    assert!(groups[0] != 0 && groups.iter().all(|group| *group == groups[0]));
    let n_tensors = NAMED.len() as u64;
    let begun: Vec<_> = told.iter().flat_map(|told| told.began.clone()).collect();
    let worker = |index| (1, index, 3, 1, n_tensors);
    assert_eq!(begun, [worker(0), worker(1), worker(2), (2, 0, 3, 1, n_tensors)]);
    assert!(told.iter().all(|one| one.services == told[0].services));
    let of_services: Vec<(u32, &str)> =
        told[0].services.iter().map(|(rank, _, host)| (*rank, host.as_str())).collect();
    assert_eq!(of_services, [(3, "host-2"), (0, "host-1"), (1, "host-1"), (2, "host-2")]);
    assert_eq!(told[0].services.iter().map(|one| one.1).sum::<u64>(), 4 * (1000 + 40_000 + 500 + 1));
    assert!(told.iter().all(|told| told.ended == [(1, -1, String::new())] && told.pulled.is_empty()));
}

#[test]
fn bytes_are_told_by_class_and_arrivals_by_worker() {
    let told = watched(shape(3, 1, 64_000), 0, sum_rounds);
    let bytes = [4 * 41_000, 4 * 500, 4].map(|bytes| N_ROUNDS * bytes);
    for worker in &told[..3] {
        for ([push_issued, pushed, pull_issued, pulled, local], bytes) in
            last(worker).traffic.iter().zip(bytes)
        {
            assert_eq!([push_issued, pushed, pull_issued, pulled], [&bytes; 4]);
            assert!(*local <= 2 * bytes);
        }
        let stages: Vec<_> = last(worker).stages.iter().map(|(name, _, _)| name.as_str()).collect();
        assert_eq!(stages, ["compress", "push", "sum", "pull", "decompress"]);
        assert!(last(worker).stages.iter().all(|(_, entered, left)| entered == left));
        let finished: Vec<_> = worker.finished.iter().map(|one| (one.1, one.3)).collect();
        assert_eq!(finished.len() as u64, NAMED.len() as u64 * N_ROUNDS);
        assert!(finished.iter().all(|(round, result)| *round < N_ROUNDS && *result == 0));
    }
    let mut arrived = [0; 3];
    for told in &told {
        let seen = last(told);
        for (total, [contributions, bytes, _, unanswered]) in arrived.iter_mut().zip(&seen.contributors) {
            *total += bytes;
            assert_eq!((*contributions, *unanswered), (seen.finished_rounds, 0));
        }
        let last_arrivals: u64 = seen.contributors.iter().map(|one| one[2]).sum();
        assert_eq!((last_arrivals, told.made.len() as u64), (seen.finished_rounds, seen.finished_rounds));
        assert_eq!(seen.summed_bytes, seen.contributors.iter().map(|one| one[1]).sum::<u64>());
    }
    assert_eq!(arrived, [bytes.iter().sum::<u64>(); 3]);
}

#[test]
fn a_group_that_others_follow_is_told_as_suspended() {
    let ends = shape(2, 0, 64_000).run(|mut group, _| {
        let (watching, page) = watching(0);
        group.watch(watching);
        group.start().unwrap();
        group.suspend().unwrap();
        drop(group);
        page
    });
    assert!(ends.iter().all(|page| lock(page).ended == [(2, -1, String::new())]));
}

#[test]
fn a_failure_is_told_with_the_rank_that_is_lost() {
    let all_have_started = std::sync::Barrier::new(4);
    let pages = shape(3, 1, 64_000).run(|mut group, role| {
        let (watching, page) = watching(0);
        group.watch(watching);
        declare_where_worker(&mut group, role, "gradient.a", 1000);
        group.start().unwrap();
        all_have_started.wait();
        if role == Role::Worker(1) {
            drop(group);
            return None;
        }
        let mut bytes = vec![0; 4000];
        let region = Region::of_slice_mut(&mut bytes);
        if role != Role::Server(0) {
            // The loss may be known before this is submitted.
            let pushed = group.push_pull(0, region, region, Reduction::Sum);
            assert!(pushed.and_then(|handle| handle.wait()).is_err());
        }
        assert!(group.leave().is_err());
        Some(page)
    });
    for page in pages.iter().flatten() {
        let told = lock(page);
        let [(how, lost, why)] = &told.ended[..] else { panic!("{:?}", told.ended) };
        assert_eq!((*how, *lost), (3, 1), "{why}");
        assert!(why.contains("rank 1"), "{why}");
    }
}

#[test]
fn a_loss_before_the_first_push_is_told_too() {
    let pages = shape(3, 1, 64_000).run(|mut group, role| {
        let (watching, page) = watching(0);
        group.watch(watching);
        declare_where_worker(&mut group, role, "gradient.a", 1000);
        if role == Role::Worker(1) {
            drop(group);
            return None;
        }
        assert!(group.start().is_err());
        Some(page)
    });
    for page in pages.iter().flatten() {
        let told = lock(page);
        let [(how, lost, why)] = &told.ended[..] else { panic!("{:?}", told.ended) };
        assert_eq!((*how, *lost, told.began.len()), (3, 1, 1), "{why}");
    }
}

#[test]
fn totals_go_on_when_more_is_declared() {
    let pages = shape(2, 1, 64_000).run(|mut group, role| {
        let (watching, page) = watching(1);
        group.watch(watching);
        let mut bytes = vec![0; 4000];
        let region = Region::of_slice_mut(&mut bytes);
        if let Role::Worker(_) = role {
            for name in ["gradient.a", "gradient.b"] {
                declare_one(&mut group, name, 1000, DataType::F32).unwrap();
                group.start().unwrap();
                group.push_pull(0, region, region, Reduction::Sum).unwrap().wait().unwrap();
            }
        }
        group.leave().unwrap();
        page
    });
    let mut made = 0;
    for (rank, page) in pages.iter().enumerate() {
        let told = lock(page);
        assert_eq!(told.began.iter().map(|one| one.4).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(told.ended.len(), 1);
        made += last(&told).finished_rounds;
        assert!(told.samples.iter().map(|seen| seen.finished_rounds).is_sorted());
        if rank < 2 {
            assert_eq!(last(&told).traffic[0][..4], [8000; 4]);
            assert_eq!(last(&told).stages[1], ("push".to_owned(), 2, 2));
            assert_eq!(told.finished, [(0, 0, 4000, 0), (0, 0, 4000, 0)]);
        }
    }
    assert_eq!(made, 2);
}

#[test]
fn a_round_that_waits_says_for_whom() {
    let pages: Mutex<Vec<Page>> = Mutex::default();
    let waits =
        |told: &Recording| told.samples.iter().any(|seen| seen.waits.iter().any(|wait| wait.3 == [2]));
    let is_told = || lock(&pages).iter().any(|page| waits(&lock(page)));
    let all_are_through = std::sync::Barrier::new(4);
    shape(3, 1, 1 << 20).run(|mut group, role| {
        let (watching, page) = watching(0);
        lock(&pages).push(page);
        group.watch(watching);
        declare_where_worker(&mut group, role, "gradient.all", 100_000);
        group.start().unwrap();
        let mut bytes = vec![0; 400_000];
        let region = Region::of_slice_mut(&mut bytes);
        if role == Role::Worker(2) {
            let deadline = Deadline::after(Duration::from_secs(20));
            while !is_told() && !deadline.passed() {
                std::thread::yield_now();
            }
        }
        if role != Role::Server(0) {
            group.push_pull(0, region, region, Reduction::Sum).unwrap().wait().unwrap();
        }
        all_are_through.wait();
        group.leave().unwrap();
    });
    let pages = lock(&pages);
    let owners: Vec<_> = pages.iter().map(|page| lock(page)).filter(|told| waits(told)).collect();
    let [owner] = &owners[..] else { panic!("{} services waited", owners.len()) };
    let wait = owner.samples.iter().flat_map(|seen| &seen.waits).find(|wait| wait.3 == [2]);
    assert_eq!(wait, Some(&("gradient.all".to_owned(), 0, true, vec![2])));
    assert!(last(owner).waits.is_empty());
}

#[test]
fn pulls_of_a_store_are_told_by_rounds_that_the_slowest_worker_was_behind() {
    const N_ROUNDS: u64 = 5;
    let pages: Mutex<Vec<Page>> = Mutex::default();
    let waits =
        |told: &Recording| told.samples.iter().any(|seen| seen.waits.iter().any(|wait| wait.3 == [2]));
    let is_told = || lock(&pages).iter().any(|page| waits(&lock(page)));
    let shape = Shape { mode: Mode::Store { max_ahead: Some(2) }, ..shape(3, 1, 1 << 20) };
    shape.run(|mut group, role| {
        let (watching, page) = watching(0);
        lock(&pages).push(page);
        group.watch(watching);
        declare_where_worker(&mut group, role, "gradient.all", 1000);
        group.start().unwrap();
        let mut bytes = vec![0; 4000];
        if let Role::Worker(worker) = role {
            sum_once(&group, &mut bytes);
            let deadline = Deadline::after(Duration::from_secs(20));
            while worker == 2 && !is_told() && !deadline.passed() {
                std::thread::yield_now();
            }
            (1..N_ROUNDS).for_each(|_| sum_once(&group, &mut bytes));
        }
        group.leave().unwrap();
    });
    let mut all = [0; 4];
    for page in lock(&pages).iter() {
        let told = lock(page);
        assert_eq!(last(&told).staleness.len(), all.len(), "0, 1, 2 and none beyond");
        all.iter_mut().zip(&last(&told).staleness).for_each(|(all, pulls)| *all += pulls);
        let totals = told.samples.iter().map(|seen| seen.staleness.iter().sum::<u64>());
        assert!(totals.is_sorted());
    }
    assert_eq!((all.iter().sum::<u64>(), all[3]), (3 * N_ROUNDS, 0));
    assert!(all[1] >= 2 && all[2] >= 2, "worker 2 was waited for: {all:?}");
}

#[test]
fn the_time_of_a_codec_is_told() {
    let pages = shape(2, 1, 200_000).run(|mut group, role| {
        let (watching, page): (_, Page) = watching(0);
        group.watch(watching);
        if let Role::Worker(_) = role {
            let tensor = Declaration { name: "w".to_owned(), elements: 100_000, data_type: DataType::F32 };
            let codec = Some("bf16".parse().unwrap());
            group.declare(tensor, Options { priority: 0, codec }).unwrap();
        }
        group.start().unwrap();
        if let Role::Worker(_) = role {
            sum_once(&group, &mut vec![0; 400_000]);
        }
        group.leave().unwrap();
        page
    });
    for page in &pages[..2] {
        let told = lock(page);
        let last = last(&told);
        for name in ["compress", "decompress"] {
            let at = last
                .stages
                .iter()
                .position(|(stage, entered, left)| stage == name && (entered, left) == (&2, &2));
            assert!(at.is_some_and(|at| last.worked_ns[at] > 0), "{name}: {last:?}");
        }
    }
}

#[test]
fn a_difference_of_parameters_is_told_before_the_call_returns() {
    let pages = shape(3, 0, 64_000).run(|mut group, role| {
        let (watching, page): (_, Page) = watching(0);
        group.watch(watching);
        declare_where_worker(&mut group, role, "a", 100);
        group.start().unwrap();
        sum_once(&group, &mut [0; 400]);
        group.compared(compared(2, false));
        for steps in [4, 6] {
            group.compared(compared(steps, true));
            let told = lock(&page).samples.last().and_then(|seen| seen.comparison.clone()).unwrap();
            let wanted = SeenComparison {
                count: steps / 2,
                steps,
                n_different: 1,
                different_steps: 4,
                parameter: "layer.bias".to_owned(),
                hashes: vec![7, 7, 9],
            };
            assert_eq!(told, wanted);
        }
        group.leave().unwrap();
        page
    });
    for page in pages {
        let told = lock(&page);
        assert!(told.samples.iter().rev().all(|seen| {
            seen.comparison.as_ref().is_none_or(|told| told.n_different > 0 || told.hashes.is_empty())
        }));
        assert!(last(&told).comparison.is_some(), "it is told of with every sample from then on");
    }
}

#[test]
fn nothing_is_told_of_parameters_that_nobody_compares() {
    let told = watched(shape(2, 0, 64_000), 0, sum_rounds);
    assert!(told.iter().flat_map(|told| &told.samples).all(|seen| seen.comparison.is_none()));
}
