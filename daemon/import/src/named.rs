//! Communicators in words: one name for each, whichever file tells of it.

use ringscope_api::ImportedCommunicator;

use super::inspector;

/// `52cc20f809a1`, as all sentences have it, with what the program and the library call it.
pub fn name(known: &ImportedCommunicator) -> String {
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
