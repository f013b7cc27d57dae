use ringscope_api::Finding;
use ringscope_model::Model;
use ringscope_samples::cluster::{Cluster, at, batch, connection, ended, hardware, nic};
use ringscope_wire::batch::{
    Connection, ConnectionEnd, ConnectionState, FailedQueuePair, GidKind, HostHardware, Nic, NicCounter,
    ProcessState, QueuePairState,
};

use crate::Diagnosis;

/// A daemon that is told of a job's connections and of its hosts' hardware, every five seconds.
struct World {
    cluster: Cluster,
    model: Model,
    diagnosis: Diagnosis,
    seq_number: u64,
    s: u64,
}

impl World {
    /// A rank on each of so many hosts: host-0 and on.
    fn new(n: usize) -> Self {
        let names: Vec<String> = (0..n).map(|i| format!("host-{i}")).collect();
        Self::named(&names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn named(names: &[&str]) -> Self {
        let hosts: Vec<(&str, u32, u32)> = names.iter().map(|name| (*name, 1, 2)).collect();
        let cluster = Cluster::new(&hosts, 2);
        let (model, diagnosis) = (Model::new(), Diagnosis::new());
        Self { cluster, model, diagnosis, seq_number: 0, s: 0 }
    }

    fn apply(&mut self, processes: Vec<ringscope_wire::batch::Process>, hosts: Vec<HostHardware>) {
        self.s += 5;
        self.seq_number += 1;
        let mut hosts: Vec<_> =
            hosts.into_iter().map(|host| HostHardware { read_at_ns: at(self.s).0, ..host }).collect();
        let pairs =
            hosts.iter_mut().flat_map(|host| &mut host.nics).flat_map(|nic| &mut nic.failed_queue_pairs);
        pairs.filter(|pair| pair.asked_at_ns == 0).for_each(|pair| pair.asked_at_ns = at(self.s).0);
        let told =
            ringscope_wire::batch::Batch { hardware: hosts, ..batch(self.seq_number, self.s, processes) };
        self.model.apply(&told, at(self.s));
        self.diagnosis.update(&self.model, None, at(self.s));
    }

    /// Each rank's connections, told whole.
    fn connect(&mut self, ranks: &[Vec<Connection>]) {
        let tell = |(rank, connections): (u32, &Vec<Connection>)| {
            let connections = connections.clone();
            ringscope_wire::batch::Process { connections, ..self.cluster.process(rank) }
        };
        let told = (0..).zip(ranks).map(tell).collect();
        self.apply(told, Vec::new());
    }

    /// The hardware of each host: one port.
    fn read(&mut self, nics: Vec<Nic>) {
        let hosts = nics.into_iter().enumerate();
        let hosts = hosts.map(|(i, nic)| hardware(&format!("host-{i}"), 0, vec![nic])).collect();
        self.apply(Vec::new(), hosts);
    }

    fn end(&mut self, rank: u32, state: ProcessState) {
        let told = ended(self.cluster.process(rank), state, self.s);
        self.apply(vec![told], Vec::new());
    }

    fn wait(&mut self, s: u64) {
        for _ in 0..s / 5 {
            self.apply(Vec::new(), Vec::new());
        }
    }

    fn firing(&self) -> Vec<&Finding> {
        let mut found: Vec<&Finding> =
            self.diagnosis.firing().filter(|finding| finding.finding.is_about_rdma()).collect();
        found.sort_by(|one, other| (&one.host, &one.nic).cmp(&(&other.host, &other.nic)));
        found
    }

    /// What fires, as lines, sorted.
    fn fires(&self) -> Vec<String> {
        let line = |finding: &&Finding| {
            let (kind, severity) = (finding.finding.label(), finding.severity.label());
            format!("{kind} {severity} [{}] {}", finding.cause, finding.message)
        };
        let mut lines: Vec<String> = self.firing().iter().map(line).collect();
        lines.sort();
        lines
    }
}

/// A connection from this device to rank `rank`, on the host of its number.
fn to(rank: u32) -> Connection {
    let mut one = connection("mlx5_0", &format!("host-{rank}"), "mlx5_0");
    let remote = one.remote.as_mut().unwrap();
    (remote.pid, remote.global_rank) = (1_000 + rank, Some(rank));
    one
}

fn at_place(place: u32, one: Connection) -> Connection {
    Connection { place, ..one }
}

fn failed(one: Connection) -> Connection {
    let error = "transport retry counter exceeded (status 12)".to_owned();
    Connection { state: ConnectionState::Failed.into(), error, ..one }
}

fn counter(name: &str, value: u64) -> Vec<NicCounter> {
    vec![NicCounter { name: name.to_owned(), value }]
}

fn retransmits(name: &str, value: u64) -> Nic {
    Nic { retransmits: counter(name, value), ..nic("mlx5_0") }
}

/// Two readings: the counter of each host rises so far, while each sends so many bytes.
fn lose(world: &mut World, counter: &str, risen: &[u64], sent_bytes: u64) {
    for reading in 0..2 {
        let port = |risen: &u64| Nic {
            sent_bytes: Some(1 << 40 | (sent_bytes * reading)),
            ..retransmits(counter, 1_000_000 + risen * reading)
        };
        world.read(risen.iter().map(port).collect());
    }
}

#[track_caller]
fn check_lost(counter: &str, risen: &[u64], sent_bytes: u64, expected: &[&str]) {
    let mut world = World::new(risen.len());
    lose(&mut world, counter, risen, sent_bytes);
    assert_eq!(world.fires(), expected, "{counter} {risen:?}");
}

const GIGABYTE: u64 = 1_000_000_000;

#[test]
fn a_port_that_sends_again_more_than_its_like_or_much_of_all_that_it_sends() {
    let worse = "rdma_retransmits warning [lost_packets] mlx5_0 of host-1 sends again what was lost: \
                 local_ack_timeout_err rose by 700 (by 0 on most of its like) in ten minutes";
    check_lost("local_ack_timeout_err", &[0, 700, 0, 0], GIGABYTE, &[worse]);
    let alone = "rdma_retransmits critical [lost_packets] mlx5_0 of host-0 sends again what was lost: rcvd_seq_err rose \
                 by 20000 in ten minutes, about one packet in 48";
    check_lost("rcvd_seq_err", &[20_000], GIGABYTE, &[alone]);
    // Twins: few, or as many as all, or by the side that receives, or a counter that stands still.
    check_lost("local_ack_timeout_err", &[0, 99, 0, 0], GIGABYTE, &[]);
    check_lost("local_ack_timeout_err", &[600, 700, 650, 800], GIGABYTE, &[]);
    check_lost("out_of_sequence", &[0, 90_000, 0, 0], GIGABYTE, &[]);
    check_lost("out_of_seq_request", &[90_000], GIGABYTE, &[]);
    check_lost("retrans_pkts", &[0, 90_000, 0, 0], GIGABYTE, &[]);
    check_lost("rcvd_seq_err", &[0], GIGABYTE, &[]);
    check_lost("rcvd_seq_err", &[900], GIGABYTE, &[]);
    check_lost("local_ack_timeout_err", &[0, 700, 0, 0], 1_000 * GIGABYTE, &[]);
}

#[test]
fn of_large_packets_fewer_are_sent_and_what_is_received_does_not_count() {
    let mut world = World::new(1);
    for reading in 0..2 {
        world.read(vec![Nic {
            sent_bytes: Some(GIGABYTE * reading),
            received_bytes: Some(100 * GIGABYTE * reading),
            mtu_bytes: Some(4096),
            ..retransmits("rcvd_seq_err", 1_000_000 + 900 * reading)
        }]);
    }
    let found = world.fires();
    assert!(found.len() == 1 && found[0].ends_with(", about one packet in 271"), "{found:?}");
}

#[test]
fn what_is_sent_again_to_a_process_that_had_ended_is_no_trouble() {
    let port = |value| retransmits("rcvd_seq_err", value);
    let severities = |ends_first: bool| {
        let mut world = World::new(2);
        world.connect(&[vec![to(1)], vec![to(0)]]);
        let nic = |value, sent| Nic { sent_bytes: Some(sent), ..port(value) };
        world.read(vec![nic(7, 0)]);
        if ends_first {
            world.end(1, ProcessState::Exited);
        }
        world.read(vec![nic(7, 0)]);
        world.read(vec![nic(9_000, GIGABYTE)]);
        world.end(1, ProcessState::Exited);
        let found = world.firing();
        found.iter().map(|one| (one.severity.label(), one.cause.clone())).collect::<Vec<_>>()
    };
    assert_eq!(severities(true), [("info", "after_a_death".to_owned())]);
    assert_eq!(severities(false), [("warning", "lost_packets".to_owned())], "its end came after that");
}

#[test]
fn losses_that_last_are_not_explained_by_an_end_nor_by_that_of_somebody_else() {
    let port = |value| Nic { sent_bytes: Some(value * 100_000), ..retransmits("rcvd_seq_err", value) };
    let mut world = World::new(3);
    world.connect(&[vec![to(1)], vec![to(0)], Vec::new()]);
    world.read(vec![port(7)]);
    world.end(1, ProcessState::Exited);
    world.read(vec![port(7)]);
    (1..30).for_each(|reading| world.read(vec![port(7 + 300 * reading)]));
    assert_eq!(world.firing()[0].cause, "after_a_death");
    (30..60).for_each(|reading| world.read(vec![port(7 + 300 * reading)]));
    assert_eq!(world.firing()[0].cause, "lost_packets", "minutes after that");
    // The one that ended was at the end of no connection of this port, and its connections live on.
    let mut world = World::new(3);
    world.connect(&[vec![to(1)], vec![to(0)], Vec::new()]);
    world.read(vec![port(7)]);
    world.end(2, ProcessState::Exited);
    world.read(vec![port(7)]);
    world.read(vec![port(9_000)]);
    assert_eq!(world.firing()[0].cause, "lost_packets");
}

#[test]
fn one_retransmit_in_an_hour_and_what_was_long_ago_is_no_trouble() {
    let mut world = World::new(1);
    let port = |value, sent| Nic { sent_bytes: Some(sent), ..retransmits("packet_seq_err", value) };
    world.read(vec![port(0, 0)]);
    world.read(vec![port(1, 4096)]);
    assert_eq!(world.fires(), [""; 0]);
    world.read(vec![port(20_000, GIGABYTE)]);
    assert_eq!(world.firing().len(), 1);
    for _ in 0..130 {
        world.read(vec![port(20_000, GIGABYTE)]);
    }
    assert_eq!(world.fires(), [""; 0], "ten minutes later");
}

#[test]
fn a_port_that_all_losers_send_to_is_named_and_they_are_not() {
    let mut world = World::new(8);
    let (a, b, c) = (at_place(1, to(1)), at_place(2, to(2)), at_place(3, to(3)));
    world.connect(&[vec![b.clone(), c.clone()], vec![c.clone()], vec![a.clone(), c], vec![a, b]]);
    lose(&mut world, "packet_seq_err", &[900, 800, 700, 0, 0, 0, 0, 0], GIGABYTE);
    let expected = "rdma_retransmits warning [lost_towards] what is sent to mlx5_0 of host-3 is lost: all 3 ports that send \
                    again send to it, and to no other port all of them: mlx5_0 of host-0 (packet_seq_err rose \
                    by 900), mlx5_0 of host-1 (packet_seq_err rose by 800), mlx5_0 of host-2 (packet_seq_err rose by 700), \
                    in ten minutes";
    assert_eq!(world.fires(), [expected]);
    let found = &world.firing()[0];
    assert_eq!(
        (found.host.as_str(), found.nic.as_deref(), found.evidence.len()),
        ("host-3", Some("mlx5_0"), 3)
    );
    assert!(found.evidence[0].file.ends_with("/ports/1/hw_counters/packet_seq_err"), "{:?}", found.evidence);
    // Twin: one alone loses what it sends, to whomever.
    let mut world = World::new(3);
    world.connect(&[vec![at_place(1, to(1)), at_place(2, to(2))]]);
    lose(&mut world, "packet_seq_err", &[900, 0, 0], GIGABYTE);
    let found = world.fires();
    assert!(found[0].contains("mlx5_0 of host-0 sends again what was lost"), "{found:?}");
    assert!(found[0].ends_with("its connections lead to mlx5_0 of host-1 and mlx5_0 of host-2"), "{found:?}");
}

fn received(one: Connection) -> Connection {
    Connection { is_send: false, ..one }
}

#[test]
fn of_a_ring_the_port_that_loses_both_ways_is_named_alone() {
    // host-0 -> host-1 -> host-2 -> host-0, and each has the connection that it receives by.
    let mut world = World::new(3);
    let both = |next, before| vec![to(next), at_place(1, received(to(before)))];
    world.connect(&[both(1, 2), both(2, 0), both(0, 1)]);
    lose(&mut world, "packet_seq_err", &[9_000, 0, 8_000], GIGABYTE);
    let found = world.fires();
    assert!(
        found.len() == 1 && found[0].contains("[lost_packets] mlx5_0 of host-0 sends again"),
        "{found:?}"
    );
    assert!(found[0].ends_with("; what is sent to it from mlx5_0 of host-2 is lost too"), "{found:?}");
    // Twin: two that lose what they send to each other, of whom nobody knows which.
    let mut world = World::new(3);
    world.connect(&[vec![to(1)], vec![to(0)]]);
    lose(&mut world, "packet_seq_err", &[9_000, 8_000, 0], GIGABYTE);
    assert_eq!(world.firing().len(), 2, "{:?}", world.fires());
    // Where one loses much more, the other's confirmations are lost on the same way.
    let mut world = World::new(3);
    world.connect(&[vec![to(1)], vec![to(0)]]);
    lose(&mut world, "packet_seq_err", &[1_500, 9_000, 0], GIGABYTE);
    let found = world.fires();
    assert!(found.len() == 1 && found[0].contains("mlx5_0 of host-1 sends again"), "{found:?}");
    assert!(found[0].ends_with("; what is sent to it from mlx5_0 of host-0 is lost too"), "{found:?}");
}

#[test]
fn losers_that_have_nothing_to_do_with_others_do_not_hide_who_is_to_blame_for_those() {
    let mut world = World::new(12);
    let mut ranks = vec![vec![to(2)], vec![to(2)], Vec::new(), vec![to(4)]];
    ranks.resize(12, Vec::new());
    world.connect(&ranks);
    let mut risen = [0; 12];
    (risen[0], risen[1], risen[3]) = (900, 800, 700);
    lose(&mut world, "packet_seq_err", &risen, GIGABYTE);
    let found = world.fires();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("[lost_packets] mlx5_0 of host-3 "), "{found:?}");
    assert!(found[1].contains("[lost_towards] what is sent to mlx5_0 of host-2 is lost"), "{found:?}");
}

#[test]
fn requests_that_failed_name_their_counter_and_the_other_end() {
    let port = |value| Nic { failures: counter("retry_exceeded_err", value), ..nic("mlx5_0") };
    let mut world = World::new(2);
    world.connect(&[vec![failed(to(1))]]);
    world.read(vec![port(7)]);
    let of_pairs =
        |world: &World| world.fires().iter().filter(|line| line.starts_with("rdma_errors")).count();
    assert_eq!(of_pairs(&world), 0, "a counter that stands still");
    world.read(vec![port(8)]);
    let expected = "rdma_errors warning [failed_requests] requests of mlx5_0 of host-0 failed for good: \
                    retry_exceeded_err rose by 1 in ten minutes; the connections that failed led to mlx5_0 of host-1";
    assert!(world.fires().contains(&expected.to_owned()), "{:?}", world.fires());
    // The other end is killed for it: it failed all the same.
    world.end(1, ProcessState::Killed);
    assert!(world.fires().contains(&expected.to_owned()), "{:?}", world.fires());
    // Twin: the other end was gone before, and that is told elsewhere.
    let mut world = World::new(2);
    world.connect(&[vec![to(1)], Vec::new()]);
    world.read(vec![port(7)]);
    world.end(1, ProcessState::Exited);
    world.connect(&[vec![failed(to(1))]]);
    world.read(vec![port(8)]);
    let found = world.firing();
    let severities: Vec<_> = found.iter().map(|one| (one.severity.label(), one.cause.as_str())).collect();
    assert_eq!(severities, [("info", "peer_ended"); 2], "{:?}", world.fires());
    // Twin: the port there is down, which is told of that one.
    let mut world = World::new(2);
    world.connect(&[vec![to(1)], Vec::new()]);
    world.read(vec![port(7), nic("mlx5_0")]);
    world.read(vec![port(7), Nic { up: false, ..nic("mlx5_0") }]);
    world.connect(&[vec![failed(to(1))]]);
    world.read(vec![port(8), Nic { up: false, ..nic("mlx5_0") }]);
    let found = world.fires();
    let line = found.iter().find(|line| line.starts_with("rdma_errors info [port_down]"));
    assert!(line.is_some_and(|line| line.ends_with("; mlx5_0 of host-1 is down")), "{found:?}");
    // Twin: who ended there was of an earlier life of the job.
    let mut world = World::new(2);
    let before = world.cluster.process(1);
    world.apply(vec![before], Vec::new());
    world.end(1, ProcessState::Exited);
    world.wait(20);
    let mut again = world.cluster.process(0);
    again.identity.as_mut().unwrap().start_time_ns = at(world.s).0;
    again.connections = vec![failed(to(1))];
    world.apply(vec![again], Vec::new());
    assert_eq!(world.firing()[0].severity, ringscope_api::Severity::Critical, "{:?}", world.fires());
}

#[test]
fn requests_that_failed_after_an_end_in_the_job_are_explained_also_where_nobody_tells_of_connections() {
    let port = |value| Nic { failures: counter("req_transport_retries_exceeded", value), ..nic("mlx5_0") };
    let mut world = World::new(2);
    world.connect(&[Vec::new(), Vec::new()]);
    world.read(vec![port(7)]);
    world.end(1, ProcessState::Killed);
    world.read(vec![port(7)]);
    world.read(vec![port(9)]);
    assert_eq!(
        world.fires(),
        ["rdma_errors info [after_a_death] requests of mlx5_0 of host-0 failed for good: \
          req_transport_retries_exceeded rose by 2 in ten minutes; process 1001 of host-1 in job train was killed before, \
          and who sends to a process that is gone counts that"]
    );
    // Twin: they failed first, and it was killed for that.
    let mut world = World::new(2);
    world.connect(&[Vec::new(), Vec::new()]);
    world.read(vec![port(7)]);
    world.read(vec![port(9)]);
    world.end(1, ProcessState::Killed);
    assert_eq!(world.firing()[0].severity, ringscope_api::Severity::Warning);
    // Twin: the job had ended on this host too, so that nobody of it was there to send.
    let mut world = World::new(2);
    world.connect(&[Vec::new(), Vec::new()]);
    world.read(vec![port(7)]);
    world.end(0, ProcessState::Killed);
    world.end(1, ProcessState::Killed);
    world.read(vec![port(7)]);
    world.read(vec![port(9)]);
    assert_eq!(world.firing()[0].severity, ringscope_api::Severity::Warning);
}

const FAILED_PAIR: &str = "queue_pair_error critical [connection_failed] rank 0 of host-0: queue pair 17 of mlx5_0 port 1 to \
                           queue pair 18 of mlx5_0 of host-1 (rank 1) failed: transport retry counter exceeded (status 12)";

#[test]
fn a_connection_that_failed_while_its_process_lives() {
    let mut world = World::new(2);
    world.connect(&[vec![failed(to(1))], Vec::new()]);
    assert_eq!(world.fires(), [FAILED_PAIR]);
    let found = world.firing()[0].clone();
    assert_eq!((found.host.as_str(), found.culprits), ("host-0", vec!["host-1".to_owned()]));
    assert!(found.accused.is_empty(), "that the other end did not answer may lie at either");
    assert_eq!(found.evidence[0].text, "transport retry counter exceeded (status 12)");
    // Twins: its process ended, which flushes what it had; or it has another connection there by now; or it was closed.
    world.end(0, ProcessState::Exited);
    assert_eq!(world.fires(), [""; 0]);
    let mut world = World::new(2);
    world.connect(&[vec![failed(to(1))]]);
    world.connect(&[vec![failed(to(1)), at_place(1, to(1))]]);
    assert_eq!(world.fires(), [""; 0], "replaced");
    // Another rail, or another process of the host, replaces nothing; the same communicator over another rail does.
    let over = |comm_hash, place, one: Connection| {
        let mut one = at_place(place, Connection { comm_hash, ..one });
        one.local.as_mut().unwrap().device = if place > 0 { "mlx5_1" } else { "mlx5_0" }.to_owned();
        one
    };
    let of_no_rank = |pid, mut one: Connection| {
        let remote = one.remote.as_mut().unwrap();
        (remote.pid, remote.global_rank) = (pid, None);
        one
    };
    for (failed, instead, is_replaced) in [
        (over(7, 0, failed(to(1))), over(8, 1, to(1)), false),
        (over(7, 0, failed(to(1))), over(7, 1, to(1)), true),
        (of_no_rank(1_001, failed(to(1))), at_place(1, of_no_rank(9, to(1))), false),
        (of_no_rank(1_001, failed(to(1))), at_place(1, of_no_rank(1_001, to(1))), true),
    ] {
        let mut world = World::new(2);
        world.connect(&[vec![failed.clone()]]);
        world.connect(&[vec![failed, instead.clone()]]);
        assert_eq!(world.fires().is_empty(), is_replaced, "{instead:?}");
    }
    let closed = Connection { state: ConnectionState::Closed.into(), ..to(1) };
    let mut world = World::new(2);
    world.connect(&[vec![closed]]);
    assert_eq!(world.fires(), [""; 0]);
}

#[test]
fn connections_of_several_hosts_that_failed_to_one_port_name_that() {
    let mut world = World::new(3);
    world.connect(&[vec![failed(to(2))], vec![failed(to(2))], Vec::new()]);
    let found = world.fires();
    assert_eq!(found.len(), 1, "{found:?}");
    let start = "queue_pair_error critical [connections_to] mlx5_0 of host-2: all connections that failed lead to it, 2 \
                 connections of 2 hosts; rank 0 of host-0: queue pair 17 of mlx5_0 port 1 to";
    assert!(found[0].starts_with(start), "{found:?}");
    assert_eq!(world.firing()[0].accused[0].global_rank, Some(2));
}

#[test]
fn who_is_at_the_other_end_is_found_by_its_rank_before_its_name() {
    // The job has two hosts of one short name; the other end names itself without its domain, and by a pid of its own.
    let mut world = World::named(&["a.x", "a.y", "b.x"]);
    let mut one = failed(to(1));
    let remote = one.remote.as_mut().unwrap();
    (remote.host, remote.pid) = ("a".to_owned(), 7);
    world.connect(&[vec![one.clone()], Vec::new(), Vec::new()]);
    assert_eq!(world.firing()[0].culprits, ["a.y"], "{:?}", world.fires());
    // By host and pid where it has no rank; names with two domains are of two hosts.
    let cases: [(&str, u32, &[&str]); 4] =
        [("a", 1_001, &["a.y"]), ("b", 7, &["b.x"]), ("a", 7, &[]), ("b.z", 1_002, &[])];
    for (host, pid, expected) in cases {
        let mut world = World::named(&["a.x", "a.y", "b.x"]);
        let remote = one.remote.as_mut().unwrap();
        (remote.host, remote.pid, remote.global_rank) = (host.to_owned(), pid, None);
        world.connect(&[vec![one.clone()], Vec::new(), Vec::new()]);
        assert_eq!(world.firing()[0].culprits, expected, "{:?}", world.fires());
    }
}

#[test]
fn a_port_that_died_is_named_where_both_ends_tell_of_it() {
    let of = |ranks: &[u32]| -> Vec<Connection> {
        (0..).zip(ranks).map(|(place, rank)| at_place(place, failed(to(*rank)))).collect()
    };
    let mut world = World::new(6);
    // Beside it one link alone, of other hosts.
    world.connect(&[of(&[1]), of(&[0, 2]), of(&[1]), of(&[4]), Vec::new(), Vec::new()]);
    let found = world.fires();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("[connection_failed] rank 3 of host-3"), "{found:?}");
    let start = "[connections_to] mlx5_0 of host-1: all connections that failed lead to it, 2 connections of 2 hosts;";
    assert!(found[1].contains(start), "{found:?}");
    // Twin: one link that both its ends tell of.
    let mut world = World::new(2);
    world.connect(&[of(&[1]), of(&[0])]);
    let found = world.fires();
    assert!(found.len() == 2 && found.iter().all(|one| one.contains("[connection_failed]")), "{found:?}");
}

