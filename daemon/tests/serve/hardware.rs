//! Hosts' hardware, from an agent's batch to the page's objects, the findings and the store.

use ringscope_samples::cluster::connection;
use ringscope_wire::batch::{
    Batch, Connection, ConnectionCounts, ConnectionState, Gid, GidKind, HostHardware,
};
use serde_json::{Value, json};

use crate::common::batches::{SMALL, START_NS, hardware};
use crate::common::daemon::{Daemon, config, sqlite};
use crate::common::{TempDir, until};

const NICS: [&str; 2] = ["mlx5_0", "mlx5_1"];

/// What the agent of a host of `SMALL` sends, with its hardware.
fn told(host: usize, seq_number: u64, hardware: HostHardware) -> Batch {
    let hardware = vec![hardware];
    Batch { hardware, ..SMALL.batch(host, seq_number, 3, START_NS + seq_number * 5_000_000_000) }
}

fn healthy(host: usize) -> HostHardware {
    hardware(SMALL.hosts[host], &NICS, START_NS)
}

/// The second NIC is down.
fn sick(host: usize) -> HostHardware {
    let mut hardware = healthy(host);
    let nic = &mut hardware.nics[1];
    (nic.up, nic.state, nic.physical_state) = (false, "DOWN".into(), "Polling".into());
    nic.rate_bits_per_s = None;
    hardware
}

async fn findings(daemon: &Daemon, query: &str) -> Vec<Value> {
    let found = daemon.json(&format!("/api/v1/findings?{query}")).await;
    found["items"].as_array().unwrap().clone()
}

async fn until_found(daemon: &Daemon, query: &str, n: usize) {
    until(query, async || findings(daemon, query).await.len() == n).await;
}

