//! An import in a daemon.

use std::process::{Child, Stdio};

use ringscope_api::Role;
use serde_json::Value;

use crate::common::daemon::{Daemon, closed, problem, sqlite, tokens};
use crate::common::{eventually, free_port, scratch};
use crate::made::{EQUAL, UNEQUAL, recorded};
use crate::{check, command, file, fixture, import, json};

/// Ends the child however the test ends.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn has_culprit(daemon: &Daemon, job: &str) {
    let found = eventually("the finding", async || {
        let findings = daemon.json(&format!("/api/v1/findings?job={job}")).await;
        let items = findings["items"].as_array()?.clone();
        items.into_iter().find(|one| one["finding"] == "channel_shortfall")
    });
    assert_eq!(found.await["host"], "node-c");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_posted_to_a_daemon() {
    let daemon = Daemon::ready("none").await;
    let post = |query: &str, body: Vec<u8>| {
        let request = daemon.client.post(format!("{}/api/v1/import{query}", daemon.url)).body(body);
        request.header("content-type", "application/octet-stream").send()
    };
    let response = post("?job=yesterday&file=job.log", UNEQUAL.logs().into_bytes()).await.unwrap();
    assert_eq!(response.status(), 200);
    let found: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    assert_eq!((&found["verdict"], &found["job"]), (&"findings".into(), &"yesterday".into()));
    has_culprit(&daemon, "yesterday").await;
    let health = daemon.json("/api/v1/health?job=yesterday").await;
    assert_eq!(health["level"], "critical", "as the verdict: {health}");
    problem(post("", b"hello\n".to_vec()).await.unwrap(), 422, "without one record of NCCL").await;
    problem(post("?x=1", Vec::new()).await.unwrap(), 400, "x").await;
    problem(post("", b"\x1f\x8b\x08\x00zz".to_vec()).await.unwrap(), 422, "cannot be read").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_posts_to_a_daemon() {
    let daemon = Daemon::ready("none").await;
    let dir = scratch("import");
    let log = file(&dir, "job-9.log", UNEQUAL.logs());
    check(&import(&[&log, "--daemon", &daemon.url]), 2, &["node-c"]);
    has_culprit(&daemon, "job-9").await;
    daemon.stop().await;
    let url = format!("http://127.0.0.1:{}", free_port());
    let ended = import(&[&log, "--daemon", &url]);
    assert!(ended.code == Some(1) && ended.stderr.contains("Connection refused"), "{ended:?}");
    assert!(ended.stderr.contains("Is `ringscope serve` running there?"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_wants_a_token_says_so_in_its_own_words() {
    let dir = scratch("import-refused");
    let url = sqlite(&dir);
    let [read] = tokens(&url, [Role::Read]).await;
    let daemon = Daemon::start(closed(&url)).await;
    daemon.until_ready().await;
    let log = file(&dir, "job-11.log", UNEQUAL.logs());
    let token = file(&dir, "read.token", read);
    let bare = import(&[&log, "--daemon", &daemon.url]);
    let lesser = import(&[&log, "--daemon", &daemon.url, "--token-file", &token]);
    for (ended, said) in [
        (bare, "did not take the import: 401 Unauthorized: this daemon wants to know who asks"),
        (lesser, "did not take the import: 403 Forbidden: \"the read\" has the role read"),
    ] {
        assert!(ended.code == Some(1) && ended.stderr.contains(said), "{ended:?}");
        assert!(!ended.stderr.contains("\"detail\"") && !ended.stderr.contains("running there"), "{ended:?}");
    }
    daemon.stop().await;
}

#[test]
fn what_others_could_see_is_served_on_demand_alone() {
    let dir = scratch("import-open");
    let log = file(&dir, "job-12.log", UNEQUAL.logs());
    let ended = import(&[&log, "--serve", "--listen", "0.0.0.0:0"]);
    assert!(ended.code == Some(1) && ended.stderr.contains("say --insecure-open"), "{ended:?}");
    for other in ["--database-url", "--oidc-issuer", "ringscope token"] {
        assert!(!ended.stderr.contains(other), "{other} is no option of import: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_serves_itself() {
    let dir = scratch("import");
    let log = file(&dir, "job-10.log", UNEQUAL.logs());
    let address = format!("127.0.0.1:{}", free_port());
    let mut serving = command(&[&log, "--serve", "--listen", &address]);
    let child = Ending(serving.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let client = reqwest::Client::new();
    let job = eventually("the imported job", async || {
        let url = format!("http://{address}/api/v1/jobs/job-10");
        let response = client.get(url).send().await.ok().filter(|response| response.status() == 200)?;
        response.json::<Value>().await.ok()
    });
    let job = job.await;
    assert_eq!((&job["n_processes"], &job["findings"]["critical"]), (&6.into(), &1.into()), "{job:#}");
    assert_eq!(job["state"], "imported", "{job:#}");
    drop(child);
}

/// The log of an init that returned an error.
fn failed_init() -> String {
    std::fs::read_to_string(fixture("logs").join("nccl-2.21.5-perlmutter-failed-init.log")).unwrap()
}

/// A log in which the last rank's init has no end.
fn cut_init() -> String {
    let logs = EQUAL.logs();
    let has_end = |line: &&str| !(line.contains("rank 5 ") && line.contains("Init COMPLETE"));
    logs.lines().filter(has_end).map(|line| format!("{line}\n")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_says_what_the_verdict_says() {
    let daemon = Daemon::ready("none").await;
    for (job, log, verdict, level, words) in [
        ("well", EQUAL.ended(), "healthy", "ok", "All 3 hosts healthy"),
        ("open", EQUAL.logs(), "unknown", "unknown", "not whether its calls end: add Flight Recorder dumps"),
        ("failed", failed_init(), "findings", "critical", "failed to join the init of"),
        ("cut", cut_init(), "findings", "warning", "has no end"),
    ] {
        let url = format!("{}/api/v1/import?job={job}", daemon.url);
        let response = daemon
            .client
            .post(url)
            .header("content-type", "application/octet-stream")
            .body(log)
            .send()
            .await
            .unwrap();
        let found: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        assert_eq!(found["verdict"], verdict, "{job}: {found:#}");
        let health = daemon.json(&format!("/api/v1/health?job={job}")).await;
        assert_eq!(health["level"], level, "{job}: {health:#}");
        assert!(health["sentence"].as_str().unwrap().contains(words), "{job}: {health:#}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dumps_that_are_sent_rank_by_rank_come_to_the_sentence_of_the_terminal() {
    let daemon = Daemon::ready("none").await;
    let dir = scratch("import");
    let mut behind = recorded();
    behind["entries"].as_array_mut().unwrap().pop();
    behind["pg_status"]["0"]["last_enqueued_collective"] = 1.into();
    let dumps = [recorded(), behind];
    let mut files = Vec::new();
    for (rank, dump) in dumps.iter().enumerate() {
        files.push(file(&dir, &format!("dump_{rank}"), dump.to_string()));
        let url = format!("{}/api/v1/import?job=sent&file=dump_{rank}", daemon.url);
        let response = daemon
            .client
            .post(url)
            .header("content-type", "application/json")
            .body(dump.to_string())
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
    }
    let said = json(&[&files[0], &files[1], "--job", "sent"], 2);
    let said = &said["findings"][0];
    let found = eventually("the finding", async || {
        let findings = daemon.json("/api/v1/findings?job=sent&state=firing").await;
        let items = findings["items"].as_array()?.clone();
        items.into_iter().find(|one| one["finding"] == "rank_missing")
    });
    let found = found.await;
    for field in ["message", "severity", "cause", "advice", "rank", "accused", "began_at", "evidence"] {
        let named = |value: &Value| value.to_string().replace(&format!("{}/", dir.display()), "");
        assert_eq!(named(&found[field]), named(&said[field]), "{field}");
    }
    let health = daemon.json("/api/v1/health?job=sent").await;
    assert_eq!(health["level"], "critical", "{health:#}");
    assert!(
        health["sentence"].as_str().unwrap().starts_with("Rank 1 has not come; 1 other waits"),
        "{health:#}"
    );
    daemon.stop().await;
}
