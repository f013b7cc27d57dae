//! Jobs in lock step: whose own times are what, and what is said of it.

use std::collections::BTreeSet;
use std::time::Duration;

use ringscope_api::{Finding, FindingKind, FindingState, Severity};
use ringscope_model::Model;
use ringscope_samples::cluster::{self, Cluster, at};
use ringscope_wire::Primitive;
use ringscope_wire::batch::{self, Batch, HostHardware, Link, LongStep, Look, OwnTime, PairCalls, Process};

use crate::Diagnosis;

mod basis;
mod devices;
mod lives;
mod nics;
mod programs;
mod roles;
mod stages;

/// Milliseconds that collectives take once all have come.
const TRANSFER_MS: u64 = 10;

/// What each rank sends to the next.
const BYTES_PER_S: u64 = 25_000_000;

/// What an agent calls itself.
const AGENT: &str = "agent";

/// A job whose ranks all wait for the slowest of them in each step.
struct Stage {
    cluster: Cluster,
    /// Own time in ms, by rank and step.
    own: Box<dyn Fn(u32, u64) -> u64>,
    /// How much more than others a rank is asked for, in percent.
    more: Box<dyn Fn(u32) -> u64>,
    /// To whom a rank sends. `None`: all ranks all-reduce.
    sends: Option<Box<dyn Fn(u32) -> Vec<u32>>>,
    /// How it is known to whom.
    peers: Peers,
    /// Communicators of some of the ranks, and what these call there.
    groups: Vec<(Cluster, Vec<u32>, Primitive)>,
    /// Whether a rank is read at a second.
    is_read: Box<dyn Fn(u32, u64) -> bool>,
    /// A rank that calls something else as well.
    also: Option<(u32, Primitive)>,
    /// Milliseconds that collectives take, by step.
    transfer: Box<dyn Fn(u64) -> u64>,
    /// Nanoseconds that a byte takes from a rank to the next, by rank and second; 0: nobody tells.
    ns_per_byte: Box<dyn Fn(u32, u64) -> u64>,
    sending_ns: Vec<u64>,
    /// What the agents read of each host at a second.
    hardware: Box<dyn Fn(u64) -> Vec<HostHardware>>,
    agent: &'static str,
    model: Model,
    diagnosis: Diagnosis,
    told: Vec<OwnTime>,
    recent: Vec<Vec<u64>>,
    step: u64,
    now_ms: u64,
    s: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Peers {
    /// By network steps.
    Links,
    /// By the calls, once somebody asked.
    Pairs,
    /// Nobody tells.
    Unknown,
}

impl Stage {
    fn new(hosts: &[(&str, u32, u32)], own: impl Fn(u32, u64) -> u64 + 'static) -> Self {
        Self::of_programs(hosts, |_| "/opt/trainer", own)
    }

    fn of_programs(
        hosts: &[(&str, u32, u32)],
        program: impl Fn(u32) -> &'static str,
        own: impl Fn(u32, u64) -> u64 + 'static,
    ) -> Self {
        let cluster = Cluster::new(hosts, 2);
        let n = cluster.n_ranks() as usize;
        let mut model = Model::new();
        let mut first = cluster.batch(1, 0);
        for place in first.processes.iter_mut().flat_map(|one| &mut one.communicators[0].rings) {
            place.recv_nic = place.nic.clone();
        }
        for (rank, process) in (0..).zip(&mut first.processes) {
            process.identity.as_mut().unwrap().executable = program(rank).to_owned();
        }
        model.apply(&first, at(0));
        Self {
            cluster,
            own: Box::new(own),
            more: Box::new(|_| 0),
            sends: None,
            peers: Peers::Links,
            groups: Vec::new(),
            is_read: Box::new(|_, _| true),
            also: None,
            transfer: Box::new(|_| TRANSFER_MS),
            ns_per_byte: Box::new(|_, _| 0),
            sending_ns: vec![0; n],
            hardware: Box::new(|_| Vec::new()),
            agent: AGENT,
            model,
            diagnosis: Diagnosis::new(),
            told: vec![OwnTime { operations_per_step: 4, ..OwnTime::default() }; n],
            recent: vec![Vec::new(); n],
            step: 0,
            now_ms: 0,
            s: 0,
        }
    }

