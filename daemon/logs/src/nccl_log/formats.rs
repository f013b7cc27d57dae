//! The table of messages, by version. Source of the forms: NCCL 2.5 to 2.32 `src/init.cc`, `src/graph/*.cc`,
//! `src/transport/*.cc`; RCCL where it words them otherwise. The first row that fits wins, so the narrower of two comes
//! first.

use std::sync::LazyLock;

use super::facts::{End, Hop, TreeFact};
use super::init_line::{InitLine, fields};
use super::pattern::{Captures, captures, hex};

mod connection;
mod graph;
mod net;

/// What one line says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Message {
    /// Version of the library, with its name if that is not NCCL; the name alone where the line has no number.
    Version(String),
    /// A setting taken from the environment.
    Setting { name: String, value: String },
    /// A line known to say nothing here.
    Known,
    /// The NICs of a net plugin by index.
    Nics { net: String, nics: Vec<(u32, String)> },
    /// The network that the process uses.
    Network(String),
    /// An init begins.
    Start(InitLine),
    /// An init has succeeded.
    Complete(InitLine),
    /// A function of the library returned an error.
    Returned,
    /// A communicator has ended.
    Ended { pointer: u64, end: End },
    /// Shape of the communicator after the ranks have met.
    Nodes(Nodes),
    /// Result of one graph search, with the bandwidth inside the node and between nodes.
    Search { pattern: u32, channels: u32, bandwidth: Option<(f64, f64)> },
    /// A graph search found nothing.
    FellBack { pattern: u32 },
    /// This rank on the ring of a channel.
    Ring { channel: u32, prev: u32, rank: u32, next: u32 },
    /// The whole ring as rank 0 prints it; `None` if cut.
    Order { channel: u32, of: u32, ranks: Option<Vec<u32>> },
    /// One row of the result of the search before it: a ring or tree inside the node.
    Row(Row),
    /// This rank's place in the trees: every init has them, also without GRAPH.
    Trees(Vec<(u32, TreeFact)>),
    /// A GPU of this node in the topology: which rank has it.
    Gpu { rank: u32, bus_id: u64 },
    /// A connection from rank to rank, with the communicator where the line names it.
    Connection(Connection),
    /// Numbers of channels agreed.
    Final(Counts),
}

/// One row of a search: `2 : NET/0-4 GPU/6 GPU/5 NET/0-4`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) gpus: Vec<RowGpu>,
    pub(super) enter: Option<String>,
    pub(super) leave: Option<String>,
}

/// A GPU in a row: its rank, since 2.27 its bus id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowGpu {
    Rank(u32),
    Bus(u64),
}

/// `comm %p rank %d nRanks %d nNodes %d localRanks %d localRank %d MNNVL %d`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Nodes {
    pub(super) pointer: u64,
    pub(super) rank: u32,
    pub(super) n_ranks: u32,
    pub(super) n_nodes: u32,
    pub(super) local_ranks: Option<u32>,
    pub(super) local_rank: Option<u32>,
    pub(super) mnnvl: Option<bool>,
}

/// Channels by use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) collective: u32,
    pub(super) collnet: Option<u32>,
    pub(super) nvls: Option<u32>,
    pub(super) p2p: Option<u32>,
    pub(super) p2p_per_peer: Option<u32>,
    /// In RCCL's wording.
    pub(super) is_rccl: bool,
}

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Connection {
    pub(super) channel: u32,
    /// 0: for collectives, 1: for send and receive.
    pub(super) index: u32,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) direction: Direction,
    pub(super) hop: Hop,
    pub(super) pointer: Option<u64>,
    /// What stands in brackets behind the rank that wrote the line, if that is a small number: since 2.18 NVML's number
    /// of its GPU, before that the bus id.
    pub(super) device: Option<u32>,
}

/// Which end of a connection a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Send,
    Receive,
    /// The line does not say: it is the sender's, and there is none of the receiver.
    Both,
}

impl Connection {
    /// The rank that wrote the line.
    pub(super) fn own_rank(&self) -> u32 {
        if self.direction == Direction::Receive { self.to } else { self.from }
    }
}

/// One row: how a message looks, in which versions, and what it says. `None` means that it is another one after all.
struct Format {
    #[cfg_attr(not(test), expect(dead_code, reason = "told to the reader, and checked by a test"))]
    versions: &'static str,
    /// First bytes that a message can have whose pattern begins with a capture.
    starts: &'static str,
    pattern: &'static str,
    read: Read,
}

