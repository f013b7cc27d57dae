//! Connections that failed, and queue pairs that stand in an error state, while their processes live. Those of a process that
//! has ended were flushed by its end, and one that the process has replaced is no trouble any more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::{Culprit, Evidence, FindingKind, Severity};
use ringscope_model::{
    Connection, ConnectionState, End, FailedQueuePair, Model, Name, Process, QueuePair, QueuePairState,
};

use super::ends::failed_after_an_end;
use super::links::{Led, Link, Links, Place, apart, culprit, failed_at, port};
use super::{CONNECTION_FAILED, CONNECTIONS_TO, IN_ERROR, PEER_ENDED, PORT_DOWN, heard, trouble};
use crate::hardware::trouble::Trouble;
use crate::hardware::words::beside;

/// A queue pair stands in an error state for a moment while its program takes it down: time between two answers of the kernel.
const STANDS: Duration = Duration::from_secs(10);
/// The verbs' words for an other end that did not answer, or never made room.
const UNANSWERED: [&str; 2] = ["transport retry counter exceeded", "RNR retry counter exceeded"];
/// How the plugin's words begin where all that it knows is what the other end did or said.
pub(super) const OTHER_END: &str = "the other end ";
/// And what follows where it said why.
const HAS_FAILED: &str = "has failed: ";
/// The verbs' words for what the other end has answered, so that both ports carried something.
const ANSWERED: [&str; 3] = [REFUSED, "remote invalid request error", "remote operation error"];
/// For a write or read that there is no right to.
const REFUSED: &str = "remote access error";
/// Words of the plugin for what never left the host.
const NOT_SENT: [&str; 2] = ["register ", "make "];
/// A port may be read as down so much later than connections over it fail: on a busy host half a minute was seen.
const READ_LATE: Duration = Duration::from_secs(60);
/// Processes that one finding accuses.
const ACCUSED: usize = 8;

pub(super) fn judge(model: &Model, links: &Links<'_>, now: Timestamp) -> Vec<(Name, Trouble)> {
    let mut broken: BTreeMap<Place, Vec<&Link<'_>>> = BTreeMap::new();
    let mut down: BTreeMap<Place, Vec<&Link<'_>>> = BTreeMap::new();
    let counts = |link: &&Link<'_>| {
        is_broken(link) && !is_replaced(link.process, link.one) && !is_told_better_there(link)
    };
    for link in links.all.iter().filter(counts) {
        let own = link.place();
        let is_why = |place: &&Place| may_be_by_a_port(link) && was_down(model, place, link, now);
        let at_it = [&own, &link.peer].into_iter().find(is_why).cloned();
        match at_it {
            Some(place) => down.entry(place).or_default().push(link),
            None => broken.entry(own).or_default().push(link),
        }
    }
    let mut found: Vec<_> = down.iter().map(|(place, links)| at_one_that_is_down(place, links)).collect();
    let led = broken.iter().map(|(place, links)| (place.clone(), leads(links))).collect();
    for group in apart(led) {
        let of_group = || broken.iter().filter(|(place, _)| group.contains_key(*place));
        match culprit(&group, 2).filter(|target| is_told_by_several(&group, &broken, target)) {
            Some(target) => found.push(to_one(&target, &of_group().collect::<Vec<_>>())),
            None => found.extend(of_group().map(|(place, links)| at_one(place, links))),
        }
    }
    broken.extend(down);
    found.extend(unexplained(model, links, &broken, now));
    found
}

/// Why a connection of the process failed, where that lies at its own end as far as anybody knows, and it has made no other in its
/// place.
pub(crate) fn failed_here(process: &Process) -> Option<&str> {
    let failed = process.connections().filter(|one| one.state == ConnectionState::Failed);
    let is_own = |one: &&Connection| !one.error.is_empty() && !is_echo(one) && !is_unanswered(one);
    failed.filter(is_own).find(|one| !is_replaced(process, one)).map(|one| &*one.error)
}

