//! What a job hears of its pool, which its worker 0 asks: how many servers there are for it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::line::{Line, NoLine};
use super::message::{FromBroker, ToBroker, Who};
use crate::config::PoolSettings;
use rsccl_collective::error::{Error, Result};
use rsccl_collective::lock::lock;
use rsccl_collective::log::{self, Level, subsystem};

/// A broker that is gone is called again after this; until then the job keeps the servers that it has.
const PAUSE: Duration = Duration::from_secs(1);

/// The line of a job's worker 0, and the thread that hears it.
#[derive(Debug)]
pub(crate) struct Borrower(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    pool: PoolSettings,
    name: String,
    roots: Vec<String>,
    most: usize,
    /// Servers that the job sums with.
    has: AtomicUsize,
    /// Servers that it may sum with.
    there: AtomicUsize,
    is_over: AtomicBool,
    line: Mutex<Option<Arc<Line>>>,
}

impl Borrower {
    /// Calls the broker, and again whenever it is gone.
    ///
    /// # Errors
    /// It does not let this process in.
    pub(crate) fn start(
        pool: PoolSettings,
        (name, roots): (String, Vec<String>),
        most: usize,
        has: usize,
    ) -> Result<Self> {
        let (has, there) = (AtomicUsize::new(has), AtomicUsize::new(has));
        let (is_over, line) = (AtomicBool::new(false), Mutex::new(None));
        let shared = Arc::new(Shared { pool, name, roots, most, has, there, is_over, line });
        match shared.open() {
            Ok(()) => {}
            Err(NoLine::Final(error)) => return Err(error),
            Err(nobody) => {
                let text = nobody.into_error(&shared.pool.address).to_string();
                log::write(Level::Warn, subsystem::INIT, 0, &text);
            }
        }
        let hears = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("rsccl-pool".to_owned());
        let thread = thread.spawn(move || hears.run());
        thread.map_err(|error| Error::system("starting the pool's thread", &error))?;
        Ok(Self(shared))
    }

    /// Servers that the job may sum with now.
    pub(crate) fn there(&self) -> usize {
        self.0.there.load(Ordering::Acquire)
    }

    /// Tells the broker with how many the job sums now.
    pub(crate) fn has(&self, servers: usize) {
        self.0.has.store(servers, Ordering::Release);
        if let Some(line) = lock(&self.0.line).as_ref() {
            let _ = line.say(&ToBroker::Has(servers));
        }
    }
}

impl Drop for Borrower {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
        if let Some(line) = lock(&self.0.line).as_ref() {
            line.end();
        }
    }
}

impl Shared {
    fn open(&self) -> std::result::Result<(), NoLine> {
        let who = Who::Job {
            name: self.name.clone(),
            roots: self.roots.clone(),
            most: self.most,
            has: self.has.load(Ordering::Acquire),
        };
        let line = Line::open(&self.pool.address, &self.pool.secret, who)?;
        *lock(&self.line) = Some(Arc::new(line));
        Ok(())
    }

    fn run(&self) {
        while !self.is_over.load(Ordering::Acquire) {
            let line = lock(&self.line).clone();
            match line.map(|line| line.hear()) {
                Some(Ok(FromBroker::Servers(there))) => self.there.store(there, Ordering::Release),
                Some(Ok(_)) => {}
                Some(Err(_)) => *lock(&self.line) = None,
                None => {
                    std::thread::sleep(PAUSE);
                    // Who is not let in any more keeps what it has, as without a broker.
                    let _ = self.open();
                }
            }
        }
        if let Some(line) = lock(&self.line).take() {
            line.end();
        }
    }
}
