//! What is known of the NICs that a job's rings name. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_model::{Job, Model, Name, Nic, Port};

use super::shared::Nics;
use crate::hardware::{Ail, NIC_SLOW};

/// What is wrong with the NICs of a host now.
pub(in super::super) type Hardware<'h> = dyn Fn(&Name) -> &'h [Ail] + 'h;

/// See the module.
pub(super) struct Known<'k, 'h> {
    pub(super) model: &'k Model,
    pub(super) hardware: &'k Hardware<'h>,
}

impl Known<'_, '_> {
    /// What began to be wrong with NICs that the job uses when it became slower.
    pub(super) fn ails_of(&self, job: &Job, slower_since: Timestamp) -> Vec<(Name, Ail)> {
        let hosts: BTreeSet<&Name> =
            job.processes(self.model).filter_map(|process| Some(&process.identity()?.host)).collect();
        let its = hosts.into_iter().flat_map(|host| {
            let ails = (self.hardware)(host).iter().filter(|ail| began_with(ail, slower_since));
            let ails = ails.filter(|ail| self.uses(job, host, &ail.nic));
            ails.map(|ail| (host.clone(), ail.clone()))
        });
        its.take(NICS_NAMED).collect()
    }

    /// Whether rings of the job go through a NIC, as far as it is known which they go through.
    fn uses(&self, job: &Job, host: &Name, label: &Name) -> bool {
        let processes = || {
            let is_there = |host_of: &Name| host_of == host;
            job.processes(self.model)
                .filter(move |process| process.identity().is_some_and(|identity| is_there(&identity.host)))
        };
        let names_some = |place: &ringscope_model::Position| !place.nic.is_empty();
        let are_known =
            processes().any(|process| process.ranks().any(|rank| rank.facts.rings.values().any(names_some)));
        let is_used =
            |(port, nic): (&Port, &Nic)| port.label() == *label && nic.is_in_a_ring(port, processes());
        !are_known || self.ports(host).any(is_used)
    }

    fn ports(&self, host: &Name) -> impl Iterator<Item = (&Port, &Nic)> {
        self.model.hardware_of(host).into_iter().flat_map(|hardware| &hardware.nics)
    }
}

impl Nics for Known<'_, '_> {
    fn ail(&self, host: &Name, nic: &str) -> Option<Ail> {
        let ails = (self.hardware)(host);
        if ails.is_empty() {
            return None;
        }
        let (port, _) = self.ports(host).find(|(port, known)| known.is_named(port, nic))?;
        let label = port.label();
        ails.iter().find(|ail| ail.nic == label).cloned()
    }

    fn rate(&self, host: &Name, nic: &str) -> Option<u64> {
        let (_, known) = self.ports(host).find(|(port, known)| known.is_named(port, nic))?;
        known.rate_bits_per_s
    }
}

/// Whether it shows by itself that bytes move slower. Errors are counted somewhere at any time.
pub(super) fn is_proof(ail: &Ail) -> bool {
    ail.cause == NIC_SLOW
}

/// Whether it may be why something became slower then. A rate is read within seconds; errors have to come together first.
fn began_with(ail: &Ail, slower_since: Timestamp) -> bool {
    let late = if ail.cause == NIC_SLOW { RATE_LATE } else { ERRORS_LATE };
    ail.since.is_some_and(|since| slower_since.since(since) <= EARLY && since.since(slower_since) <= late)
}

/// What was wrong for so long when the job became slower did not make it so.
const EARLY: Duration = Duration::from_secs(60);
/// What is wrong only since so long after that either.
const RATE_LATE: Duration = Duration::from_secs(30);
const ERRORS_LATE: Duration = Duration::from_secs(600);
/// NICs that are named.
const NICS_NAMED: usize = 8;
