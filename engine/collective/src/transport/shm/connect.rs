//! Brings the ranks of a host together: each hands its arena and its bell to all others.
//!
//! Each rank listens on a random abstract name that it announces to the communicator; of two, the higher rank calls. A
//! caller must belong to the same user and know the communicator's secret. The listener is gone when all have come; the
//! connections stay, for the memory that ranks show each other later.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use crate::clock::Deadline;
use crate::error::{Error, Result};
use crate::hash;
use crate::net::bootstrap::Bootstrap;
use crate::net::secret::{Secret, new_secret};
use crate::net::wake::{self, Wake};
use crate::transport::shm::arena::Arena;
use crate::transport::shm::direct::{self, Nonce};
use crate::transport::shm::doorbell::{Doorbell, Event, Ringer};
use crate::transport::shm::greeting::{GREETING_BYTES, Greeting};
use crate::transport::shm::host::{Host, Kin};
use crate::transport::shm::ipc_socket::IpcSocket;
use crate::transport::shm::layout::Layout;
use crate::transport::shm::lender::Lender;
use crate::transport::shm::peer::{Parts, Peer};
use crate::transport::shm::{Tuning, unix};

/// Connections that have not greeted yet at most; the oldest gives way.
const MAX_STRANGERS: usize = 256;
/// A full listener is called again after this long: its owner takes calls as fast as it can.
const RETRY: Duration = Duration::from_millis(1);

/// What a rank tells all others: where it can be called, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Announcement {
    /// The abstract name that it listens on.
    pub(crate) name: String,
    /// Equal where ranks can share memory: same boot, network namespace and user.
    pub(crate) domain: u64,
}

/// Where this rank is called.
#[derive(Debug)]
pub(crate) struct Endpoint {
    listener: OwnedFd,
    announcement: Announcement,
    nonce: Box<Nonce>,
    lender: Arc<Lender>,
    arena: Option<Arena>,
}

/// What to connect.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    /// This rank.
    pub(crate) rank: usize,
    /// The ranks that share memory, ascending, with this one: see [`members`].
    pub(crate) members: Vec<usize>,
    /// Of all ranks of the communicator.
    pub(crate) announcements: &'a [Option<Announcement>],
    /// The communicator's secret.
    pub(crate) secret: Secret,
    /// How long all of it may take.
    pub(crate) timeout: Duration,
    /// From which sizes on payloads are not copied into slots.
    pub(crate) tuning: Tuning,
    /// What is shared with the communicator of which this one is made.
    pub(crate) kin: Option<&'a Kin>,
}

impl Endpoint {
    /// A new one, with a name that nobody can guess.
    pub(crate) fn new() -> Result<Self> {
        let name = format!("rsccl-{:032x}", u128::from_le_bytes(new_secret()?));
        Self::on(unix::listen(name.as_bytes())?, name)
    }

    /// One with a name that the others can tell, unless somebody has it: then with another one.
    pub(crate) fn named(name: String) -> Result<Self> {
        match unix::listen(name.as_bytes()) {
            Ok(listener) => Self::on(listener, name),
            Err(_) => Self::new(),
        }
    }

    fn on(listener: OwnedFd, name: String) -> Result<Self> {
        let announcement = Announcement { name, domain: domain() };
        let (nonce, lender) = (Box::new(new_secret()?), Lender::new(&announcement.name));
        Ok(Self { listener, announcement, nonce, lender, arena: None })
    }

    /// Takes the memory for a host of up to `n_members` and `n_rings` rings to them, while a rank that has none can still
    /// say so.
    pub(crate) fn reserve(&mut self, n_members: usize, n_rings: usize) -> Result<()> {
        self.arena = Some(Arena::new(Layout::new(n_members), n_rings)?);
        Ok(())
    }

    /// What the others must know.
    pub(crate) fn announcement(&self) -> Announcement {
        self.announcement.clone()
    }
}

/// The ranks that share memory with `rank`, itself among them, ascending: those with its host's hash and domain. All of
/// them find the same.
pub(crate) fn members(announcements: &[Option<Announcement>], hosts: &[u64], rank: usize) -> Vec<usize> {
    let domain = |rank: usize| announcements[rank].as_ref().map(|announcement| announcement.domain);
    let Some(own) = domain(rank) else { return vec![rank] };
    (0..announcements.len())
        .filter(|other| hosts[*other] == hosts[rank] && domain(*other) == Some(own))
        .collect()
}

