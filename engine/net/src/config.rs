//! The settings: NCCL's own, by their names, so that what is set for a cluster holds. Nothing else here reads the environment.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::OnceLock;

/// How long an answer is waited for: 4.096 µs × 2^20, 4.3 s; NCCL's since 2.23 (`ncclParamIbTimeout`).
const DEFAULT_TIMEOUT: u8 = 20;
/// The specification's most that is not for ever on some devices; NCCL asks for 7.
const MAX_RETRIES: u8 = 6;
/// From so many bytes on, adaptive routing may bring a write's packets in any order (`ncclParamIbArThreshold`).
const DEFAULT_AR_THRESHOLD: usize = 8192;
/// NCCL allows 128 (`NCCL_IB_MAX_QPS`); what is set beyond this counts as this.
pub(crate) const MAX_QUEUE_PAIRS: usize = 8;
/// Under which names launchers tell a process its rank in the job.
const RANKS: [&str; 6] =
    ["RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID"];

/// The settings of the process, read once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `NCCL_IB_DISABLE`: whether nothing is to be used.
    pub(crate) is_disabled: bool,
    /// `NCCL_IB_HCA`: which devices and ports.
    pub(crate) devices: Filter,
    /// `NCCL_SOCKET_IFNAME`: which interfaces the two ends meet over.
    pub(crate) interfaces: Filter,
    /// `NCCL_IB_GID_INDEX`: the place in the table; else the best one is looked for.
    pub(crate) gid_index: Option<u32>,
    /// `NCCL_IB_ROCE_VERSION_NUM`
    pub(crate) roce_version: u32,
    /// `NCCL_IB_ADDR_FAMILY`: whether IPv6.
    pub(crate) is_ipv6: bool,
    /// `NCCL_IB_ADDR_RANGE`: the net that the address lies in.
    pub(crate) range: Option<(IpAddr, u8)>,
    /// `NCCL_IB_TC`
    pub(crate) traffic_class: Option<u8>,
    /// `NCCL_IB_SL`
    pub(crate) service_level: Option<u8>,
    /// `NCCL_IB_PKEY`: the partition's place in the port's table.
    pub(crate) pkey_index: u16,
    /// `NCCL_IB_TIMEOUT`
    pub(crate) timeout: u8,
    /// `NCCL_IB_RETRY_CNT`
    pub(crate) retries: u8,
    /// `NCCL_IB_QPS_PER_CONNECTION`
    pub(crate) queue_pairs: usize,
    /// `NCCL_IB_SPLIT_DATA_ON_QPS`: whether each message takes all queue pairs, or they take turns.
    pub(crate) splits: bool,
    /// `NCCL_IB_ADAPTIVE_ROUTING`; without it InfiniBand has it and Ethernet has not.
    pub(crate) adaptive_routing: Option<bool>,
    /// `NCCL_IB_AR_THRESHOLD`
    pub(crate) ar_threshold: usize,
    /// `NCCL_IB_PCI_RELAXED_ORDERING` = 1
    pub(crate) relaxed_ordering: bool,
    /// `RINGSCOPE_DIR`: where an agent looks.
    pub(crate) folder: Option<PathBuf>,
    /// The process's rank in its job, as its launcher says it; -1 where none does.
    pub(crate) global_rank: i32,
    /// Values that make no sense, and what stands in for them.
    pub(crate) mistakes: Vec<String>,
}

/// NCCL's list of names: `mlx5_0:1,mlx5_1`, `^` for all but these, `=` for whole names in place of beginnings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    excludes: bool,
    is_exact: bool,
    names: Vec<(String, Option<u32>)>,
}

/// The process's.
pub(crate) fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| Settings::parse(read))
}

