//! Waits that may be healthy: how long they may last before they are told, and before they are critical.

use std::time::Duration;

use ringscope_api::words::duration;
use ringscope_api::{Detail, FindingKind, Severity};

use super::case::Case;
use super::places::{self, Place, Waiter};
use super::scene::Life;
use super::sinks::{Group, Manner};
use super::verdict::Judgement;
use super::words;

/// Tells of a wait for those who are elsewhere, or of whom nobody knows, once it lasts long enough.
pub(super) fn tell(
    case: &mut Case<'_, '_, '_>,
    group: &Group,
    mut judgement: Judgement,
    number: Option<u64>,
) {
    let age = case.age(group.place);
    let limits = limits(case, group);
    // Whose watchdog has given up does not wait for somebody who merely comes late.
    let gave_up = gave_up(case, group);
    if age < limits.told && gave_up == 0 {
        return;
    }
    let has_never_called =
        |(process, _): &(u32, Option<u32>)| case.sight.has_never_called(case.sight.process(*process));
    let knows = match group.manner {
        Manner::Elsewhere => true,
        Manner::Unseen => limits.is_init,
        _ => limits.is_init && group.ranks.iter().all(has_never_called),
    };
    // Of files that do not say since when, nobody knows for how long.
    let knows_since = case.began(group.place).is_some();
    judgement.severity = match age {
        _ if group.is_beside => Severity::Info,
        _ if !knows_since => Severity::Warning,
        age if knows && (age >= limits.critical || gave_up > 0) => Severity::Critical,
        age if age >= limits.warning => Severity::Warning,
        _ => Severity::Info,
    };
    // What nobody knows is never more than a wait.
    if !limits.is_init && judgement.severity != Severity::Critical {
        judgement.kind = FindingKind::Waiting;
    }
    let longest = case.memory.longest_wait();
    if judgement.kind == FindingKind::Waiting && !longest.is_zero() {
        judgement.details.push(Detail {
            title: "Such waits".to_owned(),
            lines: vec![format!("The longest one of this job that ended well took {}.", duration(longest))],
        });
    }
    if gave_up > 0 {
        judgement.message.push_str(&format!("; {} given up and abort it", words::have(gave_up)));
    }
    let found = case.tell(judgement, false);
    found.number = number;
    if knows && knows_since && !limits.is_init {
        found.innocent = Some(age);
    }
}

/// How many of those who wait abort the communicator.
fn gave_up(case: &Case<'_, '_, '_>, group: &Group) -> usize {
    let node = case.node(group.place);
    let communicator = node.place.communicator();
    let aborts = |waiter: &&Waiter<'_>| places::aborts(case.sight.process(waiter.process), communicator);
    node.waiters.iter().filter(aborts).count()
}

struct Limits {
    told: Duration,
    warning: Duration,
    critical: Duration,
    is_init: bool,
}

fn limits(case: &Case<'_, '_, '_>, group: &Group) -> Limits {
    let settings = case.sight.settings;
    let place = case.node(group.place).place;
    match place {
        Place::Init { .. } | Place::Split { .. } | Place::Teardown { .. } | Place::Window { .. } => Limits {
            told: settings.wait_told,
            warning: settings.init_told,
            critical: settings.init_critical,
            is_init: true,
        },
        _ => {
            let usual = usual(case, group.place).map(|p99| p99.saturating_mul(settings.wait_times_p99));
            let told = usual.unwrap_or_default().max(settings.wait_told).min(settings.wait_critical_most);
            let critical = if is_starting(case, group) {
                settings.start_critical
            } else {
                case.memory.wait_critical(settings)
            };
            let critical = critical.max(told);
            // What is not known to be a wait for a rank becomes a warning when that would be critical.
            Limits { told, warning: critical, critical, is_init: false }
        }
    }
}

/// What 99 of 100 such calls take at most.
pub(super) fn usual(case: &Case<'_, '_, '_>, place: u32) -> Option<Duration> {
    let node = case.node(place);
    let head = node.waiters.iter().find_map(|waiter| waiter.head)?;
    case.memory.p99(case.sight.communicator(node.place.communicator()).n_ranks, head.operation)
}

/// Whether one of them has completed nothing so far: a first step compiles, loads and warms up.
fn is_starting(case: &Case<'_, '_, '_>, group: &Group) -> bool {
    group.ranks.iter().any(|(process, _)| {
        let parts = case.sight.parts(*process);
        let is_file = case.sight.process(*process).life == Life::Imported;
        parts.iter().all(|(communicator, at)| {
            let member = case.sight.member(*communicator, *at);
            // Files may not tell of what has ended, but how many calls there were.
            let has_called = is_file && member.calls.is_some_and(|calls| calls.made > 1);
            member.last_completed.is_none() && !has_called
        })
    })
}
