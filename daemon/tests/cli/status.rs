//! `ringscope status`, for people and for scripts.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::thread;

use ringscope_api::clock;
use ringscope_wire::batch::ProcessState;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::batches::{Job, SMALL, START_NS};
use crate::common::daemon::{Daemon, config};
use crate::common::{free_port, summation, until};
use crate::{check, end, ringscope};

fn status(url: &str) -> Command {
    ringscope(&["status", "--daemon", url])
}

#[test]
fn without_a_daemon_it_is_1() {
    let url = format!("http://127.0.0.1:{}", free_port());
    check(&["status", "--daemon", &url], 1, &[&url, "Connection refused", "`ringscope serve`", "--daemon"]);
}

#[test]
fn several_addresses_are_said_to_be_the_agents() {
    let mut command = ringscope(&["status"]);
    let (code, _, stderr) = end(command.env("RINGSCOPE_DAEMON", "http://a:9440,http://b:9440"));
    assert_eq!(code, Some(64));
    assert!(stderr.contains("`ringscope agent` alone") && stderr.contains("one of them"), "{stderr}");
}

#[test]
fn a_signal_ends_it_while_it_waits_for_an_answer() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut asking = status(&format!("http://{}", silent.local_addr().unwrap())).spawn().unwrap();
    let (_connection, _) = silent.accept().unwrap();
    kill_process(Pid::from_child(&asking), Signal::TERM).unwrap();
    assert_eq!(asking.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
}

#[test]
fn what_answers_without_end_is_no_daemon() {
    let endless = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", endless.local_addr().unwrap());
    let flood = thread::spawn(move || {
        let (mut connection, _) = endless.accept().unwrap();
        // What is answered before anything was asked is refused for that alone.
        assert!(connection.read(&mut [0; 4096]).unwrap() > 0);
        connection.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").unwrap();
        // Ends when the command has had enough.
        while connection.write_all(&[b' '; 1 << 16]).is_ok() {}
    });
    check(&["status", "--daemon", &url], 1, &["more than 256 MiB", "is this a ringscope daemon?"]);
    flood.join().unwrap();
}

