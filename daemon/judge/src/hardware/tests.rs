use ringscope_api::{Finding, FindingKind, FindingState, Severity};
use ringscope_model::Model;
use ringscope_model::limits::HARDWARE_KEPT;
use ringscope_samples::cluster::{Cluster, at, hardware, nic, reading};
use ringscope_wire::batch::{Gpu, HostHardware, Nic, NicCounter, NicKind};

use crate::{Diagnosis, HOST_GONE_AFTER};

/// A daemon's model and diagnosis, told of hardware every five seconds.
#[derive(Default)]
struct World {
    model: Model,
    diagnosis: Diagnosis,
    seq_number: u64,
    s: u64,
}

impl World {
    fn with(cluster: &Cluster) -> Self {
        let mut world = Self::default();
        world.make(cluster);
        world
    }

    fn make(&mut self, cluster: &Cluster) {
        self.seq_number += 1;
        self.model.apply(&cluster.batch(self.seq_number, self.s), at(self.s));
    }

    /// Every host's next reading. Returns what is news.
    fn read(&mut self, hosts: Vec<HostHardware>) -> Vec<Finding> {
        self.s += 5;
        self.seq_number += 1;
        let hosts = hosts.into_iter().map(|host| HostHardware { read_at_ns: at(self.s).0, ..host }).collect();
        self.model.apply(&reading(self.seq_number, self.s, hosts), at(self.s));
        self.diagnosis.update(&self.model, None, at(self.s))
    }

    /// What fires about hardware, as lines, sorted.
    fn fires(&self) -> Vec<String> {
        let hardware = self.diagnosis.firing().filter(|finding| finding.comm.is_empty());
        let mut lines: Vec<String> = hardware
            .map(|finding| format!("{} [{}] {}", finding.severity.label(), finding.cause, finding.message))
            .collect();
        lines.sort();
        lines
    }

    fn about_channels(&self, kind: FindingKind) -> Vec<&Finding> {
        self.diagnosis.firing().filter(|finding| finding.finding == kind).collect()
    }
}

/// What fires after these readings of all hosts, each with its NICs.
#[track_caller]
fn check(readings: &[&[(&str, &[Nic])]], expected: &[&str]) {
    let mut world = World::default();
    for hosts in readings {
        world.read(hosts.iter().map(|(host, nics)| hardware(host, 0, nics.to_vec())).collect());
    }
    assert_eq!(world.fires(), expected);
}

fn down(nic: Nic) -> Nic {
    let (state, physical_state) = ("DOWN".to_owned(), "Polling".to_owned());
    Nic { up: false, state, physical_state, rate_bits_per_s: None, ..nic }
}

fn interface(name: &str) -> Nic {
    Nic {
        kind: NicKind::Interface.into(),
        port: 0,
        state: "up".to_owned(),
        physical_state: String::new(),
        link_layer: "Ethernet".to_owned(),
        state_file: format!("/sys/class/net/{name}/operstate"),
        ..nic(name)
    }
}

fn interface_down(name: &str) -> Nic {
    Nic { state: "down".to_owned(), physical_state: String::new(), ..down(interface(name)) }
}

fn at_gigabits(rate: u64, nic: Nic) -> Nic {
    Nic { rate_bits_per_s: Some(rate * 1_000_000_000), ..nic }
}

fn downs(n: u64) -> Nic {
    Nic { link_downs: Some(n), ..nic("mlx5_0") }
}

fn errors(name: &str, value: u64) -> Nic {
    Nic { errors: vec![NicCounter { name: name.to_owned(), value }], ..nic("mlx5_0") }
}

#[test]
fn a_nic_that_is_down_while_its_peers_are_up() {
    let up = [nic("mlx5_0"), nic("mlx5_1")];
    let sick = [nic("mlx5_0"), down(nic("mlx5_1"))];
    let unplugged = [down(nic("mlx5_0")), down(nic("mlx5_1"))];
    let of_others =
        "warning [nic_down] mlx5_1 of host-2 is down (DOWN, Polling), while it is up on 2 other hosts";
    check(&[&[("host-0", &up), ("host-1", &up), ("host-2", &sick)]], &[of_others]);
    check(&[&[("host-0", &up), ("host-1", &up), ("host-2", &up)]], &[]);
    // Never up on any host: the cluster is built so.
    check(&[&[("host-0", &sick), ("host-1", &sick)]], &[]);
    // Most hosts leave it unused.
    check(&[&[("host-0", &up), ("host-1", &sick), ("host-2", &sick), ("host-3", &sick)]], &[]);
    let before = "warning [nic_down] mlx5_1 of host-0 is down (DOWN, Polling), and was up before";
    check(&[&[("host-0", &up)], &[("host-0", &sick)]], &[before]);
    let siblings =
        "warning [nic_down] mlx5_1 of host-0 is down (DOWN, Polling), while the other one of the host is up";
    check(&[&[("host-0", &sick)]], &[siblings]);
    check(&[&[("host-0", &unplugged)]], &[]);
}

