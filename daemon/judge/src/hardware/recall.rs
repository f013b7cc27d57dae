//! Findings about hardware that the store kept. What they rest on, the daemon has forgotten: how it was before, and at
//! first how the other hosts fare. So each is taken as true while nothing that is read speaks against it.

use std::collections::BTreeMap;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::{Finding, FindingKind, FindingState};
use ringscope_model::limits::HARDWARE_KEPT;
use ringscope_model::{Hardware, Model, Name};

use super::suspects::Suspect;
use super::{COSTS_CHANNELS, Health, NIC_DOWN, NIC_MISSING, Trouble, known_cause, words};
use crate::judgement::Blame;
use crate::scope::is_of_host;

/// See the module.
#[derive(Default)]
pub(in super::super) struct Recall {
    findings: BTreeMap<Name, Vec<Finding>>,
    /// When the hosts were first looked at.
    began: Option<Timestamp>,
}

impl Recall {
    /// Takes a finding that the store kept.
    pub(in super::super) fn keep(&mut self, finding: &Finding) {
        let is_of_hardware = is_of_host(finding.finding);
        if is_of_hardware && finding.state == FindingState::Firing {
            self.findings.entry(finding.host.as_str().into()).or_default().push(finding.clone());
        }
    }

    /// Whether something about the host was kept and nothing spoke against it yet.
    pub(in super::super) fn waits_for(&self, host: &Name) -> bool {
        self.findings.contains_key(host)
    }

    /// Adds to what was judged what was found before and nothing speaks against.
    pub(super) fn add(&mut self, model: &Model, judged: &mut BTreeMap<Name, Health>, now: Timestamp) {
        let age = now.since(*self.began.get_or_insert(now));
        self.findings.retain(|host, findings| {
            let (Some(health), Some(hardware)) = (judged.get_mut(host), model.hardware_of(host)) else {
                return age < HARDWARE_KEPT;
            };
            findings.retain(|finding| age < READINGS_COME_IN || still_holds(finding, hardware));
            findings.iter().for_each(|finding| health.recall(finding));
            !findings.is_empty()
        });
    }
}

impl Health {
    fn recall(&mut self, finding: &Finding) {
        let nic: Option<Name> = finding.nic.as_deref().map(Name::from);
        let is_same = |known: &Trouble| known.kind == finding.finding && known.nic == nic;
        let Some(cause) = known_cause(&finding.cause) else { return };
        if self.troubles.iter().any(is_same) {
            return;
        }
        if let (NIC_DOWN | NIC_MISSING, Some(nic)) = (cause, &nic) {
            let is = if cause == NIC_DOWN { "is down" } else { "is missing" };
            self.suspects.extend([Suspect::recalled(nic.clone(), cause, is, finding.evidence.clone())]);
        }
        self.troubles.push(Trouble {
            kind: finding.finding,
            nic,
            cause,
            costs_channels: COSTS_CHANNELS.contains(&cause),
            severity: finding.finding.is_about_rdma().then_some(finding.severity),
            message: finding.message.clone(),
            evidence: finding.evidence.clone(),
            culprits: finding.culprits.clone(),
            blame: Blame {
                accused: finding.accused.clone(),
                details: finding.details.clone(),
                ..Blame::default()
            },
        });
    }
}

/// Whether what the host shows is what the finding says. Only for what is compared with how it was before: the rest is judged
/// anew as soon as the hosts have told.
fn still_holds(finding: &Finding, hardware: &Hardware) -> bool {
    let nic = || {
        let is_it = |label: Name| Some(&*label) == finding.nic.as_deref();
        hardware.nics.iter().find(|(port, _)| is_it(port.label())).map(|(_, nic)| nic)
    };
    match finding.finding {
        FindingKind::GpuMissing => hardware
            .gpus
            .as_ref()
            .filter(|_| !hardware.gpus_confined)
            .is_some_and(|gpus| finding.message.starts_with(&words::shows(&finding.host, gpus.len()))),
        _ if finding.cause == NIC_MISSING => nic().is_none_or(|nic| nic.is_missing),
        _ => finding.cause == NIC_DOWN && nic().is_some_and(|nic| !nic.up),
    }
}

/// After this long the hosts that are there have told what they have, so that they can be compared: three readings.
const READINGS_COME_IN: Duration = Duration::from_secs(15);
