//! A pool's broker: it lets servers, jobs and operators in, and tells them what the book decides.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::super::accepting;
use super::super::keepalive::keep_alive;
use super::super::rendezvous::message::Protocol;
use super::super::rendezvous::proof::{self, Prover};
use super::super::server::Failed;
use super::book::{Book, Claim, Id, Say};
use super::message::{FromBroker, ToBroker, Who};
use crate::config;
use rsccl_collective::clock::{self, Deadline};
use rsccl_collective::error::{Error, Result};
use rsccl_collective::lock::lock;
use rsccl_collective::net::frame;

/// Who connects and does not show that it knows the secret, or takes nothing, is dropped after this.
const STEP_WAIT: Duration = Duration::from_secs(5);
/// Between two looks whether time alone has changed what is to be said.
const LOOK: Duration = Duration::from_secs(1);
/// Connections at most, each with a thread; more are hung up on.
const MAX_CALLERS: usize = 900;
/// Of those, callers that have not shown yet that they know the secret; the oldest gives way.
const MAX_STRANGERS: usize = 64;
/// What a caller may say before it has.
const MAX_HELLO_BYTES: usize = 64 * 1024;

/// A broker that listens.
#[derive(Debug)]
pub struct Broker {
    listener: TcpListener,
    secret: String,
}

/// What the callers' threads share.
#[derive(Debug, Default)]
struct Pool {
    book: Book,
    /// Who has been let in.
    lines: BTreeMap<Id, Arc<TcpStream>>,
    /// Who has not.
    strangers: BTreeMap<Id, Arc<TcpStream>>,
    n_callers: usize,
}

/// What a caller says before it is let in: so much and for so long at most.
struct Hello<'a> {
    stream: &'a TcpStream,
    deadline: Deadline,
    left_bytes: usize,
}

impl Read for Hello<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.deadline.passed() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(self.deadline.left().max(Duration::from_millis(1))))?;
        let most = into.len().min(self.left_bytes);
        let count = self.stream.read(&mut into[..most])?;
        self.left_bytes -= count;
        Ok(count)
    }
}

impl Broker {
    /// Listens at an address; RSUM_SECRET is the pool's.
    ///
    /// # Errors
    /// There is no secret where the address is not on loopback, or it cannot listen there.
    pub fn listen(address: &str) -> std::result::Result<Self, Failed> {
        let secret = config::pool_secret(address).map_err(|error| Failed::new(error.to_string()))?;
        let listener = TcpListener::bind(address);
        let listener = listener.map_err(|error| Failed::new(format!("listen on {address}: {error}")))?;
        Ok(Self { listener, secret })
    }

    /// Where.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn address(&self) -> std::result::Result<SocketAddr, Failed> {
        self.listener.local_addr().map_err(|error| Failed::new(format!("getsockname: {error}")))
    }

    /// Lives. `tell` gets a line about each thing that happens.
    pub fn run(self, tell: impl Fn(&str) + Send + Sync + 'static) {
        let (pool, tell) = (Arc::<Mutex<Pool>>::default(), Arc::new(tell));
        let secret = Arc::new(self.secret);
        let looks = Arc::clone(&pool);
        let clock = std::thread::Builder::new().name("sumd-broker-clock".to_owned());
        let clock = clock.spawn(move || {
            loop {
                std::thread::sleep(LOOK);
                lock(&looks).tell_all();
            }
        });
        if let Err(error) = clock {
            tell(&format!("no thread to look at the time: {error}"));
        }
        for (id, stream) in (0..).zip(accepting::callers(&self.listener).map(Arc::new)) {
            if !lock(&pool).take(id, &stream) {
                continue;
            }
            let (of_caller, secret, tell) = (Arc::clone(&pool), Arc::clone(&secret), Arc::clone(&tell));
            let thread = std::thread::Builder::new().name("sumd-broker".to_owned());
            let serve = move || {
                let who = serve(id, &stream, &of_caller, &secret, &*tell);
                lock(&of_caller).forget(id);
                if let Some(who) = who.filter(|who| *who != Who::Operator) {
                    tell(&format!("{} has gone", name(&who)));
                }
            };
            if thread.spawn(serve).is_err() {
                lock(&pool).forget(id);
            }
        }
    }
}

