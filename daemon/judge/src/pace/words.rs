//! What is found about a job's pace, in words.

use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::words::{clock, duration, list, plural, rate, size};
use ringscope_api::{Cost, Culprit, Detail, FindingKind, Severity};
use ringscope_model::{Model, Name, Process, RankRef, Timed, bus_factor};

use super::past::Slowdown;
use super::slow::{How, Slow, Subject};
use super::small::TooSmall;
use crate::hardware::Ail;
use crate::judgement::{Blame, Judgement};
use crate::seen;

/// The finding.
pub(super) fn judgement(
    model: &Model,
    slow: &Slow,
    began: Timestamp,
    cost: Cost,
    n_processes: usize,
) -> Judgement {
    let culprits: Vec<&Process> = slow.processes.iter().filter_map(|key| model.process(key)).collect();
    let worst = model.process(&slow.process);
    let host = worst.and_then(Process::identity).map(|identity| identity.host.clone()).unwrap_or_default();
    let place = worst.and_then(largest);
    let key = match &slow.subject {
        Subject::Process(key) | Subject::Host(key) => key.to_string(),
    };
    let details = culprits.iter().filter_map(|process| stack(process)).take(STACKS).collect();
    let why = reason(slow, worst);
    let because = why.as_ref().map(|why| format!("; {}", why.words)).unwrap_or_default();
    Judgement {
        kind: slow.kind,
        severity: Severity::Warning,
        host,
        rank: place.as_ref().map(|rank| rank.rank).filter(|_| matches!(slow.subject, Subject::Process(_))),
        channel: None,
        nic: None,
        cause: why.as_ref().map_or_else(|| cause(slow), |why| why.cause),
        culprits: Vec::new(),
        message: message(slow, &culprits) + &because,
        evidence: Vec::new(),
        blame: Blame {
            comm: place.and_then(|rank| rank.local.communicator()),
            key,
            accused: culprits.iter().filter_map(|process| culprit(process, slow)).take(NAMED).collect(),
            n_victims: u32::try_from(n_processes.saturating_sub(culprits.len())).unwrap_or(u32::MAX),
            cost: Some(cost),
            advice: why.map_or_else(|| advice(slow), |why| why.advice).to_owned(),
            details,
            began_at: Some(began),
            ..Blame::default()
        },
    }
}

/// The finding about a job that is slower than it was, with what began to be wrong with its NICs then, host by host.
pub(super) fn slowdown(
    job: &Name,
    slow: &Slowdown,
    cost: Cost,
    ails: &[(Name, Ail)],
    n_processes: usize,
) -> Judgement {
    let step = if slow.has_steps { "step" } else { "call" };
    let why: Vec<String> =
        ails.iter().map(|(host, ail)| format!("{} of {host}: {}", ail.nic, ail.words)).collect();
    let because = why.first().map(|why| format!("; {why}")).unwrap_or_default();
    let message = format!(
        "Collectives of {job} take {} of each {step}, they took {} until {}: {:.0} % of the job's time{because}",
        time(slow.takes),
        time(slow.took),
        clock(slow.since),
        slow.share * 100.0
    );
    let first = ails.first();
    let details = if why.is_empty() {
        Vec::new()
    } else {
        vec![Detail { title: "NICs of its hosts".to_owned(), lines: why }]
    };
    Judgement {
        kind: FindingKind::Slowdown,
        severity: Severity::Warning,
        host: first.map(|(host, ..)| host.clone()).unwrap_or_default(),
        rank: None,
        channel: None,
        nic: first.map(|(_, ail)| ail.nic.clone()),
        cause: "collectives",
        culprits: ails.iter().map(|(host, _)| host.to_string()).collect(),
        message,
        evidence: first.map(|(_, ail)| ail.evidence.clone()).unwrap_or_default(),
        blame: Blame {
            key: "collectives".to_owned(),
            n_victims: u32::try_from(n_processes).unwrap_or(u32::MAX),
            cost: Some(cost),
            advice: "Look at what is found beside this: a slow link, a NIC. Else at what began on these hosts or on their network at \
                     that time."
                .to_owned(),
            details,
            began_at: Some(slow.since),
            ..Blame::default()
        },
    }
}

