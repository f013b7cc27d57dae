//! One look of the judge: peace is found out first, and costs nearly nothing.

use std::time::Duration;

use ringscope_api::{FindingKind, Severity};

use super::case::Case;
use super::graph::Graph;
use super::hashes::Differ;
use super::memory::{Memory, key};
use super::places::Place;
use super::scene::{Life, MemberState, Scene};
use super::sight::{Sight, is_over, lives};
use super::sinks::Group;
use super::verdict::{Ask, Found, MAX_JUDGEMENTS, Question, Verdict};
use super::{
    Settings, crash, dead, deadlock, errors, files, host_lost, init, kernel, mismatch, missing, p2p, sinks,
    teardown, transfer, words,
};
use crate::order::order_of;

/// The judge of one job: what it has to remember from look to look. Drop it with the job.
#[derive(Debug, Default)]
pub struct Judge {
    memory: Memory,
}

impl Judge {
    /// Looks at the job. Call it once a second, and as soon as something ends badly; a look at the same readings again
    /// changes nothing. Costs nearly nothing while nothing is open for longer than [`super::scene::QUIET`].
    pub fn look(&mut self, scene: &Scene<'_>, settings: &Settings) -> Verdict {
        let sight = Sight::new(scene, settings);
        self.memory.learn(&sight);
        let differ = self.memory.hashes.compare(&sight);
        let sizes_differ = self.memory.unequal.forget_ended(&sight);
        let at_peace = differ.is_empty() && !sizes_differ && is_peace(&sight);
        let (found, asks, left_out) = if at_peace { <_>::default() } else { self.judge(&sight, &differ) };
        let mut verdict =
            Verdict { unsettled: self.memory.is_unsettled(&sight, at_peace), ..Verdict::default() };
        let confirmed = self.confirm(&sight, found);
        let told = order(confirmed, left_out, &mut verdict);
        verdict.asks = self.asks(&sight, &told, &asks);
        verdict.raise = told.iter().any(|found| found.raises);
        verdict.ended_well = self.memory.end_of_look(&sight);
        verdict
    }

    /// Tells the judge of a wait of this job that has ended well, as the store remembers it: a judge that was just made would
    /// learn it anew.
    pub fn restore_wait(&mut self, lasted: Duration, settings: &Settings) {
        self.memory.learn_wait(lasted, settings);
    }

    /// The longest wait for a rank of this job that ended well.
    #[cfg(test)]
    pub(super) fn longest_wait(&self) -> Duration {
        self.memory.longest_wait()
    }

    /// What was found, what is asked, and how much was not judged because there is too much of it.
    fn judge(&mut self, sight: &Sight<'_, '_>, differ: &[Differ]) -> (Vec<Found>, Vec<Ask>, usize) {
        let graph = Graph::new(sight, false);
        let mut case = Case::new(sight, &graph, &mut self.memory);
        let sorted = sinks::sort(&case, graph.sinks());
        errors::judge(&mut case);
        kernel::judge(&mut case);
        host_lost::judge(&mut case);
        init::disagreements(&mut case);
        for differ in differ {
            mismatch::by_hash(&mut case, differ);
        }
        for communicator in in_wait(&case).into_iter().chain(files::communicators(sight)) {
            mismatch::judge(&mut case, communicator);
        }
        dead::judge(&mut case, &sorted.groups);
        crash::judge(&mut case);
        // The surest first, for there may be more than are told.
        let mut groups: Vec<&Group> = sorted.groups.iter().collect();
        groups.sort_by_key(|group| group.manner);
        for group in case.at_most(groups) {
            missing::judge(&mut case, group);
        }
        let has_many_full = sorted.full.len() > 1;
        for circle in case.at_most(sorted.circles) {
            deadlock::judge(&mut case, &circle);
        }
        for place in case.at_most(sorted.full) {
            full(&mut case, place);
        }
        files::failed_inits(&mut case);
        files::unanswered(&mut case);
        p2p::completed(&mut case);
        let Case { mut found, mut asks, left_out, .. } = case;
        if has_many_full {
            self.across_streams(sight, &mut found, &mut asks);
        }
        (found, asks, left_out)
    }

