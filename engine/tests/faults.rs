//! Death of a rank, a stopped rank, strangers on the ports.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use common::{Job, Rank, folder, plain, rank_program, unique_id};

/// What a machine that does much other work may take longer.
const LOAD_WAIT: Duration = Duration::from_secs(60);
/// So long a rank may be silent: who is only slow is not, and the error of a killed one is there long before.
const KILL_TIMEOUT: Duration = Duration::from_secs(120);
/// The same where the test waits for it.
const STOP_TIMEOUT: Duration = Duration::from_secs(6);

fn signal(rank: &Rank, name: &str) {
    let status = Command::new("kill").args([name, &rank.child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

/// Starts a job, signals `victim` once all ranks are at work, and returns what the survivors say.
fn survivors(name: &str, n_ranks: usize, victim: usize, kind: &str) -> Vec<String> {
    let program = rank_program(&folder(name));
    let (timeout, limit) = match kind {
        "-STOP" => (STOP_TIMEOUT, STOP_TIMEOUT + LOAD_WAIT),
        _ => (KILL_TIMEOUT, LOAD_WAIT),
    };
    let environment = |_| vec![("RSCCL_TIMEOUT_S".to_owned(), timeout.as_secs().to_string())];
    let job = Job { program: &program, n_ranks, command: &["until-error"], environment: &environment };
    let mut ranks = job.start();
    for rank in &mut ranks {
        assert_eq!(rank.line(), "READY");
    }
    #[expect(clippy::disallowed_methods, reason = "the time to an error is what the test is about")]
    let start = std::time::Instant::now();
    signal(&ranks[victim], kind);
    let mut dead = ranks.remove(victim);
    let said: Vec<String> = ranks.iter_mut().map(Rank::line).collect();
    assert!(start.elapsed() < limit, "{:?}: {said:?}", start.elapsed());
    dead.child.kill().unwrap();
    dead.child.wait().unwrap();
    for rank in ranks {
        assert_eq!(rank.rest(), "AGAIN\n");
    }
    said
}

#[test]
fn all_survivors_name_the_killed_rank() {
    for victim in [0, 3] {
        let said = survivors(&format!("kill{victim}"), 5, victim, "-KILL");
        let name = format!("rank {victim} (host-{}, 127.0.{0}.1) closed the connection", victim / 2 + 1);
        // Who is between two operations at that instant has none to name.
        assert!(said.iter().all(|one| one.starts_with("ERROR 6 ") && one.contains(&name)), "{said:?}");
        assert!(said.iter().any(|one| one.starts_with("ERROR 6 all_reduce #")), "{said:?}");
    }
}

#[test]
fn all_survivors_name_the_stopped_rank() {
    for victim in [0, 2] {
        for said in survivors(&format!("stop{victim}"), 3, victim, "-STOP") {
            let name = format!("rank {victim} (host-{}, 127.0.{0}.1) has not answered", victim / 2 + 1);
            assert!(said.starts_with("ERROR 6 all_reduce #") && said.contains(&name), "{said}");
        }
    }
}

#[test]
fn strangers_neither_join_nor_disturb() {
    let program = rank_program(&folder("stranger"));
    let id = unique_id();
    let text: Vec<u8> = (0..128).map(|at| u8::from_str_radix(&id[2 * at..2 * at + 2], 16).unwrap()).collect();
    let end = 25 + usize::from(text[24]);
    let address = std::str::from_utf8(&text[25..end]).unwrap();
    let silent = TcpStream::connect(address).unwrap();
    let mut loud = TcpStream::connect(address).unwrap();
    loud.write_all(b"GET / HTTP/1.1\r\nHost: somebody-else\r\n\r\n").unwrap();
    let mut forger = TcpStream::connect(address).unwrap();
    forger.write_all(&[0; 16]).unwrap();
    forger.write_all(b"\x18\0\0\0{\"rank\":0,\"n_ranks\":3}").unwrap();
    let job = Job { program: &program, n_ranks: 3, command: &["once"], environment: &plain };
    for rank in job.start_with(&id) {
        assert_eq!(rank.rest(), "DONE\n");
    }
    drop((silent, loud, forger));
}

#[test]
fn an_id_serves_once() {
    let program = rank_program(&folder("twice"));
    let job = Job { program: &program, n_ranks: 2, command: &["init"], environment: &plain };
    let id = unique_id();
    for rank in job.start_with(&id) {
        assert_eq!(rank.rest(), "DONE\n");
    }
    for rank in job.start_with(&id) {
        let said = rank.rest();
        assert!(said.starts_with("ERROR 6 ") && said.contains("bootstrap root"), "{said}");
    }
}

#[test]
fn exit_without_destroy_fails_nobody() {
    let program = rank_program(&folder("leave"));
    let job = Job { program: &program, n_ranks: 5, command: &["leave", "20"], environment: &plain };
    for _ in 0..5 {
        let said: Vec<String> = job.start().into_iter().map(Rank::rest).collect();
        assert_eq!(said, ["LEFT\n"; 5]);
    }
}
