//! One look: the scene, who waits for whom, what is remembered, and what was found so far.

use std::time::Duration;

use super::building::Node;
use super::graph::Graph;
use super::memory::Memory;
use super::places::{Place, Waiter};
use super::scene::{Member, Process};
use super::sight::Sight;
use super::verdict::{ACCUSED_NAMED, Ask, Judgement, Question};
use super::words;
use crate::api::{Culprit, Detail, Evidence, FindingKind, Severity};
use crate::clock::Timestamp;

/// One look.
pub(super) struct Case<'c, 's, 'a> {
    pub(super) sight: &'c Sight<'s, 'a>,
    pub(super) graph: &'c Graph<'s>,
    pub(super) memory: &'c mut Memory,
    pub(super) found: Vec<Found>,
    pub(super) asks: Vec<Ask>,
}

/// Something that was found, before it is known whether it is told.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) judgement: Judgement,
    /// No innocent cause: critical as soon as it was seen twice. Else its severity stands as it is.
    pub(super) certain: bool,
    /// Somebody merely has not come yet: how long that lasts is learned.
    pub(super) innocent: Option<Duration>,
    /// Number of the call in its communicator; a mismatch explains all that is not before it.
    pub(super) number: Option<u64>,
    /// While it holds the job's level is to be `steps`.
    pub(super) raises: bool,
}

