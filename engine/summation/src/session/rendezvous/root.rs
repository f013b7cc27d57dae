//! The process at which the others meet: a thread that lets them in and tells them of each group.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::super::accepting;
use super::book::{Book, Formed, Id};
use super::majority::Gone;
use super::message::{ANOTHER, FORSAKEN, FromRoot, Membership, Protocol, Seat, ToRoot, Wanted};
use super::probes::Probes;
use super::proof::{self, Prover};
use rsccl_collective::clock::Deadline;
use rsccl_collective::error::{Error, Result};
use rsccl_collective::fork;
use rsccl_collective::lock::lock;
use rsccl_collective::log::{self, Level, subsystem};
use rsccl_collective::net::wake::{self, Wake};
use rsccl_collective::net::{frame, root};

/// Who connects and does not show that it knows the secret is dropped after this.
const HELLO_WAIT: Duration = Duration::from_secs(5);
/// Connections that have not shown it yet at most; the oldest gives way.
const MAX_STRANGERS: usize = 64;
/// Processes at most; with their connections a process stays below the usual limit of its open files, 1024.
const MAX_CALLERS: usize = 900;
/// What the next message of a process may have at most before it is whole.
const MAX_BUFFERED_BYTES: usize = 64 * 1024;
/// An address that another process still has after this stays that process's.
const CLAIM_WAIT: Duration = Duration::from_secs(5);
/// Between two attempts to have it.
const CLAIM_EVERY: Duration = Duration::from_millis(10);
/// The longest sleep: nothing is lost with it, since all that matters ends a sleep.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// A rendezvous that this process gives.
#[derive(Debug)]
pub(crate) struct Root {
    address: SocketAddr,
    stop: Arc<Stop>,
    /// Closed by the end of the thread.
    ended: Mutex<mpsc::Receiver<()>>,
}

/// What a rendezvous needs.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// Of the job.
    pub(crate) secret: String,
    /// Where the ranks of each communicator meet, unless processes meet on an address of their own.
    pub(crate) bootstrap: IpAddr,
    /// How long workers wait for the others.
    pub(crate) timeout: Duration,
    /// Whether another job may follow.
    pub(crate) stays: bool,
    /// Of a job whose rendezvous was another process's, which is lost.
    pub(crate) after: Option<Box<After>>,
}

/// Where a job stands whose rendezvous is lost.
#[derive(Clone, Debug)]
pub(crate) struct After {
    /// Its last group.
    pub(crate) group: Membership,
    /// Ranks of it that are lost; none: what has become of it is not known.
    pub(super) lost: Vec<(usize, Option<Gone>)>,
    /// Where newcomers look for the rendezvous (`RSUM_ROOT`).
    pub(crate) addresses: Vec<String>,
}

#[derive(Debug)]
struct Stop {
    is_set: AtomicBool,
    wake: Wake,
}

impl Root {
    /// Listens at `address`; nothing if another process does, or if it is no address of this machine.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn listen(address: &str) -> Result<Option<TcpListener>> {
        match TcpListener::bind(address) {
            Ok(listener) => {
                fork::keep_from_children(&listener);
                Ok(Some(listener))
            }
            Err(error) if is_anothers(&error) => Ok(None),
            Err(error) => Err(Error::system(format_args!("listen on {address} (RSUM_ROOT)"), &error)),
        }
    }

    /// Starts.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn start(listener: TcpListener, mut terms: Terms) -> Result<Self> {
        let mut address = listener.local_addr().map_err(|error| Error::system("getsockname", &error))?;
        if address.ip().is_unspecified() {
            address.set_ip(IpAddr::from([127, 0, 0, 1]));
        } else {
            terms.bootstrap = address.ip();
        }
        listener.set_nonblocking(true).map_err(|error| Error::system("a listener's mode", &error))?;
        let stop = Arc::new(Stop { is_set: AtomicBool::new(false), wake: Wake::new()? });
        let (end, ended) = mpsc::channel();
        let gate = Gate::new(listener, address, terms, Arc::clone(&stop))?;
        let thread = std::thread::Builder::new().name("rsccl-meeting".to_owned());
        let thread = thread.spawn(move || {
            gate.run();
            drop(end);
        });
        thread.map_err(|error| Error::system("starting the rendezvous' thread", &error))?;
        Ok(Self { address, stop, ended: Mutex::new(ended) })
    }

    /// Where it is reached from this machine.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until all workers have gone, but not longer than this.
    pub(crate) fn wait(&self, most: Duration) {
        let _ = lock(&self.ended).recv_timeout(most);
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        self.stop.is_set.store(true, Ordering::Release);
        self.stop.wake.set();
        let _ = lock(&self.ended).recv();
    }
}

