//! Two ends of a TCP connection, which greet each other: whoever speaks something else is refused.

use std::io::ErrorKind;
use std::net::TcpStream;

use crate::clock::Deadline;
use crate::device::tcp::Tcp;
use crate::device::{Role, meeting};
use crate::error::{Error, Result};

/// Begins every connection; the last byte is the version.
const GREETING: [u8; 8] = *b"rtensor\x01";

/// Connects to a peer at host:port.
///
/// # Errors
/// Nobody is there until the deadline, or it does not speak this protocol.
pub fn connect(role: Role, address: &str, deadline: Deadline) -> Result<Tcp> {
    let (stream, peer) = meeting::over_tcp(role, address, deadline)?;
    let peer = format!("peer {peer}");
    greet(&stream, &peer, deadline)?;
    Ok(Tcp::new(stream, peer))
}

fn greet(mut stream: &TcpStream, peer: &str, deadline: Deadline) -> Result<()> {
    use std::io::{Read, Write};

    let lost =
        |why: String| Error::PeerLost { peer: peer.to_owned(), waiting_for: "greeting it".to_owned(), why };
    // A new connection has room for a few bytes.
    stream.write_all(&GREETING).map_err(|error| lost(error.to_string()))?;
    let (mut greeting, mut len) = ([0; GREETING.len()], 0);
    meeting::until(deadline, &format!("the greeting of {peer}"), || {
        match stream.read(greeting.get_mut(len..).unwrap_or_default()) {
            Ok(0) => return Err(lost("it closed the connection".to_owned())),
            Ok(got) => len += got,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(lost(error.to_string())),
        }
        Ok((len == GREETING.len()).then_some(()))
    })?;
    if greeting != GREETING {
        let what = "a greeting of something else, or of another version".to_owned();
        return Err(Error::Malformed { peer: peer.to_owned(), what });
    }
    Ok(())
}
