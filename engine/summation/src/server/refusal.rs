//! Why a message was refused. Nothing has changed then.

use crate::codec::CodecError;

/// A message that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There never was such a rank.
    #[error("there is no worker {worker}: {n_workers} workers have ranks from 0")]
    NoSuchWorker {
        /// The rank that was named.
        worker: usize,
        /// Ranks there are.
        n_workers: usize,
    },
    /// The rank has left.
    #[error("worker {worker} has left, and is no member any more")]
    NoMember {
        /// The rank that was named.
        worker: usize,
    },
    /// Another service's key, or nobody's.
    #[error("key {key} is not served here: {}", served(*.n_keys, *.first, *.last))]
    UnknownKey {
        /// The key that was named.
        key: u32,
        /// Keys that are served here.
        n_keys: usize,
        /// The lowest of them; 0 if there is none.
        first: u32,
        /// The highest of them; 0 if there is none.
        last: u32,
    },
    /// Not a contribution's length.
    #[error("{got_bytes} bytes for key {key}, which has {wanted_bytes}")]
    WrongLength {
        /// Whose.
        key: u32,
        /// Of every contribution.
        wanted_bytes: usize,
        /// Of this one.
        got_bytes: usize,
    },
    /// The worker has had its answer, or everybody has.
    #[error("round {round} of key {key} is over for worker {worker}")]
    Over {
        /// Whose round.
        key: u32,
        /// Which.
        round: u64,
        /// For whom.
        worker: usize,
    },
    /// A worker leaves out rounds: those that may be open next come first.
    #[error("worker {worker} is at round {round} of key {key}, before round {next} was begun")]
    Skipped {
        /// Whose round.
        key: u32,
        /// Which.
        round: u64,
        /// Who.
        worker: usize,
        /// The last round that may be asked for now.
        next: u64,
    },
    /// A worker contributes once to a round.
    #[error("worker {worker} has pushed round {round} of key {key} before")]
    PushedTwice {
        /// Whose round.
        key: u32,
        /// Which.
        round: u64,
        /// Who.
        worker: usize,
    },
    /// Some sum a round, others average it.
    #[error("worker {worker} wants round {round} of key {key} reduced in another way than the first one")]
    OtherReduction {
        /// Whose round.
        key: u32,
        /// Which.
        round: u64,
        /// Who.
        worker: usize,
    },
    /// A payload is not what its codec makes.
    #[error("worker {worker} pushed something else to round {round} of key {key}: {error}")]
    Malformed {
        /// Whose round.
        key: u32,
        /// Which.
        round: u64,
        /// Who.
        worker: usize,
        /// What is wrong with it.
        error: CodecError,
    },
    /// The worker that gives the first values of all keys has left.
    #[error("key {key} has no values, and worker 0, which gives the first ones, has left")]
    NeverInitialised {
        /// Whose.
        key: u32,
    },
    /// Asynchronous stores are initialised once.
    #[error("key {key} is initialised already")]
    InitialisedTwice {
        /// Whose.
        key: u32,
    },
}

fn served(n_keys: usize, first: u32, last: u32) -> String {
    match n_keys {
        0 => "none is".to_owned(),
        1 => format!("{first} is the only one"),
        _ => format!("{n_keys} keys from {first} to {last} are"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_both_sides() {
        let keys = |n_keys, first, last| Refusal::UnknownKey { key: 9, n_keys, first, last }.to_string();
        assert_eq!(keys(3, 2, 7), "key 9 is not served here: 3 keys from 2 to 7 are");
        assert_eq!(keys(1, 2, 2), "key 9 is not served here: 2 is the only one");
        assert_eq!(keys(0, 0, 0), "key 9 is not served here: none is");
    }
}
