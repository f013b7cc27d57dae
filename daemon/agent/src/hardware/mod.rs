//! NICs and GPUs of a host, read from sysfs, from the GPU's driver and from the kernel's sockets, each in a thread
//! of its own: a driver that hangs holds back neither segments nor logs nor the state of ports. Never sets anything,
//! never uses a GPU, and never fails: what is missing or cannot be read is not said.
//!
//! * `infiniband`: ports of RDMA devices, with their `gids`; what their counters mean stands in `rdma_counters`.
//!   `net`: network interfaces. `gpu`: GPUs. `pci`: where a device is plugged in.
//! * `task`: work in a thread of its own. `ethtool`: pause frames. `queue_pairs`: how queue pairs stand, by the
//!   kernel's RDMA `netlink`.
//! * `files`: files of sysfs, each read with a bound.

mod ethtool;
mod files;
mod gids;
mod gpu;
mod infiniband;
mod net;
mod netlink;
mod pci;
mod queue_pairs;
mod rdma_counters;
mod task;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringscope_wire::batch::{Gpu, HostHardware, Nic, NicCounter, NicKind};

use self::queue_pairs::Answer;
pub(super) use self::queue_pairs::{QueuePairStates, is_failed};
use self::task::{Asked, Task};
use super::config::AgentConfig;
use super::lacks;

/// Ports of one host; machines with 8 GPUs have 8 to 20, those that give out virtual functions a hundred.
const MAX_NICS: usize = 128;
/// Counters of one port, as the batch allows.
const MAX_ERRORS: usize = 64;
/// PCI class of network controllers.
const NETWORK: &str = "0x02";
/// Where device files are.
const DEV: &str = "/dev";
/// GPUs do not come and go; one that has fallen off its bus is missed within this time. A driver that nobody uses is
/// woken by each reading.
const GPU_INTERVAL: Duration = Duration::from_secs(600);
/// While processes run, whose GPU may get slow.
const BUSY_GPU_INTERVAL: Duration = Duration::from_secs(15);

/// Some drivers ask their firmware about each queue pair: no more often than that.
const QUEUE_PAIR_INTERVAL: Duration = Duration::from_secs(30);
/// While some stand in an error state: whether they still do.
const FAILED_QUEUE_PAIR_INTERVAL: Duration = Duration::from_secs(5);

/// Reads the hardware of the hosts that the agent looks after, again and again.
#[derive(Debug)]
pub(super) struct Hardware {
    hosts: Vec<(String, PathBuf)>,
    is_real: bool,
    nics: Task<Vec<HostHardware>>,
    /// Interfaces of RoCE ports, as they were read last.
    interfaces: Vec<String>,
    /// Pause frames by interface.
    pauses: Asked<BTreeMap<String, Vec<NicCounter>>>,
    has_rdma: bool,
    /// No oftener than all else.
    hardware_interval: Duration,
    queue_pairs: Asked<Answer>,
    /// Since they were taken last.
    queue_pair_states: Option<QueuePairStates>,
    /// Why not all queue pairs are known.
    queue_pairs_lack: Option<String>,
    /// With whether only some of them are seen.
    gpus: Task<(Option<Vec<Gpu>>, bool)>,
    known_gpus: Option<Vec<Gpu>>,
    gpus_confined: bool,
    unsent: Vec<HostHardware>,
}

impl Hardware {
    /// That of the agent's own machine, or of the hosts that it pretends to be.
    pub(super) fn new(config: &AgentConfig) -> Self {
        let is_real = config.pretended_hosts.is_empty();
        let own = (config.host.clone(), config.sysfs.clone());
        Self {
            hosts: if is_real { vec![own] } else { config.pretended_hosts.clone() },
            is_real,
            nics: Task::new(config.hardware_interval),
            interfaces: Vec::new(),
            pauses: Asked::new(config.hardware_interval),
            has_rdma: false,
            hardware_interval: config.hardware_interval,
            queue_pairs: Asked::new(if config.hardware_interval.is_zero() {
                Duration::ZERO
            } else {
                config.hardware_interval.max(QUEUE_PAIR_INTERVAL)
            }),
            queue_pair_states: None,
            queue_pairs_lack: None,
            gpus: Task::new(if config.hardware_interval.is_zero() { Duration::ZERO } else { GPU_INTERVAL }),
            known_gpus: None,
            gpus_confined: false,
            unsent: Vec::new(),
        }
    }

    /// Takes what has been read, and starts to read what is due. `is_used`: processes run that may use the GPUs.
    pub(super) fn poll(&mut self, monotonic: Instant, is_used: bool) {
        if self.is_real {
            if !self.gpus.interval.is_zero() {
                self.gpus.interval = if is_used { BUSY_GPU_INTERVAL } else { GPU_INTERVAL };
            }
            let sysfs = self.hosts.first().map(|(_, sysfs)| sysfs.clone()).unwrap_or_default();
            let read = self.gpus.poll(monotonic, move || {
                (gpu::read(gpu::LIBRARY.as_ref(), &sysfs), gpu::is_confined(&sysfs, DEV.as_ref()))
            });
            if let Some(read) = read {
                (self.known_gpus, self.gpus_confined) = read;
            }
        }
        let hosts = self.hosts.clone();
        let read = self
            .nics
            .poll(monotonic, move || hosts.iter().map(|(host, sysfs)| read(host, sysfs)).collect::<Vec<_>>());
        // What the kernel says is of this machine.
        if self.is_real {
            self.ask(monotonic);
        }
        if let Some(hardware) = read {
            self.unsent = hardware;
            if self.is_real {
                self.complete(monotonic);
            }
        }
    }

