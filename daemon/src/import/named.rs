//! Communicators and ranks in words: one name for each, whichever file tells of it.

use super::inspector;
use crate::api::ImportedCommunicator;

/// `52cc20f809a1`, as all sentences have it, with what the program and the library call it.
pub(super) fn name(known: &ImportedCommunicator) -> String {
    let summary = &known.communicator.summary;
    let hash = Some(&summary.comm_hash).filter(|_| !known.hash_is_made_up);
    let also: Vec<&str> = summary.name.iter().chain(hash).map(String::as_str).collect();
    if also.is_empty() { summary.id.clone() } else { format!("{} ({})", summary.id, also.join(", ")) }
}

/// The same of one that a file gives a hash.
pub(super) fn name_of(hash: u64, n_ranks: u32, communicators: &[ImportedCommunicator]) -> String {
    let text = format!("{hash:#x}");
    let is_it = |known: &&ImportedCommunicator| {
        let summary = &known.communicator.summary;
        summary.n_ranks == n_ranks && inspector::hash(&summary.comm_hash) == Some(hash)
    };
    communicators.iter().find(is_it).map_or(text, name)
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

/// Ranks of a list that are written out.
const RANKS_NAMED: usize = 8;
