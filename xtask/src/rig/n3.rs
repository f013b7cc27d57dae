//! N3, congestion: one link of a ring gets half of its rate while all-reduces are issued at a steady pace. The ring couples
//! its ranks, so all of them fall behind what is issued, and that tells nothing of where it is slow. What tells is how fast
//! each link is while it is busy: the others wait for the slow one, and are as fast as ever when they have something.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::clock::Stopwatch;
use super::job::{Job, Spec};
use super::network::{host_name, nic};
use super::report::Report;
use super::speeds::{self, Account, Link};
use super::stage::Stage;

/// Runs it.
pub(crate) fn run(programs: &Path, keep: bool, report: &mut Report) -> Result<()> {
    let stage = Stage::set(programs, "n3", N_RANKS, RATE_MBIT, keep)?;
    let hosts: Vec<usize> = (0..N_RANKS).collect();
    let mut job = Job::start(&stage, &Spec { name: "n3", hosts: &hosts, environment: &[] })?;
    let control = watch(&stage, &mut job, "control", None)?;
    report.equal("N3", "alarms in a run without a change", "[]".to_owned(), format!("{:?}", control.alarms));
    let slow = watch(&stage, &mut job, "slow", Some(CHANGE_S))?;
    judge(&slow, report);
    job.finish()?;
    stage.clear(report)
}

/// What was seen in one run.
#[derive(Debug, Default)]
struct Seen {
    /// Slow links, each once, with the number of the period since the change, or since the start.
    alarms: Vec<(usize, Link)>,
    /// Operations issued and not completed, by rank: at the change, and at the end.
    gaps: [BTreeMap<u64, u64>; 2],
}

fn judge(seen: &Seen, report: &mut Report) {
    let link = |(from, index, to): Link| format!("{} {} -> {}", host_name(from), nic(index), host_name(to));
    let named: Vec<String> = seen.alarms.iter().map(|(_, named)| link(*named)).collect();
    let slow = (SLOW, 0, (SLOW + 1) % N_RANKS);
    let what = format!("link named when {} of {} sends at half its rate", nic(0), host_name(SLOW));
    report.equal("N3", what, link(slow), named.join(", "));
    let period = seen.alarms.iter().find(|(_, named)| *named == slow).map(|(period, _)| *period);
    let words = period.map_or("never".to_owned(), |period| period.to_string());
    let in_time = period.is_some_and(|period| period <= LIMIT_PERIODS);
    report.add(
        "N3",
        "named after so many periods of a second",
        format!("<= {LIMIT_PERIODS}"),
        words,
        in_time,
    );
    let [before, after] = &seen.gaps;
    let gap_before = |rank: &u64| before.get(rank).copied().unwrap_or(0);
    let all_grow = !after.is_empty() && after.iter().all(|(rank, gap)| *gap > gap_before(rank) + 1);
    let words = |gaps: &BTreeMap<u64, u64>| format!("{:?}", gaps.values().collect::<Vec<_>>());
    let measured = format!("{} -> {}", words(before), words(after));
    let what = "operations issued and not completed, by rank: a ring couples them";
    report.add("N3", what, "all grow", measured, all_grow);
}

/// All-reduces at a steady pace, watched period by period.
fn watch(stage: &Stage, job: &mut Job, name: &str, change_s: Option<f64>) -> Result<Seen> {
    job.form(name)?;
    job.ask_all(&format!("op all_reduce {COUNT} 0"))?;
    let id = stage.daemon.communicator(name, N_RANKS)?;
    for rank in 0..N_RANKS {
        job.tell(rank, &format!("flow all_reduce {COUNT} {PERIOD_US} {OPERATIONS}"))?;
    }
    let seen = periods(stage, &id, change_s);
    if change_s.is_some() {
        stage.network.set_sending_rate(SLOW, 0, RATE_MBIT)?;
    }
    for rank in 0..N_RANKS {
        job.answer(rank, PATIENCE)?;
    }
    job.ask_all("destroy")?;
    seen
}

fn periods(stage: &Stage, id: &str, change_s: Option<f64>) -> Result<Seen> {
    let watch = Stopwatch::start();
    let mut seen = Seen { gaps: [gaps(stage, id)?, BTreeMap::new()], ..Seen::default() };
    let (mut suspected, mut since) = (None, 0);
    let mut before = Account::of(&stage.network)?;
    for period in 1.. {
        std::thread::sleep(PERIOD);
        let now = Account::of(&stage.network)?;
        let slow = speeds::slow(&now.speeds_since(&before));
        before = now;
        if let Some(link) = slow.filter(|link| suspected == Some(*link))
            && seen.alarms.iter().all(|(_, known)| *known != link)
        {
            seen.alarms.push((period - since, link));
        }
        suspected = slow;
        if watch.seconds() > WATCHED_S {
            break;
        }
        if since == 0 && change_s.is_some_and(|at| watch.seconds() >= at) {
            since = period;
            seen.gaps[0] = gaps(stage, id)?;
            stage.network.set_sending_rate(SLOW, 0, RATE_MBIT / 2)?;
        }
    }
    seen.gaps[1] = gaps(stage, id)?;
    Ok(seen)
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
const OPERATIONS: usize = 18;
/// When the link gets slow, and how long the run is watched: as long as operations are issued.
const CHANGE_S: f64 = 10.0;
const WATCHED_S: f64 = 24.0;
/// A sample period, and how many of them an alarm may take.
const PERIOD: Duration = Duration::from_secs(1);
const LIMIT_PERIODS: usize = 3;
/// Until the last operation is done.
const PATIENCE: Duration = Duration::from_secs(60);