#[test]
fn the_unused_second_port_of_a_card_is_no_trouble() {
    let at_pci = |pci: &str, nic| Nic { pci: pci.to_owned(), ..nic };
    let first = at_pci("0000:3b:00.0", nic("mlx5_0"));
    let second = at_pci("0000:3b:00.1", down(nic("mlx5_1")));
    check(&[&[("host-0", &[first.clone(), second.clone()])]], &[]);
    let port = Nic { port: 2, ..down(nic("mlx5_0")) };
    check(&[&[("host-0", &[first.clone(), port.clone()])]], &[]);
    // Where another host uses it, it is one.
    let used = [first.clone(), at_pci("0000:3b:00.1", nic("mlx5_1"))];
    let found =
        "warning [nic_down] mlx5_1 of host-0 is down (DOWN, Polling), while it is up on the other host";
    check(&[&[("host-0", &[first.clone(), second]), ("host-1", &used)]], &[found]);
    let used = [first.clone(), Nic { port: 2, ..nic("mlx5_0") }];
    let found =
        "warning [nic_down] mlx5_0:2 of host-0 is down (DOWN, Polling), while it is up on the other host";
    check(&[&[("host-0", &[first, port]), ("host-1", &used)]], &[found]);
}

#[test]
fn interfaces_count_where_there_is_nothing_better_or_a_ring_uses_them() {
    let found = "warning [nic_down] eth0 of host-0 is down, and was up before";
    let (eth0, eth0_down, eth2) = (interface("eth0"), interface_down("eth0"), interface_down("eth2"));
    check(&[&[("host-0", &[eth0.clone(), eth2.clone()])]], &[]);
    check(&[&[("host-0", std::slice::from_ref(&eth0))], &[("host-0", &[eth0_down.clone(), eth2])]], &[found]);
    let with_rdma = [nic("mlx5_0"), eth0.clone()];
    let lost = [nic("mlx5_0"), eth0_down];
    check(&[&[("host-0", &with_rdma)], &[("host-0", &lost)]], &[]);
    let ring = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 2)], 4);
    let mut world = World::default();
    let mut batch = ring.batch(1, 0);
    batch.processes[0].communicators[0].rings[0].nic = "eth0".to_owned();
    world.model.apply(&batch, at(0));
    world.seq_number = 1;
    world.read(vec![hardware("host-0", 0, with_rdma.to_vec())]);
    world.read(vec![hardware("host-0", 0, lost.to_vec())]);
    assert_eq!(world.fires(), [found]);
}

#[test]
fn a_nic_that_is_slower_than_its_like() {
    let full = [nic("mlx5_0")];
    let half = [at_gigabits(200, nic("mlx5_0"))];
    let of_others = "warning [nic_slow] mlx5_0 of host-2 runs at 200 instead of 400 Gb/s, which it has on most other hosts";
    check(&[&[("host-0", &full), ("host-1", &full), ("host-2", &half)]], &[of_others]);
    check(&[&[("host-0", &half), ("host-1", &half), ("host-2", &half)]], &[]);
    check(&[&[("host-0", &half), ("host-1", &half), ("host-2", &full)]], &[]);
    let before = "warning [nic_slow] mlx5_0 of host-0 runs at 200 instead of 400 Gb/s, which it had before";
    check(&[&[("host-0", &full)], &[("host-0", &half)]], &[before]);
    // Somebody set them all so.
    let (all, slowed) =
        ([("host-0", &full[..]), ("host-1", &full)], [("host-0", &half[..]), ("host-1", &half)]);
    check(&[&all, &slowed], &[]);
    let older = [Nic { model: "MT4123".to_owned(), ..half[0].clone() }];
    check(&[&[("host-0", &full), ("host-1", &full), ("host-2", &older)]], &[]);
    let one_of_four = [nic("mlx5_0"), nic("mlx5_1"), at_gigabits(200, nic("mlx5_2")), nic("mlx5_3")];
    let siblings = "warning [nic_slow] mlx5_2 of host-0 runs at 200 instead of 400 Gb/s, which most others of the host have";
    check(&[&[("host-0", &one_of_four)]], &[siblings]);
    let storage = [nic("mlx5_0"), at_gigabits(200, nic("mlx5_1"))];
    check(&[&[("host-0", &storage)]], &[]);
}

