//! A dump of PyTorch's Flight Recorder: the last operations of one rank, per process group, with their states, sizes and
//! stacks. Format: PyTorch `torch/csrc/distributed/c10d/FlightRecorderDetail.hpp` (versions 2.0 to 2.10, as it counts them:
//! torch 2.15 writes 2.10). `gloo` finds the ranks of groups that it leaves out.

use std::collections::BTreeMap;

use ringscope_wire::Primitive;
use serde_json::Value;

use super::error::FileError;

/// One rank's dump.
#[derive(Clone, Debug, Default)]
pub(super) struct Dump {
    /// Rank in the job. Where the dump does not have it, it is the number at the end of the file's name.
    pub(super) rank: Option<u32>,
    pub(super) host: Option<String>,
    pub(super) groups: BTreeMap<String, Group>,
    pub(super) entries: Vec<Entry>,
    /// Whether older entries were dropped from the ring buffer.
    pub(super) is_cut: bool,
    /// What `pg_config` has under no name: as many numbers as the group of Gloo that was made last has ranks.
    pub(super) unnamed: Option<Vec<u32>>,
    /// Whether operations of Gloo are in it: those that have ended, and sends and receives, it does not tell.
    pub(super) has_gloo: bool,
}

/// A process group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) description: String,
    /// Ranks in the job, by rank in the group. Empty: not told.
    pub(super) ranks: Vec<u32>,
    /// Number of the last operation that was called, as `pg_status` has it: of a collective, unless the group has
    /// point-to-point operations too.
    pub(super) last_enqueued: Option<u64>,
}

/// One operation.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub(super) group: String,
    /// Collectives of the group so far, or point-to-point operations if it is one.
    pub(super) seq_number: u64,
    pub(super) is_p2p: bool,
    pub(super) is_gloo: bool,
    /// `all_reduce`, `_all_gather_base`, `send 1->2`: without the library in front.
    pub(super) name: String,
    pub(super) state: State,
    pub(super) bytes: u64,
    pub(super) count: u64,
    pub(super) datatype: u32,
    /// The element type as PyTorch calls it; empty where the call has no tensor on this rank.
    pub(super) type_name: String,
    pub(super) sizes: String,
    pub(super) created_ns: u64,
    pub(super) started_ns: Option<u64>,
    pub(super) completed_ns: Option<u64>,
    /// How long it may be open before the watchdog writes the dump.
    pub(super) timeout_ms: Option<u64>,
    /// The innermost frames of the caller, `name at file:line`.
    pub(super) frames: Vec<String>,
}

/// How far an operation has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    #[default]
    Scheduled,
    Started,
    Completed,
}

impl State {
    /// The dump's word.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Started => "started",
            Self::Completed => "completed",
        }
    }
}

impl Dump {
    /// Takes what is needed out of a document.
    pub(super) fn of(document: &Value, file: &str) -> Result<Self, FileError> {
        let config =
            document.get("pg_config").and_then(Value::as_object).ok_or(FileError::Lacks("pg_config"))?;
        let mut groups: BTreeMap<String, Group> =
            config.iter().take(MAX_GROUPS).map(|(name, group)| (name.clone(), group_of(group))).collect();
        let entries =
            document.get("entries").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let entries = &entries[..entries.len().min(MAX_ENTRIES)];
        let unnamed = groups.remove("").map(|group| group.ranks);
        for (name, group) in entries.iter().filter_map(group_of_entry).take(MAX_GROUPS) {
            groups.entry(name.to_owned()).or_insert(group);
        }
        let status = document.get("pg_status").and_then(Value::as_object);
        let names = status.map(|_| names_of_ids(entries)).unwrap_or_default();
        for (id, status) in status.into_iter().flatten() {
            if let Some(group) = names.get(id).and_then(|name| groups.get_mut(*name)) {
                group.last_enqueued = status.get("last_enqueued_collective").and_then(number);
            }
        }
        let first = entries.iter().filter_map(|entry| number(entry.get("record_id")?)).min();
        let mut entries: Vec<Entry> = entries.iter().filter_map(entry).collect();
        settle_coalesced(&mut entries);
        Ok(Self {
            is_cut: first.is_some_and(|first| first > 0),
            rank: document.get("rank").and_then(number32).or_else(|| trailing_number(file)),
            host: document.get("host_name").and_then(Value::as_str).map(str::to_owned),
            groups,
            has_gloo: entries.iter().any(|entry| entry.is_gloo),
            unnamed,
            entries,
        })
    }
}

