//! What agents hear from the hub when somebody waits.

use std::time::Duration;

use ringscope_access::{Sender, Tenant};
use ringscope_api::clock::Timestamp;
use ringscope_api::{FindingKind, FindingState, Severity};
use ringscope_judge::{Want, Wanted};
use ringscope_samples::cluster::{Cluster, at, batch};
use ringscope_store::{Restored, StoredCommunicator};
use ringscope_wire::batch::{
    Activity, Batch, CallSequence, CollectorState, Inquiry, Look, Process, ProcessState,
};

use super::{Hub, Take};

/// Rank 1 is stopped while rank 0 is in a call since the tenth second.
fn told(cluster: &Cluster, rank: u32, s: u64, look: Option<Look>) -> Process {
    let state = if rank == 1 { "T" } else { "S" };
    let mut process = Process {
        collector_state: CollectorState::On.into(),
        segment_version: 5,
        activity: Some(Activity { state: state.to_owned(), cpu_ns: s, read_at_ns: at(s).0 }),
        look: look.filter(|_| rank == 1),
        ..cluster.process(rank)
    };
    let calls = 5 + u64::from(rank == 0);
    process.sequences = vec![CallSequence {
        local_id: cluster.local_id,
        calls,
        hash: calls,
        marks: Vec::new(),
        sampled_log2: 0,
    }];
    if rank == 0 {
        let mut open = cluster.operation(5, 10, None);
        open.call_number = Some(5);
        open.start_known = true;
        process.in_flight = vec![open];
    }
    process
}

fn batch_of(cluster: &Cluster, seq_number: u64, s: u64, look: Option<&Look>) -> Batch {
    batch(seq_number, s, (0..2).map(|rank| told(cluster, rank, s, look.cloned())).collect())
}

/// Seconds pass; returns what the agent was asked.
fn pass(hub: &Hub, cluster: &Cluster, seconds: std::ops::Range<u64>, look: Option<&Look>) -> Vec<Inquiry> {
    let mut asked = Vec::new();
    for s in seconds {
        let taken = hub.ingest(&batch_of(cluster, s, s, look), at(s));
        asked.extend(taken.reply.inquiries);
        hub.tick(Timestamp(at(s).0 + 100_000_000));
    }
    asked.dedup();
    asked
}

#[test]
fn the_agent_of_a_culprit_is_asked_and_its_answer_is_evidence() {
    let cluster = Cluster::new(&[("host-0", 2, 2)], 2);
    let hub = Hub::new(Duration::from_secs(1));
    let asked = pass(&hub, &cluster, 10..16, None);
    let looks: Vec<&Inquiry> = asked.iter().filter(|asked| asked.look).collect();
    assert_eq!(looks.len(), 1, "{asked:?}");
    assert_eq!(looks[0].process, cluster.key(1));
    let id = looks[0].id.clone();
    let seen = |asked: &[Inquiry]| asked.iter().filter(|asked| asked.look && asked.id != id).count();
    let answer = Look { at_ns: at(16).0, inquiry: id.clone(), ..Look::default() };
    let asked = pass(&hub, &cluster, 16..60, Some(&answer));
    assert_eq!(seen(&asked), 0, "asked once");
    hub.read(|_, diagnosis| {
        let found: Vec<_> = diagnosis.firing().filter(|found| found.severity == Severity::Critical).collect();
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!((found[0].finding, found[0].rank), (FindingKind::RankMissing, Some(1)));
    });
}

