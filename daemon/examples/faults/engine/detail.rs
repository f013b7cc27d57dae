//! What it costs a healthy job that each of its network steps is asked for, as the daemon does by itself where a job has slowed: one
//! job, in turns with and without.

use std::time::Duration;

use ringscope_api::{LevelChoice, clock};

use super::in_pairs;
use super::job::{Job, Shape, Stage};
use crate::daemon::Daemon;

/// A job of four hosts that does little but collectives.
const SHAPE: Shape = Shape { job: "dp", ranks: 4, hosts: 4 };
/// Of each turn; the first seconds of it are for the level to arrive.
const TURN: Duration = Duration::from_secs(8);
const ARRIVES: Duration = Duration::from_secs(3);

/// The daemon has to know the job by then.
const KNOWN_WITHIN: Duration = Duration::from_secs(60);
/// Shares of the time in which the daemon asks (`daemon/judge/src/pace/collectives.rs`): 18 s and the 15 s that a level stays, then
/// nothing for two minutes, or for longer.
const SLOW: f64 = 33.0 / 138.0;
const CALM: f64 = 33.0 / 578.0;

/// Prints how long a step takes in either turn.
pub(super) async fn measure(stage: &Stage<'_>, daemon: &Daemon, rounds: u32) -> Result<(), String> {
    let name = "detail";
    let arguments = in_pairs([
        ("--fault", "none".to_owned()),
        ("--step-ms", "1".to_owned()),
        ("--steps", "10000000".to_owned()),
        ("--layers", "8".to_owned()),
    ]);
    let job = Job::start(stage, name, SHAPE, 0, &arguments).map_err(|error| format!("{name}: {error}"))?;
    let begun = clock::monotonic();
    while let Err(words) = daemon.wish_level(name, LevelChoice::Counters).await {
        if begun.elapsed() > KNOWN_WITHIN {
            return Err(words);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let mut turns: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (level, took_ms) in [LevelChoice::Counters, LevelChoice::Steps].into_iter().zip(&mut turns) {
            daemon.wish_level(name, level).await?;
            tokio::time::sleep(ARRIVES).await;
            let since_ns = clock::now().0;
            tokio::time::sleep(TURN - ARRIVES).await;
            took_ms.push(step_ms(&job, since_ns).ok_or("the job makes no steps")?);
        }
    }
    job.end().await;
    let [without, with] = turns.map(|mut all| {
        all.sort_by(f64::total_cmp);
        all
    });
    println!("| a step of four ranks on four hosts, ms | median | least | most |\n|---|---|---|---|");
    for (level, all) in [("counters", &without), ("steps", &with)] {
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

/// Milliseconds of a step since then, the median of the first rank's.
fn step_ms(job: &Job, since_ns: u64) -> Option<f64> {
    let events = job.events();
    let steps =
        events.iter().filter(|event| event.event == "step" && event.rank == 0 && event.wall_ns > since_ns);
    let at: Vec<u64> = steps.map(|event| event.wall_ns).collect();
    let mut took: Vec<f64> = at.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
    took.sort_by(f64::total_cmp);
    (!took.is_empty()).then(|| middle(&took))
}

fn middle(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}
