//! A real Prometheus and a real Alertmanager with the committed rules and examples, and a receiver of alerts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use axum::Json;
use axum::extract::{Path as UrlPath, State};
use serde::Deserialize;
use tokio::net::TcpListener;

use super::free_port;
use super::stage::{Process, Stage};

/// Labels of an alert.
pub type Labels = BTreeMap<String, String>;

/// An alert as Alertmanager tells it to a webhook.
#[derive(Clone, Debug, Deserialize)]
pub struct Told {
    /// `firing` or `resolved`.
    pub status: String,
    pub labels: Labels,
    pub annotations: Labels,
}

/// Everything that was told, with the receiver that it was told to, in order.
#[derive(Clone, Default)]
pub struct Receiver(Arc<Mutex<Vec<(String, Told)>>>);

#[derive(Deserialize)]
struct Message {
    alerts: Vec<Told>,
}

impl Receiver {
    /// A webhook at `http://127.0.0.1:<port>/<receiver>`. Returns the port too.
    pub async fn start() -> (Self, u16) {
        let receiver = Self::default();
        let router =
            axum::Router::new().route("/{receiver}", axum::routing::post(take)).with_state(receiver.clone());
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        #[allow(clippy::disallowed_methods, reason = "it ends with the test")]
        tokio::spawn(async move { axum::serve(listener, router).await });
        (receiver, port)
    }

    /// Everything told so far.
    pub fn told(&self) -> Vec<(String, Told)> {
        self.0.lock().unwrap().clone()
    }
}

async fn take(
    State(receiver): State<Receiver>,
    UrlPath(name): UrlPath<String>,
    Json(message): Json<Message>,
) {
    receiver.0.lock().unwrap().extend(message.alerts.into_iter().map(|told| (name.clone(), told)));
}

/// Prometheus with the committed example; only addresses and the place of the rules are others.
pub fn prometheus(stage: &Stage, alertmanager_port: u16) -> Process {
    let dir = folder(stage, "prometheus");
    let rules = dashboards().join("rules/*.yml");
    let config = example(
        "prometheus.yml",
        &[
            ("127.0.0.1:9440", &format!("127.0.0.1:{}", stage.port)),
            ("127.0.0.1:9093", &format!("127.0.0.1:{alertmanager_port}")),
            ("- rules/*.yml", &format!("- {}", rules.display())),
        ],
    );
    std::fs::write(dir.join("config.yml"), config).unwrap();
    let mut command = tool("prometheus", "prometheus");
    command.arg(format!("--config.file={}", dir.join("config.yml").display()));
    command.arg(format!("--storage.tsdb.path={}", dir.join("data").display()));
    command.arg(format!("--web.listen-address=127.0.0.1:{}", free_port()));
    Process::start(&mut command, &stage.dir.0.join("prometheus.log"))
}

/// Alertmanager with the committed example, whose receivers are a webhook of the test; and its port.
pub fn alertmanager(stage: &Stage, webhook_port: u16) -> (Process, u16) {
    let dir = folder(stage, "alertmanager");
    let config = example("alertmanager.yml", &[("127.0.0.1:9095", &format!("127.0.0.1:{webhook_port}"))]);
    std::fs::write(dir.join("config.yml"), config).unwrap();
    let port = free_port();
    let mut command = tool("prometheus-alertmanager", "prometheus-alertmanager");
    command.arg(format!("--config.file={}", dir.join("config.yml").display()));
    command.arg(format!("--storage.path={}", dir.join("data").display()));
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    // One alone: it need not look for others.
    command.arg("--cluster.listen-address=");
    (Process::start(&mut command, &stage.dir.0.join("alertmanager.log")), port)
}

/// A program that a package brings.
fn tool(program: &str, package: &str) -> Command {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if let Err(error) = found {
        panic!("{program}: {error}: apt-get install -y --no-install-recommends {package}");
    }
    Command::new(program)
}

/// A committed example with other addresses.
fn example(name: &str, changes: &[(&str, &str)]) -> String {
    let mut text = std::fs::read_to_string(dashboards().join(name)).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "{name} has no {from}");
        text = text.replace(from, to);
    }
    text
}

fn folder(stage: &Stage, name: &str) -> PathBuf {
    let dir = stage.dir.0.join(name);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn dashboards() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("dashboards")
}
