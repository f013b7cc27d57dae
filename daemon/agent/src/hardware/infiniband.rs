//! Ports of RDMA devices (InfiniBand, RoCE, EFA and others), from `/sys/class/infiniband`.

use std::path::Path;

use ringscope_wire::batch::{Nic, NicCounter, NicKind};

use super::rdma_counters::{CONGESTION, FAILURES, HARDWARE_ERRORS, LINK_ERRORS, RETRANSMITS};
use super::{MAX_ERRORS, MAX_NICS, counters, files, gids, net, pci};

/// Words that the InfiniBand specification counts data in.
const WORD_BYTES: u64 = 4;
/// Bytes that headers of RoCE take of an interface's MTU, and what is left for payload comes in these sizes. Source: Linux,
/// include/rdma/ib_addr.h, `iboe_get_mtu`.
const ROCE_HEADER_BYTES: u64 = 96;
const MTUS_BYTES: [u16; 5] = [4096, 2048, 1024, 512, 256];

/// The ports of all devices.
pub(super) fn read(sysfs: &Path) -> Vec<Nic> {
    let class = sysfs.join("class/infiniband");
    let mut nics = Vec::new();
    for name in files::names(&class).into_iter().take(MAX_NICS) {
        nics.extend(ports(sysfs, &class.join(&name), &name));
    }
    nics
}

/// The ports of the device in `folder`.
fn ports(sysfs: &Path, folder: &Path, name: &str) -> Vec<Nic> {
    let device = folder.join("device");
    let place = pci::place(&device);
    let model = files::text(&folder.join("hca_type")).or_else(|| files::link_name(&device.join("driver")));
    let numbers: Vec<u32> = files::names(&folder.join("ports"))
        .iter()
        .filter_map(|port| port.parse().ok())
        .take(MAX_NICS)
        .collect();
    let nic = |number: &u32| {
        let port = folder.join("ports").join(number.to_string());
        let interface = interface(folder, &port, *number).unwrap_or_default();
        let counted = Counted {
            // Drivers that count for the whole device do it beside the ports.
            hardware: if numbers.len() == 1 && !port.join("hw_counters").is_dir() { folder } else { &port },
            port: &port,
            netdev: (!interface.is_empty()).then(|| sysfs.join("class/net").join(&interface)),
        };
        let told = Nic {
            name: name.to_owned(),
            kind: NicKind::Rdma.into(),
            port: *number,
            interface,
            pci: place.address.clone(),
            pci_path: place.bridges.clone(),
            numa_node: place.numa_node,
            mtu_bytes: counted.mtu_bytes(),
            model: model.clone().unwrap_or_default(),
            ..state(&port)
        };
        counted.tell(told)
    };
    numbers.iter().map(nic).collect()
}

/// What a port says of its link.
fn state(port: &Path) -> Nic {
    let state_file = port.join("state");
    let state = files::text(&state_file).map(|text| word(&text)).unwrap_or_default();
    let physical_state = files::text(&port.join("phys_state")).map(|text| word(&text)).unwrap_or_default();
    let up = state == "ACTIVE";
    let has_link = up || physical_state == "LinkUp";
    // A port that is down says the rate that it begins to talk at.
    let rate = files::text(&port.join("rate")).filter(|_| has_link);
    let link_layer = files::text(&port.join("link_layer")).unwrap_or_default();
    Nic {
        up,
        state,
        physical_state,
        rate_bits_per_s: rate.and_then(|rate| bits_per_s(&rate)),
        gids: gids::read(port, &link_layer),
        link_layer: if is_link_layer(&link_layer) { link_layer } else { String::new() },
        state_file: state_file.display().to_string(),
        ..Nic::default()
    }
}

/// EFA says "Unspecified".
fn is_link_layer(text: &str) -> bool {
    matches!(text, "InfiniBand" | "Ethernet")
}

/// Where a port counts.
struct Counted<'a> {
    port: &'a Path,
    /// Folder that has `hw_counters`.
    hardware: &'a Path,
    /// Folder of its network interface.
    netdev: Option<std::path::PathBuf>,
}

