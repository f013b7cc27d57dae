//! A pool's server: it waits for the broker to lend it, serves that job, and is free again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::super::rendezvous::meeting::CallOff;
use super::line::{Line, NoLine};
use super::message::{At, FromBroker, JobId, Order, ToBroker, Who};
use crate::config::PoolSettings;
use rsccl_collective::error::{Error, Result};
use rsccl_collective::lock::lock;
use rsccl_collective::log::{self, Level, subsystem};

/// A broker that is gone is called again after this.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two looks whether the server is to end.
const LOOK: Duration = Duration::from_millis(200);

/// A job that a server is lent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loan {
    /// Which.
    pub(crate) job: JobId,
    /// Where its processes meet.
    pub(crate) roots: Vec<String>,
}

/// A server's side of its pool.
#[derive(Debug)]
pub(crate) struct Lent(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    pool: PoolSettings,
    host: String,
    call_off: Arc<CallOff>,
    is_over: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    line: Option<Arc<Line>>,
    loan: Option<Loan>,
    at: At,
}

impl Lent {
    /// Calls the broker, and again whenever it is gone. What it asks back is let go by `call_off`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(pool: PoolSettings, host: String, call_off: Arc<CallOff>) -> Result<Self> {
        let state = Mutex::new(State { line: None, loan: None, at: At::Free });
        let (is_over, changed) = (AtomicBool::new(false), Condvar::new());
        let shared = Arc::new(Shared { pool, host, call_off, is_over, state, changed });
        let hears = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("sumd-pool".to_owned());
        let thread = thread.spawn(move || hears.run());
        thread.map_err(|error| Error::system("starting the pool's thread", &error))?;
        Ok(Self(shared))
    }

    /// Host and port of the broker.
    pub(crate) fn pool(&self) -> &str {
        &self.0.pool.address
    }

    /// Waits until the broker is reached. False: it is to end.
    pub(crate) fn is_reached(&self) -> bool {
        self.wait(|state| state.line.is_some().then_some(())).is_some()
    }

    /// Waits until it is lent. None: it is to end.
    pub(crate) fn loan(&self) -> Option<Loan> {
        self.wait(|state| state.loan.clone())
    }

    /// Waits until there is such a thing. None: it is to end.
    fn wait<T>(&self, thing: impl Fn(&State) -> Option<T>) -> Option<T> {
        let mut state = lock(&self.0.state);
        loop {
            if self.0.call_off.is_set() {
                return None;
            }
            if let Some(thing) = thing(&state) {
                return Some(thing);
            }
            let waited = self.0.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
        }
    }

    /// Says what it is at.
    pub(crate) fn at(&self, at: At) {
        let mut state = lock(&self.0.state);
        state.at = at;
        let job = state.job();
        if at == At::Free {
            state.loan = None;
        }
        state.tell(job);
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
        if let Some(line) = lock(&self.0.state).line.as_ref() {
            line.end();
        }
    }
}

impl State {
    fn job(&self) -> Option<JobId> {
        self.loan.as_ref().map(|loan| loan.job.clone())
    }

    /// With the job that this is about: a server that is free says which it has left.
    fn tell(&self, job: Option<JobId>) {
        if let Some(line) = &self.line {
            let _ = line.say(&ToBroker::At { at: self.at, job });
        }
    }
}

impl Shared {
    fn run(&self) {
        // Why there is no line, once for each time that it is so.
        let mut said = String::new();
        while !self.is_over.load(Ordering::Acquire) && !self.call_off.is_set() {
            let line = lock(&self.state).line.clone();
            match line.map(|line| line.hear()) {
                Some(Ok(FromBroker::Order(order))) => self.obey(order),
                Some(Ok(_)) => {}
                Some(Err(_)) => lock(&self.state).line = None,
                None => {
                    let Err(no_line) = self.open() else {
                        said.clear();
                        continue;
                    };
                    let why = no_line.into_error(&self.pool.address).to_string();
                    if why != said {
                        log::write(Level::Warn, subsystem::INIT, 0, &why);
                        said = why;
                    }
                    self.call_off.sleep(PAUSE);
                }
            }
        }
    }

    fn open(&self) -> std::result::Result<(), NoLine> {
        let (at, job) = {
            let state = lock(&self.state);
            (state.at, state.job())
        };
        let who = Who::Server { host: self.host.clone(), pid: std::process::id(), at, job: job.clone() };
        let line = Line::open(&self.pool.address, &self.pool.secret, who)?;
        let mut state = lock(&self.state);
        state.line = Some(Arc::new(line));
        self.changed.notify_all();
        // The broker may have lent it by now: it hears only what has changed since it was told.
        if state.at != at {
            state.tell(job);
        }
        Ok(())
    }

    fn obey(&self, order: Order) {
        let mut state = lock(&self.state);
        match order {
            Order::Serve { job, roots } => {
                // One that is told twice serves the first one still, and says so.
                if state.loan.is_none() {
                    (state.loan, state.at) = (Some(Loan { job, roots }), At::Called);
                    self.changed.notify_all();
                } else {
                    state.tell(state.job());
                }
            }
            Order::Release if state.at == At::Waiting => self.call_off.withdraw(),
            Order::Release => state.tell(state.job()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::super::super::rendezvous::message::Protocol;
    use super::super::super::rendezvous::proof::{self, Prover};
    use super::*;
    use rsccl_collective::net::frame;

    /// Lets the next caller in; who it is.
    fn let_in(broker: &TcpListener) -> (TcpStream, Who) {
        let (stream, _) = broker.accept().unwrap();
        let challenge = FromBroker::Challenge { protocol: Protocol::OURS, nonce: "one".to_owned() };
        frame::send(&stream, &challenge).unwrap();
        let ToBroker::Hello { nonce, who, .. } = frame::recv(&stream).unwrap() else { panic!("no hello") };
        let proof = proof::prove("", Prover::Broker, "one", &nonce);
        frame::send(&stream, &FromBroker::Welcome { proof }).unwrap();
        (stream, who)
    }

    fn is_at(who: Who) -> (At, Option<JobId>) {
        let Who::Server { at, job, .. } = who else { panic!("no server") };
        (at, job)
    }

    #[test]
    fn a_server_says_which_job_it_is_at_or_has_left_and_nothing_before_it_hears_that_it_is_lent() {
        let broker = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = broker.local_addr().unwrap().to_string();
        let pool = PoolSettings { address, secret: String::new() };
        let lent = Lent::start(pool, "host".to_owned(), Arc::default()).unwrap();
        let (stream, who) = let_in(&broker);
        assert_eq!(is_at(who), (At::Free, None));
        let job = JobId { name: "ada".to_owned(), session: 7 };
        let serve = Order::Serve { job: job.clone(), roots: vec!["127.0.0.1:1".to_owned()] };
        frame::send(&stream, &FromBroker::Order(serve)).unwrap();
        assert_eq!(lent.loan().map(|loan| loan.job), Some(job.clone()));
        lent.at(At::Waiting);
        // Not that it was free: by then it was lent.
        let said = |at| ToBroker::At { at, job: Some(job.clone()) };
        assert_eq!(frame::recv::<ToBroker>(&stream).unwrap(), said(At::Waiting));
        // The next broker hears at once where it is.
        drop(stream);
        let (stream, who) = let_in(&broker);
        assert_eq!(is_at(who), (At::Waiting, Some(job.clone())));
        lent.at(At::Free);
        assert_eq!(frame::recv::<ToBroker>(&stream).unwrap(), said(At::Free));
    }
}