#[test]
fn rows_of_a_job_and_its_hosts_are_written_when_it_changes_and_each_minute() {
    let cluster = Cluster::new(&[("host-0", 2, 2)], 2);
    let hub = Hub::new(Duration::from_secs(1));
    let rows = |s: u64| {
        hub.tick(at(s));
        let mut unsaved = hub.take_unsaved(Take::Due, at(s)).batched();
        let (mut jobs, mut hosts) = (0, 0);
        while let Some(set) = hub.next_rows(&mut unsaved, at(s)) {
            (jobs, hosts) = (jobs + set.jobs.len(), hosts + set.hosts.len());
        }
        (jobs, hosts)
    };
    hub.ingest(&cluster.batch(1, 1), at(1));
    assert_eq!(rows(2), (1, 1), "it began");
    assert_eq!(rows(3), (0, 0), "nothing changed");
    let mut ended = cluster.batch(2, 4);
    ended.processes[0].ended_at_ns = Some(at(4).0);
    ended.processes[0].set_state(ProcessState::Exited);
    hub.ingest(&ended, at(4));
    assert_eq!(rows(5), (1, 1), "a process ended");
    assert_eq!(rows(64), (1, 1), "retention shall see that it lives");
}

#[test]
fn a_hub_that_starts_again_keeps_the_finding_until_its_agents_have_spoken() {
    let cluster = Cluster::new(&[("host-0", 2, 2)], 2);
    let hub = Hub::new(Duration::from_secs(1));
    pass(&hub, &cluster, 10..16, None);
    let (processes, findings) = hub.read(|model, diagnosis| {
        let keys = [cluster.key(0), cluster.key(1)];
        let kept = keys.iter().flat_map(|key| [model.process_facts(key), model.process_counters(key)]);
        (kept.flatten().collect(), diagnosis.findings().cloned().collect())
    });
    let again = Hub::new(Duration::from_secs(1));
    let agents = vec![ringscope_store::AgentRow {
        agent_id: "agent".to_owned(),
        host: "host-0".to_owned(),
        last_seq: 15,
        last_seen_ns: at(15).0.cast_signed(),
    }];
    again.restore(Restored { agents, processes, findings, ..Restored::default() }, at(18));
    let fires = |hub: &Hub| {
        hub.read(|_, diagnosis| {
            let mut missing =
                diagnosis.findings().filter(|found| found.finding == FindingKind::RankMissing).cloned();
            let found = missing.next().unwrap();
            (found.state == FindingState::Firing, found.first_seen)
        })
    };
    let before = fires(&hub);
    again.tick(at(19));
    assert_eq!(fires(&again), before, "nobody has spoken yet");
    let taken = again.ingest(&batch(16, 20, Vec::new()), at(20));
    assert!(taken.reply.resend_all, "what waits are judged by is told once more");
    again.tick(at(20));
    assert_eq!(fires(&again), before);
    pass(&again, &cluster, 21..25, None);
    assert_eq!(fires(&again), before, "with its true beginning");
}

#[test]
fn what_an_older_release_stored_keeps_its_id_and_nothing_else_gets_it() {
    let stored = |id: &str, job: &str| StoredCommunicator {
        id: id.to_owned(),
        job: job.to_owned(),
        comm_hash: 0xabc,
        n_ranks: 4,
    };
    let cluster = Cluster::new(&[("host-0", 4, 2)], 2);
    let id_after = |communicators: Vec<StoredCommunicator>| {
        let hub = Hub::new(Duration::from_secs(1));
        hub.restore(Restored { communicators, ..Restored::default() }, at(5));
        hub.ingest(&cluster.batch(1, 10), at(10));
        hub.read(|model, _| model.communicators().map(|known| known.id().to_string()).collect::<Vec<_>>())
    };
    let new = cluster.id().to_string();
    // What the release 0.1 made of ("train", 0xabc, 4).
    let older = "4331bb70d92d";
    assert_eq!(id_after(vec![stored(older, "train")]), [older]);
    assert_eq!(id_after(Vec::new()), [&*new]);
    for other in [stored(older, "forged"), stored(&new, "train"), stored("c1", "train")] {
        assert_eq!(id_after(vec![other]), [&*new]);
    }
}

fn tenant(name: &str) -> Tenant {
    name.parse().unwrap()
}

