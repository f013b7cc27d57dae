//! Hosts whose clocks are wrong and drift, and collectives among them of which all times are known.

use proptest::prelude::*;
use ringscope_api::clock::Timestamp;
use ringscope_samples::cluster::{Cluster, at, batch};
use ringscope_wire::batch::{Batch, Operation};

use super::super::Model;
use super::*;

const S: i64 = 1_000_000_000;
const MS: i64 = 1_000_000;
/// When all begins, by the true time.
const BEGIN_NS: i64 = 1_800_000_000 * S;

/// A host: how far its clock is ahead at the beginning, and by how many billionths it is too fast.
#[derive(Clone, Debug)]
struct Host {
    name: Name,
    ahead_ns: i64,
    drift_ppb: i64,
}

impl Host {
    fn new(index: usize, ahead_ns: i64, drift_ppb: i64) -> Self {
        Self { name: format!("host-{index}").into(), ahead_ns, drift_ppb }
    }

    fn ahead_at(&self, true_ns: i64) -> i64 {
        self.ahead_ns
            + (true_ns - BEGIN_NS) / S * self.drift_ppb
            + (true_ns - BEGIN_NS) % S * self.drift_ppb / S
    }

    fn clock(&self, true_ns: i64) -> u64 {
        u64::try_from(true_ns + self.ahead_at(true_ns)).unwrap()
    }
}

/// Who takes part in an operation: hosts, when each calls, and how long after the last call each completes.
#[derive(Clone, Debug)]
struct Collective {
    members: Vec<usize>,
    called_ns: Vec<i64>,
    took_ns: Vec<i64>,
}

fn comm(index: usize) -> CommunicatorId {
    format!("{index:012x}").parse().unwrap()
}

fn completed(number: u64, called_ns: u64, completed_ns: u64) -> Completed {
    let told = Operation {
        primitive: ringscope_wire::batch::Primitive::AllReduce.into(),
        seq_number: number,
        bytes: 1_024,
        call_number: Some(number),
        issued_at_ns: called_ns,
        completed_at_ns: Some(completed_ns),
        ..Operation::default()
    };
    Completed::told(0, &told).unwrap()
}

fn hear(clocks: &mut Clocks, heard: Heard<'_>) {
    clocks.hear(heard, &mut Losses::default());
}

/// Lets all members tell of an operation that began at `from_ns`. Returns when the last of them completed it.
fn run(
    clocks: &mut Clocks,
    hosts: &[Host],
    which: usize,
    number: u64,
    one: &Collective,
    from_ns: i64,
) -> i64 {
    let last_ns = from_ns + one.called_ns.iter().max().unwrap();
    for ((member, called_ns), took_ns) in one.members.iter().zip(&one.called_ns).zip(&one.took_ns) {
        let host = &hosts[*member];
        let (called_ns, completed_ns) = (from_ns + called_ns, last_ns + took_ns);
        hear(
            clocks,
            Heard {
                comm: comm(which),
                n_ranks: u32::try_from(one.members.len()).unwrap(),
                host: &host.name,
                operation: &completed(number, host.clock(called_ns), host.clock(completed_ns)),
                at_ns: u64::try_from(completed_ns).unwrap(),
                now_ns: u64::try_from(completed_ns).unwrap(),
            },
        );
    }
    last_ns + one.took_ns.iter().max().unwrap()
}

/// Holds what is said of the clocks at a time against the truth. Returns the largest error that was said.
fn check(clocks: &Clocks, hosts: &[Host], at_ns: i64) -> Result<u64, TestCaseError> {
    let offsets = clocks.offsets(hosts.iter().map(|host| &host.name), u64::try_from(at_ns).unwrap());
    let mut worst_ns = 0;
    for host in hosts {
        let Some(offset) = offsets.get(&host.name) else { continue };
        let reference = hosts.iter().find(|host| host.name == offset.reference).unwrap();
        let truth = host.ahead_at(at_ns) - reference.ahead_at(at_ns);
        prop_assert!(
            offset.offset_ns.abs_diff(truth) <= offset.error_ns,
            "{}: {offset:?}, in truth {truth}",
            host.name
        );
        worst_ns = worst_ns.max(offset.error_ns);
    }
    Ok(worst_ns)
}

