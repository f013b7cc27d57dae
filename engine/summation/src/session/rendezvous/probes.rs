//! Whether members of a group that are not here still live: a connection to each one's door, which nobody need answer. The
//! kernel refuses it, or ends it, where the process is gone. Who is not reached is tried again for a while. Nothing waits.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use socket2::{Domain, Protocol, Socket, Type};

use super::majority::Gone;
use rsccl_collective::clock::Deadline;
use rsccl_collective::fork;

/// Between two attempts to reach a door.
const PAUSE: Duration = Duration::from_millis(250);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Probes(BTreeMap<usize, Probe>);

#[derive(Debug)]
struct Probe {
    door: SocketAddr,
    /// None between two attempts.
    stream: Option<TcpStream>,
    is_reached: bool,
    again: Deadline,
    /// Who is not reached until then is missing.
    until: Deadline,
    /// It is not waited for: only whether it is dead matters.
    is_silent: bool,
}

impl Probes {
    /// Looks for a member, for so long at most; one that is silent is not waited for once it is reached.
    pub(super) fn start(&mut self, rank: usize, door: SocketAddr, most: Duration, is_silent: bool) {
        let probe = self.0.entry(rank).or_insert_with(|| {
            let (again, until) = (Deadline::after(Duration::ZERO), Deadline::after(most));
            Probe { door, stream: None, is_reached: false, again, until, is_silent }
        });
        probe.is_silent |= is_silent;
    }

    /// This one has come, or is waited for no more.
    pub(super) fn end(&mut self, rank: usize) {
        self.0.remove(&rank);
    }

    /// The same of all.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// What to sleep on.
    pub(super) fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.0.values().filter_map(|probe| {
            let wanted = if probe.is_reached { PollFlags::IN } else { PollFlags::OUT };
            probe.stream.as_ref().map(|stream| PollFd::new(stream, wanted))
        })
    }

    /// When there is something to do without a word of the kernel's.
    pub(super) fn deadlines(&self) -> impl Iterator<Item = Deadline> {
        let open = self.0.values().filter(|probe| !probe.is_reached);
        open.map(|probe| if probe.stream.is_some() { probe.until } else { probe.again })
    }

    /// Goes on; what has become of whom, as far as it is known now.
    pub(super) fn look(&mut self) -> Vec<(usize, Gone)> {
        let gone: Vec<(usize, Gone)> =
            self.0.iter_mut().filter_map(|(rank, probe)| probe.look().map(|gone| (*rank, gone))).collect();
        gone.iter().for_each(|(rank, _)| drop(self.0.remove(rank)));
        gone
    }
}

impl Probe {
    fn look(&mut self) -> Option<Gone> {
        if self.stream.is_none() && self.again.passed() {
            match call(self.door) {
                Ok(stream) => self.stream = Some(stream),
                Err(error) => return self.failed(&error),
            }
        }
        let Some(stream) = &self.stream else { return self.is_late() };
        if !self.is_reached {
            match stream.take_error() {
                Ok(None) => self.is_reached = stream.peer_addr().is_ok(),
                Ok(Some(error)) | Err(error) => return self.failed(&error),
            }
        }
        if !self.is_reached {
            return self.is_late();
        }
        if self.is_silent {
            return Some(Gone::Missing);
        }
        let mut bytes = [0; 1024];
        match rustix::net::recv(stream, &mut bytes, RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN | Errno::INTR) => None,
            // Who speaks gives a rendezvous of its own, and will hang up on this one.
            Ok((1.., _)) => Some(Gone::Missing),
            Ok(_) => Some(Gone::Dead),
            Err(error) => Some(Gone::of(&error.into())),
        }
    }

    fn failed(&mut self, error: &std::io::Error) -> Option<Gone> {
        (self.stream, self.again) = (None, Deadline::after(PAUSE));
        if Gone::of(error) == Gone::Dead { Some(Gone::Dead) } else { self.is_late() }
    }

    fn is_late(&self) -> Option<Gone> {
        self.until.passed().then_some(Gone::Missing)
    }
}

/// Begins to connect.
fn call(door: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(door), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&door.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => return Err(error),
        _ => {}
    }
    let stream = TcpStream::from(socket);
    fork::keep_from_children(&stream);
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    /// What becomes of a member with this door.
    fn becomes(door: SocketAddr, most: Duration, is_silent: bool) -> Gone {
        let mut probes = Probes::default();
        probes.start(1, door, most, is_silent);
        loop {
            match probes.look().as_slice() {
                [(1, gone)] => return *gone,
                _ => std::thread::yield_now(),
            }
        }
    }

    #[test]
    fn who_is_refused_is_dead_and_who_is_not_reached_is_missing_after_a_while() {
        let (minute, moment) = (Duration::from_secs(60), Duration::from_millis(20));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let door = listener.local_addr().unwrap();
        // Alive, but silent.
        assert_eq!(becomes(door, minute, true), Gone::Missing);
        // Alive, as long as it listens.
        let mut probes = Probes::default();
        probes.start(1, door, moment, false);
        while !probes.0[&1].is_reached {
            assert_eq!(probes.look(), []);
        }
        while !probes.0[&1].until.passed() {}
        assert_eq!(probes.look(), []);
        drop(listener);
        while probes.look() != [(1, Gone::Dead)] {}
        assert_eq!(becomes(door, minute, false), Gone::Dead);
        // Alive, and the rendezvous of others.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut probes = Probes::default();
        probes.start(1, listener.local_addr().unwrap(), minute, false);
        assert_eq!(probes.look(), []);
        listener.accept().unwrap().0.write_all(b"challenge").unwrap();
        assert_eq!(
            std::iter::repeat_with(|| probes.look()).find(|gone| !gone.is_empty()),
            Some(vec![(1, Gone::Missing)])
        );
        // Who takes no more calls answers none: so it looks behind a cut, too.
        let full = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        full.listen(0).unwrap();
        let door = full.local_addr().unwrap().as_socket().unwrap();
        let _callers: Vec<TcpStream> = (0..4).map(|_| call(door).unwrap()).collect();
        assert_eq!(becomes(door, moment, false), Gone::Missing);
    }
}
