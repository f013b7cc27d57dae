//! The environment: every setting, its default and why that default. Nothing else in the crate reads it.
//!
//! Read again at each communicator's init, so that a test or a launcher may change it between two; only the log's
//! settings are latched at the first line, as NCCL does.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::collective::algorithm::Algorithm;
use crate::error::{Error, Result};
use crate::faithful::Version;
use crate::topology::settings::{MachineSettings, TopologySettings};

/// How long init waits for peers, and how long a peer may be silent, before that is an error. 30 s is longer than any
/// scheduler hiccup and shorter than an engineer's patience. An operation may stand still for ever: a checkpoint of one rank
/// takes longer than any limit would allow for a hang.
const DEFAULT_TIMEOUT_S: u64 = 30;
/// `RSCCL_TIMEOUT_S=0`: three years, which every clock and every system call can add and count.
pub const FOREVER: Duration = Duration::from_secs(100_000_000);
/// Up to 1 MiB the hand-over to another thread costs more than the caller gains by going on meanwhile.
const DEFAULT_INLINE_BYTES: usize = 1 << 20;
/// One message of this size costs about as much as its system calls, so small operations do not pay for many channels.
const DEFAULT_CHANNEL_BYTES: usize = 64 * 1024;
/// Of a connection's buffer, as NCCL has them (`NCCL_STEPS`).
const STEPS: usize = 8;
/// NCCL's 4 MiB, and no more: transports take no larger steps.
const DEFAULT_BUFFER_BYTES: usize = 4 << 20;
const MIN_BUFFER_BYTES: usize = 8 << 10;
/// One socket per connection, since channels and NICs already have their own; whether more pay was not measured quietly.
const DEFAULT_SOCKETS: u8 = 1;
/// NCCL's limit on the sockets of one connection (`MAX_SOCKETS` in `net_socket.cc`).
const MAX_SOCKETS: u8 = 64;
/// Where Linux shows the machine.
const SYSFS: &str = "/sys";
/// Where network interfaces are in it.
const CLASS_NET: &str = "class/net";
/// Settings that are reported in the log when set, under the name they were set by.
const REPORTED: [&str; 29] = [
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
    /// `RSCCL_DETERMINISTIC=rank-order`: reductions reduce in the order of the (virtual) ranks, in the form that this has.
    pub(crate) rank_order: Option<Algorithm>,
    /// Whether ranks of one host share memory: unless `RSCCL_SHM_DISABLE` or `NCCL_SHM_DISABLE` is 1.
    pub(crate) shm: bool,
    /// `RSCCL_TUNING`: a file of rules that come before the built-in ones.
    pub(crate) tuning: Option<PathBuf>,
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
            machine: MachineSettings::parse(&lookup),
            socket_ifname: lookup("RSCCL_SOCKET_IFNAME"),
            min_channels: channel_count(
                &lookup,
                ["RSCCL_MIN_NCHANNELS", "NCCL_MIN_NCHANNELS"],
                &mut mistakes,
            ),
            max_channels: channel_count(
                &lookup,
                ["RSCCL_MAX_NCHANNELS", "NCCL_MAX_NCHANNELS"],
                &mut mistakes,
            ),
            n_sockets: socket_count(&lookup, &mut mistakes),
            timeout: if faithful.is_some() { FOREVER } else { timeout },
            stall_timeout: if faithful.is_some() { FOREVER } else { stall_timeout },
            faithful,
            inline_bytes: bytes(&lookup, "RSCCL_INLINE_BYTES", DEFAULT_INLINE_BYTES, &mut mistakes),
            channel_bytes: bytes(&lookup, "RSCCL_CHANNEL_BYTES", DEFAULT_CHANNEL_BYTES, &mut mistakes).max(1),
            step_bytes: step_bytes(&lookup, &mut mistakes),
            algorithm: wanted,
            rank_order: rank_order(&lookup, wanted, &mut mistakes),
            shm: !["RSCCL_SHM_DISABLE", "NCCL_SHM_DISABLE"].iter().any(|name| is_on(&lookup, name)),
            tuning: lookup("RSCCL_TUNING").map(PathBuf::from),
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

/// What was set, or else the default and a mistake more.
pub fn keep<T: Default>(parsed: std::result::Result<T, String>, mistakes: &mut Vec<String>) -> T {
    parsed.unwrap_or_else(|mistake| {
        mistakes.push(mistake);
        T::default()
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

fn channel_count(
    lookup: impl Fn(&str) -> Option<String>,
    names: [&str; 2],
    mistakes: &mut Vec<String>,
) -> Option<usize> {
    let (name, text) = names.iter().find_map(|name| lookup(name).map(|text| (*name, text)))?;
    let count = text.trim().parse::<usize>().ok().filter(|count| *count >= 1);
    if count.is_none() {
        mistakes.push(format!("{name}: \"{text}\" is not a number of channels (1 to 64)"));
    }
    count
}

fn socket_count(lookup: &impl Fn(&str) -> Option<String>, mistakes: &mut Vec<String>) -> u8 {
    let names = ["RSCCL_NSOCKS", "NCCL_NSOCKS_PERTHREAD"];
    let set = names.iter().find_map(|name| lookup(name).map(|text| (*name, text)));
    let Some((name, text)) = set else { return DEFAULT_SOCKETS };
    let count = text.trim().parse().ok().filter(|count| (1..=MAX_SOCKETS).contains(count));
    count.unwrap_or_else(|| {
        mistakes.push(format!("{name}: \"{text}\" is not a number of sockets (1 to {MAX_SOCKETS})"));
        DEFAULT_SOCKETS
    })
}

fn faithful(lookup: impl Fn(&str) -> Option<String>, mistakes: &mut Vec<String>) -> Option<Version> {
    lookup("RSCCL_FAITHFUL").and_then(|text| keep(Version::parse(&text), mistakes))
}

fn is_on(lookup: impl Fn(&str) -> Option<String>, name: &str) -> bool {
    lookup(name).as_deref() == Some("1")
}

/// A limit in seconds.
pub fn limit(
    lookup: impl Fn(&str) -> Option<String>,
    name: &str,
    default: Duration,
    mistakes: &mut Vec<String>,
) -> Duration {
    let Some(text) = lookup(name) else { return default };
    match text.trim().parse::<u64>() {
        Ok(0) => FOREVER,
        Ok(seconds) if seconds <= FOREVER.as_secs() => Duration::from_secs(seconds),
        _ => {
            mistakes.push(format!("{name}: \"{text}\" is not a number of seconds (0: no limit)"));
            default
        }
    }
}

fn bytes(
    lookup: &impl Fn(&str) -> Option<String>,
    name: &str,
    default: usize,
    mistakes: &mut Vec<String>,
) -> usize {
    let Some(text) = lookup(name) else { return default };
    text.trim().parse().unwrap_or_else(|_| {
        mistakes.push(format!("{name}: \"{text}\" is not a number of bytes"));
        default
    })
}

fn step_bytes(lookup: &impl Fn(&str) -> Option<String>, mistakes: &mut Vec<String>) -> usize {
    let own = lookup("RSCCL_BUFFSIZE").is_some();
    let name = if own { "RSCCL_BUFFSIZE" } else { "NCCL_BUFFSIZE" };
    bytes(lookup, name, DEFAULT_BUFFER_BYTES, mistakes).clamp(MIN_BUFFER_BYTES, DEFAULT_BUFFER_BYTES) / STEPS
}

fn algorithm(lookup: &impl Fn(&str) -> Option<String>, mistakes: &mut Vec<String>) -> Option<Algorithm> {
    let named = |text: &str| {
        let text = text.trim();
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(text))
    };
    let Some(text) = lookup("RSCCL_ALGO") else {
        // NCCL's is a list of what it may choose from, and most of what it can name needs a GPU. Its answer is asked for
        // only where it leaves no choice.
        let list = lookup("NCCL_ALGO")?;
        let mut known = list.split(',').filter_map(named);
        return known.next().filter(|first| known.all(|other| other == *first));
    };
    let found = named(&text);
    if found.is_none() {
        let names = Algorithm::ALL.map(Algorithm::name).join(", ");
        mistakes.push(format!("RSCCL_ALGO: \"{text}\" is none of {names}"));
    }
    found
}

/// Without a form it is that of `RSCCL_ALGO`, where that keeps an order, else the owner-sum.
fn rank_order(
    lookup: &impl Fn(&str) -> Option<String>,
    wanted: Option<Algorithm>,
    mistakes: &mut Vec<String>,
) -> Option<Algorithm> {
    let text = lookup("RSCCL_DETERMINISTIC")?;
    match text.trim() {
        "rank-order" => {
            let wanted = wanted.filter(|algorithm| algorithm.keeps_rank_order());
            Some(wanted.unwrap_or(Algorithm::Direct))
        }
        "rank-order:owner-sum" => Some(Algorithm::Direct),
        "rank-order:fixed-tree" => Some(Algorithm::FixedTree),
        _ => {
            mistakes.push(format!(
                "RSCCL_DETERMINISTIC: \"{text}\" is not rank-order, rank-order:owner-sum or rank-order:fixed-tree"
            ));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Settings> {
        Settings::parse(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn own_names_come_before_nccl_names() {
        let settings =
            parse(&[("RSCCL_MIN_NCHANNELS", "8"), ("NCCL_MIN_NCHANNELS", "4"), ("NCCL_MAX_NCHANNELS", "16")]);
        let settings = settings.unwrap();
        assert_eq!((settings.min_channels, settings.max_channels), (Some(8), Some(16)));
    }

    #[test]
    fn a_step_is_an_eighth_of_a_buffer_that_is_no_larger_than_by_default() {
        let step = |pairs: &[(&str, &str)]| parse(pairs).unwrap().step_bytes;
        assert_eq!(step(&[]), 512 * 1024);
        assert_eq!(step(&[("NCCL_BUFFSIZE", "524288")]), 64 * 1024);
        assert_eq!(step(&[("NCCL_BUFFSIZE", "524288"), ("RSCCL_BUFFSIZE", "65536")]), 8 * 1024);
        assert_eq!(
            (step(&[("NCCL_BUFFSIZE", "0")]), step(&[("NCCL_BUFFSIZE", "16777216")])),
            (1024, 512 * 1024)
        );
        assert!(parse(&[("NCCL_BUFFSIZE", "4M")]).is_err());
    }

    #[test]
    fn rank_order_is_the_only_determinism() {
        let order = |text: &'static str, algorithm: &'static str| {
            parse(&[("RSCCL_DETERMINISTIC", text), ("RSCCL_ALGO", algorithm)]).unwrap().rank_order
        };
        assert_eq!(parse(&[]).unwrap().rank_order, None);
        assert_eq!(order("rank-order", "tree"), Some(Algorithm::Direct));
        assert_eq!(order("rank-order", "fixed-tree"), Some(Algorithm::FixedTree));
        assert_eq!(order("rank-order:owner-sum", "fixed-tree"), Some(Algorithm::Direct));
        assert_eq!(order("rank-order:fixed-tree", "ring"), Some(Algorithm::FixedTree));
        let text = parse(&[("RSCCL_DETERMINISTIC", "1")]).unwrap_err().to_string();
        assert!(text.contains("RSCCL_DETERMINISTIC: \"1\" is not rank-order"), "{text}");
    }

    #[test]
    fn a_connection_has_one_socket_unless_it_is_told_how_many() {
        assert_eq!(parse(&[]).unwrap().n_sockets, 1);
        let both = [("NCCL_NSOCKS_PERTHREAD", "2"), ("RSCCL_NSOCKS", "4")];
        assert_eq!(parse(&both).unwrap().n_sockets, 4);
        assert_eq!(parse(&both[..1]).unwrap().n_sockets, 2);
        assert!(parse(&[("RSCCL_NSOCKS", "0")]).unwrap_err().to_string().contains("RSCCL_NSOCKS: \"0\""));
    }

    #[test]
    fn host_id_defaults_to_host() {
        let settings = parse(&[("RSCCL_HOST", "host-2")]).unwrap();
        assert_eq!((settings.host.as_str(), settings.host_id.as_str()), ("host-2", "host-2"));
    }

    #[test]
    fn a_made_up_machine_has_the_made_up_interfaces() {
        let paths = |pairs: &[(&str, &str)]| {
            let settings = parse(pairs).unwrap();
            (settings.sysfs.display().to_string(), settings.sysfs_net.display().to_string())
        };
        let check = |pairs: &[(&str, &str)], sysfs: &str, net: &str| {
            assert_eq!(paths(pairs), (sysfs.to_owned(), net.to_owned()));
        };
        check(&[], "/sys", "/sys/class/net");
        check(&[("RSCCL_SYSFS", "/a")], "/a", "/a/class/net");
        check(&[("RSCCL_SYSFS_NET", "/a/sys/class/net")], "/a/sys", "/a/sys/class/net");
        check(&[("RSCCL_SYSFS_NET", "/flat")], "/sys", "/flat");
    }

    #[test]
    fn nics_are_named_addresses() {
        let nics = parse(&[("RSCCL_NICS", "mlx5_0=127.0.2.1, mlx5_1=127.0.2.2")]).unwrap().nics.unwrap();
        let shown: Vec<_> = nics.iter().map(|nic| format!("{}@{}", nic.name, nic.address)).collect();
        assert_eq!(shown, ["mlx5_0@127.0.2.1", "mlx5_1@127.0.2.2"]);
    }

    #[test]
    fn no_timeout_is_a_long_one() {
        assert_eq!(parse(&[("RSCCL_TIMEOUT_S", "0")]).unwrap().timeout, FOREVER);
        let usual = parse(&[]).unwrap();
        assert_eq!((usual.timeout, usual.stall_timeout), (Duration::from_secs(30), FOREVER));
    }

    #[test]
    fn in_the_faithful_mode_nothing_times_out() {
        let limits = [("RSCCL_TIMEOUT_S", "2"), ("RSCCL_STALL_TIMEOUT_S", "2")];
        let settings = parse(&[&limits[..], &[("RSCCL_FAITHFUL", "2.30")]].concat()).unwrap();
        assert_eq!(settings.faithful, Some(Version::V2_30));
        assert_eq!((settings.timeout, settings.stall_timeout), (FOREVER, FOREVER));
        assert_eq!(parse(&[("RSCCL_FAITHFUL", "off")]).unwrap().faithful, None);
        assert!(parse(&[("RSCCL_FAITHFUL", "1")]).unwrap_err().to_string().contains("RSCCL_FAITHFUL: \"1\""));
    }

    #[test]
    fn nccls_list_of_algorithms_counts_where_it_leaves_no_choice() {
        let algorithm = |pairs: &[(&str, &str)]| parse(pairs).unwrap().algorithm;
        for (list, expected) in [
            ("Ring", Some(Algorithm::Ring)),
            ("tree,CollNetDirect", Some(Algorithm::Tree)),
            ("Ring,Tree", None),
            ("^Ring", None),
            ("NVLS", None),
        ] {
            assert_eq!(algorithm(&[("NCCL_ALGO", list)]), expected, "{list}");
        }
        assert_eq!(algorithm(&[("NCCL_ALGO", "Ring"), ("RSCCL_ALGO", "direct")]), Some(Algorithm::Direct));
    }

    #[test]
    fn all_mistakes_are_named_at_once() {
        let error =
            parse(&[("RSCCL_NICS", "mlx5_0"), ("RSCCL_TIMEOUT_S", "-1"), ("NCCL_MIN_NCHANNELS", "many")]);
        let text = error.unwrap_err().to_string();
        for name in ["RSCCL_NICS", "RSCCL_TIMEOUT_S", "NCCL_MIN_NCHANNELS"] {
            assert!(text.contains(name), "{text}");
        }
    }
}
