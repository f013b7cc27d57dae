use proptest::prelude::*;
use ringscope_api::{CommunicatorState, RankState};
use ringscope_samples::any::any_process;
use ringscope_samples::cluster::{Cluster, at, batch, ended};
use ringscope_wire::Primitive;
use ringscope_wire::batch::{self, Batch, CommunicatorState as Told, ProcessState as Ending};

use super::limits::{ENDED_KEPT, MAX_ENDED_PER_JOB, MAX_IN_FLIGHT, MAX_RANKS, SILENT_KEPT};
use super::*;

fn pair() -> Cluster {
    Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 2)], 4)
}

fn world(cluster: &Cluster) -> Model {
    let mut model = Model::new();
    model.apply(&cluster.batch(1, 2), at(2));
    model
}

fn state(model: &Model, cluster: &Cluster) -> Option<CommunicatorState> {
    model.communicator(cluster.id()).map(|known| known.state(model).0)
}

fn exported(model: &Model) -> Vec<batch::Process> {
    let mut keys: Vec<&Name> = model.keys.keys().collect();
    keys.sort();
    keys.iter().flat_map(|key| [model.process_facts(key), model.process_counters(key)]).flatten().collect()
}

fn completed(model: &Model, cluster: &Cluster) -> u64 {
    model.samples(&[cluster.id()].into()).iter().map(|sample| sample.completed_bytes).sum()
}

#[test]
fn a_batch_tells_what_changed_and_repeats_change_nothing() {
    let cluster = pair();
    let mut model = Model::new();
    let changes = model.apply(&cluster.batch(1, 2), at(2));
    assert_eq!(changes.facts, [cluster.key(0), cluster.key(1)].into());
    assert_eq!((changes.counters, changes.communicators), (BTreeSet::new(), [cluster.id()].into()));
    assert_eq!(model.apply(&cluster.batch(1, 2), at(3)), Changes::default());
    assert_eq!(model.apply(&cluster.batch(2, 3), at(3)), Changes::default());

    let counted = batch::Process {
        counters: vec![cluster.counters(Primitive::AllReduce, 2, 1, 100)],
        ..cluster.word(1)
    };
    let changes = model.apply(&batch(3, 4, vec![counted.clone()]), at(4));
    assert_eq!(changes.counters, [cluster.key(1).into()].into());
    assert_eq!((changes.facts, changes.communicators), (BTreeSet::new(), [cluster.id()].into()));
    assert_eq!(model.apply(&batch(4, 5, vec![counted]), at(5)), Changes::default());
}

#[test]
fn states_of_a_communicator() {
    let check = |states: [Told; 2], ends: [Option<Ending>; 2], expected| {
        let cluster = pair().with(|rank, spec| spec.state = states[rank]);
        let mut model = world(&cluster);
        let processes =
            (0..2_u32).filter_map(|rank| Some(ended(cluster.word(rank), ends[rank as usize]?, 5)));
        model.apply(&batch(2, 5, processes.collect()), at(5));
        assert_eq!(state(&model, &cluster), Some(expected), "{states:?} {ends:?}");
    };
    let (runs, exits, dies) = (None, Some(Ending::Exited), Some(Ending::Killed));
    check([Told::Active, Told::Active], [runs, runs], CommunicatorState::Active);
    check([Told::Active, Told::Forming], [runs, runs], CommunicatorState::Forming);
    check([Told::Active, Told::Destroyed], [runs, runs], CommunicatorState::Active);
    check([Told::Active, Told::Aborted], [runs, runs], CommunicatorState::Broken);
    check([Told::Forming, Told::Failed], [runs, runs], CommunicatorState::Broken);
    check([Told::Active, Told::Active], [runs, dies], CommunicatorState::Broken);
    check([Told::Active, Told::Active], [exits, runs], CommunicatorState::Broken);
    check([Told::Active, Told::Destroyed], [runs, exits], CommunicatorState::Active);
    check([Told::Active, Told::Active], [exits, dies], CommunicatorState::Ended);
    check([Told::Destroyed, Told::Aborted], [runs, runs], CommunicatorState::Ended);
}

