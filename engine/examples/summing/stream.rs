//! What one connection carries from host to host, as its receiver sees it.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

use rsccl::summation::trial::now_ns;
use serde_json::{Value, json};

use crate::Failure;

/// Sends so many bytes.
pub(crate) fn pour(to: SocketAddr, bytes: usize) -> Result<Value, Failure> {
    let mut stream = TcpStream::connect(to)?;
    let chunk = [0; CHUNK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let len = left.min(CHUNK_BYTES);
        stream.write_all(&chunk[..len])?;
        left -= len;
    }
    Ok(json!({}))
}

/// A host that bytes are poured to.
#[derive(Debug)]
pub(crate) struct Sink(TcpListener);

impl Sink {
    /// Listens.
    pub(crate) fn open(address: IpAddr) -> Result<Self, Failure> {
        Ok(Self(TcpListener::bind((address, 0))?))
    }

    /// Where.
    pub(crate) fn port(&self) -> Result<u16, Failure> {
        Ok(self.0.local_addr()?.port())
    }

    /// Takes in one connection's bytes to their end: how many there were past the first ones, which a link's idle time
    /// lets through faster, and their time.
    pub(crate) fn drain(self) -> Result<Value, Failure> {
        let (mut stream, _) = self.0.accept()?;
        let mut chunk = vec![0; CHUNK_BYTES];
        let (mut all, mut first) = (0_u64, None);
        loop {
            let len = stream.read(&mut chunk)? as u64;
            if len == 0 {
                break;
            }
            all += len;
            if all >= FIRST_BYTES && first.is_none() {
                first = Some((all, now_ns()));
            }
        }
        let (before, start_ns) = first.ok_or("too few bytes")?;
        Ok(json!({ "bytes": all - before, "ns": now_ns() - start_ns }))
    }
}

const CHUNK_BYTES: usize = 64 * 1024;
/// More than queues and buckets of tokens hold.
const FIRST_BYTES: u64 = 1 << 20;
