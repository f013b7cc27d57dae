//! The connection log: one JSON line per ring connection, with the addresses of its socket if it has one, so that a reader can hold the rings of
//! the log against what was really connected.

use std::io::Write;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::transport::Description;

/// One line.
#[derive(Debug, Serialize)]
struct Line<'a> {
    comm: String,
    rank: usize,
    channel: usize,
    peer: usize,
    direction: &'a str,
    transport: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    local: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remote: Option<String>,
    nic: &'a str,
}

/// What a line says beside the socket's addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hop<'a> {
    /// The communicator's hash.
    pub(crate) comm_hash: u64,
    /// This rank.
    pub(crate) rank: usize,
    /// The channel.
    pub(crate) channel: usize,
    /// The rank at the other end.
    pub(crate) peer: usize,
    /// `send` or `recv`.
    pub(crate) direction: &'a str,
    /// The own NIC.
    pub(crate) nic: &'a str,
}

/// Appends the lines of `hops` to the file at `path`.
pub(crate) fn append(path: &str, hops: &[(Hop<'_>, Description)]) -> Result<()> {
    let mut text = Vec::new();
    for (hop, description) in hops {
        serde_json::to_writer(&mut text, &line(hop, description))
            .map_err(|error| Error::Internal(format!("the connection log: {error}")))?;
        text.push(b'\n');
    }
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(&text))
        .map_err(|error| Error::system(format_args!("RSCCL_CONNECTION_LOG: {path}"), &error))
}

fn line<'a>(hop: &Hop<'a>, description: &Description) -> Line<'a> {
    let (transport, local, remote) = match description {
        Description::Tcp { local, remote } => ("tcp", Some(local.to_string()), Some(remote.to_string())),
        Description::Shm { direct: true } => ("shm-direct", None, None),
        Description::Shm { direct: false } => ("shm", None, None),
        Description::Sim => ("sim", None, None),
    };
    Line {
        comm: format!("{:#x}", hop.comm_hash),
        rank: hop.rank,
        channel: hop.channel,
        peer: hop.peer,
        direction: hop.direction,
        transport,
        local,
        remote,
        nic: hop.nic,
    }
}
