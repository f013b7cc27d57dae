//! Equations 1 to 5 of BytePS (OSDI 2020), in units of the model's bytes and with one rate of all NICs: n workers, k
//! servers, D = n² + kn − 2k. Its Equation 4 lacks the factor n in print.

use std::fmt;

/// n workers and k servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) n: usize,
    pub(super) k: usize,
}

impl Shape {
    /// n and k.
    pub(super) const fn of(n: usize, k: usize) -> Self {
        Self { n, k }
    }

    /// n + k
    pub(super) fn n_hosts(self) -> usize {
        self.n + self.k
    }

    /// What a server owns.
    pub(super) fn of_server(self) -> f64 {
        2.0 * (self.n() - 1.0) / self.d()
    }

    /// What a worker's machine owns.
    pub(super) fn of_worker(self) -> f64 {
        (self.n() - self.k()) / self.d()
    }

    /// What a machine sends and receives: a server by Equation 4, a worker by Equation 3.
    pub(super) fn carried(self, rank: usize) -> f64 {
        if rank < self.n { 1.0 + (self.n() - 2.0) * self.of_worker() } else { self.n() * self.of_server() }
    }

    /// Bytes of a part by which a machine's traffic may be off, as parts are whole.
    pub(super) fn parts_off(self, rank: usize) -> usize {
        if rank < self.n { self.n - 2 } else { self.n }
    }

    /// The best time of a push-pull.
    pub(super) fn best(self) -> f64 {
        2.0 * self.n() * (self.n() - 1.0) / self.d()
    }

    /// A ring's all-reduce.
    pub(super) fn ring(self) -> f64 {
        2.0 * (self.n() - 1.0) / self.n()
    }

    /// A parameter server's, which sums on the servers alone.
    pub(super) fn parameter_server(self) -> f64 {
        (self.n() / self.k()).max(1.0)
    }

    fn d(self) -> f64 {
        self.n() * self.n() + self.k() * self.n() - 2.0 * self.k()
    }

    fn n(self) -> f64 {
        as_f64(self.n as u64)
    }

    fn k(self) -> f64 {
        as_f64(self.k as u64)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{})", self.n, self.k)
    }
}

/// Of a number of bytes or nanoseconds of an experiment.
#[expect(clippy::cast_precision_loss, reason = "numbers of an experiment are far below 2^53")]
pub(super) fn as_f64(number: u64) -> f64 {
    number as f64
}

/// The middle one; of an even number, the larger one of both.
pub(super) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_table() {
        for (n, k, server, worker, best, ring, servers) in [
            (3, 1, 0.4, 0.2, 1.2, 1.3333, 3.0),
            (4, 1, 0.3333, 0.1667, 1.3333, 1.5, 4.0),
            (4, 2, 0.3, 0.1, 1.2, 1.5, 2.0),
            (4, 4, 0.25, 0.0, 1.0, 1.5, 1.0),
            (6, 3, 0.2083, 0.0625, 1.25, 1.6667, 2.0),
        ] {
            let shape = Shape::of(n, k);
            let found = [shape.of_server(), shape.of_worker(), shape.best(), shape.ring()];
            for (found, wanted) in found.into_iter().zip([server, worker, best, ring]) {
                assert!((found - wanted).abs() < 1e-4, "{shape}: {found} {wanted}");
            }
            assert!((shape.parameter_server() - servers).abs() < 1e-9);
            let carried = [shape.carried(0), shape.carried(n)];
            assert!(carried.iter().all(|carried| (carried - best).abs() < 1e-4), "{shape}: {carried:?}");
        }
    }
}
