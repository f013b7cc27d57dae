//! How BytePS finds a part's owner: by a hash of its key, whatever its size.
//!
//! BytePS's key of a part is its tensor's index in the order of declaration, times 2¹⁶, plus its index in the tensor.
//!
//! DJB2 multiplies by 33 = 3·11 = 32 + 1: modulo 3 and 11 only the last character of the key counts, modulo 32 only the
//! sum of all. So it spreads keys badly over numbers of services that share a factor with these.
//!
//! Source: BytePS (OSDI 2020) §4.1; its repository at f5df52fe, `byteps/common/global.cc` (`Hash_DJB2`,
//! `Hash_Mixed_Mode`) and `operations.cc` (`InitTensor`).

use super::machines::{Machines, Refused};
use crate::tensor::Part;

/// Slots of BytePS's mixed mode unless set otherwise (`BYTEPS_MIXED_MODE_BOUND`).
pub const MIXED_MODE_BOUND: usize = 101;

/// BytePS's key of a part.
pub(super) fn byteps_key(part: &Part) -> u64 {
    (part.tensor as u64) << 16 | u64::from(part.index)
}

/// Bernstein's hash of a number's decimal digits.
pub(super) fn djb2(number: u64) -> u64 {
    let add = |hash: u64, digit: u8| hash.wrapping_mul(33).wrapping_add(u64::from(digit));
    number.to_string().bytes().fold(5381, add)
}

/// The owner in BytePS's mixed mode: of [`MIXED_MODE_BOUND`] slots, the first k·2(n − 1)/D belong to servers, the others to
/// workers; which of them, a second hash says. Wants no more services than slots, and no more servers than workers.
pub(super) fn mixed_mode(key: u64, machines: &Machines) -> u64 {
    mixed_mode_slot(djb2(key) % MIXED_MODE_BOUND as u64, machines)
}

fn mixed_mode_slot(slot: u64, machines: &Machines) -> u64 {
    let (n, k) = (machines.n_workers() as u64, machines.n_servers() as u64);
    let d = n * n + k * n - 2 * k;
    if slot * d < 2 * k * (n - 1) * MIXED_MODE_BOUND as u64 { djb2(slot) % k } else { k + djb2(slot) % n }
}

/// The owner in the paper: of D slots, 2(n − 1) in a row belong to each server and n − k in a row to each worker. Wants no
/// more servers than workers, at least two of them.
pub(super) fn by_slots(hash: u64, machines: &Machines) -> u64 {
    let (n, k) = (machines.n_workers() as u64, machines.n_servers() as u64);
    let slot = hash % (n * n + k * n - 2 * k);
    let of_servers = 2 * k * (n - 1);
    match slot.checked_sub(of_servers) {
        Some(slot) => k + slot / (n - k),
        None => slot / (2 * (n - 1)),
    }
}

/// Whether Equations 1 and 2 give every service a number of slots.
pub(super) fn check_slots(machines: &Machines) -> Result<(), Refused> {
    let (n_workers, n_servers) = (machines.n_workers(), machines.n_servers());
    if n_workers < 2 || n_servers > n_workers {
        return Err(Refused::NoSlots { n_servers, n_workers });
    }
    Ok(())
}

/// Whether BytePS's mixed mode takes these machines.
pub(super) fn check_mixed_mode(machines: &Machines) -> Result<(), Refused> {
    check_slots(machines)?;
    let (count, bound) = (machines.n_services(), MIXED_MODE_BOUND);
    if count > bound { Err(Refused::TooFewSlots { count, bound }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The owners' loads over equal keys without end, in slots.
    fn slots_owned(n: usize, k: usize) -> Vec<u64> {
        let machines = Machines::even(n, k, 1).unwrap();
        let mut owned = vec![0; n + k];
        for slot in 0..MIXED_MODE_BOUND as u64 {
            owned[usize::try_from(mixed_mode_slot(slot, &machines)).unwrap()] += 1;
        }
        owned
    }

    /// Time over the best.
    fn over_optimal(n: usize, k: usize, owned: &[u64]) -> f64 {
        let total: u64 = owned.iter().sum();
        let (servers, workers) = owned.split_at(k);
        let servers = servers.iter().map(|owned| n as u64 * owned);
        let workers = workers.iter().map(|owned| total + (n as u64 - 2) * owned);
        let d = (n * n + k * n - 2 * k) as f64;
        let best = 2.0 * (n * (n - 1)) as f64 / d * total as f64;
        servers.chain(workers).max().unwrap() as f64 / best
    }

    #[test]
    fn djb2_sees_the_last_digit_modulo_3_and_11_and_the_sum_modulo_32() {
        for key in (0..2000).map(|tensor: u64| tensor << 16) {
            let digits = key.to_string().into_bytes();
            let (last, sum) =
                (u64::from(*digits.last().unwrap()), digits.iter().copied().map(u64::from).sum::<u64>());
            assert_eq!(djb2(key) % 3, last % 3);
            assert_eq!(djb2(key) % 11, last % 11);
            assert_eq!(djb2(key) % 32, (5381 + sum) % 32);
        }
    }

    #[test]
    fn djb2_over_equal_keys_is_uneven_for_some_numbers_of_servers() {
        let cases = [(3, 1.20), (6, 1.24), (9, 1.44), (11, 2.20), (12, 1.25), (16, 1.24), (32, 1.57)];
        for (n_servers, expected) in cases {
            let mut parts = vec![0; n_servers];
            for tensor in 0..2000_u64 {
                parts[usize::try_from(djb2(tensor << 16)).unwrap() % n_servers] += 1;
            }
            let most = f64::from(*parts.iter().max().unwrap()) * n_servers as f64 / 2000.0;
            assert!((most - expected).abs() < 0.005_001, "{n_servers} servers: {most}");
        }
    }

    #[test]
    fn mixed_mode_leaves_services_idle_however_many_keys_there_are() {
        let owned = slots_owned(32, 16);
        assert_eq!(owned.iter().filter(|&&owned| owned == 0).count(), 21);
        assert!((over_optimal(32, 16, &owned) - 1.68).abs() < 0.005);
        let gain = (2.0 * 31.0 / 32.0) / (over_optimal(32, 16, &owned) * 2.0 * 32.0 * 31.0 / 1504.0);
        assert!((gain - 0.874).abs() < 0.000_5, "{gain}");
    }

    #[test]
    fn slots_meet_equations_1_and_2() {
        for (n, k) in [(2, 0), (2, 2), (4, 2), (8, 6), (32, 16)] {
            let machines = Machines::even(n, k, 1).unwrap();
            let d = n * n + k * n - 2 * k;
            let mut owned = vec![0; n + k];
            for slot in 0..d {
                owned[usize::try_from(by_slots(slot as u64, &machines)).unwrap()] += 1;
            }
            assert!(owned[..k].iter().all(|&owned| owned == 2 * (n - 1)));
            assert!(owned[k..].iter().all(|&owned| owned == n - k));
        }
    }

    #[test]
    fn machines_without_slots_are_refused() {
        let even = |n, k| Machines::even(n, k, 1).unwrap();
        assert_eq!(check_slots(&even(4, 5)), Err(Refused::NoSlots { n_servers: 5, n_workers: 4 }));
        assert_eq!(check_mixed_mode(&even(1, 0)), Err(Refused::NoSlots { n_servers: 0, n_workers: 1 }));
        assert_eq!(check_mixed_mode(&even(100, 2)), Err(Refused::TooFewSlots { count: 102, bound: 101 }));
        assert_eq!(check_mixed_mode(&even(100, 1)), Ok(()));
    }
}
