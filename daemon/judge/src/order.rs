//! How near to a cause findings of each kind are: the one order, for the judge of a job and for incidents.

use ringscope_api::FindingKind as Kind;

/// The nearer to a cause, the lower: what a machine does, who is gone, who called something else, who has not come, what
/// stands, what others report of it.
#[must_use]
pub fn order_of(kind: Kind) -> u8 {
    match kind {
        Kind::KernelFault => 0,
        Kind::HostLost => 1,
        Kind::NicDegraded | Kind::GpuMissing | Kind::PfcStorm => 2,
        // Before the end of the workers, for a job ends by it.
        Kind::SumParametersDiffer => 2,
        Kind::RankDead | Kind::SumServerLost => 3,
        Kind::CallMismatch | Kind::GidMismatch => 4,
        Kind::OrderDeadlock => 5,
        Kind::P2pUnmatched => 6,
        Kind::InitStuck => 7,
        Kind::RankMissing | Kind::QueuePairError | Kind::RdmaErrors => 8,
        Kind::TransferStalled | Kind::SumRoundStuck | Kind::SumFingerprintMismatch => 9,
        Kind::DeviceStalled => 10,
        Kind::AsyncError => 11,
        Kind::TeardownStuck => 12,
        Kind::Waiting => 13,
        Kind::ChannelShortfall | Kind::RdmaRetransmits => 14,
        Kind::SlowDevice | Kind::SlowNic => 15,
        Kind::SlowHost | Kind::ComputeStraggler | Kind::UnevenWork | Kind::SlowLink | Kind::Congestion => 16,
        Kind::Slowdown => 17,
        _ => 18,
    }
}
