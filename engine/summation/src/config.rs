//! The settings of a summation group.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::gpu::DEFAULT_STAGING_BYTES;
use crate::server::sums::Mode;
use crate::tensor::{DEFAULT_PARTITION_BYTES, MIN_PARTITION_BYTES};
use rsccl_collective::config::{FOREVER, Settings, keep, limit, read};
use rsccl_collective::error::{Error, Result};

/// Where a worker meets nobody: it is alone in its group.
const ALONE: &str = "127.0.0.1:0";

/// Half a minute is more than a slow step, and soon enough for who looks why nothing moves.
const DEFAULT_WARNING: Duration = Duration::from_secs(30);
/// A job that has not come to its servers by then has gone wrong, and they hold machines.
const DEFAULT_IDLE: Duration = Duration::from_secs(3600);
/// Threads that add in a summation service: one sums some ten times what a NIC of 10 Gbit/s brings, so a second one is for
/// faster NICs, and all other cores are the training's.
const DEFAULT_ADDING_THREADS: usize = 2;
/// Below this a tensor with a codec is sent as it is: over 1 Gbit/s nothing is saved at half of it, and half of the time at it
/// (`BENCHMARKS.md`). BytePS's default too (`BYTEPS_MIN_COMPRESS_BYTES`).
const DEFAULT_COMPRESSION_MIN_BYTES: u64 = 65_536;
/// More threads than any machine has memory channels for.
const MAX_ADDING_THREADS: usize = 256;
/// A fingerprint reads a result once more, at 7 GB/s where it comes from memory on a busy core: of one in sixteen that takes
/// less than a percent of a step even where parts come over loopback, and every part is looked at every few steps.
const DEFAULT_FINGERPRINTS: u64 = 16;
/// Of a group's settings, those that the log shows where they are set.
const REPORTED: [&str; 5] =
    ["RSUM_THREADS", "RSUM_KEPT_BYTES", "RSUM_LOCAL", "RSUM_WARN_S", "RSUM_TIMEOUT_S"];

/// Much more than workers that keep step need, which is n times what each has on its way; and little of a machine's memory.
const DEFAULT_KEPT_BYTES: usize = 1 << 30;

/// As long as torch's process groups wait by default: longer than most workers validate or save alone, and a job whose worker
/// hangs ends before the night is over.
const DEFAULT_END: Duration = Duration::from_secs(30 * 60);

/// How long a round may wait for a worker. Only who wrote the training knows how long a worker may be busy alone: it sets more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitLimits {
    /// `RSUM_WARN_S`: after so long the log says for whom.
    pub(crate) warning: Duration,
    /// `RSUM_TIMEOUT_S`: after so long the group fails.
    pub(crate) end: Duration,
}

impl WaitLimits {
    /// From `lookup`.
    fn parse(lookup: &impl Fn(&str) -> Option<String>, mistakes: &mut Vec<String>) -> Self {
        Self {
            warning: limit(lookup, "RSUM_WARN_S", DEFAULT_WARNING, mistakes),
            end: limit(lookup, "RSUM_TIMEOUT_S", DEFAULT_END, mistakes),
        }
    }
}

