//! Links, the NICs at their ends, and what becomes of a job.

use std::collections::BTreeSet;

use ringscope_api::{Finding, FindingKind};
use ringscope_samples::cluster::{batch, hardware, nic};
use ringscope_wire::batch::{Batch, HostHardware, Nic, NicCounter};

use super::{AGENT, Stage, at};

const HOSTS: [(&str, u32, u32); 4] = [("a", 1, 2), ("b", 1, 2), ("c", 1, 2), ("d", 1, 2)];

/// Hosts each with an `mlx5_0` at this rate in Gb/s.
fn hosts(s: u64, rate: impl Fn(&str) -> u64) -> Vec<HostHardware> {
    let one = |(host, ..): &(&str, u32, u32)| {
        let rate_bits_per_s = Some(rate(host) * 1_000_000_000);
        hardware(host, s, vec![Nic { rate_bits_per_s, ..nic("mlx5_0") }])
    };
    HOSTS.iter().map(one).collect()
}

/// Everything that was found in so many seconds, by kind.
fn all(stage: &mut Stage, seconds: u64) -> (Vec<Finding>, BTreeSet<FindingKind>) {
    let mut kinds = BTreeSet::new();
    let mut last = Vec::new();
    for _ in 0..seconds {
        last = stage.second();
        kinds.extend(last.iter().map(|finding| finding.finding));
    }
    (last, kinds)
}

/// A ring of which the ways into and out of host c take so many times as long, from second 40 on.
fn stage(longer: u64) -> Stage {
    let mut stage = Stage::new(&HOSTS, |_, _| 40);
    stage.ns_per_byte =
        Box::new(move |rank, s| if s >= 40 && (rank == 1 || rank == 2) { 10 * longer } else { 10 });
    stage
}

#[test]
fn a_nic_whose_rate_falls_is_named_with_its_rates_and_since_when() {
    let mut stage = stage(4);
    stage.transfer = Box::new(|step| if step >= 570 { 60 } else { 30 });
    stage.hardware = Box::new(|s| hosts(s, |host| if host == "c" && s >= 40 { 200 } else { 400 }));
    let (_, before) = all(&mut stage, 39);
    assert!(before.is_empty(), "{before:?}");
    let when = (40..70).find(|_| stage.second().iter().any(|one| one.finding == FindingKind::Slowdown));
    let (found, kinds) = all(&mut stage, 20);
    let of = |kind| found.iter().find(|finding| finding.finding == kind).unwrap();
    assert!(when.is_some_and(|when| when <= 55), "{when:?}");
    let fell = format!("its rate fell from 400 to 200 Gb/s at {}", ringscope_api::words::clock(at(40)));
    let slower = of(FindingKind::Slowdown);
    assert!(slower.message.ends_with(&format!("; mlx5_0 of c: {fell}")), "{}", slower.message);
    assert_eq!((&*slower.host, slower.nic.as_deref()), ("c", Some("mlx5_0")));
    let slow = of(FindingKind::SlowNic);
    assert_eq!((&*slow.host, slow.nic.as_deref(), &*slow.cause), ("c", Some("mlx5_0"), "nic_slow"));
    assert!(slow.message.ends_with(&fell), "{}", slow.message);
    assert_eq!((slow.accused.len(), &*slow.accused[0].host, slow.n_victims), (1, "c", 3));
    assert_eq!(slow.began_at, Some(at(40)));
    assert!(!kinds.contains(&FindingKind::SlowLink), "{kinds:?}");
    let incidents: BTreeSet<&str> = found.iter().map(|finding| &*finding.incident).collect();
    assert_eq!(incidents.len(), 1, "one incident: {found:#?}");
}

#[test]
fn a_nic_that_says_it_itself_is_named_before_anybody_looks_at_links() {
    let mut stage = stage(1);
    stage.ns_per_byte = Box::new(|_, _| 0);
    stage.transfer = Box::new(|step| if step >= 570 { 60 } else { 30 });
    stage.hardware = Box::new(|s| hosts(s, |host| if host == "c" && s >= 40 { 200 } else { 400 }));
    let (found, kinds) = all(&mut stage, 55);
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), [FindingKind::SlowNic, FindingKind::Slowdown]);
    let slow = found.iter().find(|finding| finding.finding == FindingKind::SlowNic).unwrap();
    assert!(
        slow.message.starts_with("mlx5_0 of c is slow: its rate fell from 400 to 200 Gb/s at "),
        "{}",
        slow.message
    );
    assert!(
        slow.details.is_empty() && slow.evidence.iter().any(|line| line.file.ends_with("/rate")),
        "{slow:#?}"
    );
}

#[test]
fn a_nic_that_says_nothing_is_named_by_its_links() {
    let mut stage = stage(4);
    let (found, kinds) = all(&mut stage, 70);
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), [FindingKind::SlowNic]);
    assert_eq!(
        (&*found[0].host, found[0].nic.as_deref(), &*found[0].cause),
        ("c", Some("mlx5_0"), "slower_than_like")
    );
    assert!(
        found[0].message.starts_with(
            "mlx5_0 of c is slow: of 1 link from it and 1 to it the slowest moves 25.0 MB/s while it is busy, the other 3 \
             links move 100 MB/s"
        ),
        "{}",
        found[0].message
    );
}

