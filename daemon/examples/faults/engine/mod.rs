//! Faults of real jobs on the engine, seen by a real daemon and its agent.

mod cases;
mod detail;
mod job;
mod slow;
mod steps;

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use cases::{CASES, Case, Guilt};
use futures::StreamExt as _;
use job::{Event, Job, Shape, Stage};
use ringscope_api::clock;

use crate::arguments::{self, Engine as Options};
use crate::daemon::Daemon;
use crate::pace::Pace;
use crate::score::Trial;

pub(crate) async fn run(
    options: &Options,
    ringscope: &Path,
    seeds: Range<u64>,
    is_wanted: impl Fn(&str) -> bool,
    only_slow: bool,
) -> Result<Vec<Trial>, String> {
    let absolute = |path: &Path| path.canonicalize().map_err(|error| format!("{}: {error}", path.display()));
    let (ringscope, program) = (absolute(ringscope)?, absolute(&options.program)?);
    let daemon = Daemon::start(&ringscope, true).await?;
    let stage = Stage {
        ringscope: &ringscope,
        program: &program,
        segment_dir: daemon.segment_dir(),
        dir: daemon.dir(),
        faithful: &options.faithful,
    };
    println!("the engine behaves as NCCL {}", options.faithful);
    if let Some(rounds) = options.detail {
        detail::measure(&stage, &daemon, rounds).await?;
        return Ok(Vec::new());
    }
    let can = |case: &&Case| {
        let why = slow::cannot(case);
        why.iter().for_each(|why| eprintln!("{}: left out: {why}", case.name));
        why.is_none()
    };
    let named = CASES.iter().filter(|_| !only_slow).chain(&slow::CASES).filter(|case| is_wanted(case.name));
    let all: Vec<&Case> = named.filter(can).collect();
    let wanted = || all.iter().copied();
    let twins = || wanted().filter(|case| case.expected.is_empty());
    if options.healthy.is_some() && twins().next().is_none() {
        return Err("--healthy: --only leaves no healthy job to run".to_owned());
    }
    let begun = clock::monotonic();
    let all: Box<dyn Iterator<Item = (&Case, u64)>> = match options.healthy {
        None => Box::new(wanted().flat_map(|case| seeds.clone().map(move |seed| (case, seed)))),
        Some(minutes) => Box::new(
            (seeds.start..)
                .flat_map(|seed| twins().map(move |case| (case, seed)))
                .take_while(move |_| begun.elapsed() < Duration::from_secs(60 * minutes)),
        ),
    };
    let mut running = futures::stream::iter(all.enumerate().map(|(number, (case, seed))| {
        let (stage, daemon) = (&stage, &daemon);
        async move {
            let first_host = number * HOSTS_MAX % ADDRESSES;
            let trial = try_case(case, seed, options, first_host, stage, daemon).await;
            if let Ok(trial) = &trial {
                let named = trial.named_s.map_or("-".to_owned(), |seconds| format!("{seconds:.1} s"));
                eprintln!("{} seed {seed}: named after {named}, {} said", case.name, trial.said.len());
            }
            trial
        }
    }))
    .buffer_unordered(options.parallel.max(1));
    let mut trials = Vec::new();
    while let Some(trial) = running.next().await {
        trials.push(trial?);
    }
    Ok(trials)
}

async fn try_case(
    case: &Case,
    seed: u64,
    options: &Options,
    first_host: usize,
    stage: &Stage<'_>,
    daemon: &Daemon,
) -> Result<Trial, String> {
    let shape = case.slow.map_or_else(|| shape(seed, options.ranks), |slow| slow.shape(seed, options.ranks));
    let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    let victims = victims(case, shape, random as u32);
    let name = format!("{}-{seed}", case.name);
    let mut job = Job::start(stage, &name, shape, first_host, &arguments(case, seed, random, &victims))
        .map_err(|error| format!("{name}: {error}"))?;
    let culprits = match case.guilt {
        Guilt::Pair => vec![victims[0], (victims[0] + 1) % shape.ranks],
        Guilt::Nobody => Vec::new(),
        Guilt::Victim | Guilt::Host | Guilt::Two => victims,
    };
    let mut trial = Trial::new(case.name, seed, shape.ranks, case.expected, &culprits);
    trial.pace = case.slow.map(|_| Pace::default());
    if case.guilt == Guilt::Host && case.slow.is_some() {
        let host = first_host + (culprits[0] / (shape.ranks / shape.hosts)) as usize;
        trial.host = format!("host-{host}");
    }
    listen(case, &name, &mut job, &mut trial, daemon).await?;
    let events = job.events();
    if let (Some(pace), Some(slow)) = (&mut trial.pace, case.slow) {
        *pace = Pace {
            said: pace.said,
            listens_s: (case.within_s > slow::LISTEN_S).then_some(case.within_s as f64),
            ..steps::pace(&events, slow)
        };
    }
    trial.errors = errors(&events);
    job.end().await;
    Ok(trial)
}