#[test]
fn a_daemon_of_the_first_release_is_said_to_be_older() {
    let old = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", old.local_addr().unwrap());
    let answering = thread::spawn(move || {
        let (mut connection, _) = old.accept().unwrap();
        assert!(connection.read(&mut [0; 4096]).unwrap() > 0);
        // As it answered.
        let body = r#"{"type":"about:blank#unknown-route","title":"Not Found","status":404,"detail":"no such route; /api/v1/openapi.json lists them"}"#;
        let head = "HTTP/1.1 404 Not Found\r\ncontent-type: application/problem+json\r\nconnection: close";
        write!(connection, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    });
    check(
        &["status", "--daemon", &url],
        1,
        &["/api/v1/health", "older than this command", "upgrade the daemon first"],
    );
    answering.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_0_when_all_is_well_and_2_when_a_warning_fires() {
    let daemon = Daemon::ready("none").await;
    let (code, stdout, _) = end(&mut status(&daemon.url));
    assert!(
        code == Some(0) && stdout.contains("No job yet.") && stdout.contains("`ringscope run -- CMD`"),
        "{stdout}"
    );

    let healthy = Job { name: "well", init: &[4, 4], last: 8, ..SMALL };
    let mut seq_number = 0;
    // A host that is not heard for some seconds is not known to be healthy.
    let mut speak = async || {
        seq_number += 1;
        for host in 0..2 {
            daemon.take(&healthy.batch(host, seq_number, 3, clock::now().0)).await;
        }
    };
    speak().await;
    let (code, stdout, stderr) = end(&mut status(&daemon.url));
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert!(stdout.contains("All 2 hosts healthy") && stdout.contains("well"), "{stdout}");

    for host in 0..2 {
        daemon.take(&Job { hosts: &["node-c", "node-d"], ..SMALL }.batch(host, 1, 3, START_NS)).await;
    }
    let (code, stdout, _) = end(&mut status(&daemon.url));
    assert_eq!(code, Some(2), "{stdout}");
    assert!(stdout.contains("node-d") && stdout.contains("channel_shortfall"), "{stdout}");
    let (code, stdout, _) = end(status(&daemon.url).arg("--json"));
    let document: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert!(code == Some(2) && !document["findings"].as_array().unwrap().is_empty());
    let health = daemon.json("/api/v1/health").await;
    for said in ["level", "sentence", "incidents"] {
        assert_eq!(document["health"][said], health[said], "it judges nothing itself");
    }
    // When they were seen to hold last moves on with each look.
    let without_last_seen = |incidents: &serde_json::Value| {
        let mut incidents = incidents.as_array().unwrap().clone();
        incidents.iter_mut().for_each(|one| one["last_seen"].take().as_str().map_or((), drop));
        incidents
    };
    let asked = daemon.json("/api/v1/incidents").await;
    assert_eq!(without_last_seen(&document["incidents"]), without_last_seen(&asked["items"]));
    assert!(!stdout.contains('\u{1b}'), "no colour for a pipe");

    // Of one job, or of one host, only what is theirs.
    let of = |filter: &[&str]| end(status(&daemon.url).args(filter));
    speak().await;
    let (code, stdout, _) = of(&["--job", "well"]);
    assert_eq!(code, Some(0), "{stdout}");
    assert!(stdout.contains("All 2 hosts healthy") && !stdout.contains("node-d"), "{stdout}");
    // Another job on the same host is in trouble: that is not this one's.
    assert!(!stdout.contains("Hosts in trouble"), "{stdout}");
    let (code, stdout, _) = of(&["--host", "node-d"]);
    assert_eq!(code, Some(2), "{stdout}");
    assert!(stdout.starts_with("node-d found 2 channels") && !stdout.contains("well"), "{stdout}");
    daemon.take(&summation::batch(1, 3, START_NS, false)).await;
    let (code, stdout, _) = of(&["--job", summation::JOB]);
    assert_eq!(code, Some(2), "{stdout}");
    assert!(stdout.contains("Summation groups in use") && stdout.contains("sum_share_imbalance"), "{stdout}");
    let (code, _, stderr) = of(&["--job", "nobody"]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("no job is called \"nobody\"") && stderr.contains("well"), "{stderr}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_known_is_0_and_3_for_the_strict() {
    let daemon = Daemon::ready("none").await;
    let job = Job { name: "quiet", init: &[4, 4], last: 8, ..SMALL };
    for host in 0..2 {
        // Its calls were made long ago, and none has completed.
        daemon.take(&job.batch(host, 1, 1, START_NS)).await;
    }
    let (code, stdout, _) = end(&mut status(&daemon.url));
    assert_eq!(code, Some(0), "{stdout}");
    assert!(stdout.starts_with("0 of 2 hosts healthy, 2 unknown: node-a: "), "{stdout}");
    let (code, stdout, _) = end(status(&daemon.url).arg("--strict"));
    assert_eq!(code, Some(3), "{stdout}");
    for host in 0..2 {
        daemon.take(&Job { hosts: &["node-c", "node-d"], ..SMALL }.batch(host, 1, 3, START_NS)).await;
    }
    let (code, stdout, _) = end(status(&daemon.url).arg("--strict"));
    assert_eq!(code, Some(2), "what is wrong goes before what is not known: {stdout}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_ended_badly_is_2_where_it_is_asked_for() {
    let daemon = Daemon::ready("none").await;
    let end_with = async |name: &str, statuses: [Option<u32>; 2]| {
        let job = Job { name, hosts: &["node-a"], ranks_per_host: 2, init: &[4], last: 4 };
        let mut batch = job.batch(0, 1, 1, START_NS);
        for (process, status) in batch.processes.iter_mut().zip(statuses) {
            (process.state, process.exit_status) = (ProcessState::Exited.into(), status);
            process.key += name;
            process.in_flight.clear();
            process.communicators.clear();
        }
        daemon.take(&batch).await;
    };
    end_with("well", [Some(0), Some(0)]).await;
    end_with("odd", [Some(0), None]).await;
    end_with("bad", [Some(0), Some(3)]).await;
    let of = |arguments: &[&str]| {
        let (code, stdout, _) = end(status(&daemon.url).args(arguments));
        (code, stdout)
    };
    let (code, stdout) = of(&["--job", "bad"]);
    assert_eq!(code, Some(2), "{stdout}");
    assert!(
        stdout.starts_with("bad ended at ") && stdout.contains("it ended with exit status 3"),
        "{stdout}"
    );
    let (code, stdout) = of(&["--job", "well", "--strict"]);
    assert_eq!(code, Some(0), "{stdout}");
    assert_eq!(of(&["--job", "odd"]).0, Some(0));
    let (code, stdout) = of(&["--job", "odd", "--strict"]);
    assert!(code == Some(3) && stdout.contains("its exit status is not known"), "{stdout}");
    let (code, stdout) = of(&[]);
    assert_eq!(code, Some(0), "what has ended is nobody's trouble now: {stdout}");
    assert!(
        stdout.contains("Jobs not known to have ended well") && !stdout.contains("well ended"),
        "{stdout}"
    );
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_away_is_3_for_the_strict() {
    let daemon = Daemon::start(config("postgres://127.0.0.1:1/ring")).await;
    until("away", async || daemon.get("/readyz").await.text().await.unwrap().contains("store-away")).await;
    let (code, stdout, _) = end(&mut status(&daemon.url));
    assert!(code == Some(0) && stdout.starts_with("The database is away since "), "{stdout}");
    assert!(stdout.contains("Mend the database."), "{stdout}");
    let (code, stdout, _) = end(status(&daemon.url).arg("--strict"));
    assert_eq!(code, Some(3), "{stdout}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn incidents_are_listed_and_spoken_of_in_the_terminal() {
    let daemon = Daemon::ready("none").await;
    let run = |args: &[&str]| end(ringscope(args).args(["--daemon", &daemon.url]));
    let (code, stdout, _) = run(&["incidents"]);
    assert_eq!((code, stdout.as_str()), (Some(0), "No incident is open.\n"));
    for host in 0..2 {
        daemon.take(&SMALL.batch(host, 1, 3, START_NS)).await;
    }
    let (code, stdout, _) = run(&["incidents"]);
    assert!(
        code == Some(0) && stdout.contains("critical, job train, for") && stdout.contains("node-b found 2"),
        "{stdout}"
    );
    let id = stdout.split_whitespace().next().unwrap();
    let (code, stdout, stderr) = run(&[
        "incident",
        id,
        "--acknowledge",
        "--silence",
        "2h",
        "--note",
        "The cable is ordered.",
        "--by",
        "ann",
    ]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    for part in
        ["ann looks after it, silenced until", "ann: The cable is ordered.", "Findings", "channel_shortfall"]
    {
        assert!(stdout.contains(part), "{part} in {stdout}");
    }
    let (code, stdout, _) = run(&["incident", id, "--unsilence", "--json"]);
    let detail: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert!(code == Some(0) && detail["silenced_until"].is_null() && detail["acknowledged"]["by"] == "ann");
    let (code, stdout, _) = run(&["incident", id, "--unacknowledge", "--by", "bob"]);
    assert!(code == Some(0) && !stdout.contains("ann looks after it\n"), "{stdout}");
    assert!(stdout.contains("bob says that nobody looks after it."), "{stdout}");
    let (code, stdout, _) = run(&["incidents", "--all", "--json"]);
    let all: Vec<serde_json::Value> = serde_json::from_str(&stdout).unwrap();
    assert!(code == Some(0) && all.len() == 1, "{stdout}");
    let (code, _, stderr) = run(&["incident", "nobody"]);
    assert!(code == Some(1) && stderr.contains("no incident \"nobody\""), "{stderr}");
    let (code, _, _) = run(&["incident", id, "--silence", "long"]);
    assert_eq!(code, Some(64));
    daemon.stop().await;
}