#[test]
fn a_communicator_without_a_hash_stays_in_its_process() {
    let unnamed = Cluster { comm_hash: 0, ..pair() };
    let mut model = world(&unnamed);
    assert_eq!(model.communicators().count(), 0);
    assert_eq!(model.process_facts(&unnamed.key(0)).unwrap().communicators.len(), 1);
    model.apply(&pair().batch(2, 3), at(3));
    assert_eq!(model.communicator(pair().id()).unwrap().n_ranks_seen(), 2);
    model.apply(&unnamed.batch(3, 4), at(4));
    assert_eq!(model.communicators().count(), 1, "what is known is not forgotten");
}

#[test]
fn facts_that_come_late_and_words_that_come_in_the_wrong_order() {
    let cluster = pair();
    let vague = cluster.clone().with(|_, rank| (rank.init, rank.final_channels) = (None, None));
    let mut model = world(&vague);
    model.apply(&cluster.batch(3, 4), at(4));
    model.apply(&vague.batch(2, 3), at(5));
    model.apply(&vague.batch(4, 6), at(6));
    let known = model.communicator(cluster.id()).unwrap();
    assert!(
        known.ranks(&model).all(|rank| rank.facts.init_channels == Some(2) && rank.facts.rings.len() == 4)
    );
}

#[test]
fn counters_may_come_before_anything_else() {
    let cluster = pair();
    let counted = batch::Process {
        counters: vec![cluster.counters(Primitive::AllReduce, 2, 2, 100)],
        ..cluster.word(0)
    };
    let mut model = Model::new();
    assert_eq!(model.apply(&batch(2, 3, vec![counted]), at(3)).communicators, BTreeSet::new());
    model.apply(&cluster.batch(1, 2), at(4));
    assert_eq!(completed(&model, &cluster), 200);
}

