//! Groups as their members tell of them.

use std::time::Duration;

use proptest::prelude::*;
use ringscope_api::{SummationGroupState as State, SummationRole as Role};
use ringscope_samples::any::any_member;
use ringscope_samples::cluster::{at, batch, ended};
use ringscope_samples::summing::{Summing, round, wait};
use ringscope_wire::batch::{ProcessState, SummationMember, SummationRound, SummationState};

use crate::Model;
use crate::limits::{ENDED_KEPT, MAX_ENDED_PER_SESSION, MAX_GROUP_ROUNDS};
use crate::summation::Group;

/// A group at work: a round of all tensors a second, told of from second 1 to `s`.
fn at_work(summing: &Summing, s: u64) -> Model {
    let mut model = Model::new();
    for second in 1..=s {
        model.apply(&summing.batch(second, second, |_, _| ()), at(second));
    }
    model
}

fn group<'a>(model: &'a Model, summing: &Summing) -> &'a Group {
    model.summation(summing.id()).unwrap()
}

#[test]
fn members_of_one_group_are_joined_over_processes() {
    let summing = Summing::new();
    let model = at_work(&summing, 12);
    assert_eq!(model.summations().count(), 1);
    let group = group(&model, &summing);
    assert_eq!((group.size(), group.members().count()), ((4, 2), 6));
    assert_eq!((group.job(&model), group.state(&model, at(12))), ("train", State::Running));
    let services: Vec<_> = group.services().map(|service| (service.place, service.share())).collect();
    assert_eq!((services[0], services[2]), (((Role::Server, 0), 0.3), ((Role::Worker, 0), 0.1)));
    assert_eq!(group.host((Role::Server, 1), &model), "sum-1");
    assert_eq!((group.rank((Role::Server, 1)), group.place(5)), (5, Some((Role::Server, 1))));
    assert_eq!(group.place(6), None);
}

#[test]
fn rates_are_those_of_the_last_seconds() {
    let summing = Summing::new();
    let model = at_work(&summing, 30);
    let group = group(&model, &summing);
    let service = group.services().next().unwrap();
    let mib_per_s = |rate: f64| rate / 1_048_576.0;
    assert!((mib_per_s(service.pushed_bytes_per_s(at(30))) - 4.0 * 30.0).abs() < 1e-6);
    assert!((mib_per_s(service.pulled_bytes_per_s(at(30))) - 4.0 * 30.0).abs() < 1e-6);
    assert!((mib_per_s(service.owner.unwrap().summed_bytes_per_s(at(30))) - 4.0 * 30.0).abs() < 1e-6);
    assert!((group.rounds_per_s(at(30)) - 100.0).abs() < 1e-6);
    assert_eq!(service.sum_per_mib().unwrap().as_micros(), 100);
    let (_, worker) = group.workers().next().unwrap();
    let pace = worker.pace(1, at(30));
    assert!((pace.parts_per_s - 100.0).abs() < 1e-6, "{pace:?}");
    assert_eq!((pace.mean_wait.as_micros(), pace.mean_work.as_micros()), (1, 2));
    assert!(service.pushed_bytes_per_s(at(60)).abs() < 1e-6, "nothing moves any more");
}

#[test]
fn arrivals_are_summed_over_services_and_told_of_the_last_minute() {
    let mut summing = Summing::new();
    let mut model = at_work(&summing, 60);
    // From now on worker 1 is last whenever it was not.
    let before = group(&model, &summing).arrived();
    assert_eq!((before[0].contributions, before[0].last_arrivals), (6_000, 1_800));
    summing.last = vec![(0, 0), (10, 50), (0, 0), (0, 0)];
    for second in 61..=130 {
        let told = summing.batch(second, second - 60, |_, member| {
            for (contributor, before) in member.contributors.iter_mut().zip(&before) {
                // Each service tells its own sixth of what was before.
                contributor.last_arrivals += before.last_arrivals / 6;
                contributor.late_ns += before.late_ns / 6;
                contributor.contributions += before.contributions / 6;
            }
        });
        model.apply(&told, at(second));
    }
    let lateness = group(&model, &summing).lateness(at(130)).unwrap();
    assert!(lateness.workers[1].0 > 0.99 && lateness.workers[0].0 < 0.01, "{lateness:?}");
    assert_eq!(lateness.workers[1].1.as_millis(), 50);
    let ever = group(&model, &summing).lateness_ever(at(130));
    assert!(ever.workers[1].0 < 0.7, "{ever:?}");
}

