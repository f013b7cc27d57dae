//! Two ends of a TCP connection, which greet each other: whoever speaks something else is no peer.

use crate::clock::Deadline;
use crate::device::tcp::Tcp;
use crate::device::{Role, meeting};
use crate::error::Result;

/// Connects to a peer at host:port.
///
/// # Errors
/// Nobody who speaks this protocol is there until the deadline.
pub fn connect(role: Role, address: &str, deadline: Deadline) -> Result<Tcp> {
    let (stream, peer) = meeting::over_tcp(role, address, deadline)?;
    Ok(Tcp::new(stream, format!("peer {peer}")))
}
