//! Rings as NCCL draws them on hosts with a NIC for each GPU: channel `c` enters and leaves every host on NIC `c`, and
//! walks the host's GPUs in an order of its own in between.

use ringscope_wire::batch::RingPosition;

use crate::cluster::{Fault, Host};

/// A rank's place among the ranks of its job.
#[derive(Clone, Copy)]
pub(crate) struct Seat<'a> {
    /// Hosts of the job, in the order of the ring.
    pub(crate) hosts: &'a [&'a Host],
    pub(crate) place: u32,
    pub(crate) local: u32,
    pub(crate) ranks_per_host: u32,
}

impl Seat<'_> {
    fn n_hosts(&self) -> u32 {
        self.hosts.len() as u32
    }

    fn before(&self) -> u32 {
        (self.place + self.n_hosts() - 1) % self.n_hosts()
    }

    fn after(&self) -> u32 {
        (self.place + 1) % self.n_hosts()
    }

    fn fault(&self, place: u32) -> Option<Fault> {
        self.hosts[place as usize].fault
    }

    /// Over all ranks; `n_nics` are in use on every host.
    pub(crate) fn world(&self, n_channels: u32, n_nics: u32) -> Vec<RingPosition> {
        let n = self.ranks_per_host;
        let position = |channel| {
            let entry = channel % n_nics % n;
            let step = (entry + n - self.local) % n;
            let (first, last) = (step == 0, step == n - 1);
            let rank = |place: u32, local: u32| place * n + local;
            let mut position = RingPosition {
                channel,
                prev: rank(self.place, (self.local + 1) % n),
                next: rank(self.place, (self.local + n - 1) % n),
                transport: "P2P/CUMEM".into(),
                ..RingPosition::default()
            };
            if self.n_hosts() > 1 && first {
                position.prev = rank(self.before(), (entry + 1) % n);
                self.receive(&mut position, channel % n_nics);
            }
            if self.n_hosts() > 1 && last {
                position.next = rank(self.after(), entry);
                self.send(&mut position, channel % n_nics);
            }
            position
        };
        (0..n_channels).map(position).collect()
    }

    /// Over the ranks with this local rank, one of each host, through the NIC beside their GPU.
    pub(crate) fn across(&self, n_channels: u32) -> Vec<RingPosition> {
        let position = |channel| {
            let mut position =
                RingPosition { channel, prev: self.before(), next: self.after(), ..RingPosition::default() };
            self.receive(&mut position, self.local);
            self.send(&mut position, self.local);
            position
        };
        (0..n_channels).map(position).collect()
    }

    /// Over the ranks of this host.
    pub(crate) fn inside(&self, n_channels: u32) -> Vec<RingPosition> {
        let n = self.ranks_per_host;
        let position = |channel| {
            let (up, down) = ((self.local + 1) % n, (self.local + n - 1) % n);
            let (prev, next) = if channel % 2 == 0 { (down, up) } else { (up, down) };
            RingPosition { channel, prev, next, transport: "P2P/CUMEM".into(), ..RingPosition::default() }
        };
        (0..n_channels).map(position).collect()
    }

    /// Sockets where the sender has nothing else: both ends have them then.
    fn send(&self, position: &mut RingPosition, rail: u32) {
        if self.fault(self.place) == Some(Fault::Socket) {
            "NET/Socket".clone_into(&mut position.transport);
            "eth0".clone_into(&mut position.nic);
            return;
        }
        "NET/IB".clone_into(&mut position.transport);
        position.gpu_direct = true;
        let nic = self.nic(rail);
        position.nic = format!("mlx5_{nic}");
        position.nic_index = Some(nic);
    }

    fn receive(&self, position: &mut RingPosition, rail: u32) {
        if self.fault(self.before()) == Some(Fault::Socket) {
            "eth0".clone_into(&mut position.recv_nic);
            return;
        }
        let nic = self.nic(rail);
        position.recv_nic = format!("mlx5_{nic}");
        position.recv_nic_index = Some(nic);
    }

    /// The NIC that this host uses for a rail.
    fn nic(&self, rail: u32) -> u32 {
        match (self.fault(self.place), rail) {
            (Some(Fault::NicDown), LAST_NIC) => LAST_NIC - 1,
            (Some(Fault::CrossRail), 2) => 3,
            (Some(Fault::CrossRail), 3) => 2,
            _ => rail,
        }
    }
}

pub(crate) const N_NICS: u32 = 8;
/// The one that a host with [`Fault::NicDown`] has lost.
pub(crate) const LAST_NIC: u32 = N_NICS - 1;
