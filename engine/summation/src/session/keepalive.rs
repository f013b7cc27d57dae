//! Lines on which nothing is said for long, and whose other end may be gone meanwhile.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

/// Between two questions of one kernel to the other. A host that is gone is noticed after four of these.
const EVERY: Duration = Duration::from_secs(10);
const UNANSWERED: u32 = 3;

/// Has the kernels ask each other whether they are there.
pub(super) fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    let keepalive = TcpKeepalive::new().with_time(EVERY).with_interval(EVERY).with_retries(UNANSWERED);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}
