//! What the judge says, in words: who, in which call, since when, and what a process does instead.

use ringscope_api::clock::Timestamp;
use ringscope_api::{Culprit, signal};
use ringscope_wire::{Datatype, Primitive};

use super::scene::{Communicator, Life, NOT_TOLD, Operation, Process, Signature};
use super::sight::Sight;
use crate::halted;
pub(super) use ringscope_api::words::ranks;
use ringscope_api::words::{duration, is_host, list, plural};

/// "rank 5 (host-3, pid 4711, global rank 13)"; without a rank "pid 4711 on host-3 (global rank 13)";
/// "summation server (host-3, pid 4711, rank 5)".
pub(super) fn who(sight: &Sight<'_, '_>, process: u32, rank: Option<u32>) -> String {
    let it = sight.process(process);
    let host = sight.host_name(it);
    let rank = rank.map(|rank| (format!("rank {rank}"), Some(rank)));
    let global = it.global_rank.map(|global| (format!("global rank {global}"), Some(global)));
    let Some((name, number)) = rank.clone().or_else(|| global.clone()) else {
        return format!("pid {} on {host}", it.pid);
    };
    if it.is_server {
        return format!("summation server ({host}, pid {}, {name})", it.pid);
    }
    let also = match (rank.is_some(), it.global_rank) {
        (true, Some(global)) if Some(global) != number => format!(", global rank {global}"),
        _ => String::new(),
    };
    // Dumps do not tell the number of a process, and of some the host is not known but by its rank.
    let place = match (it.pid, is_host(host)) {
        (0, false) => also.trim_start_matches(", ").to_owned(),
        (0, true) => format!("{host}{also}"),
        (pid, _) => format!("{host}, pid {pid}{also}"),
    };
    if place.is_empty() { name } else { format!("{name} ({place})") }
}

/// The same of several.
pub(super) fn who_all(sight: &Sight<'_, '_>, culprits: &[(u32, Option<u32>, String)]) -> String {
    list(culprits.iter().map(|(process, rank, _)| who(sight, *process, *rank)), NAMED)
}

/// The culprit as the API has it.
pub(super) fn culprit(sight: &Sight<'_, '_>, process: u32, rank: Option<u32>, doing: String) -> Culprit {
    let it = sight.process(process);
    Culprit {
        host: sight.host_name(it).to_owned(),
        pid: Some(it.pid).filter(|pid| *pid > 0),
        rank,
        global_rank: it.global_rank,
        place: Some(it.place.to_owned()).filter(|place| !place.is_empty()),
        doing,
    }
}

/// "c0ffee012345 (tensor)".
pub(super) fn comm(communicator: &Communicator<'_>) -> String {
    if communicator.purpose.is_empty() {
        return communicator.id.to_owned();
    }
    format!("{} ({})", communicator.id, communicator.purpose)
}

/// "all_reduce #60"; "send to rank 3", "recv from rank 3".
pub(super) fn call(operation: &Operation) -> String {
    let primitive = operation.signature.primitive;
    match (operation.number, primitive, operation.signature.peer) {
        (Some(number), ..) => format!("{primitive} #{number}"),
        (None, Primitive::Send | Primitive::PutSignal, Some(peer)) => format!("{primitive} to rank {peer}"),
        (None, Primitive::Recv, Some(peer)) => format!("recv from rank {peer}"),
        _ => format!("{primitive} (number {} of its kind)", operation.of_primitive + 1),
    }
}

/// "all_reduce of 1024 float32 (sum)", "broadcast of 16 int64 from rank 0".
pub(super) fn signature(signature: &Signature) -> String {
    if signature.datatype == NOT_TOLD {
        return signature.primitive.to_string();
    }
    let datatype = u8::try_from(signature.datatype).map_or("unknown", |datatype| Datatype(datatype).label());
    let op = signature.op.map(|op| format!(" ({})", reduction(op))).unwrap_or_default();
    let peer = signature.peer.map(|peer| match signature.primitive {
        Primitive::Send | Primitive::PutSignal => format!(" to rank {peer}"),
        Primitive::Broadcast | Primitive::Recv | Primitive::Scatter => format!(" from rank {peer}"),
        _ => format!(" to root {peer}"),
    });
    format!("{} of {} {datatype}{op}{}", signature.primitive, signature.count, peer.unwrap_or_default())
}

/// Source: `ncclRedOp_t`.
fn reduction(op: u32) -> String {
    match op {
        0 => "sum".to_owned(),
        1 => "prod".to_owned(),
        2 => "max".to_owned(),
        3 => "min".to_owned(),
        4 => "avg".to_owned(),
        other => format!("op {other}"),
    }
}

/// In which fields two signatures differ, the most telling one: a word for `cause`, and how.
pub(super) fn difference(one: &Signature, other: &Signature) -> (&'static str, &'static str) {
    if one.primitive != other.primitive {
        ("primitive", "another primitive")
    } else if one.count != other.count {
        ("count", "another count")
    } else if one.datatype != other.datatype {
        ("datatype", "another datatype")
    } else if one.op != other.op {
        ("op", "another reduction")
    } else {
        ("root", "another root")
    }
}

/// "14:03:07 UTC".
pub(super) fn clock(at: Timestamp) -> String {
    let text = at.to_string();
    format!("{} UTC", text.get(11..19).unwrap_or("?"))
}