#[test]
fn a_queue_pair_that_stands_in_an_error_state_and_one_that_is_taken_down() {
    let broken = |state: QueuePairState, broken_at_ns| {
        let mut one = Connection { broken_at_ns, ..to(1) };
        one.queue_pairs[0].state = state.into();
        one
    };
    let mut world = World::new(2);
    world.connect(&[vec![broken(QueuePairState::Err, at(5).0)]]);
    world.wait(10);
    assert_eq!(world.fires(), [""; 0], "seen for a moment");
    world.connect(&[vec![broken(QueuePairState::Err, at(15).0)]]);
    assert_eq!(
        world.fires(),
        [FAILED_PAIR.replace("failed: transport retry counter exceeded (status 12)", "stands in state ERR")]
    );
    world.connect(&[vec![broken(QueuePairState::Rts, 0)]]);
    assert_eq!(world.fires(), [""; 0]);
}

#[test]
fn connections_over_a_port_that_is_down_say_so_once() {
    let read = |world: &mut World, up: bool| {
        world.read(vec![nic("mlx5_0"), Nic { up, ..nic("mlx5_0") }, nic("mlx5_0")]);
    };
    let refused = || Connection { error: "remote access error (status 10)".to_owned(), ..failed(to(1)) };
    let check = |up: bool, first: Connection, expected: &str| {
        let mut world = World::new(3);
        read(&mut world, true);
        read(&mut world, up);
        world.connect(&[vec![first], vec![failed(to(0))], Vec::new()]);
        let found = world.firing().into_iter().filter(|one| one.cause != "down").collect::<Vec<_>>();
        assert!(found[0].message.starts_with(expected), "{found:?}");
        (found.len(), found[0].host.clone(), found[0].accused.clone())
    };
    let own = "rank 0 of host-0: queue pair 17";
    let down = "mlx5_0 of host-1 is down: 2 connections over it failed; rank 0 of host-0: ";
    let (n, host, accused) = check(false, failed(to(1)), down);
    assert_eq!((n, host.as_str(), accused.len()), (1, "host-1", 1));
    assert_eq!((accused[0].host.as_str(), accused[0].doing.as_str()), ("host-1", "its port is down"));
    // Twins: its port is up; or that port has carried an answer, so that it is not why. Who was refused did more than not to
    // be answered.
    for up in [true, false] {
        let (n, host, accused) = check(up, refused(), own);
        assert_eq!((n, host.as_str(), accused[0].global_rank), (2, "host-0", Some(0)));
    }
    // Twin: the port goes down long after that.
    let mut world = World::new(3);
    read(&mut world, true);
    world.connect(&[vec![failed(to(1))]]);
    (0..6).for_each(|_| read(&mut world, true));
    read(&mut world, false);
    let causes: Vec<_> = world.firing().iter().map(|one| one.cause.as_str()).collect();
    assert_eq!(causes, ["connection_failed"]);
}