const FIRING: &str = "kind=nic_degraded&state=firing";
const RESOLVED: &str = "kind=nic_degraded&state=resolved";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nic_that_is_down_is_found_explains_the_shortfall_and_heals() {
    let daemon = Daemon::ready("sqlite::memory:").await;
    daemon.take(&told(0, 1, healthy(0))).await;
    daemon.take(&told(1, 1, sick(1))).await;
    until_found(&daemon, FIRING, 1).await;
    let finding = findings(&daemon, FIRING).await.remove(0);
    let shown = json!([finding["host"], finding["nic"], finding["cause"], finding["severity"]]);
    assert_eq!(shown, json!(["node-b", "mlx5_1", "nic_down", "critical"]));
    assert_eq!((&finding["job"], &finding["comm"]), (&json!(""), &json!("")));
    let proof = json!({"file": "/sys/class/infiniband/mlx5_1/ports/1/state", "line": 1, "text": "1: DOWN"});
    assert_eq!(finding["evidence"], json!([proof]));
    until_found(&daemon, "kind=channel_shortfall&severity=info", 1).await;
    let shortfall = findings(&daemon, "kind=channel_shortfall").await.remove(0);
    assert_eq!((&shortfall["cause"], &shortfall["nic"]), (&json!("nic_down"), &json!("mlx5_1")));
    let message = shortfall["message"].as_str().unwrap();
    assert!(
        message.starts_with("node-b found 2 channels because mlx5_1 is down, the other host 8"),
        "{message}"
    );

    let host = daemon.json("/api/v1/nodes/node-b").await;
    let counts = json!([host["n_nics"], host["n_nics_down"], host["degraded"]]);
    assert_eq!(counts, json!([2, 1, true]));
    let nic = &host["hardware"]["nics"][1];
    assert_eq!(json!([nic["up"], nic["severity"]]), json!([false, "critical"]));
    assert_eq!(nic["reasons"], json!([finding["message"]]));
    assert_eq!(host["hardware"]["nics"][0]["channels"][0]["channels"], json!([0, 1, 2, 3]));
    let metrics = daemon.get("/metrics").await.text().await.unwrap();
    let start =
        r#"ringscope_finding{cause="nic_down",comm="",finding="nic_degraded",host="node-b",incident=""#;
    let end = r#"",job="",severity="critical"} 1"#;
    assert!(metrics.lines().any(|line| line.starts_with(start) && line.ends_with(end)), "{metrics}");
    let incidents = daemon.json("/api/v1/incidents?state=firing").await["items"].clone();
    assert_eq!(incidents.as_array().unwrap().len(), 1, "one NIC is one incident: {incidents:#}");
    assert_eq!((&incidents[0]["finding"], &incidents[0]["host"]), (&json!("nic_degraded"), &json!("node-b")));
    assert!(metrics.contains(r#"ringscope_nic_up{host="node-b",nic="mlx5_1",port="1"} 0"#), "{metrics}");

    daemon.take(&told(1, 2, healthy(1))).await;
    until_found(&daemon, RESOLVED, 1).await;
    assert_eq!(daemon.json("/api/v1/nodes/node-b").await["n_nics_down"], 0);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_without_any_process_is_a_host() {
    let daemon = Daemon::ready("sqlite::memory:").await;
    let batch = Batch { processes: Vec::new(), ..told(0, 1, healthy(0)) };
    daemon.take(&batch).await;
    let nodes = daemon.json("/api/v1/nodes").await;
    let node = &nodes["items"][0];
    assert_eq!(json!([node["host"], node["n_nics"], node["n_processes"]]), json!(["node-a", 2, 0]));
    assert_eq!(daemon.json("/api/v1/nodes/node-a").await["hardware"]["nics"][0]["name"], "mlx5_0");
    assert!(findings(&daemon, "").await.is_empty());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finding_about_hardware_outlives_a_restart_of_the_daemon() {
    let lost = |host| hardware(SMALL.hosts[host], &NICS[..1], START_NS);
    // One that the other host explains, and one that only the past does.
    outlives_a_restart(sick, "n_nics_down", 1).await;
    outlives_a_restart(lost, "n_nics", 1).await;
}

/// The second host is healthy, then as `trouble` says, also after the restart, when it shows `n` as `count`.
async fn outlives_a_restart(trouble: impl Fn(usize) -> HostHardware, count: &str, n: u32) {
    let dir = TempDir::new("hardware");
    let daemon = Daemon::start(config(&sqlite(&dir.0))).await;
    daemon.until_ready().await;
    daemon.take(&told(0, 1, healthy(0))).await;
    daemon.take(&told(1, 1, healthy(1))).await;
    daemon.take(&told(1, 2, trouble(1))).await;
    until_found(&daemon, FIRING, 1).await;
    let before = findings(&daemon, FIRING).await.remove(0);
    daemon.stop().await;
    let daemon = Daemon::start(config(&sqlite(&dir.0))).await;
    daemon.until_ready().await;
    let after = findings(&daemon, FIRING).await.remove(0);
    assert_eq!((&after["id"], &after["first_seen"]), (&before["id"], &before["first_seen"]));
    // The hosts tell again, and it holds: it is judged anew, for it is seen later than before.
    daemon.take(&told(1, 3, trouble(1))).await;
    daemon.take(&told(0, 2, healthy(0))).await;
    until("the host's hardware", async || daemon.json("/api/v1/nodes/node-b").await[count] == json!(n)).await;
    let told = daemon.json("/api/v1/nodes/node-b").await["last_seen"].clone();
    until("another judgement", async || {
        findings(&daemon, FIRING).await[0]["last_seen"].as_str() > told.as_str()
    })
    .await;
    assert_eq!(findings(&daemon, FIRING).await[0]["id"], before["id"]);
    assert!(findings(&daemon, RESOLVED).await.is_empty());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_shown_with_both_ends_and_one_that_failed_is_found() {
    let daemon = Daemon::ready("sqlite::memory:").await;
    let mut hardware = healthy(0);
    let gid = Gid { index: 1, gid: vec![1; 16], kind: GidKind::RoceV2.into(), ..Gid::default() };
    hardware.nics[0].gids = vec![gid];
    let mut batch = told(0, 1, hardware);
    let mut open = connection("mlx5_0", SMALL.hosts[1], "mlx5_1");
    open.remote.as_mut().unwrap().global_rank = Some(2);
    let failed = Connection {
        place: 1,
        state: ConnectionState::Failed.into(),
        error: "transport retry counter exceeded".into(),
        ..open.clone()
    };
    batch.processes[0].connections = vec![open, failed];
    batch.processes[0].connection_counts =
        vec![ConnectionCounts { generation: 1, bytes: 4096, ..ConnectionCounts::default() }];
    daemon.take(&batch).await;
    let page = daemon.json("/api/v1/nodes/node-a/connections").await;
    let items = page["items"].as_array().unwrap();
    let states: Vec<_> = items.iter().map(|one| (&one["state"], &one["bytes"])).collect();
    assert_eq!(states, [(&json!("failed"), &json!(0)), (&json!("open"), &json!(4096))]);
    let one = &items[1];
    let ends =
        json!([one["local"]["device"], one["local"]["gid"], one["remote"]["host"], one["remote"]["device"]]);
    assert_eq!(ends, json!(["mlx5_0", "fe80::1", "node-b", "mlx5_1"]));
    assert_eq!(one["queue_pairs"], json!([{"number": 17, "remote_number": 18, "state": "RTS"}]));
    let nic = &daemon.json("/api/v1/nodes/node-a").await["hardware"]["nics"][0];
    assert_eq!(
        nic["gids"],
        json!([{"index": 1, "gid": "101:101:101:101:101:101:101:101", "kind": "roce_v2"}])
    );
    assert_eq!(daemon.get("/api/v1/nodes/nobody/connections").await.status(), 404);
    until_found(&daemon, "kind=queue_pair_error&state=firing", 1).await;
    let finding = findings(&daemon, "kind=queue_pair_error").await.remove(0);
    let message = finding["message"].as_str().unwrap();
    assert!(
        message.contains("queue pair 17 of mlx5_0 port 1 to queue pair 18 of mlx5_1 of node-b"),
        "{message}"
    );
    assert!(message.ends_with("failed: transport retry counter exceeded"), "{message}");
    daemon.stop().await;
}
