//! Summation groups of real processes, over the C API: sums, declarations, members that come and go, and who is not let in.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use common::process::now;
use common::sum::{Group, ask, sum_program};
use common::{Rank, library_folder, source_folder};

/// The fingerprints of lines like `SUMS fingerprint 0 of 2, 1 servers, epoch 0`.
fn fingerprints(said: &[String]) -> BTreeSet<&str> {
    let sums = said.iter().flat_map(|said| said.lines()).filter(|line| line.starts_with("SUMS"));
    sums.filter_map(|line| line.split(' ').nth(1)).collect()
}

fn rests(ranks: Vec<Rank>) -> Vec<String> {
    ranks.into_iter().map(Rank::rest).collect()
}

/// Workers and servers do what they should; what the workers said.
fn run(program: &std::path::Path, n_workers: usize, n_servers: usize, arguments: &[&str]) -> Vec<String> {
    let group = Group::new(program, n_workers, n_servers);
    let servers = group.servers(&[], &[]);
    let said = rests(group.workers(arguments, &[]));
    assert!(said.iter().all(|said| said.ends_with("DONE\n")), "{said:?}");
    for said in rests(servers) {
        assert!(said.ends_with("the job is over\n"), "{said}");
    }
    said
}

#[test]
fn sums_have_the_same_bits_whatever_the_servers() {
    let program = sum_program("sum-bits");
    let (two, three) = (run(&program, 2, 1, &["sums"]), run(&program, 3, 2, &["sums"]));
    assert_eq!(fingerprints(&run(&program, 2, 0, &["sums"])), fingerprints(&two));
    assert_eq!((fingerprints(&two).len(), fingerprints(&three).len()), (1, 1));
    assert!(three[0].contains("of 3, 2 servers, epoch 0"), "{three:?}");
    assert_eq!(run(&program, 1, 0, &["sums"]).len(), 1);
}

#[test]
fn servers_come_and_go_without_changing_a_bit() {
    let program = sum_program("sum-members");
    let said = run(&program, 2, 2, &["members", "0", "1", "2", "-1"]);
    assert_eq!(fingerprints(&said).len(), 1, "{said:?}");
    for shown in ["2 servers, epoch 0", "0 servers, epoch 1", "1 servers, epoch 2", "2 servers, epoch 4"] {
        assert!(said.iter().all(|said| said.contains(shown)), "{said:?}");
    }
}

#[test]
fn more_may_be_declared_after_the_first_push() {
    let said = run(&sum_program("sum-later"), 3, 1, &["later"]);
    assert_eq!(fingerprints(&said).len(), 3, "{said:?}");
}

#[test]
fn pushes_and_pulls_may_be_apart() {
    let mut said = run(&sum_program("sum-halves"), 2, 1, &["halves"]);
    said.sort();
    assert_eq!(said, ["SUM 3 local 0 of 2\nDONE\n", "SUM 3 local 1 of 2\nDONE\n"]);
}

#[test]
fn a_server_that_gives_the_rendezvous_stays_for_the_next_job() {
    let program = sum_program("sum-root");
    let group = Group::new(&program, 2, 1);
    let mut server = group.server(&["--root", "--stay"], &[]);
    assert!(server.line().contains("the rendezvous is at 127.0.0.1:"));
    for _ in 0..2 {
        let said = rests(group.workers(&["sums"], &[]));
        assert_eq!(fingerprints(&said).len(), 1, "{said:?}");
    }
    let status = Command::new("kill").args(["-TERM", &server.child.id().to_string()]).status().unwrap();
    assert!(status.success() && server.child.wait().unwrap().success());
    assert!(server.rest().ends_with("stopped\n"));
}

#[test]
fn a_server_that_is_told_to_stop_is_named() {
    let program = sum_program("sum-stop");
    let group = Group::new(&program, 2, 1);
    let mut server = group.server(&[], &[]);
    let mut workers = group.workers(&["stop"], &[]);
    workers.iter_mut().for_each(|worker| assert_eq!(worker.line(), "READY"));
    assert!(Command::new("kill").args(["-TERM", &server.child.id().to_string()]).status().unwrap().success());
    for said in rests(workers) {
        assert!(
            said.starts_with("LOST ") && said.contains("rank 2 (") && said.contains("was told to stop"),
            "{said}"
        );
    }
    assert!(server.child.wait().unwrap().success());
}

