//! Two ends of a queue pair: each tells the other where it is over TCP, and that it is ready once it may send and receive.

use verbs::{Context, Gid, GidKind, LinkLayer, Path, Port, Room};

use crate::clock::Deadline;
use crate::device::verbs::Settings;
use crate::device::verbs::device::{INLINE_BYTES, RECEIVES, SENDS, Verbs};
use crate::device::verbs::frame::{Frame, Here};
use crate::device::{Device, Role, tcp};
use crate::error::{Error, Result};

/// Reads in flight at most, of each end.
const MOST_READS: u8 = 16;

/// Connects to a peer whose queue pair is reached by the settings' NIC; the two meet at host:port over TCP.
///
/// # Errors
/// There is no NIC, nobody is there until the deadline, or the two ends do not understand each other.
pub fn connect(role: Role, address: &str, settings: &Settings, deadline: Deadline) -> Result<Verbs> {
    let (context, port) = open(settings)?;
    let gid = choose_gid(&context, &port, settings)?;
    let reads = context.limits().map_err(here)?.reads.clamp(1, MOST_READS);
    let domain = context.domain().map_err(here)?;
    let sends = context.completion_queue(SENDS).map_err(here)?;
    let receives = context.completion_queue(RECEIVES).map_err(here)?;
    let room = Room { sends: SENDS, receives: RECEIVES, inline_bytes: INLINE_BYTES };
    let mut pair = domain.queue_pair(&sends, &receives, room).map_err(here)?;
    pair.prepare(port.number, 0).map_err(here)?;

    let control = tcp::connect(role, address, deadline)?;
    let peer = format!("{} by {}:{}", control.peer(), context.name(), port.number);
    let mut device = Verbs::new(control, peer, domain, pair, [sends, receives], settings.form);
    let own = Here {
        number: device.number(),
        lid: port.lid,
        mtu_bytes: port.mtu_bytes,
        reads,
        kind: gid.kind.number(),
        gid: gid.bytes,
    };
    device.tell(&Frame::Here(own), deadline)?;
    let Frame::Here(theirs) = device.hear(deadline)? else { return Err(device.malformed("no queue pair")) };
    if !own.understands(&theirs) {
        let kind = gid.kind;
        return Err(device.failed(format!(
            "identifier {gid} is of {kind:?} here and of another kind there: choose with RTENSOR_IB_GID_INDEX"
        )));
    }
    let path = Path {
        port: port.number,
        gid,
        remote_gid: theirs.gid,
        remote_lid: theirs.lid,
        is_global: port.link_layer == LinkLayer::Ethernet || port.needs_gid || settings.gid_index.is_some(),
        remote_number: theirs.number,
        mtu_bytes: port.mtu_bytes.min(theirs.mtu_bytes),
        traffic_class: settings.traffic_class,
        service_level: settings.service_level,
        timeout: settings.timeout,
        retries: settings.retries,
        reads: reads.min(theirs.reads),
    };
    device.go(&path)?;
    device.tell(&Frame::Ready, deadline)?;
    match device.hear(deadline)? {
        Frame::Ready => Ok(device),
        _ => Err(device.malformed("something else than that it is ready")),
    }
}

/// An error of this end's NIC.
fn here(error: verbs::Error) -> Error {
    Error::Device { peer: "this machine's NIC".to_owned(), what: error.to_string() }
}

/// The NIC and port of the settings, or the first that is active.
fn open(settings: &Settings) -> Result<(Context, Port)> {
    let names = match &settings.device {
        Some(name) => vec![name.clone()],
        None => verbs::devices().map_err(here)?,
    };
    let mut seen = Vec::new();
    for name in names {
        let context = match Context::open(&name) {
            Ok(context) => context,
            Err(error) => {
                seen.push(error.to_string());
                continue;
            }
        };
        let n_ports = context.limits().map_err(here)?.ports;
        for number in settings.port.map_or(1..=n_ports, |port| port..=port) {
            match context.port(number) {
                Ok(port) if port.is_active => return Ok((context, port)),
                Ok(_) => seen.push(format!("{name}:{number} is down")),
                Err(error) => seen.push(error.to_string()),
            }
        }
    }
    let none = if seen.is_empty() { "this machine has none".to_owned() } else { seen.join("; ") };
    Err(Error::Device { peer: "RDMA".to_owned(), what: format!("no active port: {none}") })
}

fn choose_gid(context: &Context, port: &Port, settings: &Settings) -> Result<Gid> {
    let name = format!("{}:{}", context.name(), port.number);
    let none = |what: String| Error::Device { peer: name, what };
    if let Some(index) = settings.gid_index {
        let chosen = context.gid(port.number, index);
        return chosen.ok_or_else(|| none(format!("has no identifier at {index} (RTENSOR_IB_GID_INDEX)")));
    }
    let all = context.gids(port.number, port.gid_table_len);
    let is_v2 = |gid: &&Gid| gid.kind == GidKind::RoceV2;
    let best = all.iter().filter(is_v2).find(|gid| gid.is_ipv4()).or_else(|| all.iter().find(is_v2));
    let best = best.or(all.first()).copied();
    best.ok_or_else(|| none("has no identifiers: has its interface an address?".to_owned()))
}