/// The thread's own.
struct Gate {
    listeners: Vec<TcpListener>,
    /// Until when nobody is taken, since that has just failed.
    is_full: Option<Deadline>,
    /// Where the lost rendezvous was, or newcomers look for it else, and until when to try to listen there.
    unclaimed: (Vec<String>, Deadline),
    /// By which its process is known among the members.
    address: SocketAddr,
    terms: Terms,
    stop: Arc<Stop>,
    session: u64,
    book: Book,
    callers: BTreeMap<Id, Caller>,
    next_id: Id,
    /// When workers have waited long enough for a group.
    patience: Option<Deadline>,
    /// Who was not let in last, and why: those who wait may wait for it.
    turned_away: Option<String>,
    /// Members that are expected here.
    probes: Probes,
    /// The others meet elsewhere: this process was silent.
    is_forsaken: bool,
}

struct Caller {
    stream: TcpStream,
    buffer: Vec<u8>,
    nonce: String,
    /// Until it has shown that it knows the secret.
    stranger: Option<Deadline>,
}

impl Gate {
    fn new(listener: TcpListener, address: SocketAddr, mut terms: Terms, stop: Arc<Stop>) -> Result<Self> {
        let (mut book, mut session) = (Book::default(), new_session()?);
        let mut unclaimed = Vec::new();
        let mut lost = Vec::new();
        if let Some(after) = terms.after.take().map(|after| *after) {
            (book, session, unclaimed) = (Book::after(&after.group), after.group.session, after.addresses);
            lost = after.lost;
        }
        let mut gate = Self {
            listeners: vec![listener],
            is_full: None,
            unclaimed: (unclaimed, Deadline::after(CLAIM_WAIT)),
            address,
            terms,
            stop,
            session,
            book,
            callers: BTreeMap::new(),
            next_id: 0,
            patience: None,
            turned_away: None,
            probes: Probes::default(),
            is_forsaken: false,
        };
        for (rank, gone) in lost {
            match gone {
                Some(gone) => gate.book.decide(rank, gone),
                None => gate.doubt(rank),
            }
        }
        let expected: Vec<(usize, Seat)> =
            gate.book.expected().map(|(rank, seat)| (rank, seat.clone())).collect();
        expected.iter().for_each(|(rank, seat)| gate.probe(*rank, seat, false));
        Ok(gate)
    }

    /// Looks whether a member lives, but for this process's own. Half of the workers' patience is left for those that come late.
    fn probe(&mut self, rank: usize, seat: &Seat, is_silent: bool) {
        if let Some(door) = seat.door.filter(|door| *door != self.address) {
            self.probes.start(rank, door, self.terms.timeout / 2, is_silent);
        }
    }

    /// A member is silent, or its line has ended without a word of its kernel's.
    fn doubt(&mut self, rank: usize) {
        let Some(seat) = self.book.doubt(rank).cloned() else { return };
        match seat.door {
            Some(_) => self.probe(rank, &seat, true),
            // A loss ends the job of who has none.
            None => self.book.decide(rank, Gone::Dead),
        }
    }

    fn run(mut self) {
        loop {
            self.claim();
            if self.sleep().is_err() || self.stop.is_set.load(Ordering::Acquire) {
                return;
            }
            self.stop.wake.reset();
            self.accept();
            let ids: Vec<Id> = self.callers.keys().copied().collect();
            ids.into_iter().for_each(|id| self.listen(id));
            self.look_for_members();
            self.callers.retain(|_, caller| caller.stranger.is_none_or(|deadline| !deadline.passed()));
            self.form();
            if let Some(lost) = self.book.is_over() {
                self.callers.values().for_each(|caller| caller.tell(&FromRoot::Over { lost: lost.clone() }));
                let Ok(session) = new_session() else { return };
                if !self.terms.stays {
                    return;
                }
                (self.session, self.book) = (session, Book::default());
                self.callers.clear();
            }
        }
    }

    /// Listens where newcomers look. A process that has just died may be known to be dead before its address is free.
    fn claim(&mut self) {
        let (addresses, until) = &mut self.unclaimed;
        let listeners = &mut self.listeners;
        addresses.retain(|address| {
            let Ok(Some(listener)) = Root::listen(address) else { return !until.passed() };
            if listener.set_nonblocking(true).is_ok() {
                listeners.push(listener);
                let text =
                    format!("summation: newcomers find this process's rendezvous at {address} (RSUM_ROOT)");
                log::write(Level::Warn, subsystem::INIT, 0, &text);
            }
            false
        });
    }

