//! `NCCL_TOPO_DUMP_FILE`: the GPUs and NICs of an NCCL node, and how far they are from each other.

use roxmltree::Node;

use super::tree::{XmlError, children, optional, parse, required};

/// GPUs and NICs of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    /// In the order of the file.
    pub gpus: Vec<Gpu>,
    /// In the order of the file.
    pub nics: Vec<Nic>,
}

/// A GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gpu {
    /// CUDA device number.
    pub dev: u32,
    /// Rank in the communicator that wrote the file, where it is in it.
    pub rank: Option<u32>,
    /// Compute capability times ten.
    pub compute_capability: Option<u32>,
    /// Whether NICs can read its memory.
    pub gpu_direct: Option<bool>,
    /// Its links, also those to NVSwitches.
    pub nvlinks: Vec<NvLink>,
    /// PCI bus id, `0000:1b:00.0`.
    pub bus_id: Option<String>,
    place: Location,
}

/// Links of a GPU to one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NvLink {
    /// PCI bus id of the other end.
    pub target: String,
    /// How many.
    pub count: u32,
    /// Whether the other end is a switch (PCI class of a bridge) and no GPU.
    pub to_switch: bool,
}

/// A port of a NIC.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Nic {
    /// Name, e.g. `mlx5_0`.
    pub name: String,
    /// Index in the net plugin, as the log's `NET/IB/<index>` names it.
    pub dev: u32,
    /// Speed in megabits per second.
    pub speed_mbit_s: Option<u64>,
    /// Port.
    pub port: Option<u32>,
    /// GUID as written.
    pub guid: Option<String>,
    /// Whether it can read GPUs' memory.
    pub gpu_direct: Option<bool>,
    /// Whether it does CollNet.
    pub collnet: Option<bool>,
    /// PCI bus id of the device; none for one that has no PCI device.
    pub bus_id: Option<String>,
    place: Location,
}

/// How far a GPU is from a NIC, in the words of `nvidia-smi topo -m`. `NODE` (two host bridges of one NUMA node) is not
/// told from `PHB`: the file has no host bridges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// At most one PCIe bridge.
    Pix,
    /// Several PCIe bridges, and no host bridge.
    Pxb,
    /// Through the host bridge of one NUMA node.
    Phb,
    /// From one NUMA node to another.
    Sys,
}

impl Distance {
    /// The word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::Phb => "PHB",
            Self::Sys => "SYS",
        }
    }
}

/// Where a device is: host, NUMA node, and the PCI devices from the host bridge down to itself.
#[derive(Clone, Debug, Default, PartialEq)]
struct Location {
    host: Option<String>,
    cpu: usize,
    pci: Vec<String>,
}

impl Topology {
    /// Reads the text of such a file.
    ///
    /// # Errors
    ///
    /// If it is no such file, or a value that counts is missing or no number.
    pub fn parse(text: &str) -> Result<Self, XmlError> {
        let document = parse(text, "system")?;
        let mut topology = Self::default();
        for (cpu, node) in children(document.root_element(), "cpu").enumerate() {
            let host = node.attribute("host_hash").map(str::to_owned);
            // The tree is walked with a list of its own: its depth is the file's.
            let mut open = vec![(node, Location { host, cpu, pci: Vec::new() })];
            while let Some((node, place)) = open.pop() {
                let inner: Vec<_> = node.children().filter(Node::is_element).collect();
                for child in inner.into_iter().rev() {
                    topology.add(child, &place, &mut open)?;
                }
            }
        }
        topology.gpus.sort_by_key(|gpu| (gpu.place.cpu, gpu.dev));
        topology.nics.sort_by_key(|nic| nic.dev);
        Ok(topology)
    }

    /// The NIC with an index of the net plugin.
    #[must_use]
    pub fn nic(&self, dev: u32) -> Option<&Nic> {
        self.nics.iter().find(|nic| nic.dev == dev)
    }

    /// How far a GPU is from a NIC; `None` if they are on different hosts.
    #[must_use]
    pub fn distance(gpu: &Gpu, nic: &Nic) -> Option<Distance> {
        let (one, other) = (&gpu.place, &nic.place);
        if one.host != other.host {
            return None;
        }
        if one.cpu != other.cpu {
            return Some(Distance::Sys);
        }
        let common = one.pci.iter().zip(&other.pci).take_while(|(a, b)| a == b).count();
        if common == 0 {
            return Some(Distance::Phb);
        }
        // Bridges between them: the common one, and those below it, without the devices themselves.
        let below = |pci: &[String]| pci.len().saturating_sub(common + 1);
        let bridges = 1 + below(&one.pci) + below(&other.pci);
        Some(if bridges == 1 { Distance::Pix } else { Distance::Pxb })
    }

    fn add<'n, 't>(
        &mut self,
        node: Node<'n, 't>,
        place: &Location,
        open: &mut Vec<(Node<'n, 't>, Location)>,
    ) -> Result<(), XmlError> {
        match node.tag_name().name() {
            "pci" => {
                let mut pci = place.pci.clone();
                pci.push(required::<String>(node, "busid")?.to_ascii_lowercase());
                open.push((node, Location { pci, ..place.clone() }));
            }
            "nic" => open.push((node, place.clone())),
            "gpu" => self.gpus.push(gpu(node, place)?),
            "net" => self.nics.push(nic(node, place)?),
            _ => {}
        }
        Ok(())
    }
}

