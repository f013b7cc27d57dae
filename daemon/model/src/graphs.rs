//! What a log tells of the way to the rings: what a node's own searches found, and the rank's place in the trees.

use std::collections::BTreeMap;
use std::sync::Arc;

use ringscope_wire::batch;

use super::limits::{MAX_CHANNELS, MAX_GPUS};
use super::names::Name;
use super::word::Word;

/// See the module. Shared: facts are copied with every word about them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graphs {
    /// Rings that the search of the rank's node found, in the order of its channels.
    pub rings: Vec<GraphRow>,
    /// Trees that it found.
    pub trees: Vec<GraphRow>,
    /// The rank's place in the tree of each channel, by channel.
    pub places: BTreeMap<u32, TreePlace>,
}

/// One ring or tree inside a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphRow {
    /// The node's ranks in its order.
    pub ranks: Vec<u32>,
    /// Network device by which it comes in, as the library numbers it. Empty: none.
    pub enter: Name,
    /// The one by which it leaves.
    pub leave: Name,
}

/// A rank's place in a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreePlace {
    /// The rank above. Absent: it is the root.
    pub up: Option<u32>,
    /// The ranks below.
    pub down: Vec<u32>,
}

impl Graphs {
    /// What is told; `None` if it is nothing.
    pub(super) fn told(told: &batch::Graphs, word: &mut Word<'_>) -> Option<Arc<Self>> {
        let most = MAX_CHANNELS as usize;
        let mut row = |row: &batch::GraphRow| GraphRow {
            ranks: row.ranks.iter().take(MAX_ROW_RANKS).copied().collect(),
            enter: word.names.intern(&row.enter),
            leave: word.names.intern(&row.leave),
        };
        let graphs = Self {
            rings: told.rings.iter().take(most).map(&mut row).collect(),
            trees: told.trees.iter().take(most).map(&mut row).collect(),
            places: (told.places.iter())
                .filter(|place| place.channel < MAX_CHANNELS)
                .map(|place| {
                    let down = place.down.iter().take(MAX_BELOW).copied().collect();
                    (place.channel, TreePlace { up: place.up, down })
                })
                .collect(),
        };
        (graphs != Self::default()).then(|| Arc::new(graphs))
    }

    /// As it was told.
    pub(super) fn to_batch(&self) -> batch::Graphs {
        let row = |row: &GraphRow| batch::GraphRow {
            ranks: row.ranks.clone(),
            enter: row.enter.to_string(),
            leave: row.leave.to_string(),
        };
        let place = |(channel, place): (&u32, &TreePlace)| batch::TreePosition {
            channel: *channel,
            up: place.up,
            down: place.down.clone(),
        };
        batch::Graphs {
            rings: self.rings.iter().map(row).collect(),
            trees: self.trees.iter().map(row).collect(),
            places: self.places.iter().map(place).collect(),
        }
    }
}

/// Ranks of one row: two for each GPU of a host, or those of a rack.
const MAX_ROW_RANKS: usize = 2 * MAX_GPUS;
/// Ranks below one: NCCL's trees have three.
const MAX_BELOW: usize = 3;
