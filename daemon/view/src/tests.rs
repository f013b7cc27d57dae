mod standings;
mod timeline;

use proptest::prelude::*;
use ringscope_api::clock::Timestamp;
use ringscope_api::{
    CommunicatorState, Condition, CoverageState, FindingState, HealthLevel, JobState, OperationState,
    RankState, Severity,
};
use ringscope_judge::Diagnosis;
use ringscope_model::Model;
use ringscope_model::limits::MAX_RANKS;
use ringscope_samples::any::any_process;
use ringscope_samples::cluster::{Cluster, at, batch, ended};
use ringscope_wire::Primitive;
use ringscope_wire::batch::{self, Batch, ProcessState};
use serde_json::{Value, json};

use super::*;

/// Everything that the API can show, as JSON.
pub(crate) fn look_at_everything(model: &Model, diagnosis: &Diagnosis, now: Timestamp) -> Value {
    let all = communicators(model, diagnosis, now, &CommunicatorFilter::default());
    let whole: Vec<Value> = all
        .iter()
        .map(|known| {
            json!([
                communicator(model, diagnosis, now, &known.id),
                rings(model, diagnosis, now, &known.id),
                primitives(model, diagnosis, now, &known.id),
                operations(model, diagnosis, now, &known.id, None),
            ])
        })
        .collect();
    let jobs = jobs(model, diagnosis, now);
    let hosts = hosts(model, diagnosis, now, |_, _| true);
    let mut whole_hosts =
        json!(hosts.iter().map(|known| host(model, diagnosis, now, &known.host)).collect::<Vec<_>>());
    for host in whole_hosts.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        // Known anew from what its agent says next.
        host.remove("clock");
    }
    json!({
        "communicators": whole,
        "job": jobs.iter().map(|known| job(model, diagnosis, now, &known.id)).collect::<Vec<_>>(),
        "jobs": jobs,
        "host": whole_hosts,
        "hosts": hosts,
        "findings": findings(model, diagnosis, now, &FindingFilter::default()),
    })
}

fn sick() -> Cluster {
    Cluster::new(&[("host-0", 2, 2), ("host-1", 1, 2), ("host-2", 1, 1)], 2)
}

fn world(cluster: &Cluster) -> (Model, Diagnosis) {
    let (mut model, mut diagnosis) = (Model::new(), Diagnosis::new());
    model.apply(&cluster.batch(1, 2), at(2));
    diagnosis.update(&model, None, at(2));
    (model, diagnosis)
}

#[test]
fn a_degraded_communicator() {
    let (model, diagnosis) = world(&sick());
    let found = communicators(&model, &diagnosis, at(3), &CommunicatorFilter::default());
    let known = &found[0];
    assert_eq!(known.id, sick().id().as_str());
    assert_eq!((known.comm_hash.as_str(), known.name.as_deref()), ("0xabc", Some("dp")));
    assert_eq!((known.state, known.created, known.ended), (CommunicatorState::Active, at(1), None));
    assert_eq!((known.n_ranks, known.n_ranks_seen, known.n_nodes), (4, 4, 3));
    assert_eq!(known.hosts, ["host-0", "host-1", "host-2"]);
    assert_eq!((known.base, known.final_channels), (Some(1), Some(2)));
    assert_eq!((known.culprits.as_slice(), known.degraded), (["host-2".to_owned()].as_slice(), true));
    assert_eq!((known.findings.critical, known.findings.warning, known.findings.info), (1, 0, 2));

    let whole = communicator(&model, &diagnosis, at(3), &known.id).unwrap();
    let ranks: Vec<_> =
        whole.ranks.iter().map(|rank| (rank.rank, rank.host.as_str(), rank.cause.as_str())).collect();
    assert_eq!(
        ranks,
        [
            (0, "host-0", "capped_by_peer"),
            (1, "host-0", "capped_by_peer"),
            (2, "host-1", "capped_by_peer"),
            (3, "host-2", "doubled"),
        ]
    );
    assert_eq!(whole.ranks[1].gpu.as_deref(), Some("0000:01:00.0"));
}

