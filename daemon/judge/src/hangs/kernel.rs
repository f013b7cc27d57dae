//! What the kernels say: faults of GPUs, NICs, memory and disks, joined to the ranks that they hit.

use std::collections::BTreeMap;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::words::plural;
use ringscope_api::xid::{self, Ends};
use ringscope_api::{Detail, FindingKind, Severity};
use ringscope_wire::batch::{KernelMessage, KernelMessageKind as Kind};

use super::case::Case;
use super::scene::{Host, Life, Process};
use super::words;

/// One judgement for each thing of a host that its kernel complains about.
pub(super) fn judge(case: &mut Case<'_, '_, '_>) {
    let sight = case.sight;
    for (host, index) in sight.scene.hosts.iter().zip(0_u32..) {
        let mut by_subject: BTreeMap<String, Vec<&KernelMessage>> = BTreeMap::new();
        // What was said before the job came, or after it went, is not about it.
        let of_host = || sight.on_host(index).iter().map(|process| sight.process(*process));
        let began = of_host().map(|process| process.started_at).min().unwrap_or_default();
        let is_late = |at: Timestamp| {
            of_host().all(|process| process.ended_at.is_some_and(|ended| at.since(ended) > AFTER_DEATH))
        };
        let of_job = |message: &&&KernelMessage| {
            let at = Timestamp(message.at_ns);
            at >= began && !is_late(at) && !is_of_another(case, index, message)
        };
        for message in host.kernel.iter().filter(of_job) {
            by_subject.entry(subject_key(message)).or_default().push(message);
        }
        for (key, messages) in by_subject {
            fault(case, host, index, &key, &messages);
        }
    }
}

fn fault(case: &mut Case<'_, '_, '_>, host: &Host<'_>, index: u32, key: &str, messages: &[&KernelMessage]) {
    let sight = case.sight;
    let (Some(first), Some(last)) = (messages.first(), messages.last()) else { return };
    let mut judgement = case.blank(FindingKind::KernelFault, None);
    judgement.host = Some(index);
    judgement.key = format!("{}/{key}", host.name);
    judgement.cause = cause(last.kind());
    let of_host = sight.on_host(index).first().map(|process| sight.process(*process));
    let ours = |at_ns: u64| of_host.map_or(Timestamp(at_ns), |process| process.ours(Timestamp(at_ns)));
    judgement.began_at = Some(ours(first.at_ns));
    judgement.nic = (!last.nic.is_empty()).then(|| last.nic.clone());
    let hit = hit(case, index, last);
    if let Some((process, rank)) = hit {
        judgement.culprits = vec![process];
        judgement.rank = rank.map(|(_, rank)| rank);
        judgement.communicator = rank.map(|(communicator, _)| communicator);
        judgement.accused =
            vec![words::culprit(sight, process, rank.map(|(_, rank)| rank), "is hit by it".to_owned())];
    }
    let is_gone = hit.is_some_and(|(process, _)| sight.process(process).life == Life::Killed);
    let hits = is_fatal(last) && (hit.is_some() || !is_of_process(last));
    judgement.severity = match hit {
        _ if hits || is_gone => Severity::Critical,
        None if is_of_process(last) => Severity::Info,
        _ => Severity::Warning,
    };
    let of = hit.map(|(process, rank)| words::who(sight, process, rank.map(|(_, rank)| rank)));
    let of = of.map(|of| format!("; it hits {of}")).unwrap_or_default();
    let times = match messages.len() {
        1 => format!(", at {}", words::clock(ours(first.at_ns))),
        n => format!(" ({} since {})", plural(n, "message"), words::clock(ours(first.at_ns))),
    };
    judgement.message = format!("{}: {}{times}{of}", host.name, said(last));
    judgement.advice = advice(last).to_owned();
    let lines = messages.iter().rev().take(LINES).rev();
    let lines = lines.map(|message| format!("{} {}", words::clock(ours(message.at_ns)), message.text));
    judgement.details.push(Detail { title: format!("Kernel of {}", host.name), lines: lines.collect() });
    case.tell(judgement, false);
}

/// What the kernel said about a process that has died, or about its host at that time: a word, and a sentence.
pub(super) fn words_about(
    case: &Case<'_, '_, '_>,
    host: u32,
    process: u32,
) -> Option<(&'static str, String)> {
    let it = case.sight.process(process);
    let died = it.ended_at;
    let kernel = &case.sight.scene.hosts.get(host as usize)?.kernel;
    let near = |message: &&&KernelMessage| {
        let at = Timestamp(message.at_ns);
        died.is_none_or(|died| died.since(at) < BEFORE_DEATH && at.since(died) < AFTER_DEATH)
    };
    let of_it = |message: &&&KernelMessage| is_its(it, message);
    let told = kernel.iter().filter(near).find(of_it);
    let of_host = |message: &&&KernelMessage| {
        message.pid.is_none() && is_fatal(message) && !is_of_others_gpu(case, host, process, message)
    };
    let told = told.or_else(|| kernel.iter().filter(near).find(of_host))?;
    Some((cause(told.kind()), said(told)))
}

/// Whether it is about a GPU that other processes of the host use, and this one does not.
fn is_of_others_gpu(case: &Case<'_, '_, '_>, host: u32, process: u32, message: &KernelMessage) -> bool {
    let mut on_host = case.sight.on_host(host).iter().copied();
    !uses_gpu(case, process, &message.pci) && on_host.any(|other| uses_gpu(case, other, &message.pci))
}

/// Whether a process uses the GPU at this PCI address, as far as its communicators tell.
fn uses_gpu(case: &Case<'_, '_, '_>, process: u32, pci: &str) -> bool {
    let mut parts = case.sight.parts(process).iter();
    parts.any(|(communicator, place)| is_pci(case.sight.member(*communicator, *place).gpu, pci))
}