#[test]
fn the_end_that_failed_first_is_accused_and_not_who_heard_of_it() {
    let echo =
        |one| Connection { error: "the other end has failed: out of memory".to_owned(), ..failed(one) };
    let refused = |one| Connection { error: "register 8 bytes: out of memory".to_owned(), ..failed(one) };
    let own = "queue_pair_error critical [connection_failed] rank 1 of host-1: queue pair 17 of mlx5_0 port 1 to queue pair 18 \
               of mlx5_0 of host-0 (rank 0) failed: register 8 bytes: out of memory";
    let mut world = World::new(2);
    world.connect(&[vec![echo(to(1))], vec![refused(to(0))]]);
    assert_eq!(world.fires(), [own]);
    let accused =
        |world: &World| world.firing()[0].accused.iter().map(|one| one.global_rank).collect::<Vec<_>>();
    assert_eq!(accused(&world), [Some(1)]);
    // It has told nothing of that itself: accused all the same.
    let mut world = World::new(2);
    world.connect(&[vec![echo(to(1))], vec![to(0)]]);
    assert!(world.fires()[0].contains("rank 0 of host-0"), "{:?}", world.fires());
    assert_eq!(accused(&world), [Some(1)]);
}

#[test]
fn the_plugin_begins_with_these_words_what_it_knows_by_the_other_end() {
    assert_eq!(super::queue_pairs::OTHER_END, rsnet_connections::layout::OTHER_END);
}

