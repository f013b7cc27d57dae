//! Summation groups: n workers and k servers whose processes each tell their own part.
//!
//! A group is what all its members call by the same (session, group). Groups of one session follow each other by their
//! membership epoch. As with communicators nothing here can fail: what does not fit is counted and left out.

mod arrivals;
mod beats;
mod group;
mod known;
mod lost;
mod member;
mod outcome;
mod parties;
mod samples;
mod services;
mod waits;

#[cfg(test)]
mod tests;

pub use arrivals::{Arrived, Lateness};
pub use group::{Group, add_staleness};
pub use lost::Lost;
pub(super) use member::is_end;
pub use member::{Member, Place, StagePace};
pub use outcome::{Made, Outcome, Rounds};
pub use parties::{Party, parties};
pub use ringscope_api::{GroupId, GroupIdError};
pub use samples::ServiceSample;
pub use services::{SHARE_MIN, Service};
pub use waits::Wait;

pub(super) use known::{Groups, Told};
