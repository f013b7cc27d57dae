//! Recorded hosts, read by a real agent and judged by a real daemon.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::time::Duration;

use common::daemon::Daemon;
use common::sysfs::unpack;
use common::{TempDir, eventually, scratch};
use ringscope_agent::{AgentConfig, AgentError, run};
use ringscope_api::clock;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A daemon whose agent pretends to be four hosts with these trees.
struct Cluster {
    daemon: Daemon,
    dir: TempDir,
    stop_agent: CancellationToken,
    agent: JoinSet<Result<(), AgentError>>,
}

impl Cluster {
    async fn start(trees: [&str; 4]) -> Self {
        let dir = scratch("hardware");
        let names =
            (0..).map(|index| format!("host-{index}")).zip(trees).chain([(MARKER.to_owned(), "healthy")]);
        let hosts = names.map(|(name, tree)| {
            let sysfs = dir.join(&name);
            unpack(tree, &sysfs);
            (name, sysfs)
        });
        let daemon = Daemon::ready("none").await;
        let config = AgentConfig {
            dir: dir.join("segments"),
            interval: Duration::from_millis(20),
            hardware_interval: Duration::from_millis(100),
            pretended_hosts: hosts.collect(),
            ..AgentConfig::new(&daemon.url, dir.join("agent"))
        };
        let (stop_agent, mut agent) = (CancellationToken::new(), JoinSet::new());
        agent.spawn(run(config, stop_agent.clone()));
        Self { daemon, dir, stop_agent, agent }
    }

    async fn stop(mut self) {
        self.stop_agent.cancel();
        self.agent.join_next().await.unwrap().unwrap().unwrap();
        self.daemon.stop().await;
    }

    /// A host's hardware, read after `clock` stood there.
    async fn read_after(&self, host: &str, time: clock::Timestamp) -> Value {
        eventually("the hardware of a host", async || {
            let host = self.daemon.get(&format!("/api/v1/nodes/{host}")).await;
            let host: Value = host.json().await.ok()?;
            let read_at: clock::Timestamp = host["hardware"]["read_at"].as_str()?.parse().ok()?;
            (read_at > time).then_some(host)
        })
        .await
    }

    /// What fires, as `finding host nic cause`, but for the marker's.
    async fn firing(&self) -> Vec<String> {
        let mut firing = self.all_firing().await;
        firing.retain(|finding| *finding != MARKED);
        firing
    }

    async fn all_firing(&self) -> Vec<String> {
        let findings = self.daemon.json("/api/v1/findings?state=firing").await;
        let mut firing: Vec<String> = findings["items"].as_array().unwrap().iter().map(finding).collect();
        firing.sort();
        firing
    }

    /// Nothing fires over three readings of all hosts, each of which was judged: what happens to the marker is seen.
    async fn stays_quiet(&self) {
        for (tree, is_marked) in [("port-down", true), ("healthy", false), ("port-down", true)] {
            let before = clock::now();
            for host in ["host-0", "host-1", "host-2", "host-3"] {
                self.read_after(host, before).await;
            }
            unpack(tree, &self.dir.join(MARKER));
            eventually("the judgement of all hosts", async || {
                (self.all_firing().await.iter().any(|finding| finding == MARKED) == is_marked).then_some(())
            })
            .await;
            assert_eq!(self.firing().await, Vec::<String>::new());
        }
    }

    /// This alone fires in the end.
    async fn comes_to(&self, expected: &str) {
        eventually(expected, async || (self.firing().await == [expected]).then_some(())).await;
    }
}

/// A host that is there to show when all hosts were judged.
const MARKER: &str = "marker";
const MARKED: &str = "nic_degraded marker mlx5_3 nic_down";

fn finding(finding: &Value) -> String {
    let text = |name: &str| finding[name].as_str().unwrap_or("-").to_owned();
    format!("{} {} {} {}", text("finding"), text("host"), text("nic"), text("cause"))
}

const HEALTHY: [&str; 4] = ["healthy"; 4];