#[test]
fn a_connection_that_could_not_begin_names_no_other_end() {
    let nobody = |one: Connection| Connection {
        remote: Some(ConnectionEnd::default()),
        queue_pairs: Vec::new(),
        error: "make a queue pair: no room".to_owned(),
        ..failed(one)
    };
    let mut world = World::new(3);
    world.connect(&[vec![nobody(to(1))], Vec::new(), vec![nobody(to(1))]]);
    let told = |rank| {
        format!(
            "queue_pair_error critical [connection_failed] rank {rank} of host-{rank}: mlx5_0 port 1 could not begin a connection: \
             make a queue pair: no room"
        )
    };
    assert_eq!(world.fires(), [told(0), told(2)], "each for itself: they have no other end in common");
    assert_eq!(world.firing()[0].culprits, [""; 0]);
}

#[test]
fn the_queue_pair_that_is_broken_is_named_and_a_connection_made_before_replaces_none() {
    let pair = |number, state: QueuePairState| ringscope_wire::batch::QueuePair {
        number,
        remote_number: number + 1,
        state: state.into(),
    };
    let pairs = vec![pair(17, QueuePairState::Rts), pair(21, QueuePairState::Sqe)];
    let mut world = World::new(2);
    // One beside it, as old as it is.
    let tell = |world: &mut World, broken_at_ns| {
        let broken = Connection { queue_pairs: pairs.clone(), broken_at_ns, ..to(1) };
        world.connect(&[vec![broken, at_place(1, to(1))]]);
    };
    for broken_at in [5, 5, 5, 5, 10, 10] {
        tell(&mut world, at(broken_at).0);
        world.wait(20);
    }
    assert_eq!(world.fires(), [""; 0], "two answers, five seconds apart");
    tell(&mut world, at(15).0);
    let expected = "queue_pair_error critical [connection_failed] rank 0 of host-0: queue pair 21 of mlx5_0 port 1 to queue \
                    pair 22 of mlx5_0 of host-1 (rank 1) stands in state SQE";
    assert_eq!(world.fires(), [expected]);
    assert_eq!(world.firing()[0].evidence[0].text, "queue pair 21: state SQE");
    // Twin: told of at one moment, but one that came after another in its place.
    let mut world = World::new(2);
    world.connect(&[vec![failed(to(1)), Connection { generation: 2, ..at_place(1, to(1)) }]]);
    assert_eq!(world.fires(), [""; 0]);
}

