//! How queue pairs stand, as the kernel tells: their states for whoever shows connections, and those in an error state by port.

use std::collections::BTreeMap;

use ringscope_wire::batch::{FailedQueuePair, HostHardware, Nic, NicKind, QueuePairState};

use super::netlink::QueuePair;
use crate::procfs;

/// Queue pairs of a port in an error state that are told, as the batch allows.
const MAX_FAILED: usize = 64;

/// States by device and number.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueuePairStates {
    all: BTreeMap<String, BTreeMap<u32, QueuePairState>>,
    /// Another one where any is not as it was.
    pub(crate) revision: u64,
}

impl QueuePairStates {
    pub(crate) fn insert(&mut self, device: &str, number: u32, state: QueuePairState) {
        self.all.entry(device.to_owned()).or_default().insert(number, state);
    }

    /// Takes what was read after these.
    pub(crate) fn replace(&mut self, newer: Self) {
        if self.all != newer.all {
            *self = Self { revision: self.revision + 1, ..newer };
        }
    }

    /// Unspecified: the kernel does not tell.
    pub(crate) fn of(&self, device: &str, number: u32) -> QueuePairState {
        self.all.get(device).and_then(|of| of.get(&number)).copied().unwrap_or_default()
    }
}

/// How all stand that the kernel told of.
pub(super) fn states(found: &[QueuePair]) -> QueuePairStates {
    let mut states = QueuePairStates::default();
    for pair in found {
        states.insert(&pair.device, pair.number, pair.state);
    }
    states
}

/// Whether it stands in an error state.
pub(super) fn is_failed(pair: &QueuePair) -> bool {
    matches!(pair.state, QueuePairState::Err | QueuePairState::Sqe)
}

/// Adds to the ports of a host what stands in an error state there, of processes that live: the kernel may have told of them before
/// they ended. What it calls a process is the thread that made the queue pair; of one that has ended nobody knows whose it was.
pub(super) fn add_failed(host: &mut HostHardware, found: &[QueuePair]) {
    for pair in found.iter().filter(|pair| is_failed(pair)) {
        let is_its =
            |nic: &&mut Nic| nic.kind() == NicKind::Rdma && nic.name == pair.device && nic.port == pair.port;
        let port = host.nics.iter_mut().find(is_its).filter(|nic| nic.failed_queue_pairs.len() < MAX_FAILED);
        let Some((nic, pid)) = port.zip(procfs::process_of(pair.pid)) else { continue };
        nic.failed_queue_pairs.push(FailedQueuePair {
            number: pair.number,
            remote_number: pair.remote_number,
            state: pair.state.into(),
            pid,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_known_by_device_and_errors_are_told_by_port() {
        let nic = |name: &str, port| Nic {
            name: name.to_owned(),
            port,
            kind: NicKind::Rdma.into(),
            ..Nic::default()
        };
        let mut host = HostHardware {
            nics: vec![nic("rxe0", 1), nic("rxe0", 2), nic("rxe1", 1)],
            ..HostHardware::default()
        };
        // A thread is told of in place of its process.
        let (tell, said) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid()).unwrap();
            std::thread::park();
        });
        let pid = u32::try_from(said.recv().unwrap().as_raw_nonzero().get()).unwrap();
        let pair = |device: &str, port, number, state| QueuePair {
            device: device.to_owned(),
            port,
            number,
            remote_number: Some(number + 1),
            state,
            pid,
        };
        let mut found: Vec<_> =
            (100..300).map(|number| pair("rxe1", 1, number, QueuePairState::Err)).collect();
        found.push(pair("rxe0", 2, 17, QueuePairState::Sqe));
        found.push(pair("rxe0", 1, 18, QueuePairState::Rts));
        // Of a process that has ended, and of nobody.
        found.extend([u32::MAX, 0].map(|pid| QueuePair { pid, ..pair("rxe0", 1, 19, QueuePairState::Err) }));
        add_failed(&mut host, &found);
        let states = states(&found);
        assert_eq!(states.of("rxe0", 18), QueuePairState::Rts);
        assert_eq!(states.of("rxe1", 18), QueuePairState::Unspecified);
        let mut known = QueuePairStates::default();
        known.replace(states.clone());
        known.replace(states);
        assert_eq!((known.revision, known.of("rxe0", 18)), (1, QueuePairState::Rts), "the same twice");
        let told: Vec<_> = host.nics.iter().map(|nic| nic.failed_queue_pairs.len()).collect();
        assert_eq!(told, [0, 1, MAX_FAILED]);
        let pids = host.nics.iter().flat_map(|nic| &nic.failed_queue_pairs).map(|failed| failed.pid);
        assert!(pids.eq(std::iter::repeat_n(std::process::id(), 1 + MAX_FAILED)));
        thread.thread().unpark();
        thread.join().unwrap();
    }
}