    /// Asks the kernel for what sysfs does not tell.
    fn ask(&mut self, monotonic: Instant) {
        if !self.interfaces.is_empty() {
            let interfaces = self.interfaces.clone();
            self.pauses.poll(monotonic, move || {
                let pauses = interfaces.into_iter().map(|name| (ethtool::pauses(&name), name));
                pauses.map(|(pauses, name)| (name, pauses)).collect()
            });
        }
        let asked_at = ringscope_api::clock::now();
        let is_new = self.queue_pairs.poll(monotonic, move || queue_pairs::read(asked_at));
        if is_new {
            let any_failed = self.queue_pairs.answer(monotonic).is_some_and(|told| told.states.any_failed());
            let interval = if any_failed { FAILED_QUEUE_PAIR_INTERVAL } else { QUEUE_PAIR_INTERVAL };
            self.queue_pairs.set_interval(interval.max(self.hardware_interval));
        }
        let (is_overdue, told) = (self.queue_pairs.is_overdue(monotonic), self.queue_pairs.answer(monotonic));
        if is_new || is_overdue {
            self.queue_pair_states = Some(told.map(|told| told.states.clone()).unwrap_or_default());
            self.queue_pairs_lack = match told {
                Some(told) => told.lack.clone(),
                None => Some("there is no answer of the kernel".to_owned()),
            };
        }
    }

    /// Adds to what was read of this machine what the kernel answered last.
    fn complete(&mut self, monotonic: Instant) {
        let Some(own) = self.unsent.first_mut() else { return };
        let is_roce = |nic: &&mut Nic| nic.kind() == NicKind::Rdma && nic.link_layer == "Ethernet";
        self.has_rdma = own.nics.iter().any(|nic| nic.kind() == NicKind::Rdma);
        self.interfaces = own.nics.iter_mut().filter(is_roce).map(|nic| nic.interface.clone()).collect();
        for nic in own.nics.iter_mut().filter(is_roce) {
            let pauses = self.pauses.answer(monotonic).and_then(|known| known.get(&nic.interface));
            nic.congestion.extend(pauses.into_iter().flatten().cloned());
            nic.congestion.truncate(MAX_ERRORS);
        }
        if let Some(told) = self.queue_pairs.answer(monotonic) {
            told.add_to(own);
        }
    }

    /// What of the queue pairs is not seen, in words.
    fn lack(&self) -> Option<String> {
        self.queue_pairs_lack.as_deref().filter(|_| self.has_rdma).map(lacks::of_queue_pairs)
    }

    /// Whether something has been read since the last [`Hardware::take`].
    pub(super) fn is_new(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// How queue pairs stand, if that has been read since the last time.
    pub(super) fn take_queue_pairs(&mut self) -> Option<QueuePairStates> {
        self.queue_pair_states.take()
    }

    /// What has been read since the last time.
    pub(super) fn take(&mut self) -> Vec<HostHardware> {
        let mut read = std::mem::take(&mut self.unsent);
        for hardware in &mut read {
            hardware.gpus_known = self.known_gpus.is_some();
            hardware.gpus = self.known_gpus.clone().unwrap_or_default();
            hardware.gpus_confined = self.gpus_confined;
            hardware.queue_pairs_lack = self.lack().unwrap_or_default();
        }
        read
    }
}

/// One host, whose sysfs lies in `sysfs`; without its GPUs.
pub fn read(host: &str, sysfs: &Path) -> HostHardware {
    let mut nics = infiniband::read(sysfs);
    let used: BTreeSet<String> =
        nics.iter().map(|nic| nic.pci.clone()).filter(|pci| !pci.is_empty()).collect();
    let named: BTreeSet<String> = nics.iter().map(|nic| nic.interface.clone()).collect();
    nics.extend(net::read(sysfs, &used, &named));
    nics.truncate(MAX_NICS);
    HostHardware {
        host: host.to_owned(),
        read_at_ns: ringscope_api::clock::now().0,
        nics,
        gpus: Vec::new(),
        gpus_known: false,
        network_functions: pci::held(sysfs, NETWORK, |_| true),
        gpus_confined: false,
        queue_pairs_lack: String::new(),
    }
}

/// The counters of this list that the folder has.
fn counters(folder: &Path, names: &[&str]) -> Vec<NicCounter> {
    let counter = |name: &&str| {
        Some(NicCounter { name: (*name).to_owned(), value: files::number(&folder.join(name))? })
    };
    names.iter().filter_map(counter).collect()
}

#[cfg(test)]
mod tests;
