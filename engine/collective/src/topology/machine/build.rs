//! The nodes of a graph, from the elements of a topology file (`src/graph/topo.cc`, `ncclTopoAddCpu` and what it calls).

use super::system::{Facts, Kind, Net, System, nvlink_bandwidth};
use crate::topology::graph::{LOC_BANDWIDTH, LinkKind};
use crate::topology::processor::Processor;
use crate::topology::xml::{Branch, XmlError};

/// GB/s of a link of XGMI between two GPUs.
const XGMI: f32 = 48.0;

impl System {
    /// Of the GPUs with these device numbers, one for each of the node's ranks; with the ports of the NICs, unless `has_nets` is off.
    pub(crate) fn new(tree: &Branch, devices: &[u32], inter: bool, has_nets: bool) -> Result<Self, XmlError> {
        let mut system = Self {
            nodes: Vec::new(),
            of_kind: Default::default(),
            paths: Vec::new(),
            local_gpus: Vec::new(),
            inter,
            max_bandwidth: 0.0,
            total_bandwidth: 0.0,
            is_amd: false,
        };
        let builder = Builder { devices, has_nets };
        for cpu in tree.below.iter().filter(|branch| branch.element.name == "cpu") {
            builder.cpu(&mut system, cpu)?;
        }
        builder.nvlinks(&mut system, tree, 0)?;
        system.connect_cpus();
        for cpu in system.of_kind[Kind::Cpu as usize].clone() {
            system.sort(cpu, None);
        }
        system.find_paths();
        system.find_bandwidths();
        Ok(system)
    }
}

/// Makes nodes of the elements of a file.
struct Builder<'a> {
    /// The GPUs that have ranks.
    devices: &'a [u32],
    /// Whether the ports of NICs are wanted.
    has_nets: bool,
}

