//! Ranks of one machine on different cores.
//!
//! A message through a socket wakes its receiver on the sender's core, or near it: two ranks that answer each other end
//! up on one core, where each must sleep before the other can look, and a microsecond becomes half a millisecond. So a
//! thread that wakes on another rank's core moves to its own one. It is moved, not bound: its set of cores is the same
//! afterwards, and a core that is no other rank's is left to the scheduler.

use std::sync::OnceLock;

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::hash;
use crate::topology::PeerInfo;

/// Which of the cores that a thread may use is its rank's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Affinity {
    /// Among the ranks on the machine.
    pub(crate) index: usize,
    /// Ranks on the machine, no more than cores.
    pub(crate) n_ranks: usize,
    /// The same for all ranks of a job, and different for others on the machine.
    pub(crate) seed: u64,
}

/// The running machine, whatever hosts are pretended on it: what its ranks share are its cores.
pub(crate) fn machine() -> u64 {
    static MACHINE: OnceLock<u64> = OnceLock::new();
    *MACHINE.get_or_init(|| {
        let boot_id = std::fs::read("/proc/sys/kernel/random/boot_id");
        hash::hash(&boot_id.unwrap_or_default())
    })
}

/// The cores that this thread may use, as [`PeerInfo::cores`].
pub(crate) fn cores() -> Vec<u64> {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    let word = |first| (0..64).filter(|bit| allowed.is_set(first + bit)).fold(0, |word, bit| word | 1 << bit);
    let mut words: Vec<u64> = (0..CpuSet::MAX_CPU).step_by(64).map(word).collect();
    words.truncate(words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1));
    words
}

/// Whether the ranks on this machine outnumber the cores that they may use between them. A launcher may have given each
/// its own, or all the same ones; a quota of processor time counts as so many cores for all.
pub(crate) fn is_crowded(peers: &[PeerInfo]) -> bool {
    let own = sched_getaffinity(None).map_or(0, |allowed| allowed.count() as usize);
    let quota = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cores = if quota < own { quota } else { union(here(peers).map(|peer| peer.cores.as_slice())) };
    here(peers).count() > cores
}

/// How many cores there are in any of the sets.
fn union<'a>(sets: impl Iterator<Item = &'a [u64]> + Clone) -> usize {
    let n_words = sets.clone().map(<[u64]>::len).max().unwrap_or(0);
    let of_word = |word| sets.clone().fold(0, |all, set| all | set.get(word).copied().unwrap_or(0));
    (0..n_words).map(|word| of_word(word).count_ones() as usize).sum()
}

fn here(peers: &[PeerInfo]) -> impl Iterator<Item = &PeerInfo> + Clone {
    let machine = machine();
    peers.iter().filter(move |peer| peer.machine == machine)
}

impl Affinity {
    /// Of `rank` among `peers`; none where it is alone, or where there are fewer cores than ranks. Communicators that
    /// are split off leave their ranks where the whole one has them.
    pub(crate) fn of(rank: usize, peers: &[PeerInfo], seed: u64) -> Option<Self> {
        let index = here(peers).position(|peer| peer.rank == rank)?;
        let n_ranks = here(peers).count();
        (n_ranks > 1 && !is_crowded(peers)).then_some(Self { index, n_ranks, seed })
    }

    /// Moves the calling thread if it runs on another rank's core. If the kernel refuses, it stays.
    pub(crate) fn keep_apart(self) {
        let Ok(allowed) = sched_getaffinity(None) else { return };
        let cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        let Some(own) = self.move_to(cores, allowed.count() as usize, sched_getcpu()) else { return };
        let mut alone = CpuSet::new();
        alone.set(own);
        if sched_setaffinity(None, &alone).is_ok() {
            // It was allowed a moment ago.
            let _ = sched_setaffinity(None, &allowed);
        }
    }

    /// The core to move to, if `here` is another rank's.
    fn move_to(self, cores: impl Iterator<Item = usize> + Clone, n: usize, here: usize) -> Option<usize> {
        if self.n_ranks < 2 || n < self.n_ranks {
            return None;
        }
        let first = usize::try_from(self.seed % n as u64).ok()?;
        let at = cores.clone().position(|core| core == here)?;
        // Ranks' cores follow each other, around the end.
        let owner = (at + n - first) % n;
        let is_others = owner < self.n_ranks && owner != self.index;
        is_others.then(|| cores.clone().nth((first + self.index) % n)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORES: [usize; 4] = [0, 1, 4, 5];

    fn moves(index: usize, n_ranks: usize, seed: u64, here: usize) -> Option<usize> {
        Affinity { index, n_ranks, seed }.move_to(CORES.into_iter(), CORES.len(), here)
    }

    #[test]
    fn only_from_another_ranks_core_and_to_the_own_one() {
        assert_eq!(moves(0, 2, 0, 1), Some(0));
        assert_eq!(moves(1, 2, 0, 0), Some(1));
        assert_eq!(moves(1, 2, 0, 1), None);
        assert_eq!(moves(1, 2, 0, 4), None);
        assert_eq!(moves(1, 4, 3, 5), Some(0));
        assert_eq!(moves(0, 1, 0, 1), None);
        assert_eq!(moves(0, 5, 0, 1), None);
    }

    #[test]
    fn cores_of_all_ranks_count_once() {
        let count = |sets: &[&[u64]]| union(sets.iter().copied());
        assert_eq!(count(&[&[0b01], &[0b10]]), 2);
        assert_eq!(count(&[&[0b11], &[0b11], &[0, 1]]), 3);
        assert_eq!(count(&[]), 0);
    }

    #[test]
    fn every_rank_has_a_core_of_its_own() {
        for seed in 0..8 {
            let own =
                |index| CORES.into_iter().filter(|here| moves(index, 4, seed, *here).is_none()).collect();
            let mut all: Vec<Vec<usize>> = (0..4).map(own).collect();
            all.sort();
            assert_eq!(all, [[0], [1], [4], [5]]);
        }
    }

    #[test]
    fn a_thread_may_use_the_same_cores_afterwards() {
        let before = sched_getaffinity(None).unwrap();
        for index in 0..2 {
            Affinity { index, n_ranks: 2, seed: 0 }.keep_apart();
        }
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