#[test]
fn filters() {
    let (mut model, mut diagnosis) = world(&sick());
    let healthy = Cluster { job: "other", ..Cluster::new(&[("host-7", 1, 2)], 4).again(5, 1, 9) };
    model.apply(&healthy.batch(2, 10), at(10));
    diagnosis.update(&model, None, at(10));
    let count = |filter: CommunicatorFilter| communicators(&model, &diagnosis, at(10), &filter).len();
    let all = CommunicatorFilter::default;
    assert_eq!(count(all()), 2);
    assert_eq!(communicators(&model, &diagnosis, at(10), &all())[0].job, "other", "the newest first");
    assert_eq!(count(CommunicatorFilter { job: Some("train".to_owned()), ..all() }), 1);
    assert_eq!(count(CommunicatorFilter { host: Some("host-7".to_owned()), ..all() }), 1);
    assert_eq!(count(CommunicatorFilter { host: Some("host".to_owned()), ..all() }), 0);
    assert_eq!(count(CommunicatorFilter { degraded: Some(true), ..all() }), 1);
    assert_eq!(count(CommunicatorFilter { state: Some(CommunicatorState::Ended), ..all() }), 0);

    let count = |filter: FindingFilter| findings(&model, &diagnosis, at(10), &filter).len();
    let all = FindingFilter::default;
    assert_eq!(count(all()), 3);
    assert_eq!(
        findings(&model, &diagnosis, at(10), &all())[0].severity,
        Severity::Critical,
        "the worst first"
    );
    assert_eq!(count(FindingFilter { severity: Some(Severity::Warning), ..all() }), 1);
    assert_eq!(count(FindingFilter { host: Some("host-0".to_owned()), ..all() }), 1);
    assert_eq!(count(FindingFilter { job: Some("other".to_owned()), ..all() }), 0);
    assert_eq!(count(FindingFilter { comm: Some(sick().id().to_string()), ..all() }), 3);
    assert_eq!(count(FindingFilter { state: Some(FindingState::Resolved), ..all() }), 0);
}

#[test]
fn what_is_not_there() {
    let (model, diagnosis) = world(&sick());
    for id in ["", "0123456789ab", "nonsense"] {
        assert!(communicator(&model, &diagnosis, at(3), id).is_none());
        assert!(rings(&model, &diagnosis, at(3), id).is_none());
        assert!(primitives(&model, &diagnosis, at(3), id).is_none());
        assert!(operations(&model, &diagnosis, at(3), id, None).is_none());
        assert!(job(&model, &diagnosis, at(3), id).is_none());
        assert!(host(&model, &diagnosis, at(3), id).is_none());
    }
}

