//! As much HTTP as it takes to say how a server is.
//!
//! Each caller has a thread, for so long and so many bytes at most; every answer ends its connection. Beyond so many callers at
//! once the next ones are cut off: who holds connections open keeps nobody else waiting for long.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::accepting;
use super::status::Status;
use rsccl_collective::clock::Deadline;
use rsccl_collective::error::{Error, Result};

/// Who has not asked after this is cut off.
const ASK_WAIT: Duration = Duration::from_secs(2);
/// Callers at once.
const MAX_CALLERS: usize = 64;
/// Bytes of a request's head at most.
const MAX_HEAD_BYTES: usize = 8 * 1024;

/// Listens, in a thread of its own; where.
pub(super) fn answer(address: &str, status: Arc<Status>) -> Result<SocketAddr> {
    let listener = TcpListener::bind(address);
    let listener = listener.map_err(|error| Error::system(format_args!("listen on {address}"), &error))?;
    let address = listener.local_addr().map_err(|error| Error::system("getsockname", &error))?;
    let thread = std::thread::Builder::new().name("sumd-health".to_owned());
    let thread = thread.spawn(move || {
        let n_callers = Arc::new(AtomicUsize::new(0));
        for stream in accepting::callers(&listener) {
            if n_callers.fetch_add(1, Ordering::AcqRel) >= MAX_CALLERS {
                n_callers.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            let (status, left) = (Arc::clone(&status), Arc::clone(&n_callers));
            let caller = std::thread::Builder::new().name("sumd-health".to_owned());
            let started = caller.spawn(move || {
                // Who goes away misses its answer.
                let _ = serve(&stream, &status);
                left.fetch_sub(1, Ordering::AcqRel);
            });
            if started.is_err() {
                n_callers.fetch_sub(1, Ordering::AcqRel);
            }
        }
    });
    thread.map_err(|error| Error::system("starting the health's thread", &error))?;
    Ok(address)
}

fn serve(mut stream: &TcpStream, status: &Status) -> std::io::Result<()> {
    stream.set_write_timeout(Some(ASK_WAIT))?;
    let head = head(stream)?;
    let mut words = head.split(|byte| *byte == b' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (code, kind, body) = match (method, path) {
        (b"GET" | b"HEAD", b"/healthz") => ("200 OK", "text/plain", "alive\n".to_owned()),
        (b"GET" | b"HEAD", b"/readyz") if status.is_ready() => {
            ("200 OK", "text/plain", "in a group\n".to_owned())
        }
        (b"GET" | b"HEAD", b"/readyz") => {
            ("503 Service Unavailable", "text/plain", "waiting for a group\n".to_owned())
        }
        (b"GET" | b"HEAD", b"/status") => {
            ("200 OK", "application/json", serde_json::to_string(&status.tell())?)
        }
        (b"GET" | b"HEAD", _) => ("404 Not Found", "text/plain", "/healthz, /readyz, /status\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "GET\n".to_owned()),
    };
    let len = body.len();
    let body = if method == b"HEAD" { String::new() } else { body };
    let head = format!(
        "HTTP/1.1 {code}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    );
    stream.write_all((head + &body).as_bytes())
}

/// Up to the empty line.
fn head(mut stream: &TcpStream) -> std::io::Result<Vec<u8>> {
    let deadline = Deadline::after(ASK_WAIT);
    let (mut head, mut bytes) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() >= MAX_HEAD_BYTES || deadline.passed() {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        stream.set_read_timeout(Some(deadline.left().max(Duration::from_millis(1))))?;
        match stream.read(&mut bytes)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => head.extend_from_slice(&bytes[..count]),
        }
    }
    Ok(head)
}