/// The finding about collectives that are too small. Whether they can be fused only the program's author knows: it is information.
pub(super) fn too_small(small: &TooSmall, began: Timestamp, cost: Cost, n_processes: usize) -> Judgement {
    let TooSmall { one, fused, share, n_fused, times, .. } = small;
    let bus = |timed: &Timed| rate(timed.bytes_per_s() * bus_factor(timed.primitive, small.n_ranks));
    let primitive = one.primitive.label();
    let other = if small.is_of_other { " on a communicator like it" } else { "" };
    let message = format!(
        "{:.0} % of the job's time goes into {primitive} of {} at {}; {n_fused} of them in one would take 1/{times:.0} of the time \
         (measured{other}: {} at {})",
        share * 100.0,
        size(one.bytes),
        bus(one),
        size(fused.bytes),
        bus(fused)
    );
    Judgement {
        kind: FindingKind::TooSmall,
        severity: Severity::Info,
        host: Name::default(),
        rank: None,
        channel: None,
        nic: None,
        cause: "too_small",
        culprits: Vec::new(),
        message,
        evidence: Vec::new(),
        blame: Blame {
            comm: Some(small.comm),
            key: format!("small/{primitive}"),
            n_victims: u32::try_from(n_processes).unwrap_or(u32::MAX),
            cost: Some(cost),
            advice: "Fuse those that do not need each other's results: bucket_cap_mb of DDP, larger units of FSDP, one flat tensor, \
                     ncclGroupStart and ncclGroupEnd around them, CUDA graphs where they cannot be fused."
                .to_owned(),
            began_at: Some(began),
            ..Blame::default()
        },
    }
}

fn cause(slow: &Slow) -> &'static str {
    match slow.how {
        _ if slow.device.is_some() => "device",
        How::Steady if slow.more_work.is_some() => "more_work",
        How::Steady => "every_step",
        How::Intermittent => "some_steps",
        How::Periodic { .. } => "periodic",
    }
}

fn message(slow: &Slow, culprits: &[&Process]) -> String {
    let step = if slow.has_steps { "step" } else { "call" };
    let who = match &slow.subject {
        Subject::Host(host) => format!("All {} of {host}", plural(culprits.len(), "rank")),
        Subject::Process(_) => list(culprits.iter().map(|process| who(process)), NAMED),
    };
    let (takes, its) = if culprits.len() > 1 { ("take", "their") } else { ("takes", "its") };
    let (own, usual) = slow.own;
    let like = if slow.n_like == 1 {
        "the rank that does the same work".to_owned()
    } else {
        format!("the {} ranks that do the same work", slow.n_like)
    };
    let what = match slow.how {
        How::Steady => format!(
            "{takes} {} of {its} own, outside of collectives, in each {step}, {like} {}",
            time(own),
            time(usual)
        ),
        How::Intermittent => {
            format!("{takes} much longer than usual outside of collectives in some {step}s, unlike {like}")
        }
        How::Periodic { steps, longer } => format!(
            "{takes} {} longer outside of collectives every {} {step}s, unlike {like}: looks like a checkpoint, an evaluation or \
             the garbage collector",
            time(longer),
            steps
        ),
    };
    let more = slow
        .more_work
        .map(|more| format!("; it is asked for {:.0} % more calls or bytes than they", (more - 1.0) * 100.0));
    let cost = format!(
        "each {step} takes {} longer, {:.0} % of the job's time",
        time(slow.lost),
        slow.share * 100.0
    );
    let device = slow.device.as_ref().map(|device| format!("; its {device}")).unwrap_or_default();
    format!("{who} {what}{}{device}; {cost}", more.unwrap_or_default())
}

/// Why somebody is slow, where a look has shown it.
struct Reason {
    words: String,
    cause: &'static str,
    advice: &'static str,
}

