//! How queue pairs stand, as the kernel tells: their states for whoever shows connections, and those in an error state by port.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::{FailedQueuePair, HostHardware, NicKind, QueuePairState};

use super::netlink::{self, Told};
use crate::procfs;

/// Queue pairs of a port in an error state that are told, as the batch allows.
const MAX_FAILED: usize = 64;

/// States by device and number.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueuePairStates {
    all: BTreeMap<String, BTreeMap<u32, QueuePairState>>,
    /// When the kernel was asked.
    pub(crate) asked_at: Timestamp,
    /// Another one where any is not as it was, or is still in an error state.
    pub(crate) revision: u64,
}

impl QueuePairStates {
    /// None so far.
    pub(crate) fn at(asked_at: Timestamp) -> Self {
        Self { asked_at, ..Self::default() }
    }

    pub(crate) fn insert(&mut self, device: &str, number: u32, state: QueuePairState) {
        self.all.entry(device.to_owned()).or_default().insert(number, state);
    }

    /// Takes what was read after these.
    pub(crate) fn replace(&mut self, newer: Self) {
        if self.all != newer.all || self.asked_at != newer.asked_at && newer.any_failed() {
            *self = Self { revision: self.revision + 1, ..newer };
        }
    }

    /// Whether any stands in an error state.
    pub(super) fn any_failed(&self) -> bool {
        self.all.values().flat_map(BTreeMap::values).any(|state| is_failed(*state))
    }

    /// Unspecified: the kernel does not tell.
    pub(crate) fn of(&self, device: &str, number: u32) -> QueuePairState {
        self.all.get(device).and_then(|of| of.get(&number)).copied().unwrap_or_default()
    }
}

/// What the kernel told, ready to be told on: no file is read any more.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) states: QueuePairStates,
    /// Those that stand in an error state, of processes that live, by device and port.
    failed: BTreeMap<(String, u32), Vec<FailedQueuePair>>,
    /// Devices all of whose queue pairs are known.
    whole: BTreeSet<String>,
    pub(super) lack: Option<String>,
}

/// Asks the kernel, and /proc for the processes; may block.
pub(super) fn read(now: Timestamp) -> Answer {
    Answer::of(now, netlink::queue_pairs(), procfs::process_of)
}

impl Answer {
    /// Of processes that live: the kernel may have told of them before they ended. What it calls a process is the thread that made the
    /// queue pair; of one that has ended nobody knows whose it was. Each thread is asked for once.
    pub(super) fn of(
        asked_at: Timestamp,
        told: Told,
        mut process_of: impl FnMut(u32) -> Option<u32>,
    ) -> Self {
        let mut answer = Self {
            states: QueuePairStates::at(asked_at),
            whole: told.whole,
            lack: told.lack,
            ..Self::default()
        };
        let mut processes: BTreeMap<u32, Option<u32>> = BTreeMap::new();
        for pair in told.queue_pairs {
            answer.states.insert(&pair.device, pair.number, pair.state);
            if !is_failed(pair.state) {
                continue;
            }
            let process = processes.entry(pair.pid).or_insert_with(|| process_of(pair.pid));
            let Some(pid) = *process else { continue };
            let of_port = answer.failed.entry((pair.device, pair.port)).or_default();
            if of_port.len() < MAX_FAILED {
                of_port.push(FailedQueuePair {
                    number: pair.number,
                    remote_number: pair.remote_number,
                    state: pair.state.into(),
                    pid,
                    asked_at_ns: asked_at.0,
                });
            }
        }
        answer
    }

    /// Adds to the ports of a host what stands in an error state there.
    pub(super) fn add_to(&self, host: &mut HostHardware) {
        for nic in host.nics.iter_mut().filter(|nic| nic.kind() == NicKind::Rdma) {
            let failed = self.failed.get(&(nic.name.clone(), nic.port));
            nic.failed_queue_pairs = failed.cloned().unwrap_or_default();
            nic.queue_pairs_known = self.whole.contains(&nic.name);
        }
    }
}

