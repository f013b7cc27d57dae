//! Trouble with the hosts' hardware, judged by comparison: with what the host's own NICs are, with the NIC of the same
//! name on other hosts, and with what was there before. What nobody ever used is no trouble. Pure.

mod fleet;
mod gpus;
mod nics;
mod suspects;
#[cfg(test)]
mod tests;
mod words;

pub(super) use suspects::{Explanation, Suspects};

use std::collections::BTreeMap;

use self::fleet::Fleet;
use super::judge::Judgement;
use crate::api::{Evidence, FindingKind, Severity};
use crate::model::{Model, Name};

/// The cause of a finding about a NIC that is down, and of one that this explains.
pub const NIC_DOWN: &str = "nic_down";
/// The same for a NIC that is slower than its like.
const NIC_SLOW: &str = "nic_slow";
/// The cause of findings about channels that a missing GPU explains.
const GPU_MISSING: &str = "gpu_missing";

/// A rise of one counter of errors over ten minutes that is trouble; infiniband-diags' ibqueryerrors takes as many.
/// Fewer come from links that are as good as the standard asks.
const ERRORS_RISEN: u64 = 10;

/// How often a link that flaps goes down in ten minutes. Once is a restart of a switch or a pulled cable.
const FLAPS: u64 = 2;

/// Hosts of a job from which on the number of GPUs that most of them show says what the others lack.
const MIN_JOB_HOSTS: usize = 3;

/// What is wrong with one host's hardware.
#[derive(Debug, Default)]
pub(super) struct Health {
    pub(super) troubles: Vec<Trouble>,
    pub(super) suspects: Suspects,
}

/// Something that is wrong now.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) kind: FindingKind,
    pub(super) nic: Option<Name>,
    pub(super) cause: &'static str,
    /// Whether it takes channels from a communicator.
    pub(super) costs_channels: bool,
    pub(super) message: String,
    pub(super) evidence: Vec<Evidence>,
}

/// Every host of which the hardware is known, judged.
pub(super) fn judge(model: &Model) -> BTreeMap<Name, Health> {
    let fleet = Fleet::of(model);
    let job_gpus = gpus::by_job(model);
    let health = |(host, hardware)| {
        let mut health = Health::default();
        nics::judge(model, &fleet, host, hardware, &mut health);
        gpus::judge(model, &job_gpus, host, hardware, &mut health);
        (Name::clone(host), health)
    };
    model.hardware().map(health).collect()
}

impl Trouble {
    /// The finding. `lacks_channels`: the host found fewer channels than others in a communicator in use.
    pub(super) fn judgement(self, host: &Name, lacks_channels: bool) -> Judgement {
        Judgement {
            kind: self.kind,
            severity: match self.costs_channels && lacks_channels {
                true => Severity::Critical,
                false => Severity::Warning,
            },
            host: host.clone(),
            rank: None,
            channel: None,
            nic: self.nic,
            cause: self.cause,
            culprits: Vec::new(),
            message: self.message,
            evidence: self.evidence,
        }
    }
}
