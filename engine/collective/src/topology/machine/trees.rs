//! Who is whose parent on each channel (`src/graph/connect.cc`, `ncclTopoPreset` and `connectTrees`): a chain within a node,
//! two trees that mirror each other among the nodes (`src/graph/trees.cc`).

use super::described::Described;
use super::search::Pattern;

/// A rank's parent and children on a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its parent.
    pub(crate) up: Option<usize>,
    /// Its children.
    pub(crate) down: [Option<usize>; 3],
}

/// Of a node among the nodes: its parent, its children, and which child of its parent it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Branch {
    up: Option<usize>,
    down: [Option<usize>; 2],
    is_second: bool,
}

/// The place of `rank` on each channel of the search, and again of its copies, which have the other tree.
pub(crate) fn places(described: &Described, rank: usize, base: usize) -> Vec<Place> {
    let node = described.node(rank);
    let trees = double(described.n_nodes(), node);
    let mut places = Vec::with_capacity(2 * base);
    for tree in trees {
        places.extend((0..base).map(|channel| place(described, rank, channel, tree)));
    }
    places
}

fn place(described: &Described, rank: usize, channel: usize, tree: Branch) -> Place {
    let (node, local) = (described.node(rank), described.local(rank));
    let order = &described.view(node).trees.channels[channel].order;
    let Some(at) = order.iter().position(|other| *other == local) else { return Place::default() };
    let of = |at: Option<usize>| at.and_then(|at| order.get(at)).map(|local| described.rank(node, *local));
    let mut place = Place { up: of(at.checked_sub(1)), down: [of(Some(at + 1)), None, None] };
    // Of a node: who has its parent, its first and its second child.
    let ends = |node: usize| {
        let trees = &described.view(node).trees;
        let order = &trees.channels[channel].order;
        let second = *order.get(1).unwrap_or(&order[0]);
        let first_child = if trees.pattern == Pattern::Tree { order[0] } else { second };
        [order[0], first_child, order[0]].map(|local| described.rank(node, local))
    };
    let own = ends(node);
    if let Some(up) = tree.up.filter(|_| rank == own[0]) {
        place.up = Some(ends(up)[if tree.is_second { 2 } else { 1 }]);
    }
    for (child, own) in tree.down.into_iter().zip([own[1], own[2]]) {
        let free = place.down.iter_mut().find(|down| down.is_none());
        if let (Some(child), Some(free), true) = (child, free, rank == own) {
            *free = Some(ends(child)[0]);
        }
    }
    place
}

/// The nodes that a node is joined to in the first or the second tree: its children, then its parent.
pub(crate) fn nodes_around(n_nodes: usize, node: usize, tree: usize) -> Vec<usize> {
    let branch = double(n_nodes, node)[tree % 2];
    branch.down.into_iter().chain([branch.up]).flatten().collect()
}

/// A binary tree of `n` whose leaves are the odd numbers.
fn binary(n: usize, node: usize) -> Branch {
    let bit = (0..).map(|shift| 1_usize << shift).find(|bit| *bit >= n || bit & node != 0).unwrap_or(1);
    if node == 0 {
        return Branch { up: None, down: [None, (n > 1).then_some(bit >> 1)], is_second: false };
    }
    let mut up = (node ^ bit) | (bit << 1);
    if up >= n {
        up = node ^ bit;
    }
    let mut low = bit >> 1;
    let first = (low > 0).then(|| node - low);
    let mut second = (low > 0).then(|| node + low);
    while second.is_some_and(|second| second >= n) {
        second = (low > 0).then(|| node + low);
        low >>= 1;
    }
    Branch { up: Some(up), down: [first, second], is_second: node > up }
}

/// The second tree is the first one's mirror, or shifted by one where the number of nodes is odd.
fn double(n: usize, node: usize) -> [Branch; 2] {
    let moved = |at: usize| if n % 2 == 1 { (at + n - 1) % n } else { n - 1 - at };
    let back = |at: usize| if n % 2 == 1 { (at + 1) % n } else { n - 1 - at };
    let other = binary(n, moved(node));
    let other = Branch { up: other.up.map(back), down: other.down.map(|down| down.map(back)), ..other };
    [binary(n, node), other]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_is_a_child_of_its_parent() {
        for n in 1..40 {
            for tree in 0..2 {
                let all: Vec<Branch> = (0..n).map(|node| double(n, node)[tree]).collect();
                assert_eq!(all.iter().filter(|branch| branch.up.is_none()).count(), 1, "{n}");
                for (node, branch) in all.iter().enumerate() {
                    if let Some(up) = branch.up {
                        assert_eq!(all[up].down[usize::from(branch.is_second)], Some(node), "{n} {node}");
                    }
                }
            }
        }
    }
}
