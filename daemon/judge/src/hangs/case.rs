//! One look: the scene, who waits for whom, what is remembered, and what was found so far.

use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::words::duration;
use ringscope_api::{Culprit, Detail, Evidence, FindingKind, Severity};
use ringscope_wire::batch;

use super::building::Node;
use super::graph::Graph;
use super::memory::Memory;
use super::places::{Place, Waiter};
use super::scene::{Member, Process};
use super::sight::Sight;
use super::verdict::{ACCUSED_NAMED, Ask, Found, Judgement, MAX_JUDGEMENTS, Question};
use super::words;
use crate::seen;

/// One look.
pub(super) struct Case<'c, 's, 'a> {
    pub(super) sight: &'c Sight<'s, 'a>,
    pub(super) graph: &'c Graph<'s>,
    pub(super) memory: &'c mut Memory,
    pub(super) found: Vec<Found>,
    pub(super) asks: Vec<Ask>,
    /// What was not even judged, for more would not be told.
    pub(super) left_out: usize,
}

impl<'c, 's, 'a> Case<'c, 's, 'a> {
    /// Nothing is found so far.
    pub(super) fn new(sight: &'c Sight<'s, 'a>, graph: &'c Graph<'s>, memory: &'c mut Memory) -> Self {
        Self { sight, graph, memory, found: Vec::new(), asks: Vec::new(), left_out: 0 }
    }
}

impl<'s> Case<'_, 's, '_> {
    /// The place with its waiters.
    pub(super) fn node(&self, index: u32) -> &Node<'s> {
        self.graph.node(index)
    }

    /// Who has waited longest in a place.
    pub(super) fn first_in(&self, place: u32) -> Option<Waiter<'s>> {
        self.node(place).first
    }

    /// Since when a place is waited in, by our clock. Absent: files do not say.
    pub(super) fn began(&self, place: u32) -> Option<Timestamp> {
        self.first_in(place).filter(|first| first.since.0 > 0).map(|first| first.since_ours)
    }

    /// Since when a place is waited in, in words: "since 14:03:07 UTC", or of files that do not say it "for 12 s".
    pub(super) fn since_words(&self, place: u32) -> String {
        let since = self.began(place).map(|began| format!("since {}", words::clock(began)));
        since.unwrap_or_else(|| format!("for {}", duration(self.age(place))))
    }

    /// For how long the place has been waited in, as far as is proven.
    pub(super) fn age(&self, place: u32) -> Duration {
        let ages = self.node(place).waiters.iter().map(|waiter| {
            let process = self.sight.process(waiter.process);
            self.sight.proven(process, waiter.since)
        });
        ages.max().unwrap_or_default()
    }

    /// Ranks that have completed a call in which others still are, as places in the members.
    pub(super) fn passed(&self, place: u32) -> Vec<u32> {
        let node = self.node(place);
        let (communicator, number) = match node.place {
            Place::Collective { communicator, number } => (communicator, number),
            // Of one that all are in, who does not wait has ended its part.
            Place::Pair { communicator, from, to } => {
                let waits = |rank: &u32| node.waiters.iter().any(|waiter| waiter.rank == *rank);
                let done = [from, to].into_iter().filter(|rank| !waits(rank));
                return done.filter_map(|rank| self.sight.by_rank(communicator, rank)).collect();
            }
            _ => return Vec::new(),
        };
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
            if let Some(look) = self.look_of(*process, judgement.began_at) {
                let lines = seen::lines(look);
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

    /// What was seen of a process since then, by our clock, and since it is in the call that it is in: what was seen
    /// before is over.
    pub(super) fn look_of(&self, process: u32, since: Option<Timestamp>) -> Option<&'s batch::Look> {
        let it = self.sight.process(process);
        let entered = it.open_calls.iter().map(|call| it.ours(call.entered_at)).max();
        let is_recent = |look: &&batch::Look| {
            let at = it.ours(Timestamp(look.at_ns.saturating_add(CLOCKS_DIFFER_NS)));
            since.max(entered).is_none_or(|since| at >= since)
        };
        it.look.filter(is_recent)
    }

    /// The same in short: "in dataloader.py:214 __next__, blocked reading /mnt/nfs/x".
    pub(super) fn look_in_short(&self, process: u32, since: Option<Timestamp>) -> Option<String> {
        let it = self.sight.process(process);
        let look = self.look_of(process, since)?;
        if it.activity.is_some_and(|activity| matches!(activity.state, 'T' | 't')) {
            // What the kernel says of one that is stopped is that it is stopped.
            return look.threads.iter().find_map(seen::frame).map(|line| format!("in {line}"));
        }
        seen::in_short(look)
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

    /// As many of these as are told at most. The others are counted.
    pub(super) fn at_most<T>(&mut self, mut these: Vec<T>) -> Vec<T> {
        self.left_out += these.len().saturating_sub(MAX_JUDGEMENTS);
        these.truncate(MAX_JUDGEMENTS);
        these
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

/// Lines of the library that are shown with one judgement.
const WARNINGS: usize = 8;
/// How exactly times of two hosts can be compared.
const CLOCKS_DIFFER_NS: u64 = 1_000_000_000;
