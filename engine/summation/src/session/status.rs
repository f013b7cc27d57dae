//! What a server is at, for who asks.

use std::sync::Mutex;
use std::time::Duration;

use serde::Serialize;

use super::rendezvous::message::Membership;
use crate::run::nics::Nic;
use crate::run::probe::Probe;
use crate::run::report::Report;
use rsccl_collective::lock::lock;

/// A group's thread that says nothing for this long is stuck: its sleeps end when it is asked.
const ANSWER_WAIT: Duration = Duration::from_secs(1);

/// What a server is at.
#[derive(Debug, Default)]
pub(super) struct Status(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    n_groups: u64,
    present: Option<Present>,
    last_failure: Option<String>,
    probe: Option<Probe>,
}

/// The present group.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Present {
    session: String,
    epoch: u32,
    rank: usize,
    n_workers: usize,
    n_servers: usize,
    /// By rank.
    members: Vec<String>,
    /// By rank, of their machines' NICs in Mbit/s: what was told, what was measured, what NICs say, and the first of these that is
    /// known, which counts.
    nics: Vec<Rates>,
    /// Of its declarations; none while they are to come.
    generation: Option<u32>,
}

/// Of a NIC.
#[derive(Clone, Copy, Debug, Serialize)]
struct Rates {
    mbit: Option<u64>,
    told: Option<u32>,
    measured: Option<u32>,
    said: Option<u32>,
}

/// All of it, as it is told.
#[derive(Debug, Serialize)]
pub(super) struct StatusBody {
    state: &'static str,
    n_groups: u64,
    group: Option<Present>,
    /// Of the present generation.
    service: Option<Report>,
    last_failure: Option<String>,
}

impl Present {
    /// A group that begins, with what is known of each rank's NIC.
    pub(super) fn of(membership: &Membership, nics: &[Nic]) -> Self {
        let members = membership.members();
        Self {
            session: format!("{:016x}", membership.session),
            epoch: membership.epoch,
            rank: membership.rank,
            n_workers: members.n_workers,
            n_servers: members.n_servers,
            members: membership.seats.iter().map(ToString::to_string).collect(),
            nics: nics.iter().map(rates).collect(),
            generation: None,
        }
    }
}

fn rates(nic: &Nic) -> Rates {
    Rates { mbit: nic.mbit(), told: nic.told, measured: nic.measured, said: nic.said }
}

impl Status {
    /// It is in a group.
    pub(super) fn join(&self, present: Present) {
        let mut state = lock(&self.0);
        state.n_groups += 1;
        state.present = Some(present);
    }

    /// A generation waits for its workers, or has begun.
    pub(super) fn begin(&self, generation: Option<u32>, probe: Option<Probe>) {
        let mut state = lock(&self.0);
        state.probe = probe;
        if let Some(present) = &mut state.present {
            present.generation = generation.or(present.generation);
        }
    }

    /// The group has ended; with it, why if it has failed.
    pub(super) fn leave(&self, failure: Option<String>) {
        let mut state = lock(&self.0);
        (state.present, state.probe) = (None, None);
        state.last_failure = failure.or(state.last_failure.take());
    }

    /// Whether it is in a group.
    pub(super) fn is_ready(&self) -> bool {
        lock(&self.0).present.is_some()
    }

    /// All of it. Asks the group's thread.
    pub(super) fn tell(&self) -> StatusBody {
        let probe = lock(&self.0).probe.clone();
        let service = probe.as_ref().and_then(|probe| probe.ask(ANSWER_WAIT));
        let state = lock(&self.0);
        let is_silent = probe.is_some() && service.is_none() && state.probe.is_some();
        let name = match &state.present {
            Some(_) if is_silent => "stuck",
            Some(_) => "in a group",
            None => "waiting",
        };
        StatusBody {
            state: name,
            n_groups: state.n_groups,
            group: state.present.clone(),
            service,
            last_failure: state.last_failure.clone(),
        }
    }
}
