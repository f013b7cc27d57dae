//! The channels of a node, as NCCL's search finds them (`src/graph/search.cc`, `ncclTopoCompute`): at each speed, from fast to
//! slow, channels are laid until no link has room; the most bandwidth in all wins.
//!
//! `found` says what is searched and found, `compute` what is asked for, `walk` lays channels one after the other, `order` says
//! what it tries first, `ways` has the links of each way, `room` takes their bandwidth. All work on copies of the links' bandwidth,
//! so that a search leaves the system as it was.

mod compute;
mod order;
mod room;
mod topo_graph;
mod walk;
mod ways;

pub(crate) use compute::search;
pub(crate) use topo_graph::{Pattern, TopoGraph, Wanted};
