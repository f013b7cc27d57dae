//! What a job hears of its pool, which its worker 0 asks: how many servers there are for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::line::{Line, NoLine};
use super::message::{FromBroker, JobId, Lending, ToBroker, Who};
use crate::config::PoolSettings;
use rsccl_collective::clock::Deadline;
use rsccl_collective::error::{Error, Result};
use rsccl_collective::lock::lock;
use rsccl_collective::log::{self, Level, subsystem};

/// A broker that is gone is called again after this; until then the job keeps the servers that it has.
const PAUSE: Duration = Duration::from_secs(1);
/// Servers that the broker takes to be there, and that do not come, are waited for again after this: each time is another group.
const AGAIN: Duration = Duration::from_secs(10);

/// The line of a job's worker 0, and the thread that hears it.
#[derive(Debug)]
pub(crate) struct Borrower(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    pool: PoolSettings,
    id: JobId,
    roots: Vec<String>,
    most: usize,
    known: Mutex<Known>,
    is_over: AtomicBool,
    line: Mutex<Option<Arc<Line>>>,
}

/// What the job sums with, and what it was told.
#[derive(Clone, Copy, Debug)]
struct Known {
    has: usize,
    lending: Lending,
    /// So many did not come, and until when they are not waited for again.
    short: Option<(usize, Deadline)>,
}

impl Known {
    /// A number that was another one in between is of other servers.
    fn hear(&mut self, lending: Lending) {
        self.lending = lending;
        self.short = self.short.filter(|(wanted, _)| *wanted == lending.there);
    }
}

impl Borrower {
    /// Calls the broker, and again whenever it is gone. `pinned` is what an operator has said, as far as the job knows.
    ///
    /// # Errors
    /// It does not let this process in.
    pub(crate) fn start(
        pool: PoolSettings,
        (id, roots): (JobId, Vec<String>),
        most: usize,
        (has, pinned): (usize, Option<usize>),
    ) -> Result<Self> {
        let known = Mutex::new(Known { has, lending: Lending { there: has, pinned }, short: None });
        let (is_over, line) = (AtomicBool::new(false), Mutex::new(None));
        let shared = Arc::new(Shared { pool, id, roots, most, known, is_over, line });
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

    /// Servers that the job may sum with now, and what an operator has said.
    pub(crate) fn lending(&self) -> Lending {
        let Known { has, lending, short } = *lock(&self.0.known);
        match short {
            Some((wanted, until)) if lending.there == wanted && !until.passed() => {
                Lending { there: has, ..lending }
            }
            _ => lending,
        }
    }

    /// Tells the broker with how many the job sums now, where it wanted so many. It answers how many there are; until then there are
    /// no more than these.
    pub(crate) fn has(&self, servers: usize, wanted: Option<usize>) {
        let mut known = lock(&self.0.known);
        known.has = servers;
        known.short =
            wanted.filter(|wanted| *wanted > servers).map(|wanted| (wanted, Deadline::after(AGAIN)));
        known.lending.there = known.lending.there.min(servers);
        drop(known);
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
        let Known { has, lending, .. } = *lock(&self.known);
        let (id, roots) = (self.id.clone(), self.roots.clone());
        let who = Who::Job { id, roots, most: self.most, has, pinned: lending.pinned };
        let line = Line::open(&self.pool.address, &self.pool.secret, who)?;
        let mut place = lock(&self.line);
        let now = lock(&self.known).has;
        if now != has {
            let _ = line.say(&ToBroker::Has(now));
        }
        *place = Some(Arc::new(line));
        Ok(())
    }

    fn run(&self) {
        while !self.is_over.load(Ordering::Acquire) {
            let line = lock(&self.line).clone();
            match line.map(|line| line.hear()) {
                Some(Ok(FromBroker::Servers(lending))) => lock(&self.known).hear(lending),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_do_not_come_are_not_asked_for_at_every_step() {
        // Nobody is there, so all that it hears is said by this test.
        let pool = PoolSettings { address: "127.0.0.1:1".to_owned(), secret: String::new() };
        let id = JobId { name: "ada".to_owned(), session: 1 };
        let borrower = Borrower::start(pool, (id, Vec::new()), 3, (1, None)).unwrap();
        let told = |there: usize| lock(&borrower.0.known).hear(Lending { there, pinned: None });
        told(2);
        assert_eq!(borrower.lending().there, 2);
        borrower.has(1, Some(2));
        told(2);
        assert_eq!(borrower.lending().there, 1);
        told(1);
        told(2);
        assert_eq!(borrower.lending().there, 2, "another one has come");
        // After a loss who waits is taken at once.
        borrower.has(1, None);
        told(2);
        assert_eq!(borrower.lending().there, 2);
    }
}