fn any_hosts() -> impl Strategy<Value = Vec<Host>> {
    let one = (-30 * S..30 * S, -95_000..95_000_i64);
    proptest::collection::vec(one, 2..6).prop_map(|all| {
        all.into_iter().enumerate().map(|(index, (ahead, drift))| Host::new(index, ahead, drift)).collect()
    })
}

/// Of some of `n` hosts, with calls up to two seconds apart and transfers of up to 50 ms.
fn any_collective(n: usize) -> impl Strategy<Value = Collective> {
    proptest::sample::subsequence((0..n).collect::<Vec<_>>(), 2..=n).prop_flat_map(|members| {
        let n = members.len();
        let called = proptest::collection::vec(0..2 * S, n);
        let took = proptest::collection::vec(50_000..50 * MS, n);
        (Just(members), called, took).prop_map(|(members, called_ns, took_ns)| Collective {
            members,
            called_ns,
            took_ns,
        })
    })
}

fn any_world() -> impl Strategy<Value = (Vec<Host>, Vec<(Collective, i64)>)> {
    any_hosts().prop_flat_map(|hosts| {
        let one = (any_collective(hosts.len()), 0..20 * S);
        (Just(hosts), proptest::collection::vec(one, 1..80))
    })
}

proptest! {
    #[test]
    fn the_true_offset_is_always_within_the_bound((hosts, collectives) in any_world()) {
        let (mut clocks, mut now_ns) = (Clocks::default(), BEGIN_NS);
        // One communicator for each set of members.
        let mut sets: Vec<(Vec<usize>, u64)> = Vec::new();
        for (one, pause_ns) in &collectives {
            let which = sets.iter().position(|(members, _)| *members == one.members).unwrap_or_else(|| {
                sets.push((one.members.clone(), 0));
                sets.len() - 1
            });
            let number = sets[which].1;
            sets[which].1 += 1;
            now_ns = run(&mut clocks, &hosts, which, number, one, now_ns) + pause_ns;
            check(&clocks, &hosts, now_ns)?;
        }
        for back_s in [1, 10, 100] {
            check(&clocks, &hosts, (now_ns - back_s * S).max(BEGIN_NS))?;
        }
        check(&clocks, &hosts, now_ns + 300 * S)?;
    }
}

/// A second's operations of hosts that come within 20 ms of each other, each in its turn last, and move bytes for 2 ms.
fn a_minute(clocks: &mut Clocks, hosts: &[Host], from_ns: i64) -> i64 {
    let n = hosts.len();
    for step in 0..60_usize {
        let late =
            |member: usize| 20 * MS * i64::try_from((member + step) % n).unwrap() / i64::try_from(n).unwrap();
        let one = Collective {
            members: (0..n).collect(),
            called_ns: (0..n).map(late).collect(),
            took_ns: vec![2 * MS; n],
        };
        let number = u64::try_from((from_ns - BEGIN_NS) / S).unwrap() + step as u64;
        run(clocks, hosts, 0, number, &one, from_ns + i64::try_from(step).unwrap() * S);
    }
    from_ns + 60 * S
}

#[test]
fn hosts_that_are_last_by_turns_are_known_to_milliseconds() {
    let hosts: Vec<Host> = [(0, 0), (30 * S, 100_000), (-30 * S, -100_000), (7 * MS, 50_000)]
        .into_iter()
        .enumerate()
        .map(|(index, (ahead, drift))| Host::new(index, ahead, drift))
        .collect();
    let mut clocks = Clocks::default();
    let end_ns = a_minute(&mut clocks, &hosts, BEGIN_NS);
    let error_ns = check(&clocks, &hosts, end_ns).unwrap();
    assert!(error_ns < 5_000_000, "{error_ns}");
    assert!(
        check(&clocks, &hosts, BEGIN_NS + 30 * S).unwrap() < 5_000_000,
        "and as they were half a minute ago"
    );
    let offsets = clocks.offsets(hosts.iter().map(|host| &host.name), u64::try_from(end_ns).unwrap());
    let of = |index: usize| offsets[&hosts[index].name].offset_ns - hosts[index].ahead_at(end_ns);
    assert!((1..4).all(|index| of(index).abs() < MS), "{offsets:?}");
}