#[test]
fn samples_have_totals_of_each_service_and_the_worst_since_the_last() {
    let summing = Summing::new();
    let mut model = at_work(&summing, 10);
    let made = |n, spread_ns| SummationRound { spread_ns, ..round(5, n, 1, true) };
    let told = summing.batch(11, 11, |place, member| {
        if place == (Role::Server, 0) {
            member.rounds = vec![made(1, 8_000), made(2, 3_000)];
        }
    });
    model.apply(&told, at(11));
    model.apply(&told, at(11));
    let ids = [summing.id()].into();
    let samples = model.take_summation_samples(&ids);
    let mib = |bytes: u64| bytes / 1_048_576;
    let of = |service: usize| &samples[service];
    assert_eq!((samples.len(), &*of(0).host, &*of(5).host), (6, "sum-0", "train-3"));
    assert_eq!((mib(of(0).pushed_bytes), mib(of(0).pulled_bytes)), (4 * 30 * 11, 4 * 30 * 11));
    assert_eq!((of(2).summed_bytes.map(mib), of(2).finished_rounds), (Some(4 * 10 * 11), Some(110)));
    assert_eq!((of(0).share_ppm, of(0).optimal_share_ppm), (300_000, 300_000));
    assert_eq!((of(0).spread, of(1).spread), (Some(Duration::from_micros(8)), None));
    assert_eq!(model.take_summation_samples(&ids)[0].spread, None, "it was told");
}

#[test]
fn what_is_told_twice_changes_nothing_and_what_is_older_neither() {
    let summing = Summing::new();
    let mut model = at_work(&summing, 12);
    let counted = |model: &Model| {
        let group = group(model, &summing);
        (group.arrived(), group.rounds_per_s(at(12)).to_bits(), group.members().count())
    };
    let before = counted(&model);
    model.apply(&summing.batch(12, 12, |_, _| ()), at(12));
    model.apply(&summing.batch(5, 5, |_, _| ()), at(12));
    assert_eq!(counted(&model), before);
}

#[test]
fn a_restored_group_is_the_same_and_has_no_burst() {
    let summing = Summing::new();
    let model = at_work(&summing, 12);
    let stored = summing.places().into_iter().map(|place| {
        let key = summing.key(place);
        let mut process = model.process_facts(&key).unwrap();
        process.summations = model.process_counters(&key).unwrap().summations;
        process
    });
    let mut restored = Model::new();
    restored.restore(stored.collect(), at(100));
    restored.apply(&summing.batch(101, 1_000, |_, _| ()), at(101));
    let group = group(&restored, &summing);
    assert_eq!((group.members().count(), group.rounds_per_s(at(101)).to_bits()), (6, 0));
    assert_eq!(group.arrived()[0].contributions, 100_000);
}

#[test]
fn who_begins_anew_with_more_declared_is_the_same_member() {
    let summing = Summing::new();
    let mut model = at_work(&summing, 12);
    for second in 13..=24 {
        let processes = summing.places().into_iter().map(|place| {
            let mut before = summing.member(place, 12);
            before.state = SummationState::Suspended.into();
            before.ended_at_ns = Some(at(13).0);
            let anew = SummationMember { local_id: 2, n_tensors: 20, ..summing.member(place, second - 12) };
            let mut process = summing.process(place, before);
            process.summations.push(anew);
            process
        });
        model.apply(&batch(second + 1, second, processes.collect()), at(second));
    }
    let group = group(&model, &summing);
    assert_eq!((group.state(&model, at(24)), group.facts().unwrap().n_tensors), (State::Running, 20));
    assert!((group.rounds_per_s(at(24)) - 100.0).abs() < 1e-6, "{}", group.rounds_per_s(at(24)));
}