#[test]
fn hosts_and_jobs() {
    let (model, diagnosis) = world(&sick());
    let hosts = hosts(&model, &diagnosis, at(3), |_, _| true);
    let degraded: Vec<_> = hosts.iter().map(|known| (known.host.as_str(), known.degraded)).collect();
    assert_eq!(degraded, [("host-0", false), ("host-1", false), ("host-2", true)]);
    assert_eq!(
        hosts[2].reasons,
        ["host-2 found 1 channel, the others 2: every rank runs on 2 channels instead of 4"]
    );
    assert_eq!(
        (hosts[0].init_channels, hosts[0].final_channels, hosts[0].n_processes),
        (Some(2), Some(2), 2)
    );
    let whole = host(&model, &diagnosis, at(3), "host-0").unwrap();
    assert_eq!(whole.ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(whole.firing.len(), 1);

    let job = job(&model, &diagnosis, at(3), "train").unwrap();
    assert_eq!((job.state, job.first_seen, job.last_seen), (JobState::Running, at(0), at(2)));
    assert_eq!((job.world_size, job.n_processes, job.n_killed), (Some(4), 4, 0));
    assert_eq!((job.active_communicators, job.n_communicators, job.findings.critical), (1, 1, 1));
    assert_eq!(jobs(&model, &diagnosis, at(17))[0].state, JobState::Stale);
}

#[test]
fn a_host_says_each_reason_once() {
    let (mut model, mut diagnosis) = world(&sick());
    model.apply(&sick().again(0xdef, 8, 1).batch(2, 2), at(2));
    diagnosis.update(&model, None, at(2));
    let host = host(&model, &diagnosis, at(3), "host-2").unwrap();
    assert_eq!((host.summary.findings.critical, host.summary.reasons.len()), (2, 1));
}

#[test]
fn a_host_shows_its_newest_communicator_over_several_hosts() {
    let wide = Cluster::new(&[("host-0", 2, 2), ("host-1", 2, 2)], 4);
    let (mut model, diagnosis) = world(&wide);
    let narrow = Cluster::new(&[("host-0", 2, 12)], 24).again(2, 8, 10);
    model.apply(&narrow.batch(2, 11), at(11));
    let found = hosts(&model, &diagnosis, at(11), |_, _| true);
    assert_eq!((found[0].init_channels, found[0].final_channels), (Some(2), Some(4)));
    let (model, diagnosis) = world(&narrow);
    assert_eq!(hosts(&model, &diagnosis, at(11), |_, _| true)[0].final_channels, Some(24));
}

#[test]
fn rings_with_their_hops() {
    let cluster = sick();
    let (mut model, diagnosis) = world(&cluster);
    let sent = batch::Process {
        links: vec![cluster.link(Primitive::AllReduce, 2, 30), cluster.link(Primitive::AllGather, 2, 12)],
        ..cluster.word(1)
    };
    model.apply(&batch(2, 3, vec![sent]), at(3));
    let found = rings(&model, &diagnosis, at(3), cluster.id().as_str()).unwrap();
    assert_eq!(found.rings.len(), 2);
    let ring = &found.rings[1];
    assert!(ring.complete && ring.problem.is_none() && ring.channel == 1);
    let hops: Vec<_> = ring
        .order
        .iter()
        .map(|hop| (hop.rank, hop.next, hop.transport.as_deref(), hop.nic.as_deref(), hop.sent_bytes))
        .collect();
    assert_eq!(
        hops,
        [
            (0, 1, Some("P2P/IPC"), None, Some(0)),
            (1, 2, Some("NET/IB"), Some("mlx5_0"), Some(42)),
            (2, 3, Some("NET/IB"), Some("mlx5_0"), Some(0)),
            (3, 0, Some("NET/IB"), Some("mlx5_0"), Some(0)),
        ]
    );
    let mut partial = Model::new();
    partial.apply(&batch(1, 2, vec![cluster.process(0), cluster.process(1), cluster.process(3)]), at(2));
    let found = rings(&partial, &diagnosis, at(3), cluster.id().as_str()).unwrap();
    assert_eq!((found.rings[0].complete, found.rings[0].missing_ranks.as_slice()), (false, [2].as_slice()));
    assert_eq!(found.rings[0].order.iter().map(|hop| hop.rank).collect::<Vec<_>>(), [3, 0, 1]);
}

#[test]
fn counters_and_bandwidth() {
    let cluster = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 2), ("host-2", 1, 2), ("host-3", 1, 2)], 4);
    let (mut model, diagnosis) = world(&cluster);
    let count = |calls: u64| {
        let cluster = &cluster;
        (0..4).map(move |rank| batch::Process {
            counters: vec![
                cluster.counters(Primitive::AllReduce, calls + 1, calls, 1_000),
                cluster.counters(Primitive::AllGather, calls, calls, 1_000),
            ],
            ..cluster.word(rank)
        })
    };
    for s in 0..21 {
        model.apply(&batch(2 + s, 3 + s, count(10 * s).collect()), at(3 + s));
    }
    let id = cluster.id();
    let found = primitives(&model, &diagnosis, at(23), id.as_str()).unwrap();
    let all_reduce = &found.primitives[0];
    assert_eq!(all_reduce.primitive, "all_reduce");
    assert_eq!((all_reduce.issued_calls, all_reduce.completed_calls), (804, 800));
    assert_eq!(all_reduce.backlog_bytes, 4_000);
    assert_eq!((all_reduce.completed_bytes_per_s, all_reduce.bus_bytes_per_s), (40_000.0, 15_000.0));
    assert_eq!(
        (found.primitives[1].primitive.as_str(), found.primitives[1].bus_bytes_per_s),
        ("all_gather", 30_000.0)
    );
    assert_eq!(found.ranks.len(), 4);
    assert_eq!(found.ranks[3].primitives[0].completed_bytes_per_s, 10_000.0);
    assert_eq!(found.ranks[3].primitives[0].bus_bytes_per_s, 15_000.0);

    let rates = |model: &Model, s| {
        (
            communicators(model, &diagnosis, at(s), &CommunicatorFilter::default())[0].completed_bytes_per_s,
            jobs(model, &diagnosis, at(s))[0].completed_bytes_per_s,
            hosts(model, &diagnosis, at(s), |_, _| true)[0].completed_bytes_per_s,
        )
    };
    assert_eq!(rates(&model, 23), (80_000.0, 80_000.0, 20_000.0));
    assert_eq!(rates(&model, 40), (0.0, 0.0, 0.0), "nothing was heard for long");
    let killed = (0..4).map(|rank| ended(cluster.word(rank), ProcessState::Killed, 23)).collect();
    model.apply(&batch(50, 23, killed), at(23));
    assert_eq!(rates(&model, 23), (0.0, 0.0, 0.0), "everything has ended");
}

