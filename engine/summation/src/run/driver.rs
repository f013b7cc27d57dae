//! The thread that moves a group's bytes: it takes in what has come, lets worker and service say what goes out, and
//! sleeps when nothing moves.
//!
//! Pushes of the worker and answers of the service leave by turns, a frame each. Without that, whichever is first
//! fills the NIC, and the other machines wait for the rest.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use super::agree::Agreement;
use super::contributing::Contributing;
use super::line::{Outcome, Trouble};
use super::observe::{Facts, Watch};
use super::patience::Patience;
use super::pool::Pool;
use super::requests::{Request, Requests};
use super::serving::Serving;
use super::terms::Terms;
use super::timeline::{Process, Timeline};
use super::wire::strange;
use rsccl_collective::clock;
use rsccl_collective::comm::Comm;
use rsccl_collective::comm::links::Links;
use rsccl_collective::error::{Error, Result};
use rsccl_collective::kernels::control::use_standard_floats;
use rsccl_collective::lock::lock;
use rsccl_collective::log::{self, Level, subsystem};
use rsccl_collective::net::control::Failure;
use rsccl_collective::net::wake;
use rsccl_collective::run::backoff::{Backoff, Next};
use rsccl_collective::transport::Fault;
use rsccl_collective::transport::shm::doorbell::Mode;

/// How long to sleep where a connection wakes nobody: less than a part takes over a fast network, and some percents of a core.
const ASK_AGAIN: Duration = Duration::from_micros(200);
/// Frames of each kind that go out before what has come is looked at again.
const FRAMES_PER_LOOK: usize = 16;
/// Ranks that say who is waited for also where `NCCL_DEBUG` is not set.
const TELLERS: usize = 4;

/// What the thread owns.
#[derive(Debug)]
pub(super) struct Driver {
    pub(super) comm: Arc<Comm>,
    pub(super) requests: Arc<Requests>,
    /// Requests that are not looked at yet: where one fails, the others end with the group.
    pub(super) taken: VecDeque<Request>,
    pub(super) links: Links,
    pub(super) agreement: Agreement,
    /// None on a server.
    pub(super) contributing: Option<Contributing>,
    pub(super) serving: Serving,
    pub(super) pool: Arc<Pool>,
    pub(super) terms: Terms,
    /// Whether the others were told what is declared.
    pub(super) has_greeted: bool,
    /// Whether callers know that the agreement is reached.
    pub(super) has_started: bool,
    /// Only where somebody watches.
    pub(super) watch: Option<Watch>,
    /// Only where it is asked for.
    pub(super) timeline: Option<Arc<Timeline>>,
    pub(super) patience: Patience,
}

impl Driver {
    /// Drives the group to its end. The communicator has its connections back then.
    pub(super) fn run(mut self) {
        use_standard_floats();
        self.comm.health.activity.begin();
        let driven = catch_unwind(AssertUnwindSafe(|| self.drive()));
        let outcome = driven.unwrap_or_else(|_| {
            let error = Error::Internal("the summation's thread panicked".to_owned());
            Err(self.blame(Trouble::of(self.comm.rank, error)))
        });
        let outcome = outcome.and_then(|()| self.check_that_all_go_on());
        self.comm.health.activity.end();
        // Callers have their memory back when they are told.
        self.pool.stop();
        self.end_watch(&outcome);
        self.leave_timeline();
        lock(&self.comm.engine).links = self.links;
        self.requests.end(&outcome, self.serving.goes_on(), self.taken);
        for ending in self.contributing.iter_mut().flat_map(Contributing::give_up) {
            ending.set(outcome.clone());
        }
    }

    fn drive(&mut self) -> Result<()> {
        let mut backoff = Backoff::new(self.comm.crowded, None);
        loop {
            let moved = self.look()?;
            if self.is_over() {
                return Ok(());
            }
            if moved {
                backoff.moved();
                continue;
            }
            match backoff.next() {
                Next::Spin => std::hint::spin_loop(),
                Next::Yield => std::thread::yield_now(),
                Next::Sleep(most) => {
                    if self.sleep(most)? {
                        backoff.moved();
                    }
                }
                Next::GiveUp => {}
            }
        }
    }

    /// The last thing that is asked is whether what this process has said is on its way: who closes takes back what is not.
    fn is_over(&mut self) -> bool {
        self.has_started
            && self.requests.is_closed()
            && self.serving.is_over()
            && self.contributing.as_ref().is_none_or(Contributing::is_over)
            && self.links.go_on()
    }

    /// One round over everything; whether anything moved.
    fn look(&mut self) -> Result<bool> {
        if self.comm.health.has_failed()
            && let Some(failure) = self.comm.health.failure()
        {
            return Err(failure.error(&label(&self.comm)));
        }
        let now_ns = clock::monotonic_ns();
        self.look_for_late(now_ns)?;
        self.round(now_ns).map_err(|trouble| self.blame(trouble))
    }