#[test]
fn results_are_compared_over_members() {
    let summing = Summing::new();
    let mut model = Model::new();
    let told = summing.batch(1, 1, |place, member| match place {
        (Role::Server, 0) => member.rounds = vec![round(1, 5, 0xa, true), round(2, 5, 0xb, true)],
        (Role::Worker, 2) => member.rounds = vec![round(1, 5, 0xa, false), round(2, 5, 0xc, false)],
        (Role::Worker, 3) => member.rounds = vec![round(3, 5, 0xd, false)],
        _ => {}
    });
    model.apply(&told, at(1));
    model.apply(&told, at(1));
    // With the next placement rounds begin anew.
    let next = summing.batch(2, 2, |place, member| {
        member.placement_epoch = 2;
        if place == (Role::Worker, 0) {
            member.rounds = vec![round(1, 5, 0xf, false)];
        }
    });
    model.apply(&next, at(2));
    let rounds = group(&model, &summing).rounds();
    assert_eq!(rounds.newest().next().map(|newest| (newest.key, newest.agree())), Some((1, None)));
    let agree: Vec<_> = [1, 2, 3]
        .map(|key| rounds.newest().filter(|outcome| outcome.key == key).last().unwrap())
        .iter()
        .map(|outcome| outcome.agree())
        .collect();
    assert_eq!(agree, [Some(true), Some(false), None]);
    assert_eq!((rounds.mismatches().len(), rounds.n_mismatches()), (1, 1));
    assert_eq!((rounds.mismatches()[0].fingerprint(), rounds.mismatches()[0].made.unwrap().rank), (0xb, 4));
    assert_eq!(rounds.p99().unwrap().as_millis(), 10);
}

#[test]
fn results_of_placements_that_followed_each_other_quickly_are_told_apart() {
    let summing = Summing::new();
    let mut model = at_work(&summing, 3);
    let of = |placement_epoch, fingerprint, made| SummationRound {
        placement_epoch: Some(placement_epoch),
        ..round(0, 0, fingerprint, made)
    };
    let told = summing.batch(4, 12, |place, member| match place {
        (Role::Server, 0) => member.rounds = vec![of(1, 0xaa, true), of(2, 0xbb, true)],
        (Role::Worker, 1) => member.rounds = vec![of(1, 0xaa, false), of(2, 0xbb, false)],
        // Read before the second placement.
        (Role::Worker, 2) => member.rounds = vec![of(1, 0xaa, false)],
        _ => {}
    });
    model.apply(&told, at(4));
    let rounds = group(&model, &summing).rounds();
    assert_eq!((rounds.n_mismatches(), rounds.newest().count()), (0, 2));
    let told = summing.batch(5, 15, |place, member| {
        if place == (Role::Worker, 3) {
            member.rounds = vec![of(2, 0xaa, false)];
        }
    });
    model.apply(&told, at(5));
    assert_eq!(group(&model, &summing).rounds().n_mismatches(), 1);
}

#[test]
fn old_results_make_room() {
    let summing = Summing::new();
    let mut model = Model::new();
    let n = MAX_GROUP_ROUNDS as u64 + 100;
    for from in (0..n).step_by(100) {
        let told = summing.batch(from + 1, 1, |place, member| {
            if place == (Role::Server, 0) {
                member.rounds = (from..from + 100).map(|number| round(0, number, 1, true)).collect();
            }
        });
        model.apply(&told, at(1));
    }
    let rounds = group(&model, &summing).rounds();
    assert_eq!(rounds.newest().count(), MAX_GROUP_ROUNDS);
    assert!(rounds.newest().all(|outcome| outcome.round >= 100));
}

#[test]
fn the_longest_waits_come_first_and_grow_older() {
    let summing = Summing::new();
    let mut model = at_work(&summing, 2);
    let told = summing.batch(3, 3, |place, member| match place {
        (Role::Server, 0) => member.waits = vec![wait(8, &[2], 400)],
        (Role::Server, 1) => member.waits = vec![wait(9, &[2, 3], 900)],
        _ => {}
    });
    model.apply(&told, at(3));
    let waits = group(&model, &summing).waits(&model, at(5));
    let told: Vec<_> = waits.iter().map(|wait| (wait.service, wait.round, wait.age.as_millis())).collect();
    assert_eq!(told, [(1, 9, 2_900), (0, 8, 2_400)]);
    // Who is silent may have gone on.
    let waits = group(&model, &summing).waits(&model, at(100));
    assert_eq!(waits[0].age.as_millis(), 900);
}