#[test]
fn a_nic_that_flaps_or_counts_errors() {
    let found = "warning [nic_flapping] mlx5_0 of host-0 flaps: its link went down 3 times in ten minutes";
    check(&[&[("host-0", &[downs(5)])], &[("host-0", &[downs(8)])]], &[found]);
    check(&[&[("host-0", &[downs(5)])], &[("host-0", &[downs(7)])]], &[]);
    check(&[&[("host-0", &[downs(500)])]], &[]);
    let found = "warning [nic_errors] mlx5_0 of host-0 counts errors: symbol_error rose by 10 in ten minutes";
    let errors = |value| errors("symbol_error", value);
    check(&[&[("host-0", &[errors(90)])], &[("host-0", &[errors(100)])]], &[found]);
    check(&[&[("host-0", &[errors(90)])], &[("host-0", &[errors(99)])]], &[]);
    check(&[&[("host-0", &[errors(90_000)])]], &[]);
    let found = "warning [nic_down] mlx5_0 of host-0 is down (DOWN, Polling), and was up before; it also flaps: its link went down 3 times in ten minutes";
    check(&[&[("host-0", &[downs(5)])], &[("host-0", &[down(downs(8))])]], &[found]);
}

/// What fires after a counter of each host's NIC has risen so far, while all carry as much.
#[track_caller]
fn check_errors(counter: &str, risen: &[u64], expected: &[&str]) {
    let mut world = World::default();
    for reading in 0..2 {
        let host = |(i, risen): (usize, &u64)| {
            hardware(&format!("host-{i}"), 0, vec![errors(counter, 1_000_000 + risen * reading)])
        };
        world.read(risen.iter().enumerate().map(host).collect());
    }
    assert_eq!(world.fires(), expected, "{counter} {risen:?}");
}

#[test]
fn errors_are_judged_against_peers_and_what_is_benign_is_not() {
    let healthy = [3_000, 5_200, 4_100, 2_900];
    for counter in ["out_of_sequence", "roce_adp_retrans", "packet_seq_err", "local_ack_timeout_err"] {
        check_errors(counter, &healthy, &[]);
        check_errors(counter, &[90_000], &[]);
    }
    check_errors("out_of_sequence", &[90_000, 3, 3, 3], &[]);
    let found =
        |host, words| format!("warning [nic_errors] mlx5_0 of {host} counts errors: {words} in ten minutes");
    let one = found("host-1", "local_ack_timeout_err rose by 700 (by 5 on most of its like)");
    check_errors("local_ack_timeout_err", &[5, 700, 2, 6], &[&one]);
    check_errors("local_ack_timeout_err", &[0, 99, 0, 0], &[]);
    check_errors("local_ack_timeout_err", &[90, 700, 90, 90], &[]);
    let one = found("host-0", "symbol_error rose by 12 (by 0 on most of its like)");
    check_errors("symbol_error", &[12, 0], &[&one]);
    // A switch that restarts makes errors on all its cables.
    check_errors("symbol_error", &[12, 14, 9, 30], &[]);
    let one = found("host-3", "symbol_error rose by 300 (by 12 on most of its like)");
    check_errors("symbol_error", &[12, 14, 9, 300], &[&one]);
}

#[test]
fn idle_ports_say_nothing_of_what_busy_ones_count() {
    let fires = |idle: bool| {
        let mut world = World::default();
        for reading in 0..3_u64 {
            let host = |i: u64| {
                let is_it = i == 0;
                let sent = if is_it || !idle { 50_000_000_000 } else { 1_000 };
                let risen = if is_it { 400 * reading } else { 0 };
                let busy =
                    Nic { sent_bytes: Some(sent * reading), ..errors("packet_seq_err", 1_000 + risen) };
                hardware(&format!("host-{i}"), 0, vec![busy])
            };
            world.read((0..4).map(host).collect());
        }
        world.fires().len()
    };
    assert_eq!((fires(false), fires(true)), (1, 0));
}