/// Connects to all members; each of them calls this. Ends as soon as the bootstrap root says that a rank is lost.
///
/// Where some rank of the host has reserved memory, all members have, for the same number of ranks.
pub(crate) fn join(mut endpoint: Endpoint, plan: &Plan<'_>, bootstrap: Option<&Bootstrap>) -> Result<Host> {
    let deadline = Deadline::after(plan.timeout);
    let arena = match endpoint.arena.take() {
        Some(arena) => arena,
        None => Arena::new(Layout::new(plan.members.len()), 0)?,
    };
    let layout = arena.layout();
    let event = plan.kin.map_or_else(Event::new, |kin| Ok(Arc::clone(&kin.event)))?;
    let bell = Doorbell::new(Arc::clone(arena.head()), event);
    // First, since who has been shown this rank may be done with it at once.
    let (own_process, others) = plan.by_process();
    endpoint.lender.show(&plan.secret, &arena, bell.ringer());
    let mut gathering = Gathering {
        plan,
        layout,
        arena,
        bell,
        endpoint,
        bootstrap,
        own_process,
        shown: Wake::new()?,
        met: Vec::new(),
        strangers: Vec::new(),
    };
    for rank in others.into_iter().filter(|rank| *rank < plan.rank) {
        gathering.call(rank, deadline)?;
    }
    gathering.look_around()?;
    while gathering.met.len() + 1 < plan.members.len() {
        if deadline.passed() {
            return Err(gathering.missing());
        }
        gathering.wait(deadline.left())?;
        gathering.accept()?;
        gathering.listen()?;
        gathering.look_around()?;
        gathering.check()?;
    }
    gathering.finish()
}

impl Plan<'_> {
    /// The other members: those of this very process, and those of others.
    fn by_process(&self) -> (Vec<(usize, Arc<Lender>)>, Vec<usize>) {
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for rank in self.members.iter().copied().filter(|rank| *rank != self.rank) {
            let announcement = self.announcements.get(rank).and_then(Option::as_ref);
            match announcement.and_then(|announcement| Lender::find(&announcement.name)) {
                Some(lender) => own.push((rank, lender)),
                None => others.push(rank),
            }
        }
        (own, others)
    }
}

struct Gathering<'a> {
    plan: &'a Plan<'a>,
    layout: Layout,
    arena: Arena,
    bell: Doorbell,
    endpoint: Endpoint,
    bootstrap: Option<&'a Bootstrap>,
    /// The ranks of this process that have not shown yet what they share.
    own_process: Vec<(usize, Arc<Lender>)>,
    /// Set when they do.
    shown: Wake,
    met: Vec<Arc<Peer>>,
    strangers: Vec<OwnedFd>,
}

