//! The loop that drives operations: all lanes of one or more communicators at once, looking, yielding and sleeping.
//!
//! NCCL's kernels and its proxy (`ncclProxyProgress`) share this work: here one thread moves the bytes of all transports and
//! reduces them.
//!
//! A launch is what one group (or one call) asks of one communicator. Launches of one communicator take turns in the
//! order they were issued, on whatever streams. Whoever drives, whether the caller, a stream's thread or who waits for a
//! stream, holds the communicator's engine for so long; a launch that one of them leaves unfinished, another resumes.
//!
//! With silent faults, a launch that cannot go on stays: it waits, asleep, until its communicator is aborted here.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use crate::clock;
use crate::collective::operation::Operation;
use crate::collective::primitive::Primitive;
use crate::comm::Comm;
use crate::error::{Error, Result};
use crate::lock::lock;
use crate::log::{self, Level, subsystem};
use crate::net::account::Stuck;
use crate::net::control::Failure;
use crate::net::link::Header;
use crate::net::verdict::OTHER_CALL;
use crate::net::wake;
use crate::run::affinity::Affinity;
use crate::run::backoff::{Backoff, Next};
use crate::run::engine::Engine;
use crate::run::trouble::Trouble;
use crate::transport::Fault;
use crate::transport::shm::doorbell::{Doorbell, Mode, Nap};
use crate::transport::shm::host::Host;

/// How long to sleep where a connection wakes nobody: a tenth of what a small message takes over such a network, and some
/// percents of a core.
const ASK_AGAIN: Duration = Duration::from_micros(50);

/// What one group asks of one communicator.
#[derive(Debug)]
pub(crate) struct Launch {
    /// Of which communicator.
    pub(crate) comm: Arc<Comm>,
    /// Its place among the communicator's launches.
    pub(crate) ticket: u64,
    /// In the order of the calls.
    pub(crate) operations: Vec<Operation>,
}

/// Runs launches together; the first error, if any. Every launch's turn is over on return.
pub(crate) fn run(launches: &[Launch]) -> Result<()> {
    let mut turns: Vec<_> = launches.iter().map(|launch| launch.comm.turns.take(launch.ticket)).collect();
    let mut runs: Vec<Run<'_>> =
        launches.iter().map(|launch| Run::begin(&launch.comm, &launch.operations)).collect();
    let mut result = Ok(());
    // Each is let go as soon as it is over: who aborts its communicator does not wait for the others.
    while !runs.is_empty() {
        drive(&mut runs, None);
        while let Some(over) = runs.iter().position(|run| run.outcome.is_some()) {
            let outcome = runs.remove(over).outcome.unwrap_or(Ok(()));
            drop(turns.remove(over));
            result = result.and(outcome);
        }
    }
    result
}

/// Begins a launch whose turn it is, and drives it until it is over or nothing has moved for `patience`. Nothing: it is
/// to be resumed.
pub(crate) fn start(comm: &Comm, operations: &[Operation], patience: Duration) -> Option<Result<()>> {
    let mut run = Run::begin(comm, operations);
    drive(std::slice::from_mut(&mut run), Some(patience));
    run.outcome.take()
}

/// Drives a launch that [`start`] left, to its end.
pub(crate) fn resume(comm: &Comm) -> Result<()> {
    let mut run = Run::of(comm, None);
    drive(std::slice::from_mut(&mut run), None);
    run.outcome.take().unwrap_or(Ok(()))
}

