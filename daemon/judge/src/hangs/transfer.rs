//! All have called, with the same call, and none completes it: where progress ends, as far as anything tells.

use std::time::Duration;

use ringscope_api::words::{duration, list, plural, size};
use ringscope_api::{Detail, FindingKind, Severity};
use ringscope_wire::batch::Level;

use super::case::Case;
use super::places::{Place, Waiter};
use super::scene::{Life, Member};
use super::settings::Settings;
use super::sight::Sight;
use super::verdict::Judgement;
use super::{device, files, sent, waiting, words};

/// Judges a full place whose calls agree.
pub(super) fn judge(case: &mut Case<'_, '_, '_>, place: u32) {
    let usual = waiting::usual(case, place);
    if case.age(place) < limit(case.sight.settings, usual) {
        return;
    }
    if device::judge(case, place) {
        return;
    }
    stalled(case, place, usual);
}

/// From which age on it is told, where 99 of 100 such calls usually take that long.
fn limit(settings: &Settings, usual: Option<Duration>) -> Duration {
    // The first call of a size connects the ranks; nobody knows how long that takes here.
    let Some(p99) = usual else { return settings.stalled_after.saturating_mul(2) };
    let most = settings.stalled_most.max(p99.saturating_mul(2));
    p99.saturating_mul(settings.wait_times_p99).min(most).max(settings.stalled_after)
}

/// Whether the call is known to have begun, and not to have ended: all who are in it have started it, or others have completed
/// it. Of those who may have completed it too that shows nothing.
fn has_begun(case: &Case<'_, '_, '_>, place: u32) -> bool {
    let waiters = || case.node(place).waiters.iter();
    let has_started =
        |waiter: &Waiter<'_>| waiter.head.is_some_and(|head| head.operation.started_at.is_some());
    waiters().all(has_started) || !case.passed(place).is_empty() && !waiters().any(may_be_over)
}

/// Whether nothing tells when the call of this rank ends.
fn may_be_over(waiter: &Waiter<'_>) -> bool {
    waiter.head.is_some_and(|head| head.operation.ends_by_order)
}

fn stalled(case: &mut Case<'_, '_, '_>, place: u32, usual: Option<Duration>) {
    let sight = case.sight;
    let at = case.node(place).place;
    let communicator = at.communicator();
    let waiters: Vec<Waiter<'_>> = case.node(place).waiters.clone();
    if case.memory.sent.moves(sight, communicator) {
        return;
    }
    let mut judgement = case.blank(FindingKind::TransferStalled, Some(communicator));
    judgement.began_at = case.began(place);
    judgement.key = format!("{}/stalled", at.key());
    let passed = case.passed(place).len();
    judgement.severity = if has_begun(case, place) {
        Severity::Critical
    } else {
        device::unstarted(case, place, if passed > 0 { Severity::Warning } else { Severity::Info })
    };
    judgement.victims = case.graph.victims(&[case.graph.place_node(place)], &[]);
    let of = case.place_words(place);
    let n = waiters.len();
    let since = case.since_words(place);
    let honest = match passed {
        0 => format!("all {n} ranks are in {of} with the same call {since}, and none has completed it"),
        passed => {
            let mut ranks: Vec<u32> = waiters.iter().map(|waiter| waiter.rank).collect();
            ranks.sort_unstable();
            let is = if n == 1 { "is" } else { "are" };
            let others = plural(passed, "other rank");
            let has = if passed == 1 { "has" } else { "have" };
            format!("{} {is} in {of} {since}, and {others} {has} completed it", words::ranks(&ranks))
        }
    };
    let usually = usual.map(|usual| format!(" (99 of 100 such calls take at most {})", duration(usual)));
    let usually = usually.unwrap_or_default();
    let progress = Progress::of(case, place);
    let without: Vec<_> = waiters.iter().filter_map(|waiter| failed(sight, waiter)).collect();
    match progress {
        _ if !without.is_empty() => {
            blame_unconnected(case, &mut judgement, &without, &format!("{honest}{usually}"));
        }
        Progress::Ends(from, to) => {
            blame(case, &mut judgement, communicator, from, to, &format!("{honest}{usually}"));
        }
        _ => {
            judgement.cause = "nothing_moves";
            judgement.host = waiters.first().map(|waiter| sight.process(waiter.process).host);
            judgement.message = format!("{honest}{usually}{}", progress.unknown_hop());
        }
    }
    judgement.advice = "See the links, NICs and switches between these hosts (error counters, `ethtool`, `ibstat`), and the \
                        library's WARN lines; a GPU may have failed too: `nvidia-smi`, and the kernel's log for Xid."
        .to_owned();
    judgement.details.extend(starts(&waiters));
    judgement.details.extend(files::how_late(case, place, &[]));
    judgement.details.extend(sent_by_hop(case, communicator));
    judgement.details.extend(hardware(case, &waiters));
    let raises = progress == Progress::LevelIsLow;
    judgement
        .details
        .extend(raises.then(|| Detail { title: "Level".to_owned(), lines: vec![RAISED.to_owned()] }));
    case.warnings(communicator, &mut judgement);
    let found = case.tell(judgement, true);
    found.number = at.number();
    found.raises = raises;
}

