//! The table of messages, by version. Source of the forms: NCCL 2.5 to 2.32 `src/init.cc`, `src/graph/*.cc`,
//! `src/transport/*.cc`; RCCL where it words them otherwise. The first row that fits wins, so the narrower of two comes
//! first.

use super::facts::{End, Hop};
use super::init_line::{InitLine, fields};
use super::pattern::{Captures, captures, hex};

/// What one line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// Version of the library.
    Version(String),
    /// A channel setting taken from the environment.
    Setting { name: String, value: i64 },
    /// A setting that does not bound channels, or a line known to say nothing here.
    Known,
    /// The NICs of a net plugin by index.
    Nics { net: String, nics: Vec<(u32, String)> },
    /// An init begins.
    Start(InitLine),
    /// An init has succeeded.
    Complete(InitLine),
    /// A communicator has ended.
    Ended { pointer: u64, end: End },
    /// Shape of the communicator after the ranks have met.
    Nodes { n_nodes: u32 },
    /// Result of one graph search.
    Search { pattern: u32, channels: u32 },
    /// This rank on the ring of a channel.
    Ring { channel: u32, prev: u32, rank: u32, next: u32 },
    /// The whole ring as rank 0 prints it; `None` if cut.
    Order { channel: u32, of: u32, ranks: Option<Vec<u32>> },
    /// A connection for collectives from rank to rank, with the communicator where the line names it.
    Send { channel: u32, from: u32, to: u32, via: Via, pointer: Option<u64> },
    /// Number of channels agreed.
    Final { channels: u32 },
}

/// The path of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Via {
    pub(super) hop: Hop,
    /// Index of the NIC in its net plugin.
    pub(super) device: Option<u32>,
}

