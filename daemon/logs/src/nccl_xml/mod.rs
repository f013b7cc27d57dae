//! Reads the XML files that NCCL writes on request: `NCCL_GRAPH_DUMP_FILE` (what the graph search found, before the ranks
//! agreed) and `NCCL_TOPO_DUMP_FILE` (GPUs, NICs and what lies between them). Pure: text in, facts out; never panics,
//! and never guesses what an attribute that is missing would have said. Source of the schema: NCCL `src/graph/xml.cc`,
//! `src/graph/search.cc`.

#[cfg(test)]
mod engine_tests;
mod graphs;
mod topology;
mod tree;

pub use graphs::{Graph, GraphKind, Graphs, Place};
pub use topology::{Distance, Gpu, Nic, NvLink, Topology};
pub use tree::XmlError;
