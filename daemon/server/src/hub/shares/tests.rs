use std::time::Duration;

use ringscope_samples::cluster::{at, batch, ended};
use ringscope_wire::batch::{Communicator, HostHardware, Identity, ProcessState};

use super::*;

/// A hub in which a tenant may have so many percent; one is 100 jobs, 200 hosts, 1000 processes and as many communicators. A
/// token has half, for there is another one.
fn hub(percent: u8) -> Hub {
    let hub = Hub::new(Duration::from_secs(1));
    hub.set_tenant_share(Some(percent));
    assert_eq!(told(&hub, &sender("before", "zero"), jobs(1, 1, 0..1), at(1)), (1, None));
    hub
}

fn sender(tenant: &str, token: &str) -> Sender {
    Sender { tenant: tenant.parse().ok(), id: token.to_owned(), name: format!("the {token}") }
}

/// A process of a job of its own.
fn process(n: usize) -> Process {
    let identity = Identity { host: "host-0".into(), job: format!("job-{n}"), ..Identity::default() };
    Process {
        key: format!("host-0/{n}/1"),
        identity: Some(identity),
        state: ProcessState::Running.into(),
        ..Process::default()
    }
}

fn send(hub: &Hub, sender: &Sender, mut batch: Batch, now: Timestamp) -> Taken {
    let tenant = sender.tenant.clone().unwrap();
    tenant.own(&mut batch);
    hub.ingest_of(&tenant, sender, &mut batch, now)
}

/// (processes known to the tenant, what was refused of the batch)
fn told(hub: &Hub, sender: &Sender, batch: Batch, now: Timestamp) -> (usize, Option<Beyond>) {
    let taken = send(hub, sender, batch, now);
    let known = hub.of_tenant(sender.tenant.as_ref().unwrap()).read(|model, _| model.n_processes());
    (known, taken.beyond)
}

fn jobs(seq: u64, s: u64, jobs: std::ops::Range<usize>) -> Batch {
    batch(seq, s, jobs.map(process).collect())
}

#[test]
fn a_token_has_half_of_its_tenants_share_and_the_tenant_no_more_than_its_own() {
    let hub = hub(2);
    let [one, two, other] =
        [("acme", "one"), ("acme", "two"), ("globex", "three")].map(|(t, k)| sender(t, k));
    let (known, beyond) = told(&hub, &one, jobs(1, 1, 0..150), at(1));
    let beyond = beyond.unwrap();
    assert_eq!((known, beyond.n), (100, 50));
    let words = beyond.to_string();
    assert!(
        words.starts_with("\"the one\" of acme has told of 100 jobs, which is the most for one token"),
        "{words}"
    );
    let (known, beyond) = told(&hub, &two, jobs(2, 2, 200..500), at(2));
    assert_eq!(known, 200);
    let words = beyond.unwrap().to_string();
    assert!(
        words.starts_with("the tenant acme has told of 200 jobs, which is the most for one tenant"),
        "{words}"
    );
    assert!(words.contains("what is known goes on") && words.contains("--tenant-share"), "{words}");
    // A third token of the tenant finds nothing left.
    let (known, beyond) = told(&hub, &sender("acme", "four"), jobs(3, 3, 600..601), at(3));
    assert_eq!(known, 200);
    assert_eq!(beyond.map(|beyond| beyond.kind), Some("one tenant"));
    assert_eq!(told(&hub, &other, jobs(1, 3, 0..100), at(3)), (100, None), "others are as before");
    // What is known goes on, whoever tells of it.
    let mut again = jobs(4, 4, 0..100);
    again.processes.iter_mut().for_each(|process| process.segment_version = 7);
    assert_eq!(told(&hub, &two, again, at(4)), (200, None));
    let refused = |hub: &Hub| hub.read(|model, _| model.refused(at(5)).count());
    let acme = hub.of_tenant(&"acme".parse().unwrap());
    let globex = hub.of_tenant(&"globex".parse().unwrap());
    assert_eq!((refused(&hub), refused(&acme), refused(&globex)), (2, 2, 0));
}

#[test]
fn what_ended_first_makes_room_for_what_is_told_again() {
    let hub = hub(2);
    let sender = sender("acme", "one");
    assert_eq!(told(&hub, &sender, jobs(1, 1, 0..100), at(1)), (100, None));
    assert!(told(&hub, &sender, jobs(2, 2, 100..101), at(2)).1.is_some(), "all of them live");
    let end = |s: u64, n| ended(process(n), ProcessState::Exited, s);
    let ended = (40..60).map(|n| end(3, n)).chain((0..40).map(|n| end(4, n))).collect();
    assert_eq!(told(&hub, &sender, batch(3, 5, ended), at(5)), (100, None));
    // Refused once, and let in when its agent tells of it again.
    let (known, beyond) = told(&hub, &sender, jobs(4, 6, 100..120), at(6));
    assert_eq!((known, beyond.unwrap().n), (80, 20));
    assert_eq!(told(&hub, &sender, jobs(5, 7, 100..120), at(7)), (100, None));
    let is_known =
        |hub: &Hub, n: usize| hub.read(|model, _| model.process(&format!("acme::host-0/{n}/1")).is_some());
    for hub in [&hub, &*hub.of_tenant(sender.tenant.as_ref().unwrap())] {
        let known = [39, 40, 59, 60, 119].map(|n| is_known(hub, n));
        assert_eq!(known, [true, false, false, true, true], "those that ended first are gone");
    }
    hub.tick(at(4_000));
    assert_eq!(
        told(&hub, &sender, jobs(6, 4_001, 120..160), at(4_001)),
        (100, None),
        "and all after an hour"
    );
}

