//! A real Prometheus scrapes a daemon that sees a degraded host.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::process::Command;

use common::stage::{Process, Stage};
use common::{PATIENCE, eventually, free_port};
use ringscope_daemon::demo::job::{Job, JobSpec};

/// Starts a Prometheus that scrapes the stage's daemon every second.
fn prometheus(stage: &Stage, port: u16) -> Process {
    let dir = &stage.dir.0;
    let config = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: ringscope\n  honor_labels: true\n  static_configs: \
         [{{targets: ['127.0.0.1:{}']}}]\n",
        stage.port
    );
    std::fs::write(dir.join("prometheus.yml"), config).unwrap();
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", dir.join("prometheus.yml").display()));
    command.arg(format!("--storage.tsdb.path={}", dir.join("prometheus").display()));
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    Process::start(&mut command, &dir.join("prometheus.log"))
}

/// Hosts that an expression selects now.
async fn select(port: u16, expression: &str) -> Option<BTreeSet<(String, String)>> {
    let url = format!("http://127.0.0.1:{port}/api/v1/query");
    let form = reqwest::Url::parse_with_params(&url, [("query", expression)]).ok()?;
    let answer: serde_json::Value = reqwest::get(form).await.ok()?.json().await.ok()?;
    let series = answer["data"]["result"].as_array()?;
    let label =
        |one: &serde_json::Value, name: &str| one["metric"][name].as_str().unwrap_or_default().to_owned();
    Some(series.iter().map(|one| (label(one, "job"), label(one, "host"))).collect())
}

fn pairs(expected: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    expected.iter().map(|(job, host)| ((*job).to_owned(), (*host).to_owned())).collect()
}

#[tokio::test]
async fn prometheus_selects_the_right_hosts() {
    let stage = Stage::new("prometheus");
    let _serve = stage.serve(true);
    let hosts = stage.hosts(6);
    hosts[2].set_nic(1, false).unwrap();
    let mut training = stage.job("training", &hosts[..4], 1);
    let floor = JobSpec {
        name: "floor".to_owned(),
        hosts: hosts[4..].to_vec(),
        ranks_per_host: 1,
        environment: vec![("RSCCL_MIN_NCHANNELS", "8".to_owned())],
        step_ms: 20,
    };
    let mut floor = Job::start(&floor, &stage.installation(), &stage.dir.0.join("jobs")).unwrap();
    let port = free_port();
    let _prometheus = prometheus(&stage, port);

    let cases = [
        (
            "ringscope_init_channels * 2 < ringscope_final_channels",
            pairs(&[("floor", "host-4"), ("floor", "host-5")]),
        ),
        ("ringscope_finding{finding=\"channel_shortfall\"}", pairs(&[("training", "host-2")])),
        (
            "ringscope_finding{finding=\"capped_by_peer\"}",
            pairs(&[("training", "host-0"), ("training", "host-1"), ("training", "host-3")]),
        ),
    ];
    for (expression, expected) in cases {
        eventually(&format!("{expression} selects {expected:?}; {}", stage.words()), || async {
            (select(port, expression).await? == expected).then_some(())
        })
        .await;
    }
    eventually("bytes are counted", || async {
        let busy = select(port, "rate(ringscope_completed_bytes_total[10s]) > 0").await?;
        (busy.len() == 6).then_some(())
    })
    .await;

    check_with_promtool(&stage).await;
    for job in [&mut training, &mut floor] {
        job.stop(PATIENCE).await.unwrap_or_else(|error| panic!("{error}"));
    }
}

async fn check_with_promtool(stage: &Stage) {
    let metrics = reqwest::get(format!("{}/metrics", stage.url())).await.unwrap().text().await.unwrap();
    let file = stage.dir.0.join("metrics.txt");
    std::fs::write(&file, &metrics).unwrap();
    let output = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(std::fs::File::open(&file).unwrap())
        .output()
        .unwrap_or_else(|error| panic!("{error}: apt-get install -y --no-install-recommends prometheus"));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && words.is_empty(), "{words}\n{metrics}");
}
