//! The environment: every setting, its default and why that default. Nothing else in the crate reads it.
//!
//! Read again at each communicator's init, so that a test or a launcher may change it between two; only the log's
//! settings are latched at the first line, as NCCL does.

mod lists;
mod values;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::collective::algorithm::Algorithm;
use crate::collective::choose::TuningTable;
use crate::error::{Error, Result};
use crate::faithful::Version;
use crate::topology::settings::{MachineSettings, TopologySettings};
pub(crate) use values::rank_order_name;
pub use values::{FOREVER, keep, limit};
use values::{algorithm, bytes, channel_count, is_on, rank_order, socket_count, step_bytes, tuning};

/// How long init waits for peers, and how long a peer may be silent, before that is an error. 30 s is longer than any
/// scheduler hiccup and shorter than an engineer's patience. An operation may stand still for ever: a checkpoint of one rank
/// takes longer than any limit would allow for a hang.
const DEFAULT_TIMEOUT_S: u64 = 30;
/// Up to 1 MiB the hand-over to another thread costs more than the caller gains by going on meanwhile.
const DEFAULT_INLINE_BYTES: usize = 1 << 20;
/// One message of this size costs about as much as its system calls, so small operations do not pay for many channels.
const DEFAULT_CHANNEL_BYTES: usize = 64 * 1024;
/// Where Linux shows the machine.
const SYSFS: &str = "/sys";
/// Where network interfaces are in it.
const CLASS_NET: &str = "class/net";
/// Settings that are reported in the log when set, under the name they were set by.
const REPORTED: [&str; 31] = [
    "RSCCL_SHM_DISABLE",
    "NCCL_SHM_DISABLE",
    "NCCL_RUNTIME_CONNECT",
    "RSCCL_TUNING",
    "RSCCL_ALGO",
    "NCCL_ALGO",
    "RSCCL_DETERMINISTIC",
    "RSCCL_INLINE_BYTES",
    "RSCCL_CHANNEL_BYTES",
    "RSCCL_BUFFSIZE",
    "NCCL_BUFFSIZE",
    "RSCCL_HOST",
    "NCCL_HOSTID",
    "RSCCL_NICS",
    "RSCCL_SYSFS",
    "RSCCL_SYSFS_NET",
    "RSCCL_SOCKET_IFNAME",
    "RSCCL_NET",
    "NCCL_NET_PLUGIN",
    "RSCCL_NSOCKS",
    "NCCL_NSOCKS_PERTHREAD",
    "RSCCL_TIMEOUT_S",
    "RSCCL_STALL_TIMEOUT_S",
    "RSCCL_FAITHFUL",
    "RSCCL_MIN_NCHANNELS",
    "RSCCL_MAX_NCHANNELS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
    "RSCCL_CONNECTION_LOG",
    "NCCL_PROFILER_PLUGIN",
    "NCCL_COMM_ID",
];

/// A NIC named by the user: `name=address`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NicSpec {
    /// Its name in the log.
    pub(crate) name: String,
    /// The address that stands for it.
    pub(crate) address: IpAddr,
}

/// What carries data between hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum NetworkSetting {
    /// The library's own sockets.
    #[default]
    Socket,
    /// Our plugin for RDMA.
    Verbs,
    /// Another plugin: a path, a library's name, or the end of one.
    Plugin(String),
}

