//! `NCCL_GRAPH_DUMP_FILE`: what the graph search of one node found, which is the *initial* number of channels: it is
//! written before the ranks agree. The file names neither communicator nor host.

use roxmltree::Node;

use super::tree::{XmlError, children, number, optional, parse, required};

/// All graphs of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graphs {
    /// In the order of the file.
    pub graphs: Vec<Graph>,
}

/// Result of one search.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// For what.
    pub kind: GraphKind,
    /// NCCL's code of the pattern: 1 to 3 trees, 4 ring, 5 NVLS, 6 CollNet direct.
    pub pattern: u32,
    /// Channels found, also where `channels` lists fewer.
    pub n_channels: u32,
    /// Bandwidth inside the node, GB/s.
    pub bw_intra: Option<f64>,
    /// Bandwidth between nodes, GB/s.
    pub bw_inter: Option<f64>,
    /// Worst path inside the node: `NVL`, `PIX`, `PXB`, `PHB`, `SYS`, ….
    pub type_intra: Option<String>,
    /// Worst path between GPU and NIC.
    pub type_inter: Option<String>,
    /// What each channel passes, in order.
    pub channels: Vec<Vec<Place>>,
}

/// What a graph is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphKind {
    /// Rings.
    Ring,
    /// Trees.
    Tree,
    /// CollNet in a chain.
    CollNetChain,
    /// NVLink SHARP.
    Nvls,
    /// CollNet, direct.
    CollNetDirect,
    /// One that is newer than this reader.
    Other(u32),
}

/// A GPU or NIC on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A NIC by its index in the net plugin.
    Net {
        /// System of a node that spans hosts; 0 elsewhere and up to NCCL 2.20.
        system: u8,
        /// Index.
        dev: u64,
    },
    /// A GPU by CUDA device number.
    Gpu {
        /// System of a node that spans hosts; 0 elsewhere and up to NCCL 2.20.
        system: u8,
        /// CUDA device number; since NCCL 2.21 where it is written in hexadecimal, the bus id.
        dev: u64,
        /// Rank, written since NCCL 2.30.7.
        rank: Option<u32>,
    },
}

impl Graphs {
    /// Reads the text of such a file.
    ///
    /// # Errors
    ///
    /// If it is no such file, or a value that counts is missing or no number.
    pub fn parse(text: &str) -> Result<Self, XmlError> {
        let document = parse(text, "graphs")?;
        let graphs = children(document.root_element(), "graph").map(graph).collect::<Result<_, _>>()?;
        Ok(Self { graphs })
    }

    /// The graph of one kind.
    #[must_use]
    pub fn of(&self, kind: GraphKind) -> Option<&Graph> {
        self.graphs.iter().find(|graph| graph.kind == kind)
    }

    /// Channels that the node's own search found: min(ring, tree).
    #[must_use]
    pub fn init_channels(&self) -> Option<u32> {
        Some(self.of(GraphKind::Ring)?.n_channels.min(self.of(GraphKind::Tree)?.n_channels))
    }
}

fn graph(node: Node<'_, '_>) -> Result<Graph, XmlError> {
    let kind = match required(node, "id")? {
        0 => GraphKind::Ring,
        1 => GraphKind::Tree,
        2 => GraphKind::CollNetChain,
        3 => GraphKind::Nvls,
        4 => GraphKind::CollNetDirect,
        other => GraphKind::Other(other),
    };
    let channel = |channel: Node<'_, '_>| {
        channel.children().filter(Node::is_element).filter_map(|node| place(node).transpose()).collect()
    };
    Ok(Graph {
        kind,
        pattern: required(node, "pattern")?,
        n_channels: required(node, "nchannels")?,
        bw_intra: optional(node, "speedintra")?,
        bw_inter: optional(node, "speedinter")?,
        type_intra: optional(node, "typeintra")?,
        type_inter: optional(node, "typeinter")?,
        channels: children(node, "channel").map(channel).collect::<Result<_, _>>()?,
    })
}

/// An id of NCCL 2.21 and later holds the system in its upper eight bits (`NCCL_TOPO_ID_SYSTEM_ID`).
const SYSTEM_SHIFT: u32 = 56;

