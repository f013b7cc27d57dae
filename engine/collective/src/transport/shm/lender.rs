//! What a rank lends to the ranks of its own process, and how it takes all of it back.
//!
//! Threads of one process read a large payload where its sender has it. The sender's caller may free that memory once the
//! operation is over, and with a communicator that fails it is over before the message is taken. So each read holds its
//! sender's [`Lender`], and a sender that fails takes back what it lent: that waits for reads that run, and lets no other
//! begin.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, RwLock, Weak};

use crate::lock::lock;
use crate::transport::shm::arena::Arena;
use crate::transport::shm::direct::{self, Nonce};
use crate::transport::shm::doorbell::Ringer;
use crate::transport::shm::layout::Layout;

/// Of this process's ranks, by the number that each shows its peers.
static LENDERS: LazyLock<Mutex<HashMap<Nonce, Weak<Lender>>>> = LazyLock::new(Mutex::default);

/// One rank of one communicator that lends its memory.
#[derive(Debug)]
pub(crate) struct Lender {
    nonce: Nonce,
    /// Whether all was taken back. Whoever reads holds it.
    is_over: RwLock<bool>,
    /// What other processes are sent in descriptors of their own.
    shown: OnceLock<(Arena, Ringer)>,
}

impl Lender {
    /// Of the rank that shows its peers this number.
    pub(crate) fn new(nonce: Nonce) -> Arc<Self> {
        let lender = Arc::new(Self { nonce, is_over: RwLock::new(false), shown: OnceLock::new() });
        lock(&LENDERS).insert(nonce, Arc::downgrade(&lender));
        lender
    }

    /// The rank of this process that shows this number; none if it is another process's.
    pub(crate) fn find(nonce: &Nonce) -> Option<Arc<Self>> {
        lock(&LENDERS).get(nonce)?.upgrade()
    }

    /// Shows the ranks of its process its arena and its bell, once, so that these need no descriptors and mappings of them.
    pub(crate) fn show(&self, arena: &Arena, bell: Ringer) {
        let _ = self.shown.set((arena.to_neighbours(), bell));
    }

    /// The arena and the bell, if they have been shown and are for a host of such a layout.
    pub(crate) fn shown(&self, layout: Layout) -> Option<(Arena, Ringer)> {
        let (arena, bell) = self.shown.get().filter(|(arena, _)| arena.layout() == layout)?;
        Some((arena.to_neighbours(), bell.clone()))
    }

    /// Hands over `len` bytes at `address`, which a message of this rank speaks of. False if it has taken them back.
    #[must_use]
    pub(crate) fn lend(&self, address: u64, len: usize, take: impl FnOnce(&[u8])) -> bool {
        let is_over = self.is_over.read().unwrap_or_else(PoisonError::into_inner);
        if !*is_over {
            direct::lend(address, len, take);
        }
        !*is_over
    }

    /// Takes back all that was lent, and lends nothing any more. On return nobody reads it.
    pub(crate) fn take_back(&self) {
        *self.is_over.write().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        lock(&LENDERS).remove(&self.nonce);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn what_was_taken_back_is_not_read() {
        let lender = Lender::new([1; 16]);
        let bytes = [7_u8; 4];
        let address = bytes.as_ptr().expose_provenance() as u64;
        let found = Lender::find(&[1; 16]).unwrap();
        assert!(found.lend(address, 4, |lent| assert_eq!(lent, bytes)));
        lender.take_back();
        assert!(!found.lend(address, 4, |_| panic!("read")));
        drop((lender, found));
        assert!(Lender::find(&[1; 16]).is_none());
    }

    #[test]
    fn taking_back_waits_for_who_reads() {
        let lender = Lender::new([2; 16]);
        let bytes = vec![9_u8; 4];
        let address = bytes.as_ptr().expose_provenance() as u64;
        let (reading, reads) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let borrower = Arc::clone(&lender);
        let reader = std::thread::spawn(move || {
            borrower.lend(address, 4, |lent| {
                reading.send(()).unwrap();
                may_go_on.recv().unwrap();
                assert_eq!(lent, [9; 4]);
            })
        });
        reads.recv().unwrap();
        let owner = std::thread::spawn(move || {
            lender.take_back();
            drop(bytes);
        });
        assert!(!owner.is_finished());
        go_on.send(()).unwrap();
        assert!(reader.join().unwrap());
        owner.join().unwrap();
    }
}
