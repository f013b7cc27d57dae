use ringscope_api::{Cost, Culprit, Detail, FindingKind as Kind, Severity};
use ringscope_samples::objects;

use super::*;

fn at(second: u64) -> Timestamp {
    Timestamp(second * 1_000_000_000)
}

/// A critical finding of a kind about a host, seen first at a second.
fn finding(id: &str, kind: Kind, host: &str, second: u64) -> Finding {
    Finding { finding: kind, message: format!("{id} of {host}"), ..objects::finding(id, host, second) }
}

/// The same, that accuses a process.
fn accuses(id: &str, kind: Kind, comm: &str, (host, pid, rank): (&str, u32, u32), second: u64) -> Finding {
    let culprit = Culprit { host: host.into(), pid: Some(pid), rank: Some(rank), ..Culprit::default() };
    Finding {
        comm: comm.into(),
        rank: Some(rank),
        accused: vec![culprit],
        n_victims: 7,
        ..finding(id, kind, host, second)
    }
}

#[test]
fn what_files_tell_of_is_another_incident_than_what_holds_today() {
    let lost = finding("lost", Kind::HostLost, "node-1", 100);
    let death = accuses("death", Kind::RankDead, "c1", ("node-1", 7, 3), 101);
    let mut world = World::default();
    assert_eq!(world.fire(&[lost.clone(), death.clone()], 101).len(), 1);
    let past = Finding { imported: true, began_at: Some(at(10)), ..death };
    let mut world = World::default();
    assert_eq!(world.fire(&[lost, past], 101).len(), 2);
    let incident = world.incidents.get("death").unwrap();
    assert!(incident.imported);
    assert_eq!(incident.began_at, at(10));
    world.incidents.tick(at(900));
    assert_eq!(world.incidents.get("death").unwrap().last_seen, at(101), "nothing is seen of it any more");
}

fn info(finding: Finding) -> Finding {
    Finding { severity: Severity::Info, ..finding }
}

/// Incidents and findings as the ledger keeps them.
#[derive(Default)]
struct World {
    incidents: Incidents,
    firing: Vec<Finding>,
}

impl World {
    /// Makes these what fires. Returns the open incidents: the ids of their findings, sorted by the roots'.
    fn fire(&mut self, findings: &[Finding], second: u64) -> Vec<Vec<String>> {
        let before = std::mem::take(&mut self.firing);
        self.firing = findings.to_vec();
        for finding in &mut self.firing {
            let known = before.iter().find(|known| known.id == finding.id);
            if let Some(known) = known {
                finding.incident.clone_from(&known.incident);
            }
        }
        let settled = self.incidents.settle(self.firing.iter(), at(second));
        for (id, incident) in settled.moved {
            let finding = self.firing.iter_mut().find(|finding| finding.id == id).unwrap();
            finding.incident = incident;
        }
        let mut open: Vec<Vec<String>> = self.incidents.open().map(|one| one.findings.clone()).collect();
        open.sort();
        open
    }
}

/// What these findings make, from nothing.
#[track_caller]
fn check(findings: &[Finding], expected: &[&[&str]]) {
    assert_eq!(World::default().fire(findings, 10), expected);
    let mut turned = findings.to_vec();
    turned.reverse();
    let open: Vec<_> = World::default().fire(&turned, 10);
    assert_eq!(open.len(), expected.len(), "the order must not matter");
}

#[test]
fn the_consequences_of_one_cause_are_one_incident() {
    // A host that finds fewer channels, and those that it holds back.
    let capped =
        Finding { culprits: vec!["b".into()], ..info(finding("capped", Kind::CappedByPeer, "a", 1)) };
    let short = finding("short", Kind::ChannelShortfall, "b", 1);
    check(&[capped.clone(), short.clone()], &[&["short", "capped"]]);
    // And the NIC that is the reason.
    let nic = |finding: Finding| Finding { nic: Some("mlx5_0".into()), ..finding };
    let down = nic(finding("nic", Kind::NicDegraded, "b", 2));
    check(&[capped, nic(short), down], &[&["nic", "short", "capped"]]);
    // One stopped process, missed in two communicators.
    let missing = |id, comm, rank| accuses(id, Kind::RankMissing, comm, ("b", 7, rank), 3);
    check(&[missing("dp", "c1", 5), missing("tp", "c2", 1)], &[&["dp", "tp"]]);
    // A death, what others report of it, and what they do then.
    let dead = accuses("dead", Kind::RankDead, "c1", ("b", 7, 5), 3);
    let error = accuses("error", Kind::AsyncError, "c1", ("a", 3, 1), 4);
    let later = accuses("later", Kind::RankDead, "c1", ("a", 3, 1), 5);
    let wait = info(accuses("wait", Kind::Waiting, "c1", ("b", 7, 5), 2));
    check(&[error, later, dead, wait], &[&["dead", "later", "error", "wait"]]);
    // A host that is lost, and its ranks.
    let lost = finding("lost", Kind::HostLost, "b", 5);
    check(&[accuses("one", Kind::RankDead, "c1", ("b", 7, 5), 4), lost], &[&["lost", "one"]]);
    // What the kernel said, and whom it hit.
    let xid = finding("xid", Kind::KernelFault, "b", 2);
    check(&[accuses("one", Kind::RankDead, "c1", ("b", 7, 5), 4), xid], &[&["xid", "one"]]);
}