#[test]
fn how_a_launch_says_that_its_processes_ended_counts() {
    let cluster = Cluster::new(&[("host-0", 2, 2)], 2);
    let failure = batch::LaunchEnd { cause: batch::launch_end::Cause::Failure.into(), signal: 0 };
    let with = |place: usize, signal, launch_end| {
        let mut process = ended(cluster.processes().remove(place), ProcessState::Killed, 10);
        process.communicators.clear();
        batch::Process { exit_signal: Some(signal), launch_end, ..process }
    };
    let mut model = Model::new();
    model.apply(&batch(1, 10, vec![with(0, 11, None), with(1, 15, Some(failure))]), at(10));
    let job = jobs(&model, &Diagnosis::new(), at(11)).remove(0);
    assert_eq!((job.standing.condition, job.n_killed), (Condition::Failed, 1), "{job:#?}");
    assert!(job.standing.reason.contains("it was ended by SIGSEGV"), "{}", job.standing.reason);
}

#[test]
fn bus_factors() {
    let check =
        |primitive, n_ranks, expected| assert_eq!(bus_factor(primitive, n_ranks), expected, "{primitive}");
    check(Primitive::AllReduce, 4, 1.5);
    check(Primitive::AllGather, 4, 3.0);
    check(Primitive::ReduceScatter, 4, 3.0);
    check(Primitive::AllToAll, 4, 3.0);
    check(Primitive::Broadcast, 4, 1.0);
    check(Primitive::Send, 4, 1.0);
    for primitive in Primitive::ALL {
        assert!(bus_factor(primitive, 0).is_finite());
    }
    check(Primitive::AllReduce, 1, 0.0);
}

