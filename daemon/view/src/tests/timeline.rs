//! Timelines of hosts whose clocks are wrong.

use ringscope_api::ClockBasis;
use ringscope_wire::batch::{CallSequence, Operation};

use super::*;

/// The clock of the second host is 30 s ahead.
const AHEAD_NS: u64 = 30_000_000_000;
const MS: u64 = 1_000_000;

/// Two hosts with a rank each that call an operation a second; rank 1 is 200 ms late in each fourth, and rank 0 10 ms in all others.
fn skewed(every: u64) -> (Cluster, Model) {
    let cluster = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 2)], 4);
    let mut model = Model::new();
    for (rank, ahead_ns) in [(0_u32, 0), (1, AHEAD_NS)] {
        for s in 1..=40 {
            let mut process = cluster.process(rank);
            if s > 2 && s % every == 0 {
                process.completed_operations = vec![operation(&cluster, rank, s - 2, ahead_ns)];
            }
            process.sequences = vec![CallSequence {
                local_id: cluster.local_id,
                calls: s,
                sampled_log2: every.trailing_zeros(),
                ..CallSequence::default()
            }];
            let sent_at_ns = at(s).0 + ahead_ns;
            let told = Batch {
                agent_id: format!("agent-{rank}"),
                sent_at_ns,
                posted_at_ns: sent_at_ns,
                ..batch(s, s, vec![process])
            };
            model.apply(&told, at(s));
        }
    }
    (cluster, model)
}

fn operation(cluster: &Cluster, rank: u32, s: u64, ahead_ns: u64) -> Operation {
    let is_slow = s % 4 == 2;
    let late = [if is_slow { 0 } else { 10 * MS }, if is_slow { 200 * MS } else { 0 }];
    let mut told = cluster.operation(s, s, Some(s));
    told.call_number = Some(s + 2);
    told.issued_at_ns = at(s).0 + ahead_ns + late[rank as usize];
    told.completed_at_ns = Some(at(s).0 + ahead_ns + late[0].max(late[1]) + 3 * MS);
    told
}

#[test]
fn ranks_stand_side_by_side_though_their_clocks_are_half_a_minute_apart() {
    let (_, model) = skewed(1);
    let shown = timeline(&model, "train", at(0), at(40), 1_000).unwrap();
    let clock = &shown.clocks[1];
    assert_eq!((&*clock.host, clock.basis), ("host-1", ClockBasis::Collectives));
    assert!((clock.offset_s - 30.0).abs() <= clock.error_s && clock.error_s < 0.02, "{clock:?}");
    assert_eq!(shown.clocks[0].basis, ClockBasis::Reference);
    let columns = &shown.operations;
    assert_eq!(columns.rank.len(), 2 * 38);
    let ranks: Vec<(u32, &str)> = shown.ranks.iter().map(|rank| (rank.rank, &*rank.host)).collect();
    assert_eq!(ranks, [(0, "host-0"), (1, "host-1")]);
    for row in 0..columns.rank.len() {
        let second = i64::try_from(columns.call_number[row].unwrap() - 2).unwrap();
        let late_us = if second % 4 == 2 { 200_000 } else { 10_000 };
        let last_us = columns.last_called_us[row].unwrap();
        let near = |told_us: i64, truth_us: i64| told_us.abs_diff(second * 1_000_000 + truth_us) < 10_000;
        assert!(near(last_us, late_us), "{row}: {last_us}");
        assert!(near(columns.completed_us[row], late_us + 3_000), "{row}: {columns:?}");
        let is_last = (columns.rank[row] == 1) == (second % 4 == 2);
        assert!(near(columns.called_us[row], if is_last { late_us } else { 0 }), "{row}: {columns:?}");
    }
    assert_eq!(shown.lacks, Vec::<String>::new());
}

#[test]
fn what_is_left_out_is_said() {
    let (_, model) = skewed(4);
    let few = timeline(&model, "train", at(0), at(40), 1_000).unwrap();
    assert_eq!((few.communicators[0].every, few.operations.rank.len()), (4, 2 * 10));
    assert!(
        few.lacks[0].starts_with("Only every 4th operation of 1 communicator is told (the same ones by"),
        "{:?}",
        few.lacks
    );
    let (_, model) = skewed(1);
    let thin = timeline(&model, "train", at(0), at(40), 30).unwrap();
    assert!(thin.operations.call_number.iter().all(|number| number.unwrap() % 4 == 0));
    assert_eq!(thin.operations.rank.len(), 20, "of both ranks the same ones");
    assert!(thin.lacks[0].contains("Of 76 operations 20 are shown"), "{:?}", thin.lacks);
    assert_eq!(thin.communicators[0].every, 4, "what lies between two is not a rank's own time");
    let none = timeline(&model, "train", at(100), at(140), 30).unwrap();
    assert!(none.operations.rank.is_empty() && none.communicators.is_empty());
    assert_eq!(none.ranks.len(), 2, "they live");
    assert!(none.lacks[0].contains("No operation that ran in this time"), "{:?}", none.lacks);
    assert!(timeline(&model, "other", at(0), at(1), 1).is_none());
}