type Read = fn(&Captures<'_>) -> Option<Message>;

const fn row(versions: &'static str, pattern: &'static str, read: Read) -> Format {
    Format { versions, starts: "", pattern, read }
}

const fn row_at(starts: &'static str, versions: &'static str, pattern: &'static str, read: Read) -> Format {
    Format { versions, starts, pattern, read }
}

/// What a message says; `None` if no row fits.
pub(super) fn message(text: &str) -> Option<Message> {
    // Most of what a log has are connections, so they do not go through the table.
    connection::message(text).or_else(|| in_table(text))
}

fn in_table(text: &str) -> Option<Message> {
    let rows = &BY_FIRST_BYTE[usize::from(*text.as_bytes().first()?)];
    rows.iter()
        .filter(|format| format.may_fit(text))
        .find_map(|format| (format.read)(&captures(format.pattern, text)?))
}

impl Format {
    /// Whether a trimmed text can match, by what is looked at fastest.
    fn may_fit(&self, text: &str) -> bool {
        if self.starts == NAMES {
            return text.bytes().find(|byte| !of_name(*byte)) == Some(b' ');
        }
        // A row that ends in no capture ends in this word.
        let last = self.pattern.rsplit([' ', '}', ')']).next().unwrap_or_default();
        text.ends_with(last)
    }
}

/// The rows that can fit a message by its first byte, in the table's order.
static BY_FIRST_BYTE: LazyLock<Vec<Vec<&'static Format>>> = LazyLock::new(|| {
    let fits = |format: &&Format, byte: u8| match format.starts {
        "" => format.pattern.as_bytes().first() == Some(&byte),
        starts => starts.as_bytes().contains(&byte),
    };
    (0..=u8::MAX).map(|byte| FORMATS.iter().filter(|format| fits(format, byte)).collect()).collect()
});

/// Name of AMD's library, in front of its version.
pub(super) const RCCL: &str = "RCCL";
const DIGITS: &str = "0123456789";
/// "comm", "ncclCommInitRank comm", "[Rank 3] ncclCommInitRank comm".
const INIT: &str = "cn[";
/// Names of variables: NCCL's, RCCL's and those of ringscope's own engine.
const NAMES: &str = "NRA";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";