    fn sleep(&self) -> Result<()> {
        let deadlines = self.callers.values().filter_map(|caller| caller.stranger).chain(self.patience);
        let most = if self.unclaimed.0.is_empty() { MAX_SLEEP } else { CLAIM_EVERY };
        let deadlines = deadlines.chain(self.probes.deadlines()).chain(self.is_full);
        let wait = deadlines.map(Deadline::left).min().unwrap_or(most).min(most);
        let callers = self.callers.values().map(|caller| PollFd::new(&caller.stream, PollFlags::IN));
        let doors = self
            .listeners
            .iter()
            .filter(|_| self.is_full.is_none())
            .map(|listener| PollFd::new(listener, PollFlags::IN));
        let probes = self.probes.fds();
        let own = [PollFd::new(&self.stop.wake, PollFlags::IN)];
        wake::sleep(&mut own.into_iter().chain(doors).chain(callers).chain(probes).collect::<Vec<_>>(), wait)
    }

    /// What has become of members that are not here, or not ready while another one is in doubt.
    fn look_for_members(&mut self) {
        for (rank, gone) in self.probes.look() {
            if let Some(id) = self.book.of_rank(rank) {
                self.callers.remove(&id);
            }
            self.book.decide(rank, gone);
        }
    }

    fn accept(&mut self) {
        if self.is_full.is_some_and(|until| !until.passed()) {
            return;
        }
        let (callers, fail): (Vec<_>, Vec<_>) = self.listeners.iter().map(accepting::waiting).unzip();
        self.is_full = fail.contains(&true).then(|| Deadline::after(accepting::PAUSE));
        for stream in callers.into_iter().flatten() {
            fork::keep_from_children(&stream);
            let is_stranger =
                |caller: &&Id| self.callers.get(*caller).is_some_and(|caller| caller.stranger.is_some());
            let strangers: Vec<Id> = self.callers.keys().filter(is_stranger).copied().collect();
            if strangers.len() >= MAX_STRANGERS {
                self.callers.remove(&strangers[0]);
            }
            if self.callers.len() >= MAX_CALLERS {
                continue;
            }
            if let Ok(caller) = Caller::new(stream) {
                self.callers.insert(self.next_id, caller);
                self.next_id += 1;
            }
        }
    }

    fn listen(&mut self, id: Id) {
        let Some(caller) = self.callers.get_mut(&id) else { return };
        let end = caller.read();
        loop {
            let Some(caller) = self.callers.get_mut(&id) else { return };
            match frame::take::<ToRoot>(&mut caller.buffer) {
                Ok(Some(message)) => self.hear(id, message),
                Ok(None) => break,
                Err(_) => return self.drop_caller(id, true),
            }
        }
        match end {
            None => {}
            Some(Gone::Dead) => self.drop_caller(id, true),
            Some(Gone::Missing) => {
                let rank = self.book.rank(id);
                rank.into_iter().for_each(|rank| self.doubt(rank));
                self.drop_caller(id, true);
            }
        }
    }

    fn hear(&mut self, id: Id, message: ToRoot) {
        let Some(caller) = self.callers.get_mut(&id) else { return };
        match (message, caller.stranger.is_some()) {
            (ToRoot::Hello { protocol, nonce, proof, seat, session, epoch }, true) => {
                let seat = *seat;
                let shown = (protocol, nonce.as_str(), proof.as_str());
                let (who, pid) = (seat.to_string(), seat.pid);
                let checked = caller.check(&self.terms.secret, shown, &seat);
                let is_ours = session.is_none_or(|session| session == self.session);
                let checked = checked.and_then(|()| is_ours.then_some(()).ok_or_else(|| ANOTHER.to_owned()));
                let is_new = session.is_none() && epoch.is_none() && seat.worker.is_some();
                if checked.is_ok() && is_new && self.book.is_ending() {
                    caller.tell(&FromRoot::Over { lost: None });
                    return self.drop_caller(id, false);
                }
                match checked.and_then(|()| self.book.admit(id, seat, epoch)) {
                    Ok(expected) => {
                        expected.into_iter().for_each(|rank| self.probes.end(rank));
                        let proof = proof::prove(&self.terms.secret, Prover::Root, &caller.nonce, &nonce);
                        caller.stranger = None;
                        let text = format!("summation: {who} has come to the rendezvous");
                        log::write(Level::Info, subsystem::INIT, 0, &text);
                        caller.tell(&FromRoot::Welcome { proof });
                    }
                    Err(why) => self.turn_away(id, (&who, pid), &why),
                }
            }
            (ToRoot::Ready(wanted), false) => self.ready(id, wanted),
            (ToRoot::Leave, false) => self.drop_caller(id, false),
            (ToRoot::Withdraw, false) if self.book.is_waiting(id) => {
                if let Some(caller) = self.callers.get(&id) {
                    caller.tell(&FromRoot::Over { lost: None });
                }
                self.drop_caller(id, false);
            }
            (ToRoot::Withdraw, false) => {}
            (ToRoot::GoneOn, false) => {
                self.is_forsaken = true;
                self.drop_caller(id, false);
            }
            _ => self.drop_caller(id, true),
        }
    }