/// The same seconds pass for a job of that name in each tenant; what each was asked. Only `acme` answers.
fn pass_of_tenants(
    hub: &Hub,
    cluster: &Cluster,
    seconds: std::ops::Range<u64>,
    look: Option<&Look>,
) -> [Vec<Inquiry>; 2] {
    let mut asked = [Vec::new(), Vec::new()];
    for s in seconds {
        for (name, asked) in ["acme", "globex"].into_iter().zip(&mut asked) {
            let mut batch = batch_of(cluster, s, s, look.filter(|_| name == "acme"));
            tenant(name).own(&mut batch);
            let taken = hub.ingest_of(&tenant(name), &Sender::default(), &mut batch.clone(), at(s));
            assert!(!taken.duplicate, "{name} at {s}");
            asked.extend(taken.reply.inquiries.into_iter().filter(|asked| asked.look));
            let again = hub.ingest_of(&tenant(name), &Sender::default(), &mut batch.clone(), at(s));
            assert!(again.duplicate && again.reply.seq_number == s, "{name} at {s}: {again:?}");
        }
        hub.tick(Timestamp(at(s).0 + 100_000_000));
    }
    asked.map(|mut asked| {
        asked.dedup();
        asked
    })
}

/// Whether the second rank's process was seen, in each tenant's job, as a hub has it.
fn seen(hub: &Hub, cluster: &Cluster) -> [bool; 2] {
    let key = |name| format!("{name}::{}", cluster.key(1));
    hub.read(|model, _| {
        ["acme", "globex"].map(|name| model.process(&key(name)).is_some_and(|one| one.look().is_some()))
    })
}

#[test]
fn two_tenants_on_one_host_are_asked_apart_and_each_answer_is_its_own() {
    let cluster = Cluster::new(&[("host-0", 2, 2)], 2);
    let hub = Hub::new(Duration::from_secs(1));
    let asked = pass_of_tenants(&hub, &cluster, 10..16, None);
    for (name, asked) in ["acme", "globex"].into_iter().zip(&asked) {
        let processes: Vec<&str> = asked.iter().map(|asked| asked.process.as_str()).collect();
        assert_eq!(processes, [format!("{name}::{}", cluster.key(1))], "one question, by whichever hub");
    }
    let answer = Look { at_ns: at(16).0, inquiry: asked[0][0].id.clone(), ..Look::default() };
    pass_of_tenants(&hub, &cluster, 16..18, Some(&answer));
    assert_eq!(seen(&hub.of_tenant(&tenant("acme")), &cluster), [true, false]);
    assert_eq!(seen(&hub.of_tenant(&tenant("globex")), &cluster), [false, false]);
    assert_eq!(seen(&hub, &cluster), [true, false], "operators see it too");
    // Nothing is there twice, nor the same in both.
    let n_processes = |hub: &Hub| hub.read(|model, _| model.n_processes());
    assert_eq!(n_processes(&hub), 4);
    assert_eq!(["acme", "globex"].map(|name| n_processes(&hub.of_tenant(&tenant(name)))), [2, 2]);
}

#[test]
fn a_tenant_is_asked_where_others_have_taken_all_questions() {
    let cluster = Cluster::new(&[("host-0", 2, 2)], 2);
    let hub = Hub::new(Duration::from_secs(1));
    let many: Vec<Wanted> =
        (0..2_000).map(|n| Wanted { process: format!("h/{n}/1").into(), what: Want::Look }).collect();
    {
        let mut state = hub.lock();
        let super::State { inquiries, model, .. } = &mut *state;
        assert!(inquiries.want(many.iter(), model, at(10)) > 0);
    }
    let asked = pass_of_tenants(&hub, &cluster, 10..16, None);
    assert_eq!(asked.map(|asked| asked.len()), [1, 1]);
}

#[test]
fn a_daemon_that_asks_nobody_asks_no_tenant() {
    let cluster = Cluster::new(&[("host-0", 2, 2)], 2);
    let hub = Hub::new(Duration::from_secs(1));
    let known = hub.of_tenant(&tenant("acme"));
    hub.set_look(false);
    let asked = pass_of_tenants(&hub, &cluster, 10..16, None);
    assert_eq!(asked.map(|asked| asked.len()), [0, 0]);
    drop(known);
}