fn reason(slow: &Slow, worst: Option<&Process>) -> Option<Reason> {
    if let Some(stopped) = slow.stopped {
        let words = format!("it is stopped for {:.0} % of the time (state T)", stopped * 100.0);
        return Some(Reason { words, cause: "stopped", advice: LET_GO });
    }
    let words = seen::held_back(worst?.look()?)?;
    Some(Reason { words, cause: "cpu_limit", advice: MORE_CPU })
}

/// "rank 5 (host-3, pid 4711)".
fn who(process: &Process) -> String {
    let Some(identity) = process.identity() else { return process.key().to_owned() };
    let rank = identity.global_rank.or_else(|| largest(process).map(|rank| rank.rank));
    match rank {
        Some(rank) => format!("Rank {rank} ({}, pid {})", identity.host, identity.pid),
        None => format!("Pid {} on {}", identity.pid, identity.host),
    }
}

fn culprit(process: &Process, slow: &Slow) -> Option<Culprit> {
    let identity = process.identity()?;
    let seen = process.look().and_then(|look| seen::in_short(look));
    let doing = slow.device.clone().or(seen).unwrap_or_else(|| match slow.how {
        How::Steady => "longer outside of collectives in each step".to_owned(),
        How::Intermittent => "longer outside of collectives in some steps".to_owned(),
        How::Periodic { steps, .. } => format!("longer outside of collectives every {steps} steps"),
    });
    Some(Culprit {
        host: identity.host.to_string(),
        pid: Some(identity.pid).filter(|pid| *pid > 0),
        rank: largest(process).map(|rank| rank.rank),
        global_rank: identity.global_rank,
        doing,
    })
}

/// Its place in its largest communicator: of all that it is in the one that most know.
fn largest(process: &Process) -> Option<RankRef<'_>> {
    process.ranks().max_by_key(|rank| (rank.facts.n_ranks, std::cmp::Reverse(rank.local.communicator())))
}

fn stack(process: &Process) -> Option<Detail> {
    let lines = seen::lines(process.look()?);
    (!lines.is_empty()).then(|| Detail { title: who(process), lines })
}

fn advice(slow: &Slow) -> &'static str {
    match (slow.kind, slow.how) {
        (FindingKind::SlowHost, _) => {
            "Look at what else runs on that host (`top`), at its clocks and temperatures, and at its page for other jobs. If it \
             stays slow, drain it."
        }
        (FindingKind::SlowDevice, _) => {
            "Look at that GPU: `nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE,POWER,ECC`, and at the cooling and power of its \
             host. If it stays slow, drain the host."
        }
        (FindingKind::UnevenWork, _) => {
            "It was given more than the others: look at how the program shares out its batches, sequences, layers or experts."
        }
        (_, How::Periodic { .. }) => {
            "Look at what the program does on that rank alone every so many steps: checkpoint, evaluation, log, garbage \
             collection."
        }
        (_, How::Intermittent) => {
            "Look at its data loader and its disk, and at what else runs on its processors (`top`)."
        }
        (_, How::Steady) => {
            "Look at its stack in the details, at its GPU's clock and temperature (`nvidia-smi -q -d PERFORMANCE,CLOCK`), and at \
             what else runs there (`top`)."
        }
    }
}

fn time(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s < 0.01 => format!("{:.1} ms", s * 1e3),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 60.0 => format!("{s:.1} s"),
        _ => duration(time),
    }
}

/// Where somebody stops it.
const LET_GO: &str =
    "Find who sends it SIGSTOP: a scheduler that suspends jobs, a debugger, a checkpoint tool, a script.";
/// Where its cgroup holds it back.
const MORE_CPU: &str = "Raise or remove the limit of processor time of its container (Kubernetes: `resources.limits.cpu`; Slurm: its \
                        cores; systemd: `CPUQuota=`).";
/// Culprits that are named.
const NAMED: usize = 8;
/// Whose stacks are shown.
const STACKS: usize = 4;
