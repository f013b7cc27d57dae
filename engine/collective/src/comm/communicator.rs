//! A communicator: its ranks, rings and connections, and what is asked of it while it lives.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::channels::Limits;
use crate::collective::operation::Operation;
use crate::collective::primitive::{N_FUNCTIONS, Primitive};
use crate::comm::links::Traffic;
use crate::comm::member::Member;
use crate::comm::operators::Operators;
use crate::comm::pending::Pending;
use crate::comm::turns::Turns;
use crate::comm::wiring::Wiring;
use crate::config::Settings;
use crate::error::{Error, Result};
use crate::hash;
use crate::lock::lock;
use crate::net::acceptor::Listening;
use crate::profiler::emit::{Call, PlanEvents};
use crate::profiler::teller::Teller;
use crate::run::engine::Engine;

/// What the caller's `ncclConfig_t` asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommConfig {
    /// `commName`
    pub(crate) name: Option<String>,
    /// `minCTAs`
    pub(crate) min_ctas: Option<usize>,
    /// `maxCTAs`
    pub(crate) max_ctas: Option<usize>,
    /// `blocking`; calls that need the peers return `ncclInProgress` if false.
    pub(crate) blocking: Option<bool>,
}

/// A communicator.
#[derive(Debug)]
pub struct Comm {
    /// This rank of it, as init has left it.
    pub member: Member,
    /// Data connections, and what runs over them.
    pub engine: Mutex<Engine>,
    pub(super) profiled: bool,
    /// The order of its launches.
    pub(crate) turns: Turns,
    pub(super) config: CommConfig,
    pub(super) counters: Mutex<Counters>,
    pub(super) profiler: Mutex<Option<Arc<Teller>>>,
    pub(super) watcher: Mutex<Option<JoinHandle<()>>>,
    pub(super) last_error: Mutex<Option<String>>,
    /// Operators that its caller has made.
    pub(crate) operators: Operators,
    /// Where it listens: on its first NIC, and on the others where peers may call.
    pub(super) listening: Vec<Arc<Listening>>,
    pub(super) revoked: AtomicBool,
    /// Whether peers wait for more from this rank until it says that it leaves, though nothing is in flight.
    pub(super) awaited: AtomicBool,
    /// Subsystem and text of what the log says of connections once the first collective runs.
    pub(super) late_lines: Mutex<Vec<(u64, String)>>,
    /// On a described machine, which connections the log has told of.
    pub(super) wiring: Option<Mutex<Wiring>>,
    /// Whether the log tells of connections with the first collective.
    pub(super) connects_late: bool,
    /// Its address is the `ncclComm_t`.
    pub(super) pending: Arc<Pending>,
}

impl Deref for Comm {
    type Target = Member;

    fn deref(&self) -> &Member {
        &self.member
    }
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) collectives: u64,
    pub(super) per_function: [u64; N_FUNCTIONS],
    pub(super) sends: HashMap<usize, u64>,
    pub(super) recvs: HashMap<usize, u64>,
    pub(super) splits: i32,
    /// By the ranks that stay: ranks that have left do not count.
    pub(super) shrinks: HashMap<Vec<usize>, i32>,
}

impl Comm {
    /// What a communicator made from this one is told of its origin: see [`init::Request::split`].
    pub(super) fn lineage(&self, count: i32, color: i32, key: i32) -> (usize, i32, i32, i32, u64) {
        let hash = hash::split_hash(self.identity.comm_hash, count, color);
        (self.identity.handle, count, color, key, hash)
    }

    /// The failure, as the error of a call.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.health.has_error() {
            return Ok(());
        }
        let Some(failure) = self.health.failure() else { return Ok(()) };
        let error = failure.error(&self.name());
        lock(&self.last_error).get_or_insert_with(|| error.to_string());
        Err(error)
    }

    /// The text for `ncclGetLastError`.
    pub(crate) fn last_error(&self) -> Option<String> {
        let _ = self.check();
        lock(&self.last_error).clone()
    }

    /// Keeps the first error.
    pub(crate) fn set_last_error(&self, error: &Error) {
        lock(&self.last_error).get_or_insert_with(|| error.to_string());
    }

    /// Resets what wakes the thread that runs operations, before that looks once more and sleeps.
    pub(crate) fn reset_runner(&self) {
        match &self.host {
            Some(host) => host.doorbell().reset(),
            None => self.health.runner.reset(),
        }
    }

    /// Whether a profiler listens.
    pub(crate) fn is_profiled(&self) -> bool {
        self.profiled
    }

    /// Who tells the profiler, while the communicator lives.
    pub(crate) fn profiler(&self) -> Option<Arc<Teller>> {
        lock(&self.profiler).clone()
    }

    /// With connections of a network, NCCL's thread that moves what they carry is there.
    pub(super) fn start_progress(&self) {
        if self.topology.n_nodes() > 1 {
            self.profiler().iter().for_each(|profiler| profiler.start_progress());
        }
    }

    /// Gives an operation its numbers, and tells a profiler that it is enqueued.
    pub(crate) fn number(&self, operation: &mut Operation, call: &Call, plan: &mut PlanEvents) {
        let mut counters = lock(&self.counters);
        operation.sequence = match operation.primitive {
            // Only a rank with a profiler comes so far with it: its peer may not count it.
            primitive if operation.count == 0 && primitive.peer().is_some() => 0,
            Primitive::Send { peer } => take(counters.sends.entry(peer).or_default()),
            Primitive::Recv { peer } => take(counters.recvs.entry(peer).or_default()),
            _ => take(&mut counters.collectives),
        };
        self.health.activity.set_issued(counters.collectives);
        let of_function = counters.per_function.get_mut(operation.primitive.code() as usize).map_or(0, take);
        drop(counters);
        if operation.events.is_wanted() {
            let choice = self.choose(operation);
            plan.join(&operation.events, call);
            let name = self.algorithm_name(operation, choice.algorithm);
            operation.events.enqueue(call, of_function, (choice, name), plan);
        }
    }

    /// The number of a collective that profilers do not see.
    #[cfg(test)]
    pub(crate) fn next_collective(&self) -> u64 {
        take(&mut lock(&self.counters).collectives)
    }

    /// What each connection has carried. Waits for whoever drives the communicator.
    pub(crate) fn traffic(&self) -> Vec<Traffic> {
        lock(&self.engine).traffic()
    }

    /// Waits until all that was issued is over.
    pub(crate) fn flush(&self) {
        self.turns.wait_for_all();
    }

    /// From now on an end of the process without [`Self::destroy`] is a death, for which the peers do not wait.
    pub fn stay_awaited(&self) {
        self.awaited.store(true, Ordering::Release);
    }

    /// Whether this process is the rank, and not a fork of it.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.pending.is_of_this_process()
    }

    /// Whether this rank has revoked it.
    pub(crate) fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire)
    }

    /// Whether calls on it wait for the peers.
    pub(crate) fn is_blocking(&self) -> bool {
        self.config.blocking.unwrap_or(true)
    }

    /// What a child inherits where the caller gives no configuration of its own.
    pub(crate) fn config(&self) -> &CommConfig {
        &self.config
    }

    pub(super) fn limits(settings: &Settings, config: &CommConfig) -> Limits {
        Limits {
            min_channels: settings.min_channels,
            max_channels: settings.max_channels,
            min_ctas: config.min_ctas,
            max_ctas: config.max_ctas,
        }
    }
}

fn take(counter: &mut u64) -> u64 {
    let value = *counter;
    *counter += 1;
    value
}
