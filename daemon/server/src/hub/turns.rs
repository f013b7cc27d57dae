//! Names that wait for something of which only a few get a turn at a time: in a circle, so that those that come again and again
//! keep nobody waiting.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Bound;

/// See the module.
#[derive(Debug)]
pub(super) struct Turns<K, V> {
    waiting: BTreeMap<K, V>,
    /// The last that had a turn.
    last: Option<K>,
}

impl<K: Ord + Clone, V> Turns<K, V> {
    /// This one waits, if it did not.
    pub(super) fn put<Q: Ord + ToOwned<Owned = K> + ?Sized>(&mut self, name: &Q, value: V)
    where
        K: Borrow<Q>,
    {
        match self.waiting.get_mut(name) {
            Some(known) => *known = value,
            None => drop(self.waiting.insert(name.to_owned(), value)),
        }
    }

    /// Takes the next of them, `n` at most.
    pub(super) fn take(&mut self, n: usize) -> Self {
        let after = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.waiting.range((after, Bound::Unbounded)).chain(&self.waiting);
        let next: Vec<K> = next.take(n.min(self.waiting.len())).map(|(name, _)| name.clone()).collect();
        if let Some(last) = next.last() {
            self.last = Some(last.clone());
        }
        let taken = next.into_iter().filter_map(|name| self.waiting.remove_entry(&name)).collect();
        Self { waiting: taken, last: None }
    }

    /// Those that had their turn in vain wait again, unless they do so already.
    pub(super) fn give_back(&mut self, taken: Self) {
        for (name, value) in taken.waiting {
            self.waiting.entry(name).or_insert(value);
        }
    }

    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Who waits.
    pub(super) fn names(&self) -> impl Iterator<Item = &K> {
        self.waiting.keys()
    }

    /// Who waits, and for what.
    pub(super) fn all(&self) -> impl Iterator<Item = (&K, &V)> {
        self.waiting.iter()
    }
}

impl<K, V> Default for Turns<K, V> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), last: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_turn_whoever_comes_again() {
        let mut turns: Turns<String, u32> = Turns::default();
        let mut had = Vec::new();
        for round in 0..4 {
            "abcde".chars().for_each(|name| turns.put(name.to_string().as_str(), round));
            had.push(turns.take(2).names().cloned().collect::<String>());
        }
        assert_eq!(had, ["ab", "cd", "ae", "bc"]);
        let all = turns.take(9);
        assert_eq!(all.all().map(|(name, value)| format!("{name}{value}")).collect::<String>(), "a3d3e3");
        turns.put("d", 7);
        turns.give_back(all);
        let names: Vec<_> = turns.all().map(|(name, value)| (name.as_str(), *value)).collect();
        assert_eq!(names, [("a", 3), ("d", 7), ("e", 3)]);
    }
}
