//! One rank of a communicator, as its init has left it: who and where the ranks are, and what was agreed on. What runs over it is
//! [`Comm`](crate::comm::Comm)'s.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::collective::choose::TuningTable;
use crate::collective::nccl::Model;
use crate::collective::primitive::Primitive;
use crate::config::Settings;
use crate::error::Result;
use crate::faithful::Version;
use crate::log::{self, Level, lines};
use crate::net::account;
use crate::net::control::Health;
use crate::net::secret::Secret;
use crate::run::affinity::Affinity;
use crate::topology::{PeerInfo, RingPlace, Topology};
use crate::transport::carrier::Carrier;
use crate::transport::shm::host::{Host, Kin};

/// A rank.
#[derive(Debug)]
pub struct Member {
    /// Its lines' names.
    pub identity: lines::Identity,
    /// This rank.
    pub rank: usize,
    /// Ranks.
    pub(crate) n_ranks: usize,
    /// `rank 5 (host-2, 127.0.2.1)`, per rank.
    pub names: Arc<[String]>,
    /// Who is where.
    pub(crate) topology: Topology,
    /// This rank's place on each final channel.
    pub(crate) rings: Vec<RingPlace>,
    /// Whether its ranks outnumber the cores of the machine that they share with this one.
    pub crowded: bool,
    /// Its core of the machine, where ranks share one and have cores enough.
    pub(crate) affinity: Option<Affinity>,
    /// The ranks that share memory with this one.
    pub host: Option<Host>,
    pub(super) tuning: TuningTable,
    /// By their codes, the primitives that the algorithm of the settings cannot carry out and that were called.
    pub(super) replaced: AtomicU32,
    /// Whether it has failed.
    pub health: Arc<Health>,
    pub(super) peers: Vec<PeerInfo>,
    pub(super) settings: Settings,
    pub(super) secret: Secret,
    /// What carries data between hosts.
    pub(super) carrier: Carrier,
    /// What NCCL goes by where it takes an algorithm.
    pub(super) model: Model,
}

impl Member {
    /// `comm 0x…`
    pub fn name(&self) -> String {
        format!("comm {:#x}", self.identity.handle)
    }

    /// `all_reduce #17 on comm 0x…`
    pub(crate) fn label(&self, primitive: Primitive, sequence: u64) -> String {
        format!("{} #{sequence} on {}", primitive.name(), self.name())
    }

    /// This rank's index on its node, which stands for its CUDA device.
    pub(crate) fn device(&self) -> usize {
        self.identity.device
    }

    /// How long a peer may be silent, and an operation may stand still where rank 0 has left, so that nobody knows more.
    pub(crate) fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    /// Between two questions of rank 0 to everybody.
    pub(crate) fn beat(&self) -> Duration {
        account::beat(self.settings.timeout.min(self.settings.stall_timeout))
    }

    /// Whether faults show as NCCL shows them: see [`Settings::faithful`].
    pub(crate) fn is_silent(&self) -> bool {
        self.settings.is_silent()
    }

    /// Whether a call of so many bytes runs on its caller's thread. In the faithful mode none does: a GPU runs them.
    pub(crate) fn runs_inline(&self, bytes: usize) -> bool {
        bytes <= self.settings.inline_bytes && !self.is_silent()
    }

    /// The version of NCCL as which the library behaves, in the faithful mode.
    pub(crate) fn faithful(&self) -> Option<Version> {
        self.settings.faithful
    }

    /// By rank: its host, the same number for those of one host.
    pub fn hosts(&self) -> &[usize] {
        &self.topology.nodes
    }

    /// The settings of a communicator that is made of this one.
    pub(crate) fn settings_of_child(&self) -> Result<Settings> {
        Settings::of_child(self.faithful())
    }

    /// What a communicator of the given ranks of this one shares with it. Nothing with silent faults, which both have or
    /// none: there a rank says with the end of a connection that it is done with a communicator.
    pub(crate) fn kin(&self, members: &[usize]) -> Option<Arc<Kin>> {
        let host = self.host.as_ref().filter(|_| !self.is_silent())?;
        Some(Arc::new(host.kin(members)))
    }

    /// Of a peer whose socket says `remote`, or nothing any more.
    pub(crate) fn address(&self, peer: usize, remote: IpAddr) -> IpAddr {
        let nic = self.peers.get(peer).and_then(|peer| peer.nics.first());
        nic.filter(|_| remote.is_unspecified()).map_or(remote, |nic| nic.address)
    }

    /// The name of a rank's host.
    pub fn host_name(&self, rank: usize) -> &str {
        self.peers.get(rank).map_or("", |peer| peer.host.as_str())
    }

    pub(super) fn info(&self, subsystem: u64, text: &str) {
        log::write(Level::Info, subsystem, self.device(), text);
    }
}
