//! The machines that are known by name, and files of others.

use std::sync::Arc;

use super::check::check;
use crate::topology::seat::PciDevice;
use crate::topology::xml::{Branch, XmlError, read_tree};

/// The machines by name.
const KNOWN: [(&str, &str); 4] = [
    ("dgx-a100", include_str!("../machines/dgx-a100.xml")),
    ("dgx-h100", include_str!("../machines/dgx-h100.xml")),
    ("mi300x-like", include_str!("../machines/mi300x-like.xml")),
    ("pcie", include_str!("../machines/pcie.xml")),
];

/// A machine.
#[derive(Debug)]
pub(crate) struct Machine {
    /// Its file, as a tree.
    pub(crate) tree: Branch,
    /// The device number, bus id and compute capability of each GPU, by device number.
    pub(crate) gpus: Vec<Gpu>,
    /// Each port of its NICs, in the file's order: its name, its number and whether it is InfiniBand.
    pub(crate) ports: Vec<(String, u32, bool)>,
    /// Whether its GPUs are AMD's, for whose library the log is worded then.
    pub(crate) is_amd: bool,
}

/// A GPU of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gpu {
    /// Its number in the machine.
    pub(crate) device: u32,
    /// Its bus id as a number.
    pub(crate) bus_id: u64,
    /// Its compute capability: 90 for Hopper.
    pub(crate) compute_capability: u32,
}

/// The text of the machine of this name; none if no machine is called so.
pub(crate) fn known(name: &str) -> Option<&'static str> {
    KNOWN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The names, for a message.
pub(crate) fn names() -> String {
    KNOWN.map(|(name, _)| name).join(", ")
}

/// The name of a machine that is known, or the text of a file of another one.
///
/// # Errors
/// What is wrong with `RSCCL_MACHINE`.
pub(crate) fn text(wanted: &str) -> Result<String, String> {
    let text = if known(wanted).is_some() {
        wanted.to_owned()
    } else {
        let unknown =
            |why| format!("RSCCL_MACHINE: \"{wanted}\" is none of {}, and not a file: {why}", names());
        std::fs::read_to_string(wanted).map_err(unknown)?
    };
    Machine::parse(&text).map_err(|why| format!("RSCCL_MACHINE: {wanted}: {why}"))?;
    Ok(text)
}

impl Machine {
    /// From a name or from the text of a file.
    pub(crate) fn parse(told: &str) -> Result<Arc<Self>, XmlError> {
        let tree = read_tree(known(told).unwrap_or(told), "system")?;
        check(&tree)?;
        let mut machine = Self { gpus: Vec::new(), ports: Vec::new(), is_amd: false, tree };
        let tree = machine.tree.clone();
        machine.collect(&tree, (0, false))?;
        machine.gpus.sort_by_key(|gpu| gpu.device);
        Ok(Arc::new(machine))
    }

    /// What is below a device with this bus id, which may be InfiniBand.
    fn collect(&mut self, branch: &Branch, (above, infiniband): (u64, bool)) -> Result<(), XmlError> {
        let element = &branch.element;
        let mut own = (above, infiniband);
        match element.name.as_str() {
            "pci" => {
                let device = element.pci()?;
                own = (device.number(), is_infiniband(&device));
            }
            "gpu" => self.gpus.push(Gpu {
                device: element.small("dev")?,
                bus_id: above,
                compute_capability: element.small("sm")?,
            }),
            "net" => {
                let port = element.optional("port")?.and_then(|port| u32::try_from(port).ok()).unwrap_or(0);
                self.ports.push((element.text("name")?.to_owned(), port, infiniband));
            }
            "xgmi" => self.is_amd = true,
            _ => {}
        }
        branch.below.iter().try_for_each(|below| self.collect(below, own))
    }
}

/// By the class of the device, which is that of Ethernet else.
fn is_infiniband(device: &PciDevice) -> bool {
    device.class.starts_with("0x0207")
}
