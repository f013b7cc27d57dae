//! A socket for data: its settings, and what is logged of it.

use std::net::{IpAddr, SocketAddr, TcpStream};

use socket2::SockRef;

use crate::transport::{Description, SocketEnds};

/// The congestion control of connections that never leave the machine. `bbr`, the default on some hosts, paces by its
/// estimate of a path that loopback does not have, and halves the rate.
/// Inside a network namespace `cubic` may not be allowed; `reno` always is.
const LOCAL_CONGESTION_CONTROLS: [&[u8]; 2] = [b"cubic", b"reno"];
/// What the kernel takes of a connection before the other end has room for it: one part, so that the next one is ready
/// when an acknowledgement comes, and a slow peer holds no more than that.
pub(crate) const UNSENT_BYTES: u32 = 512 * 1024;

/// What the kernel keeps of a connection that never leaves the machine until it is read (it doubles this, for its own
/// bookkeeping). By default that grows to several MiB, which no second-level cache holds: with this bound two ranks take
/// a tenth less from 4 MiB on, and small parts the same.
const LOCAL_RECEIVE_BYTES: usize = 256 * 1024;

/// Prepares a socket that is not connected yet. `bbr` has the kernel set a timer for every packet of a socket that it ever
/// controlled, whatever controls it later; so another one comes before the connection does.
pub(crate) fn prepare(socket: SockRef<'_>, from: IpAddr, to: IpAddr) {
    if to.is_loopback() || to == from {
        control_locally(&socket);
    }
}

/// Prepares a connected socket: no delay for small parts, bounded unsent bytes, and a congestion
/// control that suits the path.
pub(crate) fn tune(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES)?;
    if stays_here(stream) {
        let socket = SockRef::from(stream);
        socket.set_recv_buffer_size(LOCAL_RECEIVE_BYTES)?;
        control_locally(&socket);
    }
    Ok(())
}

fn control_locally(socket: &SockRef<'_>) {
    // Where the kernel lacks both, its own choice is as good.
    let _ = LOCAL_CONGESTION_CONTROLS.iter().any(|name| socket.set_tcp_congestion(name).is_ok());
}

fn stays_here(stream: &TcpStream) -> bool {
    let ip = |address: std::io::Result<SocketAddr>| address.ok().map(|address| address.ip());
    let remote = ip(stream.peer_addr());
    remote.is_some_and(|remote| remote.is_loopback()) || remote == ip(stream.local_addr())
}

/// For the logs; a socket that is closed has no addresses any more.
pub(crate) fn describe<'a>(streams: impl Iterator<Item = &'a TcpStream>) -> Description {
    let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
    let ends = |stream: &TcpStream| SocketEnds {
        local: stream.local_addr().unwrap_or(unknown),
        remote: stream.peer_addr().unwrap_or(unknown),
    };
    Description::Tcp { sockets: streams.map(ends).collect() }
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Socket, Type};

    use super::*;

    #[test]
    fn a_connection_that_stays_on_its_machine_begins_under_a_control_that_does_not_pace() {
        let control = |from: &str, to: &str| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            let before = socket.tcp_congestion().unwrap();
            prepare(SockRef::from(&socket), from.parse().unwrap(), to.parse().unwrap());
            (before, socket.tcp_congestion().unwrap())
        };
        for (from, to) in [("127.0.0.1", "127.0.0.2"), ("192.0.2.1", "192.0.2.1")] {
            let (_, after) = control(from, to);
            assert!(LOCAL_CONGESTION_CONTROLS.iter().any(|name| after.starts_with(name)), "{after:?}");
        }
        let (before, after) = control("192.0.2.1", "192.0.2.2");
        assert_eq!(before, after);
    }
}