#[test]
fn whom_most_survivors_name_is_lost() {
    let summing = Summing::new();
    let mut model = at_work(&summing, 3);
    let told = summing.batch(4, 4, |place, member| {
        if place != (Role::Server, 1) {
            member.state = SummationState::Failed.into();
            // One of them has lost its own network.
            member.lost_rank = Some(if place == (Role::Worker, 3) { 0 } else { 5 });
            member.failure = "connection reset".to_owned();
            member.ended_at_ns = Some(at(4).0);
        }
    });
    model.apply(&told, at(4));
    let group = group(&model, &summing);
    let lost = group.lost(&model, at(4)).unwrap();
    assert_eq!((lost.place, lost.rank, &*lost.why), ((Role::Server, 1), 5, "connection reset"));
    assert_eq!(group.state(&model, at(4)), State::Failed);
    assert!(!group.has_successor(&model, at(4)));
}

#[test]
fn a_killed_process_is_lost_only_while_others_go_on() {
    let summing = Summing::new();
    for (killed, expected) in [(1, true), (6, false)] {
        let mut model = at_work(&summing, 3);
        let places = summing.places().into_iter().rev().take(killed);
        let processes = places
            .map(|place| ended(summing.process(place, summing.member(place, 3)), ProcessState::Killed, 4));
        model.apply(&batch(5, 4, processes.collect()), at(4));
        let group = group(&model, &summing);
        assert_eq!(group.lost(&model, at(4)), None, "the others are asked first");
        let lost = group.lost(&model, at(8));
        assert_eq!(lost.is_some(), expected, "{killed}");
        assert!(lost.is_none_or(|lost| lost.place == (Role::Server, 1)));
    }
}

#[test]
fn a_killed_process_is_lost_if_the_session_goes_on_without_it() {
    let first = Summing::new();
    let mut model = at_work(&first, 3);
    let killed = first.process((Role::Server, 1), first.member((Role::Server, 1), 3));
    let left = first.places().into_iter().filter(|place| *place != (Role::Server, 1)).map(|place| {
        let mut told = first.member(place, 3);
        (told.state, told.ended_at_ns) = (SummationState::Suspended.into(), Some(at(4).0));
        first.process(place, told)
    });
    let all = left.chain([ended(killed, ProcessState::Killed, 4)]).collect();
    model.apply(&batch(5, 4, all), at(4));
    assert_eq!(group(&model, &first).lost(&model, at(8)), None, "nobody is there any more");
    let next = Summing { epoch: 2, n_servers: 1, owned: vec![40, 15, 15, 15, 15], ..first.clone() };
    let next = Summing { optimal: next.owned.clone(), ..next };
    model.apply(&next.batch(6, 5, |_, _| ()), at(5));
    let lost = group(&model, &first).lost(&model, at(8)).unwrap();
    assert_eq!((lost.place, lost.since), ((Role::Server, 1), at(4)));
}

#[test]
fn groups_of_one_session_follow_each_other() {
    let first = Summing::new();
    let mut model = at_work(&first, 3);
    let next = Summing { epoch: 2, n_servers: 1, owned: vec![40, 15, 15, 15, 15], ..first.clone() };
    let next = Summing { optimal: next.owned.clone(), ..next };
    model.apply(&next.batch(4, 1, |_, _| ()), at(4));
    let places = first.places().into_iter().map(|place| {
        let mut told = first.member(place, 3);
        told.state = SummationState::Suspended.into();
        told.ended_at_ns = Some(at(4).0);
        first.process(place, told)
    });
    model.apply(&batch(6, 5, places.collect()), at(5));
    let group = group(&model, &first);
    assert_eq!(group.state(&model, at(5)), State::Suspended);
    assert!(group.has_successor(&model, at(5)));
    assert!(!model.summation(next.id()).unwrap().has_successor(&model, at(5)));
}

