//! What operations of each size reach.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What operations of each size reach on a communicator, beside the best of those like it.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Bandwidths {
    /// Communicator id.
    pub id: String,
    /// Ranks.
    pub n_ranks: u32,
    /// Hosts of these. Absent: no operation was timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub n_hosts: Option<u32>,
    /// Other communicators of as many ranks on as many hosts of which something was timed, of any job that this daemon remembers.
    pub n_like: usize,
    /// By primitive.
    pub curves: Vec<BandwidthCurve>,
    /// What is not known, and why.
    pub lacks: Vec<String>,
}

/// Bandwidth by size of one primitive.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct BandwidthCurve {
    /// Primitive, e.g. `all_reduce`.
    pub primitive: String,
    /// Of this communicator, by size.
    pub sizes: Vec<BandwidthOfSize>,
    /// The best seen on this communicator and those like it, by size: the middle one of eight operations in a row. A size is here only
    /// where as many were timed.
    pub best: Vec<BestBandwidth>,
}

/// Operations of about one size, of late.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct BandwidthOfSize {
    /// They have at least so many bytes, and less than twice as many: a power of two.
    pub from_bytes: u64,
    /// Bytes of the one in the middle, by NCCL's convention: of primitives with a part for each rank, one part.
    pub bytes: u64,
    /// Operations that were timed so far; the figures are of the newest 32.
    pub n_operations: u64,
    /// Of these, those whose time is from the last call to the last completion. Of others it is the least of any rank, because the
    /// clocks of their hosts are not known well enough.
    pub n_by_clocks: u64,
    /// Seconds that the one in the middle took.
    pub seconds: f64,
    /// The fewest seconds of any.
    pub least_seconds: f64,
    /// Bytes of the whole buffer per second of the one in the middle: algbw as nccl-tests defines it.
    pub algorithm_bytes_per_s: f64,
    /// The same by what each link carries for it: busbw as nccl-tests defines it.
    pub bus_bytes_per_s: f64,
}

/// The best that was seen of about one size.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct BestBandwidth {
    /// As in `sizes`.
    pub from_bytes: u64,
    /// Bytes of that operation.
    pub bytes: u64,
    /// Seconds that it took.
    pub seconds: f64,
    /// busbw as nccl-tests defines it.
    pub bus_bytes_per_s: f64,
    /// Communicator that it was seen on.
    pub comm: String,
}
