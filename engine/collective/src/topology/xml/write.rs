//! Writes the files.

use quick_xml::events::{BytesEnd, BytesStart, Event};
use quick_xml::writer::Writer;

use crate::topology::graph::{LinkKind, System, TopoNode};
use crate::topology::processor::Processor;
use crate::topology::search::Graph;
use crate::topology::seat::PciDevice;
use crate::topology::sysfs::{Cores, NumaNode};
use crate::topology::xml::Branch;

/// What a topology file has beside the graph.
#[derive(Clone, Debug)]
pub(crate) struct Host<'a> {
    /// The node's hash.
    pub(crate) hash: u64,
    /// The processor.
    pub(crate) cpu: &'a Processor,
    /// The NUMA nodes.
    pub(crate) numa_nodes: &'a [NumaNode],
    /// The rank of each of the node's ranks.
    pub(crate) ranks: &'a [usize],
}

/// Writes a topology file.
pub(crate) fn write_topology(system: &System, host: &Host<'_>) -> String {
    let mut tree = Tree::new();
    tree.open("system", &[("version", "1".to_owned())]);
    for (index, (part, _)) in system.parts().enumerate() {
        if let TopoNode::Numa(numa) = part {
            tree.open("cpu", &cpu(*numa, host));
            write_below(&mut tree, system, host, index, index);
            tree.close();
        }
    }
    tree.close();
    tree.text()
}

/// Writes a described machine as far as a communicator uses it: the GPUs to whose device numbers `rank_of` knows a rank, and all NICs.
pub(crate) fn write_machine(machine: &Branch, rank_of: &dyn Fn(&str) -> Option<usize>) -> String {
    let mut tree = Tree::new();
    write_used(&mut tree, machine, rank_of);
    tree.text()
}

fn write_used(tree: &mut Tree, branch: &Branch, rank_of: &dyn Fn(&str) -> Option<usize>) {
    let element = &branch.element;
    if !is_used(branch, rank_of) {
        return;
    }
    let rank = (element.name == "gpu").then(|| element.find("dev").and_then(rank_of)).flatten();
    let told = element.attributes().iter().filter(|(key, _)| rank.is_none() || key != "rank");
    let mut attributes: Vec<(&str, String)> =
        told.map(|(key, value)| (key.as_str(), value.clone())).collect();
    attributes.extend(rank.map(|rank| ("rank", rank.to_string())));
    if branch.below.is_empty() {
        return tree.leaf(&element.name, &attributes);
    }
    tree.open(&element.name, &attributes);
    branch.below.iter().for_each(|below| write_used(tree, below, rank_of));
    tree.close();
}

fn is_used(branch: &Branch, rank_of: &dyn Fn(&str) -> Option<usize>) -> bool {
    match branch.element.name.as_str() {
        "gpu" => branch.element.find("dev").and_then(rank_of).is_some(),
        "cpu" | "pci" => branch.below.iter().any(|below| is_used(below, rank_of)),
        _ => true,
    }
}

/// Writes a graph file with the ring (pattern 4) and the tree (pattern 1), which has the ring's channels.
pub(crate) fn write_graphs(graph: &Graph, inter: bool) -> String {
    let mut tree = Tree::new();
    tree.open("graphs", &[("version", "1".to_owned())]);
    for (id, pattern) in [(0, 4), (1, 1)] {
        tree.open("graph", &head(graph, id, pattern));
        for channel in &graph.channels {
            tree.open("channel", &[]);
            let dev = |dev: usize| [("dev", format!("{dev:#x}"))];
            (inter).then(|| tree.leaf("net", &dev(channel.enter)));
            channel.order.iter().for_each(|rank| tree.leaf("gpu", &dev(*rank)));
            (inter).then(|| tree.leaf("net", &dev(channel.exit)));
            tree.close();
        }
        tree.close();
    }
    tree.close();
    tree.text()
}

