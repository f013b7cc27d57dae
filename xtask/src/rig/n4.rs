//! N4, a hang: a rank is stopped, and the others wait. Three ways to be stuck, told apart: the rank has not issued the
//! operation; it has, and sends nothing; it sends, and nothing arrives.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::job::{Job, Spec};
use super::network::host_name;
use super::report::Report;
use super::stage::Stage;
use crate::clock::{Stopwatch, eventually};

/// Runs it.
pub(crate) fn run(programs: &Path, keep: bool, report: &mut Report) -> Result<()> {
    let stage = Stage::set(programs, "n4", N_RANKS, RATE_MBIT, keep)?;
    let hosts: Vec<usize> = (0..N_RANKS).collect();
    let mut job = Job::start(
        &stage,
        &Spec { name: "n4", hosts: &hosts, environment: &[], level: "steps", rails: false },
    )?;
    job.form("world")?;
    for _ in 0..WARM_UP {
        job.ask_all(&format!("op all_reduce {SMALL} 0"))?;
    }
    let id = stage.daemon.communicator("world", N_RANKS)?;
    let rank = Stopped { pid: job.ask(STOPPED, "pid")? };
    not_issued(&stage, &mut job, &id, &rank, report)?;
    calm(&stage)?;
    // How far a hop has carried a call is told from what hops had carried at two moments at which all were out of calls.
    std::thread::sleep(PEACE);
    not_sent(&stage, &mut job, &rank, report)?;
    not_received(&stage, &mut job, report)?;
    job.ask_all("destroy")?;
    job.finish()?;
    stage.clear(report)
}

/// The rank that is stopped and goes on.
#[derive(Debug)]
struct Stopped {
    pid: String,
}

impl Stopped {
    fn signal(&self, name: &str) -> Result<()> {
        let status = Command::new("kill").args([name, &self.pid]).status().context("kill")?;
        if !status.success() {
            bail!("kill {name} {}: {status}", self.pid);
        }
        Ok(())
    }
}

/// The rank stops between two operations: the others' records say that they issued the next one, its own does not.
fn not_issued(stage: &Stage, job: &mut Job, id: &str, rank: &Stopped, report: &mut Report) -> Result<()> {
    let others: Vec<usize> = (0..N_RANKS).filter(|other| *other != STOPPED).collect();
    rank.signal("-STOP")?;
    let watch = Stopwatch::start();
    for other in &others {
        job.ask(*other, &format!("issue all_reduce {SMALL}"))?;
    }
    let mut records = BTreeMap::new();
    let named = eventually("the rank that did not issue", PATIENCE, || {
        records =
            self::records(&stage.daemon.items(&format!("/api/v1/communicators/{id}/operations?limit=1000"))?);
        Ok(others
            .iter()
            .all(|other| records.get(other).is_some_and(|(issued, _)| *issued == Some(WARM_UP)))
            .then(|| {
                let behind = records.iter().filter(|(_, (issued, _))| issued.is_none());
                behind.map(|(rank, _)| *rank).collect::<Vec<_>>()
            }))
    });
    let took = watch.seconds();
    let named = named.unwrap_or_default();
    let last = WARM_UP - 1;
    report.equal(
        "N4",
        "not issued: rank named by the operations of the API",
        format!("[{STOPPED}]"),
        format!("{named:?}"),
    );
    let of_others =
        others.iter().filter(|other| records.get(other) == Some(&(Some(WARM_UP), Some(last)))).count();
    let what = format!("not issued: other ranks with operation {WARM_UP} issued and {last} completed");
    report.equal("N4", what, others.len(), of_others);
    report.equal(
        "N4",
        "not issued: the stopped rank's last completed operation",
        format!("{:?}", Some(last)),
        format!("{:?}", records.get(&STOPPED).and_then(|(_, completed)| *completed)),
    );
    report.add("N4", "not issued: named after", "< 2 s", format!("{took:.2} s"), took < LIMIT_S);
    rank.signal("-CONT")?;
    job.ask(STOPPED, &format!("issue all_reduce {SMALL}"))?;
    job.ask_all("wait").map(drop)
}

/// Number of each rank's operation in flight, and of its newest completed one.
fn records(operations: &[Value]) -> BTreeMap<usize, (Option<u64>, Option<u64>)> {
    let mut records: BTreeMap<usize, (Option<u64>, Option<u64>)> = BTreeMap::new();
    for operation in operations.iter().filter(|operation| operation["primitive"] == "all_reduce") {
        let rank =
            operation["rank"].as_u64().and_then(|rank| usize::try_from(rank).ok()).unwrap_or(usize::MAX);
        let (issued, completed) = records.entry(rank).or_default();
        let number = operation["seq_number"].as_u64();
        match operation["state"].as_str() {
            Some("in_flight" | "issued") => *issued = (*issued).max(number),
            Some("completed") => *completed = (*completed).max(number),
            _ => {}
        }
    }
    records
}

