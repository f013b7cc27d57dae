//! Bytes in flight, and their bounds.

/// How many bytes may be in flight, to each server and in all, and how many are.
///
/// A part of more bytes than a bound counts as that bound, so it goes out once nothing else is in flight.
#[derive(Debug)]
pub(super) struct Credits {
    /// By server.
    per_server: Vec<u64>,
    in_all: u64,
    used: Vec<u64>,
    used_in_all: u64,
}

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
            used: vec![0; shares.len()],
            used_in_all: 0,
        }
    }

    /// Whether the server's own bound leaves room.
    pub(super) fn fits_server(&self, server: usize, bytes: u64) -> bool {
        self.used[server] + bytes.min(self.per_server[server]) <= self.per_server[server]
    }

    /// Whether the bound over all servers leaves room.
    pub(super) fn fits_in_all(&self, bytes: u64) -> bool {
        self.used_in_all + bytes.min(self.in_all) <= self.in_all
    }

    pub(super) fn take(&mut self, server: usize, bytes: u64) {
        self.used[server] += bytes.min(self.per_server[server]);
        self.used_in_all += bytes.min(self.in_all);
    }

    pub(super) fn give_back(&mut self, server: usize, bytes: u64) {
        self.used[server] -= bytes.min(self.per_server[server]);
        self.used_in_all -= bytes.min(self.in_all);
    }

    pub(super) fn used(&self, server: usize) -> u64 {
        self.used[server]
    }

    pub(super) fn used_in_all(&self) -> u64 {
        self.used_in_all
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
        credits.take(0, 1);
        assert!(!credits.fits_server(0, 1000) && credits.fits_server(1, 1000));
        credits.give_back(0, 1);
        assert!(credits.fits_server(0, 1000) && credits.fits_in_all(1000));
        credits.take(0, 1000);
        assert_eq!((credits.used(0), credits.used_in_all()), (100, 150));
        assert!(!credits.fits_server(0, 1) && credits.fits_server(1, 100) && !credits.fits_in_all(1));
        credits.give_back(0, 1000);
        assert_eq!((credits.used(0), credits.used_in_all()), (0, 0));
    }
}
