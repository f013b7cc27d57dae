//! Bytes in flight, and their bounds.

use std::collections::BTreeMap;

/// How many bytes may be in flight, to each server and in all, and how many are.
///
/// A part waits only for credits of parts that are as urgent as itself or more. One of more bytes than a bound counts as
/// that bound, so it goes out once nothing else is in flight.
#[derive(Debug)]
pub(super) struct Credits {
    /// By server.
    per_server: Vec<u64>,
    in_all: u64,
    /// By which all bounds are exceeded at present.
    beyond: u64,
    used: Vec<Used>,
    used_in_all: Used,
}

/// Bytes in flight, by priority.
#[derive(Clone, Debug, Default)]
struct Used(BTreeMap<u32, u64>);

impl Credits {
    /// For servers that own these shares: the largest gets `most_per_server`, the others in proportion, so that what is in
    /// flight to each is what it can sum in the same time, and connections get bytes in proportion however the network
    /// divides its links.
    pub(super) fn new(shares: &[f64], most_per_server: u64, in_all: u64) -> Self {
        let largest = shares.iter().copied().fold(0.0, f64::max);
        let of = |share: &f64| match share / largest {
            part if part > 0.0 && part < 1.0 => proportion(most_per_server, part),
            _ => most_per_server,
        };
        Self {
            per_server: shares.iter().map(|share| of(share).max(1)).collect(),
            in_all: in_all.max(1),
            beyond: 0,
            used: vec![Used::default(); shares.len()],
            used_in_all: Used::default(),
        }
    }

    /// Whether the server's own bound leaves room.
    pub(super) fn fits_server(&self, server: usize, priority: u32, bytes: u64) -> bool {
        self.used[server].leaves(self.per_server[server], self.beyond, priority, bytes)
    }

    /// Whether the bound over all servers leaves room.
    pub(super) fn fits_in_all(&self, priority: u32, bytes: u64) -> bool {
        self.used_in_all.leaves(self.in_all, self.beyond, priority, bytes)
    }

    pub(super) fn take(&mut self, server: usize, priority: u32, bytes: u64) {
        self.used[server].add(priority, bytes.min(self.per_server[server]));
        self.used_in_all.add(priority, bytes.min(self.in_all));
    }

    pub(super) fn give_back(&mut self, server: usize, priority: u32, bytes: u64) {
        self.used[server].subtract(priority, bytes.min(self.per_server[server]));
        self.used_in_all.subtract(priority, bytes.min(self.in_all));
    }

    /// Parts wait for each other: more may be in flight, twice as much each time.
    pub(super) fn widen(&mut self) {
        let largest = self.per_server.iter().copied().max().unwrap_or(1);
        self.beyond = self.beyond.saturating_mul(2).max(largest);
    }

    /// The bounds hold again.
    pub(super) fn narrow(&mut self) {
        self.beyond = 0;
    }

    pub(super) fn used(&self, server: usize) -> u64 {
        self.used[server].0.values().sum()
    }

    pub(super) fn used_in_all(&self) -> u64 {
        self.used_in_all.0.values().sum()
    }
}

impl Used {
    fn leaves(&self, bound: u64, beyond: u64, priority: u32, bytes: u64) -> bool {
        let used: u64 = self.0.range(..=priority).map(|(_, bytes)| bytes).sum();
        used.saturating_add(bytes.min(bound)) <= bound.saturating_add(beyond)
    }

    fn add(&mut self, priority: u32, bytes: u64) {
        *self.0.entry(priority).or_default() += bytes;
    }

    fn subtract(&mut self, priority: u32, bytes: u64) {
        let Some(used) = self.0.get_mut(&priority) else { return };
        *used -= bytes.min(*used);
        if *used == 0 {
            self.0.remove(&priority);
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a part of a number of bytes is a smaller one"
)]
fn proportion(bytes: u64, part: f64) -> u64 {
    (bytes as f64 * part) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_larger_than_a_bound_goes_alone() {
        let mut credits = Credits::new(&[0.5, 0.5], 100, 150);
        credits.take(0, 0, 1);
        assert!(!credits.fits_server(0, 0, 1000) && credits.fits_server(1, 0, 1000));
        credits.give_back(0, 0, 1);
        assert!(credits.fits_server(0, 0, 1000) && credits.fits_in_all(0, 1000));
        credits.take(0, 0, 1000);
        assert_eq!((credits.used(0), credits.used_in_all()), (100, 150));
        assert!(
            !credits.fits_server(0, 0, 1) && credits.fits_server(1, 0, 100) && !credits.fits_in_all(0, 1)
        );
        credits.give_back(0, 0, 1000);
        assert_eq!((credits.used(0), credits.used_in_all()), (0, 0));
    }

    #[test]
    fn credits_of_the_less_urgent_hold_nobody_up() {
        let mut credits = Credits::new(&[1.0], 100, 100);
        credits.take(0, 5, 100);
        assert!(!credits.fits_server(0, 5, 1) && !credits.fits_server(0, 6, 1));
        assert!(credits.fits_server(0, 4, 100) && credits.fits_in_all(4, 100));
        credits.take(0, 4, 100);
        assert!(!credits.fits_server(0, 4, 1));
    }

    #[test]
    fn bounds_are_widened_until_they_are_narrowed() {
        let mut credits = Credits::new(&[1.0], 100, 200);
        (0..2).for_each(|_| credits.take(0, 0, 100));
        credits.widen();
        assert!(!credits.fits_server(0, 0, 1) && credits.fits_in_all(0, 100));
        credits.widen();
        assert!(credits.fits_server(0, 0, 100));
        credits.narrow();
        assert!(!credits.fits_in_all(0, 1));
    }
}