fn leads(links: &[&Link<'_>]) -> BTreeSet<Place> {
    links.iter().filter(|link| link.knows_its_other_end()).map(|link| link.peer.clone()).collect()
}

/// Whether processes of several other hosts have broken connections with it, and with a process that is known to be there.
fn is_told_by_several(group: &Led, broken: &BTreeMap<Place, Vec<&Link<'_>>>, target: &Place) -> bool {
    let others = || group.keys().filter(|place| *place != target);
    let mut links = others().filter_map(|place| broken.get(place)).flatten();
    links.any(|link| link.peer == *target && link.other.is_some())
        && others().map(|(host, _)| host).collect::<BTreeSet<_>>().len() > 1
}

/// Whether nothing goes over the connection any more.
fn is_broken(link: &Link<'_>) -> bool {
    let stands_in_error = || link.one.broken_for().is_some_and(|time| time >= STANDS);
    match link.one.state {
        ConnectionState::Failed => true,
        ConnectionState::Connecting | ConnectionState::Open => stands_in_error(),
        _ => false,
    }
}

/// Whether the host's hardware shows the port without a link, and did when the connection failed.
pub(super) fn was_down(model: &Model, (host, label): &Place, link: &Link<'_>, now: Timestamp) -> bool {
    let Some(hardware) = model.hardware_of(host).filter(|hardware| hardware.is_fresh(now)) else {
        return false;
    };
    let Some((_, nic)) = hardware.nics.iter().find(|(port, _)| port.label() == *label) else { return false };
    let since = nic.phases.back().map(|phase| hardware.ours(phase.since)).unwrap_or_default();
    let failed = failed_at(link.one).unwrap_or_default();
    !nic.up && (since <= failed || since.since(failed) < READ_LATE)
}

/// Whether a port without a link can be why it failed: not where the other end has answered, or nothing was sent.
fn may_be_by_a_port(link: &Link<'_>) -> bool {
    let said = link.one.error.strip_prefix(OTHER_END).and_then(|words| words.strip_prefix(HAS_FAILED));
    let error = said.unwrap_or(&link.one.error);
    !ANSWERED.iter().chain(&NOT_SENT).any(|words| error.starts_with(words))
}

/// Whether the other end did not answer, which says nothing about whose fault that is.
fn is_unanswered(one: &Connection) -> bool {
    UNANSWERED.iter().any(|words| one.error.starts_with(words))
}

/// Whether all that is known at this end is that the other one failed.
fn is_echo(one: &Connection) -> bool {
    one.error.starts_with(OTHER_END)
}

/// Whether this end knows only that the other one failed, and that one tells why.
fn is_told_better_there(link: &Link<'_>) -> bool {
    let mut theirs = link.other.into_iter().filter(|other| other.is_living()).flat_map(Process::connections);
    is_echo(link.one)
        && theirs.any(|one| {
            one.state == ConnectionState::Failed
                && !is_echo(one)
                && (one.remote.pid, one.remote.global_rank) == (link.identity.pid, link.identity.global_rank)
        })
}

/// Whether the process has made another connection to the same process since, over the same port or for the same communicator.
/// Of two that were told of at one moment the one is later of which its place has seen more before.
fn is_replaced(process: &Process, one: &Connection) -> bool {
    let Some(failed) = failed_at(one) else { return false };
    let to = |one: &Connection| {
        let End { host, pid, global_rank, .. } = &one.remote;
        // A rank may go on in another process.
        (one.is_send, host.clone(), *global_rank, global_rank.is_none().then_some(*pid))
    };
    let is_later = |other: &Connection| (other.since, other.generation()) > (failed, one.generation());
    let is_instead = |other: &Connection| {
        other.local.label() == one.local.label() || one.comm_hash != 0 && other.comm_hash == one.comm_hash
    };
    let mut others = process.connections().filter(|other| other.is_in_use() && other.broken_since.is_none());
    others.any(|other| is_later(other) && is_instead(other) && to(other) == to(one))
}

/// "rank 3 of host-0: queue pair 17 of rxe0 to queue pair 18 of rxe0 of host-1 (rank 1) failed: transport retry counter exceeded".
fn words(link: &Link<'_>) -> String {
    let (nic, port) = (&link.one.local.device, link.one.local.port);
    if !link.knows_its_other_end() {
        return format!(
            "{}: {nic} port {port} could not begin a connection: {}",
            link.whose(),
            link.one.error
        );
    }
    let pair = the_pair(link);
    let (own, other) = match pair {
        Some(pair) => {
            (format!("queue pair {} of ", pair.number), format!("queue pair {} of ", pair.remote_number))
        }
        None => (String::new(), String::new()),
    };
    let error = match &*link.one.error {
        "" => format!("stands in {}", state_words(pair)),
        error => format!("failed: {error}"),
    };
    format!("{}: {own}{nic} port {port} to {other}{} {error}", link.whose(), link.to())
}

/// Of its queue pairs the one that is broken; where none is seen so, the first.
fn the_pair<'m>(link: &Link<'m>) -> Option<&'m QueuePair> {
    let pairs = &link.one.queue_pairs;
    pairs.iter().find(|pair| is_error(pair.state())).or(pairs.first())
}

