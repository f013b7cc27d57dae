//! Inside an allocation of a real Slurm, whose nodes are pretended hosts.

use std::time::Duration;

use crate::stage::Hosts;
use crate::{RINGSCOPE, Running, rounds};

/// Slurm itself takes some seconds to end a step.
const GONE_WITHIN: Duration = Duration::from_secs(30);

/// `ringscope launch` in an allocation of two nodes with two tasks each.
fn allocated(hosts: &Hosts, options: &[&str], script: &str) -> Running {
    let conf = format!("SLURM_CONF={}", hosts.dir.join("slurm.conf").display());
    let pid = format!("echo $$ > {}; exec \"$@\"", hosts.dir.join("launch.pid").display());
    let allocation = [
        "env",
        &conf,
        "salloc",
        "-Q",
        "-N2",
        "--ntasks-per-node=2",
        "sh",
        "-c",
        &pid,
        "sh",
        RINGSCOPE,
        "launch",
    ];
    let words = [&allocation, options, &["--", "sh", "-c", script]].concat();
    Running::start(hosts.on("h1", &words).current_dir("/"))
}

#[test]
fn hosts_slots_name_and_addresses_are_those_of_the_allocation() {
    let hosts = Hosts::of_slurm(2);
    let script = format!(
        "echo I am $RANK.$LOCAL_RANK/$WORLD_SIZE on $(hostname) in $RINGSCOPE_JOB at $MASTER_ADDR; exec {} {} 20",
        rounds().display(),
        hosts.dir.display()
    );
    let ended = allocated(&hosts, &[], &script).end();
    ended.check(0, &[]);
    for line in [
        "[rank 0 h1] I am 0.0/4 on h1 in slurm-1 at h1",
        "[rank 3 h2] I am 3.1/4 on h2 in slurm-1 at h1",
        "[rank 2 h2] the sum is 6",
    ] {
        assert!(ended.out.contains(line), "{line} in {ended:#?}");
    }
    hosts.nothing_is_left(GONE_WITHIN);

    // Whatever srun makes of lines, nothing is lost.
    let ended = allocated(&hosts, &["--prefix", "rank"], "seq 1 30000").end();
    ended.check(0, &[]);
    for rank in 0..4 {
        let prefix = format!("[rank {rank}] ");
        let numbers = ended.out.lines().filter_map(|line| line.strip_prefix(&prefix)?.parse::<u32>().ok());
        assert!(numbers.eq(1..=30_000), "rank {rank}");
    }
}

#[test]
fn failures_and_deaths_leave_nothing_in_the_allocation() {
    let hosts = Hosts::of_slurm(2);
    let endless = format!("setsid sleep 123456 & exec {} {} 0", rounds().display(), hosts.dir.display());
    let ended = allocated(&hosts, &[], &format!("export FAIL_RANK=3; {endless}")).end();
    ended.check(7, &["first rank 3 on h2 (pid ", "  | I was told to fail"]);
    hosts.nothing_is_left(GONE_WITHIN);

    let mut running = allocated(&hosts, &[], &endless);
    running.wait_for("[rank 3 h2] the sum is 6");
    hosts.signal("-KILL", &hosts.launch_pid());
    running.end();
    hosts.nothing_is_left(GONE_WITHIN);

    let ended = allocated(&hosts, &["--remote-ringscope", "/no/ringscope"], "true").end();
    ended.check(1, &["there is no /no/ringscope there", "srun -w h"]);
    hosts.nothing_is_left(GONE_WITHIN);
}
