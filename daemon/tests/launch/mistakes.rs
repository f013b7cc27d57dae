//! What a user may get wrong: one sentence that says what, where and what to do, the right status, and nothing is started.

use std::net::TcpListener;

use crate::common::scratch;
use crate::{end, launch};

fn check(options: &[&str], status: i32, parts: &[&str]) {
    let ended = end(&mut launch(&[options, &["--", "echo", "started"]].concat()));
    ended.check(status, parts);
    assert_eq!(ended.out, "", "{options:?}");
}

#[test]
fn wrong_numbers_are_wrong_usage() {
    check(&["-n", "0"], 64, &["0 is not in"]);
    check(&["-n", "x"], 64, &["invalid"]);
    check(
        &["-n", "8", "-H", "a:2,b:2"],
        64,
        &["8 workers, and the hosts have 4 slots (a 2, b 2)", "--oversubscribe"],
    );
    check(
        &["-n", "5", "-H", "a,b"],
        64,
        &["5 workers cannot be dealt out evenly over 2 hosts (a, b)", "-n 6"],
    );
    check(&["-H", "a:0"], 64, &["-H", "a:4"]);
    check(&["-H=-oProxyCommand=x:1"], 64, &["is no host"]);
    check(&["--ports", "9-1"], 64, &["20000-29999"]);
    for option in ["--silence", "--connect-timeout"] {
        check(&[option, "0s"], 64, &[option, "expected a second or more"]);
    }
    check(&["--grace", "5"], 64, &["a number and a unit"]);
    check(&["--hostfile", "/no/file"], 64, &["/no/file", "--hostfile"]);
    check(&["-x", "NO_SUCH_VARIABLE"], 64, &["NO_SUCH_VARIABLE", "not set here"]);
    check(&["--hostfile", "/dev/zero"], 64, &["/dev/zero", "larger than 4096 KiB"]);
    let meet = ["--node", "0/2", "--meet", "127.0.0.1:29400", "--secret-file", "/dev/zero"];
    check(&meet, 64, &["--secret-file /dev/zero", "larger than 4 KiB"]);
    check(&["--ssh", "'ssh"], 64, &["a quote is not closed"]);
    check(&["--elastic"], 64, &["--elastic"]);
    check(&["--node", "0/2"], 64, &["--meet"]);
    check(&["--node", "2/2", "--meet", "a:1"], 64, &["0/4 to 3/4"]);
    check(
        &["--node", "0/2", "--meet", "train-0.train:29400"],
        64,
        &["--secret-file", "RINGSCOPE_LAUNCH_SECRET"],
    );
    check(&["--node", "1/2", "--meet", "127.0.0.1:29400"], 64, &["on one machine too", "--secret-file"]);
}

#[test]
fn options_of_other_launchers_are_told_in_those_of_this_one() {
    let workers = "tip: -n N says how many workers there are in all";
    let hosts = "tip: --hostfile FILE names a file with the hosts";
    for (options, tip) in [
        (&["-np", "2"][..], workers),
        (&["-np=2"], workers),
        (&["--np", "2"], workers),
        (&["--nproc_per_node", "2"], "tip: -n N starts N workers on this machine"),
        (&["--nproc-per-node=2"], "-H a:N,b:N"),
        (&["--nnodes", "2", "--node_rank=0"], "--node I/N --meet HOST:PORT"),
        (&["--machinefile", "hosts"], hosts),
        (&["-hostfile", "hosts"], hosts),
        (&["--host", "a,b"], "tip: -H a:4,b:4"),
    ] {
        let first = options[0].split('=').next().unwrap();
        check(options, 64, &[&format!("unexpected argument '{first}' found"), tip]);
        // Also without the --.
        let ended = end(&mut launch(&[options, &["python", "train.py"]].concat()));
        ended.check(64, &[tip, "Usage: ringscope launch [OPTIONS] -- <CMD>..."]);
    }
    check(&["-n", "-1"], 64, &["invalid value '-1' for '--workers <N>': -1 is not in 1..="]);
    check(&["--hostfile"], 64, &["a value is required for '--hostfile <FILE>'"]);
    // Those of the command are its own.
    end(&mut launch(&["mpirun", "-np", "2"])).check(64, &["the command stands behind --", "-- mpirun ..."]);
    end(&mut launch(&["-n", "2", "--", "true", "-np", "2"])).check(0, &[]);
}

