//! Network plugins that others write, on the engine: each version of NCCL's interface, every primitive, and what goes wrong.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::sum::{Group, sum_program};
use common::{Job, Rank, compile, folder, library_folder, rank_program};

/// A plugin over sockets (tests/c/net/socket_plugin.c) for one version of the interface.
fn plugin(folder: &Path, version: u32, more: &[&str]) -> PathBuf {
    let path = folder.join(format!("net-v{version}.so"));
    let define = format!("-DVERSION={version}");
    let arguments: Vec<&str> =
        ["-shared", "-fPIC", define.as_str()].into_iter().chain(more.iter().copied()).collect();
    compile("net/socket_plugin.c", &path, &arguments);
    path
}

fn with_plugin(path: &Path, more: &[(&str, &str)]) -> impl Fn(usize) -> Vec<(String, String)> + use<> {
    let mut environment = vec![("NCCL_NET_PLUGIN".to_owned(), path.display().to_string())];
    environment.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    move |_| environment.clone()
}

#[test]
fn every_primitive_type_and_operator_goes_over_a_plugin_of_the_newest_version() {
    let folder = folder("net-all");
    let program = folder.join("primitives");
    compile("primitives.c", &program, &["-lrsccl", "-lm"]);
    let environment = with_plugin(&plugin(&folder, 11, &[]), &[]);
    let job = Job { program: &program, n_ranks: 4, command: &["all"], environment: &environment };
    for rank in job.start() {
        assert_eq!(rank.rest(), "DONE\n");
    }
}

#[test]
fn plugins_of_all_versions_are_hosted() {
    let folder = folder("net-versions");
    let program = rank_program(&folder);
    for version in 8..=11 {
        let log = folder.join(format!("log-v{version}.%p"));
        let settings = [("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_FILE", log.to_str().unwrap())];
        let environment = with_plugin(&plugin(&folder, version, &[]), &settings);
        let job = Job { program: &program, n_ranks: 3, command: &["once"], environment: &environment };
        let ranks = job.start();
        let pids: Vec<u32> = ranks.iter().map(|rank| rank.child.id()).collect();
        let said: Vec<String> = ranks.into_iter().map(Rank::rest).collect();
        assert!(said.iter().all(|said| said == "DONE\n"), "version {version}: {said:?}");
        for pid in pids {
            let log = log.to_str().unwrap().replace("%p", &pid.to_string());
            let log = std::fs::read_to_string(log).unwrap();
            let loaded = format!("NET/Plugin: Loaded net plugin Sockets (v{version})");
            for line in [loaded.as_str(), "Using network Sockets"] {
                assert!(log.contains(line), "version {version}: no \"{line}\" in {log}");
            }
            assert!(!log.contains("via NET/Socket/"), "{log}");
        }
    }
}

#[test]
fn the_words_of_a_plugin_that_fails_reach_the_job() {
    let folder = folder("net-fails");
    let program = rank_program(&folder);
    let environment = with_plugin(&plugin(&folder, 10, &["-DFAIL_AFTER=100000"]), &[]);
    let job = Job { program: &program, n_ranks: 3, command: &["once"], environment: &environment };
    let said: Vec<String> = job.start().into_iter().map(Rank::rest).collect();
    assert!(
        said.iter().any(|said| said.contains("network Sockets: the wire is cut, 100% of it")),
        "{said:?}"
    );
    assert!(said.iter().all(|said| !said.contains("DONE")), "{said:?}");
}

#[test]
fn why_a_plugin_does_not_begin_reaches_the_job_and_not_what_it_warned_of() {
    let folder = folder("net-nothing");
    let program = rank_program(&folder);
    for version in [10, 11] {
        let environment = with_plugin(&plugin(&folder, version, &["-DNOTHING_THERE"]), &[]);
        let job = Job { program: &program, n_ranks: 3, command: &["once"], environment: &environment };
        for rank in job.start() {
            let said = rank.rest();
            assert!(said.contains("network Sockets: no device can be used: there is none"), "{said}");
        }
    }
}

