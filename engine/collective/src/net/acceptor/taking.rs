//! The thread that takes who calls. It ends with the last listener.

use std::io::{ErrorKind, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use super::callees::Callees;
use super::caller::{Caller, Said};
use super::{Acceptor, refusal};
use crate::fork;
use crate::lock::lock;
use crate::log::{self, Level, subsystem};
use crate::net::hello::{HAS_ENDED, Hello, PROTOCOL};
use crate::net::wake::{self, Wake};

/// Callers without a known secret at most; the oldest gives way. Below the usual limit of a process's open files, 1024.
const MAX_UNPROVEN: usize = 512;
/// So many more may call before it is looked who gives way.
const BATCH: usize = 64;
/// Descriptors that are kept back, so that ranks can be told where no more files can be opened.
const N_SPARES: usize = 4;
/// Between two attempts to take a caller where this process can open no more files.
const FULL_WAIT: Duration = Duration::from_millis(10);
/// Between two looks at nothing: what comes wakes the sleeper.
const LONG_WAIT: Duration = Duration::from_secs(3600);

/// What the thread holds.
pub(super) struct Taking {
    acceptor: Arc<Acceptor>,
    callers: Vec<Caller>,
    /// Given up one by one where this process can open no more files.
    spares: Vec<Wake>,
    /// Whether the last attempt to take a caller failed.
    is_full: bool,
}

impl Taking {
    pub(super) fn new(acceptor: Arc<Acceptor>) -> Self {
        Self { acceptor, callers: Vec::new(), spares: Vec::new(), is_full: false }
    }

    pub(super) fn run(&mut self) {
        while let Some(listeners) = self.listeners() {
            self.sleep(&listeners);
            self.acceptor.wake.reset();
            self.is_full = false;
            for listener in &listeners {
                self.take_from(listener);
            }
            self.hear();
            self.keep_spares();
        }
    }

    /// Nothing once nobody listens any more.
    fn listeners(&self) -> Option<Vec<Arc<TcpListener>>> {
        let mut callees = lock(&self.acceptor.callees);
        callees.is_served = !callees.listeners.is_empty();
        callees.is_served.then(|| callees.listeners.values().map(|open| Arc::clone(&open.listener)).collect())
    }

    fn sleep(&self, listeners: &[Arc<TcpListener>]) {
        let mut fds = vec![PollFd::new(&self.acceptor.wake, PollFlags::IN)];
        fds.extend(self.callers.iter().map(Caller::poll_fd));
        let mut wait = self.callers.iter().map(|caller| caller.deadline().left()).min().unwrap_or(LONG_WAIT);
        if self.is_full {
            wait = wait.min(FULL_WAIT);
        } else {
            fds.extend(listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
        }
        let _ = wake::sleep(&mut fds, wait);
    }

    fn take_from(&mut self, listener: &TcpListener) {
        loop {
            match listener.accept() {
                Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => {
                    fork::keep_from_children(&stream);
                    self.callers.push(Caller::new(stream));
                    self.bound();
                }
                Ok(_) => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    self.refuse(&error);
                    // Who is turned away makes room.
                    if self.spares.pop().is_none() {
                        self.is_full = true;
                        return;
                    }
                }
            }
        }
    }

    /// Too many callers: those that have said who they are go on, and then the oldest without a known secret go.
    fn bound(&mut self) {
        if self.callers.len() < MAX_UNPROVEN + BATCH {
            return;
        }
        self.hear();
        let callees = lock(&self.acceptor.callees);
        let is_proven = |caller: &Caller| caller.secret().is_some_and(|secret| callees.knows(&secret));
        let unproven = self.callers.iter().filter(|caller| !is_proven(caller)).count();
        let mut surplus = unproven.saturating_sub(MAX_UNPROVEN);
        self.callers.retain(|caller| {
            let goes = surplus > 0 && !is_proven(caller);
            surplus -= usize::from(goes);
            !goes
        });
    }

    /// Says once, for as long as it lasts, that no more files can be opened.
    fn refuse(&self, error: &std::io::Error) {
        if self.spares.len() == N_SPARES {
            let error = refusal(error);
            log::write(Level::Warn, subsystem::INIT, 0, &error.to_string());
            lock(&self.acceptor.callees).refuse(&error);
        }
    }

    fn keep_spares(&mut self) {
        while self.spares.len() < N_SPARES && !self.is_full {
            let Ok(spare) = Wake::new() else { return };
            self.spares.push(spare);
        }
    }

    /// Hears all callers, and hands on those that have said who they are.
    fn hear(&mut self) {
        let callees = lock(&self.acceptor.callees);
        let callers = std::mem::take(&mut self.callers);
        let waiting = callers.into_iter().filter_map(|mut caller| {
            let said = caller.hear();
            let waiting = hand_on(&callees, caller, said)?;
            (!waiting.deadline().passed() && !has_hung_up(&waiting, said)).then_some(waiting)
        });
        self.callers = waiting.collect();
    }
}

/// Gives a caller to whom it calls; returns it if that is not known yet.
fn hand_on(callees: &Callees, caller: Caller, said: Said) -> Option<Caller> {
    match said {
        Said::Part => Some(caller),
        Said::Nonsense => None,
        Said::Hello => hand_to_rank(callees, caller),
        Said::Join => hand_to_root(callees, caller),
    }
}

fn hand_to_rank(callees: &Callees, caller: Caller) -> Option<Caller> {
    let Some(ranks) = caller.secret().and_then(|secret| callees.inboxes.get(&secret)) else {
        return Some(caller);
    };
    if caller.protocol() != PROTOCOL {
        ranks.iter().for_each(|(_, inbox)| inbox.note_other_protocol(caller.protocol()));
        return None;
    }
    let hello = caller.hello().and_then(Hello::from_bytes)?;
    match ranks.iter().rev().find(|(rank, _)| *rank == hello.to) {
        Some((_, inbox)) => inbox.add(hello, caller.stream),
        None => return Some(caller),
    }
    None
}

fn hand_to_root(callees: &Callees, mut caller: Caller) -> Option<Caller> {
    let secret = caller.secret()?;
    let Some(joined) = callees.roots.get(&secret) else {
        if !callees.ended.contains(&secret) {
            return Some(caller);
        }
        let _ = caller.stream.write_all(&[HAS_ENDED]);
        return None;
    };
    let join = serde_json::from_slice(caller.join()).ok()?;
    caller.stream.set_nonblocking(false).ok()?;
    caller.stream.set_nodelay(true).ok()?;
    // Where the root takes no more, the connection closes unanswered.
    let _ = joined.try_send(Ok((join, caller.stream)));
    None
}

/// Whether one that has said all, and waits for whom it calls, has gone.
fn has_hung_up(caller: &Caller, said: Said) -> bool {
    let mut fds = [caller.poll_fd()];
    said != Said::Part && wake::sleep(&mut fds, Duration::ZERO).is_ok() && !fds[0].revents().is_empty()
}
