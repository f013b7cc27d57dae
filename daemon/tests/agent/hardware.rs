//! What the agent tells of recorded hosts.

use std::path::PathBuf;
use std::time::Duration;

use ringscope_wire::batch::{GidKind, HostHardware, Nic, NicKind};

use super::daemon::{Answer, FakeDaemon};
use super::segment::SegmentWriter;
use super::sysfs::unpack;
use super::{Host, Primitive, key};

/// A host whose hardware is read often.
fn host(url: &str) -> (Host, PathBuf) {
    let mut host = Host::new(url);
    let sysfs = host.root.path().join("sys");
    host.config.sysfs.clone_from(&sysfs);
    host.config.hardware_interval = Duration::from_millis(20);
    (host, sysfs)
}

/// The first reading that is as wanted.
async fn reading(daemon: &mut FakeDaemon, wanted: impl Fn(&HostHardware) -> bool) -> HostHardware {
    let batch = daemon.until_batch(Answer::Take, |batch| batch.hardware.iter().any(&wanted)).await;
    batch.hardware.into_iter().find(wanted).expect("just seen")
}

/// A NIC in a line; of its errors those that are not 0.
fn line(nic: &Nic) -> String {
    let count = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    let kind = if nic.kind() == NicKind::Rdma { format!("/{}", nic.port) } else { String::new() };
    let mut words = vec![format!("{}{kind}", nic.name), if nic.up { "up" } else { "down" }.to_owned()];
    words.extend([nic.state.clone(), nic.physical_state.clone(), count(nic.rate_bits_per_s)]);
    words.extend([nic.link_layer.clone(), nic.interface.clone(), nic.model.clone(), nic.pci.clone()]);
    words.push(format!("below {}", nic.pci_path.len()));
    words.push(format!("node {}", count(nic.numa_node.map(u64::from))));
    words.push(format!("bytes {} {}", count(nic.sent_bytes), count(nic.received_bytes)));
    words.push(format!("downs {}", count(nic.link_downs)));
    let counters = nic.errors.iter().chain(&nic.retransmits).chain(&nic.failures);
    let errors = counters.filter(|counter| counter.value > 0);
    words.extend(errors.map(|error| format!("{}={}", error.name, error.value)));
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

/// The NICs of a tree, as lines.
async fn lines(tree: &str) -> Vec<String> {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let (host, sysfs) = host(&daemon.url);
    unpack(tree, &sysfs);
    let agent = host.agent();
    let hardware = reading(&mut daemon, |_| true).await;
    agent.stop().await;
    assert_eq!(hardware.host, "machine1");
    for nic in &hardware.nics {
        assert!(PathBuf::from(&nic.state_file).starts_with(&sysfs), "{}", nic.state_file);
        let said = std::fs::read_to_string(&nic.state_file).expect("evidence that can be read");
        assert!(said.contains(&nic.state), "{said:?} {}", nic.state);
    }
    hardware.nics.iter().map(line).collect()
}

const HEALTHY: [&str; 8] = [
    "mlx5_0/1 up ACTIVE LinkUp 400000000000 InfiniBand ib0 MT4129 0000:18:00.0 below 3 node 0 bytes \
     11523046035392 11527250538148 downs 1 out_of_sequence=1 duplicate_request=41",
    "mlx5_1/1 up ACTIVE LinkUp 400000000000 InfiniBand ib1 MT4129 0000:3a:00.0 below 3 node 0 bytes \
     11523046067068 11527250562552 downs 1 out_of_sequence=1 packet_seq_err=1 duplicate_request=41",
    "mlx5_2/1 up ACTIVE LinkUp 400000000000 InfiniBand ib2 MT4129 0000:9a:00.0 below 3 node 1 bytes \
     11523046098744 11527250586956 downs 1 out_of_sequence=1 duplicate_request=41",
    "mlx5_3/1 up ACTIVE LinkUp 400000000000 InfiniBand ib3 MT4129 0000:ba:00.0 below 3 node 1 bytes \
     11523046130420 11527250611360 downs 1 out_of_sequence=1 duplicate_request=41",
    "mlx5_4/1 up ACTIVE LinkUp 100000000000 Ethernet enp112s0f0np0 MT4125 0000:70:00.0 below 1 node 0 \
     bytes 18527668 14933760 downs 1 out_of_sequence=1 packet_seq_err=1 local_ack_timeout_err=131 \
     roce_adp_retrans=99 roce_adp_retrans_to=4",
    "mlx5_5/1 down DOWN Disabled - Ethernet enp112s0f1np1 MT4125 0000:70:00.1 below 1 node 0 bytes 0 \
     0 downs 0",
    "eno1 up up 1000000000 Ethernet igb 0000:02:00.0 below 1 node 0 bytes 2204113011 8821339120 downs \
     2",
    "eno2 down down - Ethernet igb 0000:02:00.1 below 1 node 0 bytes 0 0 downs 1",
];

#[tokio::test]
async fn ports_and_interfaces_of_a_healthy_host() {
    assert_eq!(lines("healthy").await, HEALTHY);
}

/// A tree that differs from the healthy one in one NIC.
async fn differs(tree: &str, name: &str, expected: &str) {
    let mut lines = lines(tree).await;
    let at = HEALTHY.iter().position(|line| line.starts_with(&format!("{name}/"))).expect("a NIC");
    assert_eq!(lines.remove(at), expected);
    let others: Vec<&str> = HEALTHY.into_iter().filter(|line| *line != HEALTHY[at]).collect();
    assert_eq!(lines, others);
}

#[tokio::test]
async fn a_port_that_is_down_has_no_rate() {
    let expected = "mlx5_3/1 down DOWN Polling - InfiniBand ib3 MT4129 0000:ba:00.0 below 3 node 1 bytes \
         11523046130420 11527250611360 downs 2 out_of_sequence=1 duplicate_request=41";
    differs("port-down", "mlx5_3", expected).await;
}

#[tokio::test]
async fn a_port_on_half_its_lanes_is_up() {
    let expected = "mlx5_2/1 up ACTIVE LinkUp 200000000000 InfiniBand ib2 MT4129 0000:9a:00.0 below 3 node 1 bytes \
         11523046098744 11527250586956 downs 1 out_of_sequence=1 duplicate_request=41";
    differs("half-rate", "mlx5_2", expected).await;
}

#[tokio::test]
async fn a_host_without_infiniband_has_its_interfaces() {
    let expected = [
        "eno1 up up 1000000000 Ethernet igb 0000:02:00.0 below 1 node 0 bytes 2204113011 8821339120 downs \
         2",
        "eno2 down down - Ethernet igb 0000:02:00.1 below 1 node 0 bytes 0 0 downs 1",
        "ens2f0 up up 10000000000 Ethernet ixgbe 0000:3b:00.0 below 1 node 0 bytes 884113011 771339120 \
         downs 1 rx_errors=3 rx_crc_errors=3",
    ];
    assert_eq!(lines("no-infiniband").await, expected);
}

#[tokio::test]
async fn adapters_of_another_vendor_are_read_as_far_as_they_say() {
    let expected = [
        "efa_0/1 up ACTIVE LinkUp 100000000000 efa 0000:10:1b.0 below 0 node 0 bytes 8934410240 \
         9023313920 downs - retrans_pkts=115",
        "efa_1/1 up ACTIVE LinkUp 100000000000 efa 0000:20:1b.0 below 0 node 0 bytes 8934410241 \
         9023313921 downs - retrans_pkts=115",
        "efa_2/1 up ACTIVE LinkUp 100000000000 efa 0000:90:1b.0 below 0 node 1 bytes 8934410242 \
         9023313922 downs - retrans_pkts=115 retrans_timeout_events=3",
        "efa_3/1 up ACTIVE LinkUp 100000000000 efa 0000:a0:1b.0 below 0 node 1 bytes 8934410243 \
         9023313923 downs - retrans_pkts=115",
        "ens5 up up - Ethernet ena 0000:00:05.0 below 0 node - bytes 184113011 301339120 downs 0",
    ];
    assert_eq!(lines("foreign-vendor").await, expected);
}

#[tokio::test]
async fn soft_roce_tells_its_losses_its_gids_and_the_bytes_of_its_interface() {
    let expected =
        ["rxe0/1 up ACTIVE LinkUp 2500000000 Ethernet rdma0 below 0 node - bytes 47596426 47070 downs 1 \
         rcvd_seq_err=32 completer_retry_err=41"];
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let (host, sysfs) = host(&daemon.url);
    unpack("../rdma/g2-after-loss", &sysfs);
    let agent = host.agent();
    let hardware = reading(&mut daemon, |_| true).await;
    agent.stop().await;
    assert_eq!(hardware.nics.iter().map(line).collect::<Vec<_>>(), expected, "its interface is told with it");
    let gids: Vec<_> = hardware.nics[0].gids.iter().map(|gid| (gid.index, gid.kind(), gid.gid[15])).collect();
    assert_eq!(gids, [(0, GidKind::RoceV2, 2), (1, GidKind::RoceV2, 2)]);
    assert_eq!(hardware.nics[0].mtu_bytes, Some(4096));
}

#[tokio::test]
async fn a_host_without_sysfs_has_nothing() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let (host, _) = host(&daemon.url);
    let agent = host.agent();
    assert!(reading(&mut daemon, |_| true).await.nics.is_empty());
    agent.stop().await;
}

