//! Names that wait for something of which only a few get a turn at a time: in the order in which they came, so that those
//! that come again and again keep nobody waiting. That one waits already is found without a comparison with the others:
//! of a hundred thousand nearly all do, at each of their batches.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// See the module.
#[derive(Debug)]
pub(super) struct Turns<K, V> {
    waiting: HashMap<K, V>,
    /// Who waits, each once, the first that came first.
    order: VecDeque<K>,
}

impl<K: Hash + Eq + Clone, V> Turns<K, V> {
    /// This one waits, if it did not.
    pub(super) fn put<Q: Hash + Eq + ToOwned<Owned = K> + ?Sized>(&mut self, name: &Q, value: V)
    where
        K: Borrow<Q>,
    {
        match self.waiting.get_mut(name) {
            Some(known) => *known = value,
            None => self.add(name.to_owned(), value),
        }
    }

    fn add(&mut self, name: K, value: V) {
        self.order.push_back(name.clone());
        self.waiting.insert(name, value);
    }

    /// Takes the next of them, `n` at most.
    pub(super) fn take(&mut self, n: usize) -> Self {
        let mut taken = Self::default();
        for name in self.order.drain(..n.min(self.order.len())) {
            if let Some(value) = self.waiting.remove(&name) {
                taken.add(name, value);
            }
        }
        taken
    }

    /// Those that had their turn in vain wait again, unless they do so already.
    pub(super) fn give_back(&mut self, mut taken: Self) {
        for name in taken.order {
            if let Some(value) = taken.waiting.remove(&name)
                && !self.waiting.contains_key(&name)
            {
                self.add(name, value);
            }
        }
    }

    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Who waits, the first that came first.
    pub(super) fn names(&self) -> impl Iterator<Item = &K> {
        self.order.iter()
    }

    /// Who waits, and for what.
    pub(super) fn all(&self) -> impl Iterator<Item = (&K, &V)> {
        self.order.iter().filter_map(|name| self.waiting.get_key_value(name))
    }
}

impl<K, V> Default for Turns<K, V> {
    fn default() -> Self {
        Self { waiting: HashMap::new(), order: VecDeque::new() }
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
        assert_eq!(had, ["ab", "cd", "ea", "bc"]);
        let all = turns.take(9);
        assert_eq!(all.all().map(|(name, value)| format!("{name}{value}")).collect::<String>(), "d3a3e3");
        turns.put("d", 7);
        turns.give_back(all);
        let names: Vec<_> = turns.all().map(|(name, value)| (name.as_str(), *value)).collect();
        assert_eq!(names, [("d", 7), ("a", 3), ("e", 3)]);
    }
}
