//! What the files say and the judge of jobs cannot take up: inits that no line names or that torn logs show in part, counts of RAS
//! that are apart in one answer, XML that names nobody, and what the library warned of.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_api::words::ranks;
use ringscope_api::{Import, ImportedCommunicator, Observation, Proof, Severity};
use ringscope_logs::nccl_log::NcclLog;

use super::counts::Counts;
use super::gathered::Gathered;
use super::inspector;
use super::named::name_of;
use super::ras::RasCommunicator;

/// All that `import` does not have yet, worst first.
pub(super) fn observe(gathered: &Gathered, import: &Import) -> Vec<Observation> {
    let known = &import.communicators;
    let mut found: Vec<Observation> = Vec::new();
    found.extend(incomplete(gathered, known));
    found.extend(counts(gathered, known));
    found.extend(super::xml::observe(&gathered.xml));
    found.extend(warned(gathered, import));
    found.sort_by_key(|one| std::cmp::Reverse(one.severity));
    found
}

/// Inits without an end in logs of which lines are lost anyway, those of one communicator together. In a log that is whole
/// they are judged, as those that failed are.
fn incomplete(gathered: &Gathered, communicators: &[ImportedCommunicator]) -> Vec<Observation> {
    let mut inits: BTreeMap<(u64, u32), Incomplete> = BTreeMap::new();
    for (file, _, log) in gathered.logs.iter().filter(|(_, _, log)| log.counts().torn + log.counts().cut > 0)
    {
        let open = log.communicators().cloned().chain(log.unfinished());
        for facts in open.filter(|facts| !facts.complete && !facts.failed) {
            let known = inits.entry((facts.hash().unwrap_or_default(), facts.n_ranks)).or_default();
            known.ranks.insert(facts.rank);
            known.hosts.insert(facts.host.clone());
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
        let comm = match hash {
            0 => String::new(),
            hash => format!(" {}", name_of(hash, n_ranks, communicators)),
        };
        Observation {
            kind: "init_incomplete".to_owned(),
            severity: Severity::Info,
            message: format!(
                "the init of {} of communicator{comm} ({n_ranks} ranks) on {hosts} has no end: lines are lost here, so \
                 that says nothing",
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
    proof: Vec<Proof>,
}

/// The library's warnings that prove no finding, each once whoever says it.
fn warned(gathered: &Gathered, import: &Import) -> Option<Observation> {
    let shown = import.findings.iter().flat_map(|one| &one.proof).map(|line| shape(&line.text)).collect();
    let proof = warnings(gathered.logs.iter().map(|(file, _, log)| (file.as_str(), log)), shown);
    (!proof.is_empty()).then(|| Observation {
        kind: "library_warned".to_owned(),
        severity: Severity::Info,
        message: "the library warned; what it says may or may not matter".to_owned(),
        proof,
    })
}

/// The first warnings of each shape that was not seen.
fn warnings<'l>(
    logs: impl Iterator<Item = (&'l str, &'l NcclLog)>,
    mut seen: BTreeSet<String>,
) -> Vec<Proof> {
    let mut proof = Vec::new();
    for (file, log) in logs {
        for line in log.warnings() {
            if proof.len() < WARNINGS && seen.insert(shape(&line.text)) {
                proof.push(Proof { file: file.to_owned(), line: Some(line.line), text: line.text.clone() });
            }
        }
    }
    proof
}

/// What a line says. The same of another device, rank or address is the same.
fn shape(line: &str) -> String {
    let said = line.split_once("NCCL WARN ").map_or(line, |(_, said)| said);
    said.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Ranks that have issued fewer collectives than others in one answer, which the others may have issued ahead.
fn counts(gathered: &Gathered, known: &[ImportedCommunicator]) -> Vec<Observation> {
    let mut found = Vec::new();
    for (index, (file, _, dump)) in gathered.ras.iter().enumerate() {
        for communicator in &dump.communicators {
            let told = Counts::of(&gathered.ras, index, communicator);
            // What is sure is judged, and what is old may have passed.
            let is_open = told.is_newest && told.wait.is_none();
            let hash = inspector::hash(&communicator.hash).unwrap_or_default();
            let name = name_of(hash, communicator.size, known);
            let Some(message) = counts_differ(communicator, &name).filter(|_| is_open) else { continue };
            let text = format!(
                "communicator {name}: {} ranks, {} missing",
                communicator.size,
                communicator.missing_ranks.len()
            );
            let proof = vec![Proof { file: file.clone(), line: None, text }];
            let kind = "counts_differ".to_owned();
            found.push(Observation { kind, severity: Severity::Info, message, proof });
        }
    }
    found
}

/// All that are behind, not the few that are ahead.
fn counts_differ(communicator: &RasCommunicator, name: &str) -> Option<String> {
    let mut names: Vec<&String> =
        communicator.ranks.iter().flat_map(|rank| rank.collective_counts.keys()).collect();
    names.sort();
    names.dedup();
    let mut each = Vec::new();
    for name in names {
        let by_count = by_count(communicator, name);
        let ((Some(least), Some(most)), 2..) =
            ((by_count.keys().next(), by_count.keys().next_back()), by_count.len())
        else {
            continue;
        };
        let behind = by_count.iter().filter(|(count, _)| *count != most).flat_map(|(_, ranks)| ranks);
        let behind: Vec<u32> = behind.copied().collect();
        let least = if by_count.len() > 2 { format!("{least} times or more") } else { times(*least) };
        each.push(format!("{} issued {name} {least}, the others {most}", ranks(&behind)));
    }
    let hint = "Ranks run ahead of each other, and RAS asks one after the other: ask it again after some seconds and \
                import both answers: if they say the same, the ranks are stuck";
    (!each.is_empty()).then(|| format!("in communicator {name} {}. {hint}", each.join("; ")))
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

/// Hosts of one observation that are named.
const HOSTS_NAMED: usize = 4;
/// Warnings of the library that are shown.
const WARNINGS: usize = 4;
/// Lines that prove one observation.
const PROOFS: usize = 8;