#[test]
fn a_killed_rank_shows_what_it_died_in() {
    let cluster = sick();
    let (mut model, diagnosis) = world(&cluster);
    let working = |rank| batch::Process {
        in_flight: vec![cluster.operation(6, 12, None), cluster.operation(5, 11, None)],
        last_completed: vec![cluster.operation(4, 10, Some(11))],
        ..cluster.word(rank)
    };
    model.apply(&batch(2, 12, vec![working(0), working(1)]), at(12));
    model.apply(&batch(3, 15, vec![ended(working(1), ProcessState::Killed, 14)]), at(15));
    let idle = batch::Process { last_completed: vec![cluster.operation(4, 10, Some(11))], ..cluster.word(2) };
    model.apply(&batch(4, 15, vec![idle]), at(15));

    let whole = communicator(&model, &diagnosis, at(20), cluster.id().as_str()).unwrap();
    let found: Vec<_> = whole
        .ranks
        .iter()
        .map(|rank| {
            let operation = rank.operation.as_ref();
            (
                rank.state,
                operation.map(|operation| (operation.seq_number, operation.state, operation.duration_s)),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            (RankState::Running, Some((5, OperationState::InFlight, 9.0))),
            (RankState::Killed, Some((5, OperationState::InFlight, 3.0))),
            (RankState::Running, Some((4, OperationState::Completed, 1.0))),
            (RankState::Running, None),
        ]
    );
    assert_eq!(whole.summary.state, CommunicatorState::Broken);
    let in_flight =
        operations(&model, &diagnosis, at(20), cluster.id().as_str(), Some(OperationState::InFlight))
            .unwrap();
    let order: Vec<_> = in_flight.iter().map(|operation| (operation.seq_number, operation.rank)).collect();
    assert_eq!(order, [(5, 0), (5, 1), (6, 0), (6, 1)]);
    assert_eq!(in_flight[0].datatype, "float32");
    assert_eq!(operations(&model, &diagnosis, at(20), cluster.id().as_str(), None).unwrap().len(), 7);
}

#[test]
fn what_the_store_kept_looks_the_same() {
    let cluster = sick();
    let (mut model, _) = world(&cluster);
    let busy = |rank| batch::Process {
        counters: vec![cluster.counters(Primitive::AllReduce, 5, 4, 100)],
        links: vec![cluster.link(Primitive::AllReduce, 1, 400)],
        in_flight: vec![cluster.operation(4, 9, None)],
        last_completed: vec![cluster.operation(3, 8, Some(9))],
        ..cluster.word(rank)
    };
    let words = vec![busy(0), ended(busy(1), ProcessState::Killed, 9), busy(2)];
    model.apply(&batch(2, 10, words), at(10));
    let keys: Vec<String> = (0..4).map(|rank| cluster.key(rank)).collect();
    let kept = keys.iter().flat_map(|key| [model.process_counters(key), model.process_facts(key)]);
    let mut again = Model::new();
    again.restore(kept.flatten().collect(), at(10));
    let look = |model: &Model| {
        let mut diagnosis = Diagnosis::new();
        diagnosis.update(model, None, at(10));
        look_at_everything(model, &diagnosis, at(30))
    };
    assert_eq!(look(&again), look(&model));
}

#[test]
fn bytes_that_nobody_counts_are_absent() {
    let cluster = Cluster::new(&[("host-0", 2, 2), ("host-1", 1, 2)], 4);
    let level_of = |steps: bool| if steps { batch::Level::Steps } else { batch::Level::Counters }.into();
    let look = |steps: [bool; 3]| {
        let counting = |rank: u32| batch::Process {
            level: level_of(steps[rank as usize]),
            counters: vec![cluster.counters(Primitive::AllReduce, 1, 1, 300)],
            ..cluster.process(rank)
        };
        let mut model = Model::new();
        model.apply(&batch(1, 2, (0..3).map(counting).collect()), at(2));
        let found = primitives(&model, &Diagnosis::new(), at(3), cluster.id().as_str()).unwrap();
        let of_ranks: Vec<_> = found.ranks.iter().map(|rank| rank.primitives[0].intra_bytes).collect();
        let rings = rings(&model, &Diagnosis::new(), at(3), cluster.id().as_str()).unwrap();
        let hops: Vec<_> = rings.rings[0].order.iter().map(|hop| hop.sent_bytes).collect();
        let sum = &found.primitives[0];
        (sum.intra_bytes, sum.inter_bytes, sum.reason.clone(), of_ranks, hops)
    };
    let all = look([true; 3]);
    assert_eq!(all, (Some(400), Some(0), None, vec![Some(400), Some(0), Some(0)], vec![Some(0); 3]));
    // Rank 0 reaches its next one without the network.
    let some = look([false, true, false]);
    let why = "counted at level `steps` alone, which `ringscope level` sets".to_owned();
    assert_eq!(some, (None, None, Some(why), vec![Some(400), Some(0), None], vec![Some(0), Some(0), None]));
}

#[test]
fn what_a_library_tells_at_no_level_is_not_blamed_on_the_level() {
    let cluster = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 2)], 4);
    let reasons = |version: u32, level: batch::Level| {
        let mut model = Model::new();
        let processes = (0..2).map(|rank| {
            let mut process = cluster.process(rank);
            process.level = level.into();
            process.identity.as_mut().unwrap().library_version = version;
            let counters = [Primitive::AllReduce, Primitive::Broadcast];
            process.counters = counters.map(|primitive| cluster.counters(primitive, 1, 1, 300)).to_vec();
            process
        });
        model.apply(&batch(1, 2, processes.collect()), at(2));
        let found = primitives(&model, &Diagnosis::new(), at(3), cluster.id().as_str()).unwrap();
        let ranks = found.ranks.into_iter().map(|rank| rank.primitives);
        for of_rank in ranks {
            assert!(of_rank.iter().map(|one| &one.reason).eq(found.primitives.iter().map(|one| &one.reason)));
        }
        let known = found.primitives.iter().map(|one| one.inter_bytes.is_some());
        assert!(known.eq(found.primitives.iter().map(|one| one.reason.is_none())));
        found.primitives.into_iter().map(|one| one.reason).collect::<Vec<_>>()
    };
    let untold = || Some("NCCL 2.30.7 does not tell what a broadcast sends between hosts".to_owned());
    let uncounted = || Some("counted at level `steps` alone, which `ringscope level` sets".to_owned());
    assert_eq!(reasons(23_007, batch::Level::Steps), [None, untold()]);
    assert_eq!(reasons(23_007, batch::Level::Counters), [uncounted(), untold()]);
    assert_eq!(reasons(22_809, batch::Level::Counters), [uncounted(), uncounted()]);
}

