//! What workers ask of a service, and what it says to them.

use std::sync::Arc;

use super::addition::Addition;
use super::reduction::Reduction;

/// A worker wants to contribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Push {
    /// To which part.
    pub key: u32,
    /// To which of its rounds, from 0.
    pub round: u64,
    /// The rank of who contributes.
    pub worker: usize,
    /// Of the payload.
    pub size_bytes: usize,
    /// What the contributions of the round become: the same for all of them.
    pub reduction: Reduction,
}

/// A worker wants a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pull {
    /// Of which part.
    pub key: u32,
    /// Of which of its rounds, from 0.
    pub round: u64,
    /// The rank of who asks.
    pub worker: usize,
}

/// What becomes of a push.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// Receive the payload into this, then hand it back.
    Into(Landing),
    /// There is no room yet: leave the payload in the socket, and ask again when a round is over.
    Later,
}

/// Where one payload goes. One that is dropped takes the worker's turn with it: the worker is then to be declared lost.
#[derive(Debug, PartialEq, Eq)]
pub struct Landing {
    pub(super) key: u32,
    pub(super) round: u64,
    pub(super) worker: usize,
    /// Whether it is a value of a store, and no delta.
    pub(super) is_first: bool,
    /// Whether it was here before, and turned away.
    pub(super) is_again: bool,
    pub(super) bytes: Vec<u8>,
}

/// What becomes of a payload that is complete.
#[derive(Debug, PartialEq, Eq)]
pub enum Pushed {
    /// Others are still missing.
    Kept,
    /// It is in the store of this key: pulls of it that wait may have an answer now.
    Added(u32),
    /// It is to be added to others, all of the round or the first of them: do this, then hand it back.
    Add(Addition),
    /// There was no memory left for who is not in turn: the worker is [asked again](super::service::Service::next_again).
    TurnedAway,
}

/// What becomes of an addition.
#[derive(Debug, PartialEq, Eq)]
pub enum Added {
    /// The round has its result.
    Finished(Finished),
    /// Others are still missing.
    Kept,
    /// They came meanwhile: do this, then hand it back.
    Add(Addition),
}

/// A worker is to push a round once more: its contribution was [turned away](Pushed::TurnedAway).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// Of which part.
    pub key: u32,
    /// Which of its rounds.
    pub round: u64,
    /// The rank of who is asked.
    pub worker: usize,
}

/// A round that has a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Of which part.
    pub key: u32,
    /// Which of its rounds.
    pub round: u64,
    /// Workers whose contributions are in it: what an average was divided by.
    pub n_contributors: usize,
    /// Whose contribution was complete last.
    pub last_arriver: usize,
    /// [`super::fingerprint::fingerprint`] of the result.
    pub fingerprint: u64,
}

/// What becomes of a pull.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Send this, then hand it back.
    Ready(Sum),
    /// These workers have not contributed yet, in the order of their ranks: ask again when the round is summed.
    Waiting(Vec<usize>),
}

/// A result on its way to one worker. The bytes never change, however long it is kept.
#[derive(Debug, PartialEq, Eq)]
pub struct Sum {
    pub(super) key: u32,
    pub(super) round: u64,
    pub(super) worker: usize,
    pub(super) bytes: Arc<Vec<u8>>,
}

impl Landing {
    /// Whether it was here before, and turned away.
    #[must_use]
    pub fn is_again(&self) -> bool {
        self.is_again
    }

    /// Where the payload goes. It holds old bytes before: fill it all.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Makes room for so many bytes, of a contribution whose length is not known before.
    pub(crate) fn grow(&mut self, size_bytes: usize) {
        self.bytes.resize(self.bytes.len().max(size_bytes), 0);
    }
}

impl Sum {
    /// Of which part.
    #[must_use]
    pub fn key(&self) -> u32 {
        self.key
    }

    /// The result.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