#[test]
fn a_host_says_how_its_clock_differs() {
    let (_, model) = skewed(1);
    let clock = host(&model, &Diagnosis::new(), at(40), "host-1").unwrap().clock;
    assert!((clock.offset_s - 30.0).abs() <= clock.error_s, "{clock:?}");
    assert_eq!(clock.reference.as_deref(), Some("host-0"));
    let (model, _) = world(&sick());
    let clock = host(&model, &Diagnosis::new(), at(3), "host-1").unwrap().clock;
    assert_eq!((clock.basis, clock.error_s), (ClockBasis::Agent, 2.0));
}

/// One host whose ranks tell three operations each, and count sends at this level.
fn wide(n_ranks: usize, level: batch::Level, n_pairs: u64) -> Model {
    let cluster = Cluster::new(&vec![("host-0", 1, 2); n_ranks], 4);
    let mut model = Model::new();
    let processes = (0..n_ranks).map(|rank| {
        let mut process = cluster.process(u32::try_from(rank).unwrap());
        process.completed_operations = (2..5).map(|s| operation(&cluster, 0, s, 0)).collect();
        process.level = level.into();
        process.pairs = (0..n_pairs.min(1))
            .map(|_| batch::PairCalls {
                local_id: cluster.local_id,
                primitive: batch::Primitive::Send.into(),
                peer: 1,
                calls: n_pairs,
                bytes: 8,
                ..batch::PairCalls::default()
            })
            .collect();
        process
    });
    model.apply(&batch(1, 8, processes.collect()), at(8));
    model
}

#[test]
fn of_one_call_of_very_many_ranks_some_ranks_are_shown() {
    let model = wide(8, batch::Level::Steps, 0);
    let shown = timeline(&model, "train", at(0), at(40), 5).unwrap();
    assert!(shown.operations.call_number.iter().all(|number| *number == Some(4)), "the roundest");
    let ranks: Vec<u32> =
        shown.operations.rank.iter().map(|place| shown.ranks[*place as usize].rank).collect();
    assert_eq!(ranks, [0, 2, 4, 6]);
    let words =
        "Of 24 operations 4 are shown, those whose number is divisible by 4, of every 2nd rank: ask for";
    assert!(shown.lacks[0].starts_with(words), "{:?}", shown.lacks);
    assert!(!shown.lacks.iter().any(|lack| lack.contains("told of no operation")), "{:?}", shown.lacks);
    let one = timeline(&model, "train", at(0), at(40), 1).unwrap();
    assert_eq!(one.operations.call_number, [Some(4)], "{:?}", one.lacks);
    assert!(!one.lacks.iter().any(|lack| lack.starts_with("No operation")), "{:?}", one.lacks);
}

#[test]
fn at_counters_sends_lie_in_the_gaps_and_that_is_said() {
    let told = |level, n_pairs| {
        let shown = timeline(&wide(2, level, n_pairs), "train", at(0), at(40), 100).unwrap();
        let is_said = shown.lacks.iter().any(|lack| lack.starts_with("Sends and receives are counted"));
        (shown.communicators[0].every, is_said)
    };
    assert_eq!(told(batch::Level::Counters, 3), (2, true));
    assert_eq!(told(batch::Level::Counters, 0), (1, false));
    assert_eq!(told(batch::Level::Channels, 3), (1, false));
}

#[test]
fn the_clocks_of_a_trace_without_operations_are_those_of_the_time_that_was_asked_for() {
    let cluster = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 2)], 4);
    let mut model = Model::new();
    for rank in [0_u32, 1] {
        model.apply(&batch(1, 5, vec![cluster.process(rank)]), at(5));
    }
    let id = communicators(&model, &Diagnosis::new(), at(5), &CommunicatorFilter::default())[0].id.clone();
    let known = model.communicator(id.parse().unwrap()).unwrap();
    assert_eq!(trace::clocks(&model, known, (at(3), at(5))).to(), at(5));
}
