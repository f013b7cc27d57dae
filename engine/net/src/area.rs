//! What this process leaves of its connections for an agent.

use std::sync::{Arc, OnceLock};

use rsnet_connections::{About, Place, QueuePair, Table};

use crate::config::settings;
use crate::device::Device;
use crate::failure::Failure;
use crate::log;
use crate::wire::Hello;

/// A place for a connection; none where nobody looks, where there is no room, or in a child that was forked since.
pub(crate) fn place(about: &About<'_>) -> Option<Place> {
    static TABLE: OnceLock<Option<(u32, Arc<Table>)>> = OnceLock::new();
    let (pid, table) = TABLE.get_or_init(make).as_ref()?;
    if *pid == std::process::id() { table.take(about) } else { None }
}

/// Shows a connection that could not be begun; `peer`: who called, where that is known.
pub(crate) fn show_refused(device: &Device, is_send: bool, peer: Option<&Hello>, failure: &Failure) {
    let unknown = Hello { rank: -1, ..Hello::default() };
    let peer = peer.unwrap_or(&unknown);
    let place = place(&About {
        is_send,
        device: device.context.name(),
        port: u32::from(device.port),
        remote_rank: peer.rank,
        remote_pid: peer.pid,
        remote_device: &peer.device,
        remote_port: u32::from(peer.port),
        remote_host: &peer.host,
        ..About::default()
    });
    place.iter().for_each(|place| place.fail(failure.words()));
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