static FORMATS: &[Format] = &[
    row("2.12-2.32", "Channel {}/{} : {}[{}] -> {}[{}] [receive] via {}", |c| {
        connection(c, Direction::Receive, [0, 2, 4, 6], c.u32(1)?)
    }),
    row("2.12-2.32", "Channel {}/{} : {}[{}] -> {}[{}] [send] via {}", |c| {
        connection(c, Direction::Send, [0, 2, 4, 6], c.u32(1)?)
    }),
    row("2.14-2.32", "Channel {}/{} : {}[{}] -> {}[{}] via {}", |c| {
        connection(c, Direction::Both, [0, 2, 4, 6], c.u32(1)?)
    }),
    row("2.5-2.32", "Channel {}/{} : {}", order),
    row("2.7-2.11", "Channel {} : {}[{}] -> {}[{}] [receive] via {}", |c| {
        connection(c, Direction::Receive, [0, 1, 3, 5], 0)
    }),
    row("2.7-2.11", "Channel {} : {}[{}] -> {}[{}] [send] via {}", |c| {
        connection(c, Direction::Send, [0, 1, 3, 5], 0)
    }),
    row("2.7-2.29", "Channel {} : {}[{}] -> {}[{}] via {}", |c| {
        connection(c, Direction::Both, [0, 1, 3, 5], 0)
    }),
    row("2.10-2.32", "Ring {} : {} -> {} -> {}", ring),
    row("2.5-2.6", "Ring {} : {}[{}] -> {}[{}] [receive] via {}", |c| {
        connection(c, Direction::Receive, [0, 1, 3, 5], 0)
    }),
    row("2.5-2.6", "Ring {} : {}[{}] -> {}[{}] [send] via {}", |c| {
        connection(c, Direction::Send, [0, 1, 3, 5], 0)
    }),
    row("2.5-2.6", "Ring {} : {}[{}] -> {}[{}] via {}", |c| connection(c, Direction::Both, [0, 1, 3, 5], 0)),
    row("RCCL", "Ring {} : {} -> {} -> {} comm {} nRanks {}", ring),
    row("2.5-2.32", "Pattern {}, crossNic {}, nChannels {}, {}", |c| {
        let bandwidth = bandwidth(c.text(3)?);
        Some(Message::Search { pattern: c.u32(0)?, channels: c.u32(2)?, bandwidth })
    }),
    row("2.5-2.32", "Could not find a path for pattern {}, falling back to simple order", |c| {
        Some(Message::FellBack { pattern: c.u32(0)? })
    }),
    row_at(DIGITS, "2.5-2.32", "{} : {}", graph::row),
    row_at(DIGITS, "2.7-2.32", "{} coll channels, {}", |c| counts(c.u32(0)?, c.text(1)?)),
    row("RCCL", "comm:{}, nRanks:{}, nNodes:{}, coll channels:{} collnet channels:{}, {}", |c| {
        let rest = format!("collnet channels:{}, {}", c.text(4)?, c.text(5)?);
        match counts(c.u32(3)?, &rest)? {
            Message::Final(counts) => Some(Message::Final(Counts { is_rccl: true, ..counts })),
            other => Some(other),
        }
    }),
    row_at(INIT, "2.18-2.32", "{}comm {} - Init START", |c| Some(Message::Start(init(c)?))),
    row_at(INIT, "2.5-2.32", "{}comm {} - Init COMPLETE", |c| Some(Message::Complete(init(c)?))),
    row_at(INIT, "2.12-2.32", "{}comm {} - Destroy COMPLETE", |c| ended(c, End::Destroyed)),
    row_at(INIT, "2.12-2.32", "{}comm {} - Abort COMPLETE", |c| ended(c, End::Aborted)),
    row("2.20-2.32", "comm {} rank {} nRanks {} nNodes {} localRanks {} localRank {} MNNVL {}", nodes),
    row("2.20-2.32", "comm {} rank {} nRanks {} nNodes {} localRanks {} localRank {}", nodes),
    row_at(NAMES, "2.5-2.32", "{} set by environment to {}", setting),
    row_at(NAMES, "2.5-2.17", "{} set to {}", setting),
    row("2.5-2.32", "NET/{} : Using {}", net::nics),
    row("2.5-2.32", "NCCL version {}", version),
    row("RCCL", "RCCL version{}", rccl_version),
    row("RCCL", "ROCr version {}", rccl),
    row("RCCL", "Hipruntime version{}", rccl),
    row("2.5-2.32", "Using network {}", |c| Some(Message::Network(c.text(0)?.to_owned()))),
    row("2.8-2.32", "Connected all rings{}", known),
    row("2.8-2.32", "Connected all trees{}", known),
    row("2.5-2.32", "Trees {}", graph::trees),
    row("2.8-2.32", "Tree {}", known),
    row("2.6-2.32", "+ {}] - GPU/{} ({})", gpu),
    row_at(LOWER, "2.5-2.32", "{}.cc:{} -> {}", returned),
];

#[expect(clippy::unnecessary_wraps, reason = "a row's signature")]
fn known(_: &Captures<'_>) -> Option<Message> {
    Some(Message::Known)
}

fn version(c: &Captures<'_>) -> Option<Message> {
    let version = c.text(0)?.trim_start_matches([':', ' ']);
    version.starts_with(|c: char| c.is_ascii_digit()).then(|| Message::Version(version.to_owned()))
}

/// RCCL follows NCCL's numbers and not its rules, so its name stays with the number.
fn rccl_version(c: &Captures<'_>) -> Option<Message> {
    match version(c)? {
        Message::Version(number) => Some(Message::Version(format!("{RCCL} {number}"))),
        other => Some(other),
    }
}

/// A line that only RCCL writes.
#[expect(clippy::unnecessary_wraps, reason = "a row's signature")]
fn rccl(_: &Captures<'_>) -> Option<Message> {
    Some(Message::Version(RCCL.to_owned()))
}

/// The fields, and the function's name in front of them.
fn init(c: &Captures<'_>) -> Option<InitLine> {
    let api = c.text(0)?.split_ascii_whitespace().next_back();
    Some(InitLine { api: api.map(str::to_owned), ..fields(c.text(1)?)? })
}

fn ended(c: &Captures<'_>, end: End) -> Option<Message> {
    Some(Message::Ended { pointer: hex(c.text(1)?.split_ascii_whitespace().next()?)?, end })
}