/// One row: how a message looks, in which versions, and what it says. `None` means that it is another one after all.
struct Format {
    #[cfg_attr(not(test), expect(dead_code, reason = "told to the reader, and checked by a test"))]
    versions: &'static str,
    pattern: &'static str,
    read: fn(&Captures<'_>) -> Option<Message>,
}

const fn row(
    versions: &'static str,
    pattern: &'static str,
    read: fn(&Captures<'_>) -> Option<Message>,
) -> Format {
    Format { versions, pattern, read }
}

/// What a message says; `None` if no row fits.
pub(super) fn message(text: &str) -> Option<Message> {
    FORMATS.iter().find_map(|format| (format.read)(&captures(format.pattern, text)?))
}

const FORMATS: &[Format] = &[
    row("2.12-2.32", "Channel {}/{} : {}[{}] -> {}[{}] [receive] via {}", known),
    row("2.12-2.32", "Channel {}/{} : {}[{}] -> {}[{}] [send] via {}", |c| send(c, [0, 2, 4, 6], c.u32(1)?)),
    row("2.14-2.32", "Channel {}/{} : {}[{}] -> {}[{}] via {}", |c| send(c, [0, 2, 4, 6], c.u32(1)?)),
    row("2.7-2.11", "Channel {} : {}[{}] -> {}[{}] [receive] via {}", known),
    row("2.7-2.11", "Channel {} : {}[{}] -> {}[{}] [send] via {}", |c| send(c, [0, 1, 3, 5], 0)),
    row("2.7-2.13", "Channel {} : {}[{}] -> {}[{}] via {}", |c| send(c, [0, 1, 3, 5], 0)),
    row("2.5-2.6", "Ring {} : {}[{}] -> {}[{}] [receive] via {}", known),
    row("2.5-2.6", "Ring {} : {}[{}] -> {}[{}] [send] via {}", |c| send(c, [0, 1, 3, 5], 0)),
    row("2.5-2.6", "Ring {} : {}[{}] -> {}[{}] via {}", |c| send(c, [0, 1, 3, 5], 0)),
    row("2.10-2.32", "Ring {} : {} -> {} -> {}", ring),
    row("RCCL", "Ring {} : {} -> {} -> {} comm {} nRanks {}", ring),
    row("2.5-2.32", "Channel {}/{} : {}", order),
    row("2.5-2.32", "Pattern {}, crossNic {}, nChannels {}, {}", |c| {
        Some(Message::Search { pattern: c.u32(0)?, channels: c.u32(2)? })
    }),
    row("2.7-2.32", "{} coll channels, {}", |c| Some(Message::Final { channels: c.u32(0)? })),
    row("RCCL", "comm:{}, nRanks:{}, nNodes:{}, coll channels:{} collnet channels:{}", |c| {
        Some(Message::Final { channels: c.u32(3)? })
    }),
    row("2.18-2.32", "{}comm {} - Init START", |c| Some(Message::Start(fields(c.text(1)?)?))),
    row("2.5-2.32", "{}comm {} - Init COMPLETE", |c| Some(Message::Complete(fields(c.text(1)?)?))),
    row("2.12-2.32", "{}comm {} - Destroy COMPLETE", |c| ended(c, End::Destroyed)),
    row("2.12-2.32", "{}comm {} - Abort COMPLETE", |c| ended(c, End::Aborted)),
    row("2.20-2.32", "comm {} rank {} nRanks {} nNodes {} localRanks {}", |c| {
        Some(Message::Nodes { n_nodes: c.u32(3)? })
    }),
    row("2.5-2.32", "{} set by environment to {}", setting),
    row("2.12-2.32", "NET/{} : Using {}", nics),
    row("2.7-2.32", "NCCL version {}", version),
    row("RCCL", "RCCL version{}", version),
    row("2.5-2.32", "Using network {}", known),
    row("2.8-2.32", "Connected all rings{}", known),
    row("2.8-2.32", "Connected all trees{}", known),
    row("2.5-2.32", "Trees {}", known),
    row("2.8-2.32", "Tree {}", known),
];

/// Settings that bound the number of channels. RSCCL's are those of ringscope's own engine.
const CHANNEL_SETTINGS: [&str; 6] =
    ["MIN_NCHANNELS", "MAX_NCHANNELS", "MIN_NRINGS", "MAX_NRINGS", "MIN_CTAS", "MAX_CTAS"];

#[expect(clippy::unnecessary_wraps, reason = "a row's signature")]
fn known(_: &Captures<'_>) -> Option<Message> {
    Some(Message::Known)
}

fn version(c: &Captures<'_>) -> Option<Message> {
    let version = c.text(0)?.trim_start_matches([':', ' ']);
    version.starts_with(|c: char| c.is_ascii_digit()).then(|| Message::Version(version.to_owned()))
}

fn ended(c: &Captures<'_>, end: End) -> Option<Message> {
    Some(Message::Ended { pointer: hex(c.text(1)?.split_ascii_whitespace().next()?)?, end })
}

fn setting(c: &Captures<'_>) -> Option<Message> {
    let name = c.text(0)?;
    let bare = name.strip_prefix("NCCL_").or_else(|| name.strip_prefix("RSCCL_"));
    if !bare.is_some_and(|bare| CHANNEL_SETTINGS.contains(&bare)) {
        return Some(Message::Known);
    }
    let value = c.text(1)?.trim_end_matches('.').parse().ok()?;
    Some(Message::Setting { name: name.to_owned(), value })
}

fn ring(c: &Captures<'_>) -> Option<Message> {
    Some(Message::Ring { channel: c.u32(0)?, prev: c.u32(1)?, rank: c.u32(2)?, next: c.u32(3)? })
}

/// Ranks that NCCL up to 2.22 prints at most, without a mark that there are more (`MAXWIDTH`).
const ORDER_MAX_RANKS: usize = 20;

fn order(c: &Captures<'_>) -> Option<Message> {
    let (channel, of, text) = (c.u32(0)?, c.u32(1)?, c.text(2)?);
    let ranks: Option<Vec<u32>> = text.split_ascii_whitespace().map(|rank| rank.parse().ok()).collect();
    if ranks.is_none() && !text.ends_with("...") {
        return None;
    }
    let ranks = ranks.filter(|ranks| !ranks.is_empty() && ranks.len() < ORDER_MAX_RANKS);
    Some(Message::Order { channel, of, ranks })
}

/// Fields of `at`: channel, from, to, path. Connections for send and receive (index 1) are not on a ring.
fn send(c: &Captures<'_>, at: [usize; 4], connection: u32) -> Option<Message> {
    let (channel, from, to) = (c.u32(at[0])?, c.u32(at[1])?, c.u32(at[2])?);
    let (path, communicator) = match c.text(at[3])?.split_once(" comm ") {
        Some((path, communicator)) => (path, communicator.split_ascii_whitespace().next().and_then(hex)),
        None => (c.text(at[3])?, None),
    };
    if connection != 0 {
        return Some(Message::Known);
    }
    Some(Message::Send { channel, from, to, via: via(path), pointer: communicator })
}

/// `NET/IB/0(3)/GDRDMA(PCI)/Shared`, `P2P/direct pointer/read`, `SHM/direct/direct`, `direct shared memory`.
fn via(path: &str) -> Via {
    let mut parts = path.trim().split('/');
    let (kind, name) = (parts.next().unwrap_or_default(), parts.next());
    let Some(name) = name else {
        let transport = if kind == "direct shared memory" { "SHM/direct" } else { kind };
        return Via { hop: Hop { transport: transport.to_owned(), ..Hop::default() }, device: None };
    };
    let device = parts.next().filter(|_| kind == "NET");
    Via {
        hop: Hop {
            transport: format!("{kind}/{name}"),
            nic: None,
            nic_index: None,
            proxy_rank: None,
            gpu_direct: parts.any(|part| part.starts_with("GDRDMA")),
        },
        device: device.and_then(|device| device.split('(').next()?.parse().ok()),
    }
}

/// `[0]mlx5_0:1/IB [1]={[0] mlx5_2:1/IB, [1] mlx5_3:1/IB} [RO]; OOB eth0:…` or `[0]eth0:10.0.0.1<0>`.
fn nics(c: &Captures<'_>) -> Option<Message> {
    let net = c.text(0)?.trim_end_matches(':').to_owned();
    let mut rest = c.text(1)?.split("; OOB ").next()?;
    let mut nics = Vec::new();
    while let Some(open) = rest.find('[') {
        let (index, after) = rest[open + 1..].split_once(']')?;
        let (device, next) = match after.strip_prefix("={") {
            Some(merged) => merged.split_once('}').unwrap_or((merged, "")),
            None => after.split_once(' ').unwrap_or((after, "")),
        };
        if let (Ok(index), false) = (index.trim().parse(), device.trim().is_empty()) {
            nics.push((index, device_name(device)));
        }
        rest = next;
    }
    Some(Message::Nics { net, nics })
}

/// The name without port, address and link layer; those of a merged device joined by `+`.
fn device_name(text: &str) -> String {
    let name = |part: &str| {
        let part = part.trim().trim_start_matches(['[', ']', ' ']);
        let part = part.split_once("] ").map_or(part, |(_, name)| name);
        part.split(':').next().unwrap_or_default().trim().to_owned()
    };
    text.split(", ").map(name).collect::<Vec<_>>().join("+")
}

#[cfg(test)]
mod tests;