    /// Several full calls do not end: perhaps the GPUs run all streams in the order of the calls, and that differs.
    fn across_streams(&mut self, sight: &Sight<'_, '_>, found: &mut Vec<Found>, asks: &mut Vec<Ask>) {
        let stalled = |found: &Found| {
            found.judgement.kind == FindingKind::TransferStalled
                || found.judgement.kind == FindingKind::DeviceStalled
        };
        if found.iter().filter(|found| stalled(found)).count() < 2 {
            return;
        }
        let graph = Graph::new(sight, true);
        let mut case = Case::new(sight, &graph, &mut self.memory);
        let circles = sinks::sort(&case, graph.sinks()).circles;
        for circle in case.at_most(circles) {
            deadlock::judge(&mut case, &circle);
        }
        if !case.found.is_empty() {
            found.retain(|found| !stalled(found));
            found.append(&mut case.found);
            asks.append(&mut case.asks);
        }
    }

    /// Leaves out what was not seen twice and has to be.
    fn confirm(&mut self, sight: &Sight<'_, '_>, found: Vec<Found>) -> Vec<Found> {
        let mut keys = std::collections::HashSet::new();
        let mut told = Vec::with_capacity(found.len());
        for found in found {
            if self.memory.is_confirmed(sight, &found) && keys.insert(key(sight, &found)) {
                told.push(found);
            }
        }
        told
    }

    /// The questions that are put now: of those that were found out about, and those that may lead on.
    fn asks(&mut self, sight: &Sight<'_, '_>, told: &[Found], asks: &[Ask]) -> Vec<Ask> {
        // Nobody is looked at who is not accused.
        let is_accused =
            |process: u32| told.iter().any(|found| found.judgement.culprits.binary_search(&process).is_ok());
        let mut put: Vec<Ask> = Vec::new();
        for ask in asks {
            if put.len() == MAX_ASKS {
                break;
            }
            let is_due = ask.what != Question::Look || is_accused(ask.process);
            if is_due && !put.contains(ask) && self.memory.may_ask(sight, ask.process, ask.what) {
                put.push(ask.clone());
            }
        }
        put
    }
}

/// A place that all are in, and that does not end.
fn full(case: &mut Case<'_, '_, '_>, place: u32) {
    match case.node(place).place {
        Place::Collective { communicator, number } => {
            let differs = case.found.iter().any(|found| {
                found.judgement.kind == FindingKind::CallMismatch
                    && found.judgement.communicator == Some(communicator)
                    && found.number.is_none_or(|at| at <= number)
            });
            if !differs {
                mismatch::ask_before(case, place);
                transfer::judge(case, place);
            }
        }
        Place::Pair { .. } => {
            if !p2p::sizes_differ(case, place) {
                transfer::judge(case, place);
            }
        }
        Place::Init { .. } | Place::Split { .. } | Place::Window { .. } => init::all_in(case, place),
        Place::Teardown { .. } | Place::Abort { .. } => teardown::all_in(case, place),
        Place::Behind { .. } | Place::Gone { .. } | Place::Unseen { .. } => {}
    }
}

/// Communicators with a collective call that is waited in.
fn in_wait(case: &Case<'_, '_, '_>) -> Vec<u32> {
    let nodes = case.graph.places_where(|place| matches!(place, Place::Collective { .. }));
    let mut communicators: Vec<u32> = nodes
        .into_iter()
        .filter_map(|node| match case.graph.at(node) {
            super::graph::At::Place(index) => Some(case.node(index).place.communicator()),
            super::graph::At::Process(_) => None,
        })
        .collect();
    communicators.dedup();
    communicators
}

