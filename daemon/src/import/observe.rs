//! What the files say by themselves, without the rules of a live job: inits that did not come to an end, ranks that did
//! not answer RAS, errors, and counts that differ.

use std::collections::{BTreeMap, BTreeSet};

use super::gathered::Gathered;
use super::joined::{self, ranks};
use super::ras::{Dump, RasCommunicator};
use crate::api::{Observation, Proof, Severity};
use crate::nccl_log::NcclLog;

/// All of it, worst first.
pub(super) fn observe(gathered: &Gathered) -> Vec<Observation> {
    let mut found: Vec<Observation> = Vec::new();
    found.extend(incomplete(gathered));
    for (index, (file, _, dump)) in gathered.ras.iter().enumerate() {
        let elsewhere = gathered.ras.iter().enumerate().filter(|(other, _)| *other != index);
        let elsewhere: Vec<&Dump> = elsewhere.map(|(_, (_, _, dump))| dump).collect();
        found.extend(ras(file, dump, &elsewhere));
    }
    found.extend(joined::observe(gathered));
    found.extend(super::xml::observe(gathered));
    found.extend(warned(gathered, &found));
    found.sort_by_key(|one| std::cmp::Reverse(one.severity));
    found
}

/// Inits without an end, those of one communicator together.
fn incomplete(gathered: &Gathered) -> Vec<Observation> {
    let mut inits: BTreeMap<(u64, u32), Incomplete> = BTreeMap::new();
    for (file, _, log) in &gathered.logs {
        let open = log.communicators().filter(|facts| !facts.complete).cloned();
        for facts in open.chain(log.unfinished()) {
            let known = inits.entry((facts.hash().unwrap_or_default(), facts.n_ranks)).or_default();
            known.ranks.insert(facts.rank);
            known.hosts.insert(facts.host.clone());
            known.failed |= facts.failed;
            if facts.failed && known.warnings.is_empty() {
                known.warnings = warnings(std::iter::once((file.as_str(), log)), &format!("{}:", facts.host));
            }
            // Where lines are lost anyway, it is no news that these are.
            known.torn |= log.counts().torn + log.counts().cut > 0;
            let line = facts.evidence.first();
            known.proof.extend(line.map(|line| Proof {
                file: file.clone(),
                line: Some(line.line),
                text: line.text.clone(),
            }));
        }
    }
    let words = |((hash, n_ranks), init): ((u64, u32), Incomplete)| {
        let members: Vec<u32> = init.ranks.into_iter().collect();
        let hosts: Vec<String> = init.hosts.into_iter().collect();
        let hosts = hosts.iter().take(HOSTS_NAMED).cloned().collect::<Vec<_>>().join(", ");
        let comm = if hash == 0 { String::new() } else { format!(" {hash:#x}") };
        let end = if init.failed { "failed" } else { "has no end: it failed, hangs, or the log is cut" };
        Observation {
            kind: if init.failed { "init_failed" } else { "init_incomplete" }.to_owned(),
            severity: match (init.failed, init.torn) {
                (true, _) => Severity::Critical,
                (false, true) => Severity::Info,
                (false, false) => Severity::Warning,
            },
            message: format!(
                "the init of {} of communicator{comm} ({n_ranks} ranks) on {hosts} {end}",
                ranks(&members)
            ),
            proof: init.warnings.into_iter().chain(init.proof.into_iter().take(PROOFS)).collect(),
        }
    };
    inits.into_iter().map(words).collect()
}

#[derive(Default)]
struct Incomplete {
    ranks: BTreeSet<u32>,
    hosts: BTreeSet<String>,
    failed: bool,
    torn: bool,
    /// What the library warned of, of all its threads: the cause is often another's than the one that gave up.
    warnings: Vec<Proof>,
    proof: Vec<Proof>,
}

/// The library's warnings, each once whoever says it.
fn warned(gathered: &Gathered, found: &[Observation]) -> Option<Observation> {
    // There they are among the proofs.
    if found.iter().any(|one| one.kind == "init_failed") {
        return None;
    }
    let proof = warnings(gathered.logs.iter().map(|(file, _, log)| (file.as_str(), log)), "");
    (!proof.is_empty()).then(|| Observation {
        kind: "library_warned".to_owned(),
        severity: Severity::Info,
        message: "the library warned; what it says may or may not matter".to_owned(),
        proof,
    })
}

/// The first warnings of each shape, of lines with `part` in them.
fn warnings<'l>(logs: impl Iterator<Item = (&'l str, &'l NcclLog)>, part: &str) -> Vec<Proof> {
    let mut seen = BTreeSet::new();
    let mut proof = Vec::new();
    for (file, log) in logs {
        for line in log.warnings().iter().filter(|line| line.text.contains(part)) {
            let said = line.text.split_once("NCCL WARN ").map_or(line.text.as_str(), |(_, said)| said);
            // The same of another device, rank or address is the same.
            let shape: String = said.chars().filter(|c| !c.is_ascii_digit()).collect();
            if proof.len() < WARNINGS && seen.insert(shape) {
                proof.push(Proof { file: file.to_owned(), line: Some(line.line), text: line.text.clone() });
            }
        }
    }
    proof
}