fn nodes(c: &Captures<'_>) -> Option<Message> {
    Some(Message::Nodes(Nodes {
        pointer: hex(c.text(0)?)?,
        rank: c.u32(1)?,
        n_ranks: c.u32(2).filter(|n| *n > 0)?,
        n_nodes: c.u32(3)?,
        local_ranks: c.u32(4),
        local_rank: Some(c.u32(5)?),
        mnnvl: c.u32(6).map(|n| n != 0),
    }))
}

/// The error that a function returned: `init.cc:1501 -> 2`, `group.cc:70 -> 2 [Async thread]`. 0 is success, 7
/// (`ncclInProgress`) is not an end.
fn returned(c: &Captures<'_>) -> Option<Message> {
    let result: u32 = c.text(2)?.split_ascii_whitespace().next()?.parse().ok()?;
    c.u32(1)?;
    Some(if matches!(result, 0 | 7) { Message::Known } else { Message::Returned })
}

/// `GPU/1B000 (3)`, `GPU/0-1b000 (3)`: bus id and rank.
fn gpu(c: &Captures<'_>) -> Option<Message> {
    let bus_id = c.text(1)?.rsplit('-').next()?;
    Some(Message::Gpu { bus_id: hex(bus_id)?, rank: c.u32(2)? })
}

fn of_name(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_'
}

fn setting(c: &Captures<'_>) -> Option<Message> {
    let (name, value) = (c.text(0)?, c.text(1)?);
    name.bytes().all(of_name).then(|| Message::Setting {
        name: name.to_owned(),
        value: value.strip_suffix('.').unwrap_or(value).to_owned(),
    })
}

/// `bw 24.000000/24.000000, type …`, up to 2.13 `speed 24.000000/24.000000, …`.
fn bandwidth(text: &str) -> Option<(f64, f64)> {
    let pair = text.strip_prefix("bw ").or_else(|| text.strip_prefix("speed "))?;
    let (intra, inter) = pair.split_once(',')?.0.split_once('/')?;
    let number = |text: &str| text.parse().ok().filter(|n: &f64| n.is_finite());
    Some((number(intra)?, number(inter)?))
}

/// `2 collnet channels, 0 nvls channels, …`, RCCL `collnet channels:2, nvls channels:0, …`.
fn counts(collective: u32, rest: &str) -> Option<Message> {
    let mut counts = Counts { collective, ..Counts::default() };
    for part in rest.split(", ") {
        let (name, value) = match part.split_once(':') {
            Some((name, value)) => (name, value),
            None => part.split_once(' ').map(|(value, name)| (name, value))?,
        };
        let field = match name {
            "collnet channels" => &mut counts.collnet,
            "nvls channels" => &mut counts.nvls,
            "p2p channels" => &mut counts.p2p,
            "p2p channels per peer" => &mut counts.p2p_per_peer,
            _ => continue,
        };
        *field = value.parse().ok();
    }
    Some(Message::Final(counts))
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

/// Fields of `at`: channel, from, to, path.
fn connection(c: &Captures<'_>, direction: Direction, at: [usize; 4], index: u32) -> Option<Message> {
    let [channel, from, to] = [c.u32(at[0])?, c.u32(at[1])?, c.u32(at[2])?];
    let own = if direction == Direction::Receive { at[2] } else { at[1] };
    via(Ends { channel, index, from, to, direction }, c.text(own + 1)?, c.text(at[3])?)
}

/// What stands before `via`.
#[derive(Clone, Copy)]
struct Ends {
    channel: u32,
    index: u32,
    from: u32,
    to: u32,
    direction: Direction,
}

/// `own`: what stands in brackets behind the rank that wrote the line.
fn via(ends: Ends, own: &str, path: &str) -> Option<Message> {
    let Ends { channel, index, from, to, direction } = ends;
    let (path, pointer) = match memchr::memmem::find(path.as_bytes(), b" comm ") {
        Some(at) => (&path[..at], path[at + 6..].split_ascii_whitespace().next().and_then(hex)),
        None => (path, None),
    };
    let device = own.trim().parse().ok().filter(|device| *device < MAX_DEVICES);
    let hop = net::hop(path)?;
    Some(Message::Connection(Connection { channel, index, from, to, direction, hop, pointer, device }))
}

/// GPUs that a host can have.
const MAX_DEVICES: u32 = 64;

#[cfg(test)]
mod tests;
