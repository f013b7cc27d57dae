//! Hosts that show fewer GPUs than they did, or than their peers.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_api::FindingKind;
use ringscope_model::{Hardware, Model, Name, ProcessState};

use super::suspects::Suspect;
use super::{
    COSTS_CHANNELS, FEWER_THAN_BEFORE, FEWER_THAN_PEERS, GPU_MISSING, Health, MIN_JOB_HOSTS, Trouble, words,
};
use crate::judgement::Blame;

/// GPUs that more than half of a job's hosts show, by job; only of jobs with enough hosts.
pub(super) type ByJob<'a> = BTreeMap<&'a Name, usize>;

pub(super) fn by_job(model: &Model) -> ByJob<'_> {
    if model.hardware().all(|(_, hardware)| hardware.gpus.is_none()) {
        return ByJob::new();
    }
    let usual = model.jobs().filter_map(|(name, job)| {
        let live = job.processes(model).filter(|process| process.state() == ProcessState::Running);
        let hosts: BTreeSet<&Name> =
            live.filter_map(|process| process.identity()).map(|identity| &identity.host).collect();
        let mut hosts_with: BTreeMap<usize, usize> = BTreeMap::new();
        for hardware in hosts.into_iter().filter_map(|host| model.hardware_of(host)) {
            if let Some(gpus) = hardware.gpus.as_ref().filter(|_| !hardware.gpus_confined) {
                *hosts_with.entry(gpus.len()).or_default() += 1;
            }
        }
        let n_hosts: usize = hosts_with.values().sum();
        let most = hosts_with.into_iter().find(|(_, hosts)| hosts * 2 > n_hosts)?.0;
        (n_hosts >= MIN_JOB_HOSTS).then_some((name, most))
    });
    usual.collect()
}

pub(super) fn judge(model: &Model, usual: &ByJob<'_>, host: &Name, hardware: &Hardware, health: &mut Health) {
    // An agent in a container says how many it was given.
    let Some(n) = hardware.gpus.as_ref().filter(|_| !hardware.gpus_confined).map(Vec::len) else { return };
    let processes = model.host(host).into_iter().flat_map(|(_, processes)| processes);
    let live = processes.filter(|process| process.state() == ProcessState::Running);
    let jobs: BTreeSet<&Name> =
        live.filter_map(|process| process.identity()).map(|identity| &identity.job).collect();
    let of_jobs = jobs.into_iter().filter_map(|job| Some((*usual.get(job)?, job))).max();
    let (due, message, cause) = match of_jobs {
        Some((usual, job)) if usual > n && usual >= hardware.most_gpus => {
            (usual, words::fewer_gpus_than_peers(host, n, usual, job), FEWER_THAN_PEERS)
        }
        _ if hardware.most_gpus > n => {
            let before = hardware.most_gpus;
            (before, words::fewer_gpus_than_before(host, n, before), FEWER_THAN_BEFORE)
        }
        _ => return,
    };
    health.suspects.extend([Suspect::now(GPU_MISSING, format!("it shows {n} GPUs instead of {due}"))]);
    health.troubles.push(Trouble {
        kind: FindingKind::GpuMissing,
        nic: None,
        cause,
        costs_channels: COSTS_CHANNELS.contains(&cause),
        severity: None,
        message,
        evidence: Vec::new(),
        culprits: Vec::new(),
        blame: Blame::default(),
    });
}
