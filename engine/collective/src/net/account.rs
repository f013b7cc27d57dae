//! What a rank tells rank 0 of itself with every beat: how far it is, and what it waits for when nothing moves.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::lock::lock;
use crate::net::calls::{Call, LastCalls};

/// A silent peer is asked four times within the timeout; more than once per second would only wake idle processes.
const BEATS_PER_TIMEOUT: u32 = 4;
const LONGEST_BEAT: Duration = Duration::from_secs(1);
/// Connections of an operation that a rank tells of at most.
pub(crate) const MAX_TOLD: usize = 256;

/// Between two questions of rank 0 to everybody.
pub(crate) fn beat(timeout: Duration) -> Duration {
    (timeout / BEATS_PER_TIMEOUT).min(LONGEST_BEAT)
}

/// What a rank tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    /// Collectives that its caller has issued.
    pub(crate) issued: u64,
    /// The operation in which nothing moves.
    pub(crate) stuck: Option<Stuck>,
    /// Whether it has begun an operation that is not over.
    pub(crate) busy: bool,
    /// The collectives that it has begun last, where nothing moves or rank 0 has asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<Call>,
}

/// An operation in which nothing moves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stuck {
    /// `all_reduce #17`
    pub(crate) operation: String,
    /// Its number among the collectives, if it is one.
    pub(crate) collective: Option<u64>,
    /// What all ranks must agree on, beside the primitive.
    pub(crate) signature: u64,
    /// For how long.
    pub(crate) still_ms: u64,
    /// Its connections.
    pub(crate) ends: Vec<EndState>,
}

/// One end of a connection that an operation uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EndState {
    /// The channel.
    pub(crate) channel: u32,
    /// The rank at the other end.
    pub(crate) peer: usize,
    /// Whether data leave this rank.
    pub(crate) is_send: bool,
    /// Whether the operation waits for it.
    pub(crate) waits: bool,
    /// Parts that went through since the communicator began.
    pub(crate) parts: u64,
}

/// The account as the threads of a rank keep it. Operations that move pay for a few stores.
#[derive(Debug, Default)]
pub struct Activity {
    issued: AtomicU64,
    busy: AtomicBool,
    stuck: Mutex<Option<Stuck>>,
    calls: LastCalls,
    /// Rank 0 wants to know what this rank is in.
    asked: AtomicBool,
    /// And can.
    answered: AtomicBool,
}

impl Activity {
    /// So many collectives have been issued.
    pub(crate) fn set_issued(&self, count: u64) {
        self.issued.store(count, Ordering::Relaxed);
    }

    /// An operation begins.
    pub fn begin(&self) {
        self.busy.store(true, Ordering::Relaxed);
    }

    /// It is over.
    pub fn end(&self) {
        self.busy.store(false, Ordering::Relaxed);
    }

    /// A collective begins.
    pub(crate) fn note(&self, call: Call) {
        self.calls.note(call);
    }

    /// Nothing moves, or something does again.
    pub(crate) fn set_stuck(&self, stuck: Option<Stuck>) {
        *lock(&self.stuck) = stuck;
    }

    /// Who runs operations is to tell, at its next pause, what it is in.
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Release);
    }

    /// Whether that is still to be told.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// It has been.
    pub(crate) fn answer(&self, stuck: Stuck) {
        self.set_stuck(Some(stuck));
        self.asked.store(false, Ordering::Release);
        self.answered.store(true, Ordering::Release);
    }

    /// Whether there is an answer that rank 0 does not have yet.
    pub(crate) fn take_answer(&self) -> bool {
        self.answered.swap(false, Ordering::AcqRel)
    }

    /// As rank 0 is told with each beat: with the last calls only where a collective stands still, since another rank may be
    /// past the call that does not fit it.
    pub(crate) fn account(&self) -> Account {
        let stuck = lock(&self.stuck).clone();
        let stands = stuck.as_ref().is_some_and(|stuck| stuck.collective.is_some());
        Account {
            issued: self.issued.load(Ordering::Relaxed),
            stuck,
            busy: self.busy.load(Ordering::Relaxed),
            calls: if stands { self.calls.all() } else { Vec::new() },
        }
    }

    /// The same, with the last calls: for a dispute.
    pub(crate) fn account_with_calls(&self) -> Account {
        Account { calls: self.calls.all(), ..self.account() }
    }
}