#[tokio::test]
async fn each_reading_is_newer_and_says_what_has_changed() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let (host, sysfs) = host(&daemon.url);
    unpack("flapping-1", &sysfs);
    let agent = host.agent();
    let downs = |hardware: &HostHardware| hardware.nics[1].link_downs;
    let first = reading(&mut daemon, |_| true).await;
    unpack("flapping-2", &sysfs);
    let second = reading(&mut daemon, |hardware| downs(hardware) == Some(10)).await;
    agent.stop().await;
    assert_eq!(downs(&first), Some(7));
    assert!(second.read_at_ns > first.read_at_ns);
}

#[tokio::test]
async fn pretended_hosts_stand_for_the_machine() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let (mut host, sysfs) = host(&daemon.url);
    unpack("healthy", &sysfs);
    let (one, two) = (sysfs.with_file_name("one"), sysfs.with_file_name("two"));
    unpack("no-infiniband", &one);
    unpack("foreign-vendor", &two);
    host.config.pretended_hosts = vec![("host-1".to_owned(), one), ("host-2".to_owned(), two)];
    let agent = host.agent();
    let batch = daemon.until_batch(Answer::Take, |batch| !batch.hardware.is_empty()).await;
    agent.stop().await;
    let told: Vec<_> = batch.hardware.iter().map(|one| (one.host.as_str(), one.nics.len())).collect();
    assert_eq!(told, [("host-1", 3), ("host-2", 5)]);
    assert!(batch.hardware.iter().all(|one| !one.gpus_known && one.gpus.is_empty()), "they have none");
}