impl Builder<'_> {
    /// A NUMA node with all that hangs there.
    fn cpu(&self, system: &mut System, branch: &Branch) -> Result<(), XmlError> {
        if !self.is_kept(branch)? {
            return Ok(());
        }
        let element = &branch.element;
        let number = |name| {
            Ok::<_, XmlError>(element.optional(name)?.and_then(|n| u32::try_from(n).ok()).unwrap_or(0))
        };
        let arch = match element.find("arch") {
            Some("x86_64") => "x86_64",
            Some("arm64") => "arm64",
            _ => "",
        };
        let vendor = element.find("vendor").unwrap_or("").to_owned();
        let processor = Processor { arch, vendor, family: number("familyid")?, model: number("modelid")? };
        let id = u64::from(number("numaid")?);
        let cpu = system.add(Kind::Cpu, id, Facts::Cpu(processor.codes()));
        branch.below.iter().try_for_each(|below| self.below(system, below, cpu))
    }

    /// What hangs at a NUMA node or a switch.
    fn below(&self, system: &mut System, branch: &Branch, above: usize) -> Result<(), XmlError> {
        match branch.element.name.as_str() {
            "pci" => self.pci(system, branch, above),
            "nic" => {
                let nic = system.add(Kind::Nic, 0, Facts::None);
                system.join(above, nic, LinkKind::Pci, LOC_BANDWIDTH);
                self.nets(system, branch, nic)
            }
            _ => Ok(()),
        }
    }

    fn pci(&self, system: &mut System, branch: &Branch, above: usize) -> Result<(), XmlError> {
        if !self.is_kept(branch)? {
            return Ok(());
        }
        let device = branch.element.pci()?;
        let find = |name: &str| branch.below.iter().find(|below| below.element.name == name);
        let node = if let Some(gpu) = find("gpu") {
            system.add(Kind::Gpu, device.number(), self.gpu(gpu)?)
        } else if find("nic").is_some() {
            system.add(Kind::Nic, device.number() & !0xf, Facts::None)
        } else {
            system.add(Kind::Pci, device.number(), Facts::Pci(maker(branch)))
        };
        for below in &branch.below {
            match below.element.name.as_str() {
                "nic" => self.nets(system, below, node)?,
                _ => self.below(system, below, node)?,
            }
        }
        system.join(node, above, LinkKind::Pci, device.bandwidth());
        Ok(())
    }

    fn gpu(&self, branch: &Branch) -> Result<Facts, XmlError> {
        let element = &branch.element;
        let device = element.small("dev")?;
        Ok(Facts::Gpu {
            device,
            local: self.devices.iter().position(|own| *own == device).unwrap_or(0),
            capability: element.small("sm")?,
            gdr: element.optional("gdr")?.unwrap_or(0) != 0,
        })
    }

    fn nets(&self, system: &mut System, nic: &Branch, card: usize) -> Result<(), XmlError> {
        for branch in nic.below.iter().filter(|below| self.has_nets && below.element.name == "net") {
            let element = &branch.element;
            let Some(device) = element.optional("dev")?.and_then(|dev| u64::try_from(dev).ok()) else {
                continue;
            };
            let number = |name| Ok::<_, XmlError>(element.optional(name)?.unwrap_or(0));
            let speed = u16::try_from(number("speed")? / 10).ok().filter(|speed| *speed > 0).unwrap_or(1000);
            let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
            let bandwidth = f32::from(speed) / 800.0;
            let net = Net {
                name: element.text("name")?.to_owned(),
                asic: element.find("guid").and_then(hex).unwrap_or(device),
                port: u32::try_from(number("port")?).unwrap_or(0),
                bandwidth,
                gdr: number("gdr")? != 0,
                coll: number("coll")? != 0,
            };
            let port = system.add(Kind::Net, device, Facts::Net(net));
            system.join(card, port, LinkKind::Net, bandwidth);
        }
        Ok(())
    }

    /// Whether anything that the communicator uses is in it: a GPU of a rank, or a NIC.
    fn is_kept(&self, branch: &Branch) -> Result<bool, XmlError> {
        match branch.element.name.as_str() {
            "nic" => Ok(true),
            "gpu" => Ok(self.devices.contains(&branch.element.small("dev")?)),
            _ => {
                for below in &branch.below {
                    if self.is_kept(below)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    /// The links of all GPUs, after all GPUs.
    fn nvlinks(&self, system: &mut System, branch: &Branch, above: u64) -> Result<(), XmlError> {
        let element = &branch.element;
        if matches!(element.name.as_str(), "nvlink" | "xgmi") {
            return self.nvlink(system, branch, above);
        }
        let bus_id = if element.name == "pci" { element.pci()?.number() } else { above };
        branch.below.iter().try_for_each(|below| self.nvlinks(system, below, bus_id))
    }

    fn nvlink(&self, system: &mut System, branch: &Branch, bus_id: u64) -> Result<(), XmlError> {
        let element = &branch.element;
        let find = |system: &System, id| {
            system.of(Kind::Gpu).iter().copied().find(|gpu| system.nodes[*gpu].id == id)
        };
        let Some(gpu) = find(system, bus_id) else { return Ok(()) };
        let is_xgmi = element.name == "xgmi";
        system.is_amd |= is_xgmi;
        let Facts::Gpu { capability, .. } = system.nodes[gpu].facts else { return Ok(()) };
        let count = u16::try_from(element.small("count")?).unwrap_or(u16::MAX);
        let bandwidth = f32::from(count) * if is_xgmi { XGMI } else { nvlink_bandwidth(capability) };
        if element.text("tclass")?.starts_with("0x0680") {
            let known = system.of(Kind::Nvs).first().copied();
            let switch = known.unwrap_or_else(|| system.add(Kind::Nvs, 0, Facts::None));
            system.join(gpu, switch, LinkKind::Nvl, bandwidth);
        } else {
            let digits: String = element.text("target")?.chars().filter(char::is_ascii_hexdigit).collect();
            let target = u64::from_str_radix(&digits, 16).unwrap_or_default();
            // The other end tells the other direction.
            if let Some(target) = find(system, target) {
                system.link(gpu, target, LinkKind::Nvl, bandwidth);
            }
        }
        Ok(())
    }
}

/// The numbers of a switch's maker, as NCCL joins them.
fn maker(branch: &Branch) -> u64 {
    let part = |name| {
        let told = branch.element.find(name).map(|text| text.trim_start_matches("0x"));
        told.and_then(|text| u16::from_str_radix(text, 16).ok()).map_or(0, u64::from)
    };
    part("vendor") << 48 | part("device") << 32 | part("subsystem_vendor") << 16 | part("subsystem_device")
}
