//! What a simulation found.

use std::time::Duration;

use super::fabric::{Fabric, Ports};
use super::time::{Picos, to_duration};

/// What became of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It did all its steps.
    Finished {
        /// When, in picoseconds.
        at_picos: u64,
    },
    /// It waits for ever.
    Waits {
        /// For data from this rank; for itself, if it waits for its own earlier step.
        peer: usize,
    },
    /// It was lost before it had done all its steps.
    Lost,
}

/// What went from one rank to another on one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkUse {
    /// Sender.
    pub from: usize,
    /// Receiver.
    pub to: usize,
    /// Payload bytes.
    pub bytes: u64,
}

/// What went through one direction of a rank's link or a host's NIC.
#[derive(Clone, Debug, PartialEq)]
pub struct PortUse {
    /// For people: `host 3 nic 1 out`, `rank 17 in`.
    pub name: String,
    /// Whether it is a NIC's.
    pub is_nic: bool,
    /// Payload bytes.
    pub bytes: u64,
    /// For how long it carried something.
    pub busy: Duration,
}

/// Something that is wrong with a schedule's data flow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rank {rank}, channel {channel}, {step}: {words}")]
pub struct Flaw {
    /// Whose program.
    pub rank: usize,
    /// On which channel.
    pub channel: usize,
    /// At which step.
    pub step: String,
    /// What is wrong.
    pub words: String,
}

/// The outcome of one simulated operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What became of each rank.
    pub fates: Vec<Fate>,
    /// Bytes from rank to rank that have left, sorted by sender and receiver.
    pub links: Vec<LinkUse>,
    /// Every port that carried something.
    pub ports: Vec<PortUse>,
    /// Transfers that have left.
    pub n_transfers: u64,
    /// The first thing that is wrong with the data flow; none: each element of each result holds each contribution
    /// that belongs there exactly once.
    pub flaw: Option<Flaw>,
}

impl Outcome {
    /// When the last rank was done; none if one never is.
    pub fn finished_after(&self) -> Option<Duration> {
        let times = self.fates.iter().map(|fate| match fate {
            Fate::Finished { at_picos } => Some(*at_picos),
            _ => None,
        });
        times.collect::<Option<Vec<Picos>>>()?.into_iter().max().map(to_duration)
    }

    /// The port that was in use for the longest.
    pub fn busiest_port(&self) -> Option<&PortUse> {
        self.ports.iter().reduce(|most, port| if port.busy > most.busy { port } else { most })
    }

    /// The link that carried the most.
    pub fn busiest_link(&self) -> Option<&LinkUse> {
        self.links.iter().reduce(|most, link| if link.bytes > most.bytes { link } else { most })
    }
}

/// What went through the ports.
pub(super) fn port_uses(fabric: &Fabric, ports: &Ports) -> Vec<PortUse> {
    let used = ports.used().map(|(index, port)| PortUse {
        name: fabric.port_name(index),
        is_nic: fabric.is_nic(index),
        bytes: port.bytes,
        busy: to_duration(port.busy),
    });
    used.collect()
}
