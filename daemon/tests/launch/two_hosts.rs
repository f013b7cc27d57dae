//! Two pretended hosts: jobs, failures, signals, deaths of every process of ours, and nothing left behind each time.

use std::time::Duration;

use crate::stage::Hosts;
use crate::{Running, end, rounds};

/// What is left must be gone within this time on a busy machine; the grace is 5 s, and a host may take 10 s to notice.
const GONE_WITHIN: Duration = Duration::from_secs(30);

/// Ranks that add for ever, with a process beside them that has left their session.
fn endless(hosts: &Hosts) -> String {
    format!("setsid sleep 123456 & exec {} {} 0", rounds().display(), hosts.dir.display())
}

fn started(hosts: &Hosts, options: &[&str]) -> Running {
    let options = [&["-n", "4", "-H", "h1:2,h2:2"], options].concat();
    let mut running = hosts.start(&options, &endless(hosts));
    for line in ["[rank 0 h1] the sum is 6", "[rank 3 h2] the sum is 6"] {
        running.wait_for(line);
    }
    running
}

#[test]
fn a_job_runs_on_both_and_its_bytes_move_between() {
    let hosts = Hosts::up(2);
    let command = format!(
        "echo I am $RANK.$LOCAL_RANK/$LOCAL_WORLD_SIZE on $(hostname) of node $NODE_RANK; exec {} {} 50",
        rounds().display(),
        hosts.dir.display()
    );
    let ended = end(&mut hosts.launch(&["-n", "4", "-H", "h1:2,h2:2"], &command));
    ended.check(0, &[]);
    for line in [
        "[rank 0 h1] I am 0.0/2 on h1 of node 0",
        "[rank 3 h2] I am 3.1/2 on h2 of node 1",
        "[rank 2 h2] the sum is 6",
        "[rank 3 h2] done",
    ] {
        assert!(ended.out.contains(line), "{line} in {ended:#?}");
    }
    hosts.nothing_is_left(GONE_WITHIN);
}

#[test]
fn a_rank_that_fails_is_named_and_the_rest_is_ended() {
    let hosts = Hosts::up(2);
    let command = format!("export FAIL_RANK=3; {}", endless(&hosts));
    let ended = end(&mut hosts.launch(&["-n", "4", "-H", "h1:2,h2:2"], &command));
    ended.check(7, &["first rank 3 on h2 (pid ", "with status 7", "  | I was told to fail"]);
    hosts.nothing_is_left(GONE_WITHIN);
}

#[test]
fn a_rank_that_is_killed_is_named_and_not_its_victims() {
    let hosts = Hosts::up(2);
    let command = format!("export FAIL_RANK=1 FAIL_STATUS=-9; {}", endless(&hosts));
    let ended = end(&mut hosts.launch(&["-n", "4", "-H", "h1:2,h2:2"], &command));
    ended.check(137, &["first rank 1 on h1 (pid ", "by SIGKILL", "dmesg"]);
    assert!(
        !ended.err.contains("SIGSEGV") && !ended.err.contains("SIGABRT"),
        "a survivor crashed: {ended:#?}"
    );
    hosts.nothing_is_left(GONE_WITHIN);
}

#[test]
fn ctrl_c_is_passed_on_and_a_second_one_kills() {
    let hosts = Hosts::up(2);
    let running = started(&hosts, &[]);
    hosts.signal("-INT", &hosts.launch_pid());
    running.end().check(130, &["SIGINT: passed on"]);
    hosts.nothing_is_left(GONE_WITHIN);

    let deaf = "trap '' INT TERM; echo deaf; while :; do sleep 1; done";
    let mut running = hosts.start(&["-n", "2", "-H", "h1,h2", "--grace", "1h"], deaf);
    running.wait_for("[rank 0 h1] deaf");
    running.wait_for("[rank 1 h2] deaf");
    hosts.signal("-INT", &hosts.launch_pid());
    running.wait_for("passed on");
    hosts.signal("-INT", &hosts.launch_pid());
    running.end().check(130, &["SIGINT again: all processes are killed"]);
    hosts.nothing_is_left(GONE_WITHIN);
}

#[test]
fn hosts_that_cannot_be_had_are_named_and_nothing_is_started() {
    let hosts = Hosts::up(2);
    let check = |list: &str, more: &[&str], parts: &[&str]| {
        let options = [&["-n", "2", "-H", list, "--connect-timeout", "2s"], more].concat();
        let ended = end(&mut hosts.launch(&options, "echo started"));
        ended.check(1, &[parts, &["nothing was started"]].concat());
        assert_eq!(ended.out, "", "{list}");
        hosts.nothing_is_left(GONE_WITHIN);
    };
    check("h1,silent", &[], &["silent does not answer", "is it up"]);
    check("h1,nowhere", &[], &["nowhere is not known", "spelled right"]);
    check(
        "h1,h2",
        &["--remote-ringscope", "/no/ringscope"],
        &["h2: there is no /no/ringscope there", "--remote-ringscope"],
    );
    check(
        "h1,h2",
        &["--ssh", "no-such-ssh"],
        &["h2 cannot be reached", "no no-such-ssh on this machine", "openssh-client"],
    );
    check(
        "h1,h2",
        &["--ssh", "ssh -F /dev/null -o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no"],
        &["h2 does not let this user in", "ssh-copy-id"],
    );
    check(
        "h1,h2",
        &["--ssh", "ssh -F /dev/null -o UserKnownHostsFile=/dev/null"],
        &["ssh does not know its key"],
    );
    check("h1,h2", &["--chdir", "/no/folder"], &["cannot start in /no/folder", "--chdir"]);
}

