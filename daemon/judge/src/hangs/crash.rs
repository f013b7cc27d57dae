//! A job that is over because one of its processes ended badly: its launcher ends the others at once, so nobody is left
//! who waits, and the only witness is who ended first.

use std::collections::HashMap;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::words::{capital, duration};
use ringscope_api::{Detail, FindingKind, Severity, blame, signal};
use ringscope_model::ToldToEnd;

use super::case::Case;
use super::errors::REMOTE;
use super::scene::{Life, OperationState, Process};
use super::sight::{Sight, is_over, lives};
use super::verdict::Judgement;
use super::{dead, kernel, words};

/// A process that is gone, and when that was seen, by our clock.
#[derive(Clone, Copy)]
struct Ended {
    process: u32,
    at: Timestamp,
}

/// Names who ended first where all have ended, not all at once, and not in good order.
pub(super) fn judge(case: &mut Case<'_, '_, '_>) {
    let launched =
        ended(case.sight, |sight, process| sight.process(process).launched || uses_one(sight, process));
    if were_asked_to_end(case.sight, &launched) {
        return;
    }
    if let Some((first, others)) = by_launch(case.sight, launched) {
        let last = others.iter().map(|one| one.at).max().unwrap_or(first.at);
        if case.sight.scene.now.since(last) > TOLD_FOR {
            return;
        }
        if is_told_of_peer(case.sight, first.process) {
            tell_of_witness(case, first, &others);
        } else {
            let host = case.sight.process(first.process).host;
            let kernel = kernel::words_about(case, host, first.process);
            tell(case, &[first], &others, kernel);
        }
        return;
    }
    let ended = ended(case.sight, uses_one);
    let [first, .., last] = *ended.as_slice() else { return };
    let (culprits, others): (Vec<Ended>, Vec<Ended>) =
        ended.iter().partition(|one| may_be_as_early(case.sight, **one, first));
    let (culprits, others) = by_status(case.sight, culprits, others);
    // Where most ended at once, somebody ended the job.
    if culprits.len() > others.len() || case.sight.scene.now.since(last.at) > TOLD_FOR {
        return;
    }
    let ended_badly = |one: &Ended| case.sight.process(one.process).ended_badly();
    let Some(first) = culprits.first() else { return };
    let host = case.sight.process(first.process).host;
    let kernel = kernel::words_about(case, host, first.process);
    let was_at_work = kernel.is_some() || ended.iter().any(|one| is_at_work(case.sight, one.process));
    if was_at_work && ended.iter().any(ended_badly) {
        tell(case, &culprits, &others, kernel);
    }
}

/// Whether somebody has asked several processes to end, at once and not by their launch, and none failed otherwise: a scheduler does
/// so, and the processes may end before their launch does.
fn were_asked_to_end(sight: &Sight<'_, '_>, ended: &[Ended]) -> bool {
    let failed: Vec<&Ended> = ended.iter().filter(|one| sight.process(one.process).ended_badly()).collect();
    let was_asked = |one: &Ended| {
        let signal = sight.process(one.process).exit.signal;
        signal.is_some_and(|number| signal::asks_to_end(number.into()))
    };
    failed.len() > 1 && failed.iter().all(|one| was_asked(one) && one.at.since(failed[0].at) <= AT_ONCE)
}

/// Who failed first, and all others, where a launch says whom it has ended and whom not. `None` while any process lives, and
/// where nobody failed by itself or no launch tells.
fn by_launch(sight: &Sight<'_, '_>, mut ended: Vec<Ended>) -> Option<(Ended, Vec<Ended>)> {
    let exit = |one: &Ended| sight.process(one.process).exit;
    let is_told = |one: &Ended| {
        let it = sight.process(one.process);
        // A signal only a launch tells; a status a collector does too, but of nobody whose calls it does not see.
        it.exit.told == Some(ToldToEnd::Failure)
            || it.exit.signal.is_some()
            || it.exit.status.is_some() && !it.calls_seen
    };
    if !ended.iter().any(is_told) {
        return None;
    }
    let failed = || ended.iter().filter(|one| sight.process(one.process).ended_badly());
    let earliest = failed().map(|one| one.at).min()?;
    let at_once = failed().filter(|one| one.at.since(earliest) <= AT_ONCE);
    let order = |one: &Ended| blame::order(exit(one).signal.map(i32::from));
    let first = *at_once.min_by_key(|one| (order(one), is_told_of_peer(sight, one.process), one.at))?;
    ended.retain(|one| one.process != first.process);
    Some((first, ended))
}

/// Whether the library had told it that a peer was gone: it failed because of that one.
fn is_told_of_peer(sight: &Sight<'_, '_>, process: u32) -> bool {
    let mut parts = sight.parts(process).iter();
    let error = |(communicator, place): &(u32, u32)| sight.member(*communicator, *place).error.as_ref();
    parts.any(|part| error(part).is_some_and(|error| error.code == REMOTE))
}