/// One with its host; of several "ranks 3 and 5", without ranks "global ranks 3 and 5", else "2 processes".
pub(super) fn names(sight: &Sight<'_, '_>, culprits: &[(u32, Option<u32>, String)]) -> String {
    let sorted = |ranks: Option<Vec<u32>>| {
        let mut ranks = ranks?;
        ranks.sort_unstable();
        Some(ringscope_api::words::ranks(&ranks))
    };
    let global = || culprits.iter().map(|(process, ..)| sight.process(*process).global_rank).collect();
    match culprits {
        [(process, rank, _)] => who(sight, *process, *rank),
        many => sorted(many.iter().map(|(_, rank, _)| *rank).collect())
            .or_else(|| sorted(global()).map(|ranks| format!("global {ranks}")))
            .unwrap_or_else(|| plural(many.len(), "process")),
    }
}

/// "1 other waits", "5 others wait".
pub(super) fn others_wait(n: usize) -> String {
    if n == 1 { "1 other waits".to_owned() } else { format!("{n} others wait") }
}

/// Who pays for it, and since when: "; 5 others wait since 14:03:07 UTC". Where nobody else waits only since when.
pub(super) fn cost(n_victims: usize, began_at: Option<Timestamp>) -> String {
    let since = began_at.filter(|at| at.0 > 0).map(|at| format!(" since {}", clock(at))).unwrap_or_default();
    if n_victims == 0 { since } else { format!("; {}{since}", others_wait(n_victims)) }
}

/// "1 of them has", "5 of them have".
pub(super) fn have(n: usize) -> String {
    format!("{n} of them {}", if n == 1 { "has" } else { "have" })
}

/// What has become of a process that is gone, or what stops it. `None`: it runs.
pub(super) fn stopped(process: &Process<'_>) -> Option<(&'static str, String)> {
    match process.activity?.state {
        'Z' => Some(("zombie", "is a zombie: it has died and nobody has waited for it".to_owned())),
        state => halted::stopped(state).map(|how| ("stopped", format!("is {how}"))),
    }
}

/// What has become of a process.
pub(super) fn ended(process: &Process<'_>) -> String {
    let status = process.exit.status.filter(|status| *status != 0);
    let words = match process.life {
        Life::Killed if let Some(number) = process.exit.signal => {
            return format!("was ended by {}", signal::name(number.into()));
        }
        Life::Killed if let Some(status) = status => {
            return format!("was ending with status {status} when it was killed");
        }
        Life::Exited if let Some(status) = status => return format!("has exited with status {status}"),
        Life::Killed => "was killed or has crashed",
        Life::Exited => "has exited without destroying the communicator",
        Life::Running | Life::Imported => "runs",
    };
    words.to_owned()
}

/// What a process does while others wait for it: a word for `cause`, and a sentence that can follow its name.
pub(super) fn doing(sight: &Sight<'_, '_>, process: u32) -> (&'static str, String) {
    let it = sight.process(process);
    if let Some(stopped) = stopped(it) {
        return stopped;
    }
    if let Some(open) = it.open_calls.first() {
        let for_time = duration(it.age(open.entered_at, sight.read(it)));
        return ("in_call", format!("is in {} for {for_time}", open.function));
    }
    let group = sight.open_group(process);
    if let Some((calls, since)) =
        group.filter(|(_, since)| sight.proven(it, *since) >= sight.settings.sure_after)
    {
        let (since, calls) = (clock(it.ours(since)), plural(calls, "call"));
        return ("group_open", format!("is inside ncclGroupStart since {since}, {calls} queued"));
    }
    if !it.told_by_peers.is_empty() {
        return ("unanswered", it.told_by_peers.to_owned());
    }
    if let Some((comm_index, operation)) = sight.newest_head(process) {
        let of = comm(&sight.scene.communicators[comm_index as usize]);
        let since = Some(operation.issued_at).filter(|at| at.0 > 0);
        let since = since.map(|at| format!(" since {}", clock(it.ours(at)))).unwrap_or_default();
        return ("elsewhere", format!("is in {} of {of}{since}", call(operation)));
    }
    if it.life == Life::Imported {
        return ("not_come", "has not come".to_owned());
    }
    if it.last_returned_at.is_none() && !it.calls_seen {
        return ("never_called", NEVER_CALLED.to_owned());
    }
    let (cause, state) = match it.activity {
        Some(activity) if activity.state == 'D' => {
            ("blocked", "is blocked in the kernel (state D), in no call")
        }
        Some(activity) if activity.cores.is_some_and(|cores| cores >= BUSY_CORES) => {
            ("busy", "is busy in no call")
        }
        Some(activity) if activity.cores.is_some() => ("asleep", "is asleep in no call"),
        _ => ("idle", "is in no call"),
    };
    (cause, format!("{state}{}", returned(sight, process, "one")))
}

/// "; its last one returned 3.1 s ago", where `one` is what it was.
fn returned(sight: &Sight<'_, '_>, process: u32, one: &str) -> String {
    let it = sight.process(process);
    let at = it.last_returned_at;
    let ago = |at| format!("; its last {one} returned {} ago", duration(it.age(at, sight.scene.now)));
    at.map(ago).unwrap_or_default()
}

/// What a process does, with what was seen of it: who is in no call is where the look says.
pub(super) fn with_look(
    sight: &Sight<'_, '_>,
    process: u32,
    (cause, told): (&str, String),
    look: &str,
) -> String {
    match cause {
        "blocked" | "asleep" | "idle" => format!("is {look}{}", returned(sight, process, "call")),
        // What is asleep is another thread than the one that is busy.
        "busy" if look.contains("blocked") || look.starts_with("in kernel") => told.to_owned(),
        "busy" => format!("is busy {look}{}", returned(sight, process, "call")),
        _ => format!("{told}, {look}"),
    }
}

/// What is said of who has called nothing yet.
pub(super) const NEVER_CALLED: &str = "has not called the library so far";
/// Whom one sentence names.
pub(super) const NAMED: usize = 5;
/// From this share of a core on a process is busy, not asleep.
const BUSY_CORES: f32 = 0.2;