/// What a process is told of its group.
#[derive(Clone, Debug)]
pub(crate) struct SummationSettings {
    /// `RSUM_ROOT`: host and port at which the processes meet, or several that are looked at in turn.
    pub(crate) roots: Vec<String>,
    /// `RSUM_SECRET`. May be empty where all roots are on loopback.
    pub(crate) secret: String,
    /// `RSUM_WORKERS`, else `WORLD_SIZE`.
    pub(crate) n_workers: Option<usize>,
    /// `RSUM_SERVERS`.
    pub(crate) n_servers: Option<usize>,
    /// `RSUM_RANK`, else `RANK`.
    pub(crate) worker: Option<usize>,
    /// `RSUM_PARTITION_BYTES`
    pub(crate) partition_bytes: u64,
    /// `RSUM_NIC_MBIT_S`
    pub(crate) nic_mbit: Option<u64>,
    /// `RSUM_MEASURE`: whether the rates of NICs are measured where nobody was told.
    pub(crate) measures: bool,
    /// `RSUM_STAGING_BYTES`
    pub(crate) staging_bytes: u64,
    /// `RSUM_COMPRESSION_MIN_BYTES`: the fewest bytes of a tensor whose codec is used, where its options say nothing.
    pub(crate) compression_min_bytes: u64,
    /// `RSUM_ON_LOSS`: whether the others may go on.
    pub(crate) continues: bool,
    /// `RSUM_IDLE_S`: how long a server waits for its first group; none: without limit.
    pub(crate) idle: Option<Duration>,
    /// `RSUM_ASYNC` and `RSUM_STALENESS`, if they are set.
    pub(crate) mode: Option<Mode>,
    /// `RSUM_NET`: `verbs` or `socket`, in place of `RSCCL_NET`.
    pub(crate) network: Option<String>,
    /// `RSUM_POOL`: a pool that lends the job its servers; `RSUM_SERVERS` is how many it takes at most.
    pub(crate) pool: Option<PoolSettings>,
    /// `RSUM_JOB`: the job's name there, else what `RSUM_ROOT` says.
    pub(crate) job: String,
    /// Of every group that it is in.
    pub(crate) group: GroupSettings,
}

/// How a pool of servers is reached.
#[derive(Clone, Debug)]
pub(crate) struct PoolSettings {
    /// Host and port of its broker.
    pub(crate) address: String,
    /// `RSUM_SECRET`, which its servers and jobs share.
    pub(crate) secret: String,
}

impl PoolSettings {
    /// `RSUM_POOL`, from the process's environment.
    pub(crate) fn from_env() -> Result<Self> {
        let address = read("RSUM_POOL").unwrap_or_default();
        if !is_address(&address) {
            let text =
                format!("RSUM_POOL: \"{address}\" is not HOST:PORT, where ringscope-sumd --broker listens");
            return Err(Error::InvalidUsage(text));
        }
        Ok(Self { secret: pool_secret(&address)?, address })
    }
}

/// The secret of a pool with this address, from the process's environment.
pub(crate) fn pool_secret(address: &str) -> Result<String> {
    let mut reader = Reader { lookup: read, mistakes: Vec::new() };
    let secret = reader.secret(&[address.to_owned()]);
    if reader.mistakes.is_empty() { Ok(secret) } else { Err(Error::InvalidUsage(reader.mistakes.join("; "))) }
}

/// How a process sums in a group, beside the settings of the group's communicator.
#[derive(Clone, Debug)]
pub(crate) struct GroupSettings {
    /// `RSUM_THREADS`, else the lesser of two and the cores; with 0 a service adds on the thread that moves its bytes.
    pub(crate) adding_threads: usize,
    /// `RSUM_KEPT_BYTES`: of contributions that wait for others at a service.
    pub(crate) kept_bytes: usize,
    /// `RSUM_LOCAL`: whether the workers of a host sum their contributions first.
    pub(crate) local_sums: LocalSums,
    /// `RSUM_WARN_S`, `RSUM_TIMEOUT_S`.
    pub(crate) wait_limits: WaitLimits,
    /// `RSUM_OBSERVER`: a library that watches summation groups.
    pub(crate) observer: Option<String>,
    /// `RSUM_FINGERPRINTS`: where a group is watched, its workers look at one of so many results that they pull; 0: at none.
    pub(crate) fingerprints: u64,
    /// `RSUM_TIMELINE`: a folder for files that say when each part was where.
    pub(crate) timeline: Option<PathBuf>,
    /// Name and value of each that is set and that the log shows.
    pub(crate) reported: Vec<(String, String)>,
}

/// Whether the workers of a host sum their contributions before the host's sum goes to the owner of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LocalSums {
    /// Where that saves bytes between hosts: there are several, and one of them has several workers.
    #[default]
    Auto,
    /// Always; on one host alone its workers then own all parts.
    On,
    /// Never.
    Off,
}

impl SummationSettings {
    /// A worker's, from the process's environment.
    pub(crate) fn worker_from_env() -> Result<Self> {
        Self::parse(read, true)
    }