#[test]
fn links_that_are_no_slower_or_idle_are_nobodys_fault() {
    let check = |mut stage: Stage| {
        let (_, kinds) = all(&mut stage, 90);
        assert!(kinds.is_empty(), "{kinds:?}");
    };
    check(stage(1));
    let mut all_slow = stage(1);
    all_slow.ns_per_byte = Box::new(|_, s| if s >= 40 { 40 } else { 10 });
    check(all_slow);
    // Busy for a hundredth of the time.
    let mut idle = stage(1);
    idle.ns_per_byte = Box::new(|rank, _| if rank == 1 { 4 } else { 1 });
    check(idle);
}

/// It moves what its wire can carry, and has four times as much to do as the others.
#[test]
fn a_link_on_which_steps_queue_is_not_slow() {
    let mut queued = stage(1);
    queued.ns_per_byte = Box::new(|rank, _| if rank == 1 { 160 } else { 40 });
    let (_, kinds) = all(&mut queued, 90);
    assert!(kinds.is_empty(), "{kinds:?}");
}

/// Errors are counted on some port at any time.
#[test]
fn a_nic_with_errors_is_not_accused_because_the_job_got_slower_then() {
    let mut stage = stage(1);
    stage.transfer = Box::new(|step| if step >= 570 { 60 } else { 30 });
    stage.hardware = Box::new(|s| {
        let mut hosts = hosts(s, |_| 400);
        for (host, nic) in (0..).zip(hosts.iter_mut().flat_map(|host| &mut host.nics)) {
            let value = if host == 2 { 1_000 * s.saturating_sub(41) } else { 0 };
            nic.errors = vec![NicCounter { name: "symbol_error".to_owned(), value }];
        }
        hosts
    });
    let (found, kinds) = all(&mut stage, 90);
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), [FindingKind::Slowdown]);
    assert_eq!((&*found[0].host, found[0].nic.as_deref()), ("", None), "{}", found[0].message);
    assert!(found[0].details[0].lines[0].starts_with("mlx5_0 of c: "), "{:#?}", found[0].details);
}

/// A slow link takes longer to find again than a slowdown that was kept.
#[test]
fn what_is_found_first_after_a_restart_does_not_end_what_is_found_later() {
    let mut stage = stage(4);
    stage.transfer = Box::new(|step| if step >= 570 { 60 } else { 30 });
    let (before, _) = all(&mut stage, 80);
    let slow = before.iter().find(|finding| finding.finding == FindingKind::SlowNic).unwrap().id.clone();
    stage.restart();
    for _ in 0..40 {
        let found = stage.second();
        assert!(found.iter().any(|finding| finding.id == slow), "second {}: {found:#?}", stage.s);
    }
}

#[test]
fn what_a_nic_had_for_long_did_not_make_a_job_slower() {
    let mut stage = stage(1);
    stage.transfer = Box::new(|step| if step >= 1700 { 60 } else { 30 });
    stage.hardware = Box::new(|s| hosts(s, |host| if host == "c" && s >= 20 { 200 } else { 400 }));
    let (found, kinds) = all(&mut stage, 140);
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), [FindingKind::Slowdown]);
    assert_eq!((&*found[0].host, found[0].nic.as_deref()), ("", None), "{}", found[0].message);
}

#[test]
fn many_links_of_a_rail_at_once_accuse_nobody() {
    let eight = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|host| (host, 1, 2));
    let mut stage = Stage::new(&eight, |_, _| 40);
    stage.ns_per_byte = Box::new(|rank, s| if s >= 40 && rank % 2 == 0 { 40 } else { 10 });
    let (found, kinds) = all(&mut stage, 70);
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), [FindingKind::Congestion]);
    assert_eq!((found.len(), &*found[0].host, found[0].rank, found[0].accused.len()), (1, "", None, 0));
    assert!(found[0].culprits.is_empty(), "{found:#?}");
    assert!(
        found[0].message.starts_with("4 links by mlx5_0 of different hosts are slow at once"),
        "{}",
        found[0].message
    );
    assert_eq!(found[0].details[0].lines[0], "a by mlx5_0 to b by mlx5_0: 25.0 MB/s");
}

#[test]
fn a_slow_link_ends_with_its_communicator() {
    let mut stage = Stage::new(&HOSTS, |_, _| 40);
    stage.ns_per_byte = Box::new(|rank, s| if s >= 40 && rank == 1 { 80 } else { 10 });
    let (found, _) = all(&mut stage, 70);
    assert_eq!(found.iter().map(|one| one.finding).collect::<Vec<_>>(), [FindingKind::SlowLink]);
    let mut processes = stage.cluster.processes();
    for process in &mut processes {
        process.communicators[0].ended_at_ns = Some(at(stage.s).0);
    }
    let told = Batch { agent_id: AGENT.to_owned(), ..batch(1_000, stage.s, processes) };
    stage.model.apply(&told, at(stage.s));
    let (found, _) = all(&mut stage, 20);
    assert!(found.is_empty(), "{found:?}");
}

/// Agents begin to tell of network steps at different times.
#[test]
fn a_slow_link_is_named_also_where_links_are_told_of_two_seconds_apart() {
    let mut stage = Stage::new(&HOSTS, |_, _| 10);
    stage.transfer = Box::new(|_| 90);
    stage.ns_per_byte = Box::new(|rank, s| match (rank, s) {
        (2.., ..2) => 0,
        (1, _) => 40,
        _ => 10,
    });
    let (_, kinds) = all(&mut stage, 30);
    assert!(kinds.contains(&FindingKind::SlowLink), "{kinds:?}");
}