#[test]
fn a_codec_is_used_for_tensors_that_are_long_enough_however_they_are_cut() {
    let program = sum_program("sum-codecs");
    let said = |environment: &[(&str, &str)]| {
        let said = rests(Group::new(&program, 2, 0).workers(&["codecs"], environment));
        assert!(said.iter().all(|one| *one == said[0]), "{said:?}");
        said[0].clone()
    };
    assert_eq!(said(&[("RSUM_PARTITION_BYTES", "4096")]), "CODECS 0 1 1 0 -5 0 1 1 0\nDONE\n");
    assert_eq!(said(&[("RSUM_COMPRESSION_MIN_BYTES", "65532")]), "CODECS 1 1 1 1 -5 1 1 1 1\nDONE\n");
}

#[test]
fn a_killed_worker_is_named_at_once_though_its_forked_children_live() {
    let program = sum_program("sum-forks");
    // Worker 0 gives the rendezvous.
    for (victim, no_memory) in [(1, "0"), (1, "1"), (0, "0")] {
        let (group, environment) = (Group::new(&program, 2, 1), [("RSCCL_SHM_DISABLE", no_memory)]);
        let server = group.server(&[], &environment);
        let mut workers = group.workers(&["forks", &victim.to_string()], &environment);
        let said: Vec<String> = workers.iter_mut().map(Rank::line).collect();
        let children: Vec<&str> = said[victim].split(' ').skip(1).collect();
        let is_number = |child: &&str| child.parse::<u32>().is_ok();
        assert!(children.len() == 8 && children.iter().all(is_number), "{said:?}");
        workers.iter_mut().for_each(|worker| assert_eq!(worker.line(), "SUMMED"));
        let killed = now();
        workers[victim].child.kill().unwrap();
        let said = workers[1 - victim].line();
        let waited = killed.elapsed();
        let named = format!("rank {victim} (");
        assert!(said.starts_with("LOST ") && said.contains(&named), "{said}");
        let said = server.rest();
        let waited_for_server = killed.elapsed();
        workers[victim].child.wait().unwrap();
        let port_is_free = std::iter::repeat_with(|| TcpListener::bind(("127.0.0.1", group.port)).is_ok())
            .take_while(|_| killed.elapsed() < Duration::from_secs(10))
            .any(|is_free| is_free);
        assert!(Command::new("kill").arg("-KILL").args(&children).status().unwrap().success());
        assert!(waited_for_server < Duration::from_secs(1), "{waited:?}, server {waited_for_server:?}");
        // Where rank 0 is dead, whoever else ends at once may be named too.
        assert!(port_is_free && (victim == 0 || said.contains(&named)), "{said}");
    }
}

#[test]
fn a_server_says_how_it_is() {
    let program = sum_program("sum-health");
    let group = Group::new(&program, 2, 1);
    let mut server = group.server(&["--health", "127.0.0.1:0"], &[("RSUM_ON_LOSS", "stop")]);
    let line = server.line();
    let address = line.split("http://").nth(1).unwrap().strip_suffix("/status").unwrap().to_owned();
    let status = |path: &str| ask(&address, path);
    assert_eq!(
        (status("/healthz").0, status("/readyz").0, status("/else").0),
        ("200".into(), "503".into(), "404".into())
    );
    assert!(status("/status").1.contains("\"state\":\"waiting\""));
    let mut workers = group.workers(&["stop"], &[]);
    workers.iter_mut().for_each(|worker| assert_eq!(worker.line(), "READY"));
    assert!(std::iter::repeat_with(|| server.line()).any(|line| line.contains("generation 0 of 3 parts")));
    assert_eq!(status("/readyz").0, "200");
    let worker = workers[1].child.id().to_string();
    let signal = |name: &str| {
        assert!(Command::new("kill").args([name, &worker]).status().unwrap().success());
    };
    // A worker that stands still holds up a round here, unless the round that it stands in is another service's alone.
    let look = || {
        signal("-STOP");
        let status = || serde_json::from_str::<serde_json::Value>(&status("/status").1).unwrap();
        let mut looks = std::iter::repeat_with(status).take(100);
        let told = looks.find(|told| told["service"]["waiting"]["workers"][0] == 1);
        signal("-CONT");
        told
    };
    let told = std::iter::repeat_with(look).find_map(|told| told).unwrap();
    assert_eq!((&told["state"], &told["group"]["generation"]), (&"in a group".into(), &0.into()));
    assert!(told["group"]["members"][2].as_str().unwrap().starts_with("a server ("), "{told}");
    for mut worker in workers {
        worker.child.kill().unwrap();
        worker.child.wait().unwrap();
    }
    assert!(server.rest().contains("rank"));
}

