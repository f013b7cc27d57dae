//! What is found about a job's pace, in words.

use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::words::{clock, duration, list, plural, rate, size};
use ringscope_api::{Cost, Culprit, Detail, FindingKind, Severity};
use ringscope_model::{Model, Name, Process, RankRef, Timed, bus_factor};

use super::nics::is_proof;
use super::past::Slowdown;
use super::roles::Since;
use super::slow::{Beside, How, Slow, Subject};
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
    let has_other_work = slow.kind == FindingKind::OtherWork;
    let accused = culprits.iter().filter(|_| !has_other_work).filter_map(|process| culprit(process, slow));
    let details = culprits.iter().filter_map(|process| stack(process)).take(STACKS).collect();
    let why = reason(slow, worst).filter(|_| !has_other_work);
    let because = why.as_ref().map(|why| format!("; {}", why.words)).unwrap_or_default();
    Judgement {
        kind: slow.kind,
        severity: if has_other_work { Severity::Info } else { Severity::Warning },
        host,
        rank: place.as_ref().map(|rank| rank.rank).filter(|_| matches!(slow.subject, Subject::Process(_))),
        channel: None,
        nic: None,
        cause: why.as_ref().map_or_else(|| cause(slow), |why| why.cause),
        culprits: Vec::new(),
        message: message(slow, &culprits) + &because + &beside(model, slow),
        evidence: Vec::new(),
        blame: Blame {
            comm: place.and_then(|rank| rank.local.communicator()),
            key,
            accused: accused.take(NAMED).collect(),
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
    let proofs: Vec<&(Name, Ail)> = ails.iter().filter(|(_, ail)| is_proof(ail)).collect();
    let because = proofs.first().map(|(host, ail)| format!("; {} of {host}: {}", ail.nic, ail.words));
    let because = because.unwrap_or_default();
    let message = format!(
        "Collectives of {job} take {} of each {step}, they took {} until {}; each {step} takes {} longer, {:.0} % of the job's \
         time{because}",
        time(slow.takes),
        time(slow.took),
        clock(slow.since),
        time(slow.takes.saturating_sub(slow.took)),
        slow.share * 100.0
    );
    let first = proofs.first();
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
        culprits: proofs.iter().map(|(host, _)| host.to_string()).collect(),
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
        _ if slow.kind == FindingKind::OtherWork => "other_work",
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
    let role = slow.role.as_ref().filter(|_| slow.kind == FindingKind::OtherWork);
    let like = match (slow.n_like, role) {
        (_, Some(_)) => "the others".to_owned(),
        (1, _) if slow.is_stage => "the other stage".to_owned(),
        _ if slow.is_stage => "the other stages".to_owned(),
        (1, _) => "the rank that does the same work".to_owned(),
        (n, _) => format!("the {n} ranks that do the same work"),
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
    let (they_are, than) = if culprits.len() > 1 { ("they are", "the others") } else { ("it is", "they") };
    let more = |more: f64| {
        format!("; {they_are} asked for {:.0} % more calls or bytes than {than}", (more - 1.0) * 100.0)
    };
    let more = slow.more_work.map(more);
    let cost = format!("{} longer, {:.0} % of the job's time", time(slow.lost), slow.share * 100.0);
    if let Some(role) = role {
        let (does, it) = if culprits.len() > 1 { ("do", "they") } else { ("does", "it") };
        return format!(
            "{who} {does} other work than the others, and they wait for it: {role}; {it} {what}; each {step} takes {cost}"
        );
    }
    let cost = format!("each {step} takes {cost}{}", from_start(slow));
    let device = slow.device.as_ref().map(|device| format!("; its {device}")).unwrap_or_default();
    format!("{who} {what}{}{device}; {cost}", more.unwrap_or_default())
}

/// What nobody can tell apart, of one that was never as fast as its like.
fn from_start(slow: &Slow) -> String {
    let since = match slow.since {
        _ if slow.how != How::Steady || slow.device.is_some() || slow.more_work.is_some() => {
            return String::new();
        }
        Since::Later => return String::new(),
        Since::Start => "since the first steps of the job",
        Since::Unknown => "for as long as is known",
    };
    format!("; it is so {since}: it is slower than they are, or its program gives it more to compute")
}

/// What it gains to mend it, where others are slow at the same time.
fn beside(model: &Model, slow: &Slow) -> String {
    let Some(Beside { others, alone, .. }) = &slow.beside else { return String::new() };
    let step = if slow.has_steps { "step" } else { "call" };
    let name = |key: &Name| model.process(key).map_or_else(|| key.to_string(), in_short);
    let is_alike = |lost: Duration| lost.abs_diff(slow.lost).as_secs_f64() <= ALIKE * slow.lost.as_secs_f64();
    let names = |is_wanted: &dyn Fn(Duration) -> bool| {
        let wanted: Vec<String> =
            others.iter().filter(|(_, lost)| is_wanted(*lost)).map(|(key, _)| name(key)).collect();
        (!wanted.is_empty()).then(|| list(wanted, NAMED))
    };
    if let Some(slower) = names(&|lost| lost > slow.lost && !is_alike(lost)) {
        return format!("; nothing is gained while {slower}, slower still, is not mended too");
    }
    let alone = if *alone < slow.lost / 20 { "nothing".to_owned() } else { time(*alone) };
    match names(&is_alike) {
        Some(alike) => format!(
            "; {alike} too: the job gains {} a {step} when all of them are mended, {alone} when only this one is",
            time(slow.lost)
        ),
        None => format!("; {alone} of it is gained when only this one is mended, for others are slow too"),
    }
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
    // Of a look that is old it is not known.
    slow.held_back?;
    let words = seen::held_back(worst?.look()?)?;
    Some(Reason { words, cause: "cpu_limit", advice: MORE_CPU })
}

/// "rank 5".
fn in_short(process: &Process) -> String {
    let global = process.identity().and_then(|identity| identity.global_rank);
    match global.or_else(|| largest(process).map(|rank| rank.rank)) {
        Some(rank) => format!("rank {rank}"),
        None => process.key().to_owned(),
    }
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
    let step = if slow.has_steps { "step" } else { "call" };
    let doing = slow.device.clone().or(seen).unwrap_or_else(|| match slow.how {
        How::Steady => format!("longer outside of collectives in each {step}"),
        How::Intermittent => format!("longer outside of collectives in some {step}s"),
        How::Periodic { steps, .. } => format!("longer outside of collectives every {steps} {step}s"),
    });
    Some(Culprit {
        host: identity.host.to_string(),
        pid: Some(identity.pid).filter(|pid| *pid > 0),
        rank: largest(process).map(|rank| rank.rank),
        global_rank: identity.global_rank,
        place: identity.scheduled.in_words(),
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
        (FindingKind::OtherWork, _) => {
            "If that is by design, nothing is broken. To make the job faster give it less to do, or let the others go on meanwhile."
        }
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
/// Two that differ by no more than this share cost the same.
const ALIKE: f64 = 0.15;
/// Culprits that are named.
const NAMED: usize = 8;
/// Whose stacks are shown.
const STACKS: usize = 4;