    /// A process that is silent is lost though its connection is there.
    fn ready(&mut self, id: Id, wanted: Wanted) {
        if let Some(lost) = wanted.lost.filter(|lost| self.book.rank(id) != Some(*lost)) {
            if let Some(caller) = self.book.of_rank(lost).and_then(|lost| self.callers.remove(&lost)) {
                caller.tell(&FromRoot::Refused { why: FORSAKEN.to_owned() });
            }
            self.doubt(lost);
            // The rest may be behind the same cut. Who becomes ready is.
            for (rank, seat) in self.book.not_ready_members() {
                self.probe(rank, &seat, false);
            }
        }
        self.book.rank(id).into_iter().for_each(|rank| self.probes.end(rank));
        self.book.ready(id, wanted);
    }

    fn form(&mut self) {
        for id in self.book.overruled() {
            self.callers.get(&id).into_iter().for_each(|caller| caller.tell(&FromRoot::Overruled));
        }
        let waiting = self.book.waiting_workers();
        if self.is_forsaken {
            return self.refuse_all(waiting, FORSAKEN);
        }
        match self.book.form() {
            Ok(Some(formed)) => {
                self.patience = None;
                self.probes.clear();
                self.begin(&formed);
            }
            Ok(None) if waiting.is_empty() => self.patience = None,
            Ok(None) => {
                let timeout = self.terms.timeout;
                if self.patience.get_or_insert_with(|| Deadline::after(timeout)).passed() {
                    let turned_away =
                        self.turned_away.take().map_or_else(String::new, |who| format!("; {who}"));
                    let why = format!("{}, after {} s{turned_away}", self.book.missing(), timeout.as_secs());
                    self.refuse_all(waiting, &why);
                    self.patience = None;
                }
            }
            Err(why) => self.refuse_all(waiting, &why),
        }
    }

    fn begin(&mut self, formed: &Formed) {
        let id = match root::start(self.terms.bootstrap, self.terms.timeout) {
            Ok(id) => id.to_bytes().to_vec(),
            Err(error) => {
                let why = error.to_string();
                return formed.members.iter().for_each(|(id, _)| self.refuse(*id, &why));
            }
        };
        let seats: Vec<Seat> = formed.members.iter().map(|(_, seat)| seat.clone()).collect();
        let root = seats.iter().position(|seat| seat.door == Some(self.address));
        for (rank, (caller, _)) in formed.members.iter().enumerate() {
            let membership = Membership {
                session: self.session,
                epoch: formed.epoch,
                id: id.clone(),
                rank,
                n_workers: formed.n_workers,
                seats: seats.clone(),
                root,
            };
            if let Some(caller) = self.callers.get(caller) {
                caller.tell(&FromRoot::Membership(Box::new(membership)));
            }
        }
    }

    /// This process's own worker at last, which may end the process.
    fn refuse_all(&mut self, mut ids: Vec<Id>, why: &str) {
        ids.sort_by_key(|id| self.book.door(*id) == Some(self.address));
        ids.into_iter().for_each(|id| self.refuse(id, why));
    }

    /// Does not let a process in. With the own process's worker the rendezvous ends, so the others are told first.
    fn turn_away(&mut self, id: Id, (who, pid): (&str, u32), why: &str) {
        let is_local = self.callers.get(&id).is_some_and(Caller::is_of_this_machine);
        if is_local && pid == std::process::id() {
            let all: Vec<Id> = self.callers.keys().copied().filter(|other| *other != id).collect();
            let why = format!("{who}, which gives the rendezvous, cannot take part: {why}");
            all.into_iter().for_each(|other| self.refuse(other, &why));
        } else {
            self.turned_away = Some(format!("{who} was turned away: {why}"));
        }
        self.refuse(id, why);
    }