/// The process that it hits, with a communicator and its rank there: by pid, or by the PCI address of its GPU.
fn hit(case: &Case<'_, '_, '_>, host: u32, message: &KernelMessage) -> Option<(u32, Option<(u32, u32)>)> {
    let sight = case.sight;
    let on_host = || sight.on_host(host).iter().copied();
    let largest = |process: u32| {
        let (communicator, place) = sight.largest(process)?;
        Some((communicator, sight.member(communicator, place).rank))
    };
    let by_pid = on_host().find(|index| is_its(sight.process(*index), message));
    let by_gpu = || on_host().find(|index| uses_gpu(case, *index, &message.pci));
    let process = by_pid.or_else(by_gpu)?;
    Some((process, largest(process)))
}

/// Whether the kernel names this process: its number, while it had that.
fn is_its(process: &Process<'_>, message: &KernelMessage) -> bool {
    let at = Timestamp(message.at_ns);
    message.pid == Some(process.pid)
        && process.started_at.since(at) <= STARTS_APART
        && process.ended_at.is_none_or(|ended| at.since(ended) <= AFTER_DEATH)
}

/// Whether it is about one process, and that is none of this job's on its host: other programs crash too.
fn is_of_another(case: &Case<'_, '_, '_>, host: u32, message: &KernelMessage) -> bool {
    let mut on_host = case.sight.on_host(host).iter().map(|process| case.sight.process(*process));
    is_of_process(message)
        && message.pid.is_some()
        && message.pci.is_empty()
        && !on_host.any(|process| is_its(process, message))
}

/// Whether two PCI addresses are one: the library writes its domain and case as it likes.
fn is_pci(gpu: &str, pci: &str) -> bool {
    let plain = |text: &str| {
        let text = text.to_ascii_lowercase();
        let text = text.split('.').next().unwrap_or_default().to_owned();
        text.trim_start_matches('0').trim_start_matches(':').to_owned()
    };
    !gpu.is_empty() && pci.contains(':') && plain(gpu) == plain(pci)
}

fn subject_key(message: &KernelMessage) -> String {
    let subject = match (&message.pci, &message.nic, message.pid) {
        (_, nic, _) if !nic.is_empty() => nic.clone(),
        (pci, ..) if !pci.is_empty() => pci.clone(),
        (.., Some(pid)) => pid.to_string(),
        _ => String::new(),
    };
    format!("{}/{subject}", cause(message.kind()))
}

fn said(message: &KernelMessage) -> String {
    let what = if message.meaning.is_empty() { &message.text } else { &message.meaning };
    match (&message.nic, &message.pci) {
        (nic, _) if !nic.is_empty() && !what.contains(nic.as_str()) => format!("{nic}: {what}"),
        (_, pci) if !pci.is_empty() && !what.contains(pci.as_str()) => format!("{what} at {pci}"),
        _ => what.clone(),
    }
}

/// Whether what it is about does not come back by itself.
fn is_fatal(message: &KernelMessage) -> bool {
    match message.kind() {
        Kind::GpuXid => message.xid.is_none_or(|xid| matches!(xid::ends(xid), Ends::Gpu | Ends::Victim)),
        Kind::OutOfMemory | Kind::MachineCheck => true,
        _ => false,
    }
}

/// Whether it ends one process, and the host goes on: another job's is nothing to this one.
fn is_of_process(message: &KernelMessage) -> bool {
    matches!(message.kind(), Kind::OutOfMemory | Kind::Crash)
        || message.xid.is_some_and(|xid| xid::ends(xid) == Ends::Victim)
}

fn cause(kind: Kind) -> &'static str {
    match kind {
        Kind::GpuXid => "xid",
        Kind::Link => "link",
        Kind::Pcie => "pcie",
        Kind::OutOfMemory => "out_of_memory",
        Kind::MachineCheck => "machine_check",
        Kind::Storage => "storage",
        Kind::Crash => "crash",
        Kind::Blocked => "blocked",
        Kind::Unspecified => "kernel",
    }
}

fn advice(message: &KernelMessage) -> &'static str {
    match message.kind() {
        Kind::GpuXid => match message.xid.map_or(Ends::Gpu, xid::ends) {
            Ends::Gpu => "Drain the host and reset or replace the GPU as NVIDIA's Xid table says.",
            Ends::Victim => "Restart the job; the GPU goes on, and wants a reset when it is free.",
            Ends::Nothing => "Reset the GPU when it is free; nothing is lost until then.",
            Ends::Program => {
                "See the program first: most often it is its own mistake. If another program meets it on the same GPU, \
                 drain the host."
            }
            Ends::Unknown => "See NVIDIA's Xid table for what to do with the GPU.",
        },
        Kind::Link => "See the cable, the module and the switch port of this link.",
        Kind::Pcie => "See the slot and the riser of this device; drain the host if errors go on.",
        Kind::OutOfMemory => {
            "Give the job more memory, or lower what it keeps (data loader workers, pinned buffers)."
        }
        Kind::MachineCheck => "Drain the host: its memory or processor is failing.",
        Kind::Storage => "See the file server and the network to it.",
        Kind::Crash => "See the core dump and the output of this process.",
        Kind::Blocked | Kind::Unspecified => "See the kernel's log of this host.",
    }
}

/// Messages that are shown.
const LINES: usize = 8;
/// How long before a death a message may explain it, and how long after: logs are written late.
const BEFORE_DEATH: Duration = Duration::from_secs(30);
const AFTER_DEATH: Duration = Duration::from_secs(10);
/// A process's start is computed from the boot's, which is known to a second.
const STARTS_APART: Duration = Duration::from_secs(2);
