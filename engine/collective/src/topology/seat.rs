//! Where a rank's cores or a NIC are in a host.

use serde::{Deserialize, Serialize};

/// Bandwidth of a link that does not tell its speed: PCIe 3 with 16 lanes, as NCCL assumes (`src/graph/topo.h`, PCI_BW).
const DEFAULT_PCI_BANDWIDTH: f32 = 12.0;

/// The place of a rank or of a NIC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seat {
    /// Its NUMA node; none where the machine does not tell, or where a rank may run on several.
    pub(crate) numa: Option<u32>,
    /// From the host bridge down to the device itself; empty without a PCI device.
    pub(crate) pci: Vec<PciDevice>,
}

/// A device on the way from the host bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PciDevice {
    /// `0000:18:00.0`.
    pub(crate) bus_id: String,
    /// `0x020700`; empty where unknown.
    pub(crate) class: String,
    /// `32.0 GT/s PCIe`; empty where unknown.
    pub(crate) link_speed: String,
    /// Lanes; empty where unknown.
    pub(crate) link_width: String,
}

impl PciDevice {
    /// GB/s of its link upwards: NCCL's table of net rates per lane, times the lanes (`src/graph/topo.cc`,
    /// `kvDictPciGen`).
    pub(crate) fn bandwidth(&self) -> f32 {
        let transfers = self.link_speed.split_whitespace().next().and_then(|text| text.parse::<f32>().ok());
        let lanes = self.link_width.trim().parse::<u16>().ok().filter(|lanes| *lanes > 0);
        match (transfers, lanes) {
            (Some(transfers), Some(lanes)) if transfers > 0.0 => f32::from(lanes) * per_lane(transfers),
            _ => DEFAULT_PCI_BANDWIDTH,
        }
    }

    /// The bus id as one number, which is how NCCL's log names a device.
    pub(crate) fn number(&self) -> u64 {
        let digits: String = self.bus_id.chars().filter(char::is_ascii_hexdigit).collect();
        u64::from_str_radix(&digits, 16).unwrap_or_default()
    }
}

/// GB/s of a lane at `transfers` GT/s.
fn per_lane(transfers: f32) -> f32 {
    let rates = [(2.5, 15.0), (5.0, 30.0), (8.0, 60.0), (16.0, 120.0), (32.0, 240.0), (64.0, 480.0)];
    let known = rates.iter().rev().find(|(speed, _)| *speed <= transfers).unwrap_or(&rates[0]);
    known.1 / 80.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_have_the_bandwidth_that_nccl_gives_them() {
        let table = [
            ("32.0 GT/s PCIe", "16", 48.0),
            ("16 GT/s", "16", 24.0),
            ("8.0 GT/s PCIe", "8", 6.0),
            ("", "", 12.0),
            ("Unknown", "16", 12.0),
            ("8.0 GT/s PCIe", "0", 12.0),
        ];
        for (speed, width, expected) in table {
            let device = PciDevice {
                link_speed: speed.to_owned(),
                link_width: width.to_owned(),
                ..PciDevice::default()
            };
            assert!((device.bandwidth() - expected).abs() < 1e-3, "{speed} x{width}: {}", device.bandwidth());
        }
    }

    #[test]
    fn a_bus_id_is_a_number() {
        let device = PciDevice { bus_id: "0000:1b:00.0".to_owned(), ..PciDevice::default() };
        assert_eq!(device.number(), 0x1b000);
    }
}
