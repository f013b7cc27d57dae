//! NICs and GPUs of a host.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Gid, Severity};
use crate::clock::Timestamp;

/// What a host has, as its agent last read it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct Hardware {
    /// When it was read.
    #[schema(value_type = String, format = DateTime)]
    pub read_at: Timestamp,
    /// Its NICs, RDMA devices first, by name and port.
    pub nics: Vec<Nic>,
    /// Its GPUs, by index. Absent: no driver answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub gpus: Option<Vec<Gpu>>,
}

/// One port of a network device.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct Nic {
    /// Device, e.g. `mlx5_3`.
    pub name: String,
    /// Whether it is an RDMA device; else a network interface.
    pub rdma: bool,
    /// Port of an RDMA device, counting from 1; 0 for a network interface.
    pub port: u32,
    /// Whether data can flow.
    pub up: bool,
    /// State as the kernel says it, e.g. `ACTIVE`, `DOWN`, `up`.
    pub state: String,
    /// Physical state, e.g. `LinkUp`, `Polling`. Absent: not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub physical_state: Option<String>,
    /// Rate of the link, bytes per second. Absent: not said.
    #[schema(required = true)]
    pub rate_bytes_per_s: Option<f64>,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: String,
    /// Network interface of an RDMA device. Absent: none, or not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub interface: Option<String>,
    /// PCI address. Absent: not a PCI device.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub pci: Option<String>,
    /// NUMA node. Absent: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub numa_node: Option<u32>,
    /// Driver or board. Absent: not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub model: Option<String>,
    /// Bytes that the port has sent since it counts. Absent: not counted.
    #[schema(required = true)]
    pub sent_bytes: Option<u64>,
    /// Bytes received.
    #[schema(required = true)]
    pub received_bytes: Option<u64>,
    /// Bytes per second sent over the last seconds. Absent: not known yet.
    #[schema(required = true)]
    pub sent_bytes_per_s: Option<f64>,
    /// Bytes per second received.
    #[schema(required = true)]
    pub received_bytes_per_s: Option<f64>,
    /// Payload bytes per second that communicators sent through it over the last seconds. Absent: nobody counted (see
    /// `Hop.sent_bytes`), or no communicator uses it.
    #[schema(required = true)]
    pub payload_bytes_per_s: Option<f64>,
    /// Whether the payload was divided evenly among the NICs that lead to the same peer, because only their sum is known.
    pub payload_estimated: bool,
    /// How often its link went down since it counts. Absent: not counted.
    #[schema(required = true)]
    pub link_downs: Option<u64>,
    /// Counters of errors that are not 0, by name.
    pub errors: Vec<NicError>,
    /// Counters of what was lost, late or out of order and was repeated, that are not 0, by name.
    pub retransmits: Vec<NicError>,
    /// Counters of requests that failed for good, that are not 0, by name.
    pub failures: Vec<NicError>,
    /// Counters of pause frames and of congestion control that are not 0, by name.
    pub congestion: Vec<NicFlow>,
    /// Bytes of payload in a packet that an RDMA port can now. Absent: not known.
    #[schema(required = true)]
    pub mtu_bytes: Option<u32>,
    /// Entries of an RDMA port's table of GIDs that are not empty, by index.
    pub gids: Vec<Gid>,
    /// Worst severity of the findings about it that fire. Absent: none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub severity: Option<Severity>,
    /// What is wrong with it, in words. Empty: nothing.
    pub reasons: Vec<String>,
    /// Channels of communicators in use whose rings go through it, by communicator.
    pub channels: Vec<NicChannels>,
}

/// One counter of errors.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct NicError {
    /// As the kernel names it, e.g. `symbol_error`.
    pub name: String,
    /// Since the port counts.
    pub value: u64,
    /// How many more than ten minutes ago.
    pub risen: u64,
}

/// One counter of pause frames or of congestion control.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct NicFlow {
    /// As the kernel names it, e.g. `rx_prio3_pause`, `np_cnp_sent`.
    pub name: String,
    /// Since the port counts.
    pub value: u64,
    /// How fast it rose over the last half minute. Absent: not known yet.
    #[schema(required = true)]
    pub per_s: Option<f64>,
}

/// Channels of a communicator that go through a NIC.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct NicChannels {
    /// Communicator id.
    pub comm: String,
    /// Channels, ascending.
    pub channels: Vec<u32>,
}

/// One GPU.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct Gpu {
    /// Number that the driver gives it.
    pub index: u32,
    /// Model. Absent: not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub name: Option<String>,
    /// Unique id. Absent: not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub uuid: Option<String>,
    /// PCI address.
    pub pci: String,
    /// NUMA node. Absent: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub numa_node: Option<u32>,
    /// Memory. Absent: not said.
    #[schema(required = true)]
    pub memory_bytes: Option<u64>,
    /// NICs by how close they are, closest first.
    pub nics: Vec<GpuNic>,
}

/// How close a NIC is to a GPU.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct GpuNic {
    /// NIC.
    pub nic: String,
    /// As `nvidia-smi topo -m` names it: `PIX` (one PCI switch), `PXB` (several), `PHB` (a host bridge), `NODE` (a NUMA
    /// node), `SYS` (across NUMA nodes).
    pub distance: String,
}
