//! Who has joined which collective: what the Flight Recorder's dumps of a job say together. A collective ends only when
//! every rank of its group has called it, so the first one that some ranks have not called is where a job hangs.

use std::collections::{BTreeMap, BTreeSet};

use super::dumps::group_title;
use super::flight::{Dump, Entry, Group, State};
use super::gathered::Gathered;
use crate::api::{Observation, Proof, Severity};

/// One process group with the dumps of its ranks.
struct Members<'a> {
    name: &'a str,
    group: &'a Group,
    /// By rank in the job.
    dumps: BTreeMap<u32, (&'a str, &'a Dump)>,
}

/// What the dumps say, group by group.
pub(super) fn observe(gathered: &Gathered) -> Vec<Observation> {
    let mut groups: BTreeMap<(&str, &[u32]), Members<'_>> = BTreeMap::new();
    for (file, _, dump) in &gathered.flight {
        let Some(rank) = dump.rank else { continue };
        for (name, group) in &dump.groups {
            let members = groups.entry((name, &group.ranks)).or_insert_with(|| Members {
                name,
                group,
                dumps: BTreeMap::new(),
            });
            members.dumps.insert(rank, (file, dump));
        }
    }
    groups.values().flat_map(Members::observe).collect()
}

impl<'a> Members<'a> {
    fn observe(&self) -> Vec<Observation> {
        let title = group_title(self.name, self.group);
        let mut found = Vec::new();
        let missing: Vec<u32> =
            self.group.ranks.iter().copied().filter(|rank| !self.dumps.contains_key(rank)).collect();
        if !missing.is_empty() {
            found.push(Observation {
                kind: "rank_missing".to_owned(),
                severity: Severity::Info,
                message: format!(
                    "of pg {title} no file has the dump of {}: what they have joined is not known",
                    ranks(&missing)
                ),
                proof: Vec::new(),
            });
        }
        found.extend(self.not_joined(&title));
        found.extend(self.mismatch(&title));
        if found.iter().all(|one| one.severity < Severity::Warning) {
            found.extend(self.pending(&title));
        }
        found
    }

    /// Number of the last collective that a rank has called.
    fn last(&self, dump: &Dump) -> u64 {
        let entries = self.collectives(dump).map(|entry| entry.seq_number);
        let status = dump.groups.get(self.name).and_then(|group| group.last_enqueued);
        entries.chain(status).max().unwrap_or_default()
    }

    fn collectives<'d>(&'d self, dump: &'d Dump) -> impl Iterator<Item = &'d Entry> {
        dump.entries.iter().filter(|entry| entry.group == self.name && !entry.is_p2p)
    }

    fn not_joined(&self, title: &str) -> Option<Observation> {
        let lasts: BTreeMap<u32, u64> =
            self.dumps.iter().map(|(rank, (_, dump))| (*rank, self.last(dump))).collect();
        let (least, most) = (*lasts.values().min()?, *lasts.values().max()?);
        if least == most {
            return None;
        }
        let next = least + 1;
        let behind: Vec<u32> =
            lasts.iter().filter(|(_, last)| **last == least).map(|(rank, _)| *rank).collect();
        // Only one that somebody still waits in holds anybody up.
        let waiting: BTreeMap<u32, &Entry> = (self.dumps.iter())
            .filter_map(|(rank, (_, dump))| {
                let entry = self.collectives(dump).find(|entry| entry.seq_number == next)?;
                Some((*rank, entry))
            })
            .collect();
        let first = waiting.values().next();
        let name = first.map_or("collective", |entry| entry.name.as_str());
        let is_pending = first.is_none() || waiting.values().any(|entry| entry.state != State::Completed);
        let has = if behind.len() == 1 { "has" } else { "have" };
        let in_it = waiting.keys().copied().collect::<Vec<_>>();
        let waits = if in_it.is_empty() {
            String::new()
        } else {
            format!("; {} {} in it", ranks(&in_it), if in_it.len() == 1 { "waits" } else { "wait" })
        };
        Some(Observation {
            kind: "not_joined".to_owned(),
            severity: if is_pending { Severity::Critical } else { Severity::Info },
            message: format!("{} {has} not joined {name} #{next} of pg {title}{waits}", ranks(&behind)),
            proof: self.proofs(&behind, &in_it, next),
        })
    }

    /// The last call of those behind, and what those before are in.
    fn proofs(&self, behind: &[u32], waiting: &[u32], next: u64) -> Vec<Proof> {
        let of = |rank: &u32, wanted: Option<u64>| {
            let (file, dump) = self.dumps.get(rank)?;
            let entries = self.collectives(dump);
            let entry = match wanted {
                Some(number) => entries.filter(|entry| entry.seq_number == number).last(),
                None => entries.max_by_key(|entry| entry.seq_number),
            };
            let text = entry.map_or_else(
                || format!("rank {rank}: no collective at all"),
                |entry| format!("rank {rank}: {}", words(entry)),
            );
            Some(Proof { file: (*file).to_owned(), line: None, text })
        };
        let behind = behind.iter().take(NAMED).filter_map(|rank| of(rank, None));
        behind.chain(waiting.iter().take(NAMED).filter_map(|rank| of(rank, Some(next)))).collect()
    }

