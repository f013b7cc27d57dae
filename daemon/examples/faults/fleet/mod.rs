//! Faults of a job of a thousand or ten thousand ranks that are not there, told to a real daemon.

mod calls;
mod cases;
mod pace;
mod program;
mod slow;
mod tell;

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use cases::{CASES, Case};
use futures::StreamExt as _;
use ringscope_api::clock;
use tell::Teller;

use crate::arguments::{self, Fleet as Options};
use crate::daemon::Daemon;
use crate::pace::Pace;
use crate::score::Trial;
use crate::sending;

pub(crate) async fn run(
    options: &Options,
    ringscope: &Path,
    seeds: Range<u64>,
    is_wanted: impl Fn(&str) -> bool,
    only_slow: bool,
) -> Result<Vec<Trial>, String> {
    let mut trials = Vec::new();
    let all = CASES.iter().filter(|_| !only_slow).chain(&slow::CASES);
    for case in all.filter(|case| is_wanted(case.name)) {
        for seed in seeds.clone() {
            // A daemon of its own: what one trial leaves costs the next one nothing.
            let daemon = Daemon::start(ringscope, false).await?;
            let trial = try_case(case, seed, options, &daemon).await?;
            let named = trial.named_s.map_or("-".to_owned(), |seconds| format!("{seconds:.1} s"));
            eprintln!("{} seed {seed}: named after {named}, {} said", case.name, trial.said.len());
            trials.push(trial);
        }
    }
    Ok(trials)
}

async fn try_case(case: &Case, seed: u64, options: &Options, daemon: &Daemon) -> Result<Trial, String> {
    let n_ranks = options.ranks / tell::RANKS_PER_HOST * tell::RANKS_PER_HOST;
    let job = format!("{}-{seed}", case.name);
    let mut fleet = Teller::new(job.clone(), n_ranks, clock::now());
    if case.is_slow {
        fleet.tell_of_time();
    }
    let sender = sending::Daemon::new(&daemon.url);
    let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    let interval = Duration::from_millis(options.interval_ms);
    // Everybody is known, and has worked for a while.
    for _ in 0..WARM_UP + random % 4 {
        round(&mut fleet, &sender, interval).await?;
    }
    let victim = (random % u64::from(n_ranks)) as u32;
    let culprits = (case.happen)(&mut fleet, victim);
    let mut trial = Trial::new(case.name, seed, n_ranks, case.expected, &culprits);
    let is_there = |rank: &u32| tell::host_of(*rank) == tell::host_of(victim);
    if culprits.len() > 1 && culprits.iter().all(is_there) {
        trial.host = tell::host_of(victim);
    }
    trial.pace = case.is_slow.then(Pace::default);
    round(&mut fleet, &sender, Duration::ZERO).await?;
    let happened = clock::monotonic();
    let mut undo = case.undo;
    while happened.elapsed() < Duration::from_secs(case.seconds) {
        let due = clock::monotonic() + interval;
        while clock::monotonic() < due {
            let (firing, incidents) = (daemon.firing(&job).await?, daemon.incidents(&job).await?);
            trial.hear(&firing, &incidents, Some(happened.elapsed().as_secs_f64()));
            tokio::time::sleep(POLL).await;
        }
        let costed = if case.is_slow { COST_AFTERWARDS } else { Duration::ZERO };
        let is_enough =
            |named_s: f64| happened.elapsed() > AFTERWARDS.max(Duration::from_secs_f64(named_s) + costed);
        if !trial.is_twin() && trial.named_s.is_some_and(is_enough) {
            break;
        }
        if let Some((_, undone)) = undo.filter(|(after, _)| happened.elapsed() >= Duration::from_secs(*after))
        {
            undone(&mut fleet, victim);
            undo = None;
        }
        round(&mut fleet, &sender, Duration::ZERO).await?;
    }
    if let (Some(told), Some(true_pace)) = (&mut trial.pace, &fleet.pace) {
        let (injected_s, step_s) = (true_pace.slower_s(), Some(true_pace.step_s()));
        *told = Pace { injected_s, step_s, said: told.said, timed_s: None, listens_s: None };
    }
    Ok(trial)
}

/// Lets the job go on, and all agents tell of it; takes at least that long.
async fn round(fleet: &mut Teller, sender: &sending::Daemon, least: Duration) -> Result<(), String> {
    let begun = clock::monotonic();
    if !fleet.pause {
        fleet.go_on(clock::now());
    }
    let batches = fleet.batches(clock::now());
    let mut sending =
        futures::stream::iter(batches.iter().map(|batch| sender.send(batch))).buffer_unordered(LANES);
    while let Some(sent) = sending.next().await {
        sent?;
    }
    tokio::time::sleep(least.saturating_sub(begun.elapsed())).await;
    Ok(())
}

/// Readings before the fault, at least.
const WARM_UP: u64 = 4;
/// For how long innocents may still be accused once the culprit is named.
const AFTERWARDS: Duration = Duration::from_secs(6);
/// For how long what it costs is listened to, once it is named.
const COST_AFTERWARDS: Duration = Duration::from_secs(8);
/// Between two looks at the findings.
const POLL: Duration = Duration::from_millis(100);
/// Batches on their way at a time.
const LANES: usize = 8;

/// What `--only` takes, held to the cases.
const _: () = assert!(arguments::are_same(&arguments::FLEET, &cases::names(&CASES)));
const _: () = assert!(arguments::are_same(&arguments::FLEET_SLOW, &cases::names(&slow::CASES)));