#[test]
fn a_queue_pair_of_a_program_that_tells_nobody_of_its_connections() {
    let port = |pid| Nic {
        failed_queue_pairs: vec![FailedQueuePair {
            number: 40,
            remote_number: Some(41),
            state: QueuePairState::Err.into(),
            pid,
            asked_at_ns: 0,
        }],
        ..nic("mlx5_0")
    };
    let mut world = World::new(1);
    for _ in 0..2 {
        world.read(vec![port(77)]);
    }
    assert_eq!(world.fires(), [""; 0], "five seconds");
    world.read(vec![port(78)]);
    world.read(vec![port(78)]);
    assert_eq!(world.fires(), [""; 0], "another process's");
    world.read(vec![port(78)]);
    let expected = "queue_pair_error warning [in_error_state] process 78 of host-0: queue pair 40 to 41 of mlx5_0 port 1 \
                    stands in an error state";
    assert_eq!(world.fires(), [expected]);
    // Twin: of one that is told again and again as the kernel answered once nobody knows that it still stands so.
    let mut world = World::new(1);
    let mut once = port(77);
    once.failed_queue_pairs[0].asked_at_ns = at(5).0;
    for _ in 0..6 {
        world.read(vec![once.clone()]);
    }
    assert_eq!(world.fires(), [""; 0]);
}

