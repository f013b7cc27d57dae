//! `/metrics` over a fixture, and Prometheus's own opinion of it.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use ringscope_daemon::config::ServeConfig;
use ringscope_samples::cluster::connection;
use ringscope_server::metrics::MetricsLimits;
use ringscope_wire::batch::{Completion, Gpu, Level, NicCounter};

use crate::common::batches::{Job, SMALL, START_NS, hardware};
use crate::common::daemon::{Daemon, config};
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
        if host == 0 {
            let count = |name: &str, value| vec![NicCounter { name: name.into(), value }];
            hardware.nics[0].retransmits = count("packet_seq_err", 7);
            hardware.nics[0].failures = count("req_remote_access_errors", 2);
            hardware.nics[0].congestion = count("np_cnp_sent", 812);
            batch.processes[0].connections = vec![connection("mlx5_0", SMALL.hosts[1], "mlx5_0")];
        }
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn series_stay_below_the_limit_and_what_is_unhealthy_is_never_left_out() {
    let limits = MetricsLimits { series: SERIES, communicators: None };
    let daemon = Daemon::start(ServeConfig { metrics: limits, ..config("none") }).await;
    daemon.until_ready().await;
    for job in 0..200 {
        start(&daemon, &format!("well-{job}"), [4, 4], 1).await;
    }
    let first = scrape(&daemon).await;
    let (shown, n_left_out) = (communicators(&first), left_out(&first, "communicators"));
    assert!(n_left_out > 50 && shown.len() + n_left_out == 200, "{} and {n_left_out}", shown.len());
    assert!(left_out(&first, "hosts") > 0 && first.contains("\nringscope_metrics_series_limit 1000\n"));
    let again = communicators(&scrape(&daemon).await);
    assert_eq!(again, shown, "what is shown stays");
    let of_hosts = first.lines().filter(|line| line.starts_with("ringscope_agent_heard")).count();

    // What is more than twice as large comes in, and the sick at once.
    start(&daemon, "wide", [4, 4], 3).await;
    start(&daemon, "sick", [4, 1], 1).await;
    let text = scrape(&daemon).await;
    let now = communicators(&text);
    let of = |job: &str| now.iter().filter(|(of, _)| of == job).count();
    assert_eq!((of("sick"), of("wide")), (1, 1), "{now:?}");
    assert!(text.contains("ringscope_init_channels{") && text.contains("host=\"sick-b\",job=\"sick\"} 1\n"));
    let stayed = shown.iter().filter(|one| now.contains(one)).count();
    assert!(stayed + 4 >= shown.len(), "{stayed} of {}", shown.len());
    let heard =
        |host: &str| text.contains(&format!("ringscope_agent_heard_timestamp_seconds{{host=\"{host}\"}}"));
    assert!(of_hosts < 400 && heard("sick-b"), "hosts of findings are shown, of {of_hosts}");
    assert_eq!(communicators(&scrape(&daemon).await), now, "and nothing comes and goes");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_communicator_that_is_too_wide_for_its_hosts_has_its_sums() {
    let hosts: Vec<String> = (0..200).map(|host| format!("node-{host}")).collect();
    let names: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let job = Job { name: "wide", hosts: &names, ranks_per_host: 1, init: &[4; 200], last: 4 };
    let limits = MetricsLimits { series: SERIES, communicators: None };
    let daemon = Daemon::start(ServeConfig { metrics: limits, ..config("none") }).await;
    daemon.until_ready().await;
    for host in 0..names.len() {
        daemon.take(&job.batch(host, 1, 3, START_NS)).await;
    }
    let text = scrape(&daemon).await;
    let issued: Vec<&str> =
        text.lines().filter(|line| line.starts_with("ringscope_issued_bytes_total{")).collect();
    let bytes = 200 * (3 << 20);
    assert!(
        issued.len() == 1 && issued[0].ends_with(&format!("primitive=\"all_reduce\"}} {bytes}")),
        "{issued:?}"
    );
    assert!(!issued[0].contains("host="), "{issued:?}");
    assert_eq!((left_out(&text, "communicators"), left_out(&text, "communicators_by_host")), (0, 1));
    daemon.stop().await;
}

/// The least that can be set.
const SERIES: usize = 1000;

/// A job on two hosts of its own that found so many channels.
async fn start(daemon: &Daemon, name: &str, init: [u32; 2], ranks_per_host: u32) {
    let hosts = [format!("{name}-a"), format!("{name}-b")];
    let hosts = [hosts[0].as_str(), hosts[1].as_str()];
    let last = init[0].min(init[1]);
    let job = Job { name, hosts: &hosts, ranks_per_host, init: &init, last };
    for host in 0..2 {
        daemon.take(&job.batch(host, 1, 3, START_NS)).await;
    }
}

/// What Prometheus gets, which is never more than it may be.
async fn scrape(daemon: &Daemon) -> String {
    let text = daemon.get("/metrics").await.text().await.unwrap();
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    assert!(series <= SERIES, "{series} series");
    text
}

/// Communicators with series, as job and whole line.
fn communicators(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter(|line| line.starts_with("ringscope_communicator_ranks{"));
    let job =
        |line: &str| line.split("job=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned();
    lines.map(|line| (job(line), line.to_owned())).collect()
}

fn left_out(text: &str, kind: &str) -> usize {
    let start = format!("ringscope_metrics_left_out{{kind=\"{kind}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&start)).unwrap().parse().unwrap()
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
        "ringscope_ingest_duration",
        "ringscope_ingest_queue",
        "ringscope_store_write_duration",
        "ringscope_hub_lock_wait",
        "ringscope_judgement_delay",
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
