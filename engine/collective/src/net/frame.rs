//! Messages of bootstrap and control: a length in four bytes, little-endian, then JSON, or bytes of whoever sends them.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of a message at most: the peer table of some 60 000 ranks.
const MAX_FRAME_BYTES: usize = 16 << 20;

/// Sends one message.
pub fn send<T: Serialize>(mut stream: impl Write, message: &T) -> io::Result<()> {
    stream.write_all(&encode(message)?)
}

/// One message's bytes.
pub fn encode<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    encode_bytes(&serde_json::to_vec(message)?)
}

/// A message of bytes.
pub(crate) fn encode_bytes(body: &[u8]) -> io::Result<Vec<u8>> {
    let len = u32::try_from(body.len()).map_err(|_| too_long())?;
    let mut bytes = len.to_le_bytes().to_vec();
    bytes.extend_from_slice(body);
    Ok(bytes)
}

/// Receives one message.
pub fn recv<T: DeserializeOwned>(stream: impl Read) -> io::Result<T> {
    Ok(serde_json::from_slice(&recv_bytes(stream)?)?)
}

/// Receives one message of bytes.
pub(crate) fn recv_bytes(mut stream: impl Read) -> io::Result<Vec<u8>> {
    let mut len = [0_u8; 4];
    stream.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len) as usize;
    if len > MAX_FRAME_BYTES {
        return Err(too_long());
    }
    let mut body = Vec::new();
    stream.take(len as u64).read_to_end(&mut body)?;
    if body.len() < len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(body)
}

/// Takes the first whole message out of `buffer`, if there is one.
pub fn take<T: DeserializeOwned>(buffer: &mut Vec<u8>) -> io::Result<Option<T>> {
    let message = take_bytes(buffer)?.map(|body| serde_json::from_slice(&body));
    Ok(message.transpose()?)
}

/// The same, of bytes.
pub(crate) fn take_bytes(buffer: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let Some(len) = buffer.first_chunk::<4>() else { return Ok(None) };
    let end = 4 + u32::from_le_bytes(*len) as usize;
    if end > MAX_FRAME_BYTES {
        return Err(too_long());
    }
    let Some(body) = buffer.get(4..end) else { return Ok(None) };
    let body = body.to_vec();
    buffer.drain(..end);
    Ok(Some(body))
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a message is too long")
}