#[test]
fn trouble_is_proved_by_the_kernels_files() {
    let mut world = World::default();
    let proof = |world: &World| {
        let finding = world.diagnosis.firing().next().unwrap();
        finding.evidence.iter().map(|line| format!("{}: {}", line.file, line.text)).collect::<Vec<_>>()
    };
    let dir = "/sys/class/infiniband/mlx5_0/ports/1";
    world.read(vec![hardware("host-0", 0, vec![errors("symbol_error", 1)])]);
    world.read(vec![hardware("host-0", 0, vec![down(nic("mlx5_0"))])]);
    assert_eq!(proof(&world), [format!("{dir}/state: 1: DOWN")]);
    world.read(vec![hardware("host-0", 0, vec![at_gigabits(100, errors("rx_icrc_encapsulated", 40))])]);
    let counter = format!("{dir}/hw_counters/rx_icrc_encapsulated: 40 (40 in the last ten minutes)");
    assert_eq!(proof(&world), [format!("{dir}/rate: 100 Gb/sec"), counter]);
    let counted = Nic { link_downs: Some(3), ..errors("symbol_error", 21) };
    world.read(vec![hardware("host-0", 0, vec![Nic { link_downs: Some(0), ..nic("mlx5_0") }])]);
    world.read(vec![hardware("host-0", 0, vec![counted])]);
    let lines = proof(&world);
    assert_eq!(lines[0], format!("{dir}/counters/link_downed: 3"));
    assert!(lines.contains(&format!("{dir}/counters/symbol_error: 21 (20 in the last ten minutes)")));
}

fn with_gpus(host: &str, n: u32) -> HostHardware {
    let gpus = (0..n).map(|index| Gpu { index, ..Gpu::default() }).collect();
    HostHardware { gpus, gpus_known: true, ..hardware(host, 0, Vec::new()) }
}

#[test]
fn a_host_that_shows_fewer_gpus_than_before_or_than_its_peers() {
    let mut world = World::default();
    world.read(vec![with_gpus("host-0", 8)]);
    world.read(vec![with_gpus("host-0", 7)]);
    assert_eq!(world.fires(), ["warning [fewer_than_before] host-0 shows 7 GPUs; it showed 8 before"]);
    world.read(vec![hardware("host-0", 0, Vec::new())]);
    assert!(world.fires().is_empty(), "no driver answers: nobody knows");
    world.read(vec![with_gpus("host-0", 8)]);
    assert!(world.fires().is_empty());

    let hosts = ["host-0", "host-1", "host-2"];
    let peers = |n_hosts: usize, gpus: [u32; 3]| {
        let ranks: Vec<_> = hosts.iter().take(n_hosts).map(|host| (*host, 1, 2)).collect();
        let mut world = World::with(&Cluster::new(&ranks, 4));
        world.read(hosts.iter().zip(gpus).map(|(host, n)| with_gpus(host, n)).collect());
        world.fires()
    };
    let found = "warning [fewer_than_peers] host-1 shows 7 GPUs; most hosts of job train show 8";
    assert_eq!(peers(3, [8, 7, 8]), [found]);
    assert!(peers(3, [8, 8, 8]).is_empty());
    assert!(peers(2, [8, 7, 8]).is_empty(), "two hosts cannot outvote one another");
    assert!(peers(3, [7, 8, 7]).is_empty(), "one has more than the others");
}

#[test]
fn trouble_ends_when_it_is_over_or_the_host_is_gone() {
    let mut world = World::default();
    let healthy = || hardware("host-0", 0, vec![nic("mlx5_0")]);
    let sick = || hardware("host-0", 0, vec![down(nic("mlx5_0"))]);
    world.read(vec![healthy()]);
    let first = world.read(vec![sick()]).remove(0);
    assert_eq!((first.job.as_str(), first.comm.as_str(), first.nic.as_deref()), ("", "", Some("mlx5_0")));
    assert!(world.read(vec![sick()]).is_empty(), "said twice");
    let over = world.read(vec![healthy()]).remove(0);
    assert_eq!((over.id.as_str(), over.state), (first.id.as_str(), FindingState::Resolved));
    world.read(vec![sick()]);
    let gone = at(world.s + HARDWARE_KEPT.as_secs());
    world.model.tick(gone);
    assert_eq!(world.diagnosis.update(&world.model, None, gone)[0].state, FindingState::Resolved);
}

