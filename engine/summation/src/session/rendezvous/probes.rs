//! Whether members that are expected at a rendezvous still live: a connection to each one's door, which nobody need answer.
//! The kernel refuses it, or ends it, where the process is gone.

use rsccl_collective::fork;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::{IpAddr, TcpStream};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::message::Seat;

/// A machine whose kernel has not answered after this is gone.
const CONNECT_WAIT: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Probes(BTreeMap<usize, TcpStream>);

impl Probes {
    /// Looks for these members; the ranks of those that are gone.
    pub(super) fn start(&mut self, members: &[(usize, Seat)]) -> Vec<usize> {
        let (mut lost, mut silent) = (Vec::new(), BTreeSet::<IpAddr>::new());
        for (rank, seat) in members {
            let Some(door) = seat.door else { continue };
            if silent.contains(&door.ip()) {
                lost.push(*rank);
                continue;
            }
            match TcpStream::connect_timeout(&door, CONNECT_WAIT) {
                Ok(stream) => {
                    fork::keep_from_children(&stream);
                    self.0.insert(*rank, stream);
                }
                Err(error) => {
                    lost.push(*rank);
                    if error.kind() == ErrorKind::TimedOut {
                        silent.insert(door.ip());
                    }
                }
            }
        }
        lost
    }

    /// What to sleep on.
    pub(super) fn streams(&self) -> impl Iterator<Item = &TcpStream> {
        self.0.values()
    }

    /// Members that have gone since.
    pub(super) fn lost(&mut self) -> Vec<usize> {
        let mut bytes = [0; 1024];
        let mut is_gone = |stream: &TcpStream| {
            let read = rustix::net::recv(stream, &mut bytes, RecvFlags::DONTWAIT);
            !matches!(read, Err(Errno::AGAIN | Errno::INTR) | Ok((1.., _)))
        };
        let lost: Vec<usize> =
            self.0.iter().filter(|(_, stream)| is_gone(stream)).map(|(rank, _)| *rank).collect();
        lost.iter().for_each(|rank| drop(self.0.remove(rank)));
        lost
    }

    /// This one has come, or is waited for no more.
    pub(super) fn end(&mut self, rank: usize) {
        self.0.remove(&rank);
    }
}
