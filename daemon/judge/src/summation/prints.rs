//! Members that have different bytes of one result.

use ringscope_api::{FindingKind, Severity};
use ringscope_model::summation::Outcome;

use super::super::judgement::Judgement;
use super::Subject;
use super::words::rounded;

/// As long as the group is in use: what was wrong once has gone into the parameters. Asynchronous sums differ by design.
pub(super) fn judge(subject: Subject<'_>) -> Option<Judgement> {
    let Subject { group, model, .. } = subject;
    group.live(model).next()?;
    let is_asynchronous = group.facts().is_some_and(|facts| facts.asynchronous);
    let first = group.rounds().mismatches().first().filter(|_| !is_asynchronous)?;
    let odd = odd_one(first)?;
    let place = group.place(odd)?;
    let have = first.prints.iter().map(|(print, ranks)| {
        let verb = if ranks.len() == 1 { "has" } else { "have" };
        format!("{} {verb} 0x{print:016x}", subject.who_all(ranks.iter().copied()))
    });
    let have = have.collect::<Vec<_>>().join("; ");
    let more = match group.rounds().n_mismatches() {
        0 | 1 => String::new(),
        n => format!("; at least {} results differ in all", rounded(n)),
    };
    let message =
        format!("members have different sums of part {} in round {}: {have}{more}", first.key, first.round);
    let kind = FindingKind::SumFingerprintMismatch;
    Some(subject.judgement(kind, Severity::Critical, place, "different_sums", message))
}

/// The lowest rank that has not what was made; if nobody said what was made, of the smallest party.
fn odd_one(outcome: &Outcome) -> Option<u32> {
    let made = outcome.made.map(|made| made.fingerprint);
    let others = outcome.prints.iter().filter(|(print, _)| Some(*print) != made);
    let (_, ranks) = others.min_by_key(|(_, ranks)| ranks.len())?;
    ranks.first().copied()
}
