//! Every panel of every Grafana dashboard against a real Prometheus while a job runs: none may be empty.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::prometheus::{prometheus, select};
use common::stage::Stage;
use common::{PATIENCE, eventually, free_port, summation};
use prost::Message as _;
use ringscope_wire::batch::{Batch, FORMAT_VERSION, HostHardware, Nic, NicCounter, NicKind};
use serde_json::Value;
use tokio::task::JoinSet;

/// A host that only its hardware is known of: what the panels of NICs need, errors that rise included.
const RECORDED: &str = "recorded-0";

#[tokio::test]
async fn no_panel_is_empty() {
    let stage = Stage::new("dashboards");
    let _serve = stage.serve(true);
    let hosts = stage.hosts(4);
    hosts[2].set_nic(1, false).unwrap();
    let mut training = stage.job("training", &hosts, 2);
    let port = free_port();
    let _prometheus = prometheus(&stage, port);
    let comm = eventually(&format!("a communicator over all hosts; {}", stage.words()), || async {
        let list = json(&format!("{}/api/v1/communicators?job=training", stage.url())).await?;
        let wide =
            list["items"].as_array()?.iter().find(|one| one["n_ranks"] == 8 && one["state"] == "active")?;
        Some(wide["id"].as_str()?.to_owned())
    })
    .await;
    let mut tasks = JoinSet::new();
    tasks.spawn(tell_hardware(stage.url()));
    tasks.spawn(tell_summation(stage.url()));
    let group = eventually("a summation group", || async {
        let list = json(&format!("{}/api/v1/summation/groups", stage.url())).await?;
        Some(list["items"][0]["id"].as_str()?.to_owned())
    })
    .await;

    let instance = format!("127.0.0.1:{}", stage.port);
    for (name, dashboard) in dashboards() {
        let values = |host: &str| {
            let job = if name == "summation" { summation::JOB } else { "training" };
            let values = [
                ("cluster", common::prometheus::CLUSTER),
                ("instance", &instance),
                ("job", job),
                ("comm", &comm),
                ("group", &group),
                ("host", host),
                ("__rate_interval", "10s"),
            ];
            values.map(|(variable, value)| (variable.to_owned(), value.to_owned())).into()
        };
        for variable in dashboard["templating"]["list"].as_array().unwrap() {
            let Some(query) = variable["query"]["query"].as_str() else { continue };
            has_values(port, &name, query, &values("host-2")).await;
        }
        for panel in dashboard["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row") {
            let title = panel["title"].as_str().unwrap();
            let host = if title.starts_with("NIC") { RECORDED } else { "host-2" };
            for target in panel["targets"].as_array().unwrap() {
                let expression = substitute(target["expr"].as_str().unwrap(), &values(host));
                eventually(
                    &format!("{name} / {title}: {expression} gives data; {}", stage.words()),
                    || async { (!select(port, &expression).await?.is_empty()).then_some(()) },
                )
                .await;
            }
        }
        let mark =
            substitute(dashboard["annotations"]["list"][0]["expr"].as_str().unwrap(), &values("host-2"));
        assert!(select(port, &mark).await.is_some(), "{name}: the annotation {mark} is no expression");
    }
    training.stop(PATIENCE).await.unwrap_or_else(|error| panic!("{error}"));
}

/// The committed dashboards, by name.
fn dashboards() -> BTreeMap<String, Value> {
    let files =
        std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboards/grafana")).unwrap();
    let all: BTreeMap<String, Value> = files
        .map(|file| file.unwrap().path())
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
        })
        .collect();
    assert_eq!(
        all.keys().collect::<Vec<_>>(),
        ["communicator", "fleet", "host", "itself", "job", "summation"]
    );
    all
}

/// Tells of the NICs of a host, as an agent does, with counters that grow.
async fn tell_hardware(url: String) {
    let client = reqwest::Client::new();
    for seq_number in 1_u64.. {
        let nic = Nic {
            name: "mlx5_0".into(),
            kind: NicKind::Rdma.into(),
            port: 1,
            up: true,
            state: "ACTIVE".into(),
            rate_bits_per_s: Some(400_000_000_000),
            link_layer: "InfiniBand".into(),
            sent_bytes: Some(seq_number << 30),
            received_bytes: Some(seq_number << 30),
            link_downs: Some(0),
            errors: vec![NicCounter { name: "symbol_error".into(), value: seq_number }],
            ..Nic::default()
        };
        let now = ringscope_api::clock::now().0;
        let hardware = HostHardware {
            host: RECORDED.into(),
            read_at_ns: now,
            nics: vec![nic],
            ..HostHardware::default()
        };
        let batch = Batch {
            format_version: FORMAT_VERSION,
            agent_id: "recorded".into(),
            seq_number,
            agent_host: RECORDED.into(),
            sent_at_ns: now,
            hardware: vec![hardware],
            ..Batch::default()
        };
        tell(&client, &url, &batch).await;
    }
}

/// Tells of a summation group at work, as an agent does.
async fn tell_summation(url: String) {
    let client = reqwest::Client::new();
    for seq_number in 1_u64.. {
        let mut batch = summation::batch(seq_number, seq_number, ringscope_api::clock::now().0, true);
        for told in batch.processes.iter_mut().flat_map(|process| &mut process.summations) {
            told.staleness.iter_mut().for_each(|pulls| *pulls *= seq_number);
        }
        tell(&client, &url, &batch).await;
    }
}

async fn tell(client: &reqwest::Client, url: &str, batch: &Batch) {
    let request = client.post(format!("{url}/api/v1/ingest")).body(batch.encode_to_vec());
    let answer = request.header("content-type", "application/x-protobuf").send().await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
}

fn substitute(expression: &str, values: &BTreeMap<String, String>) -> String {
    let mut text = expression.to_owned();
    for (variable, value) in values {
        text = text.replace(&format!("${variable}"), value);
    }
    assert!(!text.contains('$'), "{text} has a variable that the test does not know");
    text
}

async fn json(url: &str) -> Option<Value> {
    reqwest::get(url).await.ok()?.json().await.ok()
}

/// `label_values(SELECTOR, LABEL)` of a variable.
async fn has_values(port: u16, name: &str, query: &str, values: &BTreeMap<String, String>) {
    let inner = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')')).unwrap();
    let (selector, label) = inner.rsplit_once(", ").unwrap();
    let selector = substitute(selector, values);
    let url = format!("http://127.0.0.1:{port}/api/v1/label/{label}/values");
    let url = reqwest::Url::parse_with_params(&url, [("match[]", selector.as_str())]).unwrap();
    eventually(&format!("{name}: the variable {label} has {}", values[label]), || async {
        let answer = json(url.as_str()).await?;
        answer["data"].as_array()?.iter().any(|value| value == &values[label]).then_some(())
    })
    .await;
}
