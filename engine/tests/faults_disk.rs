//! Logs that cannot be written: the job goes on.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::os::unix::fs::PermissionsExt as _;

use common::{Job, Rank, fault_program, folder};

fn said(name: &str, level: &str, settings: &[(&str, &str)]) -> Vec<String> {
    let program = fault_program(&folder(name));
    let environment = |_| {
        let own = [("SCRIPT", "all_reduce:100 all_reduce:100000 alive"), ("NCCL_DEBUG", level)];
        own.iter().chain(settings).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let job = Job { program: &program, n_ranks: 3, command: &["script"], environment: &environment };
    job.start().into_iter().map(Rank::rest).collect()
}

/// Every write to /dev/full fails as on a full disk.
#[test]
fn a_full_disk_stops_no_job() {
    for one in said("full-log", "INFO", &[("NCCL_DEBUG_FILE", "/dev/full")]) {
        assert_eq!(one, "ALIVE\nCLEAN\n");
    }
}

#[test]
fn a_connection_log_that_cannot_be_written_is_a_warning() {
    for (path, why) in
        [("/dev/full", "No space left on device"), ("/nowhere/log", "No such file or directory")]
    {
        for one in said("full-connections", "WARN", &[("RSCCL_CONNECTION_LOG", path)]) {
            let warning = format!("NCCL WARN RSCCL_CONNECTION_LOG: {path}: {why}");
            assert!(one.contains(&warning) && one.contains("ALIVE\n") && one.ends_with("CLEAN\n"), "{one}");
        }
    }
}

/// `ulimit -f` bounds shared memory too: rank 1 gets none, and goes over TCP to the others, which share theirs.
#[test]
fn a_rank_without_memory_to_share_goes_over_tcp() {
    let folder = folder("no-arena");
    let (program, script) = (fault_program(&folder), folder.join("limited"));
    let text = format!("#!/bin/sh\n[ \"$1\" = 1 ] && ulimit -f 8\nexec {} \"$@\"\n", program.display());
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let environment = |_| {
        let own = [
            ("SCRIPT", "all_reduce:100 all_reduce:100000 all_gather:1000 alive"),
            ("NCCL_DEBUG", "INFO"),
            ("RSCCL_HOST", "host-1"),
        ];
        own.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let job = Job { program: &script, n_ranks: 3, command: &["script"], environment: &environment };
    let said: Vec<String> = job.start().into_iter().map(Rank::rest).collect();
    for (rank, one) in said.iter().enumerate() {
        let lacking = "shared memory for a communicator's arena: the file size limit (ulimit -f) is ";
        assert_eq!(one.contains(lacking), rank == 1, "{one}");
        assert_eq!(one.contains("goes over TCP to the ranks of its host"), rank == 1, "{one}");
        assert!(one.contains("ALIVE\n") && one.ends_with("CLEAN\n"), "{one}");
    }
    // Rank 2 sends to rank 0 through memory, and rank 0 to rank 1 does not.
    let goes = |from: usize, to: &str| said[from].lines().find(|line| line.contains(to)).unwrap().to_owned();
    assert!(goes(2, " : 2[2] -> 0[0]").contains("SHM"), "{}", said[2]);
    assert!(goes(0, " : 0[0] -> 1[1] [send]").contains("NET/Socket"), "{}", said[0]);
}
