//! What a finding explains, and by what it is explained, as keys. Pure.

use ringscope_api::{Finding, FindingKind as Kind};

use super::super::summation::AFTER_DIFFERENCE;

/// Something that a finding is about. The finding that explains it and the one that it explains have the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key<'f> {
    /// A host that is lost.
    Host(&'f str),
    /// What the kernel of a host said lately about the host itself.
    Kernel(&'f str),
    /// What it said about something that a job uses there: job and host.
    KernelTo(&'f str, &'f str),
    /// A NIC of a host.
    Nic(&'f str, &'f str),
    /// GPUs that a host lacks.
    Gpus(&'f str),
    /// A process: host and pid.
    Process(&'f str, u32),
    /// A rank of a communicator.
    Rank(&'f str, u32),
    /// The end of some process of a job.
    DeathIn(&'f str),
    /// A communicator in which somebody is waited for.
    StuckIn(&'f str),
    /// A host that found fewer channels, in one communicator.
    HoldsBack(&'f str, &'f str),
    /// The same in any.
    Lacks(&'f str),
    /// What makes the collectives of a job slow.
    SlowIn(&'f str),
    /// A summation group that lost somebody.
    Group(&'f str),
    /// A summation group whose workers have different parameters.
    DifferIn(&'f str),
    /// A host at one end of a connection that nobody answered on.
    Unanswered(&'f str),
    /// Findings of one kind that belong together: kind, job and host.
    Alike(Kind, &'f str, &'f str),
}

/// What the finding explains.
pub(super) fn explains(finding: &Finding) -> Vec<Key<'_>> {
    let (host, comm, job) = (finding.host.as_str(), finding.comm.as_str(), finding.job.as_str());
    let mut keys = alike(finding);
    match finding.finding {
        Kind::HostLost => keys.push(Key::Host(host)),
        Kind::KernelFault => {
            keys.extend(processes(finding));
            if !job.is_empty() {
                keys.extend([Key::KernelTo(job, host), Key::DeathIn(job)]);
            }
            if !is_of_process(finding) {
                keys.push(Key::Kernel(host));
            }
        }
        Kind::GpuMissing => keys.push(Key::Gpus(host)),
        Kind::RankDead => {
            keys.extend(Some(Key::DeathIn(job)).filter(|_| !job.is_empty()));
            keys.extend(finding.group.as_deref().map(Key::Group));
        }
        Kind::ChannelShortfall => keys.extend([Key::HoldsBack(comm, host), Key::Lacks(host)]),
        Kind::SumServerLost => keys.extend(finding.group.as_deref().map(Key::Group)),
        Kind::SumParametersDiffer => keys.extend(finding.group.as_deref().map(Key::DifferIn)),
        Kind::SlowLink | Kind::SlowNic | Kind::Congestion => keys.push(Key::SlowIn(job)),
        // What a process with a failed connection does not get done.
        Kind::QueuePairError => {
            keys.extend(processes(finding));
            // Where it accuses nobody, those at either end may be held up by it.
            if finding.accused.is_empty() {
                keys.push(Key::Unanswered(host));
                keys.extend(finding.culprits.iter().map(|culprit| Key::Unanswered(culprit)));
            }
        }
        _ => {}
    }
    let is_of_nic = matches!(finding.finding, Kind::KernelFault | Kind::NicDegraded | Kind::SlowNic);
    if is_of_nic || finding.finding.is_about_rdma() {
        keys.extend(finding.nic.as_deref().map(|nic| Key::Nic(host, nic)));
    }
    if accuses(finding.finding) {
        keys.extend(processes(finding));
        let stands = matches!(
            finding.finding,
            Kind::RankDead
                | Kind::CallMismatch
                | Kind::OrderDeadlock
                | Kind::RankMissing
                | Kind::P2pUnmatched
                | Kind::InitStuck
        );
        if stands && !comm.is_empty() {
            keys.push(Key::StuckIn(comm));
        }
    }
    keys
}

/// What would explain the finding, the best first.
pub(super) fn explained_by(finding: &Finding) -> Vec<Key<'_>> {
    let (host, comm, job) = (finding.host.as_str(), finding.comm.as_str(), finding.job.as_str());
    let mut keys = Vec::new();
    if !host.is_empty() {
        keys.push(Key::Host(host));
        keys.extend(finding.nic.as_deref().map(|nic| Key::Nic(host, nic)));
    }
    match finding.finding {
        Kind::KernelFault if is_of_process(finding) => {
            keys.extend(processes(finding));
            keys.push(Key::KernelTo(job, host));
        }
        Kind::KernelFault | Kind::HostLost | Kind::GpuMissing => {
            keys.extend([Key::Kernel(host), Key::Gpus(host)])
        }
        Kind::RankDead => {
            keys.extend(processes(finding));
            keys.extend([Key::KernelTo(job, host), Key::DeathIn(job)]);
            if finding.cause == AFTER_DIFFERENCE {
                keys.extend(finding.group.as_deref().map(Key::DifferIn));
            }
        }
        Kind::CappedByPeer => {
            let culprits = || finding.culprits.iter().map(String::as_str);
            keys.extend(culprits().map(|culprit| Key::HoldsBack(comm, culprit)));
            keys.extend(culprits().map(Key::Lacks));
        }
        Kind::ChannelShortfall | Kind::ChannelRegression => {
            if finding.cause == "gpu_missing" {
                keys.push(Key::Gpus(host));
            }
            keys.extend([Key::HoldsBack(comm, host), Key::Lacks(host)]);
        }
        Kind::QueuePairError | Kind::RdmaErrors => {
            keys.extend(processes(finding));
            keys.extend(finding.culprits.iter().map(|culprit| Key::Host(culprit)));
        }
        Kind::Slowdown => keys.push(Key::SlowIn(job)),
        Kind::SlowDevice => keys.extend([Key::KernelTo(job, host), Key::Kernel(host)]),
        Kind::SumRoundStuck => {
            keys.extend(processes(finding));
            keys.extend(finding.group.as_deref().map(Key::Group));
        }
        kind if accuses(kind) => {
            keys.extend(processes(finding));
            keys.extend(finding.accused.iter().map(|culprit| Key::Host(&culprit.host)));
            if follows(kind) {
                keys.extend(finding.accused.iter().map(|culprit| Key::Unanswered(&culprit.host)));
                keys.extend([Key::StuckIn(comm), Key::DeathIn(job)]);
            }
            if kind == Kind::DeviceStalled {
                keys.push(Key::KernelTo(job, host));
            }
        }
        _ => {}
    }
    keys.extend(alike(finding));
    keys
}

/// Whether what the kernel said ended one process, and is nothing to those of other jobs.
fn is_of_process(fault: &Finding) -> bool {
    !fault.accused.is_empty() && matches!(fault.cause.as_str(), "crash" | "out_of_memory")
}

/// Whether findings of this kind are about processes.
fn accuses(kind: Kind) -> bool {
    let is_of_one = matches!(
        kind,
        Kind::RankDead | Kind::CallMismatch | Kind::OrderDeadlock | Kind::P2pUnmatched | Kind::RankMissing
    );
    is_of_one || follows(kind)
}

/// Whether findings of this kind are what others see of something that is worse.
fn follows(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::TransferStalled
            | Kind::DeviceStalled
            | Kind::AsyncError
            | Kind::TeardownStuck
            | Kind::InitStuck
            | Kind::Waiting
    )
}

fn processes(finding: &Finding) -> impl Iterator<Item = Key<'_>> {
    let comm = finding.comm.as_str();
    let rank = move |rank| (!comm.is_empty()).then_some(Key::Rank(comm, rank));
    let of_accused = finding.accused.iter().flat_map(move |culprit| {
        let process = culprit.pid.map(|pid| Key::Process(&culprit.host, pid));
        [process, culprit.rank.and_then(rank)]
    });
    of_accused.chain([finding.rank.and_then(rank)]).flatten()
}

/// What comes in many pieces and is one thing to look after.
fn alike(finding: &Finding) -> Vec<Key<'_>> {
    let (kind, job) = (finding.finding, finding.job.as_str());
    match kind {
        Kind::RailMismatch | Kind::InitBelowHalfFinal | Kind::PartlySeen => vec![Key::Alike(kind, job, "")],
        Kind::TransportFallback | Kind::ChannelRegression => vec![Key::Alike(kind, job, &finding.host)],
        _ => Vec::new(),
    }
}
