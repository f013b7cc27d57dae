//! What the nodes' searches found, what of it is in use, and the trees.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_api::{Graphs, NodeSearch, SearchedRow, Tree, TreePlace};
use ringscope_judge::Channels;
use ringscope_model::{GraphRow, RankRef};

use super::text;

/// Of a communicator's ranks. `None`: no log tells.
pub(super) fn graphs(ranks: &[RankRef<'_>], channels: &Channels) -> Option<Graphs> {
    let known: BTreeMap<u32, &RankRef<'_>> = ranks.iter().map(|rank| (rank.rank, rank)).collect();
    let node_of: BTreeMap<u32, Option<u32>> =
        channels.ranks.iter().map(|rank| (rank.rank, rank.node)).collect();
    let (mut graphs, mut nodes) = (Graphs::default(), BTreeSet::new());
    let mut trees: BTreeMap<u32, Vec<TreePlace>> = BTreeMap::new();
    for rank in known.values() {
        let Some(told) = &rank.facts.graphs else { continue };
        for (channel, place) in &told.places {
            let place = TreePlace { rank: rank.rank, up: place.up, down: place.down.clone() };
            trees.entry(*channel).or_default().push(place);
        }
        let rows = !told.rings.is_empty() || !told.trees.is_empty();
        // All ranks of a node tell the same.
        let node = node_of.get(&rank.rank).copied().flatten();
        if rows && nodes.insert((node, node.is_none().then(|| rank.identity.host.clone()))) {
            graphs.searches.push(NodeSearch {
                host: rank.identity.host.to_string(),
                rank: rank.rank,
                rings: told.rings.iter().map(row).collect(),
                trees: told.trees.iter().map(row).collect(),
                changes: changes(&told.rings, &known, channels.base, node),
            });
        }
    }
    graphs.trees = trees.into_iter().map(|(channel, places)| Tree { channel, places }).collect();
    (!graphs.searches.is_empty() || !graphs.trees.is_empty()).then_some(graphs)
}

fn row(row: &GraphRow) -> SearchedRow {
    SearchedRow { ranks: row.ranks.clone(), enter: text(&row.enter), leave: text(&row.leave) }
}

/// How the rings in use differ inside a node from those that its search found. `base`: how many the poorest node found;
/// beyond that channels repeat. `node`: its index, where that is known.
fn changes(
    found: &[GraphRow],
    ranks: &BTreeMap<u32, &RankRef<'_>>,
    base: Option<u32>,
    node: Option<u32>,
) -> Vec<String> {
    let own: BTreeSet<u32> = found.iter().flat_map(|row| row.ranks.iter().copied()).collect();
    let used: BTreeSet<u32> =
        ranks.values().flat_map(|rank| rank.facts.rings.iter().map(|(channel, _)| channel)).collect();
    let n_used = base.map_or(found.len(), |base| base as usize).min(found.len());
    if used.is_empty() || n_used == 0 {
        return Vec::new();
    }
    let mut changes = Vec::new();
    let unused = found.len() - n_used;
    if unused > 0 {
        changes.push(format!(
            "{unused} of its {} rings are not in use: another node found only {n_used}",
            found.len()
        ));
    }
    let orders = used.iter().map(|channel| {
        let at = *channel as usize % n_used;
        (channel, at, order(*channel, &found[at].ranks, &own, ranks))
    });
    let orders: Vec<(&u32, usize, Option<Vec<u32>>)> = orders.collect();
    let is_exchanged = n_used.is_multiple_of(2)
        && node.is_some_and(|node| !node.is_multiple_of(2))
        && orders.iter().all(|(_, at, order)| order.as_ref() == Some(&found[at ^ 1].ranks))
        && orders.iter().any(|(_, at, _)| found[*at].ranks != found[at ^ 1].ranks);
    if is_exchanged {
        changes.push(EXCHANGED.to_owned());
    }
    let mut repeated = Vec::new();
    for (channel, at, order) in orders {
        let row = &found[if is_exchanged { at ^ 1 } else { at }].ranks;
        match order {
            Some(order) if order != *row => {
                changes.push(format!(
                    "channel {channel} goes {} inside the node, found was {}",
                    list(&order),
                    list(row)
                ));
            }
            Some(_) if *channel as usize >= n_used => repeated.push(*channel),
            _ => {}
        }
    }
    if let [first, .., last] | [first @ last] = repeated.as_slice() {
        changes.push(format!("channels {first} to {last} repeat the first {n_used}"));
    }
    changes.truncate(CHANGES_TOLD);
    changes
}

/// The node's ranks in the order in which the ring of a channel visits them, from where it comes in, or from the same rank as
/// `row`. `None`: not all of them are known, or it comes in twice.
fn order(
    channel: u32,
    row: &[u32],
    own: &BTreeSet<u32>,
    ranks: &BTreeMap<u32, &RankRef<'_>>,
) -> Option<Vec<u32>> {
    let place = |rank: u32| ranks.get(&rank).and_then(|rank| rank.facts.rings.get(channel));
    let enters =
        own.iter().copied().find(|rank| place(*rank).is_some_and(|place| !own.contains(&place.prev)));
    let first = enters.or_else(|| row.first().copied())?;
    let mut order = vec![first];
    let mut next = place(first)?.next;
    while own.contains(&next) && next != first && order.len() < own.len() {
        order.push(next);
        next = place(next)?.next;
    }
    (order.len() == own.len()).then_some(order)
}

fn list(ranks: &[u32]) -> String {
    ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

/// NCCL's own rule, so that no ring crosses rails (`ncclTopoPostset`, `src/graph/connect.cc`).
const EXCHANGED: &str =
    "each two channels have each other's ring, as NCCL has it on every second node (crossNic 2)";
/// Sentences about one node.
const CHANGES_TOLD: usize = 16;

#[cfg(test)]
mod tests {
    use ringscope_wire::batch;

    use ringscope_api::clock::Timestamp;
    use ringscope_judge::Diagnosis;
    use ringscope_model::Model;
    use ringscope_samples::cluster::{Cluster, at};

    /// Two hosts of two ranks, rings of four channels in the order of the ranks; `rows` by host.
    fn changes(rows: [&[&[u32]]; 2], init: [u32; 2]) -> Vec<Vec<String>> {
        let cluster = Cluster::new(&[("host-0", 2, init[0]), ("host-1", 2, init[1])], 4);
        let mut told = cluster.batch(1, 2);
        for (rank, process) in told.processes.iter_mut().enumerate() {
            let row = |ranks: &&[u32]| batch::GraphRow {
                ranks: ranks.to_vec(),
                enter: "0".to_owned(),
                leave: String::new(),
            };
            let places = vec![batch::TreePosition { channel: 0, up: (rank > 0).then_some(0), down: vec![] }];
            let rings = rows[rank / 2].iter().map(row).collect();
            process.communicators[0].graphs = Some(batch::Graphs { rings, trees: vec![], places });
        }
        let mut model = Model::new();
        model.apply(&told, at(2));
        let now = Timestamp(at(3).0);
        let detail =
            super::super::communicator(&model, &Diagnosis::new(), now, cluster.id().as_str()).unwrap();
        let graphs = detail.graphs.unwrap();
        assert_eq!((graphs.trees.len(), graphs.trees[0].places.len()), (1, 4));
        assert_eq!(graphs.trees[0].places[0].up, None);
        assert_eq!(graphs.searches.iter().map(|node| node.rank).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(graphs.searches[0].rings[0].enter.as_deref(), Some("0"));
        graphs.searches.into_iter().map(|node| node.changes).collect()
    }

    #[test]
    fn what_changed_between_the_search_and_the_rings_in_use_is_said() {
        let repeat = "channels 2 to 3 repeat the first 2".to_owned();
        let same = changes([&[&[0, 1], &[0, 1]], &[&[2, 3], &[2, 3]]], [2, 2]);
        assert_eq!(same, vec![vec![repeat.clone()]; 2]);
        let fewer = changes([&[&[0, 1], &[0, 1], &[0, 1]], &[&[2, 3], &[2, 3]]], [3, 2]);
        let unused = "1 of its 3 rings are not in use: another node found only 2".to_owned();
        assert_eq!(fewer[0], [unused, repeat.clone()]);
        let turned = changes([&[&[0, 1], &[1, 0]], &[&[2, 3], &[2, 3]]], [2, 2]);
        let goes = |channel| format!("channel {channel} goes 0 1 inside the node, found was 1 0");
        assert_eq!(turned[0], [goes(1), goes(3), "channels 2 to 2 repeat the first 2".to_owned()]);
    }

    #[test]
    fn an_exchange_of_rings_is_told_as_the_rule_that_it_is() {
        // Rings on even channels go up, on odd ones down; on the second node it is the other way round.
        let cluster = Cluster::new(&[("host-0", 2, 2), ("host-1", 2, 2)], 4);
        let changes_of = |exchanges: bool| {
            let mut told = cluster.batch(1, 2);
            for (rank, process) in told.processes.iter_mut().enumerate() {
                let communicator = &mut process.communicators[0];
                let node = u32::try_from(rank / 2).unwrap() * 2;
                let (up, down) = (vec![node, node + 1], vec![node + 1, node]);
                let rows = [up, down].map(|ranks| batch::GraphRow { ranks, ..batch::GraphRow::default() });
                let (rings, trees, places) = (rows.to_vec(), vec![], vec![]);
                communicator.graphs = Some(batch::Graphs { rings, trees, places });
                for ring in &mut communicator.rings {
                    let is_turned = (ring.channel % 2 == 1) != (exchanges && rank >= 2);
                    // The whole ring: 0 1 2 3, with a node's two ranks in the other order where they are turned.
                    let other_turned = (ring.channel % 2 == 1) != (exchanges && rank < 2);
                    let other = 2 - node;
                    let (enter, leave) = if is_turned { (node + 1, node) } else { (node, node + 1) };
                    let (after, before) = if other_turned { (other + 1, other) } else { (other, other + 1) };
                    let is_first = u32::try_from(rank).unwrap() == enter;
                    (ring.prev, ring.next) = if is_first { (before, leave) } else { (enter, after) };
                }
            }
            let mut model = Model::new();
            model.apply(&told, at(2));
            let now = Timestamp(at(3).0);
            let detail =
                super::super::communicator(&model, &Diagnosis::new(), now, cluster.id().as_str()).unwrap();
            let searches = detail.graphs.unwrap().searches;
            searches.into_iter().map(|node| node.changes).collect::<Vec<_>>()
        };
        let repeat = "channels 2 to 3 repeat the first 2".to_owned();
        assert_eq!(changes_of(false), [[repeat.clone()], [repeat.clone()]]);
        assert_eq!(changes_of(true), [vec![repeat.clone()], vec![super::EXCHANGED.to_owned(), repeat]]);
    }
}