#[test]
fn the_rows_of_a_large_communicator_that_is_being_made_are_written_in_their_turn() {
    let hosts: Vec<String> = (0..150).map(|host| format!("host-{host}")).collect();
    let hosts: Vec<(&str, u32, u32)> = hosts.iter().map(|host| (&**host, 8, 1)).collect();
    let cluster = Cluster::new(&hosts, 1);
    let hub = Hub::new(Duration::from_secs(1));
    let id = cluster.id().to_string();
    let written = |s: u64| {
        hub.tick(at(s));
        let mut unsaved = hub.take_unsaved(Take::Due, at(s)).batched();
        let mut n_rows = 0;
        while let Some(set) = hub.next_rows(&mut unsaved, at(s)) {
            n_rows += set.communicators.iter().filter(|row| row.id == id).count();
        }
        n_rows
    };
    let mut seconds = Vec::new();
    // Ten hosts a second, of which each batch changes it.
    for s in 1..=15_u32 {
        let ranks = (s - 1) * 80..s * 80;
        let processes = ranks.map(|rank| cluster.process(rank)).collect();
        hub.ingest(&batch(u64::from(s), u64::from(s), processes), at(u64::from(s)));
        seconds.extend((written(u64::from(s)) > 0).then_some(s));
    }
    // Of up to a thousand ranks each second, then in its turn.
    assert_eq!(seconds, (1..=12).chain([14]).collect::<Vec<_>>());
    assert_eq!((16..20).map(written).sum::<usize>(), 1, "what came last is written too");
}

#[test]
fn rows_of_ranks_are_written_when_they_change_and_again_when_the_store_did_not_take_them() {
    let hosts: Vec<String> = (0..300).map(|host| format!("host-{host}")).collect();
    let hosts: Vec<(&str, u32, u32)> = hosts.iter().map(|host| (&**host, 8, 1)).collect();
    let cluster = Cluster::new(&hosts, 1);
    let hub = Hub::new(Duration::from_secs(1));
    hub.ingest(&batch(1, 1, (0..2_400).map(|rank| cluster.process(rank)).collect()), at(1));
    let rows = |unsaved: &super::Unsaved, s: u64| {
        let mut batched = unsaved.batched();
        let (mut ranks, mut hops, mut most) = (0, 0, 0);
        while let Some(set) = hub.next_rows(&mut batched, at(s)) {
            most = most.max(set.ranks.len());
            (ranks, hops) = (ranks + set.ranks.len(), hops + set.hops.len());
        }
        assert!(most <= 1_024, "{most} in one transaction");
        (ranks, hops)
    };
    let take = |s: u64| {
        hub.tick(at(s));
        hub.take_unsaved(Take::Due, at(s))
    };
    let unsaved = take(2);
    assert_eq!(rows(&unsaved, 2), (2_400, 2_400));
    hub.give_back(unsaved);
    let unsaved = take(3);
    assert_eq!(rows(&unsaved, 3), (2_400, 2_400), "they were not taken");
    assert_eq!(rows(&take(100), 100), (0, 0), "nothing changed");
    let mut changed = cluster.process(7);
    changed.communicators[0].gpu = "other".to_owned();
    hub.ingest(&batch(2, 101, vec![changed]), at(101));
    assert_eq!(rows(&take(104), 104), (1, 0), "of one rank, and none of its hops");
}

#[test]
fn a_batch_that_comes_again_is_a_word_of_its_agent_and_no_news() {
    let cluster = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 2)], 2);
    let hub = Hub::new(Duration::from_secs(1));
    let once = batch_of(&cluster, 1, 10, None);
    assert!(!hub.ingest(&once, at(10)).duplicate);
    assert!(hub.ingest(&once, at(40)).duplicate);
    hub.read(|model, _| {
        let process = model.hosts().flat_map(|(_, processes)| processes).next().unwrap();
        assert_eq!((model.last_heard(process), model.last_spoken(process)), (at(10), at(40)));
    });
}