#[tokio::test]
async fn healthy_hosts_have_no_findings() {
    let cluster = Cluster::start(HEALTHY).await;
    cluster.stays_quiet().await;
    let host = cluster.read_after("host-1", clock::Timestamp::default()).await;
    let nics = host["hardware"]["nics"].as_array().unwrap();
    let names: Vec<&str> = nics.iter().map(|nic| nic["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4", "mlx5_5", "eno1", "eno2"]);
    assert_eq!((host["n_nics"].as_u64(), host["n_nics_down"].as_u64()), (Some(8), Some(0)));
    assert_eq!(nics[2]["rate_bytes_per_s"].as_f64(), Some(50e9));
    assert!(host["hardware"]["gpus"].is_null(), "nobody has asked a driver");
    cluster.stop().await;
}

#[tokio::test]
async fn a_port_that_is_down_is_named_with_its_file_until_it_is_up() {
    let cluster = Cluster::start(["healthy", "healthy", "port-down", "healthy"]).await;
    cluster.comes_to("nic_degraded host-2 mlx5_3 nic_down").await;
    let findings = cluster.daemon.json("/api/v1/findings?state=firing").await;
    let evidence = &findings["items"][0]["evidence"][0];
    assert_eq!(evidence["text"], "1: DOWN", "{findings}");
    let said = std::fs::read_to_string(evidence["file"].as_str().unwrap()).unwrap();
    assert_eq!(said, "1: DOWN\n");
    unpack("healthy", &cluster.dir.join("host-2"));
    eventually("the end of the finding", async || cluster.firing().await.is_empty().then_some(())).await;
    cluster.stop().await;
}

#[tokio::test]
async fn a_nic_that_falls_off_its_bus_is_named_until_it_is_back() {
    let cluster = Cluster::start(HEALTHY).await;
    cluster.stays_quiet().await;
    let host = cluster.daemon.json("/api/v1/nodes/host-1").await;
    let interface = host["hardware"]["nics"][2]["interface"].as_str().unwrap();
    let class = cluster.dir.join("host-1/class");
    let links = [class.join("infiniband/mlx5_2"), class.join("net").join(interface)].map(|link| {
        let target = std::fs::read_link(&link).unwrap();
        std::fs::remove_file(&link).unwrap();
        (target, link)
    });
    cluster.comes_to("nic_degraded host-1 mlx5_2 nic_missing").await;
    let host = cluster.daemon.json("/api/v1/nodes/host-1").await;
    assert_eq!((host["n_nics"].as_u64(), host["n_nics_down"].as_u64()), (Some(8), Some(1)));
    let nic = &host["hardware"]["nics"][2];
    assert_eq!((nic["name"].as_str(), nic["state"].as_str()), (Some("mlx5_2"), Some("missing")));
    for (target, link) in links {
        std::os::unix::fs::symlink(target, link).unwrap();
    }
    eventually("the end of the finding", async || cluster.firing().await.is_empty().then_some(())).await;
    cluster.stop().await;
}

#[tokio::test]
async fn a_port_at_half_its_rate_is_named() {
    let cluster = Cluster::start(["half-rate", "healthy", "healthy", "healthy"]).await;
    cluster.comes_to("nic_degraded host-0 mlx5_2 nic_slow").await;
    cluster.stop().await;
}

#[tokio::test]
async fn a_port_that_has_flapped_is_not_named_and_one_that_flaps_is() {
    let cluster = Cluster::start(["healthy", "flapping-1", "healthy", "healthy"]).await;
    cluster.stays_quiet().await;
    unpack("flapping-2", &cluster.dir.join("host-1"));
    cluster.comes_to("nic_degraded host-1 mlx5_1 nic_flapping").await;
    cluster.stop().await;
}

#[tokio::test]
async fn hosts_without_infiniband_and_of_another_vendor_have_no_findings() {
    let cluster =
        Cluster::start(["no-infiniband", "no-infiniband", "foreign-vendor", "foreign-vendor"]).await;
    cluster.stays_quiet().await;
    cluster.stop().await;
}
