//! Called, and never started on the GPU: it is busy with something else, or the stream of the call waits.

use ringscope_api::{FindingKind, Severity};

use super::case::Case;
use super::{files, words};

/// Judges those in a full place who have not started, where that is known of all, and somebody else has started or
/// nobody has. Returns whether this explains that it does not end.
pub(super) fn judge(case: &mut Case<'_, '_, '_>, place: u32) -> bool {
    let at = case.node(place).place;
    let heads: Vec<_> = case
        .node(place)
        .waiters
        .iter()
        .filter_map(|waiter| Some((waiter.process, waiter.rank, waiter.head?.operation)))
        .collect();
    let known = heads.iter().filter(|(.., operation)| operation.start_known);
    let late: Vec<_> = known.clone().filter(|(.., operation)| operation.started_at.is_none()).collect();
    if late.is_empty() || known.count() < heads.len() {
        return false;
    }
    let of = case.place_words(place);
    let since = case.since_words(place);
    let doing = format!("has called {of} and not started it {since}");
    let culprits: Vec<(u32, Option<u32>, String)> =
        late.iter().map(|(process, rank, _)| (*process, Some(*rank), doing.clone())).collect();
    let mut judgement = case.blank(FindingKind::DeviceStalled, Some(at.communicator()));
    judgement.began_at = case.began(place);
    case.accuse(&mut judgement, &culprits);
    judgement.victims = case.graph.victims(&[case.graph.place_node(place)], &judgement.culprits);
    // Where some GPUs have started, the others are known to be behind them.
    let (cause, first) = if late.len() == heads.len() {
        ("nobody_started", Severity::Info)
    } else {
        ("not_started", Severity::Warning)
    };
    judgement.cause = cause;
    judgement.severity = unstarted(case, place, first);
    judgement.key = format!("{}/device", at.key());
    let (has, does) = if culprits.len() == 1 { ("has", "its GPU is") } else { ("have", "their GPUs are") };
    judgement.message = format!(
        "{} {has} called {of} and not started it {since}: {does} busy with something else, or the stream waits; {}",
        words::who_all(case.sight, &culprits),
        words::others_wait(judgement.victims.len())
    );
    judgement.advice = "See what runs on the GPU (`nvidia-smi`, a profiler): a kernel that does not end, a stream that waits \
                        for an event that nobody records, or a failed GPU (Xid in the kernel's log)."
        .to_owned();
    case.warnings(at.communicator(), &mut judgement);
    case.tell(judgement, true).number = at.number();
    true
}

/// How bad it is that a call does not end which may not have begun: `first`, until it has lasted too long for what a GPU does
/// before it. Files tell nothing more.
pub(super) fn unstarted(case: &Case<'_, '_, '_>, place: u32, first: Severity) -> Severity {
    let settings = case.sight.settings;
    let critical = settings.unstarted_critical.max(case.memory.wait_critical(settings));
    let is_critical = files::is_of(case, place) || case.age(place) >= critical;
    if is_critical { Severity::Critical } else { first }
}