#[test]
fn a_queue_pair_of_a_connection_is_no_other_program_s_whatever_the_kernel_calls_its_process() {
    let port = |number| Nic {
        failed_queue_pairs: vec![FailedQueuePair {
            number,
            remote_number: None,
            state: QueuePairState::Err.into(),
            pid: 999,
            asked_at_ns: 0,
        }],
        ..nic("mlx5_0")
    };
    let check = |number| {
        let mut world = World::new(2);
        let states = ringscope_wire::batch::QueuePair { number: 17, ..Default::default() };
        world.connect(&[vec![Connection { queue_pairs: vec![states], ..to(1) }]]);
        for _ in 0..3 {
            world.read(vec![port(number)]);
        }
        world.fires().len()
    };
    assert_eq!((check(17), check(18)), (0, 1));
}

fn with_kinds(one: Connection, local: GidKind, remote: GidKind) -> Connection {
    let mut one = one;
    one.local.as_mut().unwrap().gid_kind = local.into();
    one.remote.as_mut().unwrap().gid_kind = remote.into();
    one
}

#[test]
fn ends_with_gids_of_two_kinds() {
    let mut world = World::new(3);
    let (v1, v2) = (GidKind::RoceV1, GidKind::RoceV2);
    let odd = with_kinds(at_place(1, to(2)), v2, v1);
    world.connect(&[vec![to(1), odd.clone()], vec![to(0), odd], vec![with_kinds(to(0), v1, v2)]]);
    let expected = "gid_mismatch critical [other_gid_kind] mlx5_0 of host-2 uses a GID of RoCE v1, mlx5_0 of host-0 at the \
                    other end of its connection one of RoCE v2: these do not reach each other";
    assert_eq!(world.fires(), [expected]);
    // Twin: other indices of one kind, and a kind that nobody told.
    let mut other = to(1);
    other.local.as_mut().unwrap().gid_index = 3;
    let unknown = with_kinds(at_place(1, to(2)), v2, GidKind::Unspecified);
    let mut world = World::new(3);
    world.connect(&[vec![other, unknown], vec![to(0)]]);
    assert_eq!(world.fires(), [""; 0]);
}