#[test]
fn one_that_is_always_last_is_placed_by_when_all_complete() {
    let hosts = [Host::new(0, 0, 0), Host::new(1, 5 * S, 0), Host::new(2, -5 * S, 0)];
    let mut clocks = Clocks::default();
    for step in 0..60 {
        let one =
            Collective { members: vec![0, 1, 2], called_ns: vec![0, MS, 400 * MS], took_ns: vec![2 * MS; 3] };
        run(&mut clocks, &hosts, 0, u64::try_from(step).unwrap(), &one, BEGIN_NS + step * S);
    }
    let now_ns = BEGIN_NS + 60 * S;
    let error_ns = check(&clocks, &hosts, now_ns).unwrap();
    assert!(
        error_ns > 100_000_000,
        "by the bounds alone it might as well have a clock that is ahead: {error_ns}"
    );
    let offsets = clocks.offsets(hosts.iter().map(|host| &host.name), u64::try_from(now_ns).unwrap());
    assert!((offsets[&hosts[2].name].offset_ns + 5 * S).abs() < MS, "{offsets:?}");
}

#[test]
fn hosts_without_a_communicator_in_common_are_joined_by_others() {
    let hosts: Vec<Host> =
        (0..4).map(|index| Host::new(index, i64::try_from(index).unwrap() * 3 * S, 0)).collect();
    let mut clocks = Clocks::default();
    for step in 0..20 {
        for (which, members) in [(0, vec![2, 3]), (1, vec![0, 1]), (2, vec![1, 2])] {
            let late = [0, 3 * MS];
            let called_ns =
                vec![late[usize::try_from(step % 2).unwrap()], late[usize::try_from(1 - step % 2).unwrap()]];
            let one = Collective { members, called_ns, took_ns: vec![MS; 2] };
            run(&mut clocks, &hosts, which, u64::try_from(step).unwrap(), &one, BEGIN_NS + step * S);
        }
    }
    let now_ns = BEGIN_NS + 20 * S;
    assert!(check(&clocks, &hosts, now_ns).unwrap() < 10_000_000);
    assert_eq!(clocks.offsets(hosts.iter().map(|host| &host.name), u64::try_from(now_ns).unwrap()).len(), 4);
    let apart = [&hosts[0].name, &hosts[3].name];
    assert!(
        clocks.offsets(apart.into_iter(), u64::try_from(now_ns).unwrap()).is_empty(),
        "of a job that has no others"
    );
}

#[test]
fn a_clock_that_was_set_is_believed_at_once_and_processes_that_differ_are_not() {
    let before = [Host::new(0, 0, 0), Host::new(1, 3 * S, 0)];
    let after = [before[0].clone(), Host::new(1, -20 * S, 0)];
    let mut clocks = Clocks::default();
    let now_ns = a_minute(&mut clocks, &before, BEGIN_NS);
    let now_ns = a_minute(&mut clocks, &after, now_ns);
    check(&clocks, &after, now_ns).unwrap();
    // Two ranks of one host whose clocks are 20 s apart: no offset of that host explains both.
    for member in [&before[0], &before[1], &after[1]] {
        let (called_ns, completed_ns) = (member.clock(now_ns), member.clock(now_ns + MS));
        hear(
            &mut clocks,
            Heard {
                comm: comm(7),
                n_ranks: 3,
                host: &member.name,
                operation: &completed(0, called_ns, completed_ns),
                at_ns: u64::try_from(now_ns).unwrap(),
                now_ns: u64::try_from(now_ns).unwrap(),
            },
        );
    }
    let offsets = clocks.offsets(before.iter().map(|host| &host.name), u64::try_from(now_ns).unwrap());
    assert!(offsets.is_empty(), "{offsets:?}");
}