fn is_error(state: QueuePairState) -> bool {
    matches!(state, QueuePairState::Err | QueuePairState::Sqe)
}

fn state_words(pair: Option<&QueuePair>) -> &'static str {
    match pair.map(QueuePair::state) {
        Some(QueuePairState::Err) => "state ERR",
        Some(QueuePairState::Sqe) => "state SQE",
        _ => "an error state",
    }
}

fn evidence(link: &Link<'_>) -> Evidence {
    let text = match (&*link.one.error, the_pair(link)) {
        ("", Some(pair)) => format!("queue pair {}: {}", pair.number, state_words(Some(pair))),
        ("", None) => "a queue pair in an error state".to_owned(),
        (error, _) => error.to_owned(),
    };
    Evidence { file: link.one.file.to_string(), line: 0, text }
}

/// Connections of one port.
fn at_one(place: &Place, links: &[&Link<'_>]) -> (Name, Trouble) {
    let has_ended = links.iter().all(|link| failed_after_an_end(link));
    // What has a reason of its own is told before what comes of another one's end.
    let first = links.iter().find(|link| !failed_after_an_end(link)).or(links.first());
    let said = first.map(|link| words(link)).unwrap_or_default();
    let more = links.len().saturating_sub(1);
    let more = if more > 0 { format!("; and {more} more of this port") } else { String::new() };
    let (cause, severity, why) = match has_ended {
        true => (PEER_ENDED, Severity::Info, "; the process at its other end had ended before"),
        false => (CONNECTION_FAILED, Severity::Critical, ""),
    };
    let message = format!("{said}{more}{why}");
    let proof = links.iter().map(|link| evidence(link)).collect();
    let mut found = trouble((FindingKind::QueuePairError, cause, severity), place.1.clone(), message, proof);
    let accused = match has_ended {
        true => links.iter().map(|link| remote(link, "has ended")).collect(),
        // At which end it lies that the other does not answer nobody knows.
        false => links.iter().filter(|link| !is_unanswered(link.one)).flat_map(|link| blamed(link)).collect(),
    };
    found.blame.accused = each_once(accused);
    let peers: BTreeSet<&Name> = links.iter().map(|link| &link.peer.0).collect();
    found.culprits = peers
        .into_iter()
        .filter(|host| **host != place.0 && !host.is_empty())
        .map(ToString::to_string)
        .collect();
    (place.0.clone(), found)
}

/// Connections that begin or end at a port that is down, which is why.
fn at_one_that_is_down(place: &Place, links: &[&Link<'_>]) -> (Name, Trouble) {
    let n = links.len();
    let s = if n == 1 { "" } else { "s" };
    let first = links.first().map(|link| words(link)).unwrap_or_default();
    let message = format!("{} is down: {n} connection{s} over it failed; {first}", port(place));
    let proof = links.iter().map(|link| evidence(link)).collect();
    let what = (FindingKind::QueuePairError, PORT_DOWN, Severity::Critical);
    let mut found = trouble(what, place.1.clone(), message, proof);
    let at_it = |link: &&Link<'_>| match link.place() == *place {
        true => Culprit { doing: "its port is down".to_owned(), ..local(link) },
        false => remote(link, "its port is down"),
    };
    found.blame.accused = each_once(links.iter().map(at_it).collect());
    (place.0.clone(), found)
}

/// Connections of several hosts that all lead to one port, which may tell of their other ends itself.
fn to_one(target: &Place, broken: &[(&Place, &Vec<&Link<'_>>)]) -> (Name, Trouble) {
    let others = || broken.iter().filter(|(place, _)| *place != target);
    let all: Vec<&Link<'_>> =
        others().flat_map(|(_, links)| *links).filter(|link| link.peer == *target).copied().collect();
    let has_ended = all.iter().all(|link| failed_after_an_end(link));
    let hosts: BTreeSet<&Name> = others().map(|((host, _), _)| host).collect();
    let first = all.first().map(|link| words(link)).unwrap_or_default();
    let message = format!(
        "{}: all connections that failed lead to it, {} connections of {} hosts; {first}{}",
        port(target),
        all.len(),
        hosts.len(),
        if has_ended { "; its process had ended before" } else { "" }
    );
    let (cause, severity) = match has_ended {
        true => (PEER_ENDED, Severity::Info),
        false => (CONNECTIONS_TO, Severity::Critical),
    };
    let proof = all.iter().map(|link| evidence(link)).collect();
    let (host, nic) = target.clone();
    let mut found = trouble((FindingKind::QueuePairError, cause, severity), nic, message, proof);
    let doing = if has_ended { "has ended" } else { "all connections that failed lead to it" };
    found.blame.accused = each_once(all.iter().map(|link| remote(link, doing)).collect());
    (host, found)
}

/// Queue pairs that the kernel shows in an error state and that are of no connection that anybody told of.
fn unexplained(
    model: &Model,
    links: &Links<'_>,
    broken: &BTreeMap<Place, Vec<&Link<'_>>>,
    now: Timestamp,
) -> Vec<(Name, Trouble)> {
    let mut found = Vec::new();
    for (host, hardware) in heard(model, now) {
        for (port_of, nic) in &hardware.nics {
            if nic.failed_queue_pairs.is_empty() {
                continue;
            }
            let place: Place = (host.clone(), port_of.label());
            // By number alone: it is the device's, and whose it is the kernel may not know.
            let told: BTreeSet<u32> = links.at(&place).flat_map(Link::queue_pairs).collect();
            let stands = |pair: &FailedQueuePair| pair.stands_for() >= STANDS;
            let mut pairs = (nic.failed_queue_pairs.iter())
                .filter(|(number, pair)| stands(pair) && !told.contains(number));
            let Some((number, first)) = pairs.next().filter(|_| !broken.contains_key(&place)) else {
                continue;
            };
            let other = first.remote_number.map(|other| format!(" to {other}")).unwrap_or_default();
            let more = match pairs.count() {
                0 => String::new(),
                more => format!("; and {more} more of this port"),
            };
            let message = format!(
                "process {} of {host}: queue pair {number}{other} of {} port {} stands in an error state{more}",
                first.pid, port_of.nic, port_of.number
            );
            let text = format!("queue pair {number} of process {}: state ERR", first.pid);
            let proof = vec![Evidence { file: beside(nic, "state"), line: 0, text }];
            let what = (FindingKind::QueuePairError, IN_ERROR, Severity::Warning);
            let mut one = trouble(what, place.1, message, proof);
            let pid = Some(first.pid);
            let doing = "has a queue pair in an error state".to_owned();
            one.blame.accused = vec![Culprit { host: host.to_string(), pid, doing, ..Culprit::default() }];
            found.push((host.clone(), one));
        }
    }
    found
}

/// The end at which a connection failed first; both where one wrote what the other did not let it, for nobody knows which of them
/// is wrong.
fn blamed(link: &Link<'_>) -> Vec<Culprit> {
    if is_echo(link.one) {
        return vec![remote(link, "its end of a connection failed first")];
    }
    let owner = || remote(link, "did not let the other end write to its memory, or had taken it back");
    let is_refused = link.one.error.starts_with(REFUSED);
    std::iter::once(local(link)).chain(is_refused.then(owner)).collect()
}

fn local(link: &Link<'_>) -> Culprit {
    Culprit {
        host: link.identity.host.to_string(),
        pid: Some(link.identity.pid),
        rank: None,
        global_rank: link.identity.global_rank,
        place: link.identity.scheduled.in_words(),
        doing: match link.knows_its_other_end() {
            true => format!("its connection to {} failed", link.to()),
            false => "could not begin a connection".to_owned(),
        },
    }
}

fn remote(link: &Link<'_>, doing: &str) -> Culprit {
    Culprit {
        host: link.peer.0.to_string(),
        pid: Some(link.one.remote.pid).filter(|pid| *pid != 0),
        rank: None,
        global_rank: link.one.remote.global_rank,
        place: None,
        doing: doing.to_owned(),
    }
}

fn each_once(mut accused: Vec<Culprit>) -> Vec<Culprit> {
    accused.sort_by(|one, other| (&one.host, one.pid).cmp(&(&other.host, other.pid)));
    accused.dedup_by(|one, other| (&one.host, one.pid) == (&other.host, other.pid));
    accused.truncate(ACCUSED);
    accused
}