/// Hears what is said of the job until it is over, or has been said and nothing else came after.
async fn listen(
    case: &Case,
    name: &str,
    job: &mut Job,
    trial: &mut Trial,
    daemon: &Daemon,
) -> Result<(), String> {
    let begun = clock::monotonic();
    let afterwards = if case.slow.is_some() { COST_AFTERWARDS } else { AFTERWARDS };
    let (mut named_at, mut fault_ns) = (None, None);
    loop {
        if fault_ns.is_none() {
            let events = job.events();
            fault_ns = events.iter().find(|event| event.event == "fault").map(|event| event.wall_ns);
        }
        let since = fault_ns.map(|at| clock::now().0.saturating_sub(at) as f64 / 1e9);
        let after_s = if trial.is_twin() { Some(begun.elapsed().as_secs_f64()) } else { since };
        trial.hear(&daemon.firing(name).await?, &daemon.incidents(name).await?, after_s);
        if trial.named_s.is_some() {
            named_at.get_or_insert_with(clock::monotonic);
        }
        let is_over = match since {
            _ if trial.is_twin() => job.has_ended() || begun.elapsed() > TWIN_MOST,
            Some(since) => since > case.within_s as f64,
            None => begun.elapsed() > STARTS_WITHIN,
        };
        let has_given_up = case.gives_up_s.is_none_or(|seconds| {
            after_s.is_some_and(|after_s| after_s > seconds as f64 + AFTERWARDS.as_secs_f64())
        });
        if is_over || has_given_up && named_at.is_some_and(|at| at.elapsed() > afterwards) {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
}

/// What the ranks' own errors said, each text once.
fn errors(events: &[Event]) -> Vec<String> {
    let failed = events.iter().filter(|event| matches!(event.event.as_str(), "error" | "async_error"));
    let mut errors: Vec<String> = failed.map(|event| bare(&event.text)).collect();
    errors.sort_unstable();
    errors.dedup();
    errors.truncate(ERRORS_MAX);
    errors
}

/// An error without the pointers and addresses that differ from rank to rank.
fn bare(text: &str) -> String {
    let is_bare = |word: &&str| *word != "comm" && !word.starts_with("0x") && !word.contains('<');
    text.split_whitespace().filter(is_bare).collect::<Vec<_>>().join(" ")
}

/// Replicas alone, two dimensions, three: no group in which a majority is found has fewer than three ranks.
fn shape(seed: u64, ranks: Option<u32>) -> Shape {
    match (seed % 3, ranks) {
        (0, ranks) => Shape { job: "dp", ranks: ranks.unwrap_or(4), hosts: 2 },
        (1, ranks) => Shape { job: "2d", ranks: ranks.unwrap_or(8), hosts: 2 },
        (_, ranks) => Shape { job: "3d", ranks: ranks.unwrap_or(12), hosts: 2 },
    }
}

fn victims(case: &Case, shape: Shape, random: u32) -> Vec<u32> {
    let victim = case.slow.and_then(|slow| slow.victim).unwrap_or(random % shape.ranks);
    let per_host = shape.ranks / shape.hosts;
    match case.guilt {
        Guilt::Victim | Guilt::Pair | Guilt::Nobody => vec![victim],
        Guilt::Two => vec![victim, (victim + shape.ranks / 2) % shape.ranks],
        Guilt::Host => (victim / per_host * per_host..(victim / per_host + 1) * per_host).collect(),
    }
}

fn arguments(case: &Case, seed: u64, random: u64, victims: &[u32]) -> Vec<String> {
    let at = 6 + random % 20;
    // Of a twin all is to be seen, up to its orderly end.
    let steps = if case.expected.is_empty() { at + 60 } else { 100_000 };
    let pause_ms = if case.name == "checkpoint_long" { 20_000 } else { 3000 + random % 5000 };
    let step_ms = if case.name == "busy_machine" { 1 } else { 30 };
    let victims: Vec<String> = victims.iter().map(u32::to_string).collect();
    if let Some(slow) = case.slow {
        return slow.arguments(case, seed, random, &victims.join(","));
    }
    let on_error = if seed.is_multiple_of(2) { "wait" } else { "exit" };
    in_pairs([
        ("--fault", case.fault.to_owned()),
        ("--victim", victims.join(",")),
        ("--at", at.to_string()),
        ("--steps", steps.to_string()),
        ("--seed", seed.to_string()),
        ("--step-ms", step_ms.to_string()),
        ("--pause-ms", pause_ms.to_string()),
        ("--on-error", on_error.to_owned()),
        ("--die-after-ms", case.gives_up_s.map_or(0, |seconds| seconds * 1_000).to_string()),
    ])
}

fn in_pairs<const N: usize>(arguments: [(&str, String); N]) -> Vec<String> {
    arguments.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
}

/// Between two looks at the findings.
const POLL: Duration = Duration::from_millis(100);
/// For how long innocents may still be accused once the culprit is named.
const AFTERWARDS: Duration = Duration::from_secs(4);
/// The same of what is slow: what it costs is to be read, too.
const COST_AFTERWARDS: Duration = Duration::from_secs(8);
/// A job that has not come to its fault by then never will.
const STARTS_WITHIN: Duration = Duration::from_secs(60);
/// A healthy job has ended by then.
const TWIN_MOST: Duration = Duration::from_secs(90);
/// Hosts of a job at most, and loopback addresses for hosts.
const HOSTS_MAX: usize = 4;
const ADDRESSES: usize = 240;
const ERRORS_MAX: usize = 16;

/// What `--only` takes, held to the cases.
const _: () = assert!(arguments::are_same(&arguments::ENGINE, &cases::names(&CASES)));
const _: () = assert!(arguments::are_same(&arguments::ENGINE_SLOW, &cases::names(&slow::CASES)));
