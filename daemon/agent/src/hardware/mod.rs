//! NICs and GPUs of a host, read from sysfs and from the GPU's driver in threads of their own: a driver that hangs holds
//! back neither segments nor logs. Never sets anything, never uses a GPU, and never fails: what is missing or cannot be
//! read is not said.
//!
//! * `infiniband`: ports of RDMA devices, with their `gids`; what their counters mean stands in `rdma_counters`. `net`: network interfaces. `gpu`: GPUs. `pci`: where a device is plugged in.
//! * `ethtool`: pause frames. `queue_pairs`: how queue pairs stand, by the kernel's RDMA `netlink`.
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

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringscope_wire::batch::{Gpu, HostHardware, NicCounter, NicKind};

pub(super) use self::queue_pairs::QueuePairStates;
use super::config::AgentConfig;

/// Ports of one host; machines with 8 GPUs have 8 to 20, those that give out virtual functions a hundred.
const MAX_NICS: usize = 128;
/// Counters of one port, as the batch allows.
const MAX_ERRORS: usize = 64;
/// PCI class of network controllers.
const NETWORK: &str = "0x02";
/// Where device files are.
const DEV: &str = "/dev";
/// GPUs do not come and go; one that has fallen off its bus is missed within this time. A driver that nobody uses is woken by each
/// reading.
const GPU_INTERVAL: Duration = Duration::from_secs(600);
/// While processes run, whose GPU may get slow.
const BUSY_GPU_INTERVAL: Duration = Duration::from_secs(15);

/// Reads the hardware of the hosts that the agent looks after, again and again.
#[derive(Debug)]
pub(super) struct Hardware {
    hosts: Vec<(String, PathBuf)>,
    is_real: bool,
    nics: Task<(Vec<HostHardware>, QueuePairStates)>,
    /// Since they were taken last.
    queue_pairs: Option<QueuePairStates>,
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
            queue_pairs: None,
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
        let (hosts, is_real) = (self.hosts.clone(), self.is_real);
        let read = self.nics.poll(monotonic, move || {
            let mut read: Vec<HostHardware> = hosts.iter().map(|(host, sysfs)| read(host, sysfs)).collect();
            // What the kernel says is of this machine.
            let mut own = read.first_mut().filter(|_| is_real);
            own.iter_mut().for_each(|own| add_pauses(own));
            let states = own.map(queue_pairs::read).unwrap_or_default();
            (read, states)
        });
        if let Some((hardware, states)) = read {
            self.unsent = hardware;
            self.queue_pairs = Some(states);
        }
    }

    /// Whether something has been read since the last [`Hardware::take`].
    pub(super) fn is_new(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// How queue pairs stand, if that has been read since the last time.
    pub(super) fn take_queue_pairs(&mut self) -> Option<QueuePairStates> {
        self.queue_pairs.take()
    }

    /// What has been read since the last time.
    pub(super) fn take(&mut self) -> Vec<HostHardware> {
        let mut read = std::mem::take(&mut self.unsent);
        for hardware in &mut read {
            hardware.gpus_known = self.known_gpus.is_some();
            hardware.gpus = self.known_gpus.clone().unwrap_or_default();
            hardware.gpus_confined = self.gpus_confined;
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
    }
}

/// Adds the pause frames of RoCE ports, which their interfaces count.
fn add_pauses(host: &mut HostHardware) {
    for nic in host.nics.iter_mut().filter(|nic| nic.kind() == NicKind::Rdma && nic.link_layer == "Ethernet")
    {
        nic.congestion.extend(ethtool::pauses(&nic.interface));
        nic.congestion.truncate(MAX_ERRORS);
    }
}

/// The counters of this list that the folder has.
fn counters(folder: &Path, names: &[&str]) -> Vec<NicCounter> {
    let counter = |name: &&str| {
        Some(NicCounter { name: (*name).to_owned(), value: files::number(&folder.join(name))? })
    };
    names.iter().filter_map(counter).collect()
}

/// Work that is done in a thread of its own, at most once in an interval and never twice at a time.
#[derive(Debug)]
struct Task<T> {
    interval: Duration,
    started_at: Option<Instant>,
    running: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> Task<T> {
    /// An interval of zero: never.
    const fn new(interval: Duration) -> Self {
        Self { interval, started_at: None, running: None }
    }

    /// The result if there is one since the last time. Starts `work` when it is due.
    fn poll(&mut self, now: Instant, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let ended = self.running.take_if(|running| running.is_finished());
        let is_due = self.started_at.is_none_or(|at| now.saturating_duration_since(at) >= self.interval);
        if !self.interval.is_zero() && is_due && self.running.is_none() {
            self.started_at = Some(now);
            let thread = std::thread::Builder::new().name("hardware".to_owned()).spawn(work);
            self.running =
                thread.inspect_err(|error| tracing::warn!(%error, "cannot read the hardware")).ok();
        }
        ended.and_then(|ended| ended.join().ok())
    }
}

#[cfg(test)]
mod tests;