/// Whether there is nothing to look at closely: no wait, no death, no error, no word of a kernel, nobody unheard.
fn is_peace(sight: &Sight<'_, '_>) -> bool {
    let settings = sight.settings;
    let calm_host = |host: &super::scene::Host<'_>| {
        host.kernel.is_empty()
            && host.heard_at.is_none_or(|heard| sight.scene.now.since(heard) < settings.host_lost_after)
    };
    let calm_process = |process: &super::scene::Process<'_>| {
        let late = |since| sight.proven(process, since) >= settings.sure_after;
        let waits = process.open_calls.first().is_some_and(|open| late(open.entered_at))
            || process.forming.iter().any(|forming| late(forming.since));
        // Files are looked at once, so closely.
        !waits
            && !process.ended_badly()
            && process.life != Life::Imported
            && (process.life != Life::Running || words::stopped(process).is_none())
    };
    let calm_member = |member: &super::scene::Member<'_>| {
        let process = sight.process(member.process);
        let late = |since| sight.proven(process, since) >= settings.sure_after;
        let error = errors::holds(sight, member);
        let forming = member.state == MemberState::Forming && late(member.created_at);
        let waits = lives(process.life)
            && !is_over(member.state)
            && member.open.first().is_some_and(|oldest| late(oldest.issued_at));
        !error && !forming && !waits
    };
    sight.scene.hosts.iter().all(calm_host)
        && sight.scene.processes.iter().all(calm_process)
        && sight.scene.communicators.iter().all(|of| of.members.iter().all(calm_member))
}

/// Puts the worst first, cuts, and joins consequences to what they follow from.
fn order(mut found: Vec<Found>, mut left_out: usize, verdict: &mut Verdict) -> Vec<Found> {
    found.sort_by(|one, other| {
        let key =
            |found: &Found| (std::cmp::Reverse(found.judgement.severity), order_of(found.judgement.kind));
        key(one).cmp(&key(other)).then(other.judgement.victims.len().cmp(&one.judgement.victims.len()))
    });
    left_out += found.len().saturating_sub(MAX_JUDGEMENTS);
    found.truncate(MAX_JUDGEMENTS);
    if left_out > 0 {
        verdict.left_out.push(("judgement_limit", u64::try_from(left_out).unwrap_or(u64::MAX)));
    }
    for later in 0..found.len() {
        let root = (0..later).find(|root| follows(&found[later], &found[*root]));
        let root =
            root.map(|root| found[root].judgement.follows_from.unwrap_or(u32::try_from(root).unwrap_or(0)));
        found[later].judgement.follows_from = root;
    }
    verdict.judgements = found.iter().map(|found| found.judgement.clone()).collect();
    found
}

/// Whether one follows from the other: its culprits are the other's, or wait because of it, or ended after a host was lost,
/// or the call comes after the first one that differed.
fn follows(later: &Found, root: &Found) -> bool {
    let (one, other) = (&later.judgement, &root.judgement);
    let is_after = other.kind == FindingKind::CallMismatch
        && other.communicator == one.communicator
        && one.kind != FindingKind::RankDead
        && one.kind != FindingKind::KernelFault
        && match (root.number, later.number) {
            (Some(root), Some(later)) => root <= later,
            _ => false,
        };
    let all_explained = !one.culprits.is_empty()
        && one.culprits.iter().all(|process| {
            other.culprits.binary_search(process).is_ok() || other.victims.binary_search(process).is_ok()
        });
    // Who ends after a host fell silent was ended by its launcher, or by an error that this left.
    let is_left = other.kind == FindingKind::HostLost
        && one.kind == FindingKind::RankDead
        && one.began_at.zip(other.began_at).is_some_and(|(died, lost)| died > lost);
    // A wait for the dead, an error that they leave, a host's ranks that are unheard.
    let is_nearer = order_of(other.kind) < order_of(one.kind);
    // A warning about who is already to blame for worse adds to that.
    is_after || is_left || all_explained && (is_nearer || other.severity > one.severity)
}

/// Questions in one look: each look at a process costs it up to 100 ms.
const MAX_ASKS: usize = 16;
const _: () = assert!(Severity::Critical as u8 > Severity::Info as u8, "the worst is sorted first");
