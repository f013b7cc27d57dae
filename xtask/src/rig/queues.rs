//! What waits in the kernel on the connections between ranks, and what that says about who keeps the others waiting.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::network::Network;

/// Whose socket `local remote` is.
pub(crate) type Owners = BTreeMap<String, usize>;

/// Bytes that wait, by (sender, receiver).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queues {
    /// Sent and not acknowledged by the receiver's kernel, or not even sent.
    unsent: BTreeMap<(usize, usize), u64>,
    /// Arrived and not read by the receiver.
    unread: BTreeMap<(usize, usize), u64>,
}

/// Why an operation that every rank has issued goes nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stall {
    /// A rank neither reads what has come nor sends what others wait for.
    NotSent(usize),
    /// What the first has sent does not reach the second.
    NotReceived(usize, usize),
    /// Something still moves, or nobody waits.
    None,
}

impl Queues {
    /// As the kernels of all hosts say.
    pub(crate) fn of(network: &Network, owners: &Owners) -> Result<Self> {
        let mut queues = Self::default();
        for host in 0..network.n_hosts() {
            let output = network.command_on(host, Path::new("ss")).args(["-tnH"]).output().context("ss")?;
            for line in String::from_utf8_lossy(&output.stdout).lines() {
                queues.add(line, owners);
            }
        }
        Ok(queues)
    }

    fn add(&mut self, line: &str, owners: &Owners) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, unread, unsent, local, remote, ..] = words[..] else { return };
        let own = owners.get(&format!("{local} {remote}"));
        let peer = owners.get(&format!("{remote} {local}"));
        if let (Some(own), Some(peer)) = (own, peer) {
            *self.unsent.entry((*own, *peer)).or_default() += unsent.parse().unwrap_or(0);
            *self.unread.entry((*peer, *own)).or_default() += unread.parse().unwrap_or(0);
        }
    }

    /// Who is to blame, for links that are the hops of a ring.
    pub(crate) fn stall(&self, hops: &[(usize, usize)]) -> Stall {
        let unread = |hop| self.unread.get(&hop).copied().unwrap_or(0);
        let waiting = |hop| self.unsent.get(&hop).copied().unwrap_or(0);
        for hop in hops.iter().copied().filter(|hop| unread(*hop) == 0) {
            if waiting(hop) > 0 {
                return Stall::NotReceived(hop.0, hop.1);
            }
            if hops.iter().any(|other| other.1 == hop.0 && unread(*other) > 0) {
                return Stall::NotSent(hop.0);
            }
        }
        Stall::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: [(usize, usize); 3] = [(0, 1), (1, 2), (2, 0)];

    fn queues(unsent: &[((usize, usize), u64)], unread: &[((usize, usize), u64)]) -> Queues {
        Queues { unsent: unsent.iter().copied().collect(), unread: unread.iter().copied().collect() }
    }

    #[test]
    fn a_rank_that_does_not_read_is_not_sending() {
        let stopped = queues(&[((0, 1), 70_000)], &[((0, 1), 400_000)]);
        assert_eq!(stopped.stall(&RING), Stall::NotSent(1));
    }

    #[test]
    fn what_is_sent_and_does_not_come_is_lost_between() {
        let cut = queues(&[((0, 1), 70_000)], &[]);
        assert_eq!(cut.stall(&RING), Stall::NotReceived(0, 1));
    }

    #[test]
    fn empty_queues_blame_nobody() {
        assert_eq!(queues(&[], &[]).stall(&RING), Stall::None);
    }
}
