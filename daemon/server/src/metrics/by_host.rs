//! What a scrape shows of hosts where not all of them can have series.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ringscope_api::HostClock;
use ringscope_api::clock::Timestamp;

use super::jobs_seen::JobSeen;
use super::nics::NicPort;
use super::room::{Candidate, Choice, Level, Memory};
use crate::hub::CollectorCount;

/// Everything that is shown by host, of all hosts.
pub(super) struct ByHost<'a> {
    pub(super) collectors: &'a mut Vec<CollectorCount>,
    pub(super) nics: &'a mut Vec<NicPort>,
    pub(super) gpus: &'a mut Vec<(String, u64)>,
    pub(super) clocks: &'a mut Vec<HostClock>,
    pub(super) jobs: &'a mut Vec<JobSeen>,
    pub(super) agents: &'a mut BTreeMap<String, Timestamp>,
}

#[derive(Default)]
struct Host {
    whole: usize,
    nics: usize,
    unhealthy: bool,
}

impl ByHost<'_> {
    /// Leaves what there is room for: of each host its agent, processes, GPUs and clock, and of as many as can its NICs.
    pub(super) fn fit(
        self,
        unhealthy: &BTreeSet<String>,
        memory: &mut Memory<String>,
        room: usize,
        now: Timestamp,
    ) -> Choice<String> {
        let candidates = self.candidates(unhealthy, now);
        let choice = memory.choose(&candidates, room, 100, now);
        let is_shown = |host: &str| choice.level(&host.to_owned()).is_some();
        self.collectors.retain(|count| is_shown(&count.host));
        self.gpus.retain(|(host, _)| is_shown(host));
        self.clocks.retain(|clock| is_shown(&clock.host));
        self.agents.retain(|host, _| is_shown(host));
        self.nics.retain(|nic| choice.level(&nic.host) == Some(Level::Detail));
        for job in self.jobs {
            job.processes.retain(|(host, _), _| is_shown(host));
        }
        choice
    }

    fn candidates(&self, unhealthy: &BTreeSet<String>, now: Timestamp) -> Vec<Candidate<String>> {
        let mut hosts: BTreeMap<&str, Host> = BTreeMap::new();
        for (host, heard) in &*self.agents {
            let known = hosts.entry(host).or_default();
            known.whole += 1;
            known.unhealthy |= now.since(*heard) > SILENT;
        }
        for count in &*self.collectors {
            let known = hosts.entry(&count.host).or_default();
            known.whole += 1;
            known.unhealthy |= count.state == "fault";
        }
        for (host, state) in self.jobs.iter().flat_map(|job| job.processes.keys()) {
            let known = hosts.entry(host).or_default();
            known.whole += 1;
            known.unhealthy |= *state == "stale";
        }
        for (host, _) in &*self.gpus {
            hosts.entry(host).or_default().whole += 1;
        }
        for clock in &*self.clocks {
            // Its offset and the error of that.
            hosts.entry(&clock.host).or_default().whole += 2;
        }
        for nic in &*self.nics {
            hosts.entry(&nic.host).or_default().nics += nic.n_series();
        }
        let candidate = |(host, known): (&str, Host)| Candidate {
            key: host.to_owned(),
            unhealthy: known.unhealthy || unhealthy.contains(host),
            size: 1,
            whole: known.whole,
            detail: known.nics,
        };
        hosts.into_iter().map(candidate).collect()
    }
}

/// An agent that says nothing for so long is looked for.
const SILENT: Duration = Duration::from_secs(60);
