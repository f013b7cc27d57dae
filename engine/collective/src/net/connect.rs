//! Connects a new communicator: every ring hop, and the control connections to rank 0.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::clock::Deadline;
use crate::error::{Error, Result};
use crate::fork;
use crate::net::acceptor::Inbox;
use crate::net::bootstrap::Bootstrap;
use crate::net::hello::{Hello, Purpose, Strand};
use crate::net::secret::Secret;
use crate::net::strands::Strands;
use crate::net::wake;
use crate::net::watch::ControlPeer;
use crate::transport::tcp::connect::{prepare, tune};

/// Where a connection goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// The rank there.
    pub(crate) rank: usize,
    /// Its listener.
    pub(crate) address: SocketAddr,
    /// The own NIC's address that the connection leaves from.
    pub(crate) from: IpAddr,
}

/// What to connect.
#[derive(Debug)]
pub(crate) struct Plan {
    /// This rank.
    pub(crate) rank: usize,
    /// The communicator's secret.
    pub(crate) secret: Secret,
    /// Channels and the ranks that this one sends to there.
    pub(crate) sends: Vec<(u32, Target)>,
    /// Channels and the ranks that this one receives from there.
    pub(crate) recvs: Vec<(u32, usize)>,
    /// Rank 0, on the others.
    pub(crate) coordinator: Option<Target>,
    /// Control connections that will come: n−1 on rank 0.
    pub(crate) control_callers: usize,
    /// Sockets of each connection for data.
    pub(crate) n_sockets: u8,
    /// How long all of it may take.
    pub(crate) timeout: Duration,
}

/// What has been connected.
#[derive(Debug)]
pub(crate) struct Connected {
    /// In the plan's order, each with all its sockets.
    pub(crate) sends: Vec<Vec<TcpStream>>,
    /// In the plan's order, each with all its sockets.
    pub(crate) recvs: Vec<Vec<TcpStream>>,
    /// The control connections.
    pub(crate) control: Vec<ControlPeer>,
}

/// Ends as soon as the bootstrap root says that a rank is lost.
///
/// Calls everybody first, which the kernels answer, then takes the calls: no order among ranks is needed.
pub(crate) fn connect(plan: &Plan, inbox: &Inbox, bootstrap: &Bootstrap) -> Result<Connected> {
    let deadline = Deadline::after(plan.timeout);
    let mut sends = Vec::new();
    for (channel, target) in &plan.sends {
        let strands = strands(*channel, plan.n_sockets);
        let calls = strands.map(|strand| call(target, plan, Purpose::Data(strand), deadline));
        sends.push(calls.collect::<Result<_>>()?);
    }
    let coordinator = plan.coordinator.map(|target| {
        call(&target, plan, Purpose::Control, deadline)
            .map(|stream| ControlPeer { rank: target.rank, stream })
    });
    let recvs = plan.recvs.iter().map(|_| None).collect();
    let mut arrivals = Arrivals { recvs, control: Vec::new(), strands: Strands::default() };
    arrivals.control.extend(coordinator.transpose()?);
    let control_wanted = arrivals.control.len() + plan.control_callers;
    while !arrivals.complete(control_wanted) {
        if deadline.passed() {
            return Err(arrivals.missing(plan));
        }
        wait(inbox, bootstrap, deadline.left())?;
        bootstrap.check()?;
        arrivals.take(plan, inbox);
        inbox.check()?;
    }
    let recvs = arrivals.recvs.into_iter().flatten().collect();
    Ok(Connected { sends, recvs, control: arrivals.control })
}

/// The sockets of a connection for data on `channel`.
pub(crate) fn strands(channel: u32, n: u8) -> impl Iterator<Item = Strand> {
    let channel = u16::try_from(channel).unwrap_or(u16::MAX);
    (0..n).map(move |index| Strand { channel, index, n })
}

/// One connection, bound to the own NIC's address; non-blocking on return.
pub(crate) fn call_peer(
    target: &Target,
    hello: Hello,
    secret: &Secret,
    wait: Duration,
) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(target.address), Type::STREAM, Some(Protocol::TCP))?;
    fork::keep_from_children(&socket);
    socket.bind(&SocketAddr::new(target.from, 0).into())?;
    prepare(SockRef::from(&socket), target.from, target.address.ip());
    socket.connect_timeout(&target.address.into(), wait.max(Duration::from_millis(1)))?;
    let mut stream = TcpStream::from(socket);
    stream.write_all(&hello.to_bytes(secret))?;
    tune(&stream)?;
    Ok(stream)
}

fn call(target: &Target, plan: &Plan, purpose: Purpose, deadline: Deadline) -> Result<TcpStream> {
    let hello = Hello { purpose, rank: plan.rank, to: target.rank };
    call_peer(target, hello, &plan.secret, deadline.left()).map_err(|error| {
        let Target { rank, address, from } = target;
        Error::calling(format_args!("cannot connect from {from} to rank {rank} at {address}"), &error)
    })
}

/// Until somebody calls, or the root says something.
fn wait(inbox: &Inbox, bootstrap: &Bootstrap, wait: Duration) -> Result<()> {
    let mut fds = [PollFd::new(inbox.wake(), PollFlags::IN), bootstrap.poll_fd()];
    wake::sleep(&mut fds, wait)?;
    inbox.wake().reset();
    Ok(())
}

struct Arrivals {
    recvs: Vec<Option<Vec<TcpStream>>>,
    control: Vec<ControlPeer>,
    strands: Strands,
}

impl Arrivals {
    fn complete(&self, control_wanted: usize) -> bool {
        self.recvs.iter().all(Option::is_some) && self.control.len() >= control_wanted
    }

    fn take(&mut self, plan: &Plan, inbox: &Inbox) {
        for (hello, stream) in inbox.take() {
            let _ = tune(&stream);
            match hello.purpose {
                Purpose::Data(strand) => self.take_data(plan, strand, hello.rank, stream),
                Purpose::Control => self.control.push(ControlPeer { rank: hello.rank, stream }),
            }
        }
    }

    fn take_data(&mut self, plan: &Plan, strand: Strand, peer: usize, stream: TcpStream) {
        let wanted = (u32::from(strand.channel), peer);
        if let Some(at) = plan.recvs.iter().position(|one| *one == wanted)
            && let Some(streams) = self.strands.add(strand, peer, stream)
        {
            self.recvs[at] = Some(streams);
        }
    }

    fn missing(&self, plan: &Plan) -> Error {
        let missing = self.recvs.iter().position(Option::is_none).map(|at| plan.recvs[at]);
        let whom = match missing {
            Some((channel, rank)) => format!("rank {rank} did not connect channel {channel}"),
            None => "a rank did not make its control connection".to_owned(),
        };
        Error::Remote(format!("{whom} within {} s", plan.timeout.as_secs()))
    }
}