#[expect(clippy::disallowed_methods, reason = "this module is where the environment is read")]
fn read(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Settings {
    /// From `lookup`. What makes no sense is noted and its default taken, as NCCL does.
    pub(crate) fn parse(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let mut mistakes = Vec::new();
        let mut number = |name: &str, most: i64, default: i64| {
            let Some(text) = lookup(name) else { return default };
            match integer(text.trim()) {
                Some(value) if (-1..=most).contains(&value) => value,
                _ => {
                    mistakes.push(format!(
                        "{name}: \"{text}\" is no number up to {most}, and is as if it were not set"
                    ));
                    default
                }
            }
        };
        let byte = |value: i64| u8::try_from(value).unwrap_or(0);
        let settings = Self {
            is_disabled: number("NCCL_IB_DISABLE", 1, 0) == 1,
            gid_index: u32::try_from(number("NCCL_IB_GID_INDEX", 255, -1)).ok(),
            roce_version: u32::try_from(number("NCCL_IB_ROCE_VERSION_NUM", 2, 2)).unwrap_or(2),
            traffic_class: u8::try_from(number("NCCL_IB_TC", 255, -1)).ok(),
            service_level: u8::try_from(number("NCCL_IB_SL", 15, -1)).ok(),
            pkey_index: u16::try_from(number("NCCL_IB_PKEY", 65_535, 0)).unwrap_or(0),
            timeout: byte(number("NCCL_IB_TIMEOUT", 31, i64::from(DEFAULT_TIMEOUT))),
            retries: byte(number("NCCL_IB_RETRY_CNT", 7, i64::from(MAX_RETRIES))).min(MAX_RETRIES),
            queue_pairs: usize::try_from(number("NCCL_IB_QPS_PER_CONNECTION", 128, 1))
                .unwrap_or(1)
                .clamp(1, MAX_QUEUE_PAIRS),
            splits: number("NCCL_IB_SPLIT_DATA_ON_QPS", 1, 0) == 1,
            adaptive_routing: match number("NCCL_IB_ADAPTIVE_ROUTING", 1, -1) {
                0 => Some(false),
                1 => Some(true),
                _ => None,
            },
            ar_threshold: usize::try_from(number(
                "NCCL_IB_AR_THRESHOLD",
                i64::MAX,
                i64::try_from(DEFAULT_AR_THRESHOLD).unwrap_or(0),
            ))
            .unwrap_or(DEFAULT_AR_THRESHOLD),
            relaxed_ordering: number("NCCL_IB_PCI_RELAXED_ORDERING", 2, 0) == 1,
            devices: lookup("NCCL_IB_HCA").map(|text| Filter::parse(&text)).unwrap_or_default(),
            interfaces: lookup("NCCL_SOCKET_IFNAME").map(|text| Filter::parse(&text)).unwrap_or_default(),
            is_ipv6: lookup("NCCL_IB_ADDR_FAMILY").is_some_and(|text| text.trim() == "AF_INET6"),
            range: lookup("NCCL_IB_ADDR_RANGE").and_then(|text| range(&text)),
            folder: lookup("RINGSCOPE_DIR").map(PathBuf::from),
            global_rank: RANKS.iter().find_map(|name| lookup(name)?.trim().parse().ok()).unwrap_or(-1),
            mistakes: Vec::new(),
        };
        let mut odd = |name: &str, is_odd: fn(&str) -> bool, what: &str| {
            let said = lookup(name).filter(|text| is_odd(text.trim()));
            mistakes.extend(said.map(|text| format!("{name}: \"{text}\" {what}")));
        };
        let many = |text: &str| {
            integer(text)
                .is_some_and(|count| usize::try_from(count).is_ok_and(|count| count > MAX_QUEUE_PAIRS))
        };
        odd("NCCL_IB_QPS_PER_CONNECTION", many, "is too many: 8 are used");
        let family = |text: &str| !["AF_INET", "AF_INET6"].contains(&text);
        odd("NCCL_IB_ADDR_FAMILY", family, "is neither AF_INET nor AF_INET6: AF_INET is taken");
        odd(
            "NCCL_IB_ADDR_RANGE",
            |text| range(text).is_none(),
            "is no net such as 10.0.0.0/8: all are taken",
        );
        Self { mistakes, ..settings }
    }
}

/// As NCCL reads numbers (`strtoll` with base 0): decimal, 0x…, 0….
fn integer(text: &str) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let value = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(hex) => i64::from_str_radix(hex, 16),
        None if digits.len() > 1 && digits.starts_with('0') => i64::from_str_radix(digits, 8),
        None => digits.parse(),
    };
    value.ok().map(|value| sign * value)
}

fn range(text: &str) -> Option<(IpAddr, u8)> {
    let (net, bits) = text.trim().split_once('/')?;
    Some((net.parse().ok()?, bits.parse().ok()?))
}

