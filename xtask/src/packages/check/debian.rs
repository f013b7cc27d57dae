//! The .deb in a fresh Debian: installed, verified, started, a job watched, upgraded, removed.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::machine::Machine;
use super::upgrade;
use crate::packages::target::Target;
use crate::packages::{distribution, folder};
use crate::process::say;

/// Goes through the life of an installation.
pub(super) fn lives_and_goes(target: Target, release: &str) -> Result<()> {
    let machine = Machine::boot(release)?;
    machine.run("useradd --create-home alice")?;
    let before = files(&machine)?;
    installs(&machine, target)?;
    units_are_well_made(&machine)?;
    services_start(&machine)?;
    a_job_is_seen(&machine, target)?;
    upgrade::keeps_what_is_there(&machine)?;
    is_removed(&machine)?;
    let left: Vec<String> = files(&machine)?.difference(&before).cloned().collect();
    let other: Vec<&String> = left.iter().filter(|file| !is_data(file)).collect();
    ensure!(other.is_empty(), "{release}: removed, and these are left: {other:?}");
    ensure!(
        left.iter().any(|file| file == "/var/lib/ringscope/ringscope.db"),
        "{release}: the data went too: {left:?}"
    );
    say(&format!("{release}: installed, a job watched, upgraded, removed; data is left"));
    Ok(())
}

fn installs(machine: &Machine, target: Target) -> Result<()> {
    machine.put(&distribution::deb(target), "root/ringscope.deb")?;
    let told = machine.run("dpkg -i /root/ringscope.deb")?;
    ensure!(
        told.contains("systemctl enable --now ringscope-serve"),
        "dpkg -i does not say what is next:\n{told}"
    );
    for (unit, is_enabled) in UNITS {
        let state =
            machine.try_run(&format!("systemctl is-active {unit}; systemctl is-enabled {unit}"))?.text;
        ensure!(
            state == format!("inactive\n{is_enabled}\n"),
            "{unit} is {state:?} before anybody has said so"
        );
    }
    machine.run(
        "man --pager=cat ringscope-serve | grep -q database-url && ringscope doctor --help >/dev/null",
    )?;
    let modes = machine.run("stat -c '%a %U %G' /etc/ringscope/* /dev/shm/ringscope /var/lib/ringscope*")?;
    ensure!(modes == MODES, "owners and modes are\n{modes}and not\n{MODES}");
    Ok(())
}

fn units_are_well_made(machine: &Machine) -> Result<()> {
    for (unit, _) in UNITS {
        let file = format!("/usr/lib/systemd/system/{unit}");
        // It ends with 0 also where a setting is not known, and says so.
        let told = machine.run(&format!("systemd-analyze verify {file}"))?;
        ensure!(told.trim().is_empty(), "systemd-analyze verify {unit}: {told}");
        if !EXPOSED.contains(&unit) {
            continue;
        }
        let exposure =
            machine.run(&format!("systemd-analyze security --offline=true --threshold={EXPOSURE} {file}"))?;
        say(exposure.lines().last().unwrap_or_default());
    }
    Ok(())
}

fn services_start(machine: &Machine) -> Result<()> {
    machine.run("systemctl enable --now ringscope-serve ringscope-agent")?;
    machine.wait_for("the daemon", |machine| {
        let told = machine.try_run("curl --silent --fail http://127.0.0.1:9440/readyz").ok()?;
        told.is_good.then_some(())
    })?;
    for (unit, user) in [("ringscope-serve", "ringscope"), ("ringscope-agent", "ringscope-agent")] {
        let owner = machine.run(&format!("ps -o user:32= -p $(systemctl show --value -p MainPID {unit})"))?;
        ensure!(owner.trim() == user, "{unit} runs as {owner}");
    }
    Ok(())
}

