//! How much of the model each service should own.
//!
//! n workers, k servers, M bytes, machine i with a NIC of Bᵢ bytes per second and direction. Who owns oᵢ bytes sends, and
//! receives as much:
//!
//! - a server n·oᵢ: each worker pushes them to it and pulls them from it;
//! - a worker (M − oᵢ) + (n − 1)·oᵢ = M + (n − 2)·oᵢ: what others own for it, and what it owns for them.
//!
//! So in time t a server can own t·Bᵢ/n and a worker (t·Bᵢ − M)/(n − 2), and no t below M over the slowest worker's rate
//! is possible. The best t is the least at which these add up to M or more. Both are linear in t, so with sums over the
//! workers W and the servers V
//!
//! ```text
//! t = max( M/min W,  (2n − 2)·n·M / Q ),    Q = n·ΣW + (n − 2)·ΣV
//! ```
//!
//! With equal NICs that is BytePS's Equations 1 and 2: a server owns 2(n − 1)/D and a worker (n − k)/D of the bytes,
//! D = n² + kn − 2k, in t = 2n(n − 1)/D · M/B, as long as k ≤ n; more servers do not help. Where the slowest worker's own
//! traffic takes longest, all own in proportion to what they could. With one worker nothing needs the network; with two,
//! a worker's traffic does not depend on what it owns, so servers own what they can and both workers half of the rest.
//!
//! This is the best where every byte has one owner and is pushed and pulled whole; it bounds no other scheme.
//!
//! Source: BytePS (OSDI 2020) §4.1, with equal NICs; its Equation 4 for the server's time lacks the factor n.

use super::machines::{Machine, Machines, Refused};

/// What fraction of all bytes each service owns, as a whole number over a common denominator: equal on every machine,
/// whatever its floating point does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    machines: Machines,
    numerators: Vec<u128>,
    denominator: u128,
}

impl Shares {
    /// Those with which a push-pull takes the least time.
    pub fn optimal(machines: &Machines) -> Self {
        let (own, others) = match machines.n_workers() {
            1 => (vec![1], vec![0; machines.n_servers()]),
            2 => two_workers(machines),
            _ => by_capacity(machines),
        };
        Self::new(machines, others, own)
    }

    /// Equal shares on workers: what a ring all-reduce, or a parameter server on each worker, sends.
    pub fn all_reduce(machines: &Machines) -> Self {
        Self::new(machines, vec![0; machines.n_servers()], vec![1; machines.n_workers()])
    }

    /// Equal shares on servers: workers only push and pull.
    ///
    /// # Errors
    /// There is no server.
    pub fn parameter_server(machines: &Machines) -> Result<Self, Refused> {
        if machines.n_servers() == 0 {
            return Err(Refused::NoServers);
        }
        Ok(Self::new(machines, vec![1; machines.n_servers()], vec![0; machines.n_workers()]))
    }

    /// Equal shares everywhere.
    pub fn equal(machines: &Machines) -> Self {
        Self::new(machines, vec![1; machines.n_servers()], vec![1; machines.n_workers()])
    }

    fn new(machines: &Machines, servers: Vec<u128>, workers: Vec<u128>) -> Self {
        let numerators = [servers, workers].concat();
        let denominator = numerators.iter().sum();
        Self { machines: machines.clone(), numerators, denominator }
    }

    /// Whose shares these are.
    pub fn machines(&self) -> &Machines {
        &self.machines
    }

    /// Each service's fraction of all bytes.
    pub fn fractions(&self) -> Vec<f64> {
        let denominator = self.denominator as f64;
        self.numerators.iter().map(|&numerator| numerator as f64 / denominator).collect()
    }

    /// What each service owns, over a common denominator.
    pub(super) fn numerators(&self) -> &[u128] {
        &self.numerators
    }

    /// Each service's bytes of `total_bytes`, rounded down.
    pub(super) fn target_bytes(&self, total_bytes: u64) -> Vec<u64> {
        let target = |numerator: &u128| numerator * u128::from(total_bytes) / self.denominator;
        self.numerators
            .iter()
            .map(|numerator| u64::try_from(target(numerator)).unwrap_or(total_bytes))
            .collect()
    }

    /// Seconds of a push-pull for each byte of the model, if parts could be of any size: those of the slowest machine.
    pub fn seconds_per_byte(&self) -> f64 {
        let n = self.machines.n_workers() as f64;
        let seconds = |(service, owned): (usize, f64)| {
            let bytes = match self.machines.machine(service) {
                Machine::Server(_) => n * owned,
                Machine::Worker(_) => 1.0 + (n - 2.0) * owned,
            };
            bytes / self.machines.rates()[service] as f64
        };
        self.fractions().into_iter().enumerate().map(seconds).fold(0.0, f64::max)
    }
}

