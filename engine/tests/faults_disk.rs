//! Logs that cannot be written: the job goes on.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

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
