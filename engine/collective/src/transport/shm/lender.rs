//! What a rank lends to the ranks of its own process, and how it takes all of it back.
//!
//! Threads of one process read a large payload where its sender has it. The sender's caller may free that memory once the
//! operation is over, and with a communicator that fails it is over before the message is taken. So each read holds its
//! sender's [`Lender`], and a sender that fails takes back what it lent: that waits for reads that run, and lets no other
//! begin.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock, Weak};

use crate::lock::lock;
use crate::net::secret::{Secret, is_secret};
use crate::net::wake::Wake;
use crate::transport::shm::arena::Arena;
use crate::transport::shm::direct;
use crate::transport::shm::doorbell::Ringer;

/// A rank's process, and the name on which it can be called: a forked child has none of its parent's ranks.
type Key = (u32, String);

/// Of this process's ranks.
static LENDERS: LazyLock<Mutex<HashMap<Key, Weak<Lender>>>> = LazyLock::new(Mutex::default);

/// One rank of one communicator as the ranks of its process see it, which need no descriptors of it.
#[derive(Debug)]
pub(crate) struct Lender {
    key: Key,
    /// Whether all was taken back. Whoever reads holds it.
    is_over: RwLock<bool>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// The communicator's secret, and what other processes are sent in descriptors.
    shown: Option<(Secret, Arena, Ringer)>,
    has_ended: bool,
    /// Of who waits for a change of these.
    waiting: Vec<Wake>,
}

impl Lender {
    /// Of the rank that can be called on `name`.
    pub(crate) fn new(name: &str) -> Arc<Self> {
        let key = (std::process::id(), name.to_owned());
        let lender = Arc::new(Self { key: key.clone(), is_over: RwLock::new(false), open: Mutex::default() });
        lock(&LENDERS).insert(key, Arc::downgrade(&lender));
        lender
    }

    /// The rank of this process that can be called on `name`; none if it is another process's.
    pub(crate) fn find(name: &str) -> Option<Arc<Self>> {
        lock(&LENDERS).get(&(std::process::id(), name.to_owned()))?.upgrade()
    }

    /// Shows the ranks of its process that know the secret its arena and its bell, once.
    pub(crate) fn show(&self, secret: &Secret, arena: &Arena, bell: Ringer) {
        let mut open = lock(&self.open);
        open.shown = Some((*secret, arena.to_neighbours(), bell));
        std::mem::take(&mut open.waiting).iter().for_each(Wake::set);
    }

    /// The arena and the bell, once they have been shown; `wake` is set when they are.
    pub(crate) fn shown(&self, secret: &Secret, wake: &Wake) -> Option<(Arena, Ringer)> {
        let mut open = lock(&self.open);
        if open.shown.is_none() && !open.waiting.iter().any(|other| other.is(wake)) {
            open.waiting.push(wake.clone());
        }
        let (_, arena, bell) = open.shown.as_ref().filter(|(own, ..)| is_secret(secret, own))?;
        Some((arena.to_neighbours(), bell.clone()))
    }

    /// The rank is done, or has given up.
    pub(crate) fn end(&self) {
        let mut open = lock(&self.open);
        open.has_ended = true;
        std::mem::take(&mut open.waiting).iter().for_each(Wake::set);
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        lock(&self.open).has_ended
    }

    /// Sets `wake` when it ends.
    pub(crate) fn wake_at_end(&self, wake: &Wake) {
        let mut open = lock(&self.open);
        if open.has_ended {
            wake.set();
        } else {
            open.waiting.push(wake.clone());
        }
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
        lock(&LENDERS).remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn what_was_taken_back_is_not_read() {
        let lender = Lender::new("one");
        let bytes = [7_u8; 4];
        let address = bytes.as_ptr().expose_provenance() as u64;
        let found = Lender::find("one").unwrap();
        assert!(found.lend(address, 4, |lent| assert_eq!(lent, bytes)));
        lender.take_back();
        assert!(!found.lend(address, 4, |_| panic!("read")));
        drop((lender, found));
        assert!(Lender::find("one").is_none());
    }

    #[test]
    fn taking_back_waits_for_who_reads() {
        let lender = Lender::new("two");
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