/// Of workers and servers: of 4·min W, a server whose share it can carry in M/min W owns twice its rate.
fn two_workers(machines: &Machines) -> (Vec<u128>, Vec<u128>) {
    let slowest = slowest_worker(machines);
    let servers: Vec<u128> = machines.server_rates().iter().map(|&rate| 2 * u128::from(rate)).collect();
    let rest = (4 * slowest).saturating_sub(servers.iter().sum());
    (vec![rest / 2; 2], servers)
}

/// Of workers and servers, what each can own in the best t. Over Q·(n − 2) if the sum of all decides t, over
/// n·(n − 2)·min W if the slowest worker does.
fn by_capacity(machines: &Machines) -> (Vec<u128>, Vec<u128>) {
    let n = machines.n_workers() as u128;
    let slowest = slowest_worker(machines);
    let q = n * sum(machines.worker_rates()) + (n - 2) * sum(machines.server_rates());
    let (own, used, other) = if (2 * n - 2) * n * slowest >= q {
        ((2 * n - 2) * n, q, (2 * n - 2) * (n - 2))
    } else {
        (n, n * slowest, n - 2)
    };
    let workers = machines.worker_rates().iter().map(|&rate| own * u128::from(rate) - used);
    let servers = machines.server_rates().iter().map(|&rate| other * u128::from(rate));
    (workers.collect(), servers.collect())
}

fn slowest_worker(machines: &Machines) -> u128 {
    machines.worker_rates().iter().copied().min().map_or(0, u128::from)
}