fn group_of(group: &Value) -> Group {
    let ranks = match group.get("ranks") {
        Some(Value::Array(ranks)) => ranks.iter().filter_map(number32).collect(),
        Some(Value::String(text)) => {
            text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
        }
        _ => Vec::new(),
    };
    let description = group.get("desc").and_then(Value::as_str).unwrap_or_default().to_owned();
    Group { description, ranks, ..Group::default() }
}

/// Name and description of an entry's group, of which `pg_config` may not know.
fn group_of_entry(entry: &Value) -> Option<(&str, Group)> {
    let description = entry.get("process_group")?.get(1).and_then(Value::as_str).unwrap_or_default();
    Some((group_name(entry)?, Group { description: description.to_owned(), ..Group::default() }))
}

/// `pg_status` goes by `pg_id`, a number of the process's own; `pg_config` by name. Only entries have both.
fn names_of_ids(entries: &[Value]) -> BTreeMap<String, &str> {
    let of = |entry| Some((Value::get(entry, "pg_id").and_then(number)?.to_string(), group_name(entry)?));
    entries.iter().filter_map(of).collect()
}

/// Versions before 2.1 give the name alone, later ones name and description.
fn group_name(entry: &Value) -> Option<&str> {
    match entry.get("process_group")? {
        Value::String(name) => Some(name),
        Value::Array(parts) => parts.first()?.as_str(),
        _ => None,
    }
}

fn entry(entry: &Value) -> Option<Entry> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    let count = |key: &str| entry.get(key).and_then(number);
    let (library, name) = text("profiling_name").split_once(':').unwrap_or(("", text("profiling_name")));
    let (is_gloo, name) = (library == "gloo", name.to_owned());
    // Gloo leaves the state as it was at first. Of NCCL's, what is retired and has not ended has timed out.
    let has_ended = is_gloo && entry.get("retired").and_then(Value::as_bool) == Some(true);
    let is_p2p = entry
        .get("is_p2p")
        .and_then(Value::as_bool)
        .unwrap_or_else(|| name.starts_with("send") || name.starts_with("recv"));
    let group = group_name(entry)?.to_owned();
    let seq_number =
        if is_p2p { count("p2p_seq_id") } else { count("collective_seq_id").or_else(|| count("seq_id")) };
    // What one rank receives of a reduce-scatter or from a peer, what it gives to all else.
    let receives = name.contains("reduce_scatter") || name.starts_with("recv");
    let side = if receives { "output" } else { "input" };
    let sizes = entry.get(format!("{side}_sizes"));
    let elements = sizes.map_or(0, elements);
    let datatype = entry.get(format!("{side}_dtypes")).and_then(|types| match types {
        Value::Array(types) => types.first()?.as_str(),
        Value::String(one) => Some(one.as_str()),
        _ => None,
    });
    let type_name = datatype.unwrap_or_default();
    let (datatype, size_bytes) = datatype_of(type_name);
    Some(Entry {
        group,
        seq_number: seq_number?,
        is_p2p,
        is_gloo,
        name,
        state: match text("state") {
            _ if has_ended => State::Completed,
            "completed" => State::Completed,
            "started" => State::Started,
            _ => State::Scheduled,
        },
        bytes: elements.saturating_mul(size_bytes),
        count: elements,
        datatype,
        type_name: type_name.to_owned(),
        sizes: sizes.map(ToString::to_string).unwrap_or_default().chars().take(MAX_SIZES_CHARS).collect(),
        created_ns: count("time_created_ns").unwrap_or_default(),
        started_ns: count("time_discovered_started_ns").filter(|ns| *ns > 0),
        timeout_ms: count("timeout_ms").filter(|ms| *ms > 0),
        // The JSON dump writes 0 where the pickle has None.
        completed_ns: count("time_discovered_completed_ns").filter(|ns| *ns > 0),
        frames: frames(entry.get("frames")),
    })
}

