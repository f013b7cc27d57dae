//! Nodes that somebody else starts, each by the same line: here as processes of this machine.

use std::time::Duration;

use ringscope_api::clock;
use rustix::process::Signal;

use crate::common::{free_port, scratch};
use crate::{Running, launch, mark, nothing_is_left, rounds};

fn node(index: u32, count: u32, port: u16, command: &[&str]) -> Running {
    node_with(&[], index, count, port, command)
}

fn node_with(more: &[&str], index: u32, count: u32, port: u16, command: &[&str]) -> Running {
    let node = format!("{index}/{count}");
    let meet = format!("127.0.0.1:{port}");
    let count = count.to_string();
    let options = ["-n", &count, "--node", &node, "--meet", &meet, "--connect-timeout", "60s", "--"];
    Running::start(
        launch(&[more, &options, command].concat()).env("RINGSCOPE_LAUNCH_SECRET", "correct horse"),
    )
}

#[test]
fn nodes_meet_and_their_ranks_add() {
    let (dir, port) = (scratch("launch-meet"), free_port());
    let folder = dir.0.display().to_string();
    let command = [rounds().to_str().unwrap(), folder.as_str(), "20"];
    // The first comes last.
    let others: Vec<Running> = [2, 1].map(|index| node(index, 3, port, &command)).into();
    let first = node(0, 3, port, &command).end();
    first.check(0, &[]);
    for rank in 0..3 {
        assert!(
            first.out.contains(&format!("[rank {rank} ")) && first.out.contains("the sum is 3"),
            "{first:#?}"
        );
    }
    for other in others {
        other.end().check(0, &[]);
    }
}

#[test]
fn a_node_that_came_early_waits_for_the_last_longer_than_the_silence() {
    let (port, more) = (free_port(), ["--silence", "2s"]);
    let start = |index| node_with(&more, index, 3, port, &["true"]);
    let (first, mut early) = (start(0), start(1));
    let since = clock::monotonic();
    while since.elapsed() < Duration::from_secs(5) {
        assert!(early.child.try_wait().unwrap().is_none(), "it has not waited: {:#?}", early.end());
        std::thread::sleep(Duration::from_millis(50));
    }
    let last = start(2);
    for node in [first, early, last] {
        node.end().check(0, &[]);
    }
}

#[test]
fn the_status_of_the_job_is_that_of_every_node() {
    let (port, mark) = (free_port(), mark());
    let script = format!("[ $RANK = 1 ] && exit 6; sleep {mark}");
    let command = ["sh", "-c", script.as_str()];
    let (other, first) = (node(1, 2, port, &command), node(0, 2, port, &command));
    first.end().check(6, &["first rank 1 on "]);
    assert_eq!(other.end().status, 6);
    nothing_is_left(&mark, Duration::from_secs(5));
}

#[test]
fn a_node_that_is_killed_or_told_to_end_ends_the_job() {
    for signal in [Signal::TERM, Signal::KILL] {
        let (port, mark) = (free_port(), mark());
        let script = format!("echo I sleep; sleep {mark}");
        let command = ["sh", "-c", script.as_str()];
        let (other, mut first) = (node(1, 2, port, &command), node(0, 2, port, &command));
        first.wait_for("[rank 1 ");
        other.signal(signal);
        let ended = first.end();
        assert_ne!(ended.status, 0, "{ended:#?}");
        assert_ne!(other.end().status, 0);
        nothing_is_left(&mark, Duration::from_secs(20));
    }
}

#[test]
fn who_does_not_know_the_secret_is_refused() {
    let port = free_port();
    let first = node(0, 2, port, &["true"]);
    let meet = format!("127.0.0.1:{port}");
    let mut command = launch(&["--node", "1/2", "--meet", &meet, "--", "true"]);
    let stranger = Running::start(command.env("RINGSCOPE_LAUNCH_SECRET", "guess"));
    stranger.end().check(1, &["its secret is another one", "--secret-file"]);
    node(1, 2, port, &["true"]).end().check(0, &[]);
    first.end().check(0, &[]);
}

#[test]
fn who_does_not_come_is_named() {
    let meet = format!("127.0.0.1:{}", free_port());
    let alone = |node| {
        let options = ["--node", node, "--meet", &meet, "--connect-timeout", "1s", "--", "true"];
        crate::end(launch(&options).env("RINGSCOPE_LAUNCH_SECRET", "correct horse"))
    };
    alone("0/3").check(1, &["of 3 nodes 2 have not come within 1 s: 1, 2"]);
    alone("1/3").check(1, &["node 1 cannot meet node 0", "is node 0 started"]);
}

#[test]
fn each_node_starts_its_own_line() {
    let port = free_port();
    let own = ["-x", "SAID=by-itself", "--no-collector", "--chdir", "/"];
    let other = node_with(&own, 1, 2, port, &["sh", "-c", "echo own $SAID $(pwd)"]);
    // Node 0 has variables and a folder that the other has not.
    let more = ["-x", "SAID=by-node-0", "--chdir", "/tmp"];
    let first = node_with(&more, 0, 2, port, &["sh", "-c", "echo first $SAID $(pwd)"]).end();
    first.check(0, &[]);
    assert!(
        first.out.contains("] own by-itself /\n") && first.out.contains("] first by-node-0 /tmp\n"),
        "{first:#?}"
    );
    other.end().check(0, &[]);
}