#[test]
fn how_much_of_a_job_is_seen() {
    let cluster = Cluster::new(&[("host-0", 2, 2), ("host-1", 1, 2)], 4);
    let other = cluster.again(5, 8, 3);
    let mut model = Model::new();
    model.apply(&cluster.batch(1, 2), at(2));
    let coverage = |model: &Model| jobs(model, &Diagnosis::new(), at(4)).remove(0).coverage;
    let full = coverage(&model);
    assert_eq!((full.state, full.ranks, full.calls, full.plugin), (CoverageState::Full, 3, 3, 3));
    assert!(full.lacks.is_empty());

    let mut partly = other.processes();
    for process in &mut partly[..2] {
        let sources = batch::Sources { calls: false, plugin: true, log: true };
        process.communicators[0].sources = Some(sources);
    }
    model.apply(&batch(2, 3, partly), at(3));
    let found = coverage(&model);
    assert_eq!((found.state, found.ranks, found.calls), (CoverageState::Partly, 6, 4));
    assert_eq!((found.plugin, found.log), (6, 6));
    assert_eq!(found.lacks.len(), 1, "{found:?}");
    assert!(found.lacks[0].starts_with("calls bypass the collector"), "{found:?}");
    assert!(found.lacks[0].ends_with("(1 communicator)"), "{found:?}");

    // What has ended is nobody's concern any more.
    let gone = other.with(|_, rank| rank.state = batch::CommunicatorState::Destroyed);
    model.apply(&gone.batch(3, 4), at(4));
    assert_eq!(coverage(&model).state, CoverageState::Full);
}

#[test]
fn what_was_imported_neither_runs_nor_goes_stale() {
    let cluster = sick();
    let imported = |rank| {
        let mut process = cluster.process(rank);
        process.state = ProcessState::Imported.into();
        process.has_segment = false;
        process.in_flight = vec![cluster.operation(5, 1, None)];
        process
    };
    let (mut model, mut diagnosis) = (Model::new(), Diagnosis::new());
    model.apply(&batch(1, 2, (0..4).map(imported).collect()), at(2));
    diagnosis.update(&model, None, at(2));
    let day = 24 * 3_600;
    let changes = model.tick(at(2 + 3 * day));
    assert!(changes.communicators.is_empty(), "nothing of it changes with time");
    let job = job(&model, &diagnosis, at(3 * day), "train").unwrap();
    assert_eq!((job.state, job.n_processes), (JobState::Imported, 4));
    assert_eq!((job.active_communicators, job.n_communicators, job.findings.critical), (0, 1, 1));
    let whole = communicator(&model, &diagnosis, at(3 * day), cluster.id().as_str()).unwrap();
    assert_eq!((whole.summary.state, whole.summary.ended), (CommunicatorState::Active, None));
    assert!(whole.ranks.iter().all(|rank| rank.state == RankState::Imported));
    let operation = whole.ranks[0].operation.as_ref().unwrap();
    assert_eq!((operation.state, operation.duration_s), (OperationState::InFlight, 0.0));
    let found = host(&model, &diagnosis, at(3 * day), "host-2").unwrap();
    assert_eq!(
        (found.summary.n_processes, found.summary.jobs.as_slice()),
        (0, ["train".to_owned()].as_slice())
    );
    assert!(found.summary.degraded);
    // What still runs of the same job counts for more, and a restart changes nothing.
    let kept: Vec<_> = (0..4).filter_map(|rank| model.process_facts(&cluster.key(rank))).collect();
    let mut again = Model::new();
    again.restore(kept, at(9));
    assert_eq!(jobs(&again, &diagnosis, at(60))[0].state, JobState::Imported);
    model.tick(at(8 * day));
    assert!(model.job("train").is_none(), "not kept for ever");
}

