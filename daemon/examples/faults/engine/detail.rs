//! What it costs a healthy job that the daemon asks for each of its network steps: it does so by itself soon after a job with many
//! collectives begins. One job after the other, each timed while it is asked for and afterwards.

use std::time::Duration;

use ringscope_api::{LevelChoice, clock};

use super::in_pairs;
use super::job::{Job, Shape, Stage};
use crate::daemon::Daemon;

/// A job of four hosts that does little but collectives.
const SHAPE: Shape = Shape { job: "dp", ranks: 4, hosts: 4 };
/// What a change of levels, or the start of the job, may still disturb.
const SETTLES: Duration = Duration::from_secs(3);
/// Of steps that are timed after the level has fallen.
const TIMED: Duration = Duration::from_secs(15);
/// By then the daemon has asked, or asks no more.
const CHANGES_WITHIN: Duration = Duration::from_secs(90);
/// Shares of the time in which the daemon asks (`daemon/judge/src/pace/collectives.rs`): 18 s and the 15 s that a level stays, then
/// nothing for three minutes, or for longer.
const SLOW: f64 = 33.0 / 198.0;
const CALM: f64 = 33.0 / 778.0;

/// Prints how long a step takes while the daemon asks and while it does not.
pub(super) async fn measure(stage: &Stage<'_>, daemon: &Daemon, rounds: u32) -> Result<(), String> {
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let (asked, calm) = turn(stage, daemon, &format!("detail-{round}")).await?;
        eprintln!("round {}: {asked:.3} ms a step while it is asked, {calm:.3} ms afterwards", round + 1);
        with.push(asked);
        without.push(calm);
    }
    for all in [&mut without, &mut with] {
        all.sort_by(f64::total_cmp);
    }
    println!("| a step of four ranks on four hosts, ms | median | least | most |\n|---|---|---|---|");
    for (level, all) in [("counters", &without), ("steps, asked for by the daemon", &with)] {
        println!("| {level} | {:.3} | {:.3} | {:.3} |", middle(all), all[0], all[all.len() - 1]);
    }
    let longer = middle(&with) / middle(&without) - 1.0;
    println!(
        "\nwhile it is asked: {:+.1} %; over all its time, of a job that has slowed or has a slow link {:+.2} %, of any other that is in \
         collectives for a quarter of its time or more {:+.2} %",
        longer * 100.0,
        longer * 100.0 * SLOW,
        longer * 100.0 * CALM
    );
    Ok(())
}

/// Milliseconds of a step while the daemon asks for detail, and afterwards.
async fn turn(stage: &Stage<'_>, daemon: &Daemon, name: &str) -> Result<(f64, f64), String> {
    let arguments = in_pairs([
        ("--fault", "none".to_owned()),
        ("--step-ms", "1".to_owned()),
        ("--steps", "10000000".to_owned()),
        ("--layers", "8".to_owned()),
    ]);
    let job = Job::start(stage, name, SHAPE, 0, &arguments).map_err(|error| format!("{name}: {error}"))?;
    until_all_are(daemon, name, LevelChoice::Steps).await?;
    let asked_from = clock::now().0 + nanos(SETTLES);
    until_all_are(daemon, name, LevelChoice::Counters).await?;
    let asked_until = clock::now().0.saturating_sub(nanos(SETTLES));
    tokio::time::sleep(SETTLES).await;
    let calm_from = clock::now().0;
    tokio::time::sleep(TIMED).await;
    let none = || format!("{name} makes no steps");
    let asked = step_ms(&job, asked_from, asked_until).ok_or_else(none)?;
    let calm = step_ms(&job, calm_from, clock::now().0).ok_or_else(none)?;
    job.end().await;
    Ok((asked, calm))
}

/// Waits until each process of a job of this shape says that it is at this level.
async fn until_all_are(daemon: &Daemon, job: &str, level: LevelChoice) -> Result<(), String> {
    let begun = clock::monotonic();
    loop {
        // A job that has just begun is not known yet.
        let answer = daemon.level(job).await;
        if let Ok(told) = &answer
            && told.processes.len() == SHAPE.ranks as usize
            && told.processes.iter().all(|process| process.level == Some(level))
        {
            return Ok(());
        }
        if begun.elapsed() > CHANGES_WITHIN {
            return Err(format!("{job}: not all ranks came to the level {}: {answer:?}", level.label()));
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Milliseconds of a step between these times, the median of the first rank's.
fn step_ms(job: &Job, since_ns: u64, until_ns: u64) -> Option<f64> {
    let events = job.events();
    let timed = since_ns..until_ns;
    let steps = events
        .iter()
        .filter(|event| event.event == "step" && event.rank == 0 && timed.contains(&event.wall_ns));
    let at: Vec<u64> = steps.map(|event| event.wall_ns).collect();
    let mut took: Vec<f64> = at.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
    took.sort_by(f64::total_cmp);
    (!took.is_empty()).then(|| middle(&took))
}

fn middle(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}
