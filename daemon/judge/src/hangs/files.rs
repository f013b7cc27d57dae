//! What only files call for: until when each tells of its rank, ranks that others tell of because they did not speak
//! themselves, and inits of which a log has no end. All else is judged as of a live job.

use ringscope_api::clock::Timestamp;
use ringscope_api::words::{duration, plural};
use ringscope_api::{Detail, FindingKind, Severity};

use super::case::Case;
use super::errors::REMOTE;
use super::scene::{Life, Member, MemberState};
use super::sight::{Sight, is_over};
use super::words;

/// The communicators that are known from files: their calls are compared also where nobody waits, for there is no
/// running hash.
pub(super) fn communicators(sight: &Sight<'_, '_>) -> Vec<u32> {
    let all = (0_u32..).zip(&sight.scene.communicators);
    let of_files = all.filter(|(_, of)| {
        of.members.iter().any(|member| sight.process(member.process).life == Life::Imported)
    });
    of_files.map(|(index, _)| index).collect()
}

/// Whether those who wait in a place are known from files.
pub(super) fn is_of(case: &Case<'_, '_, '_>, place: u32) -> bool {
    let mut waiters = case.node(place).waiters.iter();
    waiters.any(|waiter| case.sight.process(waiter.process).life == Life::Imported)
}

/// How far apart the files of a communicator's ranks end; beside it those of `culprits`.
pub(super) fn how_late(case: &Case<'_, '_, '_>, place: u32, culprits: &[u32]) -> Option<Detail> {
    let sight = case.sight;
    let members = &sight.communicator(case.node(place).place.communicator()).members;
    let ends: Vec<(Timestamp, u32, u32)> = members
        .iter()
        .filter(|member| sight.process(member.process).life == Life::Imported)
        .map(|member| (sight.process(member.process).heard_at, member.rank, member.process))
        .collect();
    if ends.len() < 2 {
        return None;
    }
    let (first, last) = (ends.iter().min()?, ends.iter().max()?);
    let apart = last.0.since(first.0);
    let mut lines = vec![if apart.is_zero() {
        format!("All of them are taken to end at {}: no file shows another time.", words::clock(last.0))
    } else {
        format!(
            "They end between {} (rank {}) and {} (rank {}), {} apart.",
            words::clock(first.0),
            first.1,
            words::clock(last.0),
            last.1,
            duration(apart)
        )
    }];
    if !apart.is_zero() {
        let named = ends.iter().filter(|(_, _, process)| culprits.binary_search(process).is_ok());
        lines.extend(
            named
                .take(words::NAMED)
                .map(|(end, rank, _)| format!("That of rank {rank} ends at {}.", words::clock(*end))),
        );
    }
    Some(Detail { title: "The files".to_owned(), lines })
}

/// One judgement for each rank that did not speak, of which others tell, and which nothing else names.
pub(super) fn unanswered(case: &mut Case<'_, '_, '_>) {
    let sight = case.sight;
    for (index, process) in (0_u32..).zip(&sight.scene.processes) {
        let is_named = case.found.iter().any(|found| found.judgement.culprits.binary_search(&index).is_ok());
        if process.told_by_peers.is_empty() || process.life != Life::Imported || is_named {
            continue;
        }
        let parts = sight.parts(index).iter();
        let used = parts.filter(|(of, place)| !is_over(sight.member(*of, *place).state));
        let Some((of, place)) = used.max_by_key(|(of, _)| sight.communicator(*of).n_ranks).copied() else {
            continue;
        };
        let rank = sight.member(of, place).rank;
        let mut judgement = case.blank(FindingKind::RankMissing, Some(of));
        judgement.severity = Severity::Critical;
        judgement.cause = "unanswered";
        judgement.key = format!("unanswered/{rank}");
        case.accuse(&mut judgement, &[(index, Some(rank), process.told_by_peers.to_owned())]);
        // Who was told that a peer is gone is a victim of it.
        let members = &sight.communicator(of).members;
        let told =
            members.iter().filter(|other| other.error.as_ref().is_some_and(|error| error.code == REMOTE));
        judgement.victims = told.map(|other| other.process).filter(|other| *other != index).collect();
        judgement.victims.sort_unstable();
        let others = sight.communicator(of).n_ranks.saturating_sub(1);
        judgement.message = format!(
            "{} {}; {} {} {} with it",
            words::who(sight, index, Some(rank)),
            process.told_by_peers,
            plural(others as usize, "other"),
            if others == 1 { "uses" } else { "use" },
            words::comm(sight.communicator(of))
        );
        judgement.advice = see_missing(sight.host_name(process));
        case.warnings(of, &mut judgement);
        case.tell(judgement, true);
    }
}