    /// Who has left the group declares nothing more, and would be waited for.
    fn check_that_all_go_on(&self) -> Result<()> {
        let goes_on = self.contributing.as_ref().filter(|_| !self.requests.is_last());
        let Some((own, gone)) = goes_on.map(Contributing::worker).zip(self.serving.left_for_good()) else {
            return Ok(());
        };
        let text = format!(
            "worker {gone} had left the group when worker {own} declared more tensors; all workers must do the same"
        );
        Err(break_off(&self.comm, &Error::InvalidUsage(text)))
    }

    /// Says who is waited for; ends the group if that has lasted for long enough.
    fn look_for_late(&mut self, now_ns: u64) -> Result<()> {
        let waits = || {
            if self.has_started {
                self.serving.waits()
            } else {
                self.agreement.late(self.comm.rank).into_iter().collect()
            }
        };
        let Some(late) = self.patience.look(now_ns, waits) else { return Ok(()) };
        let tensor = late.wait.what.key().map_or("", |key| self.serving.tensor(key));
        let words = late.tell(&self.comm.names, tensor);
        if late.is_final {
            let what = format!("{words} (RSUM_TIMEOUT_S)");
            return Err(self.comm.health.suspect(Failure::new(6, what)).error(&label(&self.comm)));
        }
        let text = format!("{}: {words} (RSUM_WARN_S)", label(&self.comm));
        // Who set no level is to see why nothing moves; not a thousand times.
        if self.comm.rank < TELLERS {
            log::warn(self.comm.rank, &text);
        } else {
            log::write(Level::Warn, subsystem::ALL, self.comm.rank, &text);
        }
        Ok(())
    }

    fn round(&mut self, now_ns: u64) -> Outcome<bool> {
        let other = || {
            if self.has_started { self.serving.waits_to_leave() } else { self.agreement.late(self.comm.rank) }
        };
        self.requests.asked().answer(|| self.patience.date(self.serving.report(), other(), now_ns));
        self.take_inbound();
        self.links.go_on();
        let mut moved = self.listen(now_ns)?;
        if !self.has_greeted {
            moved |= self.greet()?;
        }
        if !self.has_started && self.agreement.is_reached() {
            self.has_started = true;
            self.begin_watch();
            self.requests.start();
        }
        moved |= self.speak(now_ns)?;
        if let Some(contributing) = &mut self.contributing {
            let n_finished = contributing.finish();
            if n_finished > 0 {
                self.requests.finish(n_finished);
                moved = true;
            }
            // Who gives up fails first and closes then: that is no leaving.
            let is_leaving = self.requests.is_closed() && !self.comm.health.has_failed();
            if self.has_started && contributing.is_idle() && is_leaving {
                let is_last = self.requests.is_last();
                contributing.leave(is_last);
                self.serving.leave(contributing.worker(), is_last)?;
                moved |= contributing.send_notes(&mut self.links)?;
            }
        }
        if let Some(watch) = &mut self.watch {
            watch.look(moved, now_ns, &self.serving, self.contributing.as_ref());
        }
        Ok(moved)
    }

    /// Prepares to sum what is declared, and says it, once that is known.
    fn greet(&mut self) -> Outcome<bool> {
        let Some((declarations, digest)) = self.agreement.declarations().zip(self.agreement.digest()) else {
            return Ok(false);
        };
        self.terms.sum_locally(self.agreement.is_local());
        let routes = self.terms.routes(declarations).map_err(|error| Trouble::of(self.comm.rank, error))?;
        let services =
            (self.terms.service(declarations, &routes), self.terms.host_sums(declarations, &routes));
        self.serving.adopt(services, &routes, Arc::clone(declarations));
        self.requests.place(routes.placement());
        if self.watch.is_some() {
            Watch::place(declarations, &mut self.serving, self.contributing.as_mut());
        }
        self.serving.greet(digest);
        self.contributing.iter_mut().for_each(|contributing| contributing.greet(digest));
        self.has_greeted = true;
        Ok(true)
    }

    fn begin_watch(&mut self) {
        let (Some(watch), Some(declarations)) = (&mut self.watch, self.agreement.declarations()) else {
            return;
        };
        watch.begin(&Facts { comm: &self.comm, terms: &self.terms, declarations });
    }

    fn end_watch(&mut self, outcome: &Result<()>) {
        let Some(watch) = self.watch.take() else { return };
        if let Err(error) = outcome
            && !self.has_started
            && self.terms.is_first()
        {
            return watch.fail_early(&self.comm, &self.terms, error);
        }
        let goes_on = !self.requests.is_last() || self.serving.goes_on();
        let mut contributing = self.contributing.as_mut();
        if let (Err(error), Some(contributing)) = (outcome, &mut contributing) {
            contributing.tell_failed(error.code());
        }
        let now_ns = clock::monotonic_ns();
        watch.end(outcome, goes_on, now_ns, &self.comm, (&mut self.serving, contributing));
    }