#[test]
fn a_job_that_ends_by_different_parameters_has_one_incident() {
    let of_group = |finding: Finding| Finding { group: Some("g1".into()), ..finding };
    let differ = of_group(finding("differ", Kind::SumParametersDiffer, "b", 1));
    let lost = |cause: &str| Finding {
        cause: cause.to_owned(),
        ..of_group(finding("lost", Kind::RankDead, "a", 1))
    };
    check(&[lost("parameters_differ"), differ.clone()], &[&["differ", "lost"]]);
    // A loss at another time has another reason, and so has one of another group.
    check(&[lost("worker_lost"), differ.clone()], &[&["differ"], &["lost"]]);
    let elsewhere = Finding { group: Some("g2".into()), ..lost("parameters_differ") };
    check(&[elsewhere, differ], &[&["differ"], &["lost"]]);
}

#[test]
fn a_connection_that_failed_explains_what_its_process_does_not_get_done_and_is_explained_by_its_port() {
    let check = |findings: &[Finding], expected: &[&[&str]]| {
        assert_eq!(World::default().fire(findings, 10), expected);
    };
    let nic = |finding: Finding| Finding { nic: Some("mlx5_0".into()), ..finding };
    let failed = Finding { comm: String::new(), ..accuses("pair", Kind::QueuePairError, "", ("a", 3, 1), 4) };
    let stalled = accuses("stalled", Kind::TransferStalled, "c1", ("a", 3, 1), 5);
    check(&[stalled.clone(), nic(failed.clone())], &[&["pair", "stalled"]]);
    let storm = nic(finding("storm", Kind::PfcStorm, "a", 3));
    check(&[stalled, nic(failed.clone()), storm], &[&["storm", "pair", "stalled"]]);
    // One that accuses nobody explains what goes on at both its ends, and nothing elsewhere.
    let nobody = Finding { culprits: vec!["b".into()], accused: Vec::new(), ..nic(failed.clone()) };
    let at_b = accuses("at-b", Kind::TransferStalled, "c1", ("b", 7, 5), 5);
    check(&[at_b, nobody.clone()], &[&["pair", "at-b"]]);
    let at_c = accuses("at-c", Kind::TransferStalled, "c1", ("c", 7, 5), 5);
    check(&[at_c, nobody], &[&["at-c"], &["pair"]]);
    // One of another port has nothing to do with it.
    let other = Finding { nic: Some("mlx5_1".into()), ..finding("storm", Kind::PfcStorm, "a", 3) };
    check(&[nic(failed), other], &[&["pair"], &["storm"]]);
}

#[test]
fn an_incident_costs_what_its_sentence_says() {
    let costs = |finding: Finding, percent: f64, rank_hours: f64| {
        let cost = Cost { percent, rank_hours, ..Cost::default() };
        Finding { cost: Some(cost), ..finding }
    };
    let root = accuses("root", Kind::ComputeStraggler, "c1", ("b", 7, 5), 3);
    let follows = |finding: Finding| Finding { incident: "root".into(), ..finding };
    let slower = follows(costs(info(finding("slower", Kind::Slowdown, "", 4)), 24.0, 2.0));
    let least = follows(costs(info(finding("least", Kind::TooSmall, "", 4)), 30.0, 1.0));
    let percent = |findings: &[Finding]| {
        let mut world = World::default();
        world.fire(findings, 10);
        let costs = world.incidents.open().map(|one| one.cost.map(|cost| cost.percent));
        costs.collect::<Vec<_>>()
    };
    assert_eq!(percent(&[costs(root.clone(), 12.0, 1.0), slower.clone()]), [Some(12.0)]);
    assert_eq!(percent(&[root.clone(), slower, least]), [Some(24.0)], "the root does not say");
    assert_eq!(percent(&[root]), [None]);
}