#[test]
fn what_was_imported_is_no_job_of_a_host_that_lives() {
    let (past, live) = (
        Cluster::new(&[("host-0", 2, 2)], 2),
        Cluster { job: "live", ..Cluster::new(&[("host-0", 2, 2)], 2) },
    );
    let mut process = past.process(0);
    process.state = ProcessState::Imported.into();
    process.key = "host-0/7/1".to_owned();
    let (mut model, diagnosis) = (Model::new(), Diagnosis::new());
    model.apply(&batch(1, 2, vec![process]), at(2));
    model.apply(&live.batch(2, 3), at(3));
    assert_eq!(hosts(&model, &diagnosis, at(4), |_, _| true)[0].jobs, ["live"]);
}

#[test]
fn nothing_is_green_without_evidence() {
    let cluster = Cluster::new(&[("host-0", 1, 1), ("pod-7", 1, 1)], 1);
    let (mut model, diagnosis) = (Model::new(), Diagnosis::new());
    let ended = |rank| {
        let mut process = cluster.process(rank);
        process.state = ProcessState::Exited.into();
        process.communicators.clear();
        process
    };
    model.apply(&batch(1, 2, (0..2).map(ended).collect()), at(2));
    let standing = |s: u64| {
        let hosts = hosts(&model, &diagnosis, at(s), |_, _| true);
        hosts.into_iter().map(|host| (host.standing.condition, host.standing.reason)).collect::<Vec<_>>()
    };
    // The agent of host-0 speaks, and says nothing of the host of a container that is gone.
    let found = standing(3);
    assert_eq!((found[0].0, found[1].0), (Condition::Healthy, Condition::Unknown), "{found:?}");
    assert!(found[1].1.contains("no agent reports from it"), "{found:?}");
    assert_eq!(standing(60)[0].0, Condition::Unknown, "nobody speaks any more");
    let health = health(&model, &diagnosis, at(3), None, None);
    assert_eq!((health.level, health.hosts.unknown), (HealthLevel::Idle, 0), "{health:?}");
    // A job of which no communicator is known is not seen in full.
    let coverage = jobs(&model, &diagnosis, at(3)).remove(0).coverage;
    assert_eq!(coverage.state, CoverageState::Partly);
    assert!(coverage.lacks[0].contains("no communicator"), "{coverage:?}");
}

#[test]
fn an_operation_whose_end_nobody_tells_is_not_in_flight() {
    let cluster = Cluster::new(&[("host-0", 2, 2)], 4);
    let issuing = |rank, completion: batch::Completion| {
        let mut process = cluster.process(rank);
        process.communicators[0].completion = completion.into();
        process.in_flight = vec![cluster.operation(5, 11, None), cluster.operation(6, 12, None)];
        process
    };
    let mut model = Model::new();
    let words = vec![issuing(0, batch::Completion::None), issuing(1, batch::Completion::Events)];
    model.apply(&batch(1, 12, words), at(12));
    let whole = communicator(&model, &Diagnosis::new(), at(20), cluster.id().as_str()).unwrap();
    let found: Vec<_> = (whole.ranks.iter())
        .filter_map(|rank| rank.operation.as_ref())
        .map(|operation| (operation.state, operation.seq_number, operation.duration_s))
        .collect();
    assert_eq!(found, [(OperationState::Issued, 6, 0.0), (OperationState::InFlight, 5, 9.0)]);
    let of = |state| {
        let found = operations(&model, &Diagnosis::new(), at(20), cluster.id().as_str(), Some(state));
        found.unwrap().len()
    };
    assert_eq!((of(OperationState::Issued), of(OperationState::InFlight)), (2, 2));
}

