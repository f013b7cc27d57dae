//! A real Prometheus scrapes a daemon that sees a degraded host.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::process::Command;

use common::prometheus::{prometheus, select};
use common::stage::Stage;
use common::{PATIENCE, eventually, free_port};
use ringscope_daemon::demo::job::{Job, JobSpec};

/// Jobs and hosts that an expression selects now.
async fn hosts(port: u16, expression: &str) -> Option<BTreeSet<(String, String)>> {
    let series = select(port, expression).await?;
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
    let pretended = stage.hosts(6);
    pretended[2].set_nic(1, false).unwrap();
    let mut training = stage.job("training", &pretended[..4], 1);
    let floor = JobSpec {
        name: "floor".to_owned(),
        hosts: pretended[4..].to_vec(),
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
            (hosts(port, expression).await? == expected).then_some(())
        })
        .await;
    }
    eventually("bytes are counted", || async {
        let busy = hosts(port, "rate(ringscope_completed_bytes_total[10s]) > 0").await?;
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
