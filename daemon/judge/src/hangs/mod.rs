//! Who everybody waits for: hangs of one job, from what its ranks have called and not called.
//!
//! From each thing that does not end the judge follows who waits for whom, across all communicators, until somebody who
//! waits for nobody: that is the culprit, all others are victims and are counted. Synchronous, `now` is an argument,
//! no I/O, cannot fail. Absence is a fact only where somebody would have told (see [`scene`]).

mod absent;
mod building;
mod case;
mod comers;
mod crash;
mod dead;
mod deadlock;
mod device;
mod errors;
mod files;
mod graph;
mod hashes;
mod host_lost;
mod init;
mod kernel;
mod look;
mod memory;
mod mismatch;
mod missing;
mod p2p;
mod places;
pub mod scene;

mod sent;
mod settings;
mod sight;
mod sinks;
mod teardown;
mod transfer;
mod unequal;
mod verdict;
mod waiting;
mod words;

#[cfg(test)]
mod tests;

pub use look::Judge;
pub use settings::Settings;
pub use verdict::{ACCUSED_NAMED, Ask, Judgement, MAX_JUDGEMENTS, Question, Verdict, Wait};