#[test]
fn a_host_whose_rail_has_another_kind_of_gid_than_most() {
    let (v1, v2) = (GidKind::RoceV1, GidKind::RoceV2);
    let mut world = World::new(4);
    let pair = |rank, kind| vec![with_kinds(to(rank), kind, GidKind::Unspecified)];
    world.connect(&[pair(1, v2), pair(2, v2), pair(3, v2), pair(0, v1)]);
    let found = world.fires();
    let start = "gid_mismatch warning [other_gid_kind] mlx5_0 of host-3 uses a GID of RoCE v1, mlx5_0 of most hosts of the \
                 job one of RoCE v2";
    assert!(found.len() == 1 && found[0].starts_with(start), "{found:?}");
    // Twin: another rail may be of another kind.
    let mut world = World::new(4);
    let mut rail = with_kinds(to(0), v1, v1);
    rail.local.as_mut().unwrap().device = "mlx5_1".to_owned();
    rail.remote.as_mut().unwrap().device = "mlx5_1".to_owned();
    world.connect(&[pair(1, v2), pair(2, v2), pair(3, v2), vec![rail]]);
    assert_eq!(world.fires(), [""; 0]);
}

fn with_sizes(one: Connection, local: u32, remote: u32, path: u32) -> Connection {
    let mut one = one;
    one.local.as_mut().unwrap().mtu_bytes = local;
    one.remote.as_mut().unwrap().mtu_bytes = remote;
    Connection { path_mtu_bytes: path, ..one }
}

#[test]
fn ends_that_take_packets_of_two_sizes() {
    let check = |(local, remote, path): (u32, u32, u32), expected: &[&str]| {
        let mut world = World::new(2);
        let back = received(with_sizes(to(0), remote, local, path));
        world.connect(&[vec![with_sizes(to(1), local, remote, path)], vec![back]]);
        assert_eq!(world.fires(), expected);
    };
    check(
        (4096, 1024, 1024),
        &[
            "mtu_mismatch warning [smaller_mtu] mlx5_0 of host-1 takes packets of up to 1024 bytes, mlx5_0 of host-0 at the \
           other end of its connection of up to 4096: their connection uses 1024",
        ],
    );
    check(
        (1024, 4096, 4096),
        &[
            "mtu_mismatch critical [mtu_too_large] mlx5_0 of host-0 takes packets of up to 1024 bytes, mlx5_0 of host-1 at \
           the other end of its connection of up to 4096: their connection uses 4096, which cannot arrive",
        ],
    );
    // Twins: a connection that uses less than both ends take, and ends that nobody told of.
    check((4096, 4096, 1024), &[]);
    check((0, 4096, 1024), &[]);
    check((4096, 0, 4096), &[]);
}

#[test]
fn who_takes_packets_of_another_size_than_most_is_named_also_where_those_are_larger() {
    let of = |rank: u32, local, remote| vec![with_sizes(to(rank), local, remote, 1024)];
    let mut world = World::new(4);
    world.connect(&[of(1, 1024, 1024), of(2, 1024, 1024), of(3, 1024, 4096), of(0, 4096, 1024)]);
    let found = world.fires();
    let start = "mtu_mismatch warning [smaller_mtu] mlx5_0 of host-3 takes packets of up to 4096 bytes, ";
    assert!(found.len() == 1 && found[0].starts_with(start), "{found:?}");
    // Half of them each: one finding of the job.
    let mut world = World::new(4);
    world.connect(&[of(1, 1024, 4096), of(2, 4096, 1024), of(3, 1024, 4096), of(0, 4096, 1024)]);
    let found = world.fires();
    assert!(found.len() == 1 && found[0].ends_with("; and 1 more ports of the job differ so"), "{found:?}");
}

