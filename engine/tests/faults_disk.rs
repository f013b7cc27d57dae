//! Logs that cannot be written: the job goes on.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use common::network::{confined, sh};
use common::sum::{Group, sum_program};
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

/// With no room for memory to share, and a full disk for what it says.
fn limited(command: &Command, output: &str) -> Command {
    let mut limited = Command::new("/bin/sh");
    limited.args(["-c", &format!("ulimit -f 8; exec \"$@\" {output}"), "sh"]);
    limited.arg(command.get_program()).args(command.get_args());
    limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited
}

/// What the workers of a group say whose server comes for its second part; and with what, if somebody has no room.
fn members(group: &Group<'_>, is_limited: bool) -> Vec<String> {
    let server = group.server_command(&[], &[]);
    let server = if is_limited { limited(&server, ">/dev/full") } else { server };
    let worker = |worker| {
        let command = group.worker_command(worker, &["members", "1"], &[("NCCL_DEBUG", "INFO")]);
        if is_limited && worker == 1 { limited(&command, "") } else { command }
    };
    let mut commands = [worker(0), worker(1), worker(2), server];
    let mut ranks: Vec<Rank> = commands.iter_mut().map(Rank::start).collect();
    assert!(ranks[3].child.wait().unwrap().success());
    ranks.truncate(3);
    ranks.into_iter().map(Rank::rest).collect()
}

fn sums(said: &[String]) -> BTreeSet<&str> {
    let lines = said.iter().flat_map(|said| said.lines()).filter(|line| line.starts_with("SUMS"));
    lines.filter_map(|line| line.split(' ').nth(1)).collect()
}

/// A worker and the server that joins later get no memory, and the server's words go nowhere.
#[test]
fn members_of_a_summation_group_without_memory_to_share_sum_the_same_bits() {
    let program = sum_program("sum-no-arena");
    let group = |is_limited| members(&Group::new(&program, 3, 0), is_limited);
    let (free, limited) = (group(false), group(true));
    let lacks = |said: &String| said.contains("goes over TCP to the ranks of its host");
    assert_eq!(limited.iter().map(lacks).collect::<Vec<_>>(), [false, true, false], "{limited:?}");
    assert!(limited.iter().all(|said| said.contains("1 servers, epoch 1\n")), "{limited:?}");
    assert_eq!((sums(&free).len(), sums(&free)), (1, sums(&limited)));
}

/// Nothing of a group has a name on a disk but its logs, and those may fail.
#[test]
fn full_folders_stop_no_summation_group() {
    confined("full_folders_stop_no_summation_group", || {
        sh("! dd if=/dev/zero of=/dev/shm/full bs=4k 2>/dev/null; ! echo more > /dev/shm/more");
        let program = sum_program("sum-full-shm");
        let group = Group::new(&program, 2, 1);
        let log = [("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_FILE", "/dev/shm/log-%p")];
        let server = group.server(&[], &log);
        let said: Vec<String> = group.workers(&["sums"], &log).into_iter().map(Rank::rest).collect();
        assert!(said.iter().all(|said| said.ends_with("DONE\n")) && sums(&said).len() == 1, "{said:?}");
        assert!(server.rest().ends_with("the job is over\n"));
    });
}
