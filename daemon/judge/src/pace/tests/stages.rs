//! Jobs whose ranks do different work: stages of a pipeline, and ranks that only look like such.

use ringscope_api::FindingKind;
use ringscope_samples::cluster::Cluster;
use ringscope_wire::Primitive;

use super::{FOUR, Peers, Stage, at, cost_is_about};
use crate::{Want, Wanted};

/// Pipelines side by side. The ranks of one place in all of them are a stage, and all-reduce among themselves.
fn pipelines(
    hosts: &[(&str, u32, u32)],
    stages: &[&[u32]],
    own: impl Fn(u32, u64) -> u64 + 'static,
) -> Stage {
    let mut stage = Stage::new(hosts, own);
    let mut first = stage.cluster.batch(1, 0);
    let pipes = (0..stages[0].len()).map(|at| stages.iter().map(|ranks| ranks[at]).collect::<Vec<u32>>());
    let groups = stages.iter().map(|ranks| (ranks.to_vec(), Primitive::AllReduce));
    for (number, (ranks, called)) in (8..).zip(groups.chain(pipes.map(|ranks| (ranks, Primitive::Send)))) {
        let hosts: Vec<(&str, u32, u32)> =
            ranks.iter().map(|rank| (&*stage.cluster.ranks[*rank as usize].host, 1, 2)).collect();
        let group = Cluster { comm_hash: 0xdef + number, local_id: number, ..Cluster::new(&hosts, 2) };
        for (process, rank) in group.processes().into_iter().zip(&ranks) {
            first.processes[*rank as usize].communicators.extend(process.communicators);
        }
        stage.groups.push((group, ranks, called));
    }
    stage.model = ringscope_model::Model::new();
    stage.model.apply(&first, at(0));
    stage
}

const THREE: [(&str, u32, u32); 3] = [("a", 4, 2), ("b", 4, 2), ("c", 4, 2)];
const HALVES: [&[u32]; 2] = [&[0, 1, 4, 5, 8, 9], &[2, 3, 6, 7, 10, 11]];

#[test]
fn half_a_host_that_is_slow_is_no_slow_host() {
    let mut stage = pipelines(&THREE, &HALVES, |rank, _| 40 + if rank == 4 || rank == 5 { 20 } else { 0 });
    let found = (0..40).map(|_| stage.second()).last().unwrap();
    let mut ranks: Vec<_> = found.iter().map(|finding| (finding.finding, finding.rank)).collect();
    ranks.sort_unstable_by_key(|(_, rank)| *rank);
    let slow = |rank| (FindingKind::ComputeStraggler, Some(rank));
    assert_eq!(ranks, [slow(4), slow(5)], "{found:#?}");
}

#[test]
fn a_host_with_two_stages_that_is_slow_is_one_finding() {
    let mut stage = pipelines(&THREE, &HALVES, |rank, _| 40 + if (4..8).contains(&rank) { 20 } else { 0 });
    let (_, finding) = stage.first(40).unwrap();
    assert_eq!((finding.finding, &*finding.host), (FindingKind::SlowHost, "b"));
    assert_eq!((finding.accused.len(), finding.n_victims), (4, 8), "{finding:#?}");
    cost_is_about(&finding, 20.0);
}

/// Of two nobody is in the middle.
#[test]
fn the_slow_one_of_a_stage_of_two_is_a_straggler_and_stands_for_nobody() {
    let hosts = [("a", 4, 2), ("b", 4, 2)];
    let stages: [&[u32]; 4] = [&[0, 4], &[1, 5], &[2, 6], &[3, 7]];
    let mut stage = pipelines(&hosts, &stages, |rank, _| 40 + if rank == 2 { 20 } else { 0 });
    let (_, finding) = stage.first(40).unwrap();
    assert_eq!((finding.finding, finding.rank), (FindingKind::ComputeStraggler, Some(2)));
    assert!(!finding.message.contains(" too"), "{}", finding.message);
}

/// As where tokens are exchanged within one host: no network tells to whom they go.
#[test]
fn it_is_asked_to_whom_ranks_send_where_no_link_tells() {
    let mut stage = Stage::new(&FOUR, |rank, step| 40 + if rank == 2 && step >= 600 { 20 } else { 0 });
    stage.sends = Some(Box::new(|rank| (0..4).filter(|peer| *peer != rank).collect()));
    stage.peers = Peers::Unknown;
    stage.is_calm_for(20);
    let asked = stage.diagnosis.take_wanted();
    let is_asked = |wanted: &Wanted| wanted.what == Want::Pairs { local_id: stage.cluster.local_id };
    assert_eq!(asked.iter().filter(|wanted| is_asked(wanted)).count(), 1, "one rank, once: {asked:?}");
    stage.peers = Peers::Pairs;
    let (_, finding) = stage.first(60).unwrap();
    assert_eq!((finding.finding, finding.rank), (FindingKind::ComputeStraggler, Some(2)));
}

/// Each stage is a host, and there is one pipeline: within the stage nobody differs.
#[test]
fn a_stage_that_gets_slower_is_a_slow_host_and_one_that_always_was_is_other_work() {
    let stages: [&[u32]; 3] = [&[0, 1, 2, 3], &[4, 5, 6, 7], &[8, 9, 10, 11]];
    let slower = |from: u64| {
        pipelines(&THREE, &stages, move |rank, step| {
            40 + if (4..8).contains(&rank) && step >= from { 20 } else { 0 }
        })
    };
    let mut stage = slower(600);
    let (_, finding) = stage.first(80).unwrap();
    assert_eq!((finding.finding, &*finding.host), (FindingKind::SlowHost, "b"));
    assert_eq!((finding.accused.len(), finding.n_victims), (4, 8), "{finding:#?}");
    assert!(finding.message.contains("the other stages 40 ms"), "{}", finding.message);
    cost_is_about(&finding, 20.0);
    let (_, finding) = slower(0).first(80).unwrap();
    assert_eq!(finding.finding, FindingKind::OtherWork, "{finding:#?}");
}

#[test]
fn a_host_whose_ranks_are_all_given_more_is_not_called_slow() {
    let hosts = [("a", 2, 2), ("b", 2, 2), ("c", 2, 2)];
    let mut stage = Stage::new(&hosts, |rank, _| 40 + if rank == 2 || rank == 3 { 20 } else { 0 });
    stage.more = Box::new(|rank| if rank == 2 || rank == 3 { 50 } else { 0 });
    let (_, finding) = stage.first(40).unwrap();
    assert_eq!((finding.finding, &*finding.host), (FindingKind::UnevenWork, "b"));
    assert!(finding.message.contains("asked for 50 % more"), "{}", finding.message);
}