/// Until one is over, or nothing has moved for `patience`.
fn drive(runs: &mut [Run<'_>], patience: Option<Duration>) {
    let crowded = runs.iter().any(|run| run.comm.crowded);
    let mut backoff = Backoff::new(crowded, patience);
    loop {
        let moved = look(runs);
        if any_is_over(runs) {
            return;
        }
        if moved {
            backoff.moved();
            continue;
        }
        match backoff.next() {
            Next::Spin => std::hint::spin_loop(),
            Next::Yield => std::thread::yield_now(),
            Next::Sleep(most) => {
                if sleep(runs, most) {
                    backoff.moved();
                }
            }
            Next::GiveUp => return,
        }
    }
}

fn any_is_over(runs: &[Run<'_>]) -> bool {
    runs.iter().any(|run| run.outcome.is_some())
}

fn look(runs: &mut [Run<'_>]) -> bool {
    runs.iter_mut().fold(false, |moved, run| run.step() | moved)
}

/// Sleeps until something may move; whether something had moved already.
fn sleep(runs: &mut [Run<'_>], most: Duration) -> bool {
    let most = runs.iter_mut().fold(most, |most, run| most.min(run.note_stillness()));
    let is_asked = runs.iter().any(|run| run.engine.must_be_asked());
    let most = if is_asked { most.min(ASK_AGAIN) } else { most };
    runs.iter().for_each(|run| run.comm.reset_runner());
    let comms: Vec<&Comm> = runs.iter().map(|run| run.comm).collect();
    let needs_fds = runs.len() > 1 || runs.iter().any(|run| run.connections().next().is_some());
    let mode = if needs_fds { Mode::BellAndFds } else { Mode::Bell };
    let bells = || comms.iter().filter_map(|comm| comm.host.as_ref()).map(Host::doorbell);
    let mut naps: Vec<Nap<'_>> = bells().map(|bell| bell.prepare(mode)).collect();
    // What came before is seen by this look, and what comes after it ends the sleep.
    if look(runs) || any_is_over(runs) {
        return true;
    }
    runs.iter_mut().for_each(Run::compare);
    if any_is_over(runs) {
        return true;
    }
    let mut fds: Vec<PollFd<'_>> = runs.iter().flat_map(Run::poll_fds).collect();
    let slept = match naps.pop() {
        None => wake::sleep(&mut fds, most),
        Some(nap) => {
            // The nap adds its own bell's descriptor.
            let others: Vec<_> = bells().take(naps.len()).collect();
            fds.extend(others.iter().map(|bell| PollFd::new(bell.event(), PollFlags::IN)));
            let slept = nap.sleep(&fds, most);
            others.into_iter().for_each(Doorbell::reset);
            slept
        }
    };
    drop(fds);
    // Whoever has woken this thread may have drawn it to its core.
    runs.iter().find_map(|run| run.comm.affinity).into_iter().for_each(Affinity::keep_apart);
    if let Err(error) = slept {
        runs.iter_mut().for_each(|run| run.break_off(&error));
    }
    false
}

struct Run<'a> {
    comm: &'a Comm,
    engine: MutexGuard<'a, Engine>,
    outcome: Option<Result<()>>,
    /// The first operation, by which an error is named before anything runs.
    first: Option<(Primitive, u64)>,
    /// When it was seen first that nothing moves.
    still_since_ns: Option<u64>,
    /// Whether it cannot go on and waits for an abort.
    stays: bool,
}

impl<'a> Run<'a> {
    fn of(comm: &'a Comm, first: Option<(Primitive, u64)>) -> Self {
        // Of what could not begin, nothing is left to drive: who resumes it must not take that for its end.
        let stays = comm.is_silent() && comm.health.is_broken();
        Self { comm, engine: lock(&comm.engine), outcome: None, first, still_since_ns: None, stays }
    }

    fn begin(comm: &'a Comm, operations: &[Operation]) -> Self {
        let mut run =
            Self::of(comm, operations.first().map(|operation| (operation.primitive, operation.sequence)));
        comm.health.activity.begin();
        if run.healthy() {
            comm.connect_at_runtime(operations);
            if let Err(error) = run.engine.begin(comm, operations) {
                run.break_off(&error);
            }
        }
        run
    }

    /// One round; whether anything moved.
    fn step(&mut self) -> bool {
        if self.outcome.is_some() || !self.healthy() || self.stays {
            return false;
        }
        self.take_inbound();
        match self.engine.round() {
            Ok(moved) => {
                if moved {
                    self.note_movement();
                }
                if self.engine.is_over() {
                    self.end(Ok(()));
                }
                moved
            }
            Err(trouble) => {
                self.blame(trouble);
                false
            }
        }
    }

    /// Looks whether the other ranks of the host call the same.
    fn compare(&mut self) {
        if self.outcome.is_none()
            && !self.comm.is_silent()
            && let Some(trouble) = self.engine.compare(self.comm)
        {
            self.blame(trouble);
        }
    }

    /// Whether the communicator has not failed; otherwise the run is over.
    fn healthy(&mut self) -> bool {
        if !self.comm.health.has_failed() {
            return true;
        }
        if let Some(failure) = self.comm.health.failure() {
            let error = failure.error(&self.current_label());
            self.end(Err(error));
        }
        false
    }

    /// The operation that the run is at.
    fn current_label(&self) -> String {
        let label = |(primitive, sequence)| self.comm.label(primitive, sequence);
        self.engine.current().or(self.first).map_or_else(|| self.comm.name(), label)
    }

    fn blame(&mut self, trouble: Trouble) {
        if self.comm.is_silent() {
            return self.stay(trouble);
        }
        let label = self.comm.label(trouble.primitive, trouble.sequence);
        match trouble.fault {
            Fault::Closed => {
                let what = format!("{} closed the connection", self.comm.names[trouble.peer]);
                let failure = self.comm.health.suspect(Failure::new(6, what));
                self.end(Err(failure.error(&label)));
            }
            Fault::Mismatch(header) => {
                let (error, how) = mismatch(&trouble, &header);
                // Rank 0 knows it with the suspicion, and asks the others for theirs.
                self.comm.health.activity.answer(self.stuck(Duration::ZERO));
                self.accuse(&error, Some(how));
            }
            Fault::Broken(error) => self.break_off(&error),
        }
    }

    /// What NCCL does: the rank whose socket was closed has an error for who asks, and says so in the log; who waits for
    /// shared memory, or got what it did not expect, waits on. Nothing ends.
    fn stay(&mut self, trouble: Trouble) {
        self.stays = true;
        match (trouble.fault, trouble.remote) {
            (Fault::Closed, Some((ip, port))) => {
                // NCCL's words, in `ncclSocketProgress`.
                let ip = self.comm.address(trouble.peer, ip);
                let what = format!("socketProgress: Connection closed by remote peer {ip}<{port}>");
                self.keep(&Error::Remote(what));
            }
            (Fault::Broken(error), _) => self.keep(&error),
            (Fault::Closed, None) | (Fault::Mismatch(_), _) => {}
        }
    }

    fn keep(&mut self, error: &Error) {
        self.stays = true;
        log::write(Level::Warn, subsystem::NET, self.comm.device(), &error.to_string());
        self.comm.health.keep(Failure::new(error.code(), error.to_string()));
    }

    fn break_off(&mut self, error: &Error) {
        if self.comm.is_silent() {
            return self.keep(error);
        }
        self.accuse(error, None);
    }

    fn accuse(&mut self, error: &Error, mismatch: Option<String>) {
        let what = format!("{error} (seen by {})", self.comm.names[self.comm.rank]);
        let failure = self.comm.health.suspect(Failure { code: error.code(), what, mismatch });
        let label = self.current_label();
        self.end(Err(failure.error(&label)));
    }

    fn end(&mut self, outcome: Result<()>) {
        self.note_movement();
        self.comm.health.activity.end();
        if let Err(error) = &outcome {
            self.comm.set_last_error(error);
            self.comm.host.iter().for_each(Host::take_back);
        }
        self.engine.end();
        self.outcome = Some(outcome);
    }

    fn note_movement(&mut self) {
        if self.still_since_ns.take().is_some() {
            self.comm.health.activity.set_stuck(None);
        }
    }

    /// Tells the watcher once nothing has moved for a beat; returns when to tell it again.
    fn note_stillness(&mut self) -> Duration {
        if self.comm.is_silent() {
            return Duration::MAX;
        }
        let now = clock::monotonic_ns();
        let still = Duration::from_nanos(now - *self.still_since_ns.get_or_insert(now));
        let beat = self.comm.beat();
        if self.comm.health.activity.is_asked() {
            self.comm.health.activity.answer(self.stuck(still));
            self.comm.health.watcher.set();
        }
        if still >= beat {
            self.comm.health.activity.set_stuck(Some(self.stuck(still)));
        }
        if self.comm.health.is_coordinator_gone() {
            self.decide_alone(still);
        }
        beat
    }

    fn stuck(&self, still: Duration) -> Stuck {
        let Some((primitive, sequence)) = self.engine.current() else { return Stuck::default() };
        Stuck {
            operation: format!("{} #{sequence}", primitive.name()),
            collective: primitive.peer().is_none().then_some(sequence),
            signature: self.engine.current_signature(),
            still_ms: u64::try_from(still.as_millis()).unwrap_or(u64::MAX),
            ends: self.engine.ends(),
        }
    }

    /// Rank 0 has left, so that nobody knows more than this rank: who of the host has given up, and whom it waits for itself.
    fn decide_alone(&mut self, still: Duration) {
        if let Some(rank) = self.comm.host.as_ref().and_then(Host::given_up) {
            let what = format!("{} closed the connection", self.comm.names[rank]);
            return self.break_off(&Error::Remote(what));
        }
        if still < self.comm.timeout() {
            return;
        }
        let peer = self.engine.ends().iter().find(|end| end.waits).map(|end| end.peer);
        let whom = peer.map_or("a rank", |peer| self.comm.names[peer].as_str());
        let what = format!("nothing has come from {whom} for {:.1} s", still.as_secs_f32());
        self.break_off(&Error::Remote(what));
    }

    fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let wake = PollFd::new(&self.comm.health.runner, PollFlags::IN);
        self.connections().chain(std::iter::once(wake))
    }

    /// What would move it; an end of a connection that is known would wake the sleeper again and again.
    fn connections(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.engine.poll_fds().filter(|_| !self.stays)
    }

    fn take_inbound(&mut self) {
        if !self.comm.health.has_inbound() {
            return;
        }
        for inbound in self.comm.health.take_inbound() {
            let half = self.comm.open_recv(inbound.channel, inbound.streams, inbound.peer);
            self.engine.links.recvs.connect(inbound.channel, inbound.peer, half);
        }
    }
}

/// A message that is not the one expected means that the ranks called different things; which of the two is another one than
/// the others' is for rank 0 to say. Also returns how calls of the same name may differ.
fn mismatch(trouble: &Trouble, got: &Header) -> (Error, String) {
    let Trouble { peer, primitive, sequence, before, .. } = *trouble;
    let theirs = format!("{} #{}", Primitive::name_of(got.function), got.sequence);
    let how = before.map_or(OTHER_CALL.to_owned(), |(before, number)| {
        format!("{OTHER_CALL}, or another call before it, the last of which was {} #{number},", before.name())
    });
    let is_alike = (got.function, got.sequence) == (primitive.code(), sequence);
    let instead = || format!("instead of {} #{sequence}", Primitive::name_of(primitive.code()));
    let why = if is_alike { how.trim_end_matches(',').to_owned() } else { instead() };
    (Error::InvalidUsage(format!("rank {peer} called {theirs} {why}")), how)
}
