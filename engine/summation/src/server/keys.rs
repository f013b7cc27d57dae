//! What a service has for each of its keys.

use std::collections::BTreeMap;

use super::part::Part;
use super::refusal::Refusal;

/// The keys that are served here.
#[derive(Debug)]
pub(super) struct Keys<T>(BTreeMap<u32, Entry<T>>);

/// One key's part, and what becomes of it.
#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) key: u32,
    pub(super) part: Part,
    pub(super) state: T,
}

impl<T: Default> Keys<T> {
    pub(super) fn new(parts: impl IntoIterator<Item = (u32, Part)>) -> Self {
        let entry = |(key, part)| (key, Entry { key, part, state: T::default() });
        Self(parts.into_iter().map(entry).collect())
    }
}

impl<T> Keys<T> {
    pub(super) fn find(&mut self, key: u32) -> Result<&mut Entry<T>, Refusal> {
        let n_keys = self.0.len();
        let first = self.0.first_key_value().map_or(0, |(key, _)| *key);
        let last = self.0.last_key_value().map_or(0, |(key, _)| *key);
        self.0.get_mut(&key).ok_or(Refusal::UnknownKey { key, n_keys, first, last })
    }

    pub(super) fn get(&self, key: u32) -> Option<&Entry<T>> {
        self.0.get(&key)
    }

    /// In the order of the keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry<T>> {
        self.0.values()
    }
}

impl<T> Entry<T> {
    /// Itself, if that is a contribution's length.
    pub(super) fn of_length(&mut self, got_bytes: usize) -> Result<&mut Self, Refusal> {
        let wanted_bytes = self.part.pushed_bytes();
        let refusal = Refusal::WrongLength { key: self.key, wanted_bytes, got_bytes };
        if got_bytes == wanted_bytes { Ok(self) } else { Err(refusal) }
    }
}