impl Counted<'_> {
    /// Adds what is counted to what is told.
    fn tell(&self, nic: Nic) -> Nic {
        // On Ethernet the interface sees the cable; on InfiniBand the interface is one user among others.
        let netdev = self.netdev.as_deref().filter(|_| nic.link_layer == "Ethernet");
        let link_downed = || {
            let counted = files::number(&self.port.join("counters/link_downed"));
            counted.or_else(|| files::number(&self.hardware.join("hw_counters/link_downed")))
        };
        let hardware = |names| counters(&self.hardware.join("hw_counters"), names);
        Nic {
            sent_bytes: self.bytes("port_xmit_data", "tx_bytes", &["ip4OutOctets", "ip6OutOctets"]),
            received_bytes: self.bytes("port_rcv_data", "rx_bytes", &["ip4InOctets", "ip6InOctets"]),
            link_downs: netdev.and_then(net::carrier_downs).or_else(link_downed),
            errors: self.errors(netdev),
            retransmits: hardware(RETRANSMITS),
            failures: hardware(FAILURES),
            congestion: hardware(CONGESTION),
            ..nic
        }
    }

    fn errors(&self, netdev: Option<&Path>) -> Vec<NicCounter> {
        let mut errors = counters(&self.port.join("counters"), LINK_ERRORS);
        errors.extend(counters(&self.hardware.join("hw_counters"), HARDWARE_ERRORS));
        for error in netdev.map(net::errors).unwrap_or_default() {
            if errors.iter().all(|other| other.name != error.name) {
                errors.push(error);
            }
        }
        errors.truncate(MAX_ERRORS);
        errors
    }

    /// Bytes of payload in a packet of RoCE, of what its interface can. On InfiniBand no file tells.
    fn mtu_bytes(&self) -> Option<u32> {
        let interface = files::number(&self.netdev.as_ref()?.join("mtu"))?;
        let room = interface.checked_sub(ROCE_HEADER_BYTES)?;
        MTUS_BYTES.iter().find(|mtu| u64::from(**mtu) <= room).map(|mtu| u32::from(*mtu))
    }

    /// Bytes as the specification counts them, or as EFA and bnxt_re do, or as irdma does. A driver in software counts none
    /// (soft RoCE has no `counters`): there all that its interface carries is told.
    fn bytes(&self, words: &str, bytes: &str, octets: &[&str]) -> Option<u64> {
        let hardware = self.hardware.join("hw_counters");
        let words = files::number(&self.port.join("counters").join(words));
        words
            .map(|words| words.saturating_mul(WORD_BYTES))
            .or_else(|| files::number(&hardware.join(bytes)))
            .or_else(|| {
                let counted = counters(&hardware, octets);
                (!counted.is_empty()).then(|| counted.iter().map(|counter| counter.value).sum())
            })
            .or_else(|| {
                let netdev = self.netdev.as_ref().filter(|_| self.is_in_software())?;
                files::number(&netdev.join("statistics").join(bytes))
            })
    }

    /// Whether no device is behind it: soft RoCE, soft iWARP.
    fn is_in_software(&self) -> bool {
        let device = self.port.parent().and_then(Path::parent).map(|folder| folder.join("device"));
        device.is_some_and(|device| !device.exists()) && !self.port.join("counters").is_dir()
    }
}

/// The network interface of a port: what its address table says, else the one of the device with its number.
fn interface(folder: &Path, port: &Path, number: u32) -> Option<String> {
    let told = files::names(&port.join("gid_attrs/ndevs"))
        .iter()
        .take(1)
        .find_map(|index| files::text(&port.join("gid_attrs/ndevs").join(index)));
    told.or_else(|| {
        let net = folder.join("device/net");
        let names = files::names(&net);
        let is_port =
            |name: &&String| files::number(&net.join(name).join("dev_port")) == Some(u64::from(number) - 1);
        let found =
            names.iter().find(is_port).or_else(|| names.first().filter(|_| names.len() == 1)).cloned();
        // A device in software names the interface that it sits on.
        found.or_else(|| files::text(&folder.join("parent")))
    })
}

/// The word of "4: ACTIVE".
fn word(text: &str) -> String {
    text.split_once(':').map_or(text, |(_, word)| word).trim().to_owned()
}

