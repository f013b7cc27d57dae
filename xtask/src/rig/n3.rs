//! N3, congestion: one link of a ring gets half of its rate while all-reduces are issued at a steady pace. The ring couples
//! its ranks, so all of them fall behind what is issued, and that tells nothing of where it is slow. ringscope names the link: the
//! others wait for the slow one, and are as fast as ever when they have something. Then, in a job with a rank for each NIC and a ring for
//! each rail, the first NIC of every host gets half its rate: that is the rail, and no host or link is named.

use std::collections::BTreeMap;
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
    let stage = Stage::set(programs, "n3", N_RANKS, RATE_MBIT, keep)?;
    let hosts: Vec<usize> = (0..N_RANKS).collect();
    let spec = Spec { name: "n3", hosts: &hosts, environment: &[], level: "steps", rails: false };
    let mut job = Job::start(&stage, &spec)?;
    let control = watch(&stage, &mut job, "control", &[])?;
    report.equal("N3", "alarms in a run without a change", "[]".to_owned(), format!("{:?}", control.alarms));
    let slow = watch(&stage, &mut job, "slow", &[SLOW])?;
    judge(&slow, report);
    job.finish()?;
    judge_rail(&watch_rail(&stage)?, report);
    stage.clear(report)
}

/// What was seen in one run.
#[derive(Debug, Default)]
struct Seen {
    /// Slow links that ringscope named, each once, with the seconds since the change, or since the start.
    alarms: Vec<(f64, String)>,
    /// After how many seconds congestion was found, and its words.
    congestion: Option<(f64, String)>,
    /// Operations issued and not completed, by rank: at the change, and at the end.
    gaps: [BTreeMap<u64, u64>; 2],
}

fn judge(seen: &Seen, report: &mut Report) {
    let named: Vec<&str> = seen.alarms.iter().map(|(_, link)| &**link).collect();
    let slow = link(&host_name(SLOW), &nic(0), &host_name((SLOW + 1) % N_RANKS));
    let what = format!("link named when {} of {} sends at half its rate", nic(0), host_name(SLOW));
    report.equal("N3", what, slow.clone(), named.join(", "));
    let took = seen.alarms.iter().find(|(_, named)| *named == slow).map(|(took, _)| *took);
    let words = took.map_or("never".to_owned(), |took| format!("{took:.1} s"));
    report.add(
        "N3",
        "named after",
        format!("<= {LIMIT_S} s"),
        words,
        took.is_some_and(|took| took <= LIMIT_S),
    );
    let [before, after] = &seen.gaps;
    let gap_before = |rank: &u64| before.get(rank).copied().unwrap_or(0);
    let all_grow = !after.is_empty() && after.iter().all(|(rank, gap)| *gap > gap_before(rank) + 1);
    let words = |gaps: &BTreeMap<u64, u64>| format!("{:?}", gaps.values().collect::<Vec<_>>());
    let measured = format!("{} -> {}", words(before), words(after));
    let what = "operations issued and not completed, by rank: a ring couples them";
    report.add("N3", what, "all grow", measured, all_grow);
}

fn judge_rail(seen: &Seen, report: &mut Report) {
    let found = seen.congestion.as_ref();
    let words = found.map_or("never".to_owned(), |(took, _)| format!("{took:.1} s"));
    let what = format!("congestion found when {} of all hosts sends at half its rate", nic(0));
    let is_met = found.is_some_and(|(took, words)| *took <= LIMIT_S && words.contains(&nic(0)));
    report.add("N3", what, format!("<= {LIMIT_S} s"), words, is_met);
    report.equal("N3", "links named beside it", "[]".to_owned(), format!("{:?}", seen.alarms));
}

/// A ring of all ranks. `slow`: hosts whose first NIC sends at half its rate after a while.
fn watch(stage: &Stage, job: &mut Job, name: &str, slow: &[usize]) -> Result<Seen> {
    job.form(name)?;
    flow(stage, job, (name, COUNT), slow)
}

/// Two ranks on each host, and a ring for each of its NICs, of which the first gets slow everywhere.
fn watch_rail(stage: &Stage) -> Result<Seen> {
    let hosts: Vec<usize> = (0..NICS * N_RANKS).map(|rank| rank / NICS).collect();
    let spec = Spec { name: "n3-rails", hosts: &hosts, environment: &[], level: "steps", rails: true };
    let mut job = Job::start(stage, &spec)?;
    let ids: Vec<String> = (0..NICS).map(|rank| job.ask(rank, "id")).collect::<Result<_>>()?;
    let init = |rank: usize| {
        let (rail, place) = (rank % NICS, rank / NICS);
        format!("init {} {N_RANKS} {place} {}", ids[rail], rail_name(rail))
    };
    job.ask_each(init)?;
    let slow: Vec<usize> = (0..N_RANKS).collect();
    let seen = flow(stage, &mut job, (&rail_name(0), COUNT / NICS), &slow)?;
    job.finish()?;
    Ok(seen)
}