/// Two ranks of another user on the engine: the agent reads what only that user and the capabilities may.
fn a_job_is_seen(machine: &Machine, target: Target) -> Result<()> {
    machine.put(&folder().join("build").join(target.arch()).join("librsccl.so"), "opt/librsccl.so")?;
    machine.run("chmod 755 /opt/librsccl.so && install -d -o alice /opt/job && echo 0 > /opt/job/epoch")?;
    for rank in 0..2 {
        machine.run(&format!(
            "systemd-run --quiet --unit=rank-{rank} --uid=alice ringscope run --job smoke -- ringscope demo-worker \
             --library /opt/librsccl.so --job-dir /opt/job --rank {rank} --world-size 2 --ranks-per-host 2"
        ))?;
    }
    machine.wait_for("calls of the job", |machine| {
        let told =
            machine.try_run("curl --silent --fail 'http://127.0.0.1:9440/api/v1/communicators?job=smoke'");
        let communicators: Value = serde_json::from_str(&told.ok()?.text).ok()?;
        let mut all = communicators["items"].as_array()?.iter();
        all.any(|one| one["n_ranks_seen"] == 2 && one["completed_bytes"].as_u64() > Some(0)).then_some(())
    })?;
    let status = machine.try_run("ringscope status --job smoke")?;
    ensure!(status.is_good && status.text.contains("smoke"), "ringscope status says\n{}", status.text);
    let health = machine.run("ringscope status --job smoke --json")?;
    let health: Value = serde_json::from_str(&health).context("ringscope status --json gives no JSON")?;
    ensure!(health["health"]["level"] != "unknown", "the job is not seen whole: {health}");
    machine.run(&format!("echo {} > /opt/job/epoch", i32::MAX))?;
    machine.wait_for("the end of the job", |machine| {
        let state = machine.try_run("systemctl is-active rank-0 rank-1").ok()?.text;
        state.lines().all(|state| state != "active").then_some(())
    })?;
    machine.run("rm -rf /opt/job /opt/librsccl.so")?;
    Ok(())
}

fn is_removed(machine: &Machine) -> Result<()> {
    machine.run("rm /root/ringscope.deb && dpkg -r ringscope")?;
    let running = machine.try_run("pgrep -x ringscope")?;
    if running.is_good {
        bail!("removed, and processes {} still run", running.text.trim().replace('\n', ", "));
    }
    machine.run("test -s /etc/ringscope/ringscope.toml && dpkg -P ringscope")?;
    Ok(())
}

/// All names of the machine's disk, but for what the system itself writes as it runs.
fn files(machine: &Machine) -> Result<BTreeSet<String>> {
    let all = machine.run("find / -xdev -print")?;
    Ok(all
        .lines()
        .filter(|file| !RUNS.iter().any(|runs| file.starts_with(runs)))
        .map(str::to_owned)
        .collect())
}

fn is_data(file: &str) -> bool {
    file.starts_with("/var/lib/ringscope")
}

/// Each with what systemd says of it when nobody has enabled anything.
const UNITS: [(&str, &str); 4] = [
    ("ringscope-serve.service", "disabled"),
    ("ringscope-agent.service", "disabled"),
    ("ringscope-drain.service", "static"),
    ("ringscope-drain.timer", "disabled"),
];
/// Those that run all the time. The drain is root for a moment, for the operator's script may need it.
const EXPOSED: [&str; 2] = ["ringscope-serve.service", "ringscope-agent.service"];
/// Tenths of a point: the agent has 21, of which one for netlink, by which it asks how queue pairs stand.
const EXPOSURE: u32 = 21;
/// agent.env, ringscope.toml; the folder of segments; the state of daemon and agent.
pub(super) const MODES: &str = "600 root root\n640 root ringscope\n1777 root root\n750 ringscope ringscope\n700 ringscope-agent ringscope-agent\n";
const RUNS: [&str; 8] =
    ["/dev/", "/proc/", "/run/", "/sys/", "/tmp/", "/var/cache/", "/var/log/", "/var/tmp/"];
