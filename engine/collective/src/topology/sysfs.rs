//! Reads a machine from a folder in the shape of `/sys`: NUMA nodes, and the state, speed and place of NICs.
//!
//! What is not there has a default; what is there and cannot be understood has it too, and is counted. Nothing here
//! fails.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::topology::seat::{PciDevice, Seat};

/// NUMA nodes and cores that are looked at, so that a broken list of cores does not fill the memory.
const MAX_NUMA_NODES: usize = 1024;
const MAX_CORES: u32 = 65_536;

/// Cores, by number.
pub(crate) type Cores = BTreeSet<u32>;

/// A NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NumaNode {
    /// Its number.
    pub(crate) id: u32,
    /// Its cores.
    pub(crate) cores: Cores,
}

/// What a machine says of a NIC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NicFacts {
    /// The state of one that cannot be used.
    pub(crate) down: Option<String>,
    /// 10⁶ bits per second.
    pub(crate) speed_mbit: Option<u32>,
    /// The port of its card, from 1; 0 where it does not tell.
    pub(crate) port: u32,
    /// Where it is.
    pub(crate) seat: Seat,
}

/// A reader of one machine.
#[derive(Debug)]
pub(crate) struct Sysfs {
    root: PathBuf,
    net: PathBuf,
    bad: usize,
    first_bad: Option<PathBuf>,
}

impl Sysfs {
    /// Of the machine under `root`, with its network interfaces under `net`.
    pub(crate) fn new(root: &Path, net: &Path) -> Self {
        Self { root: root.to_owned(), net: net.to_owned(), bad: 0, first_bad: None }
    }

    /// How many values could not be understood, and the file of the first.
    pub(crate) fn bad(&self) -> (usize, Option<&Path>) {
        (self.bad, self.first_bad.as_deref())
    }

    /// The NUMA nodes that have cores, by number; none where the machine does not tell.
    pub(crate) fn numa_nodes(&mut self) -> Vec<NumaNode> {
        let folder = self.root.join("devices/system/node");
        let mut nodes = Vec::new();
        for name in names(&folder).into_iter().take(MAX_NUMA_NODES) {
            let id = name.strip_prefix("node").and_then(|id| id.parse().ok());
            let Some(id) = id else { continue };
            let cores = self.value(&folder.join(&name).join("cpulist"), parse_cores).unwrap_or_default();
            if !cores.is_empty() {
                nodes.push(NumaNode { id, cores });
            }
        }
        nodes.sort_by_key(|node| node.id);
        nodes
    }

    /// A NIC by its name: a network interface, or a card of `class/infiniband`.
    pub(crate) fn nic(&mut self, name: &str) -> NicFacts {
        let interface = self.net.join(name);
        if interface.is_dir() {
            return self.interface(&interface);
        }
        let card = self.root.join("class/infiniband").join(name);
        if card.is_dir() {
            let ports = names(&card.join("ports"));
            let port = ports.iter().filter_map(|port| port.parse().ok()).min().unwrap_or(1);
            return NicFacts { seat: self.seat(&card.join("device")), ..self.port(&card, port) };
        }
        NicFacts::default()
    }

    fn interface(&mut self, folder: &Path) -> NicFacts {
        let state = read(&folder.join("operstate")).unwrap_or_default();
        // Loopback and many virtual devices never say more than "unknown".
        let down = (!matches!(state.as_str(), "up" | "unknown" | "")).then_some(state);
        let port = self.value(&folder.join("dev_port"), |text| number(text)?.checked_add(1)).unwrap_or(0);
        // One that is down says -1.
        let speed = self.value(&folder.join("speed"), |text| text.parse::<i64>().ok());
        let speed = speed.and_then(|speed| u32::try_from(speed).ok()).filter(|speed| *speed > 0);
        let device = folder.join("device");
        let speed_mbit = speed.or_else(|| self.speed_of_card(&device, port.max(1)));
        NicFacts { down, speed_mbit, port, seat: self.seat(&device) }
    }