#[test]
fn what_one_agent_tells_long_before_another_is_kept_as_far_as_is_of_use() {
    let hosts = [Host::new(0, 0, 0), Host::new(1, 3 * S, 0)];
    let mut clocks = Clocks::default();
    let mut now_ns = BEGIN_NS;
    for second in 0..20_u64 {
        // A thousand operations a second, told once a second by one host and then by the other.
        for host in &hosts {
            for index in 0..1_000 {
                let at_ns = now_ns + i64::try_from(index).unwrap() * MS;
                hear(
                    &mut clocks,
                    Heard {
                        comm: comm(0),
                        n_ranks: 2,
                        host: &host.name,
                        operation: &completed(
                            second * 1_000 + index,
                            host.clock(at_ns),
                            host.clock(at_ns + 500_000),
                        ),
                        at_ns: u64::try_from(at_ns).unwrap(),
                        now_ns: u64::try_from(at_ns).unwrap(),
                    },
                );
            }
        }
        now_ns += S;
    }
    assert!(check(&clocks, &hosts, now_ns).unwrap() < 2_000_000);
    assert_eq!(clocks.offsets(hosts.iter().map(|host| &host.name), u64::try_from(now_ns).unwrap()).len(), 2);
    let waiting: usize = clocks.gathered.values().map(|gathered| gathered.hosts().count()).sum();
    assert!(waiting < 100, "{waiting}");
    clocks.sweep(u64::try_from(now_ns + 30 * S).unwrap(), &mut Losses::default());
    assert!(clocks.gathered.is_empty() && !clocks.links.is_empty(), "what was left told something yet");
    clocks.sweep(u64::try_from(now_ns + 3_600 * S).unwrap(), &mut Losses::default());
    assert!(clocks.links.is_empty() && clocks.hosts.is_empty(), "{clocks:?}");
}

/// Two hosts, one 30 s ahead, whose agents say when they send.
#[test]
fn times_are_told_by_our_clock_and_by_the_agents_where_no_collectives_tell() {
    let cluster = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 2)], 4);
    let ahead_ns = [0, 30_000_000_000];
    let tell = |model: &mut Model, rank: u32, s: u64, operations: Vec<Operation>| {
        let mut process = cluster.process(rank);
        process.completed_operations = operations;
        let sent_at_ns = at(s).0 + ahead_ns[rank as usize];
        let told = Batch {
            agent_id: format!("agent-{rank}"),
            agent_host: cluster.ranks[rank as usize].host.clone(),
            sent_at_ns,
            posted_at_ns: sent_at_ns,
            ..batch(s, s, vec![process])
        };
        // The way takes 5 ms.
        model.apply(&told, Timestamp(at(s).0 + 5_000_000));
    };
    let mut model = Model::new();
    for rank in [0, 1] {
        tell(&mut model, rank, 2, Vec::new());
    }
    let hosts: Vec<Name> = vec!["host-0".into(), "host-1".into()];
    let by_agents = model.clocks(&hosts, (at(2), at(2)));
    let of = |clocks: &HostClocks, host: &str| clocks.of(host).unwrap().clone();
    assert_eq!(of(&by_agents, "host-1").basis, ClockBasis::Agent);
    assert_eq!(of(&by_agents, "host-1").offset_ns, 29_995_000_000);
    for s in 3..20 {
        for rank in [0_u32, 1] {
            // They are late by turns.
            let late_ns = u64::from(s % 2 == u64::from(rank)) * 8_000_000;
            let mut operation = cluster.operation(s, s, Some(s));
            operation.call_number = Some(s);
            operation.issued_at_ns = at(s).0 + ahead_ns[rank as usize] + late_ns;
            operation.completed_at_ns = Some(at(s).0 + ahead_ns[rank as usize] + 9_000_000);
            tell(&mut model, rank, s + 1, vec![operation]);
        }
    }
    let clocks = model.clocks(&hosts, (at(3), at(20)));
    assert_eq!(of(&clocks, "host-0").basis, ClockBasis::Reference);
    let (one, other) = (of(&clocks, "host-0"), of(&clocks, "host-1"));
    assert_eq!(other.basis, ClockBasis::Collectives);
    assert!(other.error_ns < 5_000_000, "{other:?}");
    assert!((other.offset_ns - one.offset_ns).abs_diff(30 * S) <= other.error_ns, "{clocks:?}");
    assert!(one.offset_ns.abs() < 10 * MS, "our clock, but for the way: {one:?}");
    let theirs_ns = at(20).0 + u64::try_from(other.offset_ns).unwrap();
    assert_eq!(clocks.ours_ns("host-1", theirs_ns), at(20).0);
}

