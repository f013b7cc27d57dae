//! The connection log: one JSON line per ring connection, read from its socket, so that a reader can hold the rings of
//! the log against what was really connected.

use std::io::Write;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::net::link::Link;

/// One line.
#[derive(Debug, Serialize)]
struct Line<'a> {
    comm: String,
    rank: usize,
    channel: usize,
    peer: usize,
    direction: &'a str,
    local: String,
    remote: String,
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
    /// `send` or `recv`.
    pub(crate) direction: &'a str,
    /// The own NIC.
    pub(crate) nic: &'a str,
}

/// Appends the lines of `hops` to the file at `path`.
pub(crate) fn append(path: &str, hops: &[(Hop<'_>, &Link)]) -> Result<()> {
    let mut text = Vec::new();
    for (hop, link) in hops {
        serde_json::to_writer(&mut text, &line(hop, link)?)
            .map_err(|error| Error::Internal(format!("the connection log: {error}")))?;
        text.push(b'\n');
    }
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(&text))
        .map_err(|error| Error::system(format_args!("RSCCL_CONNECTION_LOG: {path}"), &error))
}

fn line<'a>(hop: &Hop<'a>, link: &Link) -> Result<Line<'a>> {
    let address = |address: std::io::Result<std::net::SocketAddr>| {
        address
            .map(|address| address.to_string())
            .map_err(|error| Error::system("a ring socket's address", &error))
    };
    Ok(Line {
        comm: format!("{:#x}", hop.comm_hash),
        rank: hop.rank,
        channel: hop.channel,
        peer: link.peer,
        direction: hop.direction,
        local: address(link.stream.local_addr())?,
        remote: address(link.stream.peer_addr())?,
        nic: hop.nic,
    })
}
