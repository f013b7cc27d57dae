//! The hosts' hardware over time: what is wrong with it now, and whether what the store kept still holds.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use super::hardware::{self, Explanation, Suspects, Trouble};
use super::ledger::{Ledger, Scope};
use crate::api::{Finding, FindingKind, FindingState};
use crate::clock::Timestamp;
use crate::model::limits::HARDWARE_KEPT;
use crate::model::{Model, Name};

/// See the module.
#[derive(Default)]
pub(super) struct Watch {
    suspects: BTreeMap<Name, Suspects>,
    /// What is wrong, by host; every host of which the hardware is known has an entry.
    troubles: BTreeMap<Name, Vec<Trouble>>,
    /// When findings were first settled.
    began: Option<Timestamp>,
    /// Hosts with findings that the store kept.
    restored: BTreeSet<Name>,
}

impl Watch {
    /// Notes a finding that the store kept: until the readings of the hosts have come in, nobody can say that it holds no more.
    pub(super) fn restore(&mut self, finding: &Finding) {
        let is_of_hardware = matches!(finding.finding, FindingKind::NicDegraded | FindingKind::GpuMissing);
        if is_of_hardware && finding.state == FindingState::Firing {
            self.restored.insert(finding.host.as_str().into());
        }
    }

    /// Judges the hardware of all hosts. Returns those of which it explains other things than before.
    pub(super) fn look(&mut self, model: &Model) -> BTreeSet<Name> {
        let mut suspects = BTreeMap::new();
        self.troubles.clear();
        for (host, health) in hardware::judge(model) {
            if !health.suspects.is_empty() {
                suspects.insert(host.clone(), health.suspects);
            }
            self.troubles.insert(host, health.troubles);
        }
        let before = std::mem::replace(&mut self.suspects, suspects);
        let hosts = before.keys().chain(self.suspects.keys());
        hosts.filter(|host| before.get(*host) != self.suspects.get(*host)).cloned().collect()
    }

    /// Why a host found fewer channels in a communicator that was made then.
    pub(super) fn explain(&self, host: &Name, made: Timestamp) -> Option<Explanation> {
        self.suspects.get(host)?.explain(made)
    }

    /// Makes what was seen last the findings about hardware. Returns what is news.
    pub(super) fn settle(&mut self, ledger: &mut Ledger, now: Timestamp) -> Vec<Finding> {
        let age = now.since(*self.began.get_or_insert(now));
        let troubles = std::mem::take(&mut self.troubles);
        if !self.restored.is_empty() {
            self.restored.retain(|host| match troubles.contains_key(host) {
                true => age < READINGS_COME_IN,
                false => age < HARDWARE_KEPT,
            });
        }
        let gone: Vec<Name> = ledger.hosts().filter(|host| !troubles.contains_key(*host)).cloned().collect();
        let gone = gone.into_iter().map(|host| (host, Vec::new()));
        let holding_back = match troubles.values().any(|troubles| !troubles.is_empty()) {
            true => ledger.hosts_that_hold_back(),
            false => HashSet::new(),
        };
        let mut news = Vec::new();
        for (host, troubles) in gone.chain(troubles).collect::<Vec<_>>() {
            let scope = Scope::Hardware(host.clone());
            let is_open = troubles.is_empty() && self.restored.contains(&host);
            if !is_open && (!troubles.is_empty() || ledger.fires(&scope)) {
                let lacks = holding_back.contains(&*host);
                let judgements =
                    troubles.into_iter().map(|trouble| trouble.judgement(&host, lacks)).collect();
                news.extend(ledger.settle(&scope, "", judgements, now));
                news.extend(ledger.touch(&scope, now));
            }
        }
        news
    }
}

/// After this long the hosts that are there have told what they have, so that they can be compared: three readings.
const READINGS_COME_IN: Duration = Duration::from_secs(15);