#[test]
fn what_a_judge_says_follows_from_another_belongs_to_it() {
    let follows = |finding: Finding, root: &str| Finding { incident: root.into(), ..finding };
    let root = accuses("root", Kind::RankMissing, "c1", ("b", 7, 5), 3);
    let late = follows(accuses("late", Kind::TeardownStuck, "c2", ("a", 1, 0), 4), "root");
    let told = follows(info(accuses("told", Kind::Waiting, "c3", ("a", 2, 1), 4)), "root");
    // A warning about who is to blame for worse adds to that, also where its kind is one that explains others.
    let odd = accuses("odd", Kind::CallMismatch, "c4", ("a", 3, 2), 4);
    let odd = follows(Finding { severity: Severity::Warning, ..odd }, "root");
    check(&[root.clone(), late.clone(), told.clone()], &[&["root", "late", "told"]]);
    check(&[late, odd, root, told], &[&["root", "odd", "late", "told"]]);
}

#[test]
fn what_has_nothing_to_do_with_each_other_stays_apart() {
    check(
        &[finding("x", Kind::NicDegraded, "a", 1), finding("y", Kind::NicDegraded, "b", 1)],
        &[&["x"], &["y"]],
    );
    // Two ranks may be missing, and neither hides the other.
    let missing = |id, host, pid, rank| accuses(id, Kind::RankMissing, "c1", (host, pid, rank), 3);
    check(&[missing("x", "a", 1, 0), missing("y", "b", 2, 4)], &[&["x"], &["y"]]);
    // What the kernel said an hour ago explains nothing of today.
    let old = finding("xid", Kind::KernelFault, "b", 0);
    check(&[accuses("dead", Kind::RankDead, "c1", ("b", 7, 5), 3600), old], &[&["dead"], &["xid"]]);
    // Information alone is nobody's business.
    check(&[info(finding("wait", Kind::Waiting, "a", 1))], &[]);
}

#[test]
fn a_crash_of_one_job_hides_nothing_of_the_others_on_its_host() {
    let of = |job: &str, finding: Finding| Finding { job: job.into(), ..finding };
    let crash = Finding {
        cause: "crash".into(),
        comm: String::new(),
        ..accuses("crash", Kind::KernelFault, "", ("b", 7, 5), 2)
    };
    let crash = of("dsegv", crash);
    let own = of("dsegv", accuses("own", Kind::RankDead, "c1", ("b", 7, 5), 3));
    let other = of("later", accuses("other", Kind::RankDead, "c2", ("b", 9, 1), 242));
    check(&[crash.clone(), own, other.clone()], &[&["crash", "own"], &["other"]]);
    // Nor does the fault of a GPU that only one of them uses.
    let xid = Finding { cause: "xid".into(), ..crash.clone() };
    check(&[xid, other], &[&["crash"], &["other"]]);
    // A number that the host gave to another process an hour later is another process.
    let again = of("dsegv", accuses("again", Kind::RankDead, "c3", ("b", 7, 5), 3600));
    check(&[crash, again], &[&["again"], &["crash"]]);
    // What is wrong with the host is one thing, of whatever job it is told.
    let check_of = |id, job| {
        let fault = finding(id, Kind::KernelFault, "b", 2);
        of(job, Finding { cause: "machine_check".into(), ..fault })
    };
    let dead = of("y", accuses("dead", Kind::RankDead, "c2", ("b", 9, 1), 3));
    check(&[check_of("one", "x"), check_of("two", "y"), dead], &[&["one", "two", "dead"]]);
}

#[test]
fn a_death_that_is_found_in_another_communicator_is_the_same_incident() {
    let mut world = World::default();
    let death = |id, comm, pid| accuses(id, Kind::RankDead, comm, ("b", pid, 5), 100);
    world.fire(&[death("seen", "c1", 7)], 100);
    world.fire(&[death("awaited", "c2", 7)], 102);
    let open: Vec<&str> = world.incidents.open().map(|one| one.id.as_str()).collect();
    assert_eq!(open, ["seen"]);
    let incident = world.incidents.get("seen").unwrap();
    assert_eq!((incident.began_at, incident.comm.as_str()), (at(100), "c2"));
    // Another process's is another.
    world.fire(&[death("other", "c3", 8)], 104);
    let open: Vec<&str> = world.incidents.open().map(|one| one.id.as_str()).collect();
    assert_eq!(open, ["other"]);
}

