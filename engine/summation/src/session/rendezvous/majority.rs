//! Which part of a group goes on where its members cannot all reach each other. No I/O.
//!
//! A process is known to be dead by its machine's kernel alone, which refuses or resets its connections ([`Gone::of`]). A
//! silent one may be stopped, and one that is not reached may be at work behind a network that is cut: then the others are on
//! their way to a group of their own as well, and two groups of one job, each with right sums, would train two models that
//! both believe to be the job's.
//!
//! So a part of the last group goes on only if more of its members are here than are missing and not known to be dead, or as
//! many and among them the lowest rank of both. Servers count: each is in one group at a time. Two parts A and B have no
//! member in common, and what lives in B is missing in A, so A's members are at least as many as B's, and B's at least
//! as many as A's; where they are as many, the lowest rank of all is in one of them. So of all parts one goes on at most, whatever
//! each knows of the dead. It may be none: of four members, cut in two and two where rank 0 has died behind the cut, neither
//! part knows enough. A job that is to outlive the loss of a whole machine without a word of its kernel (its power, its cable)
//! needs more than half of its members elsewhere: of two machines with a worker each, worker 0's, or a server on a third.
//!
//! What refuses connections in a dead process's name deceives this: a firewall that answers for machines behind it, or another
//! machine that has got the address.

use std::io;

/// What has become of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// Its machine's kernel says that it is no more.
    Dead,
    /// It is silent, or not reached: it may be alive.
    Missing,
}

impl Gone {
    /// What the failure of a connection to it, or its end, says.
    pub(super) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => Self::Dead,
            _ => Self::Missing,
        }
    }
}

/// Whether those with these ranks go on without the missing ones, of a group of so many workers, whose ranks come first.
pub(super) fn goes_on(here: &[usize], missing: &[usize], n_workers: usize) -> bool {
    let has_worker = |ranks: &[usize]| ranks.iter().any(|rank| *rank < n_workers);
    if !has_worker(here) || !has_worker(missing) {
        return has_worker(here);
    }
    match here.len().cmp(&missing.len()) {
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Equal => here.iter().min() < missing.iter().min(),
        std::cmp::Ordering::Less => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks whose bits are set.
    fn ranks(bits: u32) -> Vec<usize> {
        (0..32).filter(|rank| bits >> rank & 1 == 1).collect()
    }

    #[test]
    fn of_two_parts_one_goes_on_at_most_whatever_each_knows_of_the_dead() {
        for (n_members, n_workers) in (1..=6).flat_map(|n| (1..=n).map(move |n_workers| (n, n_workers))) {
            let all = (1_u32 << n_members) - 1;
            // Each part knows of some of the dead, or of all.
            let goes = |part: u32, known: u32| goes_on(&ranks(part), &ranks(all & !part & !known), n_workers);
            for one in 0..=all {
                for other in (0..=all).filter(|other| one & other == 0) {
                    let dead = all & !one & !other;
                    let mut known = (0..=all).filter(|known| known & !dead == 0);
                    let goes_at_all = |part| (0..=all).any(|known| known & !dead == 0 && goes(part, known));
                    let both = known.any(|known| goes(one, known)) && goes_at_all(other);
                    assert!(!both, "{one:b} and {other:b} of {n_members}");
                    let has_worker = (one | other) & ((1 << n_workers) - 1) != 0;
                    assert_eq!(goes(one, dead) || goes(other, dead), has_worker, "{one:b} and {other:b}");
                }
            }
        }
    }

    #[test]
    fn only_a_kernel_says_that_a_process_is_dead() {
        let of = |kind: io::ErrorKind| Gone::of(&kind.into());
        assert_eq!(of(io::ErrorKind::ConnectionRefused), Gone::Dead);
        assert_eq!(of(io::ErrorKind::UnexpectedEof), Gone::Dead);
        for kind in
            [io::ErrorKind::TimedOut, io::ErrorKind::HostUnreachable, io::ErrorKind::NetworkUnreachable]
        {
            assert_eq!(of(kind), Gone::Missing);
        }
    }
}