/// Whether nothing goes over a queue pair in this state any more.
pub(crate) const fn is_failed(state: QueuePairState) -> bool {
    matches!(state, QueuePairState::Err | QueuePairState::Sqe)
}

#[cfg(test)]
mod tests {
    use ringscope_wire::batch::Nic;

    use super::*;
    use crate::hardware::netlink::QueuePair;

    fn nic(name: &str, port: u32) -> Nic {
        Nic { name: name.to_owned(), port, kind: NicKind::Rdma.into(), ..Nic::default() }
    }

    fn pair(device: &str, port: u32, number: u32, state: QueuePairState) -> QueuePair {
        QueuePair {
            device: device.to_owned(),
            port,
            number,
            remote_number: Some(number + 1),
            state,
            pid: std::process::id(),
        }
    }

    fn told(queue_pairs: Vec<QueuePair>) -> Told {
        Told { queue_pairs, whole: BTreeSet::from(["rxe1".to_owned()]), lack: None }
    }

    #[test]
    fn states_are_known_by_device_and_errors_are_told_by_port() {
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
        let mut found: Vec<_> =
            (100..300).map(|number| pair("rxe1", 1, number, QueuePairState::Err)).collect();
        found.push(pair("rxe0", 2, 17, QueuePairState::Sqe));
        found.push(pair("rxe0", 1, 18, QueuePairState::Rts));
        found.iter_mut().for_each(|pair| pair.pid = pid);
        // Of a process that has ended, and of nobody.
        found.extend([u32::MAX, 0].map(|pid| QueuePair { pid, ..pair("rxe0", 1, 19, QueuePairState::Err) }));
        let answer = Answer::of(Timestamp(5), told(found), procfs::process_of);
        answer.add_to(&mut host);
        let states = answer.states;
        assert!(states.any_failed());
        assert_eq!(states.of("rxe0", 18), QueuePairState::Rts);
        assert_eq!(states.of("rxe1", 18), QueuePairState::Unspecified);
        let mut known = QueuePairStates::default();
        known.replace(states.clone());
        known.replace(states.clone());
        assert_eq!((known.revision, known.of("rxe0", 18)), (1, QueuePairState::Rts), "the same twice");
        known.replace(QueuePairStates { asked_at: Timestamp(9), ..states });
        assert_eq!((known.revision, known.asked_at), (2, Timestamp(9)), "they still stand in an error state");
        let told: Vec<_> = host.nics.iter().map(|nic| nic.failed_queue_pairs.len()).collect();
        assert_eq!(told, [0, 1, MAX_FAILED]);
        let known: Vec<_> = host.nics.iter().map(|nic| nic.queue_pairs_known).collect();
        assert_eq!(known, [false, false, true]);
        let pids = host.nics.iter().flat_map(|nic| &nic.failed_queue_pairs).map(|failed| failed.pid);
        assert!(pids.eq(std::iter::repeat_n(std::process::id(), 1 + MAX_FAILED)));
        thread.thread().unpark();
        thread.join().unwrap();
    }

    #[test]
    fn each_process_is_asked_for_once_and_none_when_a_port_is_told_of() {
        let found = |number| QueuePair { pid: number % 3, ..pair("rxe0", 1, number, QueuePairState::Err) };
        let mut asked = Vec::new();
        let answer = Answer::of(Timestamp(5), told((0..60_000).map(found).collect()), |pid| {
            asked.push(pid);
            (pid != 1).then_some(pid + 100)
        });
        assert_eq!(asked, [0, 1, 2], "also one that has ended");
        let mut host = HostHardware { nics: vec![nic("rxe0", 1)], ..HostHardware::default() };
        answer.add_to(&mut host);
        let pids: Vec<_> = host.nics[0].failed_queue_pairs.iter().map(|failed| failed.pid).collect();
        assert_eq!((pids.len(), &pids[..3]), (MAX_FAILED, [100, 102, 100].as_slice()));
    }
}