fn head(graph: &Graph, id: u8, pattern: u8) -> [(&'static str, String); 10] {
    [
        ("id", id.to_string()),
        ("pattern", pattern.to_string()),
        ("crossnic", graph.cross_nic.to_string()),
        ("nchannels", graph.channels.len().to_string()),
        ("speedintra", graph.bw_intra.to_string()),
        ("speedinter", graph.bw_inter.to_string()),
        ("latencyinter", "0".to_owned()),
        ("typeintra", graph.type_intra.word().to_owned()),
        ("typeinter", graph.type_inter.word().to_owned()),
        ("samechannels", u8::from(graph.same_channels()).to_string()),
    ]
}

fn cpu(numa: Option<u32>, host: &Host<'_>) -> [(&'static str, String); 7] {
    let cores = host.numa_nodes.iter().find(|node| Some(node.id) == numa).map(|node| &node.cores);
    [
        ("host_hash", format!("{:#x}", host.hash)),
        ("numaid", numa.map_or_else(|| "-1".to_owned(), |numa| numa.to_string())),
        ("affinity", cores.map(mask).unwrap_or_default()),
        ("arch", host.cpu.arch.to_owned()),
        ("vendor", host.cpu.vendor.clone()),
        ("familyid", host.cpu.family.to_string()),
        ("modelid", host.cpu.model.to_string()),
    ]
}

/// As the kernel writes `cpumap`: words of 32 cores, the highest first.
fn mask(cores: &Cores) -> String {
    let words = cores.last().map_or(0, |last| last / 32 + 1);
    let word = |word: u32| {
        let bits = (0..32).filter(|bit| cores.contains(&(word * 32 + bit)));
        format!("{:08x}", bits.fold(0_u32, |bits, bit| bits | 1 << bit))
    };
    (0..words).rev().map(word).collect::<Vec<_>>().join(",")
}

/// What hangs below a part, seen from the NUMA node.
fn write_below(tree: &mut Tree, system: &System, host: &Host<'_>, part: usize, above: usize) {
    let below = system.part(part).1.iter().filter(|link| link.to != above && link.kind != LinkKind::Sys);
    for link in below {
        match system.part(link.to).0 {
            TopoNode::Pci(device) => {
                tree.open("pci", &pci(device));
                write_below(tree, system, host, link.to, part);
                tree.close();
            }
            TopoNode::Rank(index) => tree.leaf("gpu", &gpu(*index, host)),
            TopoNode::Nic(index) => {
                let nic = &system.nics()[*index];
                tree.open("nic", &[]);
                tree.leaf(
                    "net",
                    &[
                        ("name", nic.name.clone()),
                        ("dev", index.to_string()),
                        ("latency", "0".to_owned()),
                        ("speed", nic.speed_mbit.to_string()),
                        ("port", nic.port.to_string()),
                        ("guid", format!("{index:#x}")),
                        ("maxconn", "65536".to_owned()),
                        ("gdr", "0".to_owned()),
                    ],
                );
                tree.close();
            }
            TopoNode::Numa(_) => {}
        }
    }
}

fn pci(device: &PciDevice) -> [(&'static str, String); 4] {
    [
        ("busid", device.bus_id.clone()),
        ("class", device.class.clone()),
        ("link_speed", device.link_speed.clone()),
        ("link_width", device.link_width.clone()),
    ]
}

fn gpu(index: usize, host: &Host<'_>) -> [(&'static str, String); 4] {
    let rank = host.ranks.get(index).copied().unwrap_or(index);
    [("dev", index.to_string()), ("sm", "0".to_owned()), ("rank", rank.to_string()), ("gdr", "0".to_owned())]
}

/// Writes into memory, which cannot fail.
struct Tree {
    writer: Writer<Vec<u8>>,
    open: Vec<String>,
}

impl Tree {
    fn new() -> Self {
        Self { writer: Writer::new_with_indent(Vec::new(), b' ', 2), open: Vec::new() }
    }

    fn open(&mut self, name: &str, attributes: &[(&str, String)]) {
        self.write(Event::Start(start(name, attributes)));
        self.open.push(name.to_owned());
    }

    fn leaf(&mut self, name: &str, attributes: &[(&str, String)]) {
        self.write(Event::Empty(start(name, attributes)));
    }

    fn close(&mut self) {
        if let Some(name) = self.open.pop() {
            self.write(Event::End(BytesEnd::new(name)));
        }
    }

    fn write(&mut self, event: Event<'_>) {
        // A vector takes all.
        let _ = self.writer.write_event(event);
    }

    fn text(self) -> String {
        let mut text = String::from_utf8_lossy(&self.writer.into_inner()).into_owned();
        text.push('\n');
        text
    }
}

fn start<'a>(name: &'a str, attributes: &'a [(&'a str, String)]) -> BytesStart<'a> {
    BytesStart::new(name).with_attributes(attributes.iter().map(|(key, value)| (*key, value.as_str())))
}