/// A process, its rank, and what it does or lacks.
type Accused = (u32, Option<u32>, String);

/// A rank without a connection that it needs.
fn failed(sight: &Sight<'_, '_>, waiter: &Waiter<'_>) -> Option<Accused> {
    let words = sight.process(waiter.process).failed_connection;
    let lacks = || format!("has an RDMA connection that failed: {words}");
    (!words.is_empty()).then(|| (waiter.process, Some(waiter.rank), lacks()))
}

/// Names those.
fn blame_unconnected(
    case: &mut Case<'_, '_, '_>,
    judgement: &mut Judgement,
    without: &[Accused],
    honest: &str,
) {
    case.accuse(judgement, without);
    judgement.cause = "failed_connection";
    let Some(((process, rank, lacks), others)) = without.split_first() else { return };
    let others = match others.len() {
        0 => String::new(),
        1 => ", and so has 1 other rank".to_owned(),
        n => format!(", and so have {n} other ranks"),
    };
    let who = words::who(case.sight, *process, *rank);
    judgement.message = format!("{who} {lacks}{others}; {honest}");
}

/// Names the hop at which progress ends.
fn blame(
    case: &mut Case<'_, '_, '_>,
    judgement: &mut Judgement,
    communicator: u32,
    from: u32,
    to: u32,
    honest: &str,
) {
    let sight = case.sight;
    let process = |rank: u32| Some(sight.member(communicator, sight.by_rank(communicator, rank)?).process);
    let doing =
        [(from, format!("has sent least, to rank {to}")), (to, format!("gets nothing from rank {from}"))];
    let culprits: Vec<Accused> =
        doing.into_iter().filter_map(|(rank, doing)| Some((process(rank)?, Some(rank), doing))).collect();
    let names: Vec<String> =
        culprits.iter().map(|(process, rank, _)| words::who(sight, *process, *rank)).collect();
    case.accuse(judgement, &culprits);
    judgement.cause = "hop";
    judgement.message = format!("{}: progress ends on the way between them; {honest}", names.join(" to "));
}

/// How far the ranks have come in the call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// The hop that has carried least of it: from this rank to that one.
    Ends(u32, u32),
    /// A send and its receive: there is no other hop.
    OneHop,
    /// It is known from files, which do not tell it.
    Files,
    /// Not all tell what they send, for their level is below `steps`.
    LevelIsLow,
    /// Nobody sends over the network.
    NoNetwork,
    /// What the ranks have sent in this call cannot be told from what they had sent before.
    NotComparable,
    /// Every hop has carried as much.
    Even,
}

impl Progress {
    fn of(case: &Case<'_, '_, '_>, place: u32) -> Self {
        let sight = case.sight;
        let of = sight.communicator(case.node(place).place.communicator());
        let process = |member: &Member<'_>| sight.process(member.process);
        if matches!(case.node(place).place, Place::Pair { .. }) {
            return Self::OneHop;
        }
        if of.members.iter().any(|member| process(member).life == Life::Imported) {
            return Self::Files;
        }
        if of.members.iter().any(|member| process(member).level != Level::Steps) {
            return Self::LevelIsLow;
        }
        if of.members.iter().all(|member| member.links.is_empty()) {
            return Self::NoNetwork;
        }
        let Some(mut shares) = case.memory.sent.shares(of) else { return Self::NotComparable };
        shares.sort_by_key(|share| share.bytes);
        match shares.as_slice() {
            [least, next, ..] if least.bytes < next.bytes => {
                let member = &of.members[least.place as usize];
                next_of(member).map_or(Self::NotComparable, |to| Self::Ends(member.rank, to))
            }
            _ => Self::Even,
        }
    }