    fn leave_timeline(&self) {
        let (Some(timeline), Some(declarations)) = (&self.timeline, self.agreement.declarations()) else {
            return;
        };
        let (members, rank) = (self.terms.members, self.terms.rank);
        let (role, number) = match rank.checked_sub(members.n_workers) {
            None => ("worker", rank),
            Some(server) => ("server", server),
        };
        let process = Process {
            rank,
            role,
            number,
            n_workers: members.n_workers,
            n_servers: members.n_servers,
            epoch: self.terms.epochs.membership,
            generation: self.terms.epochs.placement,
            services: (0..members.n_ranks()).map(|service| members.rank_of_service(service)).collect(),
        };
        timeline.leave(&process, &self.comm, declarations);
    }

    fn listen(&mut self, now_ns: u64) -> Outcome<bool> {
        self.serving.unblock();
        let mut moved = self.serving.take_in(&mut self.links, &mut self.agreement)?;
        moved |= self.serving.tidy(&mut self.links)?;
        if let Some(contributing) = &mut self.contributing {
            contributing.unblock();
            moved |= contributing.take_in(&mut self.links, &mut self.agreement, now_ns)?;
            self.taken = self.requests.take();
            while let Some(request) = self.taken.pop_front() {
                moved = true;
                contributing.submit(request, now_ns)?;
            }
            moved |= contributing.begin(now_ns)?;
        }
        Ok(moved)
    }

    fn speak(&mut self, now_ns: u64) -> Outcome<bool> {
        let mut moved = false;
        if let Some(contributing) = &mut self.contributing {
            moved |= contributing.ask(&mut self.serving, now_ns)?;
            moved |= contributing.take_own(&mut self.serving, now_ns)?;
            moved |= contributing.relay(&mut self.serving, now_ns)?;
            moved |= contributing.send_notes(&mut self.links)?;
        }
        for _ in 0..FRAMES_PER_LOOK {
            let pushed = match &mut self.contributing {
                Some(contributing) => contributing.push(&mut self.links, &mut self.serving, now_ns)?,
                None => false,
            };
            let answered = self.serving.answer(&mut self.links)?;
            if !pushed && !answered {
                break;
            }
            moved = true;
        }
        Ok(moved)
    }

    /// Sleeps until something may move; whether something had moved already.
    fn sleep(&mut self, most: Duration) -> Result<bool> {
        let comm = Arc::clone(&self.comm);
        comm.health.runner.reset();
        let nap = comm.host.as_ref().map(|host| host.doorbell().prepare(Mode::BellAndFds));
        // What came before is seen by this look, and what comes after it ends the sleep.
        if self.look()? || self.is_over() {
            return Ok(true);
        }
        let now_ns = clock::monotonic_ns();
        let most = self.watch.as_ref().map_or(most, |watch| watch.bound(most, now_ns));
        let most = self.contributing.as_ref().map_or(most, |contributing| contributing.bound(most, now_ns));
        let most = if self.links.must_be_asked() { most.min(ASK_AGAIN) } else { most };
        let runner = PollFd::new(&comm.health.runner, PollFlags::IN);
        let contributing = self.contributing.iter().flat_map(|one| one.poll_fds(&self.links));
        let mut fds: Vec<PollFd<'_>> =
            self.serving.poll_fds(&self.links).chain(contributing).chain(std::iter::once(runner)).collect();
        let slept = match nap {
            Some(nap) => nap.sleep(&fds, most),
            None => wake::sleep(&mut fds, most),
        };
        drop(fds);
        slept.map_err(|error| self.blame(Trouble::of(self.comm.rank, error)))?;
        Ok(false)
    }

    fn take_inbound(&mut self) {
        if !self.comm.health.has_inbound() {
            return;
        }
        for inbound in self.comm.health.take_inbound() {
            let half = self.comm.open_recv(inbound.channel, inbound.streams, inbound.peer);
            self.links.recvs.connect(inbound.channel, inbound.peer, half);
        }
    }

    /// The error that trouble becomes.
    fn blame(&self, trouble: Trouble) -> Error {
        let Trouble { peer, fault } = trouble;
        match fault {
            Fault::Closed => {
                let what = format!("{} closed the connection", self.comm.names[peer]);
                self.comm.health.suspect(Failure::new(6, what)).error(&label(&self.comm))
            }
            Fault::Mismatch(header) => break_off(&self.comm, &strange(&header, peer)),
            Fault::Broken(error) => break_off(&self.comm, &error),
        }
    }
}

/// Ends the group for all its ranks. The error that this becomes, once rank 0 has said what happened first.
pub(super) fn break_off(comm: &Comm, error: &Error) -> Error {
    let what = format!("{error} (seen by {})", comm.names[comm.rank]);
    comm.health.suspect(Failure::new(error.code(), what)).error(&label(comm))
}

fn label(comm: &Comm) -> String {
    format!("summation on {}", comm.name())
}