#[test]
fn a_launch_that_is_killed_takes_its_job_along() {
    let hosts = Hosts::up(2);
    let running = started(&hosts, &[]);
    hosts.signal("-KILL", &hosts.launch_pid());
    hosts.nothing_is_left(GONE_WITHIN);
    // Inside namespaces that its parent has not entered, its end is told as a shell would.
    assert_ne!(running.end().status, 0);
}

#[test]
fn a_connection_that_breaks_is_a_lost_host() {
    let hosts = Hosts::up(2);
    let running = started(&hosts, &[]);
    let ssh = hosts.pids("h1", |arguments| arguments.starts_with("ssh -F"));
    assert_eq!(ssh.len(), 1, "{ssh:?}");
    hosts.signal("-KILL", &ssh[0]);
    running.end().check(1, &["h2 is lost", "SIGKILL"]);
    hosts.nothing_is_left(GONE_WITHIN);
}

#[test]
fn a_host_side_that_is_killed_is_a_lost_host_and_leaves_nothing() {
    let hosts = Hosts::up(2);
    for side in ["launch-node --inside", "launch-node --silence-ms"] {
        for host in ["h1", "h2"] {
            let running = started(&hosts, &[]);
            let sides = hosts.pids(host, |arguments| {
                arguments
                    .split_once(' ')
                    .is_some_and(|(program, rest)| program.ends_with("ringscope") && rest.starts_with(side))
            });
            assert_eq!(sides.len(), 1, "{side} on {host}: {sides:?}");
            hosts.signal("-KILL", &sides[0]);
            let ended = running.end();
            ended.check(1, &[&format!("{host} is lost")]);
            hosts.nothing_is_left(GONE_WITHIN);
        }
    }
}

#[test]
fn a_connection_that_ssh_would_keep_for_others_holds_up_no_end_and_is_not_left() {
    let hosts = Hosts::up(2);
    let config = std::fs::read_to_string(hosts.dir.join("ssh_config")).unwrap();
    let kept = format!(
        "{config} ControlMaster auto\n ControlPath {}/kept-%h\n ControlPersist 300\n",
        hosts.dir.display()
    );
    let config = hosts.dir.join("kept_config").display().to_string();
    std::fs::write(&config, kept).unwrap();
    let ssh = format!("ssh -F {config}");
    let options = ["-n", "2", "-H", "h1,h2", "--ssh", &ssh];
    end(&mut hosts.launch(&options, "echo started")).check(0, &[]);
    hosts.nothing_is_left(GONE_WITHIN);

    // One that is there already is used, and stays.
    let master = ["ssh", "-F", &config, "h2", "true"];
    assert!(hosts.on("h1", &master).stderr(std::process::Stdio::null()).status().unwrap().success());
    let mut running = hosts.start(&options, "echo started; sleep 1234567");
    running.wait_for("[rank 1 h2] started");
    assert_eq!(
        hosts.pids("h2", |arguments| arguments.starts_with("sshd: root")).len(),
        1,
        "another connection"
    );
    hosts.signal("-INT", &hosts.launch_pid());
    running.end().check(130, &[]);
    let quit = [&master[..3], &["-q", "-O", "exit", "h2"]].concat();
    assert!(hosts.on("h1", &quit).status().unwrap().success());
    hosts.nothing_is_left(GONE_WITHIN);
}

#[test]
fn a_network_that_is_cut_ends_both_sides() {
    let hosts = Hosts::up(2);
    let mut running = started(&hosts, &["--silence", "4s"]);
    assert!(hosts.on("h2", &["ip", "link", "set", "eth0", "down"]).status().unwrap().success());
    running.wait_for("h2 is lost");
    let ended = running.end();
    ended.check(1, &["nothing was heard of it for 4 s"]);
    hosts.end_ssh_sessions("h2");
    hosts.nothing_is_left(GONE_WITHIN);
}

#[test]
fn a_job_that_is_started_again_gets_other_ports_and_names_each_end() {
    let hosts = Hosts::up(2);
    let command = format!(
        "echo start $RINGSCOPE_RESTART $TORCHELASTIC_RESTART_COUNT at $MASTER_PORT; [ $RINGSCOPE_RESTART = 2 ] || export FAIL_RANK=3; exec {} {} 50",
        rounds().display(),
        hosts.dir.display()
    );
    let ended = end(&mut hosts.launch(&["-n", "4", "-H", "h1:2,h2:2", "--restarts", "3"], &command));
    ended.check(0, &["started again (1 of 3)", "started again (2 of 3)", "first rank 3 on h2"]);
    let ports: std::collections::BTreeSet<&str> =
        ended.out.lines().filter_map(|line| Some(line.split_once(" at ")?.1)).collect();
    assert_eq!(ports.len(), 3, "{ended:#?}");
    hosts.nothing_is_left(GONE_WITHIN);
}

#[test]
fn a_lost_host_is_reached_again_for_another_start() {
    let hosts = Hosts::up(2);
    let command = format!(
        "rounds=50; [ $RINGSCOPE_RESTART = 0 ] && rounds=0; exec {} {} $rounds",
        rounds().display(),
        hosts.dir.display()
    );
    let mut running = hosts.start(&["-n", "4", "-H", "h1:2,h2:2", "--restarts", "1"], &command);
    for line in ["[rank 0 h1] the sum is 6", "[rank 3 h2] the sum is 6"] {
        running.wait_for(line);
    }
    let sides = hosts.pids("h2", |arguments| arguments.contains("launch-node --inside"));
    assert_eq!(sides.len(), 1, "{sides:?}");
    hosts.signal("-KILL", &sides[0]);
    let ended = running.end();
    ended.check(0, &["h2 is lost", "started again (1 of 1)"]);
    assert!(ended.out.contains("[rank 3 h2] done"), "{ended:#?}");
    hosts.nothing_is_left(GONE_WITHIN);
}
