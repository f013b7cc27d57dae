//! A token is revoked while the daemon can write nothing: the limit of the size of its files stands for a disk that is full.

use std::process::{Child, Stdio};

use ringscope_store::Store;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::Value;

use crate::common::daemon::sqlite;
use crate::common::stage::RINGSCOPE;
use crate::common::{free_port, scratch, until};
use crate::{end, ringscope, without_settings};

/// `ringscope serve`, which ends with the value.
struct Serving(Child);

impl Serving {
    /// Any write that makes a file longer than this fails.
    fn limit_files(&self, bytes: Option<u64>) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        let most = getrlimit(Resource::Fsize).maximum;
        prlimit(Some(pid), Resource::Fsize, Rlimit { current: bytes.or(most), maximum: most }).unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn made(database: &str, name: &str, role: &str) -> String {
    let args = ["token", "create", "--database", database, "--name", name, "--role", role];
    let (code, secret, told) = end(&mut ringscope(&args));
    assert_eq!(code, Some(0), "{told}");
    secret.trim_end().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_can_be_revoked_on_a_full_disk_and_it_is_written_once_there_is_room() {
    let dir = scratch("full-disk");
    let database = sqlite(&dir);
    let (admin, stolen) = (made(&database, "ann", "admin"), made(&database, "stolen laptop", "read"));
    let id = stolen.split('_').nth(1).unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    // A process that does not ignore it is killed by what a full disk would only refuse.
    let mut command = without_settings("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", RINGSCOPE, "serve", "--listen", &address]);
    command.args(["--database-url", &database, "--with-agent", "false", "--require-tokens"]);
    command.arg("--data-dir").arg(dir.as_os_str()).stdout(Stdio::null()).stderr(Stdio::null());
    let serving = Serving(command.spawn().unwrap());
    let client = reqwest::Client::new();
    let get = async |path: &str, token: &str| {
        client.get(format!("http://{address}{path}")).bearer_auth(token).send().await.ok()
    };
    let status = async |token: &str| get("/api/v1/jobs", token).await.map(|answer| answer.status().as_u16());
    until("it is let in", async || status(&stolen).await == Some(200)).await;

    serving.limit_files(Some(0));
    let url = format!("http://{address}");
    let asked = |what: &[&str]| {
        let daemon = ["--daemon", &url];
        end(ringscope(&[what, &daemon].concat()).env("RINGSCOPE_TOKEN", &admin))
    };
    let (code, list, told) = asked(&["token", "list"]);
    assert!(code == Some(0) && list.contains(id), "whoever revokes one needs its id: {list}{told}");
    let (code, said, told) = asked(&["token", "revoke", id]);
    assert_eq!(code, Some(0), "{said}{told}");
    for part in ["in force on this daemon now", "Not yet written: ", "It is tried again"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert_eq!(status(&stolen).await, Some(401), "at once");

    // Another process can write: once the daemon has read what that wrote it has read the tokens anew.
    let later = made(&database, "later", "read");
    until("the tokens are read anew", async || status(&later).await == Some(200)).await;
    let refused = get("/api/v1/jobs", &stolen).await.unwrap().text().await.unwrap();
    assert!(refused.contains("was revoked at"), "{refused}");
    let (_, list, _) = asked(&["token", "list"]);
    assert!(list.contains("unwritten"), "{list}");
    let health: Value = get("/api/v1/health", &admin).await.unwrap().json().await.unwrap();
    let notices = health["notices"].to_string();
    assert!(notices.contains("stolen laptop") && notices.contains("restart"), "{health}");

    serving.limit_files(None);
    until("it is written", async || {
        let store = Store::open(&database.parse().unwrap()).await.unwrap().unwrap();
        let tokens = store.tokens().await.unwrap();
        store.close().await;
        tokens.iter().any(|row| row.token.id == id && row.token.revoked_at.is_some())
    })
    .await;
    until("and no more is said of it", async || {
        let health: Value = get("/api/v1/health", &admin).await.unwrap().json().await.unwrap();
        health.get("notices").is_none() && !asked(&["token", "list"]).1.contains("unwritten")
    })
    .await;
    assert_eq!(status(&stolen).await, Some(401));
}