impl Gathering<'_> {
    fn call(&mut self, rank: usize, deadline: Deadline) -> Result<()> {
        let announcement = self.plan.announcements.get(rank).and_then(Option::as_ref);
        let name = announcement.map(|announcement| announcement.name.as_bytes());
        let name = name.ok_or_else(|| Error::Internal(format!("rank {rank} shares no memory")))?;
        let lost = |error: Errno| {
            Error::calling(format_args!("cannot share memory with rank {rank}"), &error.into())
        };
        while !deadline.passed() {
            if let Some(socket) = unix::call(name).map_err(lost)? {
                self.greet(&socket).map_err(lost)?;
                self.strangers.push(socket);
                return Ok(());
            }
            wake::sleep(&mut [], RETRY)?;
            self.check()?;
        }
        Err(Error::Remote(format!("rank {rank} took no calls within {} s", self.plan.timeout.as_secs())))
    }

    fn greet(&self, socket: &OwnedFd) -> rustix::io::Result<()> {
        let nonce_address = self.endpoint.nonce.as_ptr().addr() as u64;
        let greeting = Greeting { rank: self.plan.rank, nonce_address, nonce: *self.endpoint.nonce };
        let fds = [self.arena.fd().map_err(|_| Errno::BADF)?, self.bell.event().as_fd()];
        // The first message of a socket always finds room.
        match unix::send(socket, &greeting.to_bytes(&self.plan.secret), &fds)? {
            true => Ok(()),
            false => Err(Errno::AGAIN),
        }
    }

    fn wait(&self, wait: Duration) -> Result<()> {
        let mut fds = vec![
            PollFd::new(&self.endpoint.listener, PollFlags::IN),
            PollFd::new(&self.shown, PollFlags::IN),
        ];
        fds.extend(self.strangers.iter().map(|socket| PollFd::new(socket, PollFlags::IN)));
        fds.extend(self.bootstrap.map(Bootstrap::poll_fd));
        wake::sleep(&mut fds, wait)?;
        self.shown.reset();
        Ok(())
    }

    fn check(&self) -> Result<()> {
        self.bootstrap.map_or(Ok(()), Bootstrap::check)
    }

    fn accept(&mut self) -> Result<()> {
        let own = rustix::process::geteuid();
        while let Some(socket) = unix::accept(&self.endpoint.listener).map_err(refused)? {
            if unix::credentials(&socket).is_some_and(|peer| peer.uid == own) {
                if self.strangers.len() >= MAX_STRANGERS.max(self.plan.members.len()) {
                    self.strangers.remove(0);
                }
                self.strangers.push(socket);
            }
        }
        Ok(())
    }

    fn listen(&mut self) -> Result<()> {
        for socket in std::mem::take(&mut self.strangers) {
            let mut bytes = [0; GREETING_BYTES];
            match unix::recv(&socket, &mut bytes) {
                Ok(None) => self.strangers.push(socket),
                Ok(Some((GREETING_BYTES, fds))) => {
                    if let Some(greeting) = Greeting::from_bytes(&bytes, &self.plan.secret) {
                        self.meet(greeting, socket, fds)?;
                    }
                }
                Err(error @ Errno::MFILE) if Greeting::from_bytes(&bytes, &self.plan.secret).is_some() => {
                    return Err(refused(error));
                }
                // Not one of ours: closed.
                Ok(Some(_)) | Err(_) => {}
            }
        }
        Ok(())
    }

    fn meet(&mut self, greeting: Greeting, socket: OwnedFd, fds: Vec<OwnedFd>) -> Result<()> {
        let member = |rank| self.plan.members.iter().position(|member| *member == rank);
        let known = self.met.iter().any(|peer| peer.rank == greeting.rank) || greeting.rank == self.plan.rank;
        let (Some(member), Some(own_member), false) = (member(greeting.rank), member(self.plan.rank), known)
        else {
            return Ok(());
        };
        let Ok([arena, event]) = <[OwnedFd; 2]>::try_from(fds) else { return Ok(()) };
        if greeting.rank > self.plan.rank {
            let _ = self.greet(&socket);
        }
        let pid = unix::credentials(&socket).map_or(0, |peer| peer.pid.as_raw_nonzero().get());
        let can_be_read = pid != 0 && direct::can_read(pid, greeting.nonce_address, &greeting.nonce);
        self.arena.set_reads(member, can_be_read);
        let arena = Arena::of_peer(arena, self.layout)?;
        // What has come and is shared already is closed.
        let head = Arc::clone(arena.head());
        let (ipc, ringer) = match self.plan.kin.and_then(|kin| kin.peers.get(&greeting.rank)) {
            Some((ipc, ringer)) => (Arc::clone(ipc), ringer.over(head)),
            None => (Arc::new(IpcSocket::new(socket)), Ringer::new(head, event.into())),
        };
        self.met.push(Arc::new(Peer::new(Parts {
            place: (greeting.rank, member),
            own_member,
            arena,
            ringer,
            pid,
            can_be_read,
            lender: None,
            ipc: Some(ipc),
        })));
        Ok(())
    }

    /// Meets the ranks of this process that show what they share by now; the others set the wake when they do.
    fn look_around(&mut self) -> Result<()> {
        for (rank, lender) in std::mem::take(&mut self.own_process) {
            let Some((arena, ringer)) = lender.shown(&self.plan.secret, &self.shown) else {
                self.own_process.push((rank, lender));
                continue;
            };
            if arena.layout() != self.layout {
                return Err(Error::Internal(format!("rank {rank} has an arena for another host")));
            }
            self.met.push(Arc::new(Peer::new(Parts {
                place: (rank, self.member(rank)?),
                own_member: self.member(self.plan.rank)?,
                arena,
                ringer,
                pid: 0,
                can_be_read: false,
                lender: Some(lender),
                ipc: None,
            })));
        }
        Ok(())
    }

    fn member(&self, rank: usize) -> Result<usize> {
        let member = self.plan.members.iter().position(|member| *member == rank);
        member.ok_or_else(|| Error::Internal(format!("rank {rank} is not of this host")))
    }

    fn missing(&self) -> Error {
        let met = |rank: &usize| *rank == self.plan.rank || self.met.iter().any(|peer| peer.rank == *rank);
        let missing: Vec<_> = self.plan.members.iter().filter(|rank| !met(rank)).collect();
        Error::Remote(format!(
            "ranks {missing:?} of this host did not share memory within {} s",
            self.plan.timeout.as_secs()
        ))
    }

    fn finish(mut self) -> Result<Host> {
        self.met.sort_by_key(|peer| peer.rank);
        let own_member = self.member(self.plan.rank)?;
        let Endpoint { nonce, lender, .. } = self.endpoint;
        Ok(Host::new(self.arena, self.bell, self.met, own_member, self.plan.tuning, (nonce, lender)))
    }
}

fn refused(error: Errno) -> Error {
    Error::system("sharing memory with a rank of this host", &error.into())
}

/// What two processes must have in common to reach each other's sockets and memory.
fn domain() -> u64 {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let network = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    let user = rustix::process::geteuid().as_raw();
    let identity = format!("{}{}{user}", String::from_utf8_lossy(&boot), network.display());
    hash::hash(identity.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_share_host_and_domain() {
        let of = |domain| Some(Announcement { name: String::new(), domain });
        let announcements = [of(1), of(2), of(1), None, of(1)];
        let hosts = [5, 5, 5, 5, 6];
        let found: Vec<_> = (0..5).map(|rank| members(&announcements, &hosts, rank)).collect();
        assert_eq!(found, [vec![0, 2], vec![1], vec![0, 2], vec![3], vec![4]]);
    }

    #[test]
    fn endpoints_have_names_of_their_own() {
        let (one, other) = (Endpoint::new().unwrap(), Endpoint::new().unwrap());
        assert_ne!(one.announcement().name, other.announcement().name);
        assert_eq!(one.announcement().domain, other.announcement().domain);
    }
}
