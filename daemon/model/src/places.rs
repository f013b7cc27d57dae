//! A rank's places in the rings of a communicator, one a channel. A hundred thousand ranks have some dozens of them each:
//! they lie close together, are copied by pointer, and what many hops have in common is kept once.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::Arc;

use super::names::Name;

/// The places of a rank, by channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places(Arc<[(u32, Position)]>);

/// A rank's place in the ring of one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Rank before it.
    pub prev: u32,
    /// Rank after it.
    pub next: u32,
    /// Rank whose proxy carries the hop to the next rank.
    pub proxy_rank: Option<u32>,
    pub(super) way: Arc<Way>,
}

/// By what a rank is reached from the one before it, and reaches the one after it.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct Way {
    /// Transport to the next rank. Empty: not known.
    pub transport: Name,
    /// NIC of that hop. Empty: none, or not known.
    pub nic: Name,
    /// Whether that NIC reads the GPU's memory itself.
    pub gpu_direct: bool,
    /// NIC on which this rank receives from `prev`. Empty: none, or not known.
    pub recv_nic: Name,
    /// Index of the NIC in its net plugin.
    pub nic_index: Option<u32>,
    /// The same of `recv_nic`.
    pub recv_nic_index: Option<u32>,
}

/// Every way in use.
#[derive(Default)]
pub(super) struct Ways(HashSet<Arc<Way>>);

impl Deref for Position {
    type Target = Way;

    fn deref(&self) -> &Way {
        &self.way
    }
}

impl Places {
    /// Of several places of one channel the last one counts.
    pub(super) fn of(mut places: Vec<(u32, Position)>) -> Self {
        // Those of one channel stay in their order.
        places.sort_by_key(|(channel, _)| *channel);
        places.reverse();
        places.dedup_by_key(|(channel, _)| *channel);
        places.reverse();
        Self(places.into())
    }

    /// Whether none is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Channels whose ring it is known to be in.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Its place in the ring of a channel.
    #[must_use]
    pub fn get(&self, channel: u32) -> Option<&Position> {
        let at = self.0.binary_search_by_key(&channel, |(channel, _)| *channel).ok()?;
        self.0.get(at).map(|(_, place)| place)
    }

    /// Its places, by channel.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Position)> + Clone {
        self.0.iter().map(|(channel, place)| (*channel, place))
    }

    /// Its places without the channels, in their order.
    pub fn values(&self) -> impl Iterator<Item = &Position> + Clone {
        self.0.iter().map(|(_, place)| place)
    }
}

impl Ways {
    /// The shared copy of this way.
    pub(super) fn share(&mut self, way: Way) -> Arc<Way> {
        if let Some(known) = self.0.get(&way) {
            return Arc::clone(known);
        }
        let way = Arc::new(way);
        self.0.insert(Arc::clone(&way));
        way
    }

    /// Lets go of the ways that nobody goes any more.
    pub(super) fn forget_unused(&mut self) {
        self.0.retain(|way| Arc::strong_count(way) > 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(nic: &str) -> Way {
        Way {
            transport: "NET/IB".into(),
            nic: nic.into(),
            gpu_direct: true,
            recv_nic: "".into(),
            nic_index: None,
            recv_nic_index: None,
        }
    }

    #[test]
    fn the_last_place_of_a_channel_counts() {
        let mut ways = Ways::default();
        let mut place = |next| Position { prev: 0, next, proxy_rank: None, way: ways.share(way("mlx5_0")) };
        let places = Places::of(vec![(3, place(7)), (1, place(5)), (3, place(9))]);
        let told: Vec<(u32, u32)> = places.iter().map(|(channel, place)| (channel, place.next)).collect();
        assert_eq!(told, [(1, 5), (3, 9)]);
        assert_eq!((places.len(), places.get(2).is_none()), (2, true));
        assert_eq!(places.get(3).map(|place| &*place.nic), Some("mlx5_0"));
    }

    #[test]
    fn ways_are_shared_and_forgotten() {
        let mut ways = Ways::default();
        let first = ways.share(way("mlx5_0"));
        assert!(Arc::ptr_eq(&first, &ways.share(way("mlx5_0"))));
        ways.share(way("mlx5_1"));
        ways.forget_unused();
        assert_eq!(ways.0.len(), 1);
    }
}