fn gpu(node: Node<'_, '_>, place: &Location) -> Result<Gpu, XmlError> {
    let nvlink = |link: Node<'_, '_>| -> Result<NvLink, XmlError> {
        let class: Option<String> = optional(link, "tclass")?;
        Ok(NvLink {
            target: required::<String>(link, "target")?.to_ascii_lowercase(),
            count: required(link, "count")?,
            // PCI class 06 is a bridge; NVSwitches have 0680.
            to_switch: class.is_some_and(|class| class.starts_with("0x06")),
        })
    };
    Ok(Gpu {
        dev: required(node, "dev")?,
        rank: optional::<i64>(node, "rank")?.and_then(|rank| u32::try_from(rank).ok()),
        compute_capability: optional(node, "sm")?,
        gpu_direct: optional::<u32>(node, "gdr")?.map(|gdr| gdr != 0),
        nvlinks: children(node, "nvlink").map(nvlink).collect::<Result<_, _>>()?,
        bus_id: place.pci.last().cloned(),
        place: place.clone(),
    })
}

fn nic(node: Node<'_, '_>, place: &Location) -> Result<Nic, XmlError> {
    Ok(Nic {
        name: required(node, "name")?,
        dev: required(node, "dev")?,
        speed_mbit_s: optional(node, "speed")?,
        port: optional(node, "port")?,
        guid: optional(node, "guid")?,
        gpu_direct: optional::<u32>(node, "gdr")?.map(|gdr| gdr != 0),
        collnet: optional::<u32>(node, "coll")?.map(|coll| coll != 0),
        bus_id: place.pci.last().cloned(),
        place: place.clone(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Two NUMA nodes; a switch with a GPU and a NIC, a NIC behind a second switch, one at the other NUMA node, and one
    /// without a PCI device.
    const NODE: &str = r#"<system version="1">
  <cpu host_hash="0x1" numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207">
    <pci busid="0000:15:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:1B:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:05:00.0" count="4" tclass="0x068000"/>
          <nvlink target="0000:2b:00.0" count="2" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:1a:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="400000" port="1" latency="0.000000" guid="0xa8" maxconn="131072" gdr="1" coll="1"/></nic>
      </pci>
      <pci busid="0000:16:00.0" class="0x060400" link_speed="" link_width="">
        <pci busid="0000:17:00.0" class="0x020700"><nic><net name="mlx5_1" dev="1" speed="400000" port="1" gdr="1"/></nic></pci>
      </pci>
    </pci>
    <nic><net name="eth0" dev="4" speed="10000" port="0" gdr="0"/></nic>
  </cpu>
  <cpu host_hash="0x1" numaid="1">
    <pci busid="0000:97:00.0" class="0x020700"><nic><net name="mlx5_2" dev="2" speed="400000" port="1" gdr="1"/></nic></pci>
  </cpu>
  <cpu host_hash="0x2" numaid="0">
    <pci busid="0000:1a:00.0" class="0x020700"><nic><net name="mlx5_0" dev="3" speed="400000" port="1" gdr="1"/></nic></pci>
  </cpu>
</system>"#;

    #[test]
    fn names_indices_and_bus_ids() {
        let topology = Topology::parse(NODE).expect("a topology");
        let nics: Vec<_> =
            topology.nics.iter().map(|nic| (nic.dev, &*nic.name, nic.bus_id.as_deref())).collect();
        let expected = [
            (0, "mlx5_0", Some("0000:1a:00.0")),
            (1, "mlx5_1", Some("0000:17:00.0")),
            (2, "mlx5_2", Some("0000:97:00.0")),
            (3, "mlx5_0", Some("0000:1a:00.0")),
            (4, "eth0", None),
        ];
        assert_eq!(nics, expected);
        assert!(
            topology.nic(0).is_some_and(|nic| nic.collnet == Some(true) && nic.speed_mbit_s == Some(400_000))
        );
        let [gpu] = &topology.gpus[..] else { panic!("one GPU") };
        assert_eq!((gpu.dev, gpu.rank, gpu.compute_capability), (0, Some(0), Some(90)));
        assert_eq!(gpu.bus_id.as_deref(), Some("0000:1b:00.0"));
        let links: Vec<_> = gpu.nvlinks.iter().map(|link| (link.count, link.to_switch)).collect();
        assert_eq!(links, [(4, true), (2, false)]);
    }

    #[test]
    fn distances() {
        let topology = Topology::parse(NODE).expect("a topology");
        let distance = |dev| Topology::distance(&topology.gpus[0], topology.nic(dev)?).map(Distance::word);
        let found: Vec<_> = (0..5).map(distance).collect();
        assert_eq!(found, [Some("PIX"), Some("PXB"), Some("SYS"), None, Some("PHB")]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let check = |text: &str, expected: &str| {
            let error = Topology::parse(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&NODE[..NODE.len() / 2], "was cut");
        check("<graphs/>", "NCCL_GRAPH_DUMP_FILE writes <graphs>");
        check(&NODE.replace("busid=\"0000:15:00.0\"", ""), "line 3: <pci> has no attribute busid");
        check(&NODE.replace("sm=\"90\"", "sm=\"many\""), "line 5: sm of <gpu> is no number");
    }

    proptest! {
        #[test]
        fn any_text(text in any::<String>(), at in 0..NODE.len(), byte in 32..127_u8) {
            let _ = Topology::parse(&text);
            let mut mutated = NODE.as_bytes().to_vec();
            mutated[at] = byte;
            let _ = Topology::parse(&String::from_utf8_lossy(&mutated));
        }
    }
}
