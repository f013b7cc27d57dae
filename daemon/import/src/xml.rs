//! The XML that NCCL writes on request. It names neither host nor communicator, so it is told by itself; only the names
//! of NICs go to ranks whose GPU is in the same file.

use ringscope_api::{Observation, Proof, Severity};
use ringscope_logs::nccl_xml::{Gpu, GraphKind, Graphs, Nic, Topology};
use ringscope_wire::batch::Communicator;

/// One file.
pub(super) enum Xml {
    /// `NCCL_GRAPH_DUMP_FILE`.
    Graphs(Graphs),
    /// `NCCL_TOPO_DUMP_FILE`.
    Topology(Topology),
}

/// What the files say.
pub(super) fn observe(files: &[(String, Xml)]) -> Vec<Observation> {
    let say = |(file, xml): &(String, Xml)| {
        let (kind, message) = match xml {
            Xml::Graphs(graphs) => ("graph_search", graphs_in_words(graphs)),
            Xml::Topology(topology) => ("topology", topology_in_words(topology)),
        };
        let text = "names neither host nor communicator".to_owned();
        Observation {
            kind: kind.to_owned(),
            severity: Severity::Info,
            message,
            proof: vec![Proof { file: file.clone(), line: None, text }],
        }
    };
    files.iter().map(say).collect()
}

/// Names the NICs of which the log gave only the index.
pub(super) fn name_nics(files: &[(String, Xml)], bus_id: Option<&str>, communicator: &mut Communicator) {
    let Some(bus_id) = bus_id else { return };
    let here = |topology: &&Topology| topology.gpus.iter().any(|gpu| gpu.bus_id.as_deref() == Some(bus_id));
    let topologies = files.iter().filter_map(|(_, xml)| match xml {
        Xml::Topology(topology) => Some(topology),
        Xml::Graphs(_) => None,
    });
    // Hosts of one kind have GPUs of the same ids: with two files it would be a guess whose they are.
    let mut topologies = topologies.filter(here);
    let (Some(topology), None) = (topologies.next(), topologies.next()) else { return };
    let name = |index: Option<u32>| index.and_then(|index| topology.nic(index)).map(|nic| nic.name.clone());
    for ring in &mut communicator.rings {
        if ring.nic.is_empty() {
            ring.nic = name(ring.nic_index).unwrap_or_default();
        }
        if ring.recv_nic.is_empty() {
            ring.recv_nic = name(ring.recv_nic_index).unwrap_or_default();
        }
    }
}

fn graphs_in_words(graphs: &Graphs) -> String {
    let part = |kind, name: &str| {
        let graph = graphs.of(kind)?;
        let speed = |speed: Option<f64>| speed.map_or_else(|| "?".to_owned(), |speed| speed.to_string());
        let (intra, inter) = (speed(graph.bw_intra), speed(graph.bw_inter));
        Some(format!(
            "{name} {} channels at {intra}/{inter} GB/s inside the node/between nodes",
            graph.n_channels
        ))
    };
    let parts: Vec<String> =
        [part(GraphKind::Ring, "rings"), part(GraphKind::Tree, "trees")].into_iter().flatten().collect();
    let init = graphs.init_channels().map_or_else(|| "an unknown number of".to_owned(), |n| n.to_string());
    format!("the search of one node found {init} channels ({})", parts.join("; "))
}

fn topology_in_words(topology: &Topology) -> String {
    let nearest = |gpu: &Gpu| {
        let distances = topology.nics.iter().filter_map(|nic| Some((Topology::distance(gpu, nic)?, nic)));
        let distances: Vec<_> = distances.collect();
        let best = distances.iter().map(|(distance, _)| *distance).min();
        let names: Vec<&str> = (distances.iter())
            .filter(|(distance, _)| Some(*distance) == best)
            .map(|(_, nic): &(_, &Nic)| nic.name.as_str())
            .take(NAMED)
            .collect();
        best.map_or_else(|| "no NIC".to_owned(), |best| format!("{} {}", best.word(), names.join(", ")))
    };
    let gpus: Vec<String> = topology
        .gpus
        .iter()
        .take(GPUS_NAMED)
        .map(|gpu| format!("GPU {} {}", gpu.dev, nearest(gpu)))
        .collect();
    format!(
        "a node of {} GPUs and {} NICs; nearest NICs: {}",
        topology.gpus.len(),
        topology.nics.len(),
        gpus.join("; ")
    )
}

/// NICs that are named for a GPU.
const NAMED: usize = 4;
/// GPUs that are named.
const GPUS_NAMED: usize = 16;
