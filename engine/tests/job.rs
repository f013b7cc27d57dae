//! A C program compiled against rsccl.h, as real ranks on pretended hosts.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::process::Command;

use common::{Job, Rank, compile, folder, library_folder, plain, rank_program};

#[test]
fn every_primitive_works() {
    let program = rank_program(&folder("once"));
    for n_ranks in [1, 2, 5] {
        let job = Job { program: &program, n_ranks, command: &["once"], environment: &plain };
        for rank in job.start() {
            assert_eq!(rank.rest(), "DONE\n", "{n_ranks} ranks");
        }
    }
}

/// The first program that the library's users are shown (examples/job.c).
#[test]
fn the_job_to_begin_with_says_its_sum() {
    let folder = folder("first");
    let program = folder.join("job");
    compile("../../examples/job.c", &program, &["-lrsccl"]);
    let id = folder.join("id");
    let start = |rank: usize| Rank::start(Command::new(&program).args([&rank.to_string(), "4"]).arg(&id));
    for (rank, process) in (0..4).map(start).collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(process.rest(), format!("rank {rank} of 4: the sum is 6\n"));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_algorithm_that_cannot_carry_out_a_primitive_is_said_once() {
    let folder = folder("replaced");
    let program = rank_program(&folder);
    let log = folder.join("log.%h.%p").to_string_lossy().into_owned();
    let settings = [
        ("RSCCL_ALGO", "tree"),
        ("NCCL_DEBUG", "INFO"),
        ("NCCL_DEBUG_SUBSYS", "TUNING"),
        ("NCCL_DEBUG_FILE", log.as_str()),
    ];
    let environment = |_| settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let job = Job { program: &program, n_ranks: 2, command: &["once"], environment: &environment };
    for (rank, process) in job.start().into_iter().enumerate() {
        let log = folder.join(format!("log.host-1.{}", process.child.id()));
        assert_eq!(process.rest(), "DONE\n");
        let log = std::fs::read_to_string(log).unwrap();
        let said = log.matches("RSCCL_ALGO=tree cannot carry out all_gather here: ring does").count();
        assert_eq!(said, 1, "rank {rank}: {log}");
        assert!(!log.contains("cannot carry out all_reduce"), "{log}");
    }
}

#[test]
fn rings_in_the_log_are_the_sockets_of_the_connection_log() {
    let folder = folder("rings");
    let program = rank_program(&folder);
    let path = |name: &str| folder.join(format!("{name}.%h.%p")).to_string_lossy().into_owned();
    let environment = |_| {
        vec![
            ("NCCL_DEBUG".to_owned(), "INFO".to_owned()),
            ("NCCL_DEBUG_SUBSYS".to_owned(), "INIT,GRAPH,ENV".to_owned()),
            ("NCCL_DEBUG_FILE".to_owned(), path("log")),
            ("RSCCL_CONNECTION_LOG".to_owned(), path("connections")),
            ("RSCCL_SHM_DISABLE".to_owned(), "1".to_owned()),
        ]
    };
    let job = Job { program: &program, n_ranks: 4, command: &["init"], environment: &environment };
    job.start().into_iter().for_each(|rank| assert_eq!(rank.rest(), "DONE\n"));
    let text = |prefix: &str| {
        let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> =
            files.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(prefix)).collect();
        files.sort();
        files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect::<String>()
    };
    let log = text("log.host-");
    let mut announced = BTreeSet::new();
    for line in log.lines().filter_map(|line| line.split_once(" NCCL INFO Ring ")).map(|(_, line)| line) {
        let (channel, hops) = line.split_once(" : ").unwrap();
        let hops: Vec<u64> = hops.split(" -> ").map(|rank| rank.parse().unwrap()).collect();
        announced.insert((channel.parse::<u64>().unwrap(), hops[1], hops[2]));
    }
    assert_eq!(announced.len(), 4 * 4, "4 ranks on 4 channels: {log}");
    for (pattern, per_rank) in [
        ("Pattern 4, crossNic 0, nChannels 2,", 1),
        ("Pattern 1, crossNic 0, nChannels 2,", 1),
        ("Init START", 1),
    ] {
        assert_eq!(log.matches(pattern).count(), 4 * per_rank, "{pattern}: {log}");
    }
    assert!(log.contains("Channel 01/04 : 0 3 2 1"), "{log}");
    let mut sent = BTreeSet::new();
    let mut ends = [BTreeSet::new(), BTreeSet::new()];
    for line in text("connections.host-").lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let number = |key: &str| line[key].as_u64().unwrap();
        let address = |key: &str| line[key].as_str().unwrap().to_owned();
        let nic = line["nic"].as_str().unwrap().trim_start_matches("mlx5_").parse::<u64>().unwrap();
        let expected = format!("127.0.{}.{}:", number("rank") / 2 + 1, nic + 1);
        assert!(address("local").starts_with(&expected), "{line}");
        assert_eq!(nic, number("channel") % 2);
        if line["direction"] == "send" {
            sent.insert((number("channel"), number("rank"), number("peer")));
            ends[0].insert((address("local"), address("remote")));
        } else {
            ends[1].insert((address("remote"), address("local")));
        }
    }
    assert_eq!(sent, announced);
    assert_eq!(ends[0], ends[1], "both ends of each connection were logged");
}