/// The settings of one communicator's init.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `RSCCL_HOST`, else the machine's host name.
    pub host: String,
    /// `NCCL_HOSTID`, else the host's name: ranks with the same one are one node.
    pub host_id: String,
    /// `RSCCL_NICS`; without it, the machine's interfaces.
    pub(crate) nics: Option<Vec<NicSpec>>,
    /// `RSCCL_SYSFS`, for tests with a made-up machine; else the folder that `RSCCL_SYSFS_NET` is `class/net` of.
    pub(crate) sysfs: PathBuf,
    /// `RSCCL_SYSFS_NET`, for tests with made-up NICs.
    pub(crate) sysfs_net: PathBuf,
    /// Files and search.
    pub(crate) topology: TopologySettings,
    /// `RSCCL_MACHINE` and what goes with it: the machine as which the faithful mode shows.
    pub(crate) machine: MachineSettings,
    /// `RSCCL_SOCKET_IFNAME`: the NIC that carries bootstrap.
    pub(crate) socket_ifname: Option<String>,
    /// `RSCCL_MIN_NCHANNELS`, else `NCCL_MIN_NCHANNELS`.
    pub(crate) min_channels: Option<usize>,
    /// `RSCCL_MAX_NCHANNELS`, else `NCCL_MAX_NCHANNELS`.
    pub(crate) max_channels: Option<usize>,
    /// `RSCCL_NET`, else `NCCL_NET_PLUGIN`: what carries data between hosts.
    pub(crate) network: NetworkSetting,
    /// Sockets of each connection for data.
    pub(crate) n_sockets: u8,
    /// `RSCCL_TIMEOUT_S`; for ever in the faithful mode.
    pub timeout: Duration,
    /// `RSCCL_STALL_TIMEOUT_S`: how long an operation may stand still while its ranks live.
    pub(crate) stall_timeout: Duration,
    /// `RSCCL_FAITHFUL`: the version of NCCL as which faults, events, lines and channels show. No rank is told of a death,
    /// an abort or a mismatch of another one, and nothing times out. For tests of who watches from outside.
    pub(crate) faithful: Option<Version>,
    /// `RSCCL_INLINE_BYTES`: calls up to this size run on the caller's thread, if nothing is before them.
    pub(crate) inline_bytes: usize,
    /// `RSCCL_CHANNEL_BYTES`: an operation uses another channel for every so many bytes.
    pub(crate) channel_bytes: usize,
    /// A [`STEPS`]th of `RSCCL_BUFFSIZE`, else `NCCL_BUFFSIZE`: what travels at a stretch, and can travel on then.
    pub(crate) step_bytes: usize,
    /// `RSCCL_ALGO`, else what `NCCL_ALGO` leaves, for what it can carry out.
    pub(crate) algorithm: Option<Algorithm>,
    /// In the faithful mode, what NCCL does not understand of `NCCL_ALGO` and `NCCL_PROTO`: it finds out late in init.
    pub(crate) list_mistake: Option<String>,
    /// `RSCCL_DETERMINISTIC=rank-order`: reductions reduce in the order of the (virtual) ranks, in the form that this has.
    pub(crate) rank_order: Option<Algorithm>,
    /// Whether ranks of one host share memory: unless `RSCCL_SHM_DISABLE` or `NCCL_SHM_DISABLE` is 1.
    pub(crate) shm: bool,
    /// `RSCCL_TUNING`: a file of rules that come before the built-in ones.
    pub(crate) tuning: Option<TuningTable>,
    /// `RSCCL_CONNECTION_LOG`, with `%h` and `%p`.
    pub(crate) connection_log: Option<String>,
    /// `NCCL_PROFILER_PLUGIN`.
    pub(crate) profiler_plugin: Option<String>,
    /// Name and value of each reported setting that is set.
    pub reported: Vec<(String, String)>,
}

/// The log's settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogSettings {
    /// `NCCL_DEBUG`.
    pub(crate) level: Option<String>,
    /// `NCCL_DEBUG_SUBSYS`.
    pub(crate) subsystems: Option<String>,
    /// `NCCL_DEBUG_FILE`, with `%h` and `%p`.
    pub(crate) file: Option<String>,
    /// The host's name in each line.
    pub(crate) host: String,
}

impl Settings {
    /// From the process's environment.
    pub fn from_env() -> Result<Self> {
        Self::parse(read)
    }

    /// Of a communicator that is made of another one: from the process's environment, but that it stays as faithful as its
    /// parent. All ranks have agreed on that, and how they meet, wait and share goes by it. NCCL has its version from its
    /// build, and what it takes from the environment it reads once.
    pub(crate) fn of_child(faithful: Option<Version>) -> Result<Self> {
        Self::parse(as_faithful(faithful, read))
    }