fn place(node: Node<'_, '_>) -> Result<Option<Place>, XmlError> {
    let id = |node| {
        let id = number(node, "dev")?;
        let system = u8::try_from(id >> SYSTEM_SHIFT).unwrap_or_default();
        Ok::<_, XmlError>((system, id & ((1 << SYSTEM_SHIFT) - 1)))
    };
    match node.tag_name().name() {
        "net" => id(node).map(|(system, dev)| Some(Place::Net { system, dev })),
        "gpu" => {
            let (system, dev) = id(node)?;
            Ok(Some(Place::Gpu { system, dev, rank: optional(node, "rank")? }))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As NCCL 2.19 writes it: numbers in decimal.
    const DECIMAL: &str = r#"<graphs version="1">
  <graph id="0" pattern="4" crossnic="0" nchannels="2" speedintra="24" speedinter="12.5" latencyinter="0" typeintra="NVL" typeinter="PIX" samechannels="1">
    <channel><net dev="0"/><gpu dev="0"/><gpu dev="1"/><net dev="0"/></channel>
    <channel><net dev="1"/><gpu dev="1"/><gpu dev="0"/><net dev="1"/></channel>
  </graph>
  <graph id="1" pattern="1" crossnic="0" nchannels="1" speedintra="24" speedinter="12.5" latencyinter="0" typeintra="NVL" typeinter="PIX" samechannels="1">
    <channel><net dev="0"/><gpu dev="0"/><gpu dev="1"/><net dev="0"/></channel>
  </graph>
  <graph id="3" pattern="5" crossnic="0" nchannels="0" speedintra="0" speedinter="0" latencyinter="0" typeintra="LOC" typeinter="PIX" samechannels="1"/>
</graphs>"#;

    /// As NCCL 2.30.7 writes it: system and local id in hexadecimal, and the rank.
    const HEXADECIMAL: &str = r#"<graphs version="1">
  <graph id="0" pattern="4" crossnic="2" nchannels="1" speedintra="40" speedinter="40" latencyinter="0" typeintra="NVL" typeinter="PXB" samechannels="0">
    <channel><net dev="0x100000000000002"/><gpu dev="0x10000000001b000" rank="4"/><gpu dev="0" rank="5"/><net dev="0x2"/></channel>
  </graph>
</graphs>"#;

    #[test]
    fn numbers_in_decimal() {
        let graphs = Graphs::parse(DECIMAL).expect("graphs");
        assert_eq!(graphs.init_channels(), Some(1), "the tree has fewer");
        let ring = graphs.of(GraphKind::Ring).expect("a ring");
        assert_eq!((ring.n_channels, ring.bw_intra, ring.bw_inter), (2, Some(24.0), Some(12.5)));
        assert_eq!((ring.type_intra.as_deref(), ring.type_inter.as_deref()), (Some("NVL"), Some("PIX")));
        let (net, gpu) =
            (|dev| Place::Net { system: 0, dev }, |dev| Place::Gpu { system: 0, dev, rank: None });
        assert_eq!(ring.channels[1], [net(1), gpu(1), gpu(0), net(1)]);
        assert!(graphs.of(GraphKind::Nvls).is_some_and(|nvls| nvls.channels.is_empty()));
    }

    #[test]
    fn ids_in_hexadecimal_with_ranks() {
        let graphs = Graphs::parse(HEXADECIMAL).expect("graphs");
        assert_eq!(graphs.init_channels(), None, "there is no tree");
        let gpu = |system, dev, rank| Place::Gpu { system, dev, rank: Some(rank) };
        let expected = [
            Place::Net { system: 1, dev: 2 },
            gpu(1, 0x1b000, 4),
            gpu(0, 0, 5),
            Place::Net { system: 0, dev: 2 },
        ];
        assert_eq!(graphs.graphs[0].channels[0], expected);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let check = |text: &str, expected: &str| {
            let error = Graphs::parse(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("<graphs><graph id=\"0\"", "was cut");
        check("NCCL INFO", "is no XML");
        check("<system version=\"1\"/>", "is not <graphs>");
        check(
            "<graphs>\n<graph id=\"0\" pattern=\"4\"/></graphs>",
            "line 2: <graph> has no attribute nchannels",
        );
        check("<graphs><graph id=\"x\"/></graphs>", "id of <graph> is no number");
        check(&DECIMAL.replace("dev=\"1\"", "dev=\"0xg\""), "line 3: dev of <gpu> is no number");
    }

    proptest! {
        #[test]
        fn any_text(text in any::<String>(), at in 0..HEXADECIMAL.len(), byte in 32..127_u8) {
            let _ = Graphs::parse(&text);
            let mut mutated = HEXADECIMAL.as_bytes().to_vec();
            mutated[at] = byte;
            let _ = Graphs::parse(&String::from_utf8_lossy(&mutated));
            let _ = Graphs::parse(&HEXADECIMAL[..at]);
        }
    }
}
