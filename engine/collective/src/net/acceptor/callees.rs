//! Who listens, and who is called.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, mpsc};

use super::Joined;
use super::inbox::Shared;
use crate::error::Error;
use crate::net::secret::Secret;

/// Roots that have ended and are remembered, so that who comes too late is told so at once; the oldest is forgotten.
const MAX_ENDED: usize = 1024;

/// A listener and how many use it.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) listener: Arc<TcpListener>,
    pub(super) address: SocketAddr,
    pub(super) uses: usize,
}

/// All that callers can reach. The maps' keys are hashed with a number of the process's own, so that the time of a look-up
/// tells a stranger nothing about a secret.
#[derive(Debug, Default)]
pub(super) struct Callees {
    pub(super) listeners: HashMap<IpAddr, Open>,
    /// By a communicator's secret, its ranks in this process.
    pub(super) inboxes: HashMap<Secret, Vec<(usize, Arc<Shared>)>>,
    pub(super) roots: HashMap<Secret, mpsc::SyncSender<Joined>>,
    pub(super) ended: VecDeque<Secret>,
    /// Whether a thread takes who calls.
    pub(super) is_served: bool,
}

impl Callees {
    pub(super) fn add_listener(&mut self, key: IpAddr, address: SocketAddr, listener: TcpListener) {
        self.listeners.insert(key, Open { listener: Arc::new(listener), address, uses: 1 });
    }

    /// One use less; whether it was the last.
    pub(super) fn end_use(&mut self, key: IpAddr) -> bool {
        let Some(open) = self.listeners.get_mut(&key) else { return false };
        open.uses -= 1;
        open.uses == 0 && self.listeners.remove(&key).is_some()
    }

    pub(super) fn add_inbox(&mut self, secret: Secret, rank: usize, inbox: Arc<Shared>) {
        self.inboxes.entry(secret).or_default().push((rank, inbox));
    }

    pub(super) fn end_inbox(&mut self, secret: &Secret, inbox: &Arc<Shared>) {
        if let Some(ranks) = self.inboxes.get_mut(secret) {
            ranks.retain(|(_, one)| !Arc::ptr_eq(one, inbox));
            if ranks.is_empty() {
                self.inboxes.remove(secret);
            }
        }
    }

    pub(super) fn end_root(&mut self, secret: &Secret) {
        if self.roots.remove(secret).is_none() {
            return;
        }
        if self.ended.len() >= MAX_ENDED {
            self.ended.pop_front();
        }
        self.ended.push_back(*secret);
    }

    /// Whether a secret is one of this process's.
    pub(super) fn knows(&self, secret: &Secret) -> bool {
        self.inboxes.contains_key(secret) || self.roots.contains_key(secret)
    }

    /// Tells all who wait for calls that no more can be taken.
    pub(super) fn refuse(&self, error: &Error) {
        for joined in self.roots.values() {
            let _ = joined.try_send(Err(format!("the bootstrap root can take no more ranks: {error}")));
        }
        self.inboxes.values().flatten().for_each(|(_, inbox)| inbox.refuse(error));
    }
}