impl Filter {
    fn parse(text: &str) -> Self {
        let text = text.trim();
        let (excludes, rest) = text.strip_prefix('^').map_or((false, text), |rest| (true, rest));
        let (is_exact, rest) = rest.strip_prefix('=').map_or((false, rest), |rest| (true, rest));
        let name = |part: &str| match part.split_once(':') {
            Some((name, port)) => (name.to_owned(), port.parse().ok()),
            None => (part.to_owned(), None),
        };
        let parts = rest.split(',').map(str::trim).filter(|part| !part.is_empty());
        Self { excludes, is_exact, names: parts.map(name).collect() }
    }

    /// Whether a name is wanted; a port is looked at where the list names one.
    pub(crate) fn takes(&self, name: &str, port: Option<u32>) -> bool {
        let is = |wanted: &str| if self.is_exact { name == wanted } else { name.starts_with(wanted) };
        // Of a device as a whole, to leave out one of its ports says nothing.
        let on = |wanted: Option<u32>| match (wanted, port) {
            (Some(_), None) => !self.excludes,
            (Some(wanted), Some(port)) => wanted == port,
            (None, _) => true,
        };
        let is_listed = self.names.iter().any(|(wanted, of)| is(wanted) && on(*of));
        self.names.is_empty() || is_listed != self.excludes
    }

    /// Whether nothing was named.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let find = |name: &str| pairs.iter().find(|(known, _)| *known == name);
        Settings::parse(|name| find(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn nothing_set_is_what_nccl_takes() {
        let all = settings(&[]);
        assert_eq!((all.timeout, all.retries, all.queue_pairs, all.splits), (20, 6, 1, false));
        assert_eq!((all.gid_index, all.roce_version, all.traffic_class), (None, 2, None));
        assert_eq!((all.ar_threshold, all.adaptive_routing, all.global_rank), (8192, None, -1));
        assert!(all.mistakes.is_empty() && !all.is_disabled && all.devices.takes("any", Some(1)));
    }

    #[test]
    fn nccls_names_are_understood() {
        let all = settings(&[
            ("NCCL_IB_TC", "0x6a"),
            ("NCCL_IB_SL", "3"),
            ("NCCL_IB_GID_INDEX", "3"),
            ("NCCL_IB_QPS_PER_CONNECTION", "4"),
            ("NCCL_IB_SPLIT_DATA_ON_QPS", "1"),
            ("NCCL_IB_ADDR_RANGE", "10.9.0.0/16"),
            ("SLURM_PROCID", "7"),
            ("NCCL_IB_TIMEOUT", "many"),
            ("NCCL_IB_ADDR_FAMILY", "IPv4"),
        ]);
        assert_eq!((all.traffic_class, all.service_level, all.gid_index), (Some(106), Some(3), Some(3)));
        assert_eq!((all.queue_pairs, all.splits, all.global_rank), (4, true, 7));
        assert_eq!(all.range, Some(("10.9.0.0".parse().unwrap(), 16)));
        assert_eq!(
            all.mistakes,
            [
                "NCCL_IB_TIMEOUT: \"many\" is no number up to 31, and is as if it were not set",
                "NCCL_IB_ADDR_FAMILY: \"IPv4\" is neither AF_INET nor AF_INET6: AF_INET is taken"
            ]
        );
        let all = settings(&[("NCCL_IB_QPS_PER_CONNECTION", "99"), ("NCCL_IB_ADDR_RANGE", "10.0.0.0")]);
        assert_eq!((all.queue_pairs, all.mistakes.len()), (8, 2), "{:?}", all.mistakes);
    }

    #[test]
    fn lists_of_devices_are_nccls() {
        for (list, taken) in [
            ("mlx5", [true, true, true, false]),
            ("mlx5_1", [false, true, true, false]),
            ("=mlx5_1", [false, true, false, false]),
            ("^mlx5_1", [true, false, false, true]),
            ("^=mlx5_1", [true, false, true, true]),
            ("mlx5_0:1,rxe0", [true, false, false, true]),
            ("mlx5_0:2", [false; 4]),
        ] {
            let filter = Filter::parse(list);
            let found = ["mlx5_0", "mlx5_1", "mlx5_11", "rxe0"].map(|name| filter.takes(name, Some(1)));
            assert_eq!(found, taken, "{list}");
        }
        let but_a_port = Filter::parse("^mlx5_0:1");
        assert!(but_a_port.takes("mlx5_0", None) && but_a_port.takes("mlx5_0", Some(2)));
        assert!(!but_a_port.takes("mlx5_0", Some(1)));
    }
}
