//! The ring of one channel, put together from what each rank says of its own place. Pure.

use std::collections::BTreeMap;

use ringscope_api::words;

/// One rank's place in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Place {
    pub prev: u32,
    pub next: u32,
}

/// A ring, or what is known of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stitched {
    /// Every rank in order from rank 0; if there is a problem, the longest piece known.
    pub order: Vec<u32>,
    /// Ranks that have not said their place, whose neighbours say otherwise, or that lie outside of a closed piece.
    pub missing_ranks: Vec<u32>,
    /// Why it is not a ring over all ranks. `None`: it is.
    pub problem: Option<String>,
}

/// Follows the ring from rank to rank. It is whole if every rank of `n_ranks` is met exactly once, the last one leads
/// back to the first, and each rank's next names that rank as its prev.
#[must_use]
pub fn stitch(n_ranks: u32, places: &BTreeMap<u32, Place>) -> Stitched {
    let silent: Vec<u32> = (0..n_ranks).filter(|rank| !places.contains_key(rank)).collect();
    let contradictions = contradictions(n_ranks, places);
    let (order, closed) = longest_piece(places);
    if silent.is_empty() && contradictions.is_empty() && closed && order.len() == n_ranks as usize {
        return Stitched { order, missing_ranks: Vec::new(), problem: None };
    }
    let mut problems = Vec::new();
    if !silent.is_empty() {
        problems.push(format!("nothing is known of {}", words::ranks(&silent)));
    }
    if let Some(first) = contradictions.first() {
        problems.push(first.words(places));
        if contradictions.len() > 1 {
            problems.push(format!("{} more contradict each other", count(contradictions.len() - 1, "pair")));
        }
    }
    let mut missing_ranks = silent;
    missing_ranks.extend(contradictions.iter().flat_map(|pair| [pair.rank, pair.next]));
    if closed && order.len() < n_ranks as usize {
        problems.push(format!("it closes after {} of {n_ranks}", count(order.len(), "rank")));
        let inside: std::collections::HashSet<_> = order.iter().copied().collect();
        missing_ranks.extend(places.keys().copied().filter(|rank| !inside.contains(rank)));
    }
    missing_ranks.retain(|rank| *rank < n_ranks);
    missing_ranks.sort_unstable();
    missing_ranks.dedup();
    Stitched { order, missing_ranks, problem: Some(problems.join("; ")) }
}

/// A rank whose next does not know it as its prev.
struct Contradiction {
    rank: u32,
    next: u32,
}

impl Contradiction {
    fn words(&self, places: &BTreeMap<u32, Place>) -> String {
        let Self { rank, next } = self;
        match places.get(next) {
            Some(place) => format!(
                "rank {rank} says its next is {next}, but rank {next} says its prev is {}",
                place.prev
            ),
            None => format!("rank {rank} says its next is {next}, which there is not"),
        }
    }
}

fn contradictions(n_ranks: u32, places: &BTreeMap<u32, Place>) -> Vec<Contradiction> {
    let disagrees =
        |rank: u32, next: u32| next >= n_ranks || places.get(&next).is_some_and(|place| place.prev != rank);
    places
        .iter()
        .filter(|(rank, place)| disagrees(**rank, place.next))
        .map(|(rank, place)| Contradiction { rank: *rank, next: place.next })
        .collect()
}

/// The longest chain of ranks that agree with their neighbours, and whether its end leads back to its start. Of equal
/// ones that with the lowest rank; a closed one starts with its lowest rank.
fn longest_piece(places: &BTreeMap<u32, Place>) -> (Vec<u32>, bool) {
    let follow = |rank: u32| {
        let next = places.get(&rank)?.next;
        (places.get(&next)?.prev == rank).then_some(next)
    };
    let is_start = |rank: u32, place: &Place| follow(place.prev) != Some(rank);
    let mut seen = std::collections::HashSet::new();
    let mut best = (Vec::new(), false);
    // Open pieces from their starts; what is left then are closed ones, each met first at its lowest rank.
    let starts = places.iter().filter(|(rank, place)| is_start(**rank, place)).map(|(rank, _)| *rank);
    for start in starts.chain(places.keys().copied()) {
        let mut piece = Vec::new();
        let mut at = Some(start);
        while let Some(rank) = at.filter(|rank| seen.insert(*rank)) {
            piece.push(rank);
            at = follow(rank);
        }
        let closed = at == Some(start) && !piece.is_empty();
        let longer = piece.len() > best.0.len();
        let lower = piece.len() == best.0.len() && piece.iter().min() < best.0.iter().min();
        if longer || lower {
            best = (piece, closed);
        }
    }
    best
}