#[test]
fn communicators_and_hosts_are_counted_too() {
    let hub = hub(1);
    let one = sender("acme", "one");
    let mut many = process(0);
    let communicator = |n| Communicator {
        local_id: n,
        comm_hash: n,
        n_ranks: 2,
        created_at_ns: at(1).0,
        ..Communicator::default()
    };
    many.communicators = (1..=1_350).map(communicator).collect();
    let beyond = told(&hub, &one, batch(1, 1, vec![many.clone()]), at(1)).1.unwrap();
    assert_eq!((beyond.n, beyond.bound, beyond.most), (100, Bound::Communicators, 1_250));
    assert_eq!(hub.read(|model, _| model.communicators().count()), 1_250);
    many.communicators.truncate(1_250);
    assert_eq!(told(&hub, &one, batch(2, 2, vec![many]), at(2)).1, None, "those that are known are told on");
    let hardware = (0..150).map(|n| HostHardware { host: format!("host-{n}"), ..HostHardware::default() });
    let beyond = told(&hub, &one, Batch { hardware: hardware.collect(), ..batch(3, 3, Vec::new()) }, at(3)).1;
    assert_eq!(beyond.map(|beyond| (beyond.n, beyond.bound)), Some((50, Bound::Hosts)));
    // Of the agent's own host, if nothing else is known of it.
    let of_host = |seq: u64, host: &str| Batch {
        agent_host: host.to_owned(),
        cannot_watch: "it has no rights".to_owned(),
        ..batch(seq, 4, Vec::new())
    };
    let known = |host: &str| hub.read(|model, _| model.is_known_host(&format!("acme::{host}")));
    let beyond = told(&hub, &one, of_host(4, "host-200"), at(4)).1;
    assert_eq!((beyond.map(|beyond| beyond.bound), known("host-200")), (Some(Bound::Hosts), false));
    let other = sender("acme", "two");
    assert_eq!((told(&hub, &other, of_host(5, "host-201"), at(4)).1, known("host-201")), (None, true));
}

#[test]
fn a_token_that_is_the_only_one_leaves_a_tenth() {
    let hub = Hub::new(Duration::from_secs(1));
    let one = Sender { id: "one".to_owned(), name: "one".to_owned(), tenant: None };
    let n = Bound::Jobs.most();
    let beyond = hub.ingest_from(&one, &mut jobs(1, 1, 0..n), at(1)).beyond.unwrap();
    assert_eq!((beyond.kind, beyond.most, beyond.n), ("one token", n * 9 / 10, n / 10));
    let two = Sender { id: "two".to_owned(), ..one.clone() };
    assert_eq!(hub.ingest_from(&two, &mut jobs(2, 2, n..n + n / 10), at(2)).beyond, None);
}

#[test]
fn an_agent_is_asked_again_for_what_was_refused() {
    let hub = hub(2);
    let one = sender("acme", "one");
    let asked = |seq: u64, s: u64, n: usize| {
        let taken = send(&hub, &one, jobs(seq, s, 0..n), at(s));
        (taken.reply.seq_number, taken.reply.resend_all, taken.beyond.is_some())
    };
    assert_eq!(asked(1, 1, 101), (1, false, true));
    assert_eq!(asked(2, 2, 1), (2, false, false));
    assert_eq!(asked(3, 62, 1), (3, true, false), "after a minute");
    assert_eq!(asked(4, 63, 101), (4, false, true));
}

#[test]
fn what_the_store_kept_counts_for_its_tenant() {
    let hub = hub(2);
    let mut kept = jobs(1, 1, 0..200);
    "acme".parse::<Tenant>().unwrap().own(&mut kept);
    hub.restore(ringscope_store::Restored { processes: kept.processes, ..Default::default() }, at(1));
    let beyond = told(&hub, &sender("acme", "one"), jobs(1, 2, 200..201), at(2)).1.unwrap();
    assert_eq!((beyond.kind, beyond.most), ("one tenant", 200));
}

#[test]
fn parts_are_equal_unless_somebody_says_otherwise_and_alone_all_is_ones_own() {
    let mut shares = Shares::default();
    let most = |shares: &Shares, sender: &Sender, n_tenants| {
        let parties = shares.parties(sender, n_tenants);
        parties.iter().map(|(_, most)| most.get(Bound::Processes)).collect::<Vec<_>>()
    };
    assert_eq!(most(&shares, &Sender::default(), 0), [250_000, 250_000], "an open daemon");
    assert_eq!(most(&shares, &sender("", "one"), 0), [250_000, 250_000, 225_000]);
    shares.held.insert(Party::Token("another".into()), Held::default());
    assert_eq!(most(&shares, &sender("", "one"), 0), [250_000, 250_000, 125_000]);
    assert_eq!(most(&shares, &sender("acme", "one"), 1), [250_000, 125_000, 62_500]);
    assert_eq!(most(&shares, &sender("acme", "one"), 3), [250_000, 62_500, 31_250]);
    shares.set_percent(Some(40));
    assert_eq!(most(&shares, &sender("acme", "one"), 3), [250_000, 100_000, 50_000]);
}