#[test]
fn different_settings_are_named() {
    let folder = folder("settings");
    let program = rank_program(&folder);
    let log = folder.join("log.%p").to_string_lossy().into_owned();
    let environment = |rank: usize| {
        vec![
            ("RSCCL_MIN_NCHANNELS".to_owned(), if rank == 0 { "8" } else { "1" }.to_owned()),
            ("NCCL_DEBUG".to_owned(), "INFO".to_owned()),
            ("NCCL_DEBUG_FILE".to_owned(), log.clone()),
        ]
    };
    let job = Job { program: &program, n_ranks: 3, command: &["init"], environment: &environment };
    for (rank, process) in job.start().into_iter().enumerate() {
        let log = folder.join(format!("log.{}", process.child.id()));
        let said = process.rest();
        assert!(said.starts_with("ERROR 5 ") && said.contains("4 on ranks 1 2, 8 on rank 0"), "{said}");
        let log = std::fs::read_to_string(log).unwrap();
        let counts = format!("{} coll channels", if rank == 0 { 8 } else { 4 });
        assert!(log.contains(&counts), "rank {rank} says {counts}: {log}");
    }
}

#[test]
fn different_calls_are_named() {
    let program = rank_program(&folder("mismatch"));
    let job = Job { program: &program, n_ranks: 3, command: &["mismatch"], environment: &plain };
    for rank in job.start() {
        let said = rank.rest();
        assert!(said.starts_with("ERROR 5 "), "{said}");
        assert!(
            said.contains("called all_reduce #0 instead of all_gather #0")
                || said.contains("called all_gather #0 instead of all_reduce #0"),
            "{said}"
        );
    }
}

#[test]
fn every_function_has_both_names() {
    let library = library_folder().join("librsccl.so");
    let output = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library)
        .output()
        .expect("apt-get install binutils");
    let symbols = String::from_utf8(output.stdout).unwrap();
    let names = symbols.lines().filter_map(|line| line.split_whitespace().nth(2));
    // Those of the summation service are held to its header, in `summation.rs`.
    let exported: BTreeSet<&str> = names.filter(|name| !name.contains("rsum_")).collect();
    let functions = "GetVersion GetUniqueId GetErrorString GetLastError MemAlloc MemFree CommInitRank CommInitRankConfig \
        CommInitAll \
        CommInitRankScalable CommSplit CommShrink CommRevoke CommWindowRegister CommWindowDeregister GroupSimulateEnd RedOpCreatePreMulSum \
        RedOpDestroy CommFinalize CommDestroy CommAbort CommGetAsyncError CommCount CommCuDevice CommUserRank \
        CommRegister CommDeregister GroupStart GroupEnd AllReduce AllGather ReduceScatter Broadcast Bcast Reduce \
        AlltoAll Gather Scatter Send Recv";
    let mut expected = BTreeSet::new();
    for function in functions.split_whitespace() {
        expected.insert(format!("nccl{function}"));
        expected.insert(format!("pnccl{function}"));
    }
    expected.insert("rscclAllReduceVirtual".to_owned());
    expected.extend(
        ["Create", "Synchronize", "Query", "Count", "Wait", "Call", "Destroy"]
            .map(|name| format!("rscclStream{name}")),
    );
    assert_eq!(exported.into_iter().map(str::to_owned).collect::<BTreeSet<_>>(), expected);
}
