//! What one host found in each communicator that it had a rank in, those that have ended among them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ringscope_api::HostChannels;
use ringscope_judge::Diagnosis;
use ringscope_model::{Communicator, CommunicatorId, Model};

/// The communicators of a host, newest first. `None`: there is no such host.
#[must_use]
pub fn host_channels(model: &Model, diagnosis: &Diagnosis, host: &str) -> Option<Vec<HostChannels>> {
    let (_, processes) = model.host(host)?;
    let known: BTreeMap<CommunicatorId, &Communicator> = processes
        .flat_map(|process| model.communicators_of(process))
        .map(|communicator| (communicator.id(), communicator))
        .collect();
    let mut found: Vec<HostChannels> =
        known.values().map(|communicator| fill(model, diagnosis, communicator, host)).collect();
    found.sort_by(|one, other| (Reverse(one.created), &one.comm).cmp(&(Reverse(other.created), &other.comm)));
    Some(found)
}

fn fill(model: &Model, diagnosis: &Diagnosis, communicator: &Communicator, host: &str) -> HostChannels {
    let channels = diagnosis.judged_channels(communicator, model);
    let here: Vec<_> = communicator.ranks(model).filter(|rank| &*rank.identity.host == host).collect();
    let facts = || here.iter().map(|rank| rank.facts);
    let cause =
        here.first().and_then(|rank| channels.rank(rank.rank)).map_or("unknown", |rank| rank.cause().label());
    HostChannels {
        comm: communicator.id().to_string(),
        name: communicator.name(model).map(ToString::to_string),
        job: communicator.job().to_string(),
        created: communicator.created(model),
        ended: communicator.state(model).1,
        n_ranks: communicator.n_ranks(),
        n_ranks_here: u32::try_from(here.len()).unwrap_or(u32::MAX),
        init_channels: facts().filter_map(|facts| facts.init_channels).min(),
        base: channels.base,
        final_channels: channels.final_channels,
        cause: cause.to_owned(),
    }
}