#[test]
fn each_of_very_many_hosts_is_found_at_once_and_counts_once() {
    let n_hosts = 50_000_u32;
    let mut gathered = Gathered::default();
    let mut settled = Vec::new();
    // Two ranks of each host: the first completion and the last call count.
    for rank in 0..2 * n_hosts {
        let (host, second) = (rank % n_hosts, u64::from(rank / n_hosts));
        let operation = completed(1, 10 + second, 100 - second);
        settled.extend(gathered.take((1, &operation), host, 2 * n_hosts, 1_000));
    }
    let [Settled { sides, is_whole: true, .. }] = &settled[..] else {
        panic!("{} operations", settled.len())
    };
    assert_eq!(sides.len(), n_hosts as usize);
    assert!(sides.iter().all(|side| (side.completed_ns, side.called_ns) == (99, 11)));
}

#[test]
fn what_an_agent_says_of_the_future_or_of_long_ago_pushes_out_nothing() {
    let hosts = [Host::new(0, 0, 0), Host::new(1, 3 * S, 0)];
    let mut clocks = Clocks::default();
    let now_ns = a_minute(&mut clocks, &hosts, BEGIN_NS);
    let before = clocks.offsets(hosts.iter().map(|host| &host.name), u64::try_from(now_ns).unwrap());
    assert_eq!(before.len(), 2);
    let now_ns = u64::try_from(now_ns).unwrap();
    for (number, at_ns) in [(1_000, u64::MAX), (1_001, now_ns + 86_400_000_000_000), (1_002, 0)] {
        for host in &hosts {
            let operation = completed(number, host.clock(BEGIN_NS), host.clock(BEGIN_NS + 500 * MS));
            let (comm, operation) = (comm(0), &operation);
            hear(&mut clocks, Heard { comm, n_ranks: 2, host: &host.name, operation, at_ns, now_ns });
        }
    }
    assert_eq!(clocks.offsets(hosts.iter().map(|host| &host.name), now_ns), before);
    clocks.sweep(now_ns + 700_000_000_000, &mut Losses::default());
    assert!(clocks.links.is_empty(), "nothing of the future stays for ever");
}

#[test]
fn pairs_of_hosts_beyond_the_limit_are_counted() {
    let (mut clocks, mut losses) = (Clocks::default(), Losses::default());
    let side = |host| Side::of(host, &completed(1, 10, 20));
    let hosts = u32::try_from(MAX_LINKS).unwrap() + 4;
    let sides: Vec<Side> = (0..hosts).map(side).collect();
    let (primitive, bytes) = (Primitive::AllReduce, 1_024);
    let settled = Settled { primitive, bytes, at_ns: 1_000, is_whole: true, is_started: false, sides };
    clocks.settle(&settled, &mut losses);
    assert_eq!(clocks.links.len(), MAX_LINKS);
    assert_eq!(losses.by_reason()["clock_limit"], 3);
}