/// Whether it has not ended all its communicators.
fn uses_one(sight: &Sight<'_, '_>, process: u32) -> bool {
    let mut parts = sight.parts(process).iter();
    parts.any(|(communicator, place)| !is_over(sight.member(*communicator, *place).state))
}

/// The processes that count of the newest life of the job, which are gone, the first one first. Empty while any of them lives.
fn ended(sight: &Sight<'_, '_>, counts: impl Fn(&Sight<'_, '_>, u32) -> bool) -> Vec<Ended> {
    let users = || (0_u32..).zip(&sight.scene.processes).filter(|(index, _)| counts(sight, *index));
    if users().any(|(_, process)| lives(process.life)) {
        return Vec::new();
    }
    let mut newest: HashMap<u32, Timestamp> = HashMap::new();
    for (_, process) in users() {
        if let Some(rank) = process.global_rank {
            let known = newest.entry(rank).or_default();
            *known = process.ours(process.started_at).max(*known);
        }
    }
    let is_replaced = |process: &Process<'_>| {
        let newest = process.global_rank.and_then(|rank| newest.get(&rank));
        newest.is_some_and(|newest| *newest > process.ours(process.started_at))
    };
    // Processes of one life overlap: who ended before another one began, or in whose place another one began, is of an
    // earlier life. One that failed at once may have ended before its launch had started them all.
    let began = users().map(|(_, process)| process.ours(process.started_at)).max().unwrap_or_default();
    let ended = users().filter(|(_, process)| !is_replaced(process)).filter_map(|(index, process)| {
        let one = Ended { process: index, at: process.ours(process.ended_at?) };
        let failed_at_once = began.since(one.at) <= AT_ONCE && process.launched && process.ended_badly();
        (one.at >= began || failed_at_once).then_some(one)
    });
    let mut ended: Vec<Ended> = ended.collect();
    ended.sort_by_key(|one| (one.at, one.process));
    ended
}

/// Whether one may have ended as early as the first: the same reading saw both, or the readings of two agents do not
/// tell which was the first.
fn may_be_as_early(sight: &Sight<'_, '_>, one: Ended, first: Ended) -> bool {
    let is_same_host = sight.process(one.process).host == sight.process(first.process).host;
    one.at == first.at || !is_same_host && one.at.since(first.at) < READINGS_APART
}

/// Of those that ended as early as the first, one alone is to blame that ended with an error of its own where all others were
/// killed: its launcher ended them. The other way round nobody knows: where all fail alike, a launcher may kill the last one.
fn by_status(sight: &Sight<'_, '_>, early: Vec<Ended>, mut others: Vec<Ended>) -> (Vec<Ended>, Vec<Ended>) {
    let (failed, killed): (Vec<Ended>, Vec<Ended>) =
        early.iter().partition(|one| sight.process(one.process).exit.status.is_some());
    let is_own_error = |one: &Ended| {
        let status = sight.process(one.process).exit.status;
        status.is_some_and(|status| status != 0 && status < SIGNALLED)
    };
    if failed.len() != 1 || killed.len() < 2 || !failed.iter().all(is_own_error) {
        return (early, others);
    }
    others.extend(killed);
    others.sort_by_key(|one| (one.at, one.process));
    (failed, others)
}

/// Whether it had a call open when it ended. Programs that end without a word have completed all.
fn is_at_work(sight: &Sight<'_, '_>, process: u32) -> bool {
    let is_open = |(communicator, place): &(u32, u32)| {
        let member = sight.member(*communicator, *place);
        let mut open = member.open.iter().map(|operation| operation.state);
        member.completion_known && !is_over(member.state) && open.any(|state| state == OperationState::Issued)
    };
    !sight.process(process).open_calls.is_empty() || sight.parts(process).iter().any(is_open)
}

/// A judgement about the end of the first, and the largest of its communicators.
fn blank(case: &Case<'_, '_, '_>, first: Ended) -> (Judgement, Option<u32>) {
    let communicator = case.sight.largest(first.process).map(|(communicator, _)| communicator);
    let mut judgement = case.blank(FindingKind::RankDead, communicator);
    (judgement.began_at, judgement.severity) = (Some(first.at), Severity::Critical);
    judgement.key = dead::key(case.sight, first.process);
    (judgement, communicator)
}

/// Says that somebody failed because another one was gone, where nobody tells who that was: it may have been slow to end, so that
/// its launch ended it before it had failed. A witness is not accused.
fn tell_of_witness(case: &mut Case<'_, '_, '_>, first: Ended, others: &[Ended]) {
    let sight = case.sight;
    let (mut judgement, communicator) = blank(case, first);
    judgement.cause = "peer_gone";
    let who = words::who(sight, first.process, rank_in(sight, first.process, communicator));
    judgement.message = format!(
        "{who} failed first at {}, because a peer of it was gone, and nobody tells which{}",
        words::clock(first.at),
        what_followed(sight, first, others)
    );
    judgement.advice = format!(
        "It is a witness. What it wrote last names the one whose connection closed, and that one's own last lines say why: `ringscope \
         launch` prints them. Where it names none, look for the first error in the output of all ranks{}.",
        if were_told(sight, others) { ", also of those that the launch has ended" } else { "" }
    );
    case.tell(judgement, true);
}