    /// An IPoIB interface often does not tell its speed; its card does.
    fn speed_of_card(&mut self, device: &Path, port: u32) -> Option<u32> {
        let cards = device.join("infiniband");
        let card = names(&cards).into_iter().next()?;
        self.port(&cards.join(card), port).speed_mbit
    }

    fn port(&mut self, card: &Path, port: u32) -> NicFacts {
        let folder = card.join("ports").join(port.to_string());
        let state = read(&folder.join("state")).unwrap_or_default();
        // "4: ACTIVE"
        let word = state.split_once(": ").map_or(state.as_str(), |(_, word)| word).to_owned();
        let down = (!matches!(word.as_str(), "ACTIVE" | "")).then_some(word);
        let rate = |text: &str| {
            // "400 Gb/sec (4X NDR)", "2.5 Gb/sec (1X SDR)"
            let gigabits = text.split_once(" Gb/sec")?.0.parse::<f64>().ok()?;
            let megabits = gigabits * 1000.0;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
            (megabits >= 1.0 && megabits < f64::from(u32::MAX)).then_some(megabits as u32)
        };
        let speed_mbit = self.value(&folder.join("rate"), rate);
        NicFacts { down, speed_mbit, port, seat: Seat::default() }
    }

    fn seat(&mut self, device: &Path) -> Seat {
        let Ok(folder) = device.canonicalize() else { return Seat::default() };
        let numa = self.value(&folder.join("numa_node"), |text| text.parse::<i64>().ok());
        Seat { numa: numa.and_then(|numa| u32::try_from(numa).ok()), pci: self.pci(&folder) }
    }

    /// The device and the switches above it. A switch is two levels of bridges, of which the upper stands for it, and
    /// the root port belongs to the host bridge, as in NCCL (`ncclTopoGetXmlFromSys`).
    fn pci(&self, folder: &Path) -> Vec<PciDevice> {
        let mut levels: Vec<&Path> = folder.ancestors().take_while(|folder| **folder != *self.root).collect();
        levels.retain(|folder| bus_id(folder).is_some());
        levels.into_iter().step_by(2).map(device).rev().collect()
    }

    /// A value, if the file is there and `parse` understands it.
    fn value<T>(&mut self, file: &Path, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let text = read(file).filter(|text| !text.is_empty())?;
        let value = parse(&text);
        if value.is_none() {
            self.bad += 1;
            self.first_bad.get_or_insert_with(|| file.to_owned());
        }
        value
    }
}

/// The NUMA node that has all of these cores; none where they lie in several.
pub(crate) fn home(nodes: &[NumaNode], cores: &Cores) -> Option<u32> {
    let home = nodes.iter().find(|node| !cores.is_empty() && cores.is_subset(&node.cores));
    home.map(|node| node.id)
}

/// Cores as the kernel lists them, `0-3,8`.
pub(crate) fn parse_cores(text: &str) -> Option<Cores> {
    let mut cores = Cores::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last >= MAX_CORES {
            return None;
        }
        cores.extend(first..=last);
    }
    Some(cores)
}

fn device(folder: &Path) -> PciDevice {
    let text = |names: [&str; 2]| names.iter().find_map(|name| read(&folder.join(name))).unwrap_or_default();
    PciDevice {
        bus_id: bus_id(folder).unwrap_or_default(),
        class: text(["class", "class"]),
        link_speed: text(["current_link_speed", "max_link_speed"]),
        link_width: text(["current_link_width", "max_link_width"]),
    }
}

/// `0000:18:00.0`, if the folder is named so.
fn bus_id(folder: &Path) -> Option<String> {
    let name = folder.file_name()?.to_str()?;
    let shape = |(index, byte): (usize, u8)| match index {
        4 | 7 => byte == b':',
        10 => byte == b'.',
        _ => byte.is_ascii_hexdigit(),
    };
    (name.len() == 12 && name.bytes().enumerate().all(shape)).then(|| name.to_ascii_lowercase())
}

fn number(text: &str) -> Option<u32> {
    text.trim().parse().ok()
}

/// A file's text without the line's end; none if it cannot be read, as the speed of an interface that is down.
fn read(file: &Path) -> Option<String> {
    let bytes = crate::file::read(file).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// The entries of a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