    /// The same over another network: `verbs` or `socket`, as `setting` has it.
    pub fn over(mut self, setting: &str, value: &str) -> Result<Self> {
        self.network = NetworkSetting::parse(setting, value).map_err(Error::InvalidUsage)?;
        Ok(self)
    }

    /// NCCL's init of several ranks ends with an error where it does not understand a list.
    pub(crate) fn check_lists(&self, n_ranks: usize) -> Result<()> {
        let mistake = self.list_mistake.as_ref().filter(|_| n_ranks > 1);
        mistake.map_or(Ok(()), |text| Err(Error::InvalidUsage(text.clone())))
    }

    /// Whether faults show as NCCL shows them.
    pub(crate) fn is_silent(&self) -> bool {
        self.faithful.is_some()
    }

    /// From `lookup`; all mistakes are reported at once.
    pub fn parse(lookup: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let mut mistakes = Vec::new();
        let host = host_name(&lookup);
        let wanted = algorithm(&lookup, &mut mistakes);
        let faithful = faithful(&lookup, &mut mistakes);
        let timeout =
            limit(&lookup, "RSCCL_TIMEOUT_S", Duration::from_secs(DEFAULT_TIMEOUT_S), &mut mistakes);
        let stall_timeout = limit(&lookup, "RSCCL_STALL_TIMEOUT_S", FOREVER, &mut mistakes);
        let settings = Self {
            host_id: lookup("NCCL_HOSTID").unwrap_or_else(|| host.clone()),
            host,
            nics: lookup("RSCCL_NICS").map(|text| keep(parse_nics(&text), &mut mistakes)),
            sysfs_net: sysfs_net(&lookup),
            sysfs: sysfs(&lookup),
            topology: TopologySettings::parse(&lookup, &mut mistakes),
            machine: MachineSettings::parse(&lookup, faithful.is_some(), &mut mistakes),
            socket_ifname: lookup("RSCCL_SOCKET_IFNAME"),
            min_channels: channel_count(&lookup, "MIN_NCHANNELS", faithful, &mut mistakes),
            max_channels: channel_count(&lookup, "MAX_NCHANNELS", faithful, &mut mistakes),
            network: network(&lookup, &mut mistakes),
            n_sockets: socket_count(&lookup, &mut mistakes),
            timeout: if faithful.is_some() { FOREVER } else { timeout },
            stall_timeout: if faithful.is_some() { FOREVER } else { stall_timeout },
            faithful,
            inline_bytes: bytes(&lookup, "RSCCL_INLINE_BYTES", DEFAULT_INLINE_BYTES, &mut mistakes),
            channel_bytes: bytes(&lookup, "RSCCL_CHANNEL_BYTES", DEFAULT_CHANNEL_BYTES, &mut mistakes).max(1),
            step_bytes: step_bytes(&lookup, &mut mistakes),
            algorithm: wanted,
            list_mistake: faithful.and_then(|_| lists::mistake(&lookup)),
            rank_order: rank_order(&lookup, wanted, &mut mistakes),
            shm: !["RSCCL_SHM_DISABLE", "NCCL_SHM_DISABLE"].iter().any(|name| is_on(&lookup, name)),
            tuning: tuning(&lookup, &mut mistakes),
            connection_log: lookup("RSCCL_CONNECTION_LOG"),
            profiler_plugin: lookup("NCCL_PROFILER_PLUGIN"),
            reported: reported(&lookup),
        };
        if mistakes.is_empty() { Ok(settings) } else { Err(Error::InvalidUsage(mistakes.join("; "))) }
    }
}

/// The version of NCCL that the library behaves as now, by the process's environment. What is no version is a mistake that
/// the next communicator's init reports.
pub(crate) fn nccl_version() -> Version {
    faithful(read, &mut Vec::new()).unwrap_or_default()
}

impl LogSettings {
    /// From the process's environment.
    pub(crate) fn from_env() -> Self {
        Self {
            level: read("NCCL_DEBUG"),
            subsystems: read("NCCL_DEBUG_SUBSYS"),
            file: read("NCCL_DEBUG_FILE"),
            host: host_name(read),
        }
    }
}