#[test]
fn ended_groups_are_forgotten_and_a_session_has_few() {
    let mut model = Model::new();
    let many = MAX_ENDED_PER_SESSION as u64 + 5;
    let mut summing = Summing { state: SummationState::Suspended, ..Summing::new() };
    for epoch in 1..=many {
        summing.epoch = epoch;
        let told = summing.batch(epoch, 1, |_, member| member.ended_at_ns = Some(at(epoch).0));
        model.apply(&told, at(epoch));
    }
    model.tick(at(many + 20));
    assert_eq!(model.summations().count(), MAX_ENDED_PER_SESSION);
    assert!(model.summation(summing.id()).is_some(), "the newest stay");
    model.tick(at(many + 30 + ENDED_KEPT.as_secs()));
    assert_eq!(model.summations().count(), 0);
}

#[test]
fn bad_words_are_counted_and_left_out() {
    let summing = Summing::new();
    let mut model = Model::new();
    let bad = |change: &dyn Fn(&mut SummationMember)| {
        let mut told = summing.member((Role::Worker, 0), 1);
        change(&mut told);
        told
    };
    let words = vec![
        bad(&|told| told.group = 0),
        bad(&|told| told.role = 99),
        bad(&|told| told.n_workers = 1_000_000),
        bad(&|told| told.index = 4),
        bad(&|told| told.stages = vec![ringscope_wire::batch::SummationStage::default(); 100]),
    ];
    let mut process = summing.process((Role::Worker, 0), summing.member((Role::Worker, 0), 1));
    process.summations = words;
    model.apply(&batch(1, 1, vec![process]), at(1));
    let dropped = model.dropped();
    for reason in [
        "summation_unknown_group",
        "summation_unknown_role",
        "summation_member_limit",
        "summation_member_out_of_range",
        "summation_stage_limit",
    ] {
        assert!(dropped.contains_key(reason), "{reason}: {dropped:?}");
    }
    assert_eq!(group(&model, &summing).members().count(), 1);
    let mut other = summing.process((Role::Worker, 0), summing.member((Role::Worker, 0), 1));
    other.key = "elsewhere/1/1".to_owned();
    model.apply(&batch(2, 2, vec![other]), at(2));
    assert_eq!(model.dropped()["summation_member_twice"], 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_words_break_the_model(words in prop::collection::vec(any_member(), 1..24)) {
        let mut model = Model::new();
        for (seq_number, (process, told)) in (1..).zip(words) {
            let summing = Summing::new();
            let place = (Role::Worker, u32::from(process));
            model.apply(&batch(seq_number, seq_number, vec![summing.process(place, told)]), at(seq_number));
        }
        model.tick(at(30 + 2 * ENDED_KEPT.as_secs()));
    }
}

#[test]
fn the_time_of_a_round_is_that_of_the_parts_in_use() {
    let summing = Summing::new();
    let mut model = Model::new();
    let made = |key, number: u64, at_ms: u64| SummationRound {
        at_ns: at(0).0 + at_ms * 1_000_000,
        ..round(key, number, 1, true)
    };
    let mut tell = |s: u64, rounds: Vec<SummationRound>| {
        let batch = summing.batch(s, s, |place, member| {
            member.rounds = if place == (Role::Server, 0) { rounds.clone() } else { Vec::new() };
        });
        model.apply(&batch, at(s));
        group(&model, &summing).rounds().round_time().map(|time| time.as_millis())
    };
    assert_eq!(tell(1, (0..9).map(|key| made(key, 0, 0)).collect()), None, "each was summed once");
    let steps = |numbers: std::ops::Range<u64>, ms: u64| {
        numbers.flat_map(move |n| (0..3).map(move |key| made(key, n, n * ms))).collect()
    };
    assert_eq!(tell(2, steps(1..20, 50)), Some(50));
    assert_eq!(tell(3, vec![made(7, 1, 900)]), Some(50), "one is summed now and then");
    // Told again, and late.
    assert_eq!(tell(4, steps(3..10, 70)), Some(50));
}