fn count(n: usize, word: &str) -> String {
    if n == 1 { format!("1 {word}") } else { format!("{n} {word}s") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ring(order: &[u32]) -> BTreeMap<u32, Place> {
        let n = order.len();
        (0..n).map(|i| (order[i], Place { prev: order[(i + n - 1) % n], next: order[(i + 1) % n] })).collect()
    }

    fn check(n_ranks: u32, places: &[(u32, u32, u32)], order: &[u32], missing: &[u32], problem: &str) {
        let places =
            places.iter().map(|(prev, rank, next)| (*rank, Place { prev: *prev, next: *next })).collect();
        let found = stitch(n_ranks, &places);
        assert_eq!(
            (found.order.as_slice(), found.missing_ranks.as_slice(), found.problem.as_deref().unwrap_or("")),
            (order, missing, problem)
        );
    }

    #[test]
    fn whole_rings() {
        check(1, &[(0, 0, 0)], &[0], &[], "");
        check(2, &[(1, 0, 1), (0, 1, 0)], &[0, 1], &[], "");
        check(3, &[(1, 0, 2), (2, 1, 0), (0, 2, 1)], &[0, 2, 1], &[], "");
    }

    #[test]
    fn missing_ranks() {
        check(0, &[], &[], &[], "");
        check(2, &[], &[], &[0, 1], "nothing is known of ranks 0 and 1");
        check(4, &[(3, 0, 1), (0, 1, 2), (2, 3, 0)], &[3, 0, 1], &[2], "nothing is known of rank 2");
        check(6, &[(5, 0, 1)], &[0], &[1, 2, 3, 4, 5], "nothing is known of ranks 1 to 5");
    }

    #[test]
    fn contradictions() {
        let says = "rank 1 says its next is 2, but rank 2 says its prev is 3";
        check(4, &[(3, 0, 1), (0, 1, 2), (3, 2, 3), (2, 3, 0)], &[2, 3, 0, 1], &[1, 2], says);
        check(2, &[(1, 0, 9), (0, 1, 0)], &[1, 0], &[0], "rank 0 says its next is 9, which there is not");
        let pairs = "it closes after 2 ranks of 4";
        check(4, &[(1, 0, 1), (0, 1, 0), (3, 2, 3), (2, 3, 2)], &[0, 1], &[2, 3], pairs);
    }

    #[test]
    fn a_large_ring() {
        let mut order: Vec<u32> = (0..1_024).map(|i| (i * 17) % 1_024).collect();
        let mut places = ring(&order);
        assert_eq!(stitch(1_024, &places), Stitched { order: order.clone(), ..Stitched::default() });
        places.remove(&order[512]);
        let found = stitch(1_024, &places);
        order.rotate_left(513);
        order.pop();
        assert_eq!((found.order, found.missing_ranks), (order, vec![512 * 17 % 1_024]));
    }

    proptest! {
        #[test]
        fn any_permutation_is_rebuilt(order in Just((0..40_u32).collect::<Vec<_>>()).prop_shuffle()) {
            let mut expected = order.clone();
            let start = order.iter().position(|rank| *rank == 0).unwrap();
            expected.rotate_left(start);
            prop_assert_eq!(stitch(40, &ring(&order)), Stitched { order: expected, ..Stitched::default() });
        }

        #[test]
        fn anything_is_survived(
            n_ranks in 0..12_u32,
            places in proptest::collection::btree_map(0..12_u32, (0..14_u32, 0..14_u32), 0..12),
        ) {
            let places: BTreeMap<u32, Place> =
                places.into_iter().map(|(rank, (prev, next))| (rank, Place { prev, next })).collect();
            let found = stitch(n_ranks, &places);
            let mut once = found.order.clone();
            once.sort_unstable();
            once.dedup();
            prop_assert_eq!(once.len(), found.order.len());
            prop_assert!(found.missing_ranks.iter().all(|rank| *rank < n_ranks));
            prop_assert!(found.problem.is_some() || found.order.len() == n_ranks as usize);
        }
    }
}
