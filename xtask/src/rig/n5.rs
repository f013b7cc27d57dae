//! N5, a NIC at half its rate: of one host's NICs one falls to half its rate, in both directions, and its files of sysfs say so, while a
//! job calls at the level that costs least. ringscope says that the job is slower than it was, which NIC that is put down to, from
//! which rate to which it fell and when; and accuses nobody else.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::job::{Job, Spec};
use super::network::{NICS, host_name, nic};
use super::report::Report;
use super::stage::Stage;
use crate::clock::Stopwatch;

/// Runs it.
pub(crate) fn run(programs: &Path, keep: bool, report: &mut Report) -> Result<()> {
    let stage = Stage::set_with(programs, "n5", (N_HOSTS, RATE_MBIT), keep, Some(write_all))?;
    let hosts: Vec<usize> = (0..N_HOSTS).collect();
    let mut job = Job::start(
        &stage,
        &Spec { name: "n5", hosts: &hosts, environment: &[], level: "counters", rails: false },
    )?;
    job.form("ring")?;
    job.ask_all(&format!("op all_reduce {COUNT} 0"))?;
    for rank in 0..N_HOSTS {
        job.tell(rank, &format!("flow all_reduce {COUNT} {STEP_US} {STEPS}"))?;
    }
    watch(&stage)?.judge(report);
    for rank in 0..N_HOSTS {
        job.answer(rank, PATIENCE)?;
    }
    job.ask_all("destroy")?;
    job.finish()?;
    stage.clear(report)
}

/// What fired.
#[derive(Debug, Default)]
struct Seen {
    /// Who was accused before the NIC changed.
    before: Vec<String>,
    /// Since then, by kind: after how many seconds it named the NIC with its rates, and its newest words.
    named: BTreeMap<String, (f64, String)>,
    /// Who else was accused.
    others: Vec<String>,
}

impl Seen {
    fn judge(&self, report: &mut Report) {
        report.equal("N5", "accused before the NIC changed", "[]".to_owned(), format!("{:?}", self.before));
        for kind in ["slowdown", "slow_nic"] {
            let named = self.named.get(kind);
            let words = named.map_or("never".to_owned(), |(took, _)| format!("{took:.1} s"));
            let what = format!("{kind} that names {} of {} and its rates", nic(0), host_name(SLOW));
            let is_met = named.is_some_and(|(took, _)| *took <= LIMIT_S);
            report.add("N5", what, format!("<= {LIMIT_S} s"), words, is_met);
            if let Some((_, message)) = named {
                report.add("N5", format!("{kind}, its words"), "", message, true);
            }
        }
        report.equal("N5", "accused beside it", "[]".to_owned(), format!("{:?}", self.others));
    }

    fn take(&mut self, finding: &Value, seconds: f64) {
        let text = |name: &str| finding[name].as_str().unwrap_or_default();
        let (kind, message) = (text("finding"), text("message"));
        let is_it = text("host") == host_name(SLOW) && text("nic") == nic(0);
        if is_it && message.contains(FELL) {
            let (_, words) = self.named.entry(kind.to_owned()).or_insert((seconds, String::new()));
            *words = message.to_owned();
        } else if !(is_it || text("host").is_empty()) {
            note(&mut self.others, finding);
        }
    }
}

/// Adds a finding, in the words in which it is first seen.
fn note(seen: &mut Vec<String>, finding: &Value) {
    let text = |name: &str| finding[name].as_str().unwrap_or_default();
    let subject = format!("{} {} {}: ", text("finding"), text("host"), text("nic"));
    if !seen.iter().any(|known| known.starts_with(&subject)) {
        seen.push(subject + text("message"));
    }
}

fn watch(stage: &Stage) -> Result<Seen> {
    let mut seen = Seen::default();
    let mut clock = Stopwatch::start();
    while clock.seconds() <= CHANGE_S {
        std::thread::sleep(PERIOD);
        let accuses = |finding: &&Value| finding["host"].as_str().is_some_and(|host| !host.is_empty());
        firing(stage)?.iter().filter(accuses).for_each(|finding| note(&mut seen.before, finding));
    }
    stage.network.set_rate(SLOW, 0, RATE_MBIT / 2)?;
    write(&stage.folder.join("sysfs"), SLOW, 0, (RATE_MBIT / 2, CRC_ERRORS))?;
    clock = Stopwatch::start();
    while clock.seconds() <= WATCHED_S {
        std::thread::sleep(PERIOD);
        for finding in firing(stage)? {
            seen.take(&finding, clock.seconds());
        }
    }
    Ok(seen)
}

/// What fires and is more than information.
fn firing(stage: &Stage) -> Result<Vec<Value>> {
    let mut findings = stage.daemon.items("/api/v1/findings?state=firing&limit=1000")?;
    findings.retain(|finding| finding["severity"] != "info");
    Ok(findings)
}

/// What all NICs say while all is well.
fn write_all(sysfs: &Path) -> Result<()> {
    let nics = (0..N_HOSTS).flat_map(|host| (0..NICS).map(move |index| (host, index)));
    nics.into_iter().try_for_each(|(host, index)| write(sysfs, host, index, (RATE_MBIT, 0)))
}

/// What a NIC says of itself: its rate, and errors that it counts.
fn write(sysfs: &Path, host: usize, index: usize, (rate_mbit, errors): (u32, u32)) -> Result<()> {
    let folder = sysfs.join(host_name(host)).join("class/net").join(nic(index));
    for inner in ["device", "statistics"] {
        fs::create_dir_all(folder.join(inner))
            .with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let files = [
        ("type", "1".to_owned()),
        ("operstate", "up".to_owned()),
        ("carrier", "1".to_owned()),
        ("speed", rate_mbit.to_string()),
        ("statistics/rx_crc_errors", errors.to_string()),
    ];
    for (name, text) in files {
        // At once, as the kernel changes a value.
        let unfinished = folder.join(".unfinished");
        fs::write(&unfinished, format!("{text}\n"))
            .and_then(|()| fs::rename(&unfinished, folder.join(name)))
            .with_context(|| format!("cannot write {name} in {}", folder.display()))?;
    }
    Ok(())
}

/// Hosts of one rank each, in a ring by number, over both NICs.
const N_HOSTS: usize = 4;
/// Whose first NIC falls.
const SLOW: usize = 1;
const RATE_MBIT: u32 = 100;
/// What its findings say.
const FELL: &str = "its rate fell from 0.1 to 0.05 Gb/s at ";
/// Errors that it counts then.
const CRC_ERRORS: u32 = 500;
/// Elements of an all-reduce: about 1.1 s of the links' time, and twice that at half the rate. What a socket's buffer takes at once would
/// hide that a link is slow.
const COUNT: usize = 4 << 20;
/// From one call to the next: half of it is the ranks' own at first, and next to nothing at half the rate.
const STEP_US: u64 = 2_200_000;
const STEPS: u64 = 40;
/// When the NIC falls: after the daemon has seen what is usual. How long it is watched from then on.
const CHANGE_S: f64 = 48.0;
const WATCHED_S: f64 = 40.0;
/// Between two questions.
const PERIOD: Duration = Duration::from_millis(500);
/// Until it is named.
const LIMIT_S: f64 = 30.0;
/// Until the last operation is done, on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(180);