/// The rate of "400 Gb/sec (4X NDR)".
fn bits_per_s(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ')?;
    if !unit.starts_with("Gb/sec") {
        return None;
    }
    // At most one digit after the point: "2.5".
    let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
    let tenths: u64 = tenths.parse().ok().filter(|tenths| *tenths < 10)?;
    let tenths = whole.parse::<u64>().ok()?.checked_mul(10)?.checked_add(tenths)?;
    tenths.checked_mul(100_000_000).filter(|rate| *rate > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_rates() {
        let check = |text: &str, expected: &str| assert_eq!(word(text), expected, "{text}");
        check("4: ACTIVE", "ACTIVE");
        check("1: DOWN", "DOWN");
        check("5: LinkUp", "LinkUp");
        check("Polling", "Polling");
        let check = |text: &str, expected: Option<u64>| assert_eq!(bits_per_s(text), expected, "{text}");
        check("400 Gb/sec (4X NDR)", Some(400_000_000_000));
        check("2.5 Gb/sec (1X SDR)", Some(2_500_000_000));
        check("100 Gb/sec", Some(100_000_000_000));
        check("0 Gb/sec", None);
        check("14.0625 Gb/sec", None);
        check("fast", None);
        check("99999999999999999999 Gb/sec", None);
        check("18446744073709551615 Gb/sec", None);
    }

    /// The ports that files of sysfs tell of, given by path and text.
    fn told<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<Nic> {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join("class").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }
        read(dir.path())
    }

    #[test]
    fn bytes_are_counted_in_each_drivers_way() {
        let check = |files: &[(&str, &str)], expected: (Option<u64>, Option<u64>)| {
            let files: Vec<(String, &str)> =
                files.iter().map(|(path, text)| (format!("infiniband/dev_0/{path}"), *text)).collect();
            let state = ("infiniband/dev_0/ports/1/state", "4: ACTIVE");
            let nics = told(files.iter().map(|(path, text)| (path.as_str(), *text)).chain([state]));
            assert_eq!((nics[0].sent_bytes, nics[0].received_bytes), expected, "{files:?}");
        };
        let words = "ports/1/counters/port_xmit_data";
        let (sent, received) = ("ports/1/hw_counters/tx_bytes", "ports/1/hw_counters/rx_bytes");
        let (v4, v6) = ("ports/1/hw_counters/ip4OutOctets", "ports/1/hw_counters/ip6OutOctets");
        check(&[], (None, None));
        check(&[(words, "25"), (sent, "7")], (Some(100), None));
        check(&[(sent, "7"), (received, "8")], (Some(7), Some(8)));
        check(&[(v4, "7"), (v6, "8")], (Some(15), None));
        check(&[("hw_counters/ip4OutOctets", "7")], (Some(7), None));
        check(&[(words, "18446744073709551615")], (Some(u64::MAX), None));
    }

    #[test]
    fn two_ports_of_one_function_have_their_own_interfaces() {
        let nics = told([
            ("infiniband/mlx4_0/ports/1/state", "4: ACTIVE"),
            ("infiniband/mlx4_0/ports/2/state", "1: DOWN"),
            ("infiniband/mlx4_0/hw_counters/tx_bytes", "7"),
            ("infiniband/mlx4_0/device/net/ens1/dev_port", "0"),
            ("infiniband/mlx4_0/device/net/ens1d1/dev_port", "1"),
        ]);
        let ports: Vec<_> = nics.iter().map(|nic| (nic.port, nic.up, nic.interface.as_str())).collect();
        assert_eq!(ports, [(1, true, "ens1"), (2, false, "ens1d1")]);
        assert_eq!(nics[0].sent_bytes, None, "what both have sent is not what one has");
    }

    #[test]
    fn trouble_on_the_cable_is_seen_by_a_roce_ports_interface() {
        let check = |link_layer: &str, expected: (&[(&str, u64)], Option<u64>)| {
            let nic = &told([
                ("infiniband/mlx5_0/ports/1/link_layer", link_layer),
                ("infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "ens1"),
                ("infiniband/mlx5_0/ports/1/counters/link_downed", "4"),
                ("infiniband/mlx5_0/ports/1/hw_counters/np_cnp_sent", "9"),
                ("infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err", "2"),
                ("net/ens1/carrier_down_count", "3"),
                ("net/ens1/statistics/rx_crc_errors", "5"),
                ("net/ens1/statistics/rx_dropped", "6"),
            ])[0];
            assert_eq!((named(&nic.errors).as_slice(), nic.link_downs), expected, "{link_layer}");
            assert_eq!(named(&nic.retransmits), [("packet_seq_err", 2)]);
            assert_eq!(named(&nic.congestion), [("np_cnp_sent", 9)]);
        };
        check("Ethernet", (&[("rx_crc_errors", 5)], Some(3)));
        check("InfiniBand", (&[], Some(4)));
    }

    fn named(counters: &[NicCounter]) -> Vec<(&str, u64)> {
        counters.iter().map(|counter| (counter.name.as_str(), counter.value)).collect()
    }

    #[test]
    fn soft_roce_has_no_counters_of_its_port_and_bytes_of_its_interface() {
        let nic = &told([
            ("infiniband/rxe0/parent", "eth0"),
            ("infiniband/rxe0/ports/1/state", "4: ACTIVE"),
            ("infiniband/rxe0/ports/1/link_layer", "Ethernet"),
            ("infiniband/rxe0/ports/1/hw_counters/rcvd_seq_err", "12"),
            ("infiniband/rxe0/ports/1/hw_counters/retry_exceeded_err", "1"),
            ("infiniband/rxe0/ports/1/hw_counters/sent_pkts", "900"),
            ("infiniband/rxe0/ports/1/hw_counters/send_err", "0"),
            ("net/eth0/mtu", "4200"),
            ("net/eth0/statistics/tx_bytes", "70"),
            ("net/eth0/statistics/rx_bytes", "80"),
        ])[0];
        assert_eq!(
            (nic.interface.as_str(), nic.sent_bytes, nic.received_bytes),
            ("eth0", Some(70), Some(80))
        );
        assert_eq!(named(&nic.retransmits), [("rcvd_seq_err", 12)]);
        assert_eq!(named(&nic.failures), [("retry_exceeded_err", 1)]);
        assert_eq!(named(&nic.errors), [("send_err", 0)]);
        assert_eq!(nic.mtu_bytes, Some(4096));
    }
}