    /// The first collective that ranks call by the same number, and that is not the same.
    fn mismatch(&self, title: &str) -> Option<Observation> {
        let mut by_number: BTreeMap<u64, BTreeMap<u32, &'a Entry>> = BTreeMap::new();
        for (rank, (_, dump)) in &self.dumps {
            let entries = dump.entries.iter().filter(|entry| entry.group == self.name && !entry.is_p2p);
            for entry in entries {
                by_number.entry(entry.seq_number).or_default().entry(*rank).or_insert(entry);
            }
        }
        let (number, calls) = by_number
            .iter()
            .find(|(_, calls)| calls.values().map(|entry| kind(entry)).collect::<BTreeSet<_>>().len() > 1)?;
        let mut kinds: BTreeMap<Kind<'_>, Vec<u32>> = BTreeMap::new();
        for (rank, entry) in calls {
            kinds.entry(kind(entry)).or_default().push(*rank);
        }
        let each: Vec<String> = (kinds.iter())
            .map(|((name, payload), members)| match payload {
                Some((bytes, type_name)) => {
                    format!("{} in {name} of {bytes} bytes of {type_name}", ranks(members))
                }
                None => format!("{} in {name}", ranks(members)),
            })
            .collect();
        Some(Observation {
            kind: "mismatch".to_owned(),
            severity: Severity::Critical,
            message: format!(
                "the ranks disagree on collective #{number} of pg {title}: {}",
                each.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ")
            ),
            proof: (kinds.values())
                .filter_map(|members| {
                    let (rank, (file, _)) =
                        members.first().and_then(|rank| self.dumps.get_key_value(rank))?;
                    let text = format!("rank {rank}: {}", words(calls.get(rank)?));
                    Some(Proof { file: (*file).to_owned(), line: None, text })
                })
                .take(NAMED)
                .collect(),
        })
    }

    /// All have joined and it has not ended: the network, or a GPU.
    fn pending(&self, title: &str) -> Option<Observation> {
        let oldest = |dump: &'a Dump| {
            let open = dump.entries.iter().filter(|entry| entry.group == self.name && !entry.is_p2p);
            open.filter(|entry| entry.state != State::Completed).min_by_key(|entry| entry.seq_number)
        };
        let open: BTreeMap<u32, &Entry> =
            (self.dumps.iter()).filter_map(|(rank, (_, dump))| Some((*rank, oldest(dump)?))).collect();
        let (_, first) = open.iter().min_by_key(|(_, entry)| entry.seq_number)?;
        let number = first.seq_number;
        let in_it: Vec<u32> =
            open.iter().filter(|(_, entry)| entry.seq_number == number).map(|(rank, _)| *rank).collect();
        let all = if in_it.len() == self.group.ranks.len() { "every rank has joined it" } else { "" };
        let started = open.values().any(|entry| entry.seq_number == number && entry.state == State::Started);
        let state = if started { "has started and not ended" } else { "has not started" };
        Some(Observation {
            kind: "pending".to_owned(),
            severity: Severity::Warning,
            message: format!(
                "{} #{number} of pg {title} {state} on {}{}{all}",
                first.name,
                ranks(&in_it),
                if all.is_empty() { "" } else { ": " },
            ),
            proof: self.proofs(&[], &in_it, number),
        })
    }
}

/// A call, and its bytes and element type where all ranks must give the same.
type Kind<'e> = (&'e str, Option<(u64, &'e str)>);

/// What must be equal on all ranks: call, bytes and element type. Where ranks may give different sizes, or none, only
/// the call itself.
fn kind(entry: &Entry) -> Kind<'_> {
    let uneven = ["all_to_all", "gather", "scatter", "_v", "coalesced", "broadcast", "reduce_scatter"];
    let is_uneven = entry.name != "all_reduce" && uneven.iter().any(|part| entry.name.contains(part));
    (&entry.name, (!is_uneven).then_some((entry.bytes, &entry.type_name)))
}

fn words(entry: &Entry) -> String {
    let frame =
        entry.frames.iter().find(|frame| !frame.contains("torch/distributed")).or(entry.frames.first());
    let from = frame.map(|frame| format!(", called from {frame}")).unwrap_or_default();
    format!("{} #{} {} {}{from}", entry.name, entry.seq_number, entry.sizes, entry.state.label())
}

/// "rank 3", "ranks 1, 2 and 5", "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 24 more".
pub(super) fn ranks(ranks: &[u32]) -> String {
    let names: Vec<String> = ranks.iter().take(RANKS_NAMED).map(ToString::to_string).collect();
    match (names.as_slice(), ranks.len().saturating_sub(RANKS_NAMED)) {
        ([one], 0) => format!("rank {one}"),
        ([first @ .., last], 0) => format!("ranks {} and {last}", first.join(", ")),
        (names, more) => format!("ranks {} and {more} more", names.join(", ")),
    }
}

/// Ranks of which a call is shown.
const NAMED: usize = 4;
/// Ranks of a list that are written out.
const RANKS_NAMED: usize = 8;
