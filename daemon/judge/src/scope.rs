//! What findings are about, and how they are told apart.

use ringscope_api::Digest;
use ringscope_api::{Finding, FindingKind};
use ringscope_model::summation::GroupId;
use ringscope_model::{CommunicatorId, Name};

use super::judgement::Judgement;

/// What is judged at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    /// A communicator.
    Communicator(CommunicatorId),
    /// The hardware of a host.
    Hardware(Name),
    /// A summation group.
    Summation(GroupId),
    /// Who waits for whom in a job: over all its communicators.
    Job(Name),
    /// How fast a job goes, and who holds it back.
    Pace(Name),
}

impl Scope {
    /// `None`: an id of another format. Such a finding cannot be judged again, so it could never be resolved.
    pub(super) fn of(finding: &Finding) -> Option<Self> {
        // A rank of a summation group may be dead as one of a communicator may.
        if let Some(group) = &finding.group {
            return group.parse().ok().map(Self::Summation);
        }
        match finding.finding {
            kind if is_of_host(kind) => Some(Self::Hardware(finding.host.as_str().into())),
            kind if is_of_job(kind) => Some(Self::Job(finding.job.as_str().into())),
            kind if kind.is_about_pace() => Some(Self::Pace(finding.job.as_str().into())),
            _ => finding.comm.parse().ok().map(Self::Communicator),
        }
    }

    /// The communicator of a finding, as findings name it. Empty: none.
    pub(super) fn comm<'a>(&'a self, judgement: &'a Judgement) -> &'a str {
        match self {
            Self::Communicator(comm) => comm.as_str(),
            Self::Job(_) | Self::Pace(_) => judgement.blame.comm.as_ref().map_or("", CommunicatorId::as_str),
            Self::Hardware(_) | Self::Summation(_) => "",
        }
    }

    /// As findings name it. `None`: no summation group.
    pub(super) fn group(&self) -> Option<GroupId> {
        match self {
            Self::Summation(group) => Some(*group),
            Self::Communicator(_) | Self::Hardware(_) | Self::Job(_) | Self::Pace(_) => None,
        }
    }

    /// Whether findings of it begin when it began, and anew when it comes again: of what holds for a while only.
    pub(super) fn is_of_waits(&self) -> bool {
        matches!(self, Self::Job(_) | Self::Pace(_))
    }
}

/// Whether a host is judged for this, whatever runs there.
pub(super) const fn is_of_host(kind: FindingKind) -> bool {
    matches!(kind, FindingKind::NicDegraded | FindingKind::GpuMissing) || kind.is_about_rdma()
}

/// Whether a job is judged as a whole for this.
pub(super) fn is_of_job(kind: FindingKind) -> bool {
    matches!(
        kind,
        FindingKind::Waiting
            | FindingKind::RankMissing
            | FindingKind::RankDead
            | FindingKind::HostLost
            | FindingKind::CallMismatch
            | FindingKind::OrderDeadlock
            | FindingKind::P2pUnmatched
            | FindingKind::TransferStalled
            | FindingKind::DeviceStalled
            | FindingKind::InitStuck
            | FindingKind::AsyncError
            | FindingKind::TeardownStuck
            | FindingKind::KernelFault
    )
}

/// The same for the same condition on the same subject, on every daemon.
pub(super) fn finding_id(scope: &Scope, judgement: &Judgement) -> String {
    id(Digest::of(FINDING), scope, judgement)
}

/// The id that releases up to 0.1 gave it.
pub(super) fn older_finding_id(scope: &Scope, judgement: &Judgement) -> String {
    id(Digest::older(), scope, judgement)
}

fn id(hash: Digest, scope: &Scope, judgement: &Judgement) -> String {
    if let Scope::Job(job) | Scope::Pace(job) = scope {
        let comm = scope.comm(judgement);
        let place = if comm.is_empty() { &*judgement.host } else { comm };
        return id_of_wait(hash, job, place, judgement.kind, &judgement.blame.key);
    }
    let rank = judgement.rank.map_or(u64::MAX, u64::from);
    let hash =
        hash.text(judgement.kind.label()).text(scope.comm(judgement)).text(&judgement.host).number(rank);
    // What is not about a channel keeps the id that it had before there were such findings.
    let hash = match judgement.channel {
        Some(channel) => hash.number(u64::from(channel)),
        None => hash,
    };
    // One host can fall back for several reasons.
    let hash = match judgement.kind {
        FindingKind::TransportFallback => hash.text(judgement.cause),
        // And have trouble with several NICs.
        kind if kind == FindingKind::NicDegraded || kind.is_about_rdma() => {
            hash.text(judgement.nic.as_deref().unwrap_or_default())
        }
        _ => hash,
    };
    let hash = match scope.group() {
        Some(group) => hash.text(group.as_str()),
        None => hash,
    };
    format!("{:016x}", hash.finish())
}

/// Of a finding about who waits for whom, as it is given now and as releases up to 0.1 gave it; `place` is its communicator,
/// else its host. Whatever becomes known of a culprit, the finding stays the same: its words are no part of the id.
pub(super) fn wait_ids(job: &str, place: &str, kind: FindingKind, key: &str) -> [String; 2] {
    [Digest::of(FINDING), Digest::older()].map(|hash| id_of_wait(hash, job, place, kind, key))
}

fn id_of_wait(hash: Digest, job: &str, place: &str, kind: FindingKind, key: &str) -> String {
    let hash = hash.text(kind.label()).text(job).text(place).text(key);
    format!("{:016x}", hash.finish())
}

const FINDING: &str = "finding";