/// Of operations that were made in one go only the whole, which is called `coalesced`, is ever seen to end.
fn settle_coalesced(entries: &mut [Entry]) {
    let key = |entry: &Entry| (entry.group.clone(), entry.is_p2p, entry.seq_number);
    let whole = entries.iter().filter(|entry| entry.is_coalesced());
    let whole: BTreeMap<_, (State, Option<u64>, Option<u64>)> =
        whole.map(|entry| (key(entry), (entry.state, entry.started_ns, entry.completed_ns))).collect();
    if whole.is_empty() {
        return;
    }
    for entry in entries {
        if let Some((state, started_ns, completed_ns)) = whole.get(&key(entry)) {
            (entry.state, entry.started_ns, entry.completed_ns) = (*state, *started_ns, *completed_ns);
        }
    }
}

impl Entry {
    /// Whether it stands for all operations with its number.
    pub(super) fn is_coalesced(&self) -> bool {
        self.name == "coalesced"
    }

    /// Peer of a send or receive, by its rank in the group: 2 of `send 1->2`, 0 of `recv 2<-0`.
    pub(super) fn peer(&self) -> Option<u32> {
        self.name.rsplit(['>', '-']).next()?.trim().parse().ok().filter(|_| self.is_p2p)
    }

    /// The primitive that it is for NCCL; a barrier is an all-reduce there.
    pub(super) fn primitive(&self) -> Option<Primitive> {
        let word = self.name.split(' ').next().unwrap_or_default().to_ascii_lowercase();
        let has = |part: &str| word.contains(part);
        Some(match () {
            () if has("all_reduce") || has("allreduce") || has("barrier") => Primitive::AllReduce,
            () if has("reduce_scatter") => Primitive::ReduceScatter,
            () if has("all_gather") || has("allgather") => Primitive::AllGather,
            () if has("all_to_all") || has("alltoall") => Primitive::AllToAll,
            () if has("broadcast") => Primitive::Broadcast,
            () if has("reduce") => Primitive::Reduce,
            () if has("gather") => Primitive::Gather,
            () if has("scatter") => Primitive::Scatter,
            () if has("send") => Primitive::Send,
            () if has("recv") => Primitive::Recv,
            () => return None,
        })
    }
}

/// Elements of all tensors: `[[3, 4], [2]]` has 14.
fn elements(sizes: &Value) -> u64 {
    let product = |tensor: &Value| {
        let sizes = tensor.as_array()?;
        Some(sizes.iter().filter_map(Value::as_u64).fold(1_u64, u64::saturating_mul))
    };
    let tensors = sizes.as_array().map(Vec::as_slice).unwrap_or_default();
    tensors.iter().filter_map(product).fold(0, u64::saturating_add)
}

/// PyTorch's name of an element type as `ncclDataType_t`, and its size.
fn datatype_of(name: &str) -> (u32, u64) {
    match name {
        "Char" => (0, 1),
        "Byte" | "Bool" => (1, 1),
        "Int" => (2, 4),
        "UInt32" => (3, 4),
        "Long" => (4, 8),
        "UInt64" => (5, 8),
        "Half" => (6, 2),
        "Float" => (7, 4),
        "Double" => (8, 8),
        "BFloat16" => (9, 2),
        "Float8_e4m3fn" => (10, 1),
        "Float8_e5m2" => (11, 1),
        _ => (u32::MAX, 0),
    }
}

fn frames(frames: Option<&Value>) -> Vec<String> {
    let frames = frames.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let frame = |frame: &Value| {
        let text = |key: &str| frame.get(key).and_then(Value::as_str).unwrap_or_default();
        let line = frame.get("line").and_then(number).unwrap_or_default();
        format!("{} at {}:{line}", text("name"), text("filename")).chars().take(MAX_FRAME_CHARS).collect()
    };
    frames.iter().take(MAX_FRAMES).map(frame).collect()
}

/// A number, also one that the JSON dump writes as text. Negative: none.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn number32(value: &Value) -> Option<u32> {
    u32::try_from(number(value)?).ok()
}

/// 3 of `/tmp/nccl_trace_rank_3` and of `rank3.json.gz`.
fn trailing_number(file: &str) -> Option<u32> {
    let name = file.rsplit('/').next()?.split('.').next()?;
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name[name.len() - digits..].parse().ok()
}

/// Process groups of one rank.
const MAX_GROUPS: usize = 4096;
/// Entries of one dump; PyTorch keeps 2000 by default.
const MAX_ENTRIES: usize = 200_000;
/// Frames kept of a stack: the innermost tell where it is.
const MAX_FRAMES: usize = 8;
const MAX_FRAME_CHARS: usize = 240;
const MAX_SIZES_CHARS: usize = 120;
