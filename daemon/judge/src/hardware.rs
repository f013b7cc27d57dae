//! Trouble with the hosts' hardware, judged by comparison: with what the host's own NICs are, with the NIC of the same
//! name on other hosts, and with what was there before. What nobody ever used is no trouble. Pure.

mod ails;
pub(super) mod errors;
mod fleet;
mod gpus;
mod kinds;
mod nics;
mod recall;
mod suspects;
#[cfg(test)]
mod tests;
pub(super) mod trouble;
pub(super) mod words;

pub(super) use ails::Ail;
pub(super) use kinds::Build;
pub(super) use recall::Recall;
pub(super) use suspects::{Explanation, Suspects};

use std::collections::BTreeMap;

use ringscope_api::clock::Timestamp;
use ringscope_model::{Hardware, Model, Name};

use self::errors::Usual;
use self::fleet::Fleet;
use self::trouble::Trouble;
use super::rdma;

/// The cause of a finding about a NIC that is down, and of one that this explains.
pub const NIC_DOWN: &str = "nic_down";
/// The same for a NIC that the host showed before and does not show any more.
pub const NIC_MISSING: &str = "nic_missing";
/// The same for a NIC that is slower than its like.
pub(super) const NIC_SLOW: &str = "nic_slow";
/// The causes of other findings about hardware.
const NIC_FLAPPING: &str = "nic_flapping";
const NIC_ERRORS: &str = "nic_errors";
const FEWER_THAN_BEFORE: &str = "fewer_than_before";
const FEWER_THAN_PEERS: &str = "fewer_than_peers";
/// The cause of findings about channels that a missing GPU explains.
const GPU_MISSING: &str = "gpu_missing";

/// Every cause of a finding about hardware.
const CAUSES: [&str; 7] =
    [NIC_DOWN, NIC_MISSING, NIC_SLOW, NIC_FLAPPING, NIC_ERRORS, FEWER_THAN_BEFORE, FEWER_THAN_PEERS];

/// One that the store kept, of hardware or of what goes over it.
fn known_cause(cause: &str) -> Option<&'static str> {
    CAUSES.into_iter().chain(rdma::CAUSES).find(|known| *known == cause)
}
/// Those that take channels from a communicator.
const COSTS_CHANNELS: [&str; 5] = [NIC_DOWN, NIC_MISSING, NIC_SLOW, FEWER_THAN_BEFORE, FEWER_THAN_PEERS];

/// How often a link that flaps goes down in ten minutes. Once is a pulled cable or a switch that restarts, twice a switch
/// that restarts twice, as for an update; a bad cable or transceiver goes on.
const FLAPS: u64 = 3;

/// Hosts of a job from which on the number of GPUs that most of them show says what the others lack.
const MIN_JOB_HOSTS: usize = 3;

/// What is wrong with one host's hardware.
#[derive(Debug, Default)]
pub(super) struct Health {
    pub(super) build: Build,
    pub(super) troubles: Vec<Trouble>,
    pub(super) suspects: Suspects,
    /// What is wrong with its NICs now.
    pub(super) ails: Vec<Ail>,
}

/// Every host of which the hardware is known, judged. Of one that has not been heard of for long nobody knows how it is.
pub(super) fn judge(model: &Model, recall: &mut Recall, now: Timestamp) -> BTreeMap<Name, Health> {
    let fleet = Fleet::of(model);
    let usual = Usual::of(model);
    let job_gpus = gpus::by_job(model);
    let health = |(host, hardware)| {
        let mut health = Health { build: Build::of(hardware), ..Health::default() };
        nics::judge(model, (&fleet, &usual), host, hardware, &mut health);
        gpus::judge(model, &job_gpus, host, hardware, &mut health);
        (Name::clone(host), health)
    };
    let heard = |(_, hardware): &(&Name, &Hardware)| now.since(hardware.heard()) < super::HOST_GONE_AFTER;
    let mut judged: BTreeMap<Name, Health> = model.hardware().filter(heard).map(health).collect();
    for (host, trouble) in rdma::judge(model, &usual, now) {
        judged.entry(host).or_default().troubles.push(trouble);
    }
    recall.add(model, &mut judged, now);
    judged
}
