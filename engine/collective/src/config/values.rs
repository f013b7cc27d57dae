//! What the values of settings may be, and what is said of those that they may not.

use std::path::Path;
use std::time::Duration;

use crate::collective::algorithm::Algorithm;
use crate::collective::choose::TuningTable;
use crate::faithful::Version;

/// `RSCCL_TIMEOUT_S=0`: three years, which every clock and every system call can add and count.
pub const FOREVER: Duration = Duration::from_secs(100_000_000);
/// Of a connection's buffer, as NCCL has them (`NCCL_STEPS`).
const STEPS: usize = 8;
/// NCCL's 4 MiB, and no more: transports take no larger steps.
const DEFAULT_BUFFER_BYTES: usize = 4 << 20;
const MIN_BUFFER_BYTES: usize = 8 << 10;
/// One socket per connection, since channels and NICs already have their own; whether more pay was not measured quietly.
const DEFAULT_SOCKETS: u8 = 1;
/// NCCL's limit on the sockets of one connection (`MAX_SOCKETS` in `net_socket.cc`).
const MAX_SOCKETS: u8 = 64;
/// A number of channels that is none, by NCCL's rule.
const NO_COUNT: i64 = -2;

/// What was set, or else the default and a mistake more.
pub fn keep<T: Default>(parsed: Result<T, String>, mistakes: &mut Vec<String>) -> T {
    parsed.unwrap_or_else(|mistake| {
        mistakes.push(mistake);
        T::default()
    })
}

/// Of `RSCCL_…`, else of `NCCL_…`, where too small a number is 1 in the faithful mode, as it has that effect in NCCL
/// (`ncclMinNchannels` and `ncclMaxNchannels` in `src/graph/connect.cc`), but for -2, which stands for none there.
pub(super) fn channel_count(
    lookup: impl Fn(&str) -> Option<String>,
    name: &str,
    faithful: Option<Version>,
    mistakes: &mut Vec<String>,
) -> Option<usize> {
    let names = ["RSCCL", "NCCL"].map(|of| format!("{of}_{name}"));
    let (name, text) = names.into_iter().find_map(|name| lookup(&name).map(|text| (name, text)))?;
    if let (Some(_), true, Ok(count @ ..1)) = (faithful, name.starts_with("NCCL"), text.trim().parse::<i64>())
    {
        return (count != NO_COUNT).then_some(1);
    }
    let count = text.trim().parse::<usize>().ok().filter(|count| *count >= 1);
    if count.is_none() {
        mistakes.push(format!("{name}: \"{text}\" is not a number of channels (1 to 64)"));
    }
    count
}

pub(super) fn socket_count(lookup: &impl Fn(&str) -> Option<String>, mistakes: &mut Vec<String>) -> u8 {
    let names = ["RSCCL_NSOCKS", "NCCL_NSOCKS_PERTHREAD"];
    let set = names.iter().find_map(|name| lookup(name).map(|text| (*name, text)));
    let Some((name, text)) = set else { return DEFAULT_SOCKETS };
    let count = text.trim().parse().ok().filter(|count| (1..=MAX_SOCKETS).contains(count));
    count.unwrap_or_else(|| {
        mistakes.push(format!("{name}: \"{text}\" is not a number of sockets (1 to {MAX_SOCKETS})"));
        DEFAULT_SOCKETS
    })
}

pub(super) fn is_on(lookup: impl Fn(&str) -> Option<String>, name: &str) -> bool {
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

pub(super) fn bytes(
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

pub(super) fn step_bytes(lookup: &impl Fn(&str) -> Option<String>, mistakes: &mut Vec<String>) -> usize {
    let own = lookup("RSCCL_BUFFSIZE").is_some();
    let name = if own { "RSCCL_BUFFSIZE" } else { "NCCL_BUFFSIZE" };
    bytes(lookup, name, DEFAULT_BUFFER_BYTES, mistakes).clamp(MIN_BUFFER_BYTES, DEFAULT_BUFFER_BYTES) / STEPS
}

pub(super) fn algorithm(
    lookup: &impl Fn(&str) -> Option<String>,
    mistakes: &mut Vec<String>,
) -> Option<Algorithm> {
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

/// The value of `RSCCL_DETERMINISTIC` that sets an order.
pub(crate) fn rank_order_name(order: Algorithm) -> &'static str {
    if order == Algorithm::FixedTree { "rank-order:fixed-tree" } else { "rank-order:owner-sum" }
}

/// Without a form it is that of `RSCCL_ALGO`, where that keeps an order, else the owner-sum.
pub(super) fn rank_order(
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

pub(super) fn tuning(
    lookup: &impl Fn(&str) -> Option<String>,
    mistakes: &mut Vec<String>,
) -> Option<TuningTable> {
    lookup("RSCCL_TUNING").map(|path| keep(TuningTable::load(Path::new(&path)), mistakes))
}