fn tell(
    case: &mut Case<'_, '_, '_>,
    culprits: &[Ended],
    others: &[Ended],
    kernel: Option<(&'static str, String)>,
) {
    let sight = case.sight;
    let Some(first) = culprits.first().copied() else { return };
    let it = sight.process(first.process);
    let (mut judgement, communicator) = blank(case, first);
    let named = culprits.iter().map(|one| {
        let process = sight.process(one.process);
        (one.process, rank_in(sight, one.process, communicator), words::ended(process))
    });
    let named: Vec<(u32, Option<u32>, String)> = named.collect();
    case.accuse(&mut judgement, &named);
    judgement.cause = if it.life == Life::Killed { "killed" } else { "exited" };
    let said = kernel.as_ref().map(|(_, text)| format!(" ({text})")).unwrap_or_default();
    if let Some((cause, text)) = kernel {
        judgement.cause = cause;
        judgement.details.push(Detail { title: "The kernel says".to_owned(), lines: vec![text] });
    }
    let who = words::who_all(sight, &named);
    let what = match named.as_slice() {
        [(.., ended)] => format!("{who} {ended}"),
        _ => format!("one of {who} ended first"),
    };
    judgement.message =
        format!("{what} at {}{said}{}", words::clock(first.at), what_followed(sight, first, others));
    judgement.advice = advice(sight, first, others);
    if let Some(communicator) = communicator {
        case.warnings(communicator, &mut judgement);
    }
    case.tell(judgement, true);
}

/// What to do about the first that ended.
fn advice(sight: &Sight<'_, '_>, first: Ended, others: &[Ended]) -> String {
    let it = sight.process(first.process);
    let host = sight.host_name(it);
    let hint = it.exit.signal.and_then(|number| signal::hint(number.into()));
    let hint = hint.map(|hint| format!("{}. ", capital(hint))).unwrap_or_default();
    if hint.is_empty() && !were_told(sight, others) {
        return format!(
            "See its own output, and the kernel's log of {host} (out of memory, Xid). If somebody ended the job, this is how it \
             ended."
        );
    }
    format!(
        "{hint}Look at what it wrote last; `ringscope launch` prints it. If that says nothing, look at the kernel's log of {host} \
         (out of memory, Xid)."
    )
}

/// Whether a launch has ended some of these; others may have failed because of the first before that.
fn were_told(sight: &Sight<'_, '_>, others: &[Ended]) -> bool {
    others.iter().any(|one| sight.process(one.process).exit.told.is_some())
}

/// What became of the others, as the rest of a sentence.
fn what_followed(sight: &Sight<'_, '_>, first: Ended, others: &[Ended]) -> String {
    let is_before = |one: &&Ended| first.at.since(one.at) > AT_ONCE;
    let (before, after): (Vec<&Ended>, Vec<&Ended>) = others.iter().partition(is_before);
    let preceded = match before.as_slice() {
        [] => String::new(),
        [one] => {
            let who = words::who(sight, one.process, None);
            format!("; {who} had ended {} before", duration(first.at.since(one.at)))
        }
        [.., last] => {
            let earlier = duration(first.at.since(last.at));
            format!("; {} others had ended before, the last one {earlier}", before.len())
        }
    };
    let Some(next) = after.first() else { return preceded };
    if were_told(sight, others) {
        return format!("; its launch then ended the job{preceded}");
    }
    let n = if after.len() == 1 { "one".to_owned() } else { after.len().to_string() };
    match next.at.since(first.at) {
        Duration::ZERO => format!("{preceded}; the other {n} ended at about the same time"),
        later => format!("{preceded}; the other {n} ended {} later", duration(later)),
    }
}

fn rank_in(sight: &Sight<'_, '_>, process: u32, communicator: Option<u32>) -> Option<u32> {
    let mut parts = sight.parts(process).iter();
    let (of, place) = parts.find(|(of, _)| Some(*of) == communicator)?;
    Some(sight.member(*of, *place).rank)
}

/// From this exit status on, programs and shells say that a signal has ended them: 128 and its number.
const SIGNALLED: u8 = 128;
/// For how long after the end of a job it is told how it ended: so that whoever is to hear of it does.
const TOLD_FOR: Duration = Duration::from_secs(120);
const AT_ONCE: Duration = Duration::from_nanos(blame::AT_ONCE_NS);
/// Two agents read every 250 ms, each at its own instants; and their batches take some time.
const READINGS_APART: Duration = Duration::from_millis(300);
