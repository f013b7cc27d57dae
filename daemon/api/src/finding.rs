//! Findings: what diagnosis concludes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::clock::Timestamp;

/// One conclusion about one subject.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Finding {
    /// Stable id: the same condition on the same subject keeps it.
    pub id: String,
    /// What was found.
    pub finding: FindingKind,
    /// How bad it is.
    pub severity: Severity,
    /// Whether the condition holds now.
    pub state: FindingState,
    /// Job. Empty: about a host's hardware, whatever runs there.
    pub job: String,
    /// Host that is the subject. For a finding about a communicator as a whole: the host of its lowest rank.
    pub host: String,
    /// Rank that is the subject; in a summation group workers count first, then servers. Absent: the whole host,
    /// communicator or group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub rank: Option<u32>,
    /// Channel that is the subject. Absent: no single one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub channel: Option<u32>,
    /// NIC that is the subject, or that explains it, e.g. `mlx5_3`. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub nic: Option<String>,
    /// Communicator id. Empty: about a host's hardware, or a summation group.
    pub comm: String,
    /// Summation group's id. Absent: not about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub group: Option<String>,
    /// One word why, e.g. `nic_down`, `peer_limits`, `min_nchannels`, `unexplained`.
    pub cause: String,
    /// Hosts that are to blame. Empty where the subject itself is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub culprits: Vec<String>,
    /// Processes that are to blame: who is waited for, or differs. Empty: none in particular.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accused: Vec<Culprit>,
    /// Ranks that wait because of it.
    #[serde(default)]
    pub n_victims: u32,
    /// The reason in words for an operator, with the numbers. Begins with the culprit where there is one.
    pub message: String,
    /// What it costs the job. Absent: not known, or it is not about time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub cost: Option<Cost>,
    /// What to do. Empty: nothing is known to help.
    #[serde(default)]
    pub advice: String,
    /// What else was found out: what the culprit does, the calls side by side, messages of the kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<Detail>,
    /// Incident that it belongs to. Empty: it is judged alone (info).
    #[serde(default)]
    pub incident: String,
    /// Lines of the library's logs, or files of the kernel, that prove it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// It was found of files that were imported: it is the past, and nobody is told of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub imported: bool,
    /// When it truly began, e.g. when the oldest open call was made; as the hosts' clocks say. Of files that do not say
    /// it: when they end. Absent: when it was first seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub began_at: Option<Timestamp>,
    /// When the condition was first seen. Of a wait: when that began, which a restart of the daemon does not change; when
    /// it was found is told by its incident.
    #[schema(value_type = String, format = DateTime)]
    pub first_seen: Timestamp,
    /// When it was last seen to hold.
    #[schema(value_type = String, format = DateTime)]
    pub last_seen: Timestamp,
    /// When it was seen to hold no more. Absent: firing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub resolved_at: Option<Timestamp>,
}

/// What a slowness costs a job.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct Cost {
    /// Seconds by which each step takes longer. Where no step was found in the order of its calls: each call.
    pub seconds_per_step: f64,
    /// Share of the job's time, in percent.
    pub percent: f64,
    /// Hours of all ranks together since it began. Where several are slow at once each has a part, so that they add up.
    pub rank_hours: f64,
    /// Seconds that each step gains where only this one is mended, for others are slow at the same time. Absent: nobody else is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub alone_seconds_per_step: Option<f64>,
}

/// A process that is to blame.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Culprit {
    /// Host.
    pub host: String,
    /// Process id there. Absent: not known, e.g. of a rank that never came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub pid: Option<u32>,
    /// Rank in the finding's communicator. Absent: it has none there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub rank: Option<u32>,
    /// Rank in the job. Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub global_rank: Option<u32>,
    /// Where a scheduler has put it, in words: "pod ml/train-3, container worker". Absent: none has, or not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub place: Option<String>,
    /// What it does instead, in words: "stopped (SIGSTOP)", "in ncclCommDestroy for 12 s", "in no call; its last one
    /// returned 12 s ago".
    pub doing: String,
}

/// Something that was found out, under a title.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Detail {
    /// E.g. "Rank 3, thread MainThread".
    pub title: String,
    /// Lines, at most 64.
    pub lines: Vec<String>,
}

/// A line of a log.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Evidence {
    /// Path of the log on the host where it was read.
    pub file: String,
    /// Number of the line, counting from 1. 0: the file has no lines, as a dump.
    pub line: u64,
    /// The line, cut; or what is there instead of one.
    pub text: String,
}

