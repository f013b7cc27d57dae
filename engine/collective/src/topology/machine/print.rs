//! A described machine as NCCL's log shows it (`ncclTopoPrint`, `ncclTopoPrintPaths`, `ncclTopoPrintGraph`): GPUs by their bus id.

use std::fmt::Write;

use super::search::{Pattern, TopoGraph};
use super::system::{Facts, Kind, Node, System};
use crate::topology::graph::{LinkKind, PathType};

/// Characters of a line at most, as in NCCL.
const MAX_LINE: usize = 1023;

/// A search's result: its head line and one row per channel.
pub(crate) fn found(system: &System, found: &TopoGraph) -> Vec<String> {
    let word = |kind: PathType| path_word(system, kind);
    let mut lines = vec![format!(
        "Pattern {}, crossNic {}, nChannels {}, bw {:.6}/{:.6}, type {}/{}, sameChannels {}",
        found.pattern as u8,
        found.cross_nic,
        found.channels.len(),
        found.bw_intra,
        found.bw_inter,
        word(found.type_intra),
        word(found.type_inter),
        u8::from(found.same_channels),
    )];
    let gpus = system.of(Kind::Gpu);
    let of_rank = |local: usize| (0..gpus.len()).find(|gpu| system.gpu(*gpu).1 == local);
    let n_shown = if found.pattern == Pattern::Nvls { 1 } else { gpus.len() };
    for (index, channel) in found.channels.iter().enumerate() {
        let net = |net: usize| if system.inter { format!(" NET/0-{net:x}") } else { String::new() };
        let mut line = format!("{index:2} :{}", net(channel.enter));
        for gpu in channel.order.iter().take(n_shown).filter_map(|local| of_rank(*local)) {
            let _ = write!(line, " {}", name(&system.nodes[gpus[gpu]]));
        }
        line.push_str(&net(channel.exit));
        lines.push(cut(line));
    }
    lines
}

/// The graph from each NUMA node down, then the ways from each GPU and port. `ranks` are those of the node.
pub(crate) fn system(system: &System, ranks: &[usize]) -> Vec<String> {
    let (most, all) = (system.max_bandwidth, system.total_bandwidth);
    let mut lines = vec![format!("=== System : maxBw {most:.1} totalBw {all:.1} ===")];
    for cpu in system.of(Kind::Cpu) {
        node(system, ranks, (*cpu, None), "", &mut lines);
    }
    lines.push("==========================================".to_owned());
    let ends = system.of(Kind::Gpu).iter().chain(system.of(Kind::Net));
    lines.extend(ends.map(|end| paths(system, *end)));
    lines.into_iter().map(cut).collect()
}

/// A node after `before`, and below it what hangs at it.
fn node(
    system: &System,
    ranks: &[usize],
    (at, above): (usize, Option<usize>),
    before: &str,
    lines: &mut Vec<String>,
) {
    let own = &system.nodes[at];
    lines.push(format!("{before}{}{}", name(own), details(own, ranks)));
    let margin = " ".repeat(before.len());
    for link in own.links.iter().filter(|link| link.kind != LinkKind::Pci || Some(link.to) != above) {
        let word =
            if link.kind == LinkKind::Nvl { path_word(system, PathType::Nvl) } else { link.kind.word() };
        let arrow = format!("{margin}+ {word}[{:.1}] - ", link.bandwidth);
        let to = &system.nodes[link.to];
        match link.kind {
            LinkKind::Pci => node(system, ranks, (link.to, Some(at)), &arrow, lines),
            LinkKind::Net if to.kind != Kind::Net => {}
            _ => lines.push(format!(
                "{arrow}{}{}",
                name(to),
                if to.kind == Kind::Net { details(to, ranks) } else { String::new() }
            )),
        }
    }
}

fn paths(system: &System, from: usize) -> String {
    let mut line = format!("{} :", name(&system.nodes[from]));
    for kind in Kind::ALL {
        for to in system.of(kind) {
            let Some(path) = system.path(from, *to) else { continue };
            let (name, word) = (name(&system.nodes[*to]), path_word(system, path.kind));
            let _ = write!(line, "{name} ({}/{:.1}/{word}) ", path.links.len(), path.bandwidth);
        }
    }
    line
}

fn name(node: &Node) -> String {
    format!("{}/0-{:x}", node.kind.word(), node.id)
}

fn details(node: &Node, ranks: &[usize]) -> String {
    match &node.facts {
        Facts::Gpu { local, .. } => format!(" ({})", ranks.get(*local).unwrap_or(local)),
        Facts::Cpu((arch, vendor, model)) => format!(" ({arch}/{vendor}/{model})"),
        Facts::Pci(maker) => format!(" ({maker:x})"),
        Facts::Net(net) => {
            format!(" ({}/{:x}/{}/{:.6})", u8::from(net.coll), net.asic, net.port, net.bandwidth)
        }
        Facts::None => String::new(),
    }
}

/// RCCL calls links between GPUs by their name.
fn path_word(system: &System, kind: PathType) -> &'static str {
    if kind == PathType::Nvl && system.is_amd { "XGMI" } else { kind.word() }
}

fn cut(mut line: String) -> String {
    line.truncate(MAX_LINE);
    line
}