#[test]
fn what_the_store_kept_holds_until_the_hosts_have_told() {
    let mut before = World::default();
    before.read(vec![hardware("host-0", 0, vec![nic("mlx5_0")])]);
    let kept = before.read(vec![hardware("host-0", 0, vec![down(nic("mlx5_0"))])]);
    let restart = || {
        let mut world = World { s: 100, ..World::default() };
        world.diagnosis.restore(kept.clone());
        assert!(world.diagnosis.update(&world.model, None, at(100)).is_empty(), "nothing is known yet");
        world
    };
    let host = |name, nics| hardware(name, 0, nics);
    let mut sick = restart();
    // Only what the store kept says that the NIC was ever up; it holds for as long as the NIC is down.
    let same = |found: &Finding| {
        assert_eq!(
            (&found.id, found.first_seen, found.state),
            (&kept[0].id, kept[0].first_seen, FindingState::Firing)
        );
    };
    for _ in 0..5 {
        sick.read(vec![host("host-0", vec![down(nic("mlx5_0"))])]).iter().for_each(same);
        assert_eq!(sick.fires(), before.fires());
    }
    let news = sick.read(vec![host("host-1", vec![nic("mlx5_0")])]);
    same(&news[0]);
    let over = sick.read(vec![host("host-0", vec![nic("mlx5_0")])]);
    assert_eq!((over[0].id.as_str(), over[0].state), (kept[0].id.as_str(), FindingState::Resolved));
    let mut healed = restart();
    let healthy = || vec![host("host-0", vec![nic("mlx5_0")])];
    let news: Vec<Finding> = (0..4).flat_map(|_| healed.read(healthy())).collect();
    let over = news.iter().filter(|one| one.state == FindingState::Resolved).count();
    assert_eq!((over, healed.fires().len()), (1, 0), "{news:?}");
    let mut gone = restart();
    let later = at(100 + HARDWARE_KEPT.as_secs());
    assert_eq!(gone.diagnosis.update(&gone.model, None, later)[0].state, FindingState::Resolved);
}

#[test]
fn a_nic_that_the_host_shows_no_more() {
    let pci = |nic: Nic, pci: &str| Nic { pci: pci.to_owned(), ..nic };
    let (one, two) = (pci(nic("mlx5_0"), "0000:3b:00.0"), pci(nic("mlx5_1"), "0000:5e:00.0"));
    let (both, left) = ([one.clone(), two.clone()], [one.clone()]);
    let found =
        "warning [nic_missing] mlx5_1 of host-0 is missing: the host showed it before, at 0000:5e:00.0";
    check(&[&[("host-0", &both)], &[("host-0", &left)]], &[found]);
    check(&[&[("host-0", &both)], &[("host-0", &left)], &[("host-0", &left)]], &[found]);
    check(&[&[("host-0", &both)], &[("host-0", &left)], &[("host-0", &both)]], &[]);
    check(&[&[("host-0", &left)]], &[]);
    // Another host's is not this one's.
    check(&[&[("host-0", &both), ("host-1", &left)]], &[]);
    // One that was never up is missed by nobody.
    check(&[&[("host-0", &[one.clone(), down(two.clone())])], &[("host-0", &left)]], &[]);
    // The card is there, under another name.
    let renamed = [one.clone(), pci(nic("mlx5_bond_0"), "0000:5e:00.0")];
    check(&[&[("host-0", &both)], &[("host-0", &renamed)], &[("host-0", &renamed)]], &[]);
    // Interfaces come and go, where no ring goes through them.
    check(
        &[&[("host-0", &[interface("eth0"), interface("usb0")])], &[("host-0", &[interface("eth0")])]],
        &[],
    );
    let lost =
        |n: usize| (0..n).map(|i| if i % 2 == 0 { ("host-0", &both[..]) } else { ("host-0", &left[..]) });
    let readings: Vec<_> = lost(7).map(|one| [one]).collect();
    let readings: Vec<&[_]> = readings.iter().map(<[_; 1]>::as_slice).collect();
    check(
        &readings,
        &["warning [nic_flapping] mlx5_1 of host-0 flaps: its link went down 3 times in ten minutes"],
    );
}

#[test]
fn a_nic_that_was_given_to_a_pod_is_not_missing() {
    let vf = Nic { pci: "0000:3b:00.2".to_owned(), ..nic("mlx5_4") };
    let fires = |functions: &[&str]| {
        let mut world = World::default();
        world.read(vec![hardware("host-0", 0, vec![nic("mlx5_0"), vf.clone()])]);
        let functions = functions.iter().map(|pci| (*pci).to_owned()).collect();
        let without = hardware("host-0", 0, vec![nic("mlx5_0")]);
        world.read(vec![HostHardware { network_functions: functions, ..without }]);
        world.fires().len()
    };
    assert_eq!(fires(&["0000:3b:00.0", "0000:3b:00.2"]), 0, "its driver holds it: a pod has it");
    assert_eq!(fires(&["0000:3b:00.0"]), 1, "it fell off its bus, or its driver let it go");
}

#[test]
fn a_container_that_sees_some_gpus_misses_none() {
    let confined = |host: &str, n| HostHardware { gpus_confined: true, ..with_gpus(host, n) };
    let mut world = World::default();
    world.read(vec![with_gpus("host-0", 8)]);
    world.read(vec![confined("host-0", 4)]);
    assert!(world.fires().is_empty(), "the agent moved into a container");
    let hosts = ["host-0", "host-1", "host-2"];
    let mut world = World::with(&Cluster::new(&hosts.map(|host| (host, 1, 2)), 4));
    world.read(vec![with_gpus("host-0", 8), confined("host-1", 2), with_gpus("host-2", 8)]);
    assert!(world.fires().is_empty());
}