    /// Why the hop is not named, so that it can end a sentence.
    fn unknown_hop(self) -> &'static str {
        match self {
            Self::Ends(..) | Self::OneHop => "",
            Self::Files => "; at which hop is not known: these files do not tell it",
            Self::LevelIsLow => "; at which hop is not known, for the level is below `steps`",
            Self::NoNetwork => "; at which hop is not known: no rank sends over the network here",
            Self::NotComparable => {
                "; at which hop is not known: what each rank has sent in this call cannot be told from what \
                                    it had sent before"
            }
            Self::Even => "; every hop has carried as much, so no hop stands out",
        }
    }
}

/// To whom a rank sends: the next in its ring, else whom it has sent most.
fn next_of(member: &Member<'_>) -> Option<u32> {
    member.next_in_ring.or_else(|| {
        let most = member.links.iter().max_by_key(|link| link.sent_bytes);
        most.map(|link| link.peer)
    })
}

fn starts(waiters: &[Waiter<'_>]) -> Option<Detail> {
    let heads = || waiters.iter().filter_map(|waiter| Some((waiter.rank, waiter.head?.operation)));
    let known = heads().filter(|(_, operation)| operation.start_known).count();
    let started = heads().filter(|(_, operation)| operation.started_at.is_some()).count();
    let line = if waiters.iter().any(may_be_over) {
        "Nothing tells when the call begins or ends. What was called after it on its stream has not begun: it runs, or the \
         stream waits for something after it."
            .to_owned()
    } else if known == 0 {
        "Whether the call has started on the GPUs is not known: nothing tells it here.".to_owned()
    } else {
        format!("{started} of {known} ranks of which it is known have started the call.")
    };
    (!waiters.is_empty()).then(|| Detail { title: "Started".to_owned(), lines: vec![line] })
}

/// What the hops have carried: in this call and those just before it, or, where that cannot be told apart, of all time.
fn sent_by_hop(case: &Case<'_, '_, '_>, communicator: u32) -> Option<Detail> {
    let of = case.sight.communicator(communicator);
    let shares = case.memory.sent.shares(of);
    let title = match shares {
        Some(_) => "Sent since all ranks were out of calls, the least first",
        None => "Sent so far, the least first",
    };
    let mut sent: Vec<(u64, &Member<'_>)> = match shares {
        Some(shares) => {
            shares.into_iter().map(|share| (share.bytes, &of.members[share.place as usize])).collect()
        }
        None => {
            let senders = of.members.iter().filter(|member| !member.links.is_empty());
            senders.map(|member| (sent::sum(member, |link| link.sent_bytes), member)).collect()
        }
    };
    sent.sort_by_key(|(bytes, member)| (*bytes, member.rank));
    let line = |(bytes, member): (u64, &Member<'_>)| {
        let to = next_of(member).map(|to| format!(" to rank {to}")).unwrap_or_default();
        format!("rank {}{to}: {}", member.rank, size(bytes))
    };
    let lines: Vec<String> = sent.into_iter().take(HOPS).map(line).collect();
    (!lines.is_empty()).then(|| Detail { title: title.to_owned(), lines })
}

/// What is wrong with the hardware of these hosts.
fn hardware(case: &Case<'_, '_, '_>, waiters: &[Waiter<'_>]) -> Option<Detail> {
    let mut hosts: Vec<u32> = waiters.iter().map(|waiter| case.sight.process(waiter.process).host).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let of = |host: u32| case.sight.scene.hosts.get(host as usize);
    let troubled = hosts.into_iter().filter_map(of).filter(|host| !host.hardware.is_empty());
    let line = |host: &super::scene::Host<'_>| {
        format!("{}: {}", host.name, list(host.hardware.iter(), words::NAMED))
    };
    let lines: Vec<String> = troubled.take(HOPS).map(line).collect();
    (!lines.is_empty()).then(|| Detail { title: "Hardware of these hosts".to_owned(), lines })
}

/// What raising the level brings: who stands still makes no next call, and of the last one nothing more is told.
const RAISED: &str = "ringscope asks the job's collectors for each network step (level steps) as long as this lasts, unless \
                      somebody has set their level, and then for what they told before. Of this call nothing more is told, \
                      for it was made before; where another call stands still meanwhile, its hop may be named.";
/// Hops, and hosts, that are shown.
const HOPS: usize = 16;