    /// A server's, from the process's environment.
    pub(crate) fn server_from_env() -> Result<Self> {
        Self::parse(read, false)
    }

    /// The same of a server that a pool lends to jobs, which say where they meet.
    pub(crate) fn lent_from_env(pool: &str) -> Result<Self> {
        let lookup = |name: &str| if name == "RSUM_ROOT" { Some(pool.to_owned()) } else { read(name) };
        Self::parse(lookup, false)
    }

    /// From `lookup`; all mistakes are reported at once.
    fn parse(lookup: impl Fn(&str) -> Option<String>, is_worker: bool) -> Result<Self> {
        let mut reader = Reader { lookup, mistakes: Vec::new() };
        let launched =
            |own: &'static str, launcher: &'static str| if is_worker { [own, launcher] } else { [own, own] };
        let n_workers = reader.number(launched("RSUM_WORKERS", "WORLD_SIZE"), 1, "a number of workers");
        let worker = reader.number(launched("RSUM_RANK", "RANK"), 0, "the number of a worker");
        let n_servers = reader.number(["RSUM_SERVERS"; 2], 0, "a number of servers");
        let bytes =
            reader.number(["RSUM_PARTITION_BYTES"; 2], MIN_PARTITION_BYTES, "bytes of a part, 8 at least");
        let nic_mbit = reader.number(["RSUM_NIC_MBIT_S"; 2], 1, "a rate in Mbit/s");
        let staging = ["RSUM_STAGING_BYTES"; 2];
        let staging_bytes = reader.number(staging, 1 << 16, "bytes of pinned memory, 65536 at least");
        let compressed = reader.number(["RSUM_COMPRESSION_MIN_BYTES"; 2], 0, "bytes of a tensor, 0 or more");
        let continues = reader.continues();
        let measures = reader.measures();
        if is_worker {
            reader.check_worker(n_workers, worker);
        }
        let roots = reader.roots(is_worker && n_workers == Some(1) && n_servers.unwrap_or(0) == 0);
        let secret = reader.secret(&roots);
        let mode = reader.mode();
        let Reader { lookup, mut mistakes } = reader;
        let pool = lookup("RSUM_POOL").filter(|_| is_worker);
        let pool = pool.map(|address| PoolSettings { address, secret: secret.clone() });
        if let Some(PoolSettings { address, .. }) = pool.as_ref().filter(|pool| !is_address(&pool.address)) {
            mistakes.push(format!(
                "RSUM_POOL: \"{address}\" is not HOST:PORT, where ringscope-sumd --broker listens"
            ));
        }
        if pool.is_some() && mode.unwrap_or_default() != Mode::Rounds {
            mistakes.push("RSUM_POOL: servers are lent to synchronous sums alone".to_owned());
        }
        let job = lookup("RSUM_JOB").unwrap_or_else(|| roots.join(","));
        let idle = limit(&lookup, "RSUM_IDLE_S", DEFAULT_IDLE, &mut mistakes);
        let network = lookup("RSUM_NET");
        let group = GroupSettings::read(&lookup, &mut mistakes);
        if !mistakes.is_empty() {
            return Err(Error::InvalidUsage(mistakes.join("; ")));
        }
        let to_usize = |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok());
        Ok(Self {
            roots,
            secret,
            n_workers: to_usize(n_workers),
            n_servers: to_usize(n_servers),
            worker: to_usize(worker),
            partition_bytes: bytes.unwrap_or(DEFAULT_PARTITION_BYTES),
            nic_mbit,
            measures,
            staging_bytes: staging_bytes.unwrap_or(DEFAULT_STAGING_BYTES),
            compression_min_bytes: compressed.unwrap_or(DEFAULT_COMPRESSION_MIN_BYTES),
            continues,
            idle: (idle != FOREVER).then_some(idle),
            mode,
            network,
            pool,
            job,
            group,
        })
    }

    /// What the group's processes talk over, where it is not what the collectives have.
    pub(crate) fn over_network(&self, comm: Settings) -> Result<Settings> {
        match &self.network {
            Some(value) => comm.over("RSUM_NET", value),
            None => Ok(comm),
        }
    }
}