#[test]
fn two_communicators_of_one_hash_are_told_apart_whatever_comes_first() {
    let older = pair();
    let mut newer = pair().again(older.comm_hash, 9, 50);
    // Rank 1 is the same process in both, rank 0 is not.
    newer.ranks[0].host = "host-9".to_owned();
    let mut both = older.process(1);
    both.communicators.extend(newer.process(1).communicators);
    let count = |cluster: &Cluster, bytes| batch::Process {
        counters: vec![cluster.counters(Primitive::AllReduce, 1, 1, bytes)],
        ..cluster.process(0)
    };
    let words = [count(&older, 100), count(&newer, 7), both];
    let second = CommunicatorId::nth(older.job, older.comm_hash, 2, 1);
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut model = Model::new();
        for (word, seq_number) in order.into_iter().zip(1..) {
            model.apply(&batch(seq_number, 60, vec![words[word].clone()]), at(60));
        }
        let hosts = |id| {
            let known = model.communicator(id).unwrap();
            known.ranks(&model).map(|rank| rank.identity.host.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(hosts(older.id()), ["host-0", "host-1"], "{order:?}");
        assert_eq!(hosts(second), ["host-9", "host-1"], "{order:?}");
        assert_eq!((completed(&model, &older), model.communicators().count()), (100, 2));
    }
}

#[test]
fn the_second_of_one_hash_keeps_its_id_when_the_first_is_forgotten() {
    let older = pair();
    let newer = pair().again(older.comm_hash, 9, 50);
    let second = CommunicatorId::nth(older.job, older.comm_hash, 2, 1);
    let mut model = world(&older);
    let ends = older.clone().with(|_, rank| rank.state = Told::Destroyed);
    model.apply(&newer.batch(2, 60), at(60));
    model.apply(&ends.batch(3, 70), at(70));
    let later = 80 + ENDED_KEPT.as_secs();
    model.apply(&newer.batch(4, later), at(later));
    model.tick(at(later));
    model.tick(at(later + 20));
    assert!(model.communicator(older.id()).is_none());
    let third = newer.again(older.comm_hash, 11, later + 20);
    model.apply(&third.batch(5, later + 30), at(later + 30));
    assert_eq!(model.communicator(second).unwrap().created(&model), at(50));
    let third = CommunicatorId::nth(older.job, older.comm_hash, 2, 2);
    assert_eq!(model.communicator(third).unwrap().n_ranks_seen(), 2);
}

#[test]
fn a_log_and_a_segment_of_one_process_are_one_rank() {
    let cluster = pair();
    let mut log = cluster.process(0);
    log.key = "host-0/1000/log".to_owned();
    log.has_segment = false;
    log.communicators[0].created_at_ns = 0;
    for order in [[0, 1], [1, 0]] {
        let words = [log.clone(), cluster.process(0)];
        let mut model = Model::new();
        for (word, seq_number) in order.into_iter().zip(1..) {
            model.apply(&batch(seq_number, 5, vec![words[word].clone()]), at(5));
        }
        assert_eq!(model.communicators().count(), 1);
        let known = model.communicator(cluster.id()).unwrap();
        assert!(known.ranks(&model).all(|rank| rank.process.collector().has_segment));
    }
}

/// The collector knows its hash already, and not yet how many ranks it has.
#[test]
fn a_split_that_is_being_made_is_no_bad_number() {
    let whole = pair().process(0);
    let mut making = whole.clone();
    making.communicators[0].n_ranks = 0;
    making.communicators[0].state = Told::Forming.into();
    let mut model = Model::new();
    model.apply(&batch(1, 2, vec![making]), at(2));
    assert_eq!((model.dropped().len(), model.communicators().count()), (0, 0));
    model.apply(&batch(2, 3, vec![whole]), at(3));
    assert_eq!((model.dropped().len(), model.communicators().count()), (0, 1));
}

#[test]
fn bad_numbers_are_counted_and_left_out() {
    let check = |reason: &str, spoil: &dyn Fn(&mut batch::Process)| {
        let mut process = pair().process(0);
        spoil(&mut process);
        let mut model = Model::new();
        model.apply(&batch(1, 2, vec![process]), at(2));
        assert_eq!(model.dropped().get(reason), Some(&1), "{reason}: {:?}", model.dropped());
    };
    let counters = pair().counters(Primitive::AllReduce, 1, 1, 1);
    check("rank_out_of_range", &|process| process.communicators[0].rank = 2);
    check("rank_out_of_range", &|process| process.communicators[0].n_ranks = 0);
    check("rank_out_of_range", &|process| process.communicators[0].n_ranks = MAX_RANKS + 1);
    check("channel_out_of_range", &|process| process.communicators[0].rings[0].channel = 1_000);
    check("unknown_communicator_state", &|process| process.communicators[0].state = 99);
    check("unknown_process_state", &|process| process.state = 99);
    check("unknown_collector_state", &|process| process.collector_state = 99);
    check("unknown_primitive", &|process| {
        process.counters = vec![batch::Counters { primitive: 99, ..counters }];
    });
    check("operation_limit", &|process| {
        process.in_flight = vec![pair().operation(0, 1, None); MAX_IN_FLIGHT + 1];
    });
    check("bad_process_key", &|process| process.key = "x".repeat(1_000));
    check("ended_long_ago", &|process| process.ended_at_ns = Some(1));
}

#[test]
fn processes_go_stale_with_their_agent() {
    let cluster = pair();
    let mut model = world(&cluster);
    let state = |model: &Model, s| model.rank_state(model.process(&cluster.key(0)).unwrap(), at(s));
    model.apply(&batch(2, 10, Vec::new()), at(10));
    assert_eq!(state(&model, 24), RankState::Running);
    assert_eq!(model.tick(at(24)), Changes::default());
    assert_eq!(state(&model, 25), RankState::Stale);
    assert_eq!(model.tick(at(25)).communicators, [cluster.id()].into());
    assert_eq!(model.tick(at(26)), Changes::default());
    model.apply(&batch(3, 27, Vec::new()), at(27));
    assert_eq!(model.tick(at(27)).communicators, [cluster.id()].into());
}

#[test]
fn an_agent_that_says_goodbye_leaves_its_processes_unwatched() {
    let cluster = pair();
    let mut model = world(&cluster);
    let since = |model: &Model, rank| model.unwatched_since(model.process(&cluster.key(rank)).unwrap());
    assert_eq!(since(&model, 0), None);
    let last = Batch { ending: true, ..batch(2, 10, Vec::new()) };
    let changes = model.apply(&last, at(10));
    assert_eq!(changes.facts, [cluster.key(0), cluster.key(1)].into(), "the store shall know");
    assert_eq!((since(&model, 0), since(&model, 1)), (Some(at(10)), Some(at(10))));
    model.apply(&batch(1, 2, Vec::new()), at(11));
    assert_eq!(since(&model, 0), Some(at(10)), "what it said before comes again");

    // As the store keeps it, and the next agent's first word takes it back.
    let mut again = Model::new();
    let kept: Vec<_> = (0..2).map(|rank| model.process_facts(&cluster.key(rank)).unwrap()).collect();
    again.restore(kept, at(20));
    assert_eq!(since(&again, 0), Some(at(10)));
    let hello = |rank, seq_number| Batch {
        agent_id: "next".to_owned(),
        ..batch(seq_number, 30, vec![cluster.process(rank)])
    };
    for model in [&mut model, &mut again] {
        let changes = model.apply(&hello(0, 1), at(30));
        assert!(changes.facts.contains(&cluster.key(0)), "the store shall know that, too");
        assert_eq!((since(model, 0), since(model, 1)), (None, Some(at(10))));
    }
    model
        .apply(&Batch { processes: vec![ended(cluster.word(1), Ending::Exited, 31)], ..hello(1, 2) }, at(31));
    assert_eq!(since(&model, 1), None, "nobody needs to watch what has ended");
}

#[test]
fn what_ended_is_forgotten_after_a_while() {
    let cluster = pair();
    let mut model = world(&cluster);
    let ends = |rank| ended(cluster.word(rank), Ending::Exited, 10);
    model.apply(&batch(2, 10, vec![ends(0)]), at(10));
    let kept = ENDED_KEPT.as_secs();
    model.apply(&batch(3, 10 + kept, Vec::new()), at(10 + kept));
    model.tick(at(10 + kept));
    assert_eq!(model.communicators().count(), 1, "a rank still uses it");
    model.apply(&batch(4, 10 + kept, vec![ends(1)]), at(10 + kept));
    let changes = model.tick(at(20 + 2 * kept));
    assert_eq!(changes.facts, [cluster.key(0), cluster.key(1)].into());
    assert_eq!(model.process_facts(&cluster.key(0)), None);
    assert_eq!((model.jobs().count(), model.hosts().count(), model.communicators().count()), (0, 0, 0));
    model.tick(at(40 + 2 * kept));
    assert_eq!(model.names.intern("host-0").as_ref(), "host-0");
}

#[test]
fn what_ended_in_the_future_is_forgotten_too() {
    let cluster = pair();
    let mut model = world(&cluster);
    let processes = (0..2).map(|rank| ended(cluster.word(rank), Ending::Killed, 1_000_000)).collect();
    model.apply(&batch(2, 10, processes), at(10));
    model.tick(at(10 + ENDED_KEPT.as_secs()));
    assert_eq!((model.jobs().count(), model.communicators().count()), (0, 0));
}

#[test]
fn what_is_silent_for_very_long_is_forgotten() {
    let cluster = pair();
    let mut model = world(&cluster);
    let later = SILENT_KEPT.as_secs() + 2;
    model.apply(
        &Batch { agent_id: "other".to_owned(), ..batch(1, later, vec![cluster.process(0)]) },
        at(later),
    );
    model.tick(at(later));
    assert_eq!(model.communicator(cluster.id()).unwrap().n_ranks_seen(), 1);
    model.tick(at(2 * later));
    assert_eq!((model.jobs().count(), model.communicators().count()), (0, 0));
}

#[test]
fn a_life_that_a_lost_host_never_ended_is_over_when_others_have_its_ranks() {
    let cluster = pair();
    let mut model = Model::new();
    let told = |agent: &str, seq_number, s, process| Batch {
        agent_id: agent.to_owned(),
        ..batch(seq_number, s, vec![process])
    };
    model.apply(&told("one", 1, 2, cluster.process(0)), at(2));
    model.apply(&told("other", 1, 2, cluster.process(1)), at(2));
    // Nothing is heard of the second host, and the launcher kills the other rank.
    model.apply(&told("one", 2, 30, ended(cluster.word(0), Ending::Killed, 30)), at(30));
    let present = |model: &Model, s| {
        let (_, job) = model.job("train").unwrap();
        let keys = job.present(model, at(s)).map(|process| process.key().to_owned());
        let mut keys: Vec<String> = keys.collect();
        keys.sort();
        keys
    };
    assert_eq!(present(&model, 31), [cluster.key(0), cluster.key(1)]);
    let next = pair().again(0xdef, 9, 40).with(|rank, spec| spec.host = format!("host-{}", 2 * rank));
    for rank in 0..2 {
        let mut process = next.process(rank);
        process.key = format!("host-{}/new/2", 2 * rank);
        process.identity.as_mut().unwrap().start_time_ns = at(40).0;
        model.apply(&told("one", 3 + u64::from(rank), 41, process), at(41));
    }
    assert_eq!(present(&model, 42), ["host-0/new/2", "host-2/new/2"]);
}

#[test]
fn who_ended_is_of_an_earlier_life_though_that_is_seen_after_its_successor_began() {
    let cluster = pair();
    let mut model = Model::new();
    model.apply(&batch(1, 2, vec![cluster.process(0), cluster.process(1)]), at(2));
    let next = pair().again(0xdef, 9, 30);
    let restarted = (0..2).map(|rank| {
        let mut process = next.process(rank);
        process.key = format!("host-{rank}/new/2");
        process.identity.as_mut().unwrap().start_time_ns = at(30).0;
        process
    });
    let old = (0..2).map(|rank| ended(cluster.word(rank), Ending::Killed, 31));
    model.apply(&batch(2, 31, old.chain(restarted).collect()), at(31));
    let (_, job) = model.job("train").unwrap();
    let mut present: Vec<&str> = job.present(&model, at(32)).map(Process::key).collect();
    present.sort_unstable();
    assert_eq!(present, ["host-0/new/2", "host-1/new/2"]);
}

#[test]
fn a_job_that_makes_very_many_communicators_keeps_the_newest_ended_ones() {
    let mut model = Model::new();
    let total = MAX_ENDED_PER_JOB as u64 + 5;
    for i in 0..total {
        let cluster = Cluster::new(&[("host-0", 1, 1)], 2).again(100 + i, i, 1);
        let mut process = cluster.process(0);
        process.communicators[0].state = Told::Destroyed.into();
        process.communicators[0].ended_at_ns = Some(at(10 + i).0);
        process.counters = vec![cluster.counters(Primitive::AllReduce, 1, 1, 10)];
        model.apply(&batch(1 + i, 10 + i, vec![process]), at(10 + i));
    }
    model.tick(at(20 + total));
    assert_eq!(model.communicators().count(), MAX_ENDED_PER_JOB);
    let gone = Cluster::new(&[("host-0", 1, 1)], 2).again(100, 0, 1);
    assert!(model.communicator(gone.id()).is_none());
    let forgotten = model.job("train").unwrap().1.forgotten();
    assert_eq!((forgotten.n_communicators, forgotten.completed_bytes), (5, 50));
}

#[test]
fn what_the_store_kept_says_the_same() {
    let cluster = pair();
    let mut model = world(&cluster);
    let busy = batch::Process {
        counters: vec![cluster.counters(Primitive::AllReduce, 5, 4, 100)],
        links: vec![cluster.link(Primitive::AllReduce, 1, 400)],
        in_flight: vec![cluster.operation(4, 9, None)],
        last_completed: vec![cluster.operation(3, 8, Some(9))],
        dropped: vec![batch::Dropped { reason: "ring_overrun".to_owned(), events: 3 }],
        collector_state: batch::CollectorState::On.into(),
        ..ended(cluster.word(0), Ending::Killed, 10)
    };
    model.apply(&batch(2, 10, vec![busy]), at(10));
    let kept = exported(&model);
    for order in [kept.clone(), kept.iter().rev().cloned().collect()] {
        let mut again = Model::new();
        again.restore(order, at(11));
        assert_eq!(exported(&again), kept);
        assert_eq!(state(&again, &cluster), Some(CommunicatorState::Broken));
        // What an agent sends replaces what the store kept, and nothing is counted twice.
        again.apply(&cluster.batch(1, 12), at(12));
        assert_eq!(completed(&again, &cluster), 400);
    }
}

#[test]
fn traffic_is_measured_over_the_network_and_computed_within_a_host() {
    // Ranks 0 and 1 on one host, 2 on another: 0 -> 1 by P2P, 1 -> 2 and 2 -> 0 by the network.
    let cluster = Cluster::new(&[("host-0", 2, 2), ("host-1", 1, 2)], 4);
    let mut model = world(&cluster);
    let count = |rank: u32, links: Vec<batch::Link>| batch::Process {
        counters: vec![
            cluster.counters(Primitive::AllReduce, 1, 1, 300),
            cluster.counters(Primitive::AllGather, 1, 1, 300),
            cluster.counters(Primitive::AllToAll, 1, 1, 30),
        ],
        links,
        ..cluster.word(rank)
    };
    let all_reduce = |peer, bytes| cluster.link(Primitive::AllReduce, peer, bytes);
    let processes = vec![
        count(0, Vec::new()),
        count(1, vec![all_reduce(2, 400), cluster.link(Primitive::AllToAll, 2, 30)]),
        count(2, vec![all_reduce(0, 400)]),
    ];
    model.apply(&batch(2, 3, processes), at(3));
    let found: Vec<_> = model
        .samples(&[cluster.id()].into())
        .into_iter()
        .map(|sample| {
            (sample.host, sample.primitive, sample.completed_bytes, sample.intra_bytes, sample.inter_bytes)
        })
        .collect();
    let (host_0, host_1) = (|| "host-0".to_owned(), || "host-1".to_owned());
    assert_eq!(
        found,
        [
            (host_0(), Primitive::AllReduce, 600, Some(400), Some(400)),
            (host_0(), Primitive::AllGather, 600, Some(600), Some(0)),
            (host_0(), Primitive::AllToAll, 60, Some(60), Some(30)),
            (host_1(), Primitive::AllReduce, 300, Some(0), Some(400)),
            (host_1(), Primitive::AllGather, 300, Some(0), Some(0)),
            (host_1(), Primitive::AllToAll, 30, Some(0), Some(0)),
        ]
    );
}

#[test]
fn nothing_is_computed_where_the_library_reports_its_steps_inside_a_host() {
    // As before, and rank 0 reports what it sends to 1; rank 1 sends it nothing back, and nobody makes that up.
    let cluster = Cluster::new(&[("host-0", 2, 2), ("host-1", 1, 2)], 4);
    let mut model = world(&cluster);
    let count = |rank: u32, links: Vec<batch::Link>| batch::Process {
        counters: [Primitive::AllReduce, Primitive::AllToAll, Primitive::Gather]
            .map(|primitive| cluster.counters(primitive, 1, 1, 300))
            .to_vec(),
        links,
        ..cluster.word(rank)
    };
    let links = [(Primitive::AllReduce, 1, 200), (Primitive::AllReduce, 2, 100), (Primitive::Gather, 1, 7)];
    let links = links.map(|(primitive, peer, bytes)| cluster.link(primitive, peer, bytes)).to_vec();
    model.apply(&batch(2, 3, vec![count(0, links), count(1, Vec::new())]), at(3));
    let samples = model.samples(&[cluster.id()].into());
    let bytes = samples.iter().filter(|sample| sample.host == "host-0");
    let bytes: Vec<_> = bytes.map(|one| (one.primitive, one.intra_bytes, one.inter_bytes)).collect();
    let expected = [
        (Primitive::AllReduce, Some(200), Some(100)),
        (Primitive::AllToAll, Some(0), Some(0)),
        (Primitive::Gather, Some(7), Some(0)),
    ];
    assert_eq!(bytes, expected);
}

#[test]
fn what_a_library_does_not_tell_of_its_broadcasts_is_not_zero() {
    let known = |version: u32, hosts: &[(&str, u32, u32)]| {
        let cluster = Cluster::new(hosts, 4);
        let mut model = Model::new();
        let mut process = cluster.process(0);
        process.identity.as_mut().unwrap().library_version = version;
        process.counters = [Primitive::AllReduce, Primitive::Broadcast]
            .map(|primitive| cluster.counters(primitive, 1, 1, 300))
            .to_vec();
        model.apply(&batch(1, 2, vec![process]), at(2));
        let samples = model.samples(&[cluster.id()].into());
        samples.iter().map(|sample| sample.inter_bytes).collect::<Vec<_>>()
    };
    let two_hosts = [("host-0", 1, 2), ("host-1", 1, 2)];
    for version in [22_902, 23_007] {
        assert_eq!(known(version, &two_hosts), [Some(0), None]);
        assert_eq!(known(version, &[("host-0", 1, 1)]), [Some(0), Some(0)]);
    }
    assert_eq!(known(23_203, &two_hosts), [Some(0), Some(0)]);
}

#[test]
fn bytes_that_nobody_counts_are_not_zero() {
    // Below level `steps` only who sends nothing over the network is measured.
    let cluster = Cluster::new(&[("host-0", 2, 2), ("host-1", 1, 2)], 4);
    let mut model = Model::new();
    let counting = |rank: u32| batch::Process {
        level: if rank == 0 { batch::Level::Steps } else { batch::Level::Counters }.into(),
        counters: vec![cluster.counters(Primitive::AllReduce, 1, 1, 300)],
        ..cluster.process(rank)
    };
    model.apply(&batch(1, 2, (0..3).map(counting).collect()), at(2));
    let wire = |model: &Model| -> Vec<_> {
        let samples = model.samples(&[cluster.id()].into());
        samples
            .into_iter()
            .map(|sample| (sample.completed_bytes, sample.intra_bytes, sample.inter_bytes))
            .collect()
    };
    assert_eq!(wire(&model), [(600, None, None), (300, None, None)]);
    let level = |rank| batch::Process { level: batch::Level::Steps.into(), ..cluster.word(rank) };
    model.apply(&batch(2, 3, vec![level(1)]), at(3));
    assert_eq!(wire(&model), [(600, Some(400), Some(0)), (300, None, None)]);
    model.apply(&batch(3, 4, vec![level(2)]), at(4));
    assert_eq!(wire(&model)[1], (300, Some(0), Some(0)));

    let one_host = Cluster::new(&[("host-0", 2, 2)], 4);
    let mut model = Model::new();
    let counting = |rank| batch::Process {
        level: batch::Level::Counters.into(),
        counters: vec![one_host.counters(Primitive::AllReduce, 1, 1, 300)],
        ..one_host.process(rank)
    };
    model.apply(&batch(1, 2, (0..2).map(counting).collect()), at(2));
    let samples = model.samples(&[one_host.id()].into());
    assert_eq!((samples[0].intra_bytes, samples[0].inter_bytes), (Some(600), Some(0)));
}

/// Batches of one agent whose counters grow.
fn growing(cluster: &Cluster, steps: &[(u32, u64)]) -> Vec<Batch> {
    let mut issued = vec![0; cluster.ranks.len()];
    let mut batches = vec![cluster.batch(1, 2)];
    for (i, (rank, calls)) in steps.iter().enumerate() {
        issued[*rank as usize] += calls;
        let done = issued[*rank as usize];
        let process = batch::Process {
            counters: vec![cluster.counters(Primitive::AllReduce, done + 1, done, 64)],
            links: vec![cluster.link(Primitive::AllReduce, 1 - *rank, done * 64)],
            in_flight: vec![cluster.operation(done, 5, None)],
            last_completed: vec![cluster.operation(done, 4, Some(5 + done))],
            ..cluster.word(*rank)
        };
        batches.push(batch(2 + i as u64, 3 + i as u64, vec![process]));
    }
    batches
}

proptest! {
    #[test]
    fn any_order_with_repeats_gives_the_same(
        steps in proptest::collection::vec((0..2_u32, 1..5_u64), 1..12),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let cluster = pair();
        let batches = growing(&cluster, &steps);
        let mut straight = Model::new();
        for batch in &batches {
            straight.apply(batch, at(100));
        }
        let mut mixed = Model::new();
        for index in &order {
            mixed.apply(index.get(&batches), at(100));
        }
        for batch in batches.iter().rev() {
            mixed.apply(batch, at(100));
        }
        prop_assert_eq!(exported(&mixed), exported(&straight));
        let all = [cluster.id()].into();
        prop_assert_eq!(mixed.samples(&all), straight.samples(&all));
    }

    #[test]
    fn anything_is_survived(
        batches in proptest::collection::vec(
            (1..9_u64, any::<u64>(), proptest::collection::vec(any_process(MAX_RANKS), 0..4)), 1..8),
        now in any::<u64>(),
    ) {
        let mut model = Model::new();
        let now = Timestamp(now);
        for (seq_number, sent_at_ns, processes) in batches {
            model.apply(&Batch { sent_at_ns, ..batch(seq_number, 0, processes) }, now);
        }
        for (id, communicator) in &model.communicators {
            prop_assert_eq!(communicator.ranks(&model).count(), communicator.members.len());
            prop_assert!(communicator.ranks(&model).all(|rank| rank.local.joined == Some(*id)));
        }
        let mut again = Model::new();
        again.restore(exported(&model), now);
        prop_assert_eq!(exported(&again), exported(&model));
        model.tick(now);
        model.tick(Timestamp(now.0.saturating_add(u64::MAX / 2)));
    }
}

#[test]
fn a_process_of_another_host_than_its_agents_is_in_a_container() {
    let cluster = Cluster::new(&[("host-0", 1, 1), ("pod-7", 1, 1)], 1);
    let mut model = Model::new();
    model.apply(&cluster.batch(1, 2), at(2));
    let is_in_container = |model: &Model| {
        let mut found: Vec<(String, bool)> = (model.processes.values())
            .map(|known| (known.identity().unwrap().host.to_string(), model.is_in_container(known)))
            .collect();
        found.sort();
        found
    };
    assert_eq!(is_in_container(&model), [("host-0".to_owned(), false), ("pod-7".to_owned(), true)]);
}