fn rail_name(rail: usize) -> String {
    format!("rail-{rail}")
}

/// All-reduces of so many elements at a steady pace, watched period by period.
fn flow(stage: &Stage, job: &mut Job, (name, count): (&str, usize), slow: &[usize]) -> Result<Seen> {
    job.ask_all(&format!("op all_reduce {count} 0"))?;
    let id = stage.daemon.communicator(name, N_RANKS)?;
    for rank in 0..job.n_ranks() {
        job.tell(rank, &format!("flow all_reduce {count} {PERIOD_US} {OPERATIONS}"))?;
    }
    let seen = periods(stage, (job.name(), &id), slow);
    for host in slow {
        stage.network.set_sending_rate(*host, 0, RATE_MBIT)?;
    }
    for rank in 0..job.n_ranks() {
        job.answer(rank, PATIENCE)?;
    }
    job.ask_all("destroy")?;
    seen
}

fn periods(stage: &Stage, (job, id): (&str, &str), slow: &[usize]) -> Result<Seen> {
    let watch = Stopwatch::start();
    let mut seen = Seen { gaps: [gaps(stage, id)?, BTreeMap::new()], ..Seen::default() };
    let mut since = None;
    while watch.seconds() <= WATCHED_S {
        std::thread::sleep(PERIOD);
        for named in slow_links(stage, job)? {
            if seen.alarms.iter().all(|(_, known)| *known != named) {
                seen.alarms.push((watch.seconds() - since.unwrap_or(0.0), named));
            }
        }
        if seen.congestion.is_none()
            && let Some(words) = congestion(stage, job)?
        {
            seen.congestion = Some((watch.seconds() - since.unwrap_or(0.0), words));
        }
        if since.is_none() && !slow.is_empty() && watch.seconds() >= CHANGE_S {
            since = Some(watch.seconds());
            seen.gaps[0] = gaps(stage, id)?;
            for host in slow {
                stage.network.set_sending_rate(*host, 0, RATE_MBIT / 2)?;
            }
        }
    }
    seen.gaps[1] = gaps(stage, id)?;
    Ok(seen)
}

/// What the daemon says of a rail now.
fn congestion(stage: &Stage, job: &str) -> Result<Option<String>> {
    let findings = firing(stage, job, "congestion")?;
    Ok(findings.first().and_then(|one| one["message"].as_str()).map(str::to_owned))
}

/// The links that the daemon names now.
fn slow_links(stage: &Stage, job: &str) -> Result<Vec<String>> {
    let findings = firing(stage, job, "slow_link")?;
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    Ok(findings
        .iter()
        .map(|one| link(&text(&one["host"]), &text(&one["nic"]), &text(&one["culprits"][0])))
        .collect())
}

fn firing(stage: &Stage, job: &str, kind: &str) -> Result<Vec<Value>> {
    stage.daemon.items(&format!("/api/v1/findings?state=firing&job={job}&kind={kind}&limit=1000"))
}

fn link(from: &str, nic: &str, to: &str) -> String {
    format!("{from} {nic} -> {to}")
}

/// Operations issued and not completed, by rank.
fn gaps(stage: &Stage, id: &str) -> Result<BTreeMap<u64, u64>> {
    let totals = stage.daemon.json(&format!("/api/v1/communicators/{id}/primitives"))?;
    let ranks = totals["ranks"].as_array().context("ranks")?;
    let gap = |rank: &Value| {
        let calls = |which: &str| rank["primitives"][0][which].as_u64().unwrap_or(0);
        Some((rank["rank"].as_u64()?, calls("issued_calls").saturating_sub(calls("completed_calls"))))
    };
    Ok(ranks.iter().filter_map(gap).collect())
}

/// Ranks, each on a host of its own, in a ring by number.
const N_RANKS: usize = 4;
/// Sender of the link that gets slow.
const SLOW: usize = 1;
const RATE_MBIT: u32 = 100;
/// Elements of an all-reduce: about 1.1 s of the links' time, which the pace leaves idle for a fifth.
const COUNT: usize = 4 << 20;
const PERIOD_US: u64 = 1_400_000;
const OPERATIONS: usize = 28;
/// When the link gets slow, and how long the run is watched: as long as operations are issued.
const CHANGE_S: f64 = 10.0;
const WATCHED_S: f64 = 38.0;
/// Between two questions.
const PERIOD: Duration = Duration::from_millis(500);
/// Until the link is named: twenty operations.
const LIMIT_S: f64 = 28.0;
/// Until the last operation is done.
const PATIENCE: Duration = Duration::from_secs(60);
