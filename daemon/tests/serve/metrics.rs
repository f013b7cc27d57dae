//! `/metrics` over a fixture, and Prometheus's own opinion of it.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use ringscope_wire::batch::{Completion, Gpu, Level};

use crate::common::batches::{SMALL, START_NS, hardware};
use crate::common::daemon::Daemon;
use crate::common::summation;

/// Regenerate with `rm fixtures/metrics/small.prom`, run the test, and read the difference.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/metrics/small.prom");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_as_recorded_and_prometheus_likes_them() {
    let daemon = Daemon::ready("none").await;
    for host in 0..2 {
        let mut batch = SMALL.batch(host, 1, 3, START_NS);
        let mut hardware = hardware(SMALL.hosts[host], &["mlx5_0", "mlx5_1"], START_NS);
        hardware.gpus = vec![Gpu { pci: "0000:18:00.0".into(), ..Gpu::default() }];
        hardware.gpus_known = host == 0;
        batch.hardware = vec![hardware];
        daemon.take(&batch).await;
    }
    daemon.take(&summation::batch(1, 3, START_NS, true)).await;
    let text = daemon.get("/metrics").await.text().await.unwrap();
    check(&text);
    let stable: String =
        text.lines().filter(|line| is_stable(line)).map(|line| format!("{line}\n")).collect();
    if !Path::new(GOLDEN).exists() {
        std::fs::write(GOLDEN, &stable).unwrap();
        panic!("{GOLDEN} was not there and is written now: read it, and run again");
    }
    assert_eq!(stable, std::fs::read_to_string(GOLDEN).unwrap(), "{GOLDEN}: delete it to record it anew");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_is_shown_only_where_completion_is_known() {
    let daemon = Daemon::ready("none").await;
    for host in 0..2 {
        let mut batch = SMALL.batch(host, 1, 3, START_NS);
        if host == 1 {
            for process in &mut batch.processes {
                process.communicators[0].completion = Completion::None.into();
            }
        }
        daemon.take(&batch).await;
    }
    let text = daemon.get("/metrics").await.text().await.unwrap();
    let backlog: Vec<&str> =
        text.lines().filter(|line| line.starts_with("ringscope_backlog_bytes{")).collect();
    assert!(backlog.len() == 1 && backlog[0].contains("host=\"node-a\""), "{backlog:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_nobody_counts_have_no_series() {
    let daemon = Daemon::ready("none").await;
    for host in 0..2 {
        let mut batch = SMALL.batch(host, 1, 3, START_NS);
        for process in &mut batch.processes {
            process.level = Level::Counters.into();
        }
        daemon.take(&batch).await;
    }
    let text = daemon.get("/metrics").await.text().await.unwrap();
    let series = |name: &str| text.lines().filter(|line| line.starts_with(&format!("{name}{{"))).count();
    assert_eq!(series("ringscope_wire_bytes_total"), 0, "{text}");
    assert_eq!(series("ringscope_completed_bytes_total"), 2, "{text}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pulls_from_all_services_of_a_host_are_one_histogram() {
    let daemon = Daemon::ready("none").await;
    let mut batch = summation::batch(1, 3, START_NS, true);
    batch.processes[2].summations[0].staleness = vec![5, 0, 2];
    for told in batch.processes.iter_mut().flat_map(|process| &mut process.summations) {
        told.services[0].host = "work-a".into();
    }
    daemon.take(&batch).await;
    let text = daemon.get("/metrics").await.text().await.unwrap();
    let series: Vec<&str> = (text.lines())
        .filter(|line| line.starts_with("ringscope_sum_staleness_rounds") && line.contains("work-a"))
        .collect();
    let values: Vec<&str> = series.iter().filter_map(|line| line.rsplit(' ').next()).collect();
    assert_eq!(values, ["95", "104", "107", "15", "107"], "le 0, 1, all; sum; count: {series:?}");
    daemon.stop().await;
}

/// Time and memory differ from run to run: of those only what they are is recorded.
fn is_stable(line: &str) -> bool {
    let varies = [
        "process_",
        "ringscope_scrape_duration",
        "ringscope_build_info",
        "ringscope_store_commits",
        "ringscope_ingest_bytes",
        "_timestamp_seconds",
        "ringscope_sum_oldest_wait",
    ];
    line.starts_with('#') || !varies.iter().any(|name| line.contains(name))
}

fn check(text: &str) {
    let child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child =
        child.expect("promtool is missing: apt-get install -y --no-install-recommends prometheus");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.trim().is_empty(), "{said}");
}