#[test]
fn an_incident_lives_from_its_true_beginning_to_its_end() {
    let mut world = World::default();
    let mut hang = accuses("hang", Kind::RankMissing, "c1", ("b", 7, 5), 100);
    hang.began_at = Some(at(60));
    world.fire(std::slice::from_ref(&hang), 101);
    let incident = world.incidents.get("hang").unwrap();
    assert_eq!((incident.began_at, incident.first_seen, incident.n_victims), (at(60), at(100), 7));
    assert_eq!(
        (incident.host.as_str(), incident.rank, incident.severity),
        ("b", Some(5), Severity::Critical)
    );
    assert_eq!(incident.sentence, "hang of b");

    // Somebody looks at the culprit, and its process turns out to be dead.
    hang.details = vec![Detail { title: "Rank 5".into(), lines: vec!["dataloader.py:214".into()] }];
    world.fire(std::slice::from_ref(&hang), 102);
    let dead = accuses("dead", Kind::RankDead, "c1", ("b", 7, 5), 103);
    assert_eq!(world.fire(&[hang.clone(), dead.clone()], 103), [["dead", "hang"]]);
    world.fire(std::slice::from_ref(&dead), 110);
    assert_eq!(world.fire(&[], 120), Vec::<Vec<String>>::new());
    let incident = world.incidents.get("hang").unwrap();
    assert_eq!((incident.state, incident.resolved_at), (FindingState::Resolved, Some(at(120))));
    let told: Vec<(u64, &str)> =
        incident.timeline.iter().map(|event| (event.at.0 / 1_000_000_000, event.text.as_str())).collect();
    assert_eq!(
        told,
        [
            (60, "It began, as the hosts' clocks say."),
            (100, "Found: hang of b"),
            (102, "Looked: Rank 5: dataloader.py:214"),
            (103, "The cause, as is known now: dead of b"),
            (110, "1 of its findings ended; 1 still hold."),
            (120, "It is over."),
        ]
    );
}

#[test]
fn what_comes_back_soon_is_the_same_and_what_comes_later_is_another() {
    let mut world = World::default();
    let one = [finding("x", Kind::NicDegraded, "a", 1)];
    world.fire(&one, 1);
    world.fire(&[], 10);
    world.fire(&one, 100);
    assert_eq!(world.incidents.open().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["x"]);
    world.fire(&[], 110);
    world.fire(&one, 5000);
    assert_eq!(world.incidents.open().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["x-2"]);
    assert_eq!(world.incidents.all().count(), 2);
}

#[test]
fn a_rank_that_is_stopped_again_and_again_is_one_incident() {
    let mut world = World::default();
    for n in 0..14 {
        // Each time in another call, so it is another finding.
        let stopped = accuses(&format!("call-{n}"), Kind::RankMissing, "c1", ("b", 7, 5), 100 * n);
        world.fire(&[Finding { message: "Rank 5 is stopped".into(), ..stopped }], 100 * n + 1);
        world.fire(&[], 100 * n + 40);
    }
    let all: Vec<&Incident> = world.incidents.all().collect();
    let [one] = all.as_slice() else { panic!("{all:#?}") };
    assert_eq!((one.id.as_str(), one.times_back, one.first_seen), ("call-0", 13, at(0)));
    let told: Vec<&str> = one.timeline.iter().map(|event| event.text.as_str()).collect();
    assert_eq!(told, ["Found: Rank 5 is stopped", "It came back 13 times, now after 61 s.", "It is over."]);
    // Another rank's is another.
    world.fire(&[accuses("other", Kind::RankMissing, "c1", ("b", 8, 6), 1400)], 1400);
    assert_eq!(world.incidents.open().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["other"]);
}

#[test]
fn two_that_turn_out_to_be_one_go_on_as_one() {
    let mut world = World::default();
    let one = accuses("x", Kind::RankMissing, "c1", ("a", 1, 0), 1);
    let other = accuses("y", Kind::RankMissing, "c1", ("b", 2, 4), 2);
    assert_eq!(world.fire(&[one.clone(), other.clone()], 3).len(), 2);
    let lost = |finding: Finding| Finding {
        accused: vec![Culprit { host: "b".into(), ..Culprit::default() }],
        ..finding
    };
    let host = finding("host", Kind::HostLost, "b", 4);
    let open = world.fire(&[lost(one), lost(other), host], 5);
    assert_eq!(open.len(), 1);
    let over = world.incidents.all().find(|one| one.state == FindingState::Resolved).unwrap();
    assert!(over.timeline.last().unwrap().text.starts_with("It is the same as incident"), "{over:?}");
    assert!(world.firing.iter().all(|finding| finding.incident == world.firing[0].incident));
}

