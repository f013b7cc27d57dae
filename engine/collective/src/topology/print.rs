//! The graph and the search's result as NCCL's log shows them (2.28: `ncclTopoPrint`, `ncclTopoPrintPaths`,
//! `ncclTopoPrintGraph`). A GPU's local id is its rank's index in the node, a NIC's its index among the node's.

use std::fmt::Write;

use crate::topology::graph::{LOC_BANDWIDTH, LinkKind, Path, System, TopoNode};
use crate::topology::processor::Processor;
use crate::topology::search::{Graph, reach};

/// Characters of a line at most, as in NCCL.
const MAX_LINE: usize = 1023;

/// A search result: its head line and one row per channel.
pub(crate) fn graph(graph: &Graph, pattern: u8, inter: bool) -> Vec<String> {
    let head = format!(
        "Pattern {pattern}, crossNic {}, nChannels {}, bw {:.6}/{:.6}, type {}/{}, sameChannels {}",
        graph.cross_nic,
        graph.channels.len(),
        graph.bw_intra,
        graph.bw_inter,
        graph.type_intra.word(),
        graph.type_inter.word(),
        u8::from(graph.same_channels()),
    );
    let mut lines = vec![head];
    for (index, channel) in graph.channels.iter().enumerate() {
        let net = |nic: usize| if inter { format!(" NET/0-{nic:x}") } else { String::new() };
        let mut line = format!("{index:2} :{}", net(channel.enter));
        for rank in &channel.order {
            let _ = write!(line, " GPU/0-{rank:x}");
        }
        line.push_str(&net(channel.exit));
        lines.push(cut(line));
    }
    lines
}

/// The graph: its parts from each NUMA node down, then the paths from each rank and NIC.
pub(crate) fn system(system: &System, processor: &Processor, ranks: &[usize], inter: bool) -> Vec<String> {
    let speeds = || (0..system.nics().len()).map(|nic| reach(system, nic));
    let (most, all) =
        if inter { (speeds().fold(0.0, f32::max), speeds().sum()) } else { (LOC_BANDWIDTH, LOC_BANDWIDTH) };
    let mut lines = vec![format!("=== System : maxBw {most:.1} totalBw {all:.1} ===")];
    let printer = Printer { system, processor, ranks };
    for (index, (part, _)) in system.parts().enumerate() {
        if matches!(part, TopoNode::Numa(_)) {
            printer.part(index, index, "", &mut lines);
        }
    }
    lines.push("==========================================".to_owned());
    let ends =
        |part: &&TopoNode| matches!(part, TopoNode::Rank(_)) || (inter && matches!(part, TopoNode::Nic(_)));
    lines.extend(system.parts().map(|(part, _)| part).filter(ends).map(|part| printer.paths(part, inter)));
    lines.into_iter().map(cut).collect()
}

struct Printer<'a> {
    system: &'a System,
    processor: &'a Processor,
    ranks: &'a [usize],
}

impl Printer<'_> {
    /// A part after `before`, and below it what hangs at it.
    fn part(&self, index: usize, above: usize, before: &str, lines: &mut Vec<String>) {
        let (part, links) = self.system.part(index);
        lines.push(format!("{before}{}{}", self.name(part), self.details(part)));
        let margin = " ".repeat(before.len());
        for link in links.iter().filter(|link| link.to != above) {
            let to = self.system.part(link.to).0;
            let arrow = format!("{margin}+ {}[{:.1}] - ", link.kind.word(), link.bandwidth);
            match to {
                TopoNode::Pci(_) | TopoNode::Rank(_) => self.part(link.to, index, &arrow, lines),
                TopoNode::Numa(_) => lines.push(format!("{arrow}{}", self.name(to))),
                TopoNode::Nic(_) => lines.push(format!("{arrow}{}{}", self.name(to), self.details(to))),
            }
        }
    }

    /// All paths from a part to ranks, NUMA nodes and NICs.
    fn paths(&self, from: &TopoNode, inter: bool) -> String {
        let mut line = format!("{} :", self.name(from));
        let paths = self.system.paths(from);
        let kinds: [fn(&TopoNode) -> bool; 3] = [
            |part| matches!(part, TopoNode::Rank(_)),
            |part| matches!(part, TopoNode::Numa(_)),
            |part| matches!(part, TopoNode::Nic(_)),
        ];
        for kind in kinds.iter().take(if inter { 3 } else { 2 }) {
            let of_kind = self.system.parts().zip(&paths).filter(|((part, _), _)| kind(part));
            for ((part, _), path) in of_kind {
                let Some(Path { kind, links, bandwidth }) = path else { continue };
                let _ = write!(line, "{} ({links}/{bandwidth:.1}/{}) ", self.name(part), kind.word());
            }
        }
        line
    }

    fn name(&self, part: &TopoNode) -> String {
        match part {
            TopoNode::Numa(numa) => format!("CPU/0-{:x}", numa.unwrap_or(self.nowhere())),
            TopoNode::Pci(device) if self.is_card(part) => format!("NIC/0-{:x}", device.number()),
            TopoNode::Pci(device) => format!("PCI/0-{:x}", device.number()),
            TopoNode::Nic(nic) => format!("NET/0-{nic:x}"),
            TopoNode::Rank(rank) => format!("GPU/0-{rank:x}"),
        }
    }

    fn details(&self, part: &TopoNode) -> String {
        match part {
            TopoNode::Numa(_) => {
                let (arch, vendor, model) = self.processor.codes();
                format!(" ({arch}/{vendor}/{model})")
            }
            // NCCL shows the ids of vendor and device here, which nobody told.
            TopoNode::Pci(_) if self.is_card(part) => String::new(),
            TopoNode::Pci(_) => " (0)".to_owned(),
            TopoNode::Nic(nic) => {
                let nic_part = &self.system.nics()[*nic];
                format!(" (0/{nic:x}/{}/{:.6})", nic_part.port, nic_part.bandwidth())
            }
            TopoNode::Rank(rank) => format!(" ({})", self.ranks.get(*rank).unwrap_or(rank)),
        }
    }

    fn is_card(&self, part: &TopoNode) -> bool {
        let found = self.system.parts().find(|(other, _)| *other == part);
        found.is_some_and(|(_, links)| links.iter().any(|link| link.kind == LinkKind::Net))
    }

    /// The number of the NUMA node of what has none: 0 if it is the only one, else one that no machine has.
    fn nowhere(&self) -> u32 {
        let told = self.system.parts().any(|(part, _)| matches!(part, TopoNode::Numa(Some(_))));
        if told { u32::MAX } else { 0 }
    }
}

fn cut(mut line: String) -> String {
    line.truncate(MAX_LINE);
    line
}
