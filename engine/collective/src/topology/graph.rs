//! The graph of one node: NUMA nodes, PCI switches, cards, NICs and ranks, and the links between them.
//!
//! A rank is its cores: it hangs at its NUMA node, unless a topology file puts it behind a switch. What has no NUMA node
//! on a machine with several hangs at one of its own that is far from all. Paths are the shortest ones; their types are
//! NCCL's (`src/graph/paths.cc`): LOC within a NUMA node's memory, PIX over one switch, PXB over several, PHB over a host
//! bridge, SYS from one NUMA node to another.

use std::collections::VecDeque;

use crate::topology::seat::{PciDevice, Seat};

/// GB/s within a NUMA node; NCCL's LOC_BW, which stands for "no limit".
pub(crate) const LOC_BANDWIDTH: f32 = 5000.0;
/// GB/s between NUMA nodes; NCCL's figure for AMD, between those for the older and the newer Intel (10 and 40).
pub(crate) const SYS_BANDWIDTH: f32 = 16.0;

/// How far, in NCCL's words; nearer ones are smaller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathType {
    /// Within a NUMA node's memory.
    #[default]
    Loc,
    /// Over NVLink.
    Nvl,
    /// Over NVLink and another GPU.
    Nvb,
    /// Over one PCI switch at most.
    Pix,
    /// Over several PCI switches.
    Pxb,
    /// To a NIC over NVLink and the GPU beside it.
    Pxn,
    /// Over the host bridge of a NUMA node.
    Phb,
    /// From one NUMA node to another.
    Sys,
}

impl PathType {
    /// All of them, the nearest first.
    pub(crate) const ALL: [Self; 8] =
        [Self::Loc, Self::Nvl, Self::Nvb, Self::Pix, Self::Pxb, Self::Pxn, Self::Phb, Self::Sys];

    /// The next farther one; the farthest has none.
    pub(crate) fn next(self) -> Self {
        Self::ALL.get(self as usize + 1).copied().unwrap_or(Self::Sys)
    }

    /// The word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Loc => "LOC",
            Self::Nvl => "NVL",
            Self::Nvb => "NVB",
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::Pxn => "PXN",
            Self::Phb => "PHB",
            Self::Sys => "SYS",
        }
    }
}

/// What a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkKind {
    /// Cores and their memory.
    Loc,
    /// NVLink, or what other makers call theirs.
    Nvl,
    /// PCI.
    Pci,
    /// Between NUMA nodes.
    Sys,
    /// A card's port.
    Net,
}

impl LinkKind {
    /// The word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Loc => "LOC",
            Self::Nvl => "NVL",
            Self::Pci => "PCI",
            Self::Sys => "SYS",
            Self::Net => "NET",
        }
    }
}

/// A link to another node of the graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Link {
    /// The node.
    pub(crate) to: usize,
    /// What it is.
    pub(crate) kind: LinkKind,
    /// GB/s.
    pub(crate) bandwidth: f32,
}

/// A node of the graph, a part of the machine: NCCL's `ncclTopoNode`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TopoNode {
    /// A NUMA node; none for what has none.
    Numa(Option<u32>),
    /// A switch or card.
    Pci(PciDevice),
    /// A NIC by its index in [`System::nics`].
    Nic(usize),
    /// A rank by its index in the node.
    Rank(usize),
}

/// A NIC of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeNic {
    /// Its name.
    pub(crate) name: String,
    /// 10⁶ bits per second.
    pub(crate) speed_mbit: u32,
    /// The card's port.
    pub(crate) port: u32,
    /// Where it is.
    pub(crate) seat: Seat,
}

impl NodeNic {
    /// GB/s.
    pub(crate) fn bandwidth(&self) -> f32 {
        #[expect(clippy::cast_precision_loss, reason = "a speed for people and for classes")]
        let megabits = self.speed_mbit as f32;
        megabits / 8000.0
    }
}

/// A path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Path {
    /// How far.
    pub(crate) kind: PathType,
    /// Links.
    pub(crate) links: usize,
    /// GB/s of its narrowest link.
    pub(crate) bandwidth: f32,
}

/// A node's graph.
#[derive(Clone, Debug, Default)]
pub(crate) struct System {
    parts: Vec<TopoNode>,
    links: Vec<Vec<Link>>,
    nics: Vec<NodeNic>,
    homes: Vec<Option<u32>>,
}

