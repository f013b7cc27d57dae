//! What the files say by themselves, without the rules of a live job: inits that did not come to an end, ranks that did
//! not answer RAS, errors, and counts that differ.

use std::collections::{BTreeMap, BTreeSet};

use super::gathered::Gathered;
use super::joined::{self, ranks};
use super::ras::{Dump, RasCommunicator};
use crate::api::{Observation, Proof, Severity};

/// All of it, worst first.
pub(super) fn observe(gathered: &Gathered) -> Vec<Observation> {
    let mut found: Vec<Observation> = Vec::new();
    found.extend(incomplete(gathered));
    for (file, _, dump) in &gathered.ras {
        found.extend(ras(file, dump));
    }
    found.extend(joined::observe(gathered));
    found.extend(super::xml::observe(gathered));
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
            proof: init.proof.into_iter().take(PROOFS).collect(),
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
    proof: Vec<Proof>,
}

fn ras(file: &str, dump: &Dump) -> Vec<Observation> {
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
        if let Some(message) = counts_differ(communicator) {
            note("counts_differ", Severity::Warning, message);
        }
    }
    found
}

/// Ranks that have issued fewer collectives than others: all that are behind, not the few that are ahead.
fn counts_differ(communicator: &RasCommunicator) -> Option<String> {
    let mut names: Vec<&String> =
        communicator.ranks.iter().flat_map(|rank| rank.collective_counts.keys()).collect();
    names.sort();
    names.dedup();
    let each = names.into_iter().filter_map(|name| {
        let mut by_count: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for rank in &communicator.ranks {
            let count = rank.collective_counts.get(name).copied().unwrap_or_default();
            by_count.entry(count).or_default().push(rank.rank);
        }
        let (most, _) = by_count.pop_last()?;
        let behind: Vec<u32> = by_count.values().flatten().copied().collect();
        let (least, _) = by_count.first_key_value()?;
        Some(format!("{} issued {name} {least} times or more, the others {most}", ranks(&behind)))
    });
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| format!("in communicator {} {}", communicator.hash, each.join("; ")))
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
/// Lines that prove one observation.
const PROOFS: usize = 8;
/// Subjects of one kind and file that are listed.
const SHOWN: usize = 64;