impl<'s> Case<'_, 's, '_> {
    /// The place with its waiters.
    pub(super) fn node(&self, index: u32) -> &Node<'s> {
        self.graph.node(index)
    }

    /// Who has waited longest in a place.
    pub(super) fn first_in(&self, place: u32) -> Option<Waiter<'s>> {
        self.node(place).waiters.iter().min_by_key(|waiter| waiter.since_ours).copied()
    }

    /// Since when a place is waited in. Absent: files do not say.
    pub(super) fn began(&self, place: u32) -> Option<Timestamp> {
        self.first_in(place).map(|first| first.since).filter(|since| since.0 > 0)
    }

    /// For how long the place has been waited in, as far as is proven.
    pub(super) fn age(&self, place: u32) -> Duration {
        let ages = self.node(place).waiters.iter().map(|waiter| {
            let process = self.sight.process(waiter.process);
            self.sight.proven(process, waiter.since)
        });
        ages.max().unwrap_or_default()
    }

    /// Ranks that have completed a collective call in which others still are, as places in the members.
    pub(super) fn passed(&self, place: u32) -> Vec<u32> {
        let node = self.node(place);
        let Place::Collective { communicator, number } = node.place else { return Vec::new() };
        let members = (0_u32..).zip(&self.sight.communicator(communicator).members);
        let has_passed = |member: &Member<'_>| {
            let oldest = member.open.iter().find_map(|operation| operation.number);
            member.completion_known
                && self.sight.calls_made(member).is_some_and(|made| oldest.unwrap_or(made) > number)
        };
        members.filter(|(_, member)| has_passed(member)).map(|(place, _)| place).collect()
    }

    /// What is waited in, in words: "all_reduce #60 of c0ffee (tensor)".
    pub(super) fn place_words(&self, place: u32) -> String {
        let node = self.node(place);
        let of = words::comm(self.sight.communicator(node.place.communicator()));
        match node.place {
            Place::Collective { number, .. } => {
                let head = node.waiters.iter().find_map(|waiter| waiter.head);
                let call = head.map_or_else(|| format!("call #{number}"), |head| words::call(head.operation));
                format!("{call} of {of}")
            }
            Place::Pair { from, to, .. } => format!("the transfer from rank {from} to rank {to} of {of}"),
            Place::Init { .. } => format!("the init of {of}"),
            Place::Split { .. } => format!("the split of {of}"),
            Place::Teardown { .. } => format!("the destroy of {of}"),
            Place::Abort { .. } => format!("the abort of {of}"),
            Place::Window { .. } => format!("the registration of a window of {of}"),
            Place::Behind { .. } | Place::Gone { .. } | Place::Unseen { .. } => of,
        }
    }

    /// A judgement about a communicator, without words yet.
    pub(super) fn blank(&self, kind: FindingKind, communicator: Option<u32>) -> Judgement {
        Judgement {
            kind,
            severity: Severity::Info,
            key: String::new(),
            cause: "",
            communicator,
            host: None,
            rank: None,
            nic: None,
            culprits: Vec::new(),
            accused: Vec::new(),
            victims: Vec::new(),
            message: String::new(),
            advice: String::new(),
            details: Vec::new(),
            evidence: Vec::new(),
            began_at: None,
            follows_from: None,
        }
    }

    /// Names those who are to blame; the first is the subject. With what each was seen to do.
    pub(super) fn accuse(&mut self, judgement: &mut Judgement, culprits: &[(u32, Option<u32>, String)]) {
        judgement.culprits = culprits.iter().map(|(process, ..)| *process).collect();
        judgement.culprits.sort_unstable();
        judgement.culprits.dedup();
        for (process, rank, doing) in culprits.iter().take(ACCUSED_NAMED) {
            let accused: Culprit = words::culprit(self.sight, *process, *rank, doing.clone());
            judgement.accused.push(accused);
            let it = self.sight.process(*process);
            let title = words::who(self.sight, *process, *rank);
            let since = judgement.began_at.max(since_when(it));
            if let Some(look) = it.look.filter(|look| is_recent(look.at_ns, since)) {
                let lines = words::look(look);
                if !lines.is_empty() {
                    judgement.details.push(Detail { title, lines });
                }
            } else if self.sight.settings.look && is_there(it) {
                self.asks.push(Ask { process: *process, what: Question::Look });
            }
        }
        if let Some((process, rank, _)) = culprits.first() {
            judgement.host = Some(self.sight.process(*process).host);
            judgement.rank = *rank;
        }
    }

    /// What was seen of a process in short: "in dataloader.py:214 __next__, blocked reading /mnt/nfs/x".
    pub(super) fn look_in_short(&self, process: u32, since: Option<Timestamp>) -> Option<String> {
        let it = self.sight.process(process);
        let look = it.look.filter(|look| is_recent(look.at_ns, since.max(since_when(it))))?;
        if it.activity.is_some_and(|activity| matches!(activity.state, 'T' | 't')) {
            // What the kernel says of one that is stopped is that it is stopped.
            return look.threads.iter().find_map(words::frame).map(|line| format!("in {line}"));
        }
        words::look_in_short(look)
    }

    /// WARN lines of the library about this communicator, of these ranks first.
    pub(super) fn warnings(&self, communicator: u32, judgement: &mut Judgement) {
        let mut members: Vec<_> = self.sight.communicator(communicator).members.iter().collect();
        members.sort_by_key(|member| judgement.culprits.binary_search(&member.process).is_err());
        let lines = members.into_iter().flat_map(|member| &member.warnings).take(WARNINGS);
        judgement.evidence.extend(lines.map(|warning| Evidence {
            file: warning.file.to_owned(),
            line: warning.line,
            text: warning.text.to_owned(),
        }));
    }

    pub(super) fn tell(&mut self, mut judgement: Judgement, certain: bool) -> &mut Found {
        let culprits = std::mem::take(&mut judgement.culprits);
        judgement.victims.retain(|victim| culprits.binary_search(victim).is_err());
        judgement.culprits = culprits;
        self.found.push(Found { judgement, certain, innocent: None, number: None, raises: false });
        let last = self.found.len() - 1;
        &mut self.found[last]
    }
}

/// Whether it can be looked at.
fn is_there(process: &Process<'_>) -> bool {
    process.life == super::scene::Life::Running && process.read_at.0 > 0
}

/// Since when a process is in the call that it is in: what was seen of it before is over.
fn since_when(process: &Process<'_>) -> Option<Timestamp> {
    process.open_calls.iter().map(|call| call.entered_at).max()
}

/// Whether a look is of this wait, and not of an earlier one. The clocks of two hosts may differ a little.
fn is_recent(at_ns: u64, since: Option<Timestamp>) -> bool {
    since.is_none_or(|since| at_ns.saturating_add(CLOCKS_DIFFER_NS) >= since.0)
}

/// Lines of the library that are shown with one judgement.
const WARNINGS: usize = 8;
/// See [`is_recent`].
const CLOCKS_DIFFER_NS: u64 = 1_000_000_000;