/// A setting, unless it is empty.
#[expect(clippy::disallowed_methods, reason = "this module is where the environment is read")]
pub fn read(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn reported(lookup: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let twins =
        TopologySettings::NAMES.iter().flat_map(|name| ["RSCCL", "NCCL"].map(|of| format!("{of}_{name}")));
    let names = REPORTED.iter().chain(&MachineSettings::NAMES).map(|name| (*name).to_owned()).chain(twins);
    names.filter_map(|name| lookup(&name).map(|value| (name, value))).collect()
}

impl NetworkSetting {
    fn parse(setting: &str, value: &str) -> std::result::Result<Self, String> {
        match value {
            "socket" => Ok(Self::Socket),
            "verbs" => Ok(Self::Verbs),
            _ => {
                let advice = "other networks are plugins: NCCL_NET_PLUGIN names one";
                Err(format!("{setting}: \"{value}\" is neither verbs nor socket; {advice}"))
            }
        }
    }
}

/// Sockets unless something else is asked for: NCCL's name for none is `none`.
fn network(lookup: impl Fn(&str) -> Option<String>, mistakes: &mut Vec<String>) -> NetworkSetting {
    let wanted = lookup("RSCCL_NET").map(|value| NetworkSetting::parse("RSCCL_NET", &value));
    let plugin = || lookup("NCCL_NET_PLUGIN").filter(|name| !name.eq_ignore_ascii_case("none"));
    match wanted {
        Some(Err(mistake)) => {
            mistakes.push(mistake);
            NetworkSetting::Socket
        }
        Some(Ok(network)) => network,
        None => plugin().map_or(NetworkSetting::Socket, NetworkSetting::Plugin),
    }
}

fn sysfs_net(lookup: impl Fn(&str) -> Option<String>) -> PathBuf {
    lookup("RSCCL_SYSFS_NET").map_or_else(|| sysfs(lookup).join(CLASS_NET), PathBuf::from)
}

fn sysfs(lookup: impl Fn(&str) -> Option<String>) -> PathBuf {
    let of_net = || {
        let net = PathBuf::from(lookup("RSCCL_SYSFS_NET")?);
        net.ends_with(CLASS_NET).then(|| net.ancestors().nth(2).map(PathBuf::from))?
    };
    let told = lookup("RSCCL_SYSFS").map(PathBuf::from);
    told.or_else(of_net).unwrap_or_else(|| PathBuf::from(SYSFS))
}

/// The real name is cut at its first dot, as NCCL cuts it.
fn host_name(lookup: impl Fn(&str) -> Option<String>) -> String {
    lookup("RSCCL_HOST").unwrap_or_else(|| {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        name.split('.').next().unwrap_or("unknown").to_owned()
    })
}

fn parse_nics(text: &str) -> std::result::Result<Vec<NicSpec>, String> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(parse_nic).collect()
}

fn parse_nic(part: &str) -> std::result::Result<NicSpec, String> {
    let wrong = || format!("RSCCL_NICS: \"{part}\" is not NAME=ADDRESS, such as mlx5_0=127.0.2.1");
    let (name, address) = part.split_once('=').ok_or_else(wrong)?;
    if name.is_empty() || name.contains('/') {
        return Err(wrong());
    }
    Ok(NicSpec { name: name.to_owned(), address: address.parse().map_err(|_| wrong())? })
}

/// What `lookup` says, but of the faithful mode.
fn as_faithful(
    faithful: Option<Version>,
    lookup: impl Fn(&str) -> Option<String>,
) -> impl Fn(&str) -> Option<String> {
    move |name| match name {
        "RSCCL_FAITHFUL" => faithful.map(|version| version.name().to_owned()),
        _ => lookup(name),
    }
}

fn faithful(lookup: impl Fn(&str) -> Option<String>, mistakes: &mut Vec<String>) -> Option<Version> {
    lookup("RSCCL_FAITHFUL").and_then(|text| keep(Version::parse(&text), mistakes))
}

#[cfg(test)]
mod tests;