#[test]
fn what_a_process_says_of_hosts_and_ports_that_nobody_knows_accuses_none() {
    // Of a host that there is and says nothing of the kind, the one who says so is named.
    let mut world = World::new(2);
    let (v1, v2) = (GidKind::RoceV1, GidKind::RoceV2);
    let odd = with_sizes(with_kinds(to(1), v2, v1), 4096, 1024, 1024);
    world.connect(&[vec![odd.clone()], vec![received(to(0))]]);
    assert!(world.firing().len() == 2 && world.firing().iter().all(|one| one.host == "host-0"));
    // Hosts and processes that are not there, and ports that the hardware does not have.
    let mut world = World::new(2);
    let invented = failed(Connection { remote: to(77).remote, ..to(1) });
    world.connect(&[vec![invented.clone()], vec![invented.clone()]]);
    assert_eq!(world.firing().iter().map(|one| one.host.as_str()).collect::<Vec<_>>(), ["host-0", "host-1"]);
    assert!(world.firing().iter().all(|one| one.culprits.is_empty()), "{:?}", world.firing());
    let mut world = World::new(1);
    let of_port = |n: u32| {
        let mut one = at_place(n, failed(to(1)));
        one.local.as_mut().unwrap().device = format!("no_{n}");
        one
    };
    world.connect(&[(0..100).map(of_port).collect()]);
    assert_eq!(world.firing().len(), 16, "one process makes few");
    world.read(vec![nic("mlx5_0")]);
    assert_eq!(world.fires(), [""; 0]);
}

/// A port with pause frames and bytes a second, at so many readings as the window has.
fn paused(counter_name: &str, per_s: u64, sent_per_s: u64, received_per_s: u64) -> Vec<Nic> {
    let at = |reading| Nic {
        congestion: counter(counter_name, 1_000_000 + 5 * per_s * reading),
        sent_bytes: Some(5 * sent_per_s * reading),
        received_bytes: Some(5 * received_per_s * reading),
        ..nic("mlx5_0")
    };
    (0..7).map(at).collect()
}

fn pausing(ports: &[Vec<Nic>], ranks: &[Vec<Connection>], readings: usize) -> World {
    let mut world = World::new(ports.len());
    world.connect(ranks);
    for reading in 0..readings {
        world.read(ports.iter().map(|port| port[reading].clone()).collect());
    }
    world
}

#[track_caller]
fn check_paused(ports: &[Vec<Nic>], expected: &[&str]) {
    assert_eq!(pausing(ports, &[], 7).fires(), expected);
}

#[test]
fn who_sends_pause_frames_is_to_blame_only_for_ports_that_it_has_to_do_with() {
    let stopped = || paused("rx_prio3_pause_duration", 900_000, 1_000, 1_000);
    let sender: Vec<Nic> = paused("tx_prio3_pause", 20_000, 1_000, 1_000)
        .into_iter()
        .map(|nic| Nic { name: "mlx5_1".to_owned(), ..nic })
        .collect();
    let causes = |ranks: &[Vec<Connection>]| -> Vec<String> {
        let world = pausing(&[stopped(), sender.clone()], ranks, 7);
        world.firing().iter().map(|one| one.cause.clone()).collect()
    };
    assert_eq!(causes(&[]), ["pauses_received"], "another rail");
    let mut across = to(1);
    across.remote.as_mut().unwrap().device = "mlx5_1".to_owned();
    assert_eq!(causes(&[vec![across], Vec::new()]), ["pauses_sent"]);
    // Not the whole of the window yet.
    let severities: Vec<_> =
        pausing(&[stopped()], &[], 3).firing().iter().map(|one| one.severity.label()).collect();
    assert_eq!(severities, ["warning"]);
    // The time is measured, so how many frames there were says nothing.
    let mut measured = paused("rx_prio3_pause_duration", 100_000, 1_000, 1_000);
    for (nic, frames) in measured.iter_mut().zip(paused("rx_prio3_pause", 20_000, 0, 0)) {
        nic.congestion.extend(frames.congestion);
    }
    check_paused(&[measured], &[]);
}

#[test]
fn pause_frames_that_stop_a_port_and_who_sends_them() {
    const GIGABYTES_40: u64 = 40 * GIGABYTE;
    let stopped = || paused("rx_prio3_pause_duration", 900_000, 1_000, 1_000);
    let busy = || paused("rx_prio3_pause_duration", 900_000, GIGABYTES_40, 1_000);
    let alone = "pfc_storm critical [pauses_received] mlx5_0 of host-0 stands still: it is told to pause 90 % of the time \
                 (rx_prio3_pause_duration), and sends nearly nothing; who sends the pause frames is not seen";
    check_paused(&[stopped()], &[alone]);
    let sender = paused("tx_prio3_pause", 20_000, 1_000, 1_000);
    let found = "pfc_storm critical [pauses_sent] mlx5_0 of host-2 stops others: it sends pause frames 100 % of the time \
                 (tx_prio3_pause) and takes nearly nothing; mlx5_0 of host-0 and mlx5_0 of host-1 stand still";
    check_paused(&[stopped(), stopped(), sender.clone()], &[found]);
    // Twins: a port that moves all the same, few pause frames, who sends them and stops nobody, and words on transitions.
    check_paused(&[busy()], &[]);
    check_paused(&[paused("rx_prio3_pause", 500, 1_000, 1_000)], &[]);
    check_paused(&[busy(), sender], &[]);
    check_paused(&[paused("rx_prio3_pause_transition", 20_000, 1_000, 1_000)], &[]);
    check_paused(&[paused("rx_pause_storm_error_events", 20_000, 1_000, 1_000)], &[]);
    check_paused(&[paused("np_cnp_sent", 20_000, 1_000, 1_000)], &[]);
}
