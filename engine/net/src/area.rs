//! What this process leaves of its connections for an agent.

use std::sync::{Arc, OnceLock};

use rsnet_connections::{About, Place, QueuePair, Table};

use crate::config::settings;
use crate::log;

/// A place for a connection; none where nobody looks, where there is no room, or in a child that was forked since.
pub(crate) fn place(about: &About<'_>) -> Option<Place> {
    static TABLE: OnceLock<Option<(u32, Arc<Table>)>> = OnceLock::new();
    let (pid, table) = TABLE.get_or_init(make).as_ref()?;
    if *pid == std::process::id() { table.take(about) } else { None }
}

/// The file stays when the process ends, so that an agent still reads how connections ended; who sweeps the folder removes it.
fn make() -> Option<(u32, Arc<Table>)> {
    let folder = settings().folder.as_deref()?;
    let pid = std::process::id();
    match Table::create(folder, pid, start_ticks()?, settings().global_rank) {
        Ok(table) => Some((pid, table)),
        Err(error) => {
            log::info(&format!("NET/ringscope : no file of connections in {}: {error}", folder.display()));
            None
        }
    }
}

/// When the process began, in ticks since the machine did: the 22nd field of its `stat`.
fn start_ticks() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// The two numbers of each queue pair.
pub(crate) fn queue_pairs(own: &[u32], theirs: &[u32]) -> Vec<QueuePair> {
    let pair =
        |(number, remote_number): (&u32, &u32)| QueuePair { number: *number, remote_number: *remote_number };
    own.iter().zip(theirs).map(pair).collect()
}