#[test]
fn who_had_nothing_open_that_others_share_was_not_killed() {
    use batch::CommunicatorState::{Aborted, Active, Destroyed};
    let check = |cluster: &Cluster, end: batch::CommunicatorState, is_in_call: bool, expected| {
        let (mut model, diagnosis) = world(cluster);
        let mut gone = ended(cluster.processes().remove(0), ProcessState::Killed, 10);
        gone.communicators.iter_mut().for_each(|comm| comm.state = end.into());
        let call = batch::OpenCall { function: "ncclAllReduce".to_owned(), ..Default::default() };
        gone.open_calls.extend(is_in_call.then_some(call));
        model.apply(&batch(2, 10, vec![gone]), at(10));
        let job = jobs(&model, &diagnosis, at(11)).remove(0);
        let process =
            model.job("train").unwrap().1.processes(&model).find(|one| one.ended().is_some()).unwrap();
        let found = (model.rank_state(process, at(11)), job.n_killed, job.standing.condition);
        assert_eq!(found, expected, "{:?}", job.standing);
    };
    let (two, alone) = (Cluster::new(&[("host-0", 2, 2)], 2), Cluster::new(&[("host-0", 1, 1)], 2));
    check(&two, Active, false, (RankState::Killed, 1, Condition::Failed));
    check(&two, Destroyed, false, (RankState::Gone, 0, Condition::Healthy));
    check(&two, Aborted, false, (RankState::Gone, 0, Condition::Healthy));
    check(&two, Destroyed, true, (RankState::Killed, 1, Condition::Failed));
    check(&alone, Active, false, (RankState::Gone, 0, Condition::Unknown));
    check(&alone, Active, true, (RankState::Killed, 1, Condition::Failed));
}

#[test]
fn who_was_killed_before_a_restart_counts_no_more() {
    let first = Cluster::new(&[("host-0", 2, 2), ("host-1", 2, 2)], 2);
    let (mut model, diagnosis) = world(&first);
    let check = |model: &Model, expected: (u32, u32, bool)| {
        let job = jobs(model, &diagnosis, at(40)).remove(0);
        let has_failed = job.standing.condition == Condition::Failed;
        assert_eq!((job.n_processes, job.n_killed, has_failed), expected, "{:?}", job.standing);
    };
    let killed = first.processes().into_iter().map(|one| ended(one, ProcessState::Killed, 10));
    model.apply(&batch(2, 10, killed.collect()), at(10));
    check(&model, (4, 4, true));
    let mut again = first.again(0xdef, 8, 20).processes();
    for (process, pid) in again.iter_mut().zip(2_000..) {
        process.key = format!("{}/2", process.key);
        let identity = process.identity.as_mut().unwrap();
        (identity.pid, identity.start_time_ns) = (pid, at(20).0);
    }
    model.apply(&batch(3, 21, again.clone()), at(21));
    check(&model, (4, 0, false));
    // Who dies in this life counts, also when a process joins later.
    model.apply(&batch(4, 30, vec![ended(again[0].clone(), ProcessState::Killed, 30)]), at(30));
    let mut late = again.remove(1);
    late.key.push('3');
    late.communicators.clear();
    late.identity.as_mut().unwrap().start_time_ns = at(35).0;
    model.apply(&batch(5, 36, vec![late]), at(36));
    check(&model, (5, 1, true));
}

proptest! {
    #[test]
    fn whatever_agents_say_can_be_shown(
        batches in proptest::collection::vec(
            (1..9_u64, any::<u64>(), proptest::collection::vec(any_process(MAX_RANKS), 0..4)), 1..8),
        now in any::<u64>(),
    ) {
        let mut model = Model::new();
        let mut diagnosis = Diagnosis::new();
        let now = Timestamp(now);
        for (seq_number, sent_at_ns, processes) in batches {
            let changes = model.apply(&Batch { sent_at_ns, ..batch(seq_number, 0, processes) }, now);
            diagnosis.update(&model, Some(&changes.communicators), now);
        }
        look_at_everything(&model, &diagnosis, now);
        model.tick(now);
        model.tick(Timestamp(now.0.saturating_add(u64::MAX / 2)));
        look_at_everything(&model, &diagnosis, now);
    }
}