impl GroupSettings {
    /// From the process's environment.
    pub(crate) fn from_env() -> Result<Self> {
        Self::parse(read)
    }

    /// From `lookup`; all mistakes are reported at once.
    pub(crate) fn parse(lookup: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let mut mistakes = Vec::new();
        let settings = Self::read(&lookup, &mut mistakes);
        if mistakes.is_empty() { Ok(settings) } else { Err(Error::InvalidUsage(mistakes.join("; "))) }
    }

    fn read(lookup: &impl Fn(&str) -> Option<String>, mistakes: &mut Vec<String>) -> Self {
        let set = |name: &str| lookup(name).map(|value| (name.to_owned(), value));
        Self {
            adding_threads: adding_threads(lookup, mistakes),
            kept_bytes: kept_bytes(lookup, mistakes),
            local_sums: LocalSums::parse(lookup, mistakes),
            wait_limits: WaitLimits::parse(lookup, mistakes),
            observer: lookup("RSUM_OBSERVER"),
            fingerprints: fingerprints(lookup, mistakes),
            timeline: lookup("RSUM_TIMELINE").filter(|folder| !folder.is_empty()).map(PathBuf::from),
            reported: REPORTED.into_iter().filter_map(set).collect(),
        }
    }
}

impl LocalSums {
    /// From `lookup`.
    fn parse(lookup: impl Fn(&str) -> Option<String>, mistakes: &mut Vec<String>) -> Self {
        match lookup("RSUM_LOCAL").as_deref().map(str::trim) {
            None | Some("auto") => Self::Auto,
            Some("on") => Self::On,
            Some("off") => Self::Off,
            Some(text) => {
                mistakes.push(format!("RSUM_LOCAL: \"{text}\" is neither auto nor on nor off"));
                Self::Auto
            }
        }
    }
}

fn adding_threads(lookup: &impl Fn(&str) -> Option<String>, mistakes: &mut Vec<String>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let Some(text) = lookup("RSUM_THREADS") else { return DEFAULT_ADDING_THREADS.min(cores()) };
    let count = text.trim().parse().ok().filter(|count| *count <= MAX_ADDING_THREADS);
    count.unwrap_or_else(|| {
        mistakes
            .push(format!("RSUM_THREADS: \"{text}\" is not a number of threads (0 to {MAX_ADDING_THREADS})"));
        0
    })
}

fn kept_bytes(lookup: impl Fn(&str) -> Option<String>, mistakes: &mut Vec<String>) -> usize {
    let Some(text) = lookup("RSUM_KEPT_BYTES") else { return DEFAULT_KEPT_BYTES };
    let wrong = |_| format!("RSUM_KEPT_BYTES: \"{text}\" is not a number of bytes, 0 or more");
    keep(text.trim().parse().map_err(wrong), mistakes)
}

fn fingerprints(lookup: impl Fn(&str) -> Option<String>, mistakes: &mut Vec<String>) -> u64 {
    let Some(text) = lookup("RSUM_FINGERPRINTS") else { return DEFAULT_FINGERPRINTS };
    let wrong = |_| format!("RSUM_FINGERPRINTS: \"{text}\" is not a number of results, 0 or more");
    keep(text.trim().parse().map_err(wrong), mistakes)
}

