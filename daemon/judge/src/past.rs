//! What is known from files alone is the past: when it was, the files say, and nobody is to be woken for it.

use ringscope_api::clock::Timestamp;
use ringscope_model::{Process, ProcessState};

/// Of a job or communicator that is known from files alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// The newest time that they tell. Absent: none tells one.
    pub(super) until: Option<Timestamp>,
}

impl Past {
    /// `None`: one of these processes was seen alive, or there is none.
    #[must_use]
    pub fn of<'p>(processes: impl Iterator<Item = &'p Process>) -> Option<Self> {
        let mut past = None;
        for process in processes {
            if process.state() != ProcessState::Imported {
                return None;
            }
            let known: &mut Self = past.get_or_insert(Self { until: None });
            known.until = known.until.max(process.told_until());
        }
        past
    }
}
