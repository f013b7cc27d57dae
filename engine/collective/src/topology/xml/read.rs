//! Reads the files.

use crate::topology::search::Channel;
use crate::topology::seat::Seat;
use crate::topology::xml::element::walk;
use crate::topology::xml::{MAX_DEPTH, XmlError};

/// What a topology file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopologyFile {
    /// GPUs by device number, and their places.
    pub(crate) gpus: Vec<(u32, Seat)>,
    /// The lowest compute capability of its GPUs, 90 for Hopper; 0 where it does not tell, and of AMD's, whose numbers are others.
    pub(crate) compute_capability: u32,
    /// NICs.
    pub(crate) nics: Vec<FileNic>,
}

/// A NIC of a topology file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileNic {
    /// Its name.
    pub(crate) name: String,
    /// 10⁶ bits per second.
    pub(crate) speed_mbit: Option<u32>,
    /// The card's port.
    pub(crate) port: u32,
    /// Where it is.
    pub(crate) seat: Seat,
}

/// Reads a topology file.
pub(crate) fn read_topology(text: &str) -> Result<TopologyFile, XmlError> {
    let mut file = TopologyFile::default();
    let mut seat = Seat::default();
    let mut is_amd = false;
    walk(text, "system", |element, open| {
        match (element.name.as_str(), open) {
            ("cpu", true) => seat.numa = element.optional("numaid")?.and_then(|id| u32::try_from(id).ok()),
            ("cpu", false) => seat = Seat::default(),
            ("pci", true) if seat.pci.len() < MAX_DEPTH => seat.pci.push(element.pci()?),
            ("pci", true) => return Err(XmlError::TooLarge),
            ("pci", false) => drop(seat.pci.pop()),
            ("gpu", true) => {
                file.gpus.push((element.small("dev")?, seat.clone()));
                let told = element.optional("sm")?.and_then(|sm| u32::try_from(sm).ok()).unwrap_or(0);
                let lowest = if file.gpus.len() == 1 { told } else { file.compute_capability.min(told) };
                file.compute_capability = lowest;
            }
            ("xgmi", true) => is_amd = true,
            ("net", true) => file.nics.push(FileNic {
                name: element.text("name")?.to_owned(),
                speed_mbit: element.optional("speed")?.and_then(|speed| u32::try_from(speed).ok()),
                port: element.optional("port")?.and_then(|port| u32::try_from(port).ok()).unwrap_or(0),
                seat: seat.clone(),
            }),
            _ => {}
        }
        Ok(())
    })?;
    file.gpus.sort_by_key(|gpu| gpu.0);
    if is_amd {
        file.compute_capability = 0;
    }
    Ok(file)
}

/// Reads the ring's channels from a graph file: ranks and NICs by their `dev`.
pub(crate) fn read_graphs(text: &str) -> Result<Vec<Channel>, XmlError> {
    let mut channels = Vec::new();
    let mut ring = false;
    let (mut nets, mut order) = (Vec::new(), Vec::new());
    walk(text, "graphs", |element, open| {
        match (element.name.as_str(), open) {
            ("graph", true) => ring = element.number("id")? == 0,
            ("net", true) => nets.push(element.local("dev")?),
            ("gpu", true) => order.push(element.local("dev")?),
            ("channel", false) => {
                let (enter, exit) = (nets.first().copied(), nets.last().copied());
                let order = std::mem::take(&mut order);
                nets.clear();
                if ring {
                    channels.push(Channel { enter: enter.unwrap_or(0), exit: exit.unwrap_or(0), order });
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(channels)
}