/// What to do about one of whom peers say that it is missing.
pub(super) fn see_missing(host: &str) -> String {
    format!("See whether the process still runs on {host}, its own output and the kernel's log there.")
}

/// One judgement for each init that files show to have failed.
pub(super) fn failed_inits(case: &mut Case<'_, '_, '_>) {
    let sight = case.sight;
    for (index, of) in (0_u32..).zip(&sight.scene.communicators) {
        let is_file = |member: &&Member<'_>| sight.process(member.process).life == Life::Imported;
        let failed: Vec<&Member<'_>> =
            of.members.iter().filter(is_file).filter(|member| member.state == MemberState::Failed).collect();
        if failed.is_empty() {
            continue;
        }
        // With its error it is told elsewhere.
        if failed.iter().any(|member| member.error.is_some()) {
            continue;
        }
        let mut judgement = case.blank(FindingKind::InitStuck, Some(index));
        let culprits: Vec<(u32, Option<u32>, String)> = failed
            .iter()
            .map(|member| (member.process, Some(member.rank), "failed to join".to_owned()))
            .collect();
        case.accuse(&mut judgement, &culprits);
        let stayed = of.members.iter().filter(|member| member.state == MemberState::Forming);
        let stayed: Vec<u32> = stayed.map(|member| member.process).collect();
        judgement.severity = Severity::Critical;
        judgement.cause = "init_failed";
        "init/failed".clone_into(&mut judgement.key);
        let names = words::names(sight, &culprits);
        let others = match stayed.len() {
            0 => String::new(),
            n => format!("; {} did not come out of it", plural(n, "other")),
        };
        judgement.message = format!("{names} failed to join the init of {}{others}", words::comm(of));
        judgement.victims = stayed;
        judgement.victims.sort_unstable();
        judgement.victims.dedup();
        judgement.advice =
            "The first WARN line of the rank that failed first says why; the others' errors follow from it."
                .to_owned();
        case.warnings(index, &mut judgement);
        case.tell(judgement, true);
    }
}

/// An init that all have called, of which the files of some ranks have no end.
pub(super) fn no_end(case: &mut Case<'_, '_, '_>, place: u32) {
    let at = case.node(place).place;
    let members = &case.sight.communicator(at.communicator()).members;
    if members.iter().any(|member| member.state == MemberState::Failed) {
        return;
    }
    let mut judgement = case.blank(FindingKind::InitStuck, Some(at.communicator()));
    let culprits: Vec<(u32, Option<u32>, String)> = case
        .node(place)
        .waiters
        .iter()
        .map(|waiter| (waiter.process, Some(waiter.rank), "has no end of its init".to_owned()))
        .collect();
    case.accuse(&mut judgement, &culprits);
    judgement.severity = Severity::Warning;
    judgement.cause = "no_end";
    "init/no_end".clone_into(&mut judgement.key);
    let names = words::names(case.sight, &culprits);
    let of = case.place_words(place);
    judgement.message = format!("{names}: {of} has no end: it failed, hangs, or the log is cut");
    judgement.advice =
        "If the job hung there: see the library's WARN lines, the network interface that it chose \
         (NCCL_SOCKET_IFNAME) and firewalls between the hosts. If it went on, the log is not whole."
            .to_owned();
    case.warnings(at.communicator(), &mut judgement);
    case.tell(judgement, false);
}