#[test]
fn an_interface_in_a_ring_that_the_host_shows_no_more() {
    let mut world = World::default();
    let mut batch = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 2)], 4).batch(1, 0);
    batch.processes[0].communicators[0].rings[0].nic = "eth0".to_owned();
    world.model.apply(&batch, at(0));
    world.seq_number = 1;
    world.read(vec![hardware("host-0", 0, vec![interface("eth0"), interface("eth1")])]);
    world.read(vec![hardware("host-0", 0, Vec::new())]);
    assert_eq!(world.fires(), ["warning [nic_missing] eth0 of host-0 is missing: the host showed it before"]);
}

#[test]
fn what_was_lost_before_a_restart_is_missed_after_it() {
    let mut before = World::default();
    let told = |nics: &[&str], gpus| HostHardware {
        nics: nics.iter().map(|name| nic(name)).collect(),
        ..with_gpus("host-0", gpus)
    };
    before.read(vec![told(&["mlx5_0", "mlx5_1"], 8)]);
    let kept = before.read(vec![told(&["mlx5_0"], 7)]);
    assert_eq!(kept.len(), 2);
    let restart = || {
        let mut world = World { s: 12, ..World::default() };
        world.diagnosis.restore(kept.clone());
        world
    };
    let mut world = restart();
    for _ in 0..8 {
        assert!(world.read(vec![told(&["mlx5_0"], 7)]).is_empty(), "nothing is new");
        assert_eq!(world.fires(), before.fires());
    }
    let resolved =
        |news: Vec<Finding>| news.iter().all(|one| one.state == FindingState::Resolved) && !news.is_empty();
    assert!(resolved(world.read(vec![told(&["mlx5_0", "mlx5_1"], 8)])));
    assert!(world.fires().is_empty());
    // Healed while nobody looked: said when the hosts have told.
    let mut world = restart();
    let news = (0..4).flat_map(|_| world.read(vec![told(&["mlx5_0", "mlx5_1"], 8)])).collect();
    assert!(resolved(news) && world.fires().is_empty());
}

/// Of four hosts the third found one channel.
fn short(created_s: u64) -> Cluster {
    let hosts = [("host-0", 1, 2), ("host-1", 1, 2), ("host-2", 1, 1), ("host-3", 1, 2)];
    Cluster { created: at(created_s), ..Cluster::new(&hosts, 2) }
}

fn all_hosts(of_third: &[Nic]) -> Vec<HostHardware> {
    let up = vec![nic("mlx5_0"), nic("mlx5_1"), nic("mlx5_2")];
    let of = |i| if i == 2 { of_third.to_vec() } else { up.clone() };
    (0..4).map(|i| hardware(&format!("host-{i}"), 0, of(i))).collect()
}

const SHORTFALL: FindingKind = FindingKind::ChannelShortfall;

#[test]
fn a_nic_explains_missing_channels_whichever_is_told_first() {
    let sick = [nic("mlx5_0"), nic("mlx5_1"), down(nic("mlx5_2"))];
    let words = "host-2 found 1 channel because mlx5_2 is down, the others 2: every rank runs on 2 channels instead of 4";
    let mut late = World::with(&short(1));
    late.diagnosis.update(&late.model, None, at(1));
    assert_eq!(late.about_channels(SHORTFALL)[0].cause, "fewer_channels");
    let mut early = World::default();
    early.read(all_hosts(&sick));
    assert!(early.fires()[0].starts_with("warning [nic_down]"), "no communicator needs it yet");
    early.make(&short(1));
    early.diagnosis.update(&early.model, Some(&[short(1).id()].into()), at(6));
    for mut world in [late, early] {
        world.read(all_hosts(&sick));
        let found = world.about_channels(SHORTFALL);
        assert_eq!((found[0].message.as_str(), found.len()), (words, 1));
        assert_eq!((found[0].cause.as_str(), found[0].nic.as_deref()), ("nic_down", Some("mlx5_2")));
        assert_eq!(found[0].severity, Severity::Info, "a consequence: the NIC is what to look at");
        let proof = found[0].evidence.last().unwrap();
        assert_eq!(
            (proof.file.as_str(), proof.text.as_str()),
            ("/sys/class/infiniband/mlx5_2/ports/1/state", "1: DOWN")
        );
        assert!(world.fires()[0].starts_with("critical [nic_down]"), "{:?}", world.fires());
        // The NIC heals; the communicator keeps what it has, and why.
        world.read(all_hosts(&[nic("mlx5_0"), nic("mlx5_1"), nic("mlx5_2")]));
        assert!(world.fires().is_empty());
        let found = world.about_channels(SHORTFALL);
        assert_eq!(found[0].message, words.replace("is down", "was down"));
        assert_eq!(found[0].severity, Severity::Critical, "nothing else says it now");
    }
}