    /// Whole steps until the second is over.
    fn take_steps(&mut self) {
        while self.now_ms < self.s * 1000 {
            let own: Vec<u64> = (0..self.cluster.n_ranks()).map(|rank| (self.own)(rank, self.step)).collect();
            let step_ms = own.iter().max().unwrap() + (self.transfer)(self.step);
            for (rank, own_ms) in own.into_iter().enumerate() {
                let told = &mut self.told[rank];
                told.covered_ns = told.covered_ns.saturating_add(step_ms * 1_000_000);
                told.own_ns = told.own_ns.saturating_add(own_ms * 1_000_000);
                told.operations = told.operations.saturating_add(4);
                let recent = &mut self.recent[rank];
                recent.push(own_ms);
                let mut sorted = recent[recent.len().saturating_sub(64)..].to_vec();
                sorted.sort_unstable();
                let usual_ms = sorted[sorted.len() / 2];
                let mut apart: Vec<u64> = sorted.iter().map(|own_ms| own_ms.abs_diff(usual_ms)).collect();
                apart.sort_unstable();
                told.step_spread_ns = apart[apart.len() / 2] * 1_480_000;
                if recent.len() > 5 && own_ms > 2 * usual_ms {
                    let longer_ns = (own_ms - usual_ms) * 1_000_000;
                    let began_at_ns = at(0).0 + self.now_ms * 1_000_000;
                    told.long_steps.push(LongStep { began_at_ns, longer_ns, operation: told.operations });
                }
            }
            self.now_ms += step_ms;
            self.step += 1;
        }
    }

    /// A second passes. What fires then, that is about the pace.
    fn second(&mut self) -> Vec<Finding> {
        self.s += 1;
        self.take_steps();
        let known = self.peers;
        let processes: Vec<Process> = (0..self.cluster.n_ranks())
            .filter_map(|rank| {
                if !(self.is_read)(rank, self.s) {
                    return None;
                }
                let told = &mut self.told[rank as usize];
                let own_time = Some(told.clone());
                told.long_steps.clear();
                self.sending_ns[rank as usize] += (self.ns_per_byte)(rank, self.s) * BYTES_PER_S;
                let bytes = 100 + (self.more)(rank);
                let primitive = if self.sends.is_some() { Primitive::Send } else { Primitive::AllReduce };
                let also = self.also.filter(|(its, _)| *its == rank).map(|(_, primitive)| primitive);
                let called = std::iter::once(primitive).chain(also);
                let counters =
                    called.map(|called| self.cluster.counters(called, self.step, self.step, bytes));
                let groups = self.groups.iter().filter(|(_, ranks, _)| ranks.contains(&rank));
                let in_groups =
                    groups.map(|(group, _, called)| group.counters(*called, self.step, self.step, 100));
                let counters = counters.chain(in_groups).collect();
                let peers = self.sends.iter().flat_map(|sends| sends(rank)).collect::<Vec<u32>>();
                let peers = |by| peers.iter().filter(move |_| by == known).copied();
                let links =
                    peers(Peers::Links).map(|peer| self.cluster.link(Primitive::Send, peer, self.step));
                let links = links.chain(self.link(rank)).collect();
                let pairs = peers(Peers::Pairs).map(|peer| PairCalls {
                    local_id: self.cluster.local_id,
                    primitive: batch::Primitive::Send.into(),
                    peer,
                    calls: self.step,
                    ..PairCalls::default()
                });
                let pairs = pairs.collect();
                Some(Process { own_time, counters, links, pairs, ..self.cluster.word(rank) })
            })
            .collect();
        let hardware = (self.hardware)(self.s);
        let batch = Batch {
            agent_id: self.agent.to_owned(),
            hardware,
            ..cluster::batch(self.s + 1, self.s, processes)
        };
        self.model.apply(&batch, at(self.s));
        self.diagnosis.update(&self.model, None, at(self.s));
        let firing = self.diagnosis.firing().filter(|finding| finding.finding.is_about_pace());
        firing.cloned().collect()
    }

    /// What it has sent to the next rank so far.
    fn link(&self, rank: u32) -> Option<Link> {
        let sending_ns = self.sending_ns[rank as usize];
        let next = (rank + 1) % self.cluster.n_ranks();
        let link = self.cluster.link(Primitive::AllReduce, next, self.s * BYTES_PER_S);
        (sending_ns > 0).then_some(Link { sending_ns, ..link })
    }