#[test]
fn a_better_root_that_is_found_later_stays_the_root() {
    let of_nic = |finding: Finding| Finding { nic: Some("mlx5_7".into()), ..finding };
    let rail = of_nic(finding("rail", Kind::RailMismatch, "node-1", 100));
    let rail = Finding { severity: Severity::Warning, ..rail };
    let down = of_nic(finding("down", Kind::NicDegraded, "node-1", 101));
    let mut world = World::default();
    world.fire(std::slice::from_ref(&rail), 100);
    for second in 101..104 {
        assert_eq!(world.fire(&[rail.clone(), down.clone()], second), [["down", "rail"]]);
        let incident = world.incidents.open().next().unwrap();
        assert_eq!((incident.id.as_str(), incident.finding), ("rail", Kind::NicDegraded));
    }
}

#[test]
fn a_restart_keeps_the_beginning_and_what_people_said() {
    let mut world = World::default();
    let hang = [accuses("hang", Kind::RankMissing, "c1", ("b", 7, 5), 100)];
    world.fire(&hang, 100);
    let incidents = &mut world.incidents;
    incidents.acknowledge("hang", "ann", at(101)).unwrap();
    incidents.note("hang", "ann", "I look.", at(102)).unwrap();
    let kept = incidents.silence("hang", "ann", Some(at(900)), at(103)).unwrap();
    // Before the store was read the same was found anew, or not.
    for found_anew in [false, true] {
        let mut world = World::default();
        if found_anew {
            world.fire(&hang, 200);
        }
        world.incidents.restore(kept.clone());
        world.fire(&hang, 201);
        let incident = world.incidents.get("hang").unwrap();
        assert_eq!((incident.began_at, incident.notes.len()), (at(100), 1), "{found_anew}");
        assert_eq!(incident.acknowledged.as_ref().unwrap().by, "ann");
        assert_eq!(incident.silenced_until, Some(at(900)));
        assert!(world.incidents.tick(at(899)).iter().all(|one| one.silenced_until.is_some()));
        assert!(world.incidents.tick(at(900)).iter().all(|one| one.silenced_until.is_none()));
    }
    // One that does not hold any more is over, and nobody can silence it.
    let mut world = World::default();
    world.incidents.restore(kept);
    world.fire(&[], 300);
    assert_eq!(world.incidents.get("hang").unwrap().state, FindingState::Resolved);
    assert_eq!(world.incidents.silence("hang", "ann", None, at(301)).unwrap_err(), SpeakError::Over);
    assert_eq!(world.incidents.acknowledge("other", "ann", at(301)).unwrap_err(), SpeakError::Unknown);
}

#[test]
fn nothing_grows_without_bound() {
    let mut world = World::default();
    let hang = accuses("hang", Kind::RankMissing, "c1", ("b", 7, 5), 1);
    for second in 1..=200 {
        let mut hang = hang.clone();
        hang.details = vec![Detail { title: format!("Rank {second}"), lines: Vec::new() }];
        world.fire(&[hang], second);
    }
    let incident = world.incidents.get("hang").unwrap();
    assert_eq!(incident.timeline.len(), ringscope_api::TIMELINE_MAX);
    assert_eq!(incident.timeline.first().unwrap().text, "Found: hang of b");
    assert_eq!(incident.timeline.last().unwrap().text, "Looked: Rank 200");
    for n in 0..ringscope_api::NOTES_MAX {
        world.incidents.note("hang", "ann", &n.to_string(), at(300)).unwrap();
    }
    assert_eq!(world.incidents.note("hang", "ann", "more", at(300)).unwrap_err(), SpeakError::Full);
    let many: Vec<Finding> = (0..500)
        .map(|rank| accuses(&format!("{rank:03}"), Kind::RankDead, "c1", ("b", rank, rank), 1))
        .collect();
    let mut world = World::default();
    assert_eq!(world.fire(&many, 2), [(0..MAX_MEMBERS).map(|rank| format!("{rank:03}")).collect::<Vec<_>>()]);
}