#[tokio::test]
async fn while_the_daemon_is_away_readings_do_not_pile_up() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let (host, sysfs) = host(&daemon.url);
    unpack("healthy", &sysfs);
    let agent = host.agent();
    reading(&mut daemon, |_| true).await;
    daemon.answer(Answer::Away);
    let waiting = daemon.until_batch(Answer::Away, |_| true).await;
    unpack("port-down", &sysfs);
    // The agent tries again less and less often, and reads dozens of times meanwhile.
    for _ in 0..3 {
        let again = daemon.until_batch(Answer::Away, |_| true).await;
        assert_eq!(again.seq_number, waiting.seq_number, "the oldest");
    }
    daemon.answer(Answer::Take);
    let next = reading(&mut daemon, |hardware| !hardware.nics[3].up).await;
    agent.stop().await;
    let late = |one: &HostHardware| one.read_at_ns > waiting.sent_at_ns && one.read_at_ns < next.read_at_ns;
    let n_late = daemon.batches.iter().filter(|(_, batch)| batch.hardware.iter().any(late)).count();
    assert_eq!(n_late, 0, "what was read meanwhile has given way to the newest");
}

#[tokio::test]
async fn an_interval_of_zero_reads_nothing() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let (mut host, sysfs) = host(&daemon.url);
    unpack("healthy", &sysfs);
    host.config.hardware_interval = Duration::ZERO;
    let segment = SegmentWriter::create(host.dir(), 42, "");
    segment.communicator(0, 1, 0xa0, 1);
    let agent = host.agent();
    for calls in 1..=20 {
        segment.calls(0, Primitive::AllReduce, calls, calls);
        let read = |p: &ringscope_wire::batch::Process| p.counters.iter().any(|c| c.issued_calls == calls);
        daemon.until(|processes| processes.get(&key(42)).is_some_and(read)).await;
    }
    agent.stop().await;
    assert!(daemon.batches.iter().all(|(_, batch)| batch.hardware.is_empty()));
}