    /// What was first found within so many seconds, and when.
    fn first(&mut self, seconds: u64) -> Option<(u64, Finding)> {
        (0..seconds).find_map(|_| {
            let found = self.second();
            assert!(found.len() < 2, "{found:#?}");
            Some((self.s, found.into_iter().next()?))
        })
    }

    #[track_caller]
    fn is_calm_for(&mut self, seconds: u64) {
        let found = self.first(seconds);
        assert!(found.is_none(), "{found:#?}");
    }
}

/// Two hosts of two ranks.
const FOUR: [(&str, u32, u32); 2] = [("a", 2, 2), ("b", 2, 2)];

#[track_caller]
fn cost_is_about(finding: &Finding, ms: f64) {
    let cost = finding.cost.unwrap().seconds_per_step * 1000.0;
    assert!((cost - ms).abs() <= 0.15 * ms, "{cost} ms, not {ms}: {}", finding.message);
}

#[test]
fn a_rank_that_is_slower_by_a_tenth_of_a_step_is_named() {
    let mut stage = Stage::new(&FOUR, |rank, step| 90 + if rank == 2 && step >= 50 { 10 } else { 0 });
    let (when, finding) = stage.first(40).unwrap();
    assert!(when <= 5 + 15, "after {when} s");
    assert_eq!(
        (finding.finding, finding.rank, &*finding.cause),
        (FindingKind::ComputeStraggler, Some(2), "every_step")
    );
    assert_eq!((finding.accused.len(), finding.accused[0].global_rank, finding.n_victims), (1, Some(2), 3));
    assert!(
        finding.message.starts_with("Rank 2 (b, pid 1002) takes 100 ms of its own"),
        "{}",
        finding.message
    );
    cost_is_about(&finding, 10.0);
    let began = finding.began_at.unwrap();
    assert!(began.since(at(4)).as_secs() <= 4, "began {began}");
    for _ in 0..20 {
        stage.second();
    }
    let later = stage.second();
    assert_eq!(later.len(), 1);
    assert_eq!(later[0].id, finding.id);
    assert!(later[0].cost.unwrap().rank_hours > finding.cost.unwrap().rank_hours);
}

#[test]
fn it_ends_when_the_rank_is_as_fast_as_the_others() {
    let mut stage = Stage::new(&FOUR, |rank, step| 40 + if rank == 1 && step < 400 { 40 } else { 0 });
    assert!(stage.first(20).is_some());
    let ended = (0..80).find(|_| stage.second().is_empty());
    assert!(ended.is_some());
    let resolved =
        stage.diagnosis.findings().find(|finding| finding.finding == FindingKind::ComputeStraggler);
    assert_eq!(resolved.map(|finding| finding.state), Some(FindingState::Resolved));
}

#[test]
fn steps_of_many_seconds_take_no_more_than_twenty() {
    let mut stage = Stage::new(&FOUR, |rank, step| 4000 + if rank == 3 && step >= 8 { 1000 } else { 0 });
    let (_, finding) = stage.first(300).unwrap();
    assert_eq!(finding.rank, Some(3));
    assert!(stage.step <= 8 + 20, "after {} steps", stage.step);
    cost_is_about(&finding, 1000.0);
    // Gradients gathered over many batches; nobody is slow at first.
    let mut stage = Stage::new(&FOUR, |rank, step| 90_000 + if rank == 1 && step >= 30 { 30_000 } else { 0 });
    let (_, finding) = stage.first(6_000).unwrap();
    assert_eq!((finding.finding, finding.rank), (FindingKind::ComputeStraggler, Some(1)));
    assert!(stage.step <= 30 + 20, "after {} steps", stage.step);
    cost_is_about(&finding, 30_000.0);
}

#[test]
fn a_pause_every_so_many_steps_is_told_with_its_period() {
    let mut stage = Stage::new(&FOUR, |rank, step| 40 + if rank == 0 && step % 20 == 19 { 1400 } else { 0 });
    let (_, finding) = stage.first(60).unwrap();
    assert_eq!((finding.rank, &*finding.cause), (Some(0), "periodic"));
    assert!(
        finding.message.contains("1.4 s longer outside of collectives every 20 steps"),
        "{}",
        finding.message
    );
    cost_is_about(&finding, 70.0);
}

/// Sequences of other lengths in each batch: over few long steps the means differ by chance.
#[test]
fn uneven_batches_of_long_steps_accuse_nobody() {
    for seed in 1..=20_u64 {
        let random = move |rank: u32, step: u64| {
            let mixed = (step * 64 + u64::from(rank) + seed * 1_000_003).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40
        };
        let mut stage =
            Stage::new(&[("a", 1, 2), ("b", 1, 2)], move |rank, step| 700 + random(rank, step) % 600);
        stage.is_calm_for(90);
    }
    // The same with one that is slow indeed.
    let mut stage = Stage::new(&FOUR, |rank, step| {
        1_000 + 7 * (step * 31 + u64::from(rank) * 17) % 50 + if rank == 1 { 250 } else { 0 }
    });
    let (_, finding) = stage.first(60).unwrap();
    assert_eq!((finding.finding, finding.rank), (FindingKind::ComputeStraggler, Some(1)));
}

/// Others wait for it in the middle of their collectives as well.
#[test]
fn while_a_rank_is_slow_nothing_is_said_of_the_collectives() {
    let mut stage = Stage::new(&FOUR, |rank, step| 40 + if rank == 2 && step >= 600 { 40 } else { 0 });
    stage.transfer = Box::new(|step| if step >= 620 { 60 } else { 30 });
    stage.is_calm_for(42);
    let found: Vec<FindingKind> =
        (0..60).flat_map(|_| stage.second()).map(|finding| finding.finding).collect();
    assert!(
        !found.is_empty() && found.iter().all(|kind| *kind == FindingKind::ComputeStraggler),
        "{found:?}"
    );
}

/// A checkpoint a minute, as of a long job.
#[test]
fn a_pause_each_minute_is_told_with_its_period_and_until_it_comes_no_more() {
    let pauses = |rank: u32, step: u64| rank == 0 && step % 1_000 == 999 && step < 8_000;
    let mut stage = Stage::new(&FOUR, move |rank, step| 40 + if pauses(rank, step) { 8_000 } else { 0 });
    let (s, finding) = stage.first(400).unwrap();
    assert_eq!((finding.rank, &*finding.cause), (Some(0), "periodic"), "after {s} s");
    assert!(
        finding.message.contains("8.0 s longer outside of collectives every 1000 steps"),
        "{}",
        finding.message
    );
    cost_is_about(&finding, 8.0);
    let began = stage.step;
    while !stage.second().is_empty() {}
    assert!(began < 4_000 && (8_000..12_000).contains(&stage.step), "{began} {}", stage.step);
}

/// What it costs is measured since it is so, and not over what was before.
#[test]
fn a_rank_that_has_begun_to_pause_in_each_third_step_costs_what_it_takes_now() {
    let pauses = |rank: u32, step: u64| rank == 2 && step >= 300 && step.is_multiple_of(3);
    let mut stage = Stage::new(&FOUR, move |rank, step| 40 + if pauses(rank, step) { 600 } else { 0 });
    stage.first(60).unwrap();
    let finding = (0..4).map(|_| stage.second()).last().unwrap().swap_remove(0);
    assert_eq!(finding.rank, Some(2));
    cost_is_about(&finding, 200.0);
    let percent = finding.cost.unwrap().percent;
    assert!((70.0..90.0).contains(&percent), "{percent}");
}

/// One evaluation among steps that chance made three times as long.
#[test]
fn what_is_long_once_makes_no_habit_of_small_pauses() {
    let own = |rank: u32, step: u64| match (rank, step % 100) {
        (1, 7) if step == 307 => 2_500,
        (1, 7 | 40 | 77) => 120,
        _ => 40,
    };
    Stage::new(&FOUR, own).is_calm_for(60);
}

#[test]
fn steps_that_are_slow_now_and_then_are_told_as_such() {
    // Without order.
    let is_slow =
        |step: u64| (step.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ step.wrapping_mul(step) << 40) >> 61 == 0;
    let mut stage =
        Stage::new(&FOUR, move |rank, step| 40 + if rank == 1 && is_slow(step) { 120 } else { 0 });
    let (_, finding) = stage.first(40).unwrap();
    assert_eq!((finding.rank, &*finding.cause), (Some(1), "some_steps"));
}

#[test]
fn a_rank_that_is_asked_for_more_has_more_to_do() {
    let mut stage = Stage::new(&FOUR, |rank, _| 40 + if rank == 2 { 20 } else { 0 });
    stage.more = Box::new(|rank| if rank == 2 { 50 } else { 0 });
    let (_, finding) = stage.first(30).unwrap();
    assert_eq!((finding.finding, finding.rank), (FindingKind::UnevenWork, Some(2)));
    assert!(finding.message.contains("it is asked for 50 % more"), "{}", finding.message);
}

/// Its window is another one than theirs, in which the job was faster.
#[test]
fn a_slow_rank_that_is_read_later_than_the_others_is_not_asked_for_more() {
    let mut stage = Stage::new(&FOUR, |rank, step| 40 + step + if rank == 2 { 60 } else { 0 });
    stage.is_read = Box::new(|rank, second| rank != 2 || second % 4 == 0);
    let found: Vec<Finding> = (0..40).flat_map(|_| stage.second()).collect();
    let kinds: BTreeSet<&str> = found.iter().map(|finding| finding.finding.label()).collect();
    assert_eq!(kinds, BTreeSet::from(["compute_straggler"]));
}

/// Most stops fall into collectives, where nobody's own time tells of them.
#[test]
fn a_rank_that_somebody_stops_costs_what_it_is_stopped_for() {
    let mut stage = Stage::new(&FOUR, |rank, _| 40 + if rank == 2 { 20 } else { 0 });
    stage.transfer = Box::new(|_| 140);
    stage.first(30).unwrap();
    let look = Look { at_ns: at(stage.s).0, states_read: 190, states_stopped: 152, ..Look::default() };
    let looked = Process { look: Some(look), ..stage.cluster.word(2) };
    stage.model.apply(
        &Batch { agent_id: AGENT.to_owned(), ..cluster::batch(1_000, stage.s, vec![looked]) },
        at(stage.s),
    );
    let finding = stage.second().swap_remove(0);
    assert_eq!((finding.rank, &*finding.cause), (Some(2), "stopped"));
    assert!(finding.message.contains("it is stopped for 80 % of the time"), "{}", finding.message);
    cost_is_about(&finding, 160.0);
}

/// Its own time has only what it is held back outside of collectives.
#[test]
fn a_rank_whose_processor_time_is_limited_costs_what_its_steps_take_longer_than_before() {
    let mut stage = Stage::new(&FOUR, |rank, step| 40 + if rank == 2 && step >= 200 { 12 } else { 0 });
    stage.transfer = Box::new(|step| if step >= 200 { 68 } else { 10 });
    stage.first(60).unwrap();
    let look = Look {
        at_ns: at(stage.s).0,
        cgroup_cpu_limit_milli: Some(330),
        cgroup_cpu_periods: Some(100),
        cgroup_cpu_throttled_periods: Some(97),
        ..Look::default()
    };
    let looked = Process { look: Some(look), ..stage.cluster.word(2) };
    stage.model.apply(
        &Batch { agent_id: AGENT.to_owned(), ..cluster::batch(1_000, stage.s, vec![looked]) },
        at(stage.s),
    );
    let finding = stage.second().swap_remove(0);
    assert_eq!((finding.rank, &*finding.cause), (Some(2), "cpu_limit"));
    cost_is_about(&finding, 70.0);
}

/// As mixtures of experts exchange their tokens.
#[test]
fn ranks_that_all_send_to_all_are_compared_and_a_stage_of_a_pipeline_is_told_as_one() {
    let slow = |rank: u32, _| 40 + if rank == 2 { 20 } else { 0 };
    let mut stage = Stage::new(&FOUR, slow);
    stage.sends = Some(Box::new(|rank| (0..4).filter(|peer| *peer != rank).collect()));
    let (_, finding) = stage.first(30).unwrap();
    assert_eq!((finding.finding, finding.rank), (FindingKind::ComputeStraggler, Some(2)));
    let mut stage = Stage::new(&FOUR, slow);
    stage.sends = Some(Box::new(|rank| (0..4).filter(|peer: &u32| peer.abs_diff(rank) == 1).collect()));
    let (_, finding) = stage.first(40).unwrap();
    assert_eq!(
        (finding.finding, finding.severity, finding.rank),
        (FindingKind::OtherWork, Severity::Info, Some(2))
    );
    assert!(
        finding.accused.is_empty() && finding.message.contains("another stage of a pipeline"),
        "{finding:#?}"
    );
    cost_is_about(&finding, 20.0);
    let mut stage = Stage::new(&FOUR, |_, _| 40);
    stage.sends = Some(Box::new(|rank| (0..4).filter(|peer: &u32| peer.abs_diff(rank) == 1).collect()));
    stage.is_calm_for(40);
}

#[test]
fn all_ranks_of_a_host_are_one_finding() {
    let mut stage = Stage::new(&[("a", 2, 2), ("b", 2, 2), ("c", 2, 2)], |rank, _| {
        40 + if rank / 2 == 1 { 20 } else { 0 }
    });
    let (_, finding) = stage.first(30).unwrap();
    assert_eq!((finding.finding, &*finding.host, finding.rank), (FindingKind::SlowHost, "b", None));
    assert_eq!((finding.accused.len(), finding.n_victims), (2, 4));
    cost_is_about(&finding, 20.0);
}

#[test]
fn two_that_are_slow_are_both_named() {
    let mut stage =
        Stage::new(&[("a", 4, 2), ("b", 4, 2)], |rank, _| 40 + if rank == 1 || rank == 6 { 20 } else { 0 });
    let mut found = Vec::new();
    while found.len() < 2 && stage.s < 30 {
        found = stage.second();
    }
    let mut ranks: Vec<_> = found.iter().filter_map(|finding| finding.rank).collect();
    ranks.sort_unstable();
    assert_eq!(ranks, [1, 6]);
}

/// What only looks as if somebody was slow.
#[test]
fn nobody_is_named_without_a_reason() {
    let chance = |rank: u32, step: u64| {
        (u64::from(rank) * 7919 + step * 104_729 + step * step * u64::from(rank + 3)) % 25
    };
    let check = |own: Box<dyn Fn(u32, u64) -> u64>| Stage::new(&FOUR, own).is_calm_for(60);
    check(Box::new(|_, _| 40));
    check(Box::new(move |rank, step| 28 + chance(rank, step)));
    // The first steps compile.
    check(Box::new(|rank, step| 40 + if rank == 1 && step < 5 { 900 } else { 0 }));
    // Rank 0 evaluates once; all pause at once, again and again.
    check(Box::new(|rank, step| 40 + if rank == 0 && step == 300 { 8000 } else { 0 }));
    check(Box::new(|_, step| 40 + if step % 20 == 19 { 1400 } else { 0 }));
    // Less than a second.
    check(Box::new(|rank, step| 40 + if rank == 2 && (200..208).contains(&step) { 80 } else { 0 }));
    // Two seconds of it; and pauses of all, of which some are just long enough to be told.
    check(Box::new(|rank, step| 40 + if rank == 2 && (200..210).contains(&step) { 200 } else { 0 }));
    check(Box::new(|rank, step| 40 + if step % 5 == 4 { 39 + u64::from(rank) } else { 0 }));
    // More and more, without a gap between them.
    check(Box::new(|rank, _| 40 + 6 * u64::from(rank)));
}

#[test]
fn an_agent_that_starts_again_accuses_nobody() {
    for (covered_ns, own_ns) in [(0, 0), (3_600_000_000_000, 3_500_000_000_000)] {
        let mut stage = Stage::new(&FOUR, |_, _| 40);
        stage.is_calm_for(20);
        // That of one rank counts anew, or more than the one before did.
        stage.agent = "another";
        stage.told[1] = OwnTime { operations_per_step: 4, covered_ns, own_ns, ..OwnTime::default() };
        stage.is_calm_for(30);
    }
}

#[test]
fn a_long_checkpoint_between_pauses_costs_no_more_than_there_is() {
    let own = |rank: u32, step: u64| match (rank, step) {
        (0, 300) => 120_000,
        (0, step) if step % 50 == 49 => 400,
        _ => 40,
    };
    let mut stage = Stage::new(&FOUR, own);
    for finding in (0..240).flat_map(|_| stage.second()) {
        let cost = finding.cost.unwrap();
        assert!((0.0..=100.0).contains(&cost.percent) && cost.seconds_per_step >= 0.0, "{finding:#?}");
    }
}

#[test]
fn a_pause_that_goes_on_is_no_habit() {
    // The account of who pauses goes on, while no operation begins.
    let mut stage = Stage::new(&FOUR, |_, _| 40);
    stage.is_calm_for(20);
    for _ in 0..14 {
        for (rank, told) in stage.told.iter_mut().enumerate() {
            told.covered_ns += 1_000_000_000;
            told.own_ns += if rank == 0 { 1_000_000_000 } else { 0 };
        }
        stage.now_ms += 1000;
        assert!(stage.second().is_empty());
    }
    stage.is_calm_for(30);
}

#[test]
fn numbers_that_cannot_be_accuse_nobody_and_end_nothing() {
    let most = u64::MAX;
    let hostile = [
        OwnTime {
            covered_ns: most,
            own_ns: most,
            operations: most,
            operations_per_step: u32::MAX,
            ..OwnTime::default()
        },
        OwnTime {
            covered_ns: most,
            own_ns: 0,
            operations: 1,
            operations_per_step: u32::MAX,
            ..OwnTime::default()
        },
        OwnTime { covered_ns: 1, own_ns: most, operations: most, step_spread_ns: most, ..OwnTime::default() },
        OwnTime {
            covered_ns: most / 2,
            own_ns: most / 2,
            operations: 40,
            long_steps: (0..8)
                .map(|at| LongStep { began_at_ns: most, longer_ns: most, operation: at * (most / 8) })
                .collect(),
            ..OwnTime::default()
        },
    ];
    for told in hostile {
        let mut stage = Stage::new(&FOUR, |_, _| 40);
        stage.is_calm_for(15);
        for s in 0..40 {
            stage.told[3] =
                OwnTime { covered_ns: told.covered_ns.saturating_sub((40 - s) << 30), ..told.clone() };
            stage.second();
        }
    }
}

#[test]
fn collectives_that_take_longer_than_they_did_are_a_slowdown_each_time() {
    let mut stage = Stage::new(&FOUR, |_, _| 40);
    stage.transfer = Box::new(|step| if (600..1200).contains(&step) || step >= 2000 { 60 } else { 30 });
    let (when, finding) = stage.first(80).unwrap();
    assert_eq!((finding.finding, finding.rank, finding.n_victims), (FindingKind::Slowdown, None, 4));
    assert!((42..=42 + 30).contains(&when), "after {when} s");
    cost_is_about(&finding, 30.0);
    let asked = |stage: &Stage| stage.diagnosis.raised().any(|job| &**job == "train");
    assert!(asked(&stage), "each network step is asked for");
    assert!((0..120).any(|_| stage.second().is_empty()), "it ends");
    while asked(&stage) {
        stage.second();
    }
    assert!(stage.first(200).is_some());
    // Out of turn it is asked for seldom, so that a job at the edge is not asked all the time.
    let once_more = (0..150).any(|_| {
        stage.second();
        asked(&stage)
    });
    assert!(once_more);
}

#[test]
fn operations_of_another_size_are_no_slowdown() {
    let mut stage = Stage::new(&FOUR, |_, _| 40);
    stage.transfer = Box::new(|step| if step >= 600 { 60 } else { 30 });
    assert!(!(0..42).any(|_| !stage.second().is_empty()));
    stage.more = Box::new(|_| 100);
    stage.is_calm_for(60);
}

#[test]
fn two_that_are_alike_cost_the_whole_only_together() {
    let mut stage =
        Stage::new(&[("a", 4, 2), ("b", 4, 2)], |rank, _| 40 + if rank == 1 || rank == 6 { 20 } else { 0 });
    let mut found = Vec::new();
    while found.len() < 2 && stage.s < 30 {
        found = stage.second();
    }
    found = (0..60).map(|_| stage.second()).last().unwrap();
    let words =
        "rank 6 too: the job gains 20 ms a step when all of them are mended, nothing when only this one is";
    assert!(found.iter().any(|finding| finding.message.contains(words)), "{found:#?}");
    let costs: Vec<_> = found.iter().filter_map(|finding| finding.cost).collect();
    assert_eq!(costs.len(), 2);
    assert!(costs.iter().all(|cost| cost.alone_seconds_per_step == Some(0.0)), "{costs:?}");
    // Of 28 % of the time of eight ranks each has a half.
    let hours = costs.iter().map(|cost| cost.rank_hours).sum::<f64>();
    let whole = 8.0 * (20.0 / 70.0) * f64::from(u32::try_from(stage.s).unwrap()) / 3600.0;
    assert!((hours / whole - 1.0).abs() < 0.15, "{hours}, not {whole}");
}

#[test]
fn the_slower_of_two_gains_only_what_it_takes_longer_than_the_other() {
    let mut stage = Stage::new(&[("a", 4, 2), ("b", 4, 2)], |rank, _| match rank {
        1 => 70,
        6 => 60,
        _ => 40,
    });
    let mut found = Vec::new();
    while found.len() < 2 && stage.s < 30 {
        found = stage.second();
    }
    let of = |rank| found.iter().find(|finding| finding.rank == Some(rank)).unwrap();
    let alone = of(1).cost.unwrap().alone_seconds_per_step.unwrap();
    assert!((alone - 0.010).abs() < 0.0015, "{alone}");
    assert!(
        of(6).message.contains("nothing is gained while rank 1, slower still, is not mended too"),
        "{found:#?}"
    );
}

impl Stage {
    /// Another daemon goes on, with what the one before it kept: as text, as the store has it.
    fn restart(&mut self) {
        let memories = self.diagnosis.take_pace_memories(at(self.s + 3600));
        let kept = memories.iter().map(|(job, memory)| {
            let text = serde_json::to_string(memory).unwrap();
            (job.to_string(), serde_json::from_str(&text).unwrap())
        });
        let findings = self.diagnosis.firing().cloned().collect();
        let kept: Vec<_> = kept.collect();
        self.diagnosis = Diagnosis::new();
        self.diagnosis.restore(findings);
        self.diagnosis.restore_paces(&self.model, &kept);
    }
}

#[test]
fn a_slowdown_goes_on_through_a_restart_and_ends_after_it() {
    let mut stage = Stage::new(&FOUR, |_, _| 40);
    stage.transfer = Box::new(|step| if (600..2000).contains(&step) { 60 } else { 30 });
    let (_, before) = stage.first(80).unwrap();
    for _ in 0..10 {
        stage.second();
    }
    let lost = stage.second()[0].cost.unwrap().rank_hours;
    stage.restart();
    for _ in 0..60 {
        let found = stage.second();
        let [finding] = &found[..] else { panic!("{found:#?}") };
        assert_eq!((finding.began_at, finding.first_seen), (before.began_at, before.first_seen));
        assert!(finding.cost.unwrap().rank_hours >= lost, "{finding:#?}");
    }
    assert!((0..120).any(|_| stage.second().is_empty()), "it ends");
}

#[test]
fn what_became_slow_while_no_daemon_looked_is_no_habit() {
    let mut stage = Stage::new(&FOUR, |_, _| 40);
    stage.transfer = Box::new(|step| if step >= 600 { 60 } else { 30 });
    stage.is_calm_for(41);
    stage.restart();
    let (_, finding) = stage.first(60).unwrap();
    assert_eq!(finding.finding, FindingKind::Slowdown);
    cost_is_about(&finding, 30.0);
}

#[test]
fn totals_tell_the_pace_of_any_time() {
    let mut stage = Stage::new(&FOUR, |rank, _| if rank == 0 { 45 } else { 40 });
    stage.transfer = Box::new(|step| if step >= 600 { 60 } else { 30 });
    let mut taken = Vec::new();
    for _ in 0..90 {
        stage.second();
        taken.extend(stage.diagnosis.take_pace_totals(at(stage.s)));
    }
    // Each ten seconds, and not each look.
    assert!((8..=10).contains(&taken.len()), "{}", taken.len());
    let mean = |from: usize, to: usize| {
        let (from, to) = (&taken[from].1, &taken[to].1);
        let steps = to.steps - from.steps;
        let known_s = (to.known - from.known).as_secs_f64();
        let share = |one: Duration, other: Duration| (other - one).as_secs_f64() / known_s;
        let ms = |s: f64| (s * 1000.0 / steps).round();
        let own_ms = ms((to.own - from.own).as_secs_f64());
        (ms(known_s), own_ms, share(from.in_operations, to.in_operations), share(from.moving, to.moving))
    };
    // 45 ms of its own and 30 in collectives; the others come 5 ms earlier and wait.
    let (step_ms, own_ms, in_operations, moving) = mean(1, 3);
    assert!((74.0..=76.0).contains(&step_ms) && (44.0..=46.0).contains(&own_ms), "{step_ms} {own_ms}");
    assert!(
        (in_operations - 33.75 / 75.0).abs() < 0.02 && (moving - 0.4).abs() < 0.02,
        "{in_operations} {moving}"
    );
    let (step_ms, own_ms, _, moving) = mean(taken.len() - 3, taken.len() - 1);
    assert!((103.0..=107.0).contains(&step_ms) && (44.0..=46.0).contains(&own_ms), "{step_ms} {own_ms}");
    assert!((moving - 60.0 / 105.0).abs() < 0.02, "{moving}");
}