/// The kinds of finding.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// `init * 2 < final`, exactly as written. Subject: rank.
    InitBelowHalfFinal,
    /// `init == base` while other nodes have more: this node holds the others back. Subject: host.
    ChannelShortfall,
    /// `init > base`: this node is held back by the culprits. Subject: host.
    CappedByPeer,
    /// Ranks of one communicator report different `final`: it will hang. Subject: communicator.
    FinalDisagrees,
    /// `final` is lower than every number that the library's rules allow. Subject: communicator.
    FinalUnexplained,
    /// Fewer init channels than this host had in its last communicator of the same shape. Subject: host.
    ChannelRegression,
    /// A hop runs over a slower transport than its like. Subject: rank and channel.
    TransportFallback,
    /// A hop leads from one rail to another, while most keep theirs. Subject: rank and channel.
    RailMismatch,
    /// ringscope sees only a part of the communicator. Subject: communicator.
    PartlySeen,
    /// A NIC is down or missing, slower than its peers, flaps, or counts errors. Subject: host and NIC.
    NicDegraded,
    /// A host shows fewer GPUs than it did, or than its peers in the job. Subject: host.
    GpuMissing,
    /// A summation service owns, or gets, more than 1.1 times its optimal share, and that is not next to nothing. Subject: its
    /// rank.
    SumShareImbalance,
    /// One worker comes last in most rounds, and late. Subject: its rank.
    SumStraggler,
    /// A round waits for longer than any did before. Subject: the rank with whom the waiting begins.
    SumRoundStuck,
    /// Members have different bytes of one result. Subject: the rank that differs.
    SumFingerprintMismatch,
    /// Workers have found that their parameters are not the same. Subject: the rank that differs from most; the group where no
    /// more than half are the same.
    SumParametersDiffer,
    /// A server was lost, and the session does not go on, or has just gone on without it. Subject: its rank.
    SumServerLost,
    /// Ranks wait for others longer than is usual, which may be healthy. Subject: the rank that is waited for.
    Waiting,
    /// A rank has not made the call that the others wait in. Subject: that rank.
    RankMissing,
    /// A rank's process was killed, or exited without destroying the communicator; or a summation group has lost a worker.
    /// Subject: that rank.
    RankDead,
    /// Nothing is heard of a host any more. Subject: host.
    HostLost,
    /// Ranks made different calls. Subject: the rank that differs from most.
    CallMismatch,
    /// Ranks wait for each other in a circle of communicators. Subject: the rank whose order differs from most.
    OrderDeadlock,
    /// A send without its receive, a receive without its send, or of another size. Subject: the rank that lacks it.
    P2pUnmatched,
    /// All ranks are in the call and nothing moves. Subject: the hop where progress ends, as far as is known.
    TransferStalled,
    /// Called and never started: the GPU is busy with something else, or its stream waits. Subject: rank.
    DeviceStalled,
    /// An init, split or shrink that does not end. Subject: the rank that has not come, or disagrees.
    InitStuck,
    /// The library reported an asynchronous error. Subject: the rank that reported it first.
    AsyncError,
    /// A rank is in destroy, finalize or abort and does not come out. Subject: that rank.
    TeardownStuck,
    /// The kernel reported a fault of a GPU, NIC, memory or disk. Subject: host.
    KernelFault,
    /// A rank is longer outside of collectives than its like, and the others wait for it. Subject: that rank.
    ComputeStraggler,
    /// One way between two ranks is slower than its like. Subject: the rank that sends.
    SlowLink,
    /// What goes out of a NIC, or into it, is slower than its like, or its own counters tell why a link is. Subject: host and NIC.
    SlowNic,
    /// Many links of a rail are slow at once, and no host or NIC of its own is to blame. Subject: job.
    Congestion,
    /// A rank is longer outside of collectives than its like, and its GPU tells why. Subject: that rank.
    SlowDevice,
    /// All ranks of a host are longer outside of collectives than those of other hosts. Subject: host.
    SlowHost,
    /// A rank is given more bytes or calls than its like. Subject: that rank.
    UnevenWork,
    /// A rank does other work than the others, as its calls or its program show, and they wait for it. Subject: that rank.
    OtherWork,
    /// The collectives of a job take longer than they did. Subject: job.
    Slowdown,
    /// A job spends much of its time in collectives of few bytes, of which one larger one would take far less. Subject: job.
    TooSmall,
    /// A port of an RDMA device sends much again, or much of what is sent to it is lost. Subject: host and NIC.
    RdmaRetransmits,
    /// Requests of a port of an RDMA device fail for good. Subject: host and NIC.
    RdmaErrors,
    /// RDMA connections failed, or queue pairs stand in an error state, while their processes live. Subject: host and NIC.
    QueuePairError,
    /// The two ends of RDMA connections, or the hosts of a job on one rail, have GIDs of different kinds. Subject: host and NIC.
    GidMismatch,
    /// The two ends of RDMA connections take packets of different sizes. Subject: host and NIC.
    MtuMismatch,
    /// Pause frames stop a port. Subject: host and NIC that send them, where that is known, else those that are stopped.
    PfcStorm,
}