/// Whether that is a host and a port.
fn is_address(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

struct Reader<L> {
    lookup: L,
    mistakes: Vec<String>,
}

impl<L: Fn(&str) -> Option<String>> Reader<L> {
    fn number(&mut self, names: [&'static str; 2], least: u64, what: &str) -> Option<u64> {
        let (name, text) = names.into_iter().find_map(|name| (self.lookup)(name).map(|text| (name, text)))?;
        let number = text.trim().parse().ok().filter(|number| *number >= least);
        if number.is_none() {
            self.mistakes.push(format!("{name}: \"{text}\" is not {what}"));
        }
        number
    }

    fn check_worker(&mut self, n_workers: Option<u64>, worker: Option<u64>) {
        match (n_workers, worker) {
            (Some(n_workers), Some(worker)) if worker < n_workers => {}
            (Some(n_workers), Some(worker)) => {
                let text = format!("RSUM_RANK: there is no worker {worker} among {n_workers} (RSUM_WORKERS)");
                self.mistakes.push(text);
            }
            _ if self.mistakes.is_empty() => {
                let text = "RSUM_WORKERS and RSUM_RANK, or WORLD_SIZE and RANK: set how many workers there are, and which this is";
                self.mistakes.push(text.to_owned());
            }
            _ => {}
        }
    }

    fn roots(&mut self, is_alone: bool) -> Vec<String> {
        let roots =
            (self.lookup)("RSUM_ROOT").or_else(|| is_alone.then(|| ALONE.to_owned())).unwrap_or_default();
        let roots: Vec<String> = roots.split(',').map(|root| root.trim().to_owned()).collect();
        if let Some(root) = roots.iter().find(|root| !is_address(root)) {
            let text = format!(
                "RSUM_ROOT: \"{root}\" is not HOST:PORT, where the processes meet, such as 10.0.0.1:4700; several are separated by commas"
            );
            self.mistakes.push(text);
        }
        roots
    }

    fn secret(&mut self, roots: &[String]) -> String {
        let is_here = roots.iter().all(|root| {
            let host = root.rsplit_once(':').map_or(root.as_str(), |(host, _)| host).trim_matches(['[', ']']);
            host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        });
        let secret = (self.lookup)("RSUM_SECRET");
        if secret.is_none() && !is_here {
            let text = "RSUM_SECRET: set a text that only the processes of the job know";
            self.mistakes.push(text.to_owned());
        }
        secret.unwrap_or_default()
    }

    fn measures(&mut self) -> bool {
        match (self.lookup)("RSUM_MEASURE").as_deref().map(str::trim) {
            None | Some("1") => true,
            Some("0") => false,
            Some(text) => {
                self.mistakes.push(format!("RSUM_MEASURE: \"{text}\" is neither 0 nor 1"));
                true
            }
        }
    }

    fn continues(&mut self) -> bool {
        match (self.lookup)("RSUM_ON_LOSS").as_deref() {
            None | Some("stop") => false,
            Some("continue") => true,
            Some(text) => {
                self.mistakes.push(format!("RSUM_ON_LOSS: \"{text}\" is neither stop nor continue"));
                false
            }
        }
    }

    fn mode(&mut self) -> Option<Mode> {
        let max_ahead = self.number(["RSUM_STALENESS"; 2], 0, "a number of rounds");
        let mode = (self.lookup)("RSUM_ASYNC").map(|text| match text.trim() {
            "0" => Mode::Rounds,
            "1" => Mode::Store { max_ahead },
            _ => {
                self.mistakes.push(format!("RSUM_ASYNC: \"{text}\" is neither 0 nor 1"));
                Mode::Rounds
            }
        });
        if max_ahead.is_some() && mode.unwrap_or_default() == Mode::Rounds {
            self.mistakes.push("RSUM_STALENESS: that is for RSUM_ASYNC=1 alone".to_owned());
        }
        mode
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)], is_worker: bool) -> Result<SummationSettings> {
        let lookup =
            |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        SummationSettings::parse(lookup, is_worker)
    }

    #[test]
    fn a_launchers_names_stand_in() {
        let settings =
            parse(&[("WORLD_SIZE", "4"), ("RANK", "3"), ("RSUM_ROOT", "127.0.0.1:47")], true).unwrap();
        assert_eq!((settings.n_workers, settings.worker), (Some(4), Some(3)));
        let settings = parse(&[("WORLD_SIZE", "4"), ("RANK", "7"), ("RSUM_ROOT", "127.0.0.1:47")], false);
        assert_eq!(settings.unwrap().n_workers, None);
    }

    #[test]
    fn who_is_alone_needs_no_root() {
        let settings = parse(&[("RSUM_WORKERS", "1"), ("RSUM_RANK", "0")], true).unwrap();
        assert_eq!(settings.roots, [ALONE]);
        assert!(parse(&[("RSUM_WORKERS", "1"), ("RSUM_RANK", "0"), ("RSUM_SERVERS", "1")], true).is_err());
    }

    #[test]
    fn sums_are_synchronous_unless_that_is_set() {
        let mode = |pairs: &[(&str, &str)]| {
            let alone = [("RSUM_WORKERS", "1"), ("RSUM_RANK", "0")];
            parse(&[&alone, pairs].concat(), true).unwrap().mode
        };
        assert_eq!((mode(&[]), mode(&[("RSUM_ASYNC", "0")])), (None, Some(Mode::Rounds)));
        assert_eq!(mode(&[("RSUM_ASYNC", "1")]), Some(Mode::Store { max_ahead: None }));
        let bounded = mode(&[("RSUM_ASYNC", "1"), ("RSUM_STALENESS", "0")]);
        assert_eq!(bounded, Some(Mode::Store { max_ahead: Some(0) }));
    }

    #[test]
    fn a_wait_ends_after_half_an_hour_unless_that_is_set() {
        let end = |text: Option<&str>| {
            let lookup = |name: &str| text.filter(|_| name == "RSUM_TIMEOUT_S").map(str::to_owned);
            GroupSettings::parse(lookup).unwrap().wait_limits.end
        };
        assert_eq!((end(None).as_secs(), end(Some("7")).as_secs()), (1800, 7));
        assert_eq!(end(Some("0")), FOREVER);
    }

    #[test]
    fn hosts_sum_first_where_that_saves_bytes_unless_it_is_set() {
        let local = |text: &str| {
            let mut mistakes = Vec::new();
            let set = Some(text.to_owned()).filter(|text| !text.is_empty());
            (LocalSums::parse(|_| set.clone(), &mut mistakes), mistakes.len())
        };
        assert_eq!((local(""), local("auto")), ((LocalSums::Auto, 0), (LocalSums::Auto, 0)));
        assert_eq!((local("on"), local("off")), ((LocalSums::On, 0), (LocalSums::Off, 0)));
        assert_eq!(local("1").1, 1);
    }

    #[test]
    fn a_group_shows_what_was_set_and_a_communicator_without_one_does_not_look() {
        let set = |name: &str| match name {
            "RSUM_THREADS" => Some("many".to_owned()),
            "RSUM_LOCAL" => Some("off".to_owned()),
            _ => None,
        };
        assert!(GroupSettings::parse(set).unwrap_err().to_string().contains("RSUM_THREADS: \"many\""));
        assert_eq!(Settings::parse(set).unwrap().reported, []);
        let group = GroupSettings::parse(|name| set(name).filter(|_| name == "RSUM_LOCAL")).unwrap();
        assert_eq!(group.reported, [("RSUM_LOCAL".to_owned(), "off".to_owned())]);
    }

    #[test]
    fn all_mistakes_are_named_at_once() {
        let pairs = [
            ("RSUM_WORKERS", "2"),
            ("RSUM_RANK", "2"),
            ("RSUM_ROOT", "10.0.0.1"),
            ("RSUM_PARTITION_BYTES", "7"),
            ("RSUM_ON_LOSS", "weep"),
            ("RSUM_ASYNC", "yes"),
            ("RSUM_STALENESS", "3"),
            ("RSUM_THREADS", "many"),
            ("RSUM_FINGERPRINTS", "-1"),
        ];
        let text = parse(&pairs, true).unwrap_err().to_string();
        let last = ["RSUM_ON_LOSS", "RSUM_ASYNC", "RSUM_STALENESS", "RSUM_THREADS", "RSUM_FINGERPRINTS"];
        for name in ["RSUM_RANK", "RSUM_ROOT", "RSUM_SECRET", "RSUM_PARTITION_BYTES"].into_iter().chain(last)
        {
            assert!(text.contains(name), "{text}");
        }
        let text = parse(&[], true).unwrap_err().to_string();
        assert!(text.contains("RSUM_WORKERS") && text.contains("RSUM_ROOT"), "{text}");
    }
}
