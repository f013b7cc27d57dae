//! The hosts' hardware over time: what is wrong with it now, and whether what the store kept still holds.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::hardware::{self, Explanation, Recall, Suspects, Trouble};
use super::ledger::Ledger;
use super::scope::Scope;
use crate::api::Finding;
use crate::clock::Timestamp;
use crate::model::{Model, Name};

/// See the module.
#[derive(Default)]
pub(super) struct Watch {
    suspects: BTreeMap<Name, Suspects>,
    /// What is wrong, by host; every host of which the hardware is known has an entry.
    troubles: BTreeMap<Name, Vec<Trouble>>,
    recall: Recall,
}

impl Watch {
    /// Takes a finding that the store kept.
    pub(super) fn restore(&mut self, finding: &Finding) {
        self.recall.keep(finding);
    }

    /// Judges the hardware of all hosts. Returns those of which it explains other things than before.
    pub(super) fn look(&mut self, model: &Model, now: Timestamp) -> BTreeSet<Name> {
        let mut suspects = BTreeMap::new();
        self.troubles.clear();
        for (host, health) in hardware::judge(model, &mut self.recall, now) {
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
        let troubles = std::mem::take(&mut self.troubles);
        // Nobody has told of these lately; of some, not since this daemon started.
        let is_gone = |host: &&Name| !troubles.contains_key(*host) && !self.recall.waits_for(host);
        let gone: Vec<Name> = ledger.hosts().filter(is_gone).cloned().collect();
        let gone = gone.into_iter().map(|host| (host, Vec::new()));
        let holding_back = match troubles.values().any(|troubles| !troubles.is_empty()) {
            true => ledger.hosts_that_hold_back(),
            false => HashSet::new(),
        };
        let mut news = Vec::new();
        for (host, troubles) in gone.chain(troubles).collect::<Vec<_>>() {
            let scope = Scope::Hardware(host.clone());
            if !troubles.is_empty() || ledger.fires(&scope) {
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