impl Pool {
    /// Whether there is room for somebody who calls.
    fn take(&mut self, id: Id, stream: &Arc<TcpStream>) -> bool {
        if self.n_callers >= MAX_CALLERS {
            return false;
        }
        if self.strangers.len() >= MAX_STRANGERS
            && let Some((_, oldest)) = self.strangers.pop_first()
        {
            // Its thread finds that out.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        self.strangers.insert(id, Arc::clone(stream));
        self.n_callers += 1;
        true
    }

    /// A caller's line has ended.
    fn forget(&mut self, id: Id) {
        self.n_callers -= 1;
        self.strangers.remove(&id);
        self.lines.remove(&id);
        self.book.remove(id, clock::now());
        self.tell_all();
    }

    /// Says what the book wants said. Who cannot be told is found out by the end of its line.
    fn tell_all(&mut self) {
        for (id, say) in self.book.orders(clock::now()) {
            let message = match say {
                Say::Order(order) => FromBroker::Order(order),
                Say::Servers(lending) => FromBroker::Servers(lending),
            };
            if let Some(line) = self.lines.get(&id) {
                answer(line, &message);
            }
        }
    }
}

/// Hears a caller until its end. Who it was, if it was let in.
fn serve(
    id: Id,
    stream: &Arc<TcpStream>,
    pool: &Mutex<Pool>,
    secret: &str,
    tell: &impl Fn(&str),
) -> Option<Who> {
    let let_in = let_in(stream, secret);
    lock(pool).strangers.remove(&id);
    let who = match let_in {
        Ok(who) => who,
        Err(Error::InvalidUsage(why)) => {
            answer(stream, &FromBroker::Refused { why: why.clone() });
            tell(&format!("a caller is turned away: {why}"));
            return None;
        }
        Err(_) => return None,
    };
    {
        let mut pool = lock(pool);
        pool.lines.insert(id, Arc::clone(stream));
        match who.clone() {
            Who::Server { at, job, .. } => pool.book.server(id, name(&who), (at, job), clock::now()),
            Who::Job { id: job, roots, most, has, pinned } => {
                pool.book.job(id, job, Claim { roots, most, has, pinned }, clock::now());
            }
            Who::Operator => {}
        }
        pool.tell_all();
    }
    if who != Who::Operator {
        tell(&format!("{} has come", name(&who)));
    }
    while let Ok(message) = frame::recv::<ToBroker>(&**stream) {
        let mut pool = lock(pool);
        match message {
            ToBroker::At { at, job } => pool.book.at(id, at, job, clock::now()),
            ToBroker::Has(servers) => pool.book.has(id, servers, clock::now()),
            ToBroker::List => answer(stream, &FromBroker::Listing(pool.book.listing(clock::now()))),
            ToBroker::Lend { job, servers } => match pool.book.lend(&job, servers) {
                Ok(()) => {
                    answer(stream, &FromBroker::Listing(pool.book.listing(clock::now())));
                    let servers = servers
                        .map_or("as many servers as it is dealt".to_owned(), |n| format!("{n} servers"));
                    tell(&format!("an operator lends {job} {servers}"));
                }
                Err(why) => answer(stream, &FromBroker::Refused { why }),
            },
            ToBroker::Hello { .. } => break,
        }
        pool.tell_all();
    }
    Some(who)
}

fn let_in(stream: &TcpStream, secret: &str) -> Result<Who> {
    let failed = |error: io::Error| Error::system("a caller's connection", &error);
    stream.set_nodelay(true).map_err(failed)?;
    stream.set_write_timeout(Some(STEP_WAIT)).map_err(failed)?;
    keep_alive(stream).map_err(failed)?;
    let own = proof::nonce()?;
    let hello = Hello { stream, deadline: Deadline::after(STEP_WAIT), left_bytes: MAX_HELLO_BYTES };
    answer(stream, &FromBroker::Challenge { protocol: Protocol::OURS, nonce: own.clone() });
    let ToBroker::Hello { protocol, nonce, proof, who } = frame::recv(hello).map_err(failed)? else {
        return Err(Error::InvalidUsage("say hello first".to_owned()));
    };
    if !proof::is_right(&proof, &proof::prove(secret, Prover::Member, &own, &nonce)) {
        return Err(Error::InvalidUsage("RSUM_SECRET is another one there".to_owned()));
    }
    if protocol != Protocol::OURS {
        let ours = Protocol::OURS;
        let text = format!("it speaks protocol {protocol}, the broker {ours}: all need the same librsccl.so");
        return Err(Error::InvalidUsage(text));
    }
    answer(stream, &FromBroker::Welcome { proof: proof::prove(secret, Prover::Broker, &own, &nonce) });
    stream.set_read_timeout(None).map_err(failed)?;
    Ok(who)
}

fn name(who: &Who) -> String {
    match who {
        Who::Server { host, pid, .. } => format!("server {host}/{pid}"),
        Who::Job { id, .. } => format!("job {id}"),
        Who::Operator => "an operator".to_owned(),
    }
}

/// Who takes nothing has half a message by now, and hears no other one.
fn answer(mut stream: &TcpStream, message: &FromBroker) {
    let said = frame::encode(message).and_then(|bytes| stream.write_all(&bytes));
    if said.is_err() {
        let _ = stream.shutdown(Shutdown::Both);
    }
}