impl System {
    /// Of a node's ranks, by their index in it, and of its NICs.
    pub(crate) fn new(ranks: &[Seat], nics: &[NodeNic]) -> Self {
        let mut system = Self { nics: nics.to_vec(), ..Self::default() };
        let seats = || ranks.iter().chain(nics.iter().map(|nic| &nic.seat));
        let mut known: Vec<u32> = seats().filter_map(|seat| seat.numa).collect();
        known.sort_unstable();
        known.dedup();
        // One NUMA node, or none that is told: everything is there.
        let home = |seat: &Seat| if known.len() > 1 { seat.numa } else { known.first().copied() };
        let mut numas: Vec<Option<u32>> = known.iter().copied().map(Some).collect();
        if seats().any(|seat| home(seat).is_none()) || numas.is_empty() {
            numas.push(None);
        }
        for numa in numas {
            let part = system.add(TopoNode::Numa(numa));
            (0..part).for_each(|other| system.link(part, other, LinkKind::Sys, SYS_BANDWIDTH));
        }
        for (index, seat) in ranks.iter().enumerate() {
            system.homes.push(home(seat));
            let above = system.hang(home(seat), &seat.pci);
            let rank = system.add(TopoNode::Rank(index));
            system.link(above, rank, LinkKind::Loc, LOC_BANDWIDTH);
        }
        for (index, nic) in nics.iter().enumerate() {
            let above = system.hang(home(&nic.seat), &nic.seat.pci);
            let part = system.add(TopoNode::Nic(index));
            system.link(above, part, LinkKind::Net, nic.bandwidth());
        }
        system
    }

    /// The parts, each with its links.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&TopoNode, &[Link])> {
        self.parts.iter().zip(self.links.iter().map(Vec::as_slice))
    }

    /// A part and its links.
    pub(crate) fn part(&self, index: usize) -> (&TopoNode, &[Link]) {
        (&self.parts[index], &self.links[index])
    }

    /// The NICs.
    pub(crate) fn nics(&self) -> &[NodeNic] {
        &self.nics
    }

    /// Ranks.
    pub(crate) fn n_ranks(&self) -> usize {
        self.homes.len()
    }

    /// The NUMA node that a rank hangs at.
    pub(crate) fn home(&self, rank: usize) -> Option<u32> {
        self.homes[rank]
    }

    /// All paths from a part, by the index of the other end.
    pub(crate) fn paths(&self, from: &TopoNode) -> Vec<Option<Path>> {
        let mut paths = vec![None; self.parts.len()];
        let Some(start) = self.parts.iter().position(|part| part == from) else { return paths };
        let mut routes: Vec<Option<Route>> = vec![None; self.parts.len()];
        routes[start] = Some(Route::START);
        let mut open = VecDeque::from([start]);
        while let Some(at) = open.pop_front() {
            let Some(route) = routes[at] else { continue };
            paths[at] = Some(route.path());
            if at != start && matches!(self.parts[at], TopoNode::Nic(_) | TopoNode::Rank(_)) {
                continue;
            }
            for link in &self.links[at] {
                if routes[link.to].is_none() {
                    routes[link.to] = Some(route.over(&self.parts[link.to], *link, self.has_below(link.to)));
                    open.push_back(link.to);
                }
            }
        }
        paths
    }

    /// A switch has PCI devices below it; a card has none.
    fn has_below(&self, part: usize) -> bool {
        self.links[part].iter().filter(|link| link.kind == LinkKind::Pci).count() > 1
    }

    fn add(&mut self, part: TopoNode) -> usize {
        self.parts.push(part);
        self.links.push(Vec::new());
        self.parts.len() - 1
    }

    fn link(&mut self, from: usize, to: usize, kind: LinkKind, bandwidth: f32) {
        self.links[from].push(Link { to, kind, bandwidth });
        self.links[to].push(Link { to: from, kind, bandwidth });
    }

    /// The part that something with these PCI devices above it hangs at.
    fn hang(&mut self, numa: Option<u32>, pci: &[PciDevice]) -> usize {
        let mut above = self.parts.iter().position(|part| *part == TopoNode::Numa(numa)).unwrap_or(0);
        for device in pci {
            let same =
                |part: &TopoNode| matches!(part, TopoNode::Pci(other) if other.bus_id == device.bus_id);
            above = self.parts.iter().position(same).unwrap_or_else(|| {
                let part = self.add(TopoNode::Pci(device.clone()));
                self.link(above, part, LinkKind::Pci, device.bandwidth());
                part
            });
        }
        above
    }
}

/// What a path has passed.
#[derive(Clone, Copy, Debug)]
struct Route {
    links: usize,
    bandwidth: f32,
    switches: usize,
    sys: bool,
    numa: bool,
    outside: bool,
}

impl Route {
    const START: Self =
        Self { links: 0, bandwidth: LOC_BANDWIDTH, switches: 0, sys: false, numa: false, outside: false };

    fn over(mut self, to: &TopoNode, link: Link, switch: bool) -> Self {
        self.links += 1;
        self.bandwidth = self.bandwidth.min(link.bandwidth);
        self.sys |= link.kind == LinkKind::Sys;
        self.numa |= matches!(to, TopoNode::Numa(_));
        self.outside |= matches!(link.kind, LinkKind::Pci | LinkKind::Net);
        self.switches += usize::from(switch && matches!(to, TopoNode::Pci(_)));
        self
    }

    fn path(&self) -> Path {
        let kind = match (self.sys, self.numa, self.outside) {
            (true, _, _) => PathType::Sys,
            (_, _, false) => PathType::Loc,
            (_, true, true) => PathType::Phb,
            _ if self.switches > 1 => PathType::Pxb,
            _ => PathType::Pix,
        };
        Path { kind, links: self.links, bandwidth: self.bandwidth }
    }
}