#[test]
fn a_server_whose_network_does_not_begin_says_so_before_it_waits_for_a_job() {
    let folder = folder("net-nothing-sumd");
    let network = plugin(&folder, 11, &["-DNOTHING_THERE"]).display().to_string();
    let program = sum_program("net-nothing-sum");
    let group = Group::new(&program, 1, 1);
    let mut server = group.server_command(&[], &[("NCCL_NET_PLUGIN", &network)]);
    let output = server.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("network Sockets: no device can be used: there is none"), "{said}");
    assert!(!output.status.success() && !said.contains("waiting for a job"), "{said}");
}

#[test]
fn a_plugin_that_is_not_there_or_is_none_ends_init_with_its_name() {
    let folder = folder("net-missing");
    let program = rank_program(&folder);
    let none = library_folder().join("librsccl.so");
    for (path, words) in [
        (Path::new("/nowhere/net.so"), "NCCL_NET_PLUGIN=/nowhere/net.so: there is no /nowhere/net.so"),
        (&none, "has no table of NCCL's network interface 8 to 11"),
    ] {
        let environment = with_plugin(path, &[]);
        let job = Job { program: &program, n_ranks: 3, command: &["once"], environment: &environment };
        for rank in job.start() {
            let said = rank.rest();
            assert!(said.contains(words), "{said}");
        }
    }
}

#[test]
fn ranks_with_different_networks_are_refused_by_name() {
    let folder = folder("net-differ");
    let program = rank_program(&folder);
    let path = plugin(&folder, 9, &[]).display().to_string();
    let environment = |rank: usize| match rank {
        2 => Vec::new(),
        _ => vec![("NCCL_NET_PLUGIN".to_owned(), path.clone())],
    };
    let job = Job { program: &program, n_ranks: 3, command: &["once"], environment: &environment };
    for rank in job.start() {
        let said = rank.rest();
        assert!(said.contains("is not the same: Sockets on ranks 0-1; Socket on rank 2"), "{said}");
    }
}

#[test]
fn a_summation_group_goes_over_a_plugin_with_the_same_bits() {
    let program = sum_program("net-sums");
    let path = plugin(&folder("net-sums-plugin"), 8, &[]).display().to_string();
    let over = |more: &[(&str, &str)]| {
        let settings: Vec<(&str, &str)> = [("RSCCL_SHM_DISABLE", "1")].iter().chain(more).copied().collect();
        let group = Group::new(&program, 2, 1);
        let servers = group.servers(&[], &settings);
        let said: Vec<String> = group.workers(&["sums"], &settings).into_iter().map(Rank::rest).collect();
        assert!(said.iter().all(|said| said.ends_with("DONE\n")), "{said:?}");
        for server in servers.into_iter().map(Rank::rest) {
            assert!(server.ends_with("the job is over\n"), "{server}");
        }
        said
    };
    assert_eq!(over(&[("NCCL_NET_PLUGIN", &path)]), over(&[]));
}

/// The program that calls plugins as NCCL does (`cargo xtask rdma` calls ours with it), on one that is right and on one that is not.
#[test]
fn the_harness_finds_a_plugin_right_or_says_what_is_wrong() {
    let folder = folder("net-harness");
    let program = folder.join("harness");
    compile("net/harness.c", &program, &["-ldl"]);
    let told = |path: &Path, version: u32| {
        let version = version.to_string();
        let mut command = Command::new(&program);
        Rank::start(command.arg(path).args([version.as_str(), "both", "0"])).rest()
    };
    for version in 8..=11 {
        let said = told(&plugin(&folder, version, &[]), version);
        assert!(said.contains("OK 60 messages"), "version {version}: {said}");
    }
    let cut = told(&plugin(&folder, 9, &["-DFAIL_AFTER=100000"]), 9);
    assert!(cut.contains("FAILED 6") && cut.contains("the wire is cut"), "{cut}");
    assert!(told(&plugin(&folder, 8, &[]), 11).contains("FAILED no ncclNetPlugin_v11"));
}
