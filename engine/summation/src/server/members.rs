//! Which workers take part.

use super::refusal::Refusal;

/// The workers by rank.
#[derive(Clone, Debug)]
pub(super) struct Members {
    by_rank: Vec<Member>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Here,
    /// Continued without.
    Gone,
}

impl Members {
    /// All of them are here.
    pub(super) fn new(n_workers: usize) -> Self {
        Self { by_rank: vec![Member::Here; n_workers] }
    }

    /// Ranks there ever were.
    pub(super) fn n_ranks(&self) -> usize {
        self.by_rank.len()
    }

    pub(super) fn is_here(&self, worker: usize) -> bool {
        self.by_rank.get(worker) == Some(&Member::Here)
    }

    /// In the order of their ranks.
    pub(super) fn here(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.n_ranks()).filter(|worker| self.is_here(*worker))
    }

    /// Whether a message may come from this worker.
    pub(super) fn check(&self, worker: usize) -> Result<(), Refusal> {
        match self.by_rank.get(worker) {
            None => Err(Refusal::NoSuchWorker { worker, n_workers: self.n_ranks() }),
            Some(Member::Gone) => Err(Refusal::NoMember { worker }),
            Some(Member::Here) => Ok(()),
        }
    }

    /// A worker is gone for good.
    pub(super) fn continue_without(&mut self, worker: usize) -> Result<(), Refusal> {
        let n_workers = self.n_ranks();
        let member = self.by_rank.get_mut(worker).ok_or(Refusal::NoSuchWorker { worker, n_workers })?;
        if std::mem::replace(member, Member::Gone) == Member::Gone {
            return Err(Refusal::NoMember { worker });
        }
        Ok(())
    }
}