fn sum(rates: &[u64]) -> u128 {
    rates.iter().copied().map(u128::from).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RATE: u64 = 12_500_000_000;

    fn even(n: usize, k: usize) -> Machines {
        Machines::even(n, k, RATE).unwrap()
    }

    /// Seconds of M/B.
    fn units(shares: &Shares) -> f64 {
        shares.seconds_per_byte() * RATE as f64
    }

    #[test]
    fn the_table_of_equations_1_and_2() {
        // n, k, server's share, worker's share, optimal time, all-reduce, parameter server, gain over each.
        let inf = f64::INFINITY;
        let table = [
            (2, 1, 0.5, 0.25, 1.0, 1.0, 2.0, 1.0, 2.0),
            (3, 1, 0.4, 0.2, 1.2, 1.3333, 3.0, 1.111, 2.5),
            (3, 3, 0.3333, 0.0, 1.0, 1.3333, 1.0, 1.333, 1.0),
            (4, 0, 0.0, 0.25, 1.5, 1.5, inf, 1.0, inf),
            (4, 1, 0.3333, 0.1667, 1.3333, 1.5, 4.0, 1.125, 3.0),
            (4, 2, 0.3, 0.1, 1.2, 1.5, 2.0, 1.25, 1.667),
            (4, 3, 0.2727, 0.0455, 1.0909, 1.5, 1.3333, 1.375, 1.222),
            (4, 4, 0.25, 0.0, 1.0, 1.5, 1.0, 1.5, 1.0),
            (6, 3, 0.2083, 0.0625, 1.25, 1.6667, 2.0, 1.333, 1.6),
            (8, 4, 0.1591, 0.0455, 1.2727, 1.75, 2.0, 1.375, 1.571),
            (16, 8, 0.0815, 0.0217, 1.3043, 1.875, 2.0, 1.438, 1.533),
            (32, 16, 0.0412, 0.0106, 1.3191, 1.9375, 2.0, 1.469, 1.516),
        ];
        for (n, k, server, worker, optimal, all_reduce, parameter_server, r_a, r_p) in table {
            let machines = even(n, k);
            let shares = Shares::optimal(&machines);
            let fractions = shares.fractions();
            let ps = Shares::parameter_server(&machines).map_or(inf, |shares| units(&shares));
            let ar = units(&Shares::all_reduce(&machines));
            let found = [
                if k == 0 { 0.0 } else { fractions[0] },
                fractions[k],
                units(&shares),
                ar,
                ps,
                ar / units(&shares),
                ps / units(&shares),
            ];
            let expected = [server, worker, optimal, all_reduce, parameter_server, r_a, r_p];
            for (column, (found, expected)) in found.iter().zip(expected).enumerate() {
                let near = found == &expected || (found - expected).abs() < 0.000_501;
                assert!(near, "n {n} k {k} column {column}: {found}, not {expected}");
            }
        }
    }

    #[test]
    fn equal_nics_give_equations_1_and_2_to_the_bit() {
        for n in 2..40 {
            for k in 0..=n {
                let d = (n * n + k * n - 2 * k) as f64;
                let shares = Shares::optimal(&even(n, k));
                let fractions = shares.fractions();
                assert!(fractions[..k].iter().all(|&share| share == 2.0 * (n as f64 - 1.0) / d), "{n} {k}");
                assert!(fractions[k..].iter().all(|&share| share == (n - k) as f64 / d), "{n} {k}");
                let time = 2.0 * (n * (n - 1)) as f64 / d;
                assert!((units(&shares) - time).abs() < 1e-12, "{n} {k}");
            }
        }
    }

    #[test]
    fn two_workers_gain_nothing_over_all_reduce() {
        for k in 0..6 {
            let machines = even(2, k);
            let gain = Shares::all_reduce(&machines).seconds_per_byte()
                / Shares::optimal(&machines).seconds_per_byte();
            assert!((gain - 1.0).abs() < 1e-12, "{k}");
        }
    }

    #[test]
    fn servers_beyond_the_workers_number_are_of_no_use() {
        for n in 2..9 {
            for k in n..3 * n {
                let shares = Shares::optimal(&even(n, k));
                assert!((units(&shares) - 1.0).abs() < 1e-12, "{n} {k}");
                assert!(shares.fractions()[k..].iter().all(|&share| share == 0.0));
            }
        }
    }

    #[test]
    fn one_worker_owns_all_and_needs_no_network() {
        for k in 0..3 {
            let shares = Shares::optimal(&even(1, k));
            assert_eq!(shares.fractions()[k], 1.0);
            assert_eq!(shares.seconds_per_byte(), 0.0);
        }
    }

    #[test]
    fn a_slow_worker_owns_nothing_and_decides() {
        let shares = Shares::optimal(&Machines::new(&[100, 100, 25], &[100]).unwrap());
        assert_eq!(shares.fractions()[3], 0.0);
        assert!((shares.seconds_per_byte() - 1.0 / 25.0).abs() < 1e-15);
    }

    #[test]
    fn the_widest_job_fits_into_the_numbers() {
        let machines = Machines::even(50_000, 15_536, super::super::machines::MAX_BYTES_PER_S).unwrap();
        let shares = Shares::optimal(&machines);
        let total = crate::tensor::MAX_TOTAL_BYTES;
        let owned: u64 = shares.target_bytes(total).iter().sum();
        assert!((total - 65_536..=total).contains(&owned));
    }

    fn machines() -> impl Strategy<Value = Machines> {
        let rates = |count| prop::collection::vec(1_u64..100_000, count);
        (rates(1..12), rates(0..12)).prop_map(|(workers, servers)| Machines::new(&workers, &servers).unwrap())
    }

    proptest! {
        #[test]
        fn shares_sum_to_one(machines in machines()) {
            let sum: f64 = Shares::optimal(&machines).fractions().iter().sum();
            prop_assert!((sum - 1.0).abs() < 1e-12);
        }

        #[test]
        fn no_other_shares_are_faster(machines in machines(), numerators in prop::collection::vec(0_u64..100, 24)) {
            let numerators = &numerators[..machines.n_services()];
            prop_assume!(numerators.iter().any(|&numerator| numerator > 0));
            let (servers, workers) = numerators.split_at(machines.n_servers());
            let wide = |part: &[u64]| part.iter().copied().map(u128::from).collect();
            let other = Shares::new(&machines, wide(servers), wide(workers));
            let best = Shares::optimal(&machines).seconds_per_byte();
            prop_assert!(best <= other.seconds_per_byte() * (1.0 + 1e-12));
        }

        #[test]
        fn moving_bytes_away_from_the_best_shares_is_not_faster(
            machines in machines(),
            from in 0_usize..24,
            to in 0_usize..24,
        ) {
            let shares = Shares::optimal(&machines);
            let (from, to) = (from % machines.n_services(), to % machines.n_services());
            let mut moved = shares.clone();
            let step = moved.numerators[from] / 8;
            moved.numerators[from] -= step;
            moved.numerators[to] += step;
            prop_assert!(shares.seconds_per_byte() <= moved.seconds_per_byte() * (1.0 + 1e-12));
        }

        #[test]
        fn a_faster_nic_or_another_server_never_makes_it_slower(machines in machines(), which in 0_usize..24) {
            let best = Shares::optimal(&machines).seconds_per_byte();
            let mut rates = machines.rates().to_vec();
            rates[which % machines.n_services()] *= 2;
            let (servers, workers) = rates.split_at(machines.n_servers());
            let faster = Machines::new(workers, servers).unwrap();
            prop_assert!(Shares::optimal(&faster).seconds_per_byte() <= best * (1.0 + 1e-12));
            let servers = [machines.server_rates(), &[1000]].concat();
            let more = Machines::new(machines.worker_rates(), &servers).unwrap();
            prop_assert!(Shares::optimal(&more).seconds_per_byte() <= best * (1.0 + 1e-12));
        }
    }
}