#[test]
fn the_usage_line_wants_the_command_alone() {
    let mut command = launch(&["--daemon", "http://127.0.0.1:1"]);
    let ended = end(command.env("RINGSCOPE_DAEMON", "http://127.0.0.1:1"));
    ended.check(64, &["Usage: ringscope launch [OPTIONS] -- <CMD>...\n"]);
}

#[test]
fn a_token_file_that_has_no_token_is_wrong_usage() {
    let dir = scratch("launch-no-token");
    let file = dir.join("token").display().to_string();
    let options = ["--daemon", "http://127.0.0.1:1", "--token-file", &file];
    let why = format!("the token file {file}: No such file or directory");
    check(&options, 64, &[&why, "name another file with --token-file"]);
    check(&["--token-file", &file, "--dry-run"], 64, &[&why]);
    std::fs::write(dir.join("token"), "").unwrap();
    check(&options, 64, &["expected one line with a token"]);
}

#[test]
fn no_command_is_wrong_usage() {
    end(&mut launch(&["-n", "2"])).check(64, &["<CMD>"]);
    end(&mut launch(&["--", ""])).check(64, &["the command behind -- is empty"]);
    let tip = "tip: the command stands behind --: ringscope launch [OPTIONS] -- python ...";
    end(&mut launch(&["-n", "2", "python", "train.py"])).check(64, &[tip]);
}

#[test]
fn a_command_that_is_not_there_is_said_before_anything_starts() {
    let dir = scratch("launch-command");
    std::fs::write(dir.join("plain"), "no program").unwrap();
    for (command, status, part) in [
        ("no-such-command", 127, "the command is not found"),
        ("./plain", 126, "cannot be executed"),
        ("./none", 127, "not found"),
    ] {
        let ended = end(launch(&["-n", "2", "--", command]).current_dir(&dir.0));
        ended.check(status, &[command, part, "nothing was started"]);
    }
    let ended = end(launch(&["--servers", "1", "--sumd", "/no/sumd", "--", "true"]).current_dir(&dir.0));
    ended.check(127, &["/no/sumd", "--sumd"]);
}

#[test]
fn a_port_range_that_is_full_is_named() {
    let held = TcpListener::bind(("::", 0)).or_else(|_| TcpListener::bind(("0.0.0.0", 0))).unwrap();
    let port = held.local_addr().unwrap().port();
    check(
        &["--ports", &format!("{port}-{port}")],
        1,
        &[&format!("{port}-{port}"), "--ports A-B", "nothing was started"],
    );
}

#[test]
fn a_hostfile_is_read() {
    let dir = scratch("launch-hostfile");
    std::fs::write(dir.join("hosts"), "# mine\nlocalhost slots=2\n").unwrap();
    let ended =
        end(launch(&["--hostfile", "hosts", "--prefix", "rank", "--", "sh", "-c", "echo of $WORLD_SIZE"])
            .current_dir(&dir.0));
    ended.check(0, &[]);
    assert!(ended.out.contains("[rank 0] of 2\n") && ended.out.contains("[rank 1] of 2\n"), "{ended:#?}");
}

#[test]
fn an_allocation_that_nobody_can_tell_is_said() {
    let mut command = launch(&["--", "true"]);
    command.env("SLURM_JOB_ID", "7").env("SLURM_JOB_NODELIST", "n[1-2]").env("PATH", "/no/folder");
    end(&mut command).check(64, &["SLURM_JOB_NODELIST", "scontrol", "-H"]);
}