impl FindingKind {
    /// Every kind.
    pub const ALL: [Self; 46] = [
        Self::InitBelowHalfFinal,
        Self::ChannelShortfall,
        Self::CappedByPeer,
        Self::FinalDisagrees,
        Self::ChannelRegression,
        Self::TransportFallback,
        Self::RailMismatch,
        Self::FinalUnexplained,
        Self::PartlySeen,
        Self::NicDegraded,
        Self::GpuMissing,
        Self::SumShareImbalance,
        Self::SumStraggler,
        Self::SumRoundStuck,
        Self::SumFingerprintMismatch,
        Self::SumParametersDiffer,
        Self::SumServerLost,
        Self::Waiting,
        Self::RankMissing,
        Self::RankDead,
        Self::HostLost,
        Self::CallMismatch,
        Self::OrderDeadlock,
        Self::P2pUnmatched,
        Self::TransferStalled,
        Self::DeviceStalled,
        Self::InitStuck,
        Self::AsyncError,
        Self::TeardownStuck,
        Self::KernelFault,
        Self::ComputeStraggler,
        Self::SlowLink,
        Self::SlowNic,
        Self::Congestion,
        Self::SlowDevice,
        Self::SlowHost,
        Self::UnevenWork,
        Self::OtherWork,
        Self::Slowdown,
        Self::TooSmall,
        Self::RdmaRetransmits,
        Self::RdmaErrors,
        Self::QueuePairError,
        Self::GidMismatch,
        Self::MtuMismatch,
        Self::PfcStorm,
    ];

    /// Whether it is about RDMA: a port, its connections and their queue pairs.
    #[must_use]
    pub const fn is_about_rdma(self) -> bool {
        matches!(
            self,
            Self::RdmaRetransmits
                | Self::RdmaErrors
                | Self::QueuePairError
                | Self::GidMismatch
                | Self::MtuMismatch
                | Self::PfcStorm
        )
    }

    /// Whether it is about how fast a job goes.
    #[must_use]
    pub const fn is_about_pace(self) -> bool {
        matches!(
            self,
            Self::ComputeStraggler
                | Self::SlowDevice
                | Self::SlowHost
                | Self::UnevenWork
                | Self::OtherWork
                | Self::SlowLink
                | Self::SlowNic
                | Self::Congestion
                | Self::Slowdown
                | Self::TooSmall
        )
    }

    /// The word used in labels and in JSON.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::InitBelowHalfFinal => "init_below_half_final",
            Self::ChannelShortfall => "channel_shortfall",
            Self::CappedByPeer => "capped_by_peer",
            Self::FinalDisagrees => "final_disagrees",
            Self::ChannelRegression => "channel_regression",
            Self::TransportFallback => "transport_fallback",
            Self::RailMismatch => "rail_mismatch",
            Self::FinalUnexplained => "final_unexplained",
            Self::PartlySeen => "partly_seen",
            Self::NicDegraded => "nic_degraded",
            Self::GpuMissing => "gpu_missing",
            Self::SumShareImbalance => "sum_share_imbalance",
            Self::SumStraggler => "sum_straggler",
            Self::SumRoundStuck => "sum_round_stuck",
            Self::SumFingerprintMismatch => "sum_fingerprint_mismatch",
            Self::SumParametersDiffer => "sum_parameters_differ",
            Self::SumServerLost => "sum_server_lost",
            Self::Waiting => "waiting",
            Self::RankMissing => "rank_missing",
            Self::RankDead => "rank_dead",
            Self::HostLost => "host_lost",
            Self::CallMismatch => "call_mismatch",
            Self::OrderDeadlock => "order_deadlock",
            Self::P2pUnmatched => "p2p_unmatched",
            Self::TransferStalled => "transfer_stalled",
            Self::DeviceStalled => "device_stalled",
            Self::InitStuck => "init_stuck",
            Self::AsyncError => "async_error",
            Self::TeardownStuck => "teardown_stuck",
            Self::KernelFault => "kernel_fault",
            Self::ComputeStraggler => "compute_straggler",
            Self::SlowLink => "slow_link",
            Self::SlowNic => "slow_nic",
            Self::Congestion => "congestion",
            Self::SlowDevice => "slow_device",
            Self::Slowdown => "slowdown",
            Self::TooSmall => "too_small",
            Self::SlowHost => "slow_host",
            Self::UnevenWork => "uneven_work",
            Self::OtherWork => "other_work",
            Self::RdmaRetransmits => "rdma_retransmits",
            Self::RdmaErrors => "rdma_errors",
            Self::QueuePairError => "queue_pair_error",
            Self::GidMismatch => "gid_mismatch",
            Self::MtuMismatch => "mtu_mismatch",
            Self::PfcStorm => "pfc_storm",
        }
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Explained, or a consequence of another finding.
    Info,
    /// Somebody should look.
    Warning,
    /// The job is slower than it could be, or will hang.
    Critical,
}

impl Severity {
    /// The word used in labels and in JSON.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// Whether a finding's condition holds.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingState {
    /// It holds.
    Firing,
    /// It held once, and no more.
    Resolved,
}

/// Firing findings by severity.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the severities")]
pub struct FindingCounts {
    pub critical: u32,
    pub warning: u32,
    pub info: u32,
}
