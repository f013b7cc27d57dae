//! A socket for data: its settings, and what is logged of it.

use std::net::{SocketAddr, TcpStream};

use socket2::SockRef;

use crate::transport::Description;

/// The congestion control of connections that never leave the machine. `bbr`, the default on some hosts, paces by its
/// estimate of a path that loopback does not have, and halves the rate.
const LOCAL_CONGESTION_CONTROL: &[u8] = b"cubic";

/// Prepares a connected socket: no delay for small parts, and a congestion control that suits the path.
pub(crate) fn tune(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    if stays_here(stream) {
        // Where the kernel lacks it, its own choice is as good.
        let _ = SockRef::from(stream).set_tcp_congestion(LOCAL_CONGESTION_CONTROL);
    }
    Ok(())
}

fn stays_here(stream: &TcpStream) -> bool {
    let ip = |address: std::io::Result<SocketAddr>| address.ok().map(|address| address.ip());
    let remote = ip(stream.peer_addr());
    remote.is_some_and(|remote| remote.is_loopback()) || remote == ip(stream.local_addr())
}

/// For the logs; a socket that is closed has no addresses any more.
pub(crate) fn describe(stream: &TcpStream) -> Description {
    let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
    Description::Tcp {
        local: stream.local_addr().unwrap_or(unknown),
        remote: stream.peer_addr().unwrap_or(unknown),
    }
}