    fn refuse(&mut self, id: Id, why: &str) {
        if let Some(caller) = self.callers.get(&id) {
            caller.tell(&FromRoot::Refused { why: why.to_owned() });
        }
        self.drop_caller(id, true);
    }

    fn drop_caller(&mut self, id: Id, has_died: bool) {
        self.callers.remove(&id);
        self.book.remove(id, has_died);
    }
}

impl Caller {
    fn new(stream: TcpStream) -> Result<Self> {
        let nonce = proof::nonce()?;
        let set =
            |result: std::io::Result<()>| result.map_err(|error| Error::system("a caller's socket", &error));
        set(stream.set_nodelay(true))?;
        set(stream.set_nonblocking(false))?;
        set(stream.set_write_timeout(Some(HELLO_WAIT)))?;
        let caller = Self { stream, buffer: Vec::new(), nonce, stranger: Some(Deadline::after(HELLO_WAIT)) };
        caller.tell(&FromRoot::Challenge { protocol: Protocol::OURS, nonce: caller.nonce.clone() });
        Ok(caller)
    }

    /// Whether it may be let in.
    fn check(
        &self,
        secret: &str,
        (protocol, nonce, shown): (Protocol, &str, &str),
        seat: &Seat,
    ) -> std::result::Result<(), String> {
        if !proof::is_right(shown, &proof::prove(secret, Prover::Caller, &self.nonce, nonce)) {
            return Err("RSUM_SECRET is another one there".to_owned());
        }
        if protocol != Protocol::OURS {
            let ours = Protocol::OURS;
            return Err(format!(
                "{seat} speaks protocol {protocol}, the rendezvous {ours}: all processes need the same librsccl.so"
            ));
        }
        Ok(())
    }

    fn is_of_this_machine(&self) -> bool {
        let ends = (self.stream.local_addr(), self.stream.peer_addr());
        matches!(ends, (Ok(local), Ok(peer)) if local.ip() == peer.ip())
    }

    /// Reads what is there; what its end says of the process, at the end of the connection.
    fn read(&mut self) -> Option<Gone> {
        let mut bytes = [0; 4096];
        while self.buffer.len() < MAX_BUFFERED_BYTES {
            match rustix::net::recv(&self.stream, &mut bytes, RecvFlags::DONTWAIT).map(|(count, _)| count) {
                Ok(0) => return Some(Gone::Dead),
                Ok(count) => self.buffer.extend_from_slice(&bytes[..count]),
                Err(Errno::AGAIN) => return None,
                Err(Errno::INTR) => {}
                Err(error) => return Some(Gone::of(&error.into())),
            }
        }
        Some(Gone::Dead)
    }

    /// Who takes nothing is found out by its silence in the group.
    fn tell(&self, message: &FromRoot) {
        if let Ok(bytes) = frame::encode(message) {
            let _ = (&self.stream).write_all(&bytes);
        }
    }
}

fn new_session() -> Result<u64> {
    let [a, b, c, d, e, f, g, h, ..] = rsccl_collective::net::secret::new_secret()?;
    Ok(u64::from_le_bytes([a, b, c, d, e, f, g, h]).max(1))
}

/// Whether it is for another process to listen there.
fn is_anothers(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::AddrInUse | std::io::ErrorKind::AddrNotAvailable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::nics::Nic;

    #[test]
    fn a_process_does_not_look_at_its_own_door_at_which_it_would_hang_up_on_itself() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let other = SocketAddr::from(([127, 0, 0, 1], 1));
        let seat = |door: SocketAddr| Seat {
            worker: Some(usize::from(door == other)),
            n_workers: Some(2),
            n_servers: None,
            host: "host".to_owned(),
            host_id: "host".to_owned(),
            pid: 7,
            nic: Nic::default(),
            continues: true,
            mode: None,
            door: Some(door),
        };
        let seats = vec![seat(address), seat(other)];
        let group =
            Membership { session: 1, epoch: 0, id: Vec::new(), rank: 0, n_workers: 2, seats, root: Some(1) };
        let after = After { group, lost: Vec::new(), addresses: Vec::new() };
        let terms = Terms {
            secret: String::new(),
            bootstrap: address.ip(),
            timeout: HELLO_WAIT,
            stays: false,
            after: Some(Box::new(after)),
        };
        let stop = Arc::new(Stop { is_set: AtomicBool::new(false), wake: Wake::new().unwrap() });
        let gate = Gate::new(listener, address, terms, stop).unwrap();
        assert_eq!((gate.book.expected().count(), gate.probes.deadlines().count()), (2, 1));
    }
}
