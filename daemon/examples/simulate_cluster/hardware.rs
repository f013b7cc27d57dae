//! What the hosts have: eight NICs and their GPUs behind PCI switches, and an Ethernet interface.

use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::{Gpu, HostHardware, Nic, NicCounter, NicKind};

use crate::cluster::{Fault, Host};
use crate::rings::{LAST_NIC, N_NICS};

/// The hardware of a host. `sent_bytes`: by NIC, of which as many come back.
pub(crate) fn of_host(host: &Host, n_gpus: u32, sent_bytes: &[u64], now: Timestamp) -> HostHardware {
    let mut nics: Vec<Nic> = (0..N_NICS).map(|index| rdma(index, sent_bytes[index as usize])).collect();
    if host.fault == Some(Fault::NicDown) {
        let lost = &mut nics[LAST_NIC as usize];
        *lost = Nic {
            up: false,
            state: "DOWN".into(),
            physical_state: "Polling".into(),
            rate_bits_per_s: None,
            link_downs: Some(3),
            errors: vec![counter("symbol_error", 1_842), counter("link_error_recovery", 7)],
            ..lost.clone()
        };
    }
    nics.push(Nic {
        name: "eth0".into(),
        kind: NicKind::Interface.into(),
        up: true,
        state: "up".into(),
        rate_bits_per_s: Some(25_000_000_000),
        link_layer: "Ethernet".into(),
        pci: "0000:71:00.0".into(),
        numa_node: Some(0),
        model: "mlx5_core".into(),
        state_file: "/sys/class/net/eth0/operstate".into(),
        ..Nic::default()
    });
    HostHardware {
        host: host.name.clone(),
        read_at_ns: now.0,
        nics,
        gpus: (0..n_gpus).map(|index| gpu(&host.name, index)).collect(),
        gpus_known: true,
        ..HostHardware::default()
    }
}

fn rdma(index: u32, sent_bytes: u64) -> Nic {
    let name = format!("mlx5_{index}");
    Nic {
        state_file: format!("/sys/class/infiniband/{name}/ports/1/state"),
        interface: format!("ib{index}"),
        kind: NicKind::Rdma.into(),
        port: 1,
        up: true,
        state: "ACTIVE".into(),
        physical_state: "LinkUp".into(),
        rate_bits_per_s: Some(200_000_000_000),
        link_layer: "InfiniBand".into(),
        pci: format!("0000:{:02x}:00.0", NIC_BUSES[index as usize]),
        pci_path: switch(index),
        numa_node: Some(index / 4),
        model: "MT4123".into(),
        sent_bytes: Some(sent_bytes),
        received_bytes: Some(sent_bytes),
        link_downs: Some(0),
        errors: vec![
            counter("symbol_error", 0),
            counter("link_error_recovery", 0),
            counter("port_rcv_errors", 0),
        ],
        name,
        ..Nic::default()
    }
}

fn gpu(host: &str, index: u32) -> Gpu {
    let mut state = host.bytes().fold(u64::from(index), |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
    Gpu {
        index,
        name: "NVIDIA A100-SXM4-80GB".into(),
        uuid: format!("GPU-{:016x}", crate::cluster::next(&mut state)),
        pci: gpu_pci(index),
        pci_path: switch(index),
        numa_node: Some(index / 4),
        memory_bytes: Some(80 << 30),
        ..Gpu::default()
    }
}

/// A NIC and a GPU share a switch.
fn switch(index: u32) -> Vec<String> {
    let bus = GPU_BUSES[index as usize] - 4;
    vec![format!("0000:{:02x}:01.0", bus - 2), format!("0000:{bus:02x}:00.0")]
}

/// PCI address of the GPU of a local rank.
pub(crate) fn gpu_pci(local: u32) -> String {
    format!("0000:{:02x}:00.0", GPU_BUSES[local as usize])
}

fn counter(name: &str, value: u64) -> NicCounter {
    NicCounter { name: name.into(), value }
}

const GPU_BUSES: [u32; 8] = [0x0f, 0x1f, 0x4f, 0x5f, 0x8f, 0x9f, 0xcf, 0xdf];
const NIC_BUSES: [u32; 8] = [0x10, 0x20, 0x50, 0x60, 0x90, 0xa0, 0xd0, 0xe0];
