//! The machines that are known by name, and files of others.

use std::sync::Arc;

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

impl Machine {
    /// From a name or from the text of a file.
    pub(crate) fn parse(told: &str) -> Result<Arc<Self>, XmlError> {
        let tree = read_tree(known(told).unwrap_or(told), "system")?;
        let (mut gpus, mut is_amd) = (Vec::new(), false);
        collect(&tree, 0, &mut gpus, &mut is_amd)?;
        gpus.sort_by_key(|gpu| gpu.device);
        Ok(Arc::new(Self { tree, gpus, is_amd }))
    }
}

fn collect(branch: &Branch, above: u64, gpus: &mut Vec<Gpu>, is_amd: &mut bool) -> Result<(), XmlError> {
    let element = &branch.element;
    let mut bus_id = above;
    match element.name.as_str() {
        "pci" => bus_id = element.pci()?.number(),
        "gpu" => gpus.push(Gpu {
            device: element.small("dev")?,
            bus_id: above,
            compute_capability: element.small("sm")?,
        }),
        "xgmi" => *is_amd = true,
        _ => {}
    }
    branch.below.iter().try_for_each(|below| collect(below, bus_id, gpus, is_amd))
}
