//! Network interfaces with a device behind them, from `/sys/class/net`; those of RDMA devices are told there alone.

use std::collections::BTreeSet;
use std::path::Path;

use ringscope_wire::batch::{Nic, NicCounter, NicKind};

use super::{counters, files, pci};

/// Counters of `statistics` that mean a bad cable, port or driver. Overruns and drops, which mean a busy host, are not.
const ERRORS: &[&str] = &[
    "rx_errors",
    "rx_crc_errors",
    "rx_frame_errors",
    "rx_length_errors",
    "tx_errors",
    "tx_aborted_errors",
    "tx_carrier_errors",
    "tx_heartbeat_errors",
    "tx_window_errors",
];
/// ARPHRD_ETHER of the kernel's if_arp.h.
const TYPE_ETHERNET: u64 = 1;
/// ARPHRD_INFINIBAND.
const TYPE_INFINIBAND: u64 = 32;
/// SPEED_UNKNOWN of the kernel's ethtool.h where it is printed without a sign.
const SPEED_UNKNOWN: u64 = 0xffff_ffff;

/// All that are neither `named` nor belong to the PCI devices `used`.
pub(super) fn read(sysfs: &Path, used: &BTreeSet<String>, named: &BTreeSet<String>) -> Vec<Nic> {
    let class = sysfs.join("class/net");
    let names = files::names(&class).into_iter();
    names
        .filter(|name| !named.contains(name) && class.join(name).join("device").exists())
        .map(|name| interface(&class.join(&name), name))
        .filter(|nic| !used.contains(&nic.pci))
        .collect()
}

/// Counters of errors of the interface in `folder`.
pub(super) fn errors(folder: &Path) -> Vec<NicCounter> {
    counters(&folder.join("statistics"), ERRORS)
}

/// How often the interface in `folder` lost its carrier.
pub(super) fn carrier_downs(folder: &Path) -> Option<u64> {
    files::number(&folder.join("carrier_down_count"))
}

fn interface(folder: &Path, name: String) -> Nic {
    let device = folder.join("device");
    let place = pci::place(&device);
    let state_file = folder.join("operstate");
    let state = files::text(&state_file).unwrap_or_default();
    let has_carrier = files::number(&folder.join("carrier")) == Some(1);
    let link_layer = match files::number(&folder.join("type")) {
        Some(TYPE_ETHERNET) => "Ethernet",
        Some(TYPE_INFINIBAND) => "InfiniBand",
        _ => "",
    };
    let speed_mbit = files::number(&folder.join("speed")).filter(|speed| (1..SPEED_UNKNOWN).contains(speed));
    Nic {
        name,
        kind: NicKind::Interface.into(),
        port: 0,
        up: state == "up" || (matches!(state.as_str(), "unknown" | "") && has_carrier),
        rate_bits_per_s: speed_mbit.map(|speed| speed * 1_000_000),
        state,
        physical_state: String::new(),
        link_layer: link_layer.to_owned(),
        interface: String::new(),
        pci: place.address,
        pci_path: place.bridges,
        numa_node: place.numa_node,
        model: files::link_name(&device.join("driver")).unwrap_or_default(),
        sent_bytes: files::number(&folder.join("statistics/tx_bytes")),
        received_bytes: files::number(&folder.join("statistics/rx_bytes")),
        link_downs: carrier_downs(folder),
        errors: errors(folder),
        state_file: state_file.display().to_string(),
        ..Nic::default()
    }
}