#[test]
fn a_nic_that_went_down_later_explains_nothing() {
    let healthy = [nic("mlx5_0"), nic("mlx5_1"), nic("mlx5_2")];
    let sick = [nic("mlx5_0"), nic("mlx5_1"), down(nic("mlx5_2"))];
    let mut world = World::with(&short(1));
    for _ in 0..3 {
        world.read(all_hosts(&healthy));
    }
    world.read(all_hosts(&sick));
    assert_eq!(world.about_channels(SHORTFALL)[0].cause, "fewer_channels");
    // One that is made now lacks channels for it.
    world.make(&short(world.s).again(5, 8, world.s));
    world.diagnosis.update(&world.model, None, at(world.s));
    let causes: Vec<&str> = world.about_channels(SHORTFALL).iter().map(|one| one.cause.as_str()).collect();
    assert_eq!(causes.iter().filter(|cause| **cause == "nic_down").count(), 1, "{causes:?}");
}

#[test]
fn slow_nics_several_nics_and_gpus_explain_too() {
    let explained = |hosts: Vec<HostHardware>| {
        let mut world = World::with(&short(1));
        world.read(hosts);
        let found = world.about_channels(SHORTFALL)[0].clone();
        (found.cause, found.message.split(", ").next().unwrap().to_owned())
    };
    let healthy = [nic("mlx5_0"), nic("mlx5_1"), nic("mlx5_2")];
    let slow = |name| at_gigabits(200, nic(name));
    let of = |cause: &str, words: &str| (cause.to_owned(), format!("host-2 found 1 channel because {words}"));
    let found = explained(all_hosts(&[nic("mlx5_0"), nic("mlx5_1"), slow("mlx5_2")]));
    assert_eq!(found, of("nic_slow", "mlx5_2 runs at 200 instead of 400 Gb/s"));
    let found = explained(all_hosts(&[slow("mlx5_0"), down(nic("mlx5_1")), down(nic("mlx5_2"))]));
    assert_eq!(found, of("nic_down", "mlx5_1 and mlx5_2 are down"));
    let mut lost = World::with(&short(1));
    lost.read(all_hosts(&healthy));
    lost.make(&short(7).again(5, 8, 7));
    lost.read(all_hosts(&healthy[..2]));
    let causes: Vec<_> = lost.about_channels(SHORTFALL).iter().map(|one| one.cause.clone()).collect();
    assert!(causes.contains(&"nic_missing".to_owned()), "{causes:?}");
    let gpus = |i: usize| with_gpus(&format!("host-{i}"), if i == 2 { 7 } else { 8 });
    assert_eq!(explained((0..4).map(gpus).collect()), of("gpu_missing", "it shows 7 GPUs instead of 8"));
    assert_eq!(explained(all_hosts(&healthy)).0, "fewer_channels");
}

#[test]
fn a_regression_is_explained_as_well() {
    let sick = [nic("mlx5_0"), nic("mlx5_1"), down(nic("mlx5_2"))];
    let mut world = World::with(&short(1).with(|_, rank| rank.init = Some(2)));
    world.read(all_hosts(&sick));
    world.make(&short(7).again(5, 8, 7));
    world.diagnosis.update(&world.model, None, at(8));
    let found = world.about_channels(FindingKind::ChannelRegression);
    assert_eq!((found[0].cause.as_str(), found[0].nic.as_deref()), ("nic_down", Some("mlx5_2")));
    assert_eq!(found[0].severity, Severity::Info);
    let words = "host-2 found 1 channel because mlx5_2 is down; in its previous communicator of this shape it found 2";
    assert_eq!(found[0].message, words);
}

/// Severity, cause and words of the shortfalls of hosts built as told, of which those that begin with `old` found fewer.
fn shortfalls(built: &[(&str, HostHardware)]) -> Vec<(Severity, String, String)> {
    let inits: Vec<(&str, u32, u32)> =
        built.iter().map(|(host, _)| (*host, 1, if host.starts_with("old") { 1 } else { 2 })).collect();
    let mut world = World::with(&Cluster { created: at(1), ..Cluster::new(&inits, 2) });
    world.read(
        built.iter().map(|(host, has)| HostHardware { host: (*host).to_owned(), ..has.clone() }).collect(),
    );
    let found = world.about_channels(SHORTFALL);
    let mut found: Vec<_> =
        found.iter().map(|one| (one.severity, one.cause.clone(), one.message.clone())).collect();
    found.sort();
    found
}

