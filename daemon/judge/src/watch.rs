//! The hosts' hardware over time: what is wrong with it now, and whether what the store kept still holds.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use ringscope_api::Finding;
use ringscope_api::clock::Timestamp;
use ringscope_model::{Model, Name, ProcessState};

use super::HOST_GONE_AFTER;
use super::hardware::trouble::Trouble;
use super::hardware::{self, Ail, Build, Explanation, Recall, Suspects};
use super::ledger::Ledger;
use super::scope::Scope;

/// See the module.
#[derive(Default)]
pub(super) struct Watch {
    suspects: BTreeMap<Name, Suspects>,
    /// What is wrong, by host; every host of which the hardware is known has an entry.
    troubles: BTreeMap<Name, Vec<Trouble>>,
    /// What is wrong with their NICs.
    ails: BTreeMap<Name, Vec<Ail>>,
    recall: Recall,
    /// What the hosts are built of.
    builds: BTreeMap<Name, Build>,
    /// Hosts with processes that should be running, of which nothing is heard.
    gone: BTreeSet<Name>,
}

/// What a look at all hosts has changed.
#[derive(Default)]
pub(super) struct Looked {
    /// Hosts of which it explains other things than before.
    pub(super) explained: BTreeSet<Name>,
    /// Some host is built otherwise than was known.
    pub(super) builds: bool,
    /// Hosts that are gone, or back.
    pub(super) gone: BTreeSet<Name>,
}

impl Watch {
    /// Takes a finding that the store kept.
    pub(super) fn restore(&mut self, finding: &Finding) {
        self.recall.keep(finding);
    }

    /// Judges the hardware of all hosts.
    pub(super) fn look(&mut self, model: &Model, now: Timestamp) -> Looked {
        let mut suspects = BTreeMap::new();
        let mut builds = BTreeMap::new();
        self.troubles.clear();
        let mut ails = BTreeMap::new();
        for (host, health) in hardware::judge(model, &mut self.recall, now) {
            if !health.suspects.is_empty() {
                suspects.insert(host.clone(), health.suspects);
            }
            let its = health.ails.into_iter().map(|ail| Ail { since: self.since(&host, &ail, now), ..ail });
            ails.insert(host.clone(), its.collect());
            builds.insert(host.clone(), health.build);
            self.troubles.insert(host, health.troubles);
        }
        self.ails = ails;
        let gone = gone(model, now);
        let gone_before = std::mem::replace(&mut self.gone, gone);
        let builds_before = std::mem::replace(&mut self.builds, builds);
        let before = std::mem::replace(&mut self.suspects, suspects);
        let hosts = before.keys().chain(self.suspects.keys());
        let explained = hosts.filter(|host| before.get(*host) != self.suspects.get(*host));
        Looked {
            explained: explained.cloned().collect(),
            builds: builds_before != self.builds,
            gone: gone_before.symmetric_difference(&self.gone).cloned().collect(),
        }
    }

    /// What a host is built of. `None`: nobody has read it lately.
    pub(super) fn build(&self, host: &Name) -> Option<&Build> {
        self.builds.get(host)
    }

    /// Whether nothing has been heard for long of some host that should be there.
    pub(super) fn some_are_gone(&self) -> bool {
        !self.gone.is_empty()
    }

    /// Whether nothing has been heard for long of a host that should be there.
    pub(super) fn is_gone(&self, host: &Name) -> bool {
        self.gone.contains(host)
    }

    /// Why a host found fewer channels in a communicator that was made then.
    pub(super) fn explain(&self, host: &Name, made: Timestamp) -> Option<Explanation> {
        self.suspects.get(host)?.explain(made)
    }

    /// What is wrong with the NICs of a host now.
    pub(super) fn ails(&self, host: &Name) -> &[Ail] {
        self.ails.get(host).map(Vec::as_slice).unwrap_or_default()
    }

    /// Since when a NIC ails so. `None`: it did when its host was first looked at, or was never faster since.
    fn since(&self, host: &Name, ail: &Ail, now: Timestamp) -> Option<Timestamp> {
        let same = self.ails(host).iter().find(|known| (&known.nic, known.cause) == (&ail.nic, ail.cause));
        let is_new = || self.builds.contains_key(host) && ail.cause != hardware::NIC_SLOW;
        ail.since.or_else(|| same.map_or_else(|| is_new().then_some(now), |same| same.since))
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

/// Hosts of which none of the processes that have not ended was heard of for long.
fn gone(model: &Model, now: Timestamp) -> BTreeSet<Name> {
    let mut gone = BTreeSet::new();
    for (host, processes) in model.hosts() {
        let mut running = processes.filter(|process| process.state() == ProcessState::Running).peekable();
        let is_there = running.peek().is_some();
        if is_there && running.all(|process| now.since(model.last_spoken(process)) >= HOST_GONE_AFTER) {
            gone.insert(host.clone());
        }
    }
    gone
}