/// The rank stops in the middle of an operation that all have issued.
fn not_sent(stage: &Stage, job: &mut Job, rank: &Stopped, report: &mut Report) -> Result<()> {
    job.ask_all(&format!("issue all_reduce {LARGE}"))?;
    let watch = Stopwatch::start();
    rank.signal("-STOP")?;
    let (named, took) = (accused(stage)?, watch.seconds());
    report.equal(
        "N4",
        "issued, not sent: rank accused by ringscope",
        format!("[{STOPPED}]"),
        format!("{named:?}"),
    );
    report.add("N4", "issued, not sent: named after", "< 10 s", format!("{took:.2} s"), took < NAMED_S);
    rank.signal("-CONT")?;
    job.ask_all("wait")?;
    calm(stage)?;
    std::thread::sleep(PEACE);
    Ok(())
}

/// Everything that reaches one host on its NICs is dropped.
fn not_received(stage: &Stage, job: &mut Job, report: &mut Report) -> Result<()> {
    job.ask_all(&format!("issue all_reduce {LARGE}"))?;
    let watch = Stopwatch::start();
    nft(
        stage,
        "add table ip rig; add chain ip rig in { type filter hook input priority 0; }; \
         add rule ip rig in iifname \"nic*\" drop",
    )?;
    let (named, took) = (accused(stage)?, watch.seconds());
    // The kernel of that host hears neither what is sent to it nor that what it sends has come: the hops to it and from it are dead.
    let what =
        format!("sent, not received at {}: a hop to or from it named by ringscope", host_name(STOPPED));
    let hops = [(STOPPED + N_RANKS - 1) % N_RANKS, STOPPED].map(|from| [from, (from + 1) % N_RANKS]);
    let is_one = hops.iter().any(|hop| named.iter().copied().eq(hop.iter().map(|rank| *rank as u64)));
    report.add("N4", what, format!("{hops:?}"), format!("{named:?}"), is_one);
    let limit = format!("< {FIRST_NAMED_S} s");
    report.add("N4", "sent, not received: named after", limit, format!("{took:.2} s"), took < FIRST_NAMED_S);
    nft(stage, "delete table ip rig")?;
    job.ask_all("wait").map(drop)
}

/// Ranks that the daemon accuses, once it accuses any.
fn accused(stage: &Stage) -> Result<Vec<u64>> {
    eventually("ringscope names somebody", PATIENCE, || {
        let findings = stage.daemon.items("/api/v1/findings?state=firing&limit=1000")?;
        let accused = findings.iter().filter_map(|finding| {
            let accused = finding["accused"].as_array()?;
            let ranks: Vec<u64> = accused.iter().filter_map(|one| one["rank"].as_u64()).collect();
            Some(ranks).filter(|ranks| !ranks.is_empty())
        });
        Ok(accused.into_iter().next())
    })
}

/// Until nobody is accused any more.
fn calm(stage: &Stage) -> Result<()> {
    eventually("ringscope accuses nobody any more", PATIENCE, || {
        let findings = stage.daemon.items("/api/v1/findings?state=firing&limit=1000")?;
        let accuses = |finding: &Value| finding["accused"].as_array().is_some_and(|all| !all.is_empty());
        Ok((!findings.iter().any(accuses)).then_some(()))
    })
}

fn nft(stage: &Stage, rules: &str) -> Result<()> {
    let output = stage.network.command_on(STOPPED, Path::new("nft")).arg(rules).output().context("nft")?;
    if !output.status.success() {
        bail!("nft: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Ranks, each on a host of its own.
const N_RANKS: usize = 4;
const STOPPED: usize = 2;
const RATE_MBIT: u32 = 100;
/// Operations before the hang, and so the number of the one in it.
const WARM_UP: u64 = 3;
/// Elements of an operation that is over at once, and of one that takes a second.
const SMALL: usize = 4_099;
const LARGE: usize = 4 << 20;
const PATIENCE: Duration = Duration::from_secs(60);
const LIMIT_S: f64 = 2.0;
/// Looks of the daemon that find all ranks out of calls.
const PEACE: Duration = Duration::from_secs(5);
/// Within this ringscope has to name who holds the others back.
const NAMED_S: f64 = 10.0;
/// The same of a call that may be the first of its size to stand still: nobody knows how long such a call takes, so ten seconds are waited for.
const FIRST_NAMED_S: f64 = 12.0;