#[test]
fn declarations_that_differ_are_named() {
    let program = sum_program("sum-differ");
    let group = Group::new(&program, 2, 1);
    let server = group.server(&[], &[]);
    let workers = ["10", "11"].into_iter().enumerate();
    let workers =
        workers.map(|(worker, count)| group.worker(worker, &["declare", "fc", count], &[])).collect();
    for said in rests(workers) {
        let (says, both) = (|text: &str| said.contains(text), "\"fc\" of 10 f32");
        assert!(says("tensor 0:") && says(both) && says("\"fc\" of 11 f32"), "{said}");
    }
    assert!(server.rest().contains("tensor 0:"));
}

#[test]
fn strangers_are_turned_away_and_disturb_nobody() {
    let program = sum_program("sum-strangers");
    let group = Group::new(&program, 2, 1);
    let first = group.worker_at_rendezvous(&["sums"], &[]);
    let address = ("127.0.0.1", group.port);
    let silent = TcpStream::connect(address).unwrap();
    let mut loud = TcpStream::connect(address).unwrap();
    loud.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = loud.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("Welcome"));
    let other = group.worker(1, &["sums"], &[("RSUM_SECRET", "another one")]).rest();
    assert!(other.contains("ERROR init") && other.contains("RSUM_SECRET is another one"), "{other}");
    let same = group.worker(0, &["sums"], &[]).rest();
    assert!(same.contains("worker 0 (") && same.contains("give each worker its own RSUM_RANK"), "{same}");
    let more = group.worker(1, &["sums"], &[("RSUM_WORKERS", "3")]).rest();
    assert!(more.contains("was told 3 workers and 1 servers, worker 0 ("), "{more}");
    let server = group.server(&[], &[]);
    let second = group.worker(1, &["sums"], &[]);
    let said = rests(vec![first, second]);
    assert_eq!(fingerprints(&said).len(), 1, "{said:?}");
    assert!(server.rest().ends_with("the job is over\n"));
    drop(silent);
}

#[test]
fn who_is_missing_is_named() {
    let program = sum_program("sum-missing");
    let group = Group::new(&program, 2, 1);
    let said = group.worker(0, &["sums"], &[("RSCCL_TIMEOUT_S", "1")]).rest();
    assert!(said.contains("worker 1 is missing; 1 of 2 workers and 0 of 1 servers are there"), "{said}");
    let said = group.worker(1, &["sums"], &[("RSCCL_TIMEOUT_S", "1")]).rest();
    assert!(said.contains("nobody is at the rendezvous"), "{said}");
    let said = group.worker(0, &["sums"], &[("RSUM_RANK", "2"), ("RSUM_ON_LOSS", "hope")]).rest();
    assert!(said.contains("RSUM_RANK") && said.contains("RSUM_ON_LOSS"), "{said}");
}

#[test]
fn the_header_declares_what_the_library_exports() {
    let header = std::fs::read_to_string(source_folder().join("../../include/rsum.h")).unwrap();
    let name = |line: &str| {
        let (before, _) = line.split_once('(')?;
        let name = before.rsplit([' ', '*']).next()?;
        (!line.starts_with([' ', '/']) && name.starts_with("rsum_")).then(|| name.to_owned())
    };
    let declared: BTreeSet<String> = header.lines().filter_map(name).collect();
    assert!(declared.len() > 15, "{declared:?}");
    let library = library_folder().join("librsccl.so");
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output();
    let symbols = String::from_utf8(output.expect("nm is missing: apt-get install binutils").stdout).unwrap();
    let exported: BTreeSet<&str> = symbols.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    for name in &declared {
        assert!(exported.contains(name.as_str()) && exported.contains(format!("p{name}").as_str()), "{name}");
    }
    assert_eq!(exported.iter().filter(|name| name.starts_with("rsum_")).count(), declared.len());
}
