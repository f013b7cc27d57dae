//! What a placement takes: the bytes of each machine's NIC in one push-pull of the whole model, and the time they need.
//!
//! Payload only. n workers, M bytes, o owned by the machine's service:
//!
//! - a worker sends M − o to the other services and (n − 1)·o to the other workers (Equation 3: (M + (n − 2)·o)/B);
//! - a server sends n·o to the workers (Equation 4, with the factor n that is missing in print);
//! - each receives as much as it sends, at the same time, and all o add up to M (Equation 5).
//!
//! Source: BytePS (OSDI 2020) §4.1.

use super::assign::Placement;
use super::machines::{Machine, Machines};
use super::shares::Shares;

/// What a placement takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Of each service's machine.
    loads: Vec<Load>,
    optimal_seconds: f64,
}

/// One machine's bytes and time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Which machine.
    pub machine: Machine,
    /// Through its NIC.
    pub sent_bytes: u64,
    /// Through its NIC, at the same time.
    pub received_bytes: u64,
    /// Pushed by a worker to its own service, and pulled as many: these stay on the machine.
    pub loop_back_bytes: u64,
    /// What its NIC needs for the direction that needs longer.
    pub seconds: f64,
}

/// What a placement on machines takes.
pub fn predict(machines: &Machines, placement: &Placement) -> Prediction {
    let total_bytes: u64 = placement.owned_bytes().iter().sum();
    let owned = placement.owned_bytes().iter().zip(machines.rates()).enumerate();
    let loads = owned.map(|(service, (&owned, &rate))| {
        Load::new(machines.machine(service), machines.n_workers() as u64, total_bytes, owned, rate)
    });
    let optimal_seconds = Shares::optimal(machines).seconds_per_byte() * total_bytes as f64;
    Prediction { loads: loads.collect(), optimal_seconds }
}

impl Load {
    fn new(machine: Machine, n_workers: u64, total_bytes: u64, owned: u64, bytes_per_s: u64) -> Self {
        let (pushed, pulled_by_others, loop_back_bytes) = match machine {
            Machine::Server(_) => (0, n_workers * owned, 0),
            Machine::Worker(_) => (total_bytes - owned, (n_workers - 1) * owned, owned),
        };
        let (pulled, pushed_by_others) = (pushed, pulled_by_others);
        let sent_bytes = pushed + pulled_by_others;
        let received_bytes = pulled + pushed_by_others;
        let seconds = sent_bytes.max(received_bytes) as f64 / bytes_per_s as f64;
        Self { machine, sent_bytes, received_bytes, loop_back_bytes, seconds }
    }
}

impl Prediction {
    /// Of each service's machine, the servers' first.
    pub fn loads(&self) -> &[Load] {
        &self.loads
    }

    /// The machine that the others wait for, the first of equals.
    pub fn binding(&self) -> Option<&Load> {
        self.loads.iter().rev().max_by(|a, b| a.seconds.total_cmp(&b.seconds))
    }

    /// Until the last machine is done.
    pub fn seconds(&self) -> f64 {
        self.binding().map_or(0.0, |load| load.seconds)
    }

    /// The same if parts could be of any size.
    pub fn optimal_seconds(&self) -> f64 {
        self.optimal_seconds
    }

    /// How many times as long as the best it takes; 1 where nothing needs the network.
    pub fn over_optimal(&self) -> f64 {
        if self.seconds() == self.optimal_seconds { 1.0 } else { self.seconds() / self.optimal_seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{DataType, Declaration, Declarations};

    const RATE: u64 = 1_000_000;

    /// As many parts of 4 bytes as the shares' denominator says, so that bytes meet the shares.
    fn exact(n: usize, k: usize, elements: u64) -> (Machines, Placement) {
        let tensor = Declaration { name: "all".to_owned(), elements, data_type: DataType::F64 };
        let declarations = Declarations::of(8, [tensor]).unwrap();
        let machines = Machines::even(n, k, RATE).unwrap();
        let placement = Placement::by_shares(0, &declarations, &Shares::optimal(&machines));
        (machines, placement)
    }

    #[test]
    fn equations_3_4_and_5() {
        for (n, k) in [(3, 0), (3, 1), (3, 3), (4, 1), (4, 2), (4, 3), (6, 3), (8, 4), (16, 8)] {
            let d = (n * n + k * n - 2 * k) as u64;
            let (machines, placement) = exact(n, k, d);
            let (total, n, n_servers) = (8 * d, n as u64, k as u64);
            let (server, worker) = (16 * (n - 1), 8 * (n - n_servers));
            assert!(placement.owned_bytes()[..k].iter().all(|&owned| owned == server));
            assert!(placement.owned_bytes()[k..].iter().all(|&owned| owned == worker));
            assert_eq!(n_servers * server + n * worker, total);
            let prediction = predict(&machines, &placement);
            for load in prediction.loads() {
                let (sent, loop_back) = match load.machine {
                    Machine::Server(_) => (n * server, 0),
                    Machine::Worker(_) => (total + (n - 2) * worker, worker),
                };
                assert_eq!(
                    (load.sent_bytes, load.received_bytes, load.loop_back_bytes),
                    (sent, sent, loop_back)
                );
                assert!((load.seconds - sent as f64 / RATE as f64).abs() < 1e-12);
            }
            assert!((prediction.over_optimal() - 1.0).abs() < 1e-12, "{n} {k}");
        }
    }

    #[test]
    fn what_is_sent_is_received() {
        let (machines, placement) = exact(5, 2, 1234);
        let prediction = predict(&machines, &placement);
        let sent: u64 = prediction.loads().iter().map(|load| load.sent_bytes).sum();
        let loop_back: u64 = prediction.loads().iter().map(|load| load.loop_back_bytes).sum();
        assert_eq!(sent + 2 * loop_back, 2 * 5 * 1234 * 8);
    }

    #[test]
    fn the_machine_that_binds_is_named() {
        let tensor = Declaration { name: "all".to_owned(), elements: 9000, data_type: DataType::F32 };
        let declarations = Declarations::of(400, [tensor]).unwrap();
        let machines = Machines::new(&[RATE, RATE, RATE / 4, RATE], &[RATE]).unwrap();
        let placement = Placement::by_shares(0, &declarations, &Shares::optimal(&machines));
        let prediction = predict(&machines, &placement);
        assert_eq!(prediction.binding().unwrap().machine, Machine::Worker(2));
        assert!((prediction.seconds() - 4.0 * 36_000.0 / RATE as f64).abs() < 1e-12);
        let servers = Placement::by_shares(0, &declarations, &Shares::parameter_server(&machines).unwrap());
        let prediction = predict(&machines, &servers);
        assert_eq!(prediction.binding().unwrap().machine, Machine::Server(0));
    }

    #[test]
    fn one_worker_is_as_fast_as_can_be() {
        for k in 0..3 {
            let (machines, placement) = exact(1, k, 100);
            let prediction = predict(&machines, &placement);
            assert_eq!((prediction.seconds(), prediction.over_optimal()), (0.0, 1.0));
            assert_eq!(prediction.loads()[k].loop_back_bytes, 800);
        }
    }
}
