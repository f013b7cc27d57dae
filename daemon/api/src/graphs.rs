//! The way to the rings of a communicator: what the nodes' own searches found, and its trees.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What the library's log tells of the way to the rings, and of the trees.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
pub struct Graphs {
    /// What the search of each node found before all agreed, by the lowest rank that told.
    pub searches: Vec<NodeSearch>,
    /// The trees in use, by channel.
    pub trees: Vec<Tree>,
}

/// What the search of one node found.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct NodeSearch {
    /// Host of the node, or its first one.
    pub host: String,
    /// Rank that told.
    pub rank: u32,
    /// Rings inside the node, in the order of its channels.
    pub rings: Vec<SearchedRow>,
    /// Trees inside the node.
    pub trees: Vec<SearchedRow>,
    /// What became otherwise when all ranks agreed, in words. Empty: nothing, or the rings in use are not known.
    pub changes: Vec<String>,
}

/// One ring or tree inside a node.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct SearchedRow {
    /// The node's ranks in its order.
    pub ranks: Vec<u32>,
    /// Network device by which it comes into the node, as the library numbers it. Absent: it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub enter: Option<String>,
    /// The one by which it leaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub leave: Option<String>,
}

/// The tree of one channel.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Tree {
    /// Channel number.
    pub channel: u32,
    /// The places of the ranks that are known, by rank.
    pub places: Vec<TreePlace>,
}

/// A rank's place in a tree.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct TreePlace {
    /// Rank.
    pub rank: u32,
    /// The rank above. Absent: it is the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub up: Option<u32>,
    /// The ranks below.
    pub down: Vec<u32>,
}
