//! Asking a daemon that this program has started.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// One GET by HTTP/1.0: the answer is what comes until the end of the connection.
pub(crate) fn get(address: &str, path: &str, patience: Duration) -> Result<String> {
    let mut stream = TcpStream::connect(address).context("connecting to the daemon")?;
    stream.set_read_timeout(Some(patience))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).with_context(|| format!("GET {path}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").with_context(|| format!("GET {path}: {answer}"))?;
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    if status != "200" {
        bail!("GET {path}: {status}: {body}");
    }
    Ok(body.to_owned())
}