fn ras(file: &str, dump: &Dump, elsewhere: &[&Dump]) -> Vec<Observation> {
    let mut found = Vec::new();
    for communicator in &dump.communicators {
        let mut note = |kind: &str, severity, message: String| {
            let proof = vec![Proof {
                file: file.to_owned(),
                line: None,
                text: format!("communicator {} of {} ranks", communicator.hash, communicator.size),
            }];
            found.push(Observation { kind: kind.to_owned(), severity, message, proof });
        };
        for missing in communicator.missing_ranks.iter().take(SHOWN) {
            let why = match (missing.status.considered_dead, missing.status.unresponsive) {
                (true, _) => "its peers consider it dead",
                (_, true) => "it does not respond",
                _ => "it says nothing of this communicator",
            };
            note(
                "rank_missing",
                Severity::Critical,
                format!(
                    "rank {} of communicator {} is missing: {why} (process {} on {})",
                    missing.rank, communicator.hash, missing.pid, missing.host
                ),
            );
        }
        for rank in communicator.ranks.iter().filter(|rank| rank.status.async_error != 0).take(SHOWN) {
            note(
                "async_error",
                Severity::Critical,
                format!(
                    "rank {} of communicator {} has the asynchronous error {} ({}; process {} on {})",
                    rank.rank,
                    communicator.hash,
                    rank.status.async_error,
                    result_name(rank.status.async_error),
                    rank.pid,
                    rank.host
                ),
            );
        }
        let others = elsewhere.iter().flat_map(|other| &other.communicators);
        let others: Vec<&RasCommunicator> = others
            .filter(|other| (&other.hash, other.size) == (&communicator.hash, communicator.size))
            .collect();
        if let Some((severity, message)) = counts_differ(communicator, &others) {
            note("counts_differ", severity, message);
        }
    }
    found
}

/// Ranks that have issued fewer collectives than others: all that are behind, not the few that are ahead.
///
/// RAS asks the ranks one after the other, so in a job that runs they differ by the one collective that was called
/// meanwhile; a job in which one rank is stuck looks the same. A second dump tells: there the same ranks stand still.
fn counts_differ(communicator: &RasCommunicator, others: &[&RasCommunicator]) -> Option<(Severity, String)> {
    let mut names: Vec<&String> =
        communicator.ranks.iter().flat_map(|rank| rank.collective_counts.keys()).collect();
    names.sort();
    names.dedup();
    let mut worst = Severity::Info;
    let mut each = Vec::new();
    for name in names {
        let by_count = by_count(communicator, name);
        let ((Some(least), Some(most)), 2..) =
            ((by_count.keys().next(), by_count.keys().next_back()), by_count.len())
        else {
            continue;
        };
        let behind: Vec<u32> = by_count
            .iter()
            .filter(|(count, _)| *count != most)
            .flat_map(|(_, ranks)| ranks)
            .copied()
            .collect();
        let stands_still = others.iter().any(|other| self::by_count(other, name) == by_count);
        let least = if by_count.len() > 2 { format!("{least} times or more") } else { times(*least) };
        let mut words = format!("{} issued {name} {least}, the others {most}", ranks(&behind));
        if stands_still {
            words.push_str(", and the same in another dump");
        }
        if stands_still || most - by_count.keys().next().unwrap_or(most) > SNAPSHOT_GAP {
            worst = Severity::Warning;
        }
        each.push(words);
    }
    if each.is_empty() {
        return None;
    }
    let hint = if worst == Severity::Info {
        ". One apart may be what was called while RAS asked: if another dump says the same, they are stuck"
    } else {
        ""
    };
    Some((worst, format!("in communicator {} {}{hint}", communicator.hash, each.join("; "))))
}

/// Ranks by how often each has issued it.
fn by_count(communicator: &RasCommunicator, name: &str) -> BTreeMap<u64, BTreeSet<u32>> {
    let mut by_count: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    for rank in &communicator.ranks {
        let count = rank.collective_counts.get(name).copied().unwrap_or_default();
        by_count.entry(count).or_default().insert(rank.rank);
    }
    by_count
}

fn times(n: u64) -> String {
    match n {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        n => format!("{n} times"),
    }
}

/// `ncclResult_t` in words.
const fn result_name(result: i64) -> &'static str {
    match result {
        1 => "ncclUnhandledCudaError",
        2 => "ncclSystemError",
        3 => "ncclInternalError",
        4 => "ncclInvalidArgument",
        5 => "ncclInvalidUsage",
        6 => "ncclRemoteError",
        7 => "ncclInProgress",
        _ => "an unknown ncclResult_t",
    }
}

/// Hosts of one observation that are named.
const HOSTS_NAMED: usize = 4;
/// Warnings of the library that are shown.
const WARNINGS: usize = 4;
/// Lines that prove one observation.
const PROOFS: usize = 8;
/// Collectives that ranks may differ by because they are not asked at one moment.
const SNAPSHOT_GAP: u64 = 1;
/// Subjects of one kind and file that are listed.
const SHOWN: usize = 64;
