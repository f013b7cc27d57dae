//! A real Prometheus that looks every second.

use std::process::Command;

use serde_json::Value;

use super::stage::{Process, Stage};

/// The label that it gives all series.
pub const CLUSTER: &str = "test";

/// Starts a Prometheus that scrapes the stage's daemon.
pub fn prometheus(stage: &Stage, port: u16) -> Process {
    let dir = &stage.dir.0;
    let config = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: ringscope\n  honor_labels: true\n  static_configs: \
         [{{targets: ['127.0.0.1:{}'], labels: {{cluster: {CLUSTER}}}}}]\n",
        stage.port
    );
    std::fs::write(dir.join("prometheus.yml"), config).unwrap();
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", dir.join("prometheus.yml").display()));
    command.arg(format!("--storage.tsdb.path={}", dir.join("prometheus").display()));
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    Process::start(&mut command, &dir.join("prometheus.log"))
}

/// The series that an expression selects now. `None`: Prometheus is away, or it is no expression.
pub async fn select(port: u16, expression: &str) -> Option<Vec<Value>> {
    let url = format!("http://127.0.0.1:{port}/api/v1/query");
    let url = reqwest::Url::parse_with_params(&url, [("query", expression)]).ok()?;
    let answer: Value = reqwest::get(url).await.ok()?.json().await.ok()?;
    Some(answer["data"]["result"].as_array()?.clone())
}
