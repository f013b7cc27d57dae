//! A service that owns, or gets, more than its optimal share: every round waits for its NIC.

use ringscope_api::{FindingKind, Severity};
use ringscope_model::limits::RATE_WINDOW;
use ringscope_model::real;
use ringscope_model::summation::{SHARE_MIN, Service};

use super::super::judgement::Judgement;
use super::Subject;

/// A service's load against its optimum.
struct Load {
    ratio: f64,
    share: f64,
    optimal: f64,
    /// Whether it is what workers push, which is more than what it owns.
    is_observed: bool,
}

/// The service with the most for its share.
pub(super) fn judge(subject: Subject<'_>) -> Option<Judgement> {
    let Subject { group, now, .. } = subject;
    let facts = group.facts()?;
    let services: Vec<(f64, Service<'_>)> =
        group.services().map(|service| (service.pushed_bytes_per_s(now), service)).collect();
    let total: f64 = services.iter().map(|(pushed, _)| pushed).sum();
    let rounds = group.rounds_per_s(now) * RATE_WINDOW.as_secs_f64();
    let is_enough = total > 0.0 && rounds >= MODEL_ROUNDS_MIN * real(facts.n_parts.max(1));
    let loads =
        services.iter().map(|(pushed, service)| (load(service, is_enough.then(|| pushed / total)), service));
    let (worst, service) = loads.max_by(|(one, _), (other, _)| one.ratio.total_cmp(&other.ratio))?;
    let excess_bytes = (worst.share - worst.optimal) * real(facts.model_bytes);
    if worst.ratio <= RATIO_MAX || worst.share < SHARE_MIN || excess_bytes < EXCESS_BYTES_MIN {
        return None;
    }
    let (cause, severity, why) = if worst.is_observed {
        ("uneven_use", Severity::Warning, "some tensors are pushed more often than others")
    } else if excess_bytes <= real(facts.partition_bytes) {
        ("coarse_parts", Severity::Info, "parts are too large to be spread evenly; smaller ones would be")
    } else {
        ("uneven_placement", Severity::Warning, "every round waits for it")
    };
    let verb = if worst.is_observed { "gets" } else { "owns" };
    let message = format!(
        "the service of {} {verb} {} of all bytes where {} is best: {why}",
        subject.who(service.place),
        percent(worst.share),
        percent(worst.optimal),
    );
    Some(subject.judgement(FindingKind::SumShareImbalance, severity, service.place, cause, message))
}

fn load(service: &Service<'_>, observed: Option<f64>) -> Load {
    let (owned, optimal) = (service.share(), service.optimal_share());
    let is_observed = observed.is_some_and(|observed| observed > owned * OBSERVED_MORE);
    let share = observed.filter(|_| is_observed).unwrap_or(owned);
    let ratio = if optimal > 0.0 { share / optimal } else { f64::INFINITY };
    Load { ratio: if share > 0.0 { ratio } else { 0.0 }, share, optimal, is_observed }
}

/// "34 %".
fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Above this the slowest NIC costs more than a tenth of every round.
const RATIO_MAX: f64 = 1.10;
/// Of a round of all tensors: less takes no NIC longer than the round's messages take anyway (0.2 ms at 10 Gb/s), and a model of few
/// kilobytes cannot be spread evenly.
const EXCESS_BYTES_MIN: f64 = 262_144.0;
/// What is observed is told from what is owned from here on: rates of several agents do not end at the same moment.
const OBSERVED_MORE: f64 = 1.05;
/// Rounds of all tensors in the window: a half one at its edge then weighs little.
const MODEL_ROUNDS_MIN: f64 = 20.0;
