//! The connection log: one JSON line per ring connection, or per socket of it, with the socket's addresses, so that a
//! reader can hold the rings of the log against what was really connected.

use std::io::Write;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::transport::{Description, SocketEnds};

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
        for line in lines(hop, description) {
            serde_json::to_writer(&mut text, &line)
                .map_err(|error| Error::Internal(format!("the connection log: {error}")))?;
            text.push(b'\n');
        }
    }
    let file = crate::file::append(path);
    file.and_then(|mut file| file.write_all(&text))
        .map_err(|error| Error::system(format_args!("RSCCL_CONNECTION_LOG: {path}"), &error))
}

fn lines<'a>(hop: &Hop<'a>, description: &'a Description) -> Vec<Line<'a>> {
    match description {
        Description::Tcp { sockets } => sockets.iter().map(|socket| line(hop, "tcp", Some(socket))).collect(),
        Description::Shm { direct: true } => vec![line(hop, "shm-direct", None)],
        Description::Shm { direct: false } => vec![line(hop, "shm", None)],
        Description::Plugin { network, device } => {
            vec![Line { nic: device, ..line(hop, network, None) }]
        }
        #[cfg(test)]
        Description::Sim => vec![line(hop, "sim", None)],
    }
}

fn line<'a>(hop: &Hop<'a>, transport: &'a str, socket: Option<&SocketEnds>) -> Line<'a> {
    Line {
        comm: format!("{:#x}", hop.comm_hash),
        rank: hop.rank,
        channel: hop.channel,
        peer: hop.peer,
        direction: hop.direction,
        transport,
        local: socket.map(|socket| socket.local.to_string()),
        remote: socket.map(|socket| socket.remote.to_string()),
        nic: hop.nic,
    }
}
