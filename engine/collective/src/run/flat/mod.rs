//! The lane of small and middle-sized collectives of one host: every rank shows its contribution to all, and takes what
//! it needs of theirs. No connection, no plan and no header per part: see [`cut`] for what moves.
//!
//! All ranks of the communicator take part in every round, and rounds follow the order of the collectives. So whether
//! an operation goes this way depends on nothing but the operation, the communicator and its settings.

pub(crate) mod cut;
pub(crate) mod exchange;
pub(crate) mod placed;
pub(crate) mod trace;

use std::collections::VecDeque;

use crate::collective::operation::Operation;
use crate::collective::primitive::Primitive;
use crate::comm::links::Traffic;
use crate::comm::member::Member;
use crate::kernels::{Form, Kernel, Reducer, Shape};
use crate::net::account::EndState;
use crate::net::calls::Call;
use crate::net::link::Header;
use crate::run::flat::cut::Cut;
use crate::run::flat::exchange::Exchange;
use crate::run::trouble::Trouble;
use crate::transport::shm::flat::Flat;
use crate::transport::shm::host::Host;

/// A communicator's flat exchanges.
#[derive(Debug)]
pub(crate) struct Lane {
    flat: Flat,
    jobs: VecDeque<Exchange>,
    /// What the last call needed: the same call again is the usual case.
    last: Option<Last>,
    /// By rank; the own one stays empty.
    sent: Vec<Count>,
    received: Vec<Count>,
}

/// The collectives so far. A flat exchange meets no part of an earlier collective that went another way, as one over
/// connections does, so it says what came before: a broadcast whose ranks disagree about the root ends in an error.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct History {
    digest: u64,
    last: Option<(Primitive, u64)>,
}

impl History {
    /// Adds a collective and the signature of its call.
    pub(crate) fn note(&mut self, comm: &Member, operation: &Operation, signature: u64) {
        self.digest = self.digest.rotate_left(7).wrapping_add(signature);
        self.last = Some((operation.primitive, operation.sequence));
        let (number, function) = (operation.sequence, operation.primitive.code());
        comm.health.activity.note(Call { number, function, signature });
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    bytes: u64,
    rounds: u64,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    count: usize,
    reducer: Reducer,
    signature: u64,
    kernel: Kernel,
    cut: Cut,
}

impl Lane {
    /// Among all members of a host, which are all ranks.
    pub(crate) fn new(host: &Host) -> Self {
        let n = host.n_members();
        Self {
            flat: host.flat(),
            jobs: VecDeque::new(),
            last: None,
            sent: vec![Count::default(); n],
            received: vec![Count::default(); n],
        }
    }

    /// Prepares an operation; what it says about itself.
    pub(crate) fn add(&mut self, comm: &Member, operation: &Operation, history: &mut History) -> Header {
        let known =
            self.last.filter(|last| (last.count, last.reducer) == (operation.count, operation.reducer));
        let last = known.unwrap_or_else(|| Last::of(comm, operation));
        self.last = Some(last);
        let signature = last.signature ^ history.digest;
        let mut job = Exchange::new(operation, last.cut, signature, last.kernel, comm.rank);
        job.before = history.last;
        history.note(comm, operation, last.signature);
        let header = *job.header();
        self.jobs.push_back(job);
        header
    }

    /// Goes on as far as the others have come; whether anything moved.
    pub(crate) fn round(&mut self) -> Result<bool, Trouble> {
        let mut moved = false;
        while let Some(job) = self.jobs.front_mut() {
            moved |= job.step(&mut self.flat).map_err(|fault| Trouble {
                fault,
                peer: self.flat.arrived(),
                remote: None,
                primitive: job.primitive,
                sequence: job.sequence,
                before: job.before,
            })?;
            if !job.is_over() {
                break;
            }
            let cut = job.cut;
            self.jobs.pop_front();
            self.count(&cut);
        }
        Ok(moved)
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_over(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Drops what is left.
    pub(crate) fn end(&mut self) {
        self.jobs.clear();
    }

    /// The operation that it is at.
    pub(crate) fn current(&self) -> Option<(Primitive, u64)> {
        self.jobs.front().map(|job| (job.primitive, job.sequence))
    }

    /// What that operation says about itself, and about those before it.
    pub(crate) fn current_signature(&self) -> Option<u64> {
        self.jobs.front().map(|job| job.header().signature)
    }

    /// Whom the operation waits for; nothing while it has not begun.
    pub(crate) fn ends(&self) -> impl Iterator<Item = EndState> {
        let waits = if self.is_over() { self.flat.n_members() } else { self.flat.arrived() };
        let peers = (waits..self.flat.n_members()).filter(|peer| *peer != self.flat.own());
        let end = |peer: usize| (peer, self.received[peer].rounds);
        peers.map(end).map(|(peer, parts)| EndState { channel: 0, peer, is_send: false, waits: true, parts })
    }

    /// What each other rank has read of this one, and this one of it, on channel 0.
    pub(crate) fn traffic(&self) -> impl Iterator<Item = Traffic> {
        let of = |counts: &[Count], is_send| {
            let used = counts.iter().copied().enumerate().filter(|(_, count)| count.rounds > 0);
            let ends = used.map(|(peer, count)| Traffic {
                channel: 0,
                peer,
                is_send,
                payload_bytes: count.bytes,
                parts: count.rounds,
            });
            ends.collect::<Vec<_>>()
        };
        of(&self.sent, true).into_iter().chain(of(&self.received, false))
    }

    fn count(&mut self, cut: &Cut) {
        let own = self.flat.own();
        for peer in (0..self.flat.n_members()).filter(|peer| *peer != own) {
            self.sent[peer].add(cut, own, peer);
            self.received[peer].add(cut, peer, own);
        }
    }
}

impl Last {
    fn of(comm: &Member, operation: &Operation) -> Self {
        let shape = Shape { with: Form::Element, data: Form::Element, into: Form::Element, finish: true };
        Self {
            count: operation.count,
            reducer: operation.reducer,
            signature: comm.signature(operation, comm.choose(operation)),
            kernel: operation.reducer.kernel(shape),
            cut: Cut::new(operation.bytes(), comm.n_ranks),
        }
    }
}

impl Count {
    fn add(&mut self, cut: &Cut, owner: usize, reader: usize) {
        for round in 0..cut.n_rounds() {
            self.bytes += cut.read_bytes(round, owner, reader) as u64;
            self.rounds += 1;
        }
    }
}