fn built(gpu: &str, n_gpus: u32, model: &str, n_nics: u32) -> HostHardware {
    let gpus = (0..n_gpus).map(|index| Gpu { index, name: gpu.to_owned(), ..Gpu::default() }).collect();
    let nics = (0..n_nics).map(|n| Nic { model: model.to_owned(), ..nic(&format!("mlx5_{n}")) }).collect();
    HostHardware { gpus, gpus_known: true, ..hardware("", 0, nics) }
}

#[test]
fn channels_are_compared_among_hosts_that_are_built_alike() {
    let new = || built("H100", 8, "MT4129", 8);
    let found = |old: &[HostHardware]| {
        let named = ["old-0", "old-1", "old-2"].into_iter().zip(old.iter().cloned());
        shortfalls(&named.chain([("new-0", new()), ("new-1", new())]).collect::<Vec<_>>())
    };
    let is_fault = |old: &[HostHardware]| {
        let found = found(old);
        assert_eq!(found.len(), old.len(), "{found:?}");
        let cause = |other| found.iter().all(|(_, cause, _)| (cause == "other_hardware") == other);
        match found[0].0 {
            Severity::Critical => assert!(cause(false), "{found:?}"),
            _ => assert!(cause(true) && found[0].2.ends_with(": it is no fault"), "{found:?}"),
        }
        found[0].0 == Severity::Critical
    };
    assert!(is_fault(&[new()]));
    assert!(is_fault(&[hardware("", 0, Vec::new())]), "nothing is known of it");
    assert!(!is_fault(&[built("A100", 8, "MT4129", 8)]), "an older GPU");
    assert!(!is_fault(&[built("H100", 8, "MT4123", 8)]), "older NICs");
    assert!(is_fault(&[built("H100", 8, "MT4129", 7)]), "one NIC fewer on one host: it may have lost it");
    let half = built("H100", 4, "MT4129", 4);
    assert!(!is_fault(&[half.clone(), half]), "two hosts are built so");
    let words = &found(&[built("A100", 8, "MT4129", 8)])[0].2;
    assert!(words.ends_with("; its GPUs are A100, theirs H100: it is no fault"), "{words}");
}

#[test]
fn an_old_host_beside_a_faulty_new_one_is_not_the_one_to_blame() {
    let (new, old) = (|| built("H100", 8, "MT4129", 8), || built("A100", 8, "MT4129", 8));
    // Both found one channel: the new one ought to have found more.
    let found = shortfalls(&[("old-0", old()), ("old-1", new()), ("new-0", new())]);
    let severities: Vec<_> = found.iter().map(|(severity, cause, _)| (*severity, cause.as_str())).collect();
    assert_eq!(severities, [(Severity::Info, "other_hardware"), (Severity::Critical, "fewer_channels")]);
}

#[test]
fn what_was_found_of_a_host_that_vanished_ends_and_comes_back_with_it() {
    let sick = [nic("mlx5_0"), nic("mlx5_1"), down(nic("mlx5_2"))];
    let mut world = World::with(&short(1));
    world.read(all_hosts(&[nic("mlx5_0"), nic("mlx5_1"), nic("mlx5_2")]));
    world.read(all_hosts(&sick));
    // That nothing is heard of the host is said apart.
    let is_of_facts = |one: &&Finding| one.finding != FindingKind::HostLost;
    let firing = |world: &World| world.diagnosis.firing().filter(is_of_facts).count();
    assert_eq!((world.fires().len(), firing(&world)), (1, 5));
    let since = world.about_channels(SHORTFALL)[0].first_seen;
    let silent_s = world.s + HOST_GONE_AFTER.as_secs();
    world.diagnosis.update(&world.model, None, at(silent_s - 1));
    assert_eq!(firing(&world), 5, "an agent that starts again is not a host that is gone");
    let over = world.diagnosis.update(&world.model, None, at(silent_s));
    assert!(over.iter().filter(is_of_facts).all(|one| one.state == FindingState::Resolved), "{over:?}");
    assert_eq!(firing(&world), 0);
    world.s = silent_s;
    world.read(all_hosts(&sick));
    assert_eq!(firing(&world), 5);
    assert_eq!(world.about_channels(SHORTFALL)[0].first_seen, since);
}
