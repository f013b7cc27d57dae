//! What the ranks of a communicator have sent over the network, from look to look: how far each has come in a call.
//!
//! Collectors count from the moment on at which each was asked to, so sums of all time cannot be compared. What was sent
//! since all ranks had ended as many calls, and were in none, can be: every call that has ended since added to each hop
//! what it always does, and what is left is the part of the call that stands still. That hops carry alike in a call, as
//! those of a ring do and those of a tree do not, is taken from two such moments.

use std::collections::HashMap;

use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::Level;

use super::scene::{Communicator, Link, Member, MemberState};
use super::sight::Sight;

/// What is kept of each communicator in which something is sent over the network, by its id.
#[derive(Debug, Default)]
pub(super) struct Sent(HashMap<String, Known>);

/// What the ranks of a communicator have sent, in the order of its members.
#[derive(Debug, Default)]
struct Known {
    newest: Vec<Newest>,
    /// The two newest moments at which all were out of calls.
    rests: [Option<Rest>; 2],
    in_use: bool,
}

#[derive(Clone, Copy, Debug)]
struct Newest {
    bytes: u64,
    /// Since when there is no more.
    since: Timestamp,
}

/// All had ended as many calls and were in none.
#[derive(Debug)]
struct Rest {
    calls: u64,
    /// By then each had sent so much in collective calls.
    bytes: Vec<u64>,
}

/// What a rank has sent in the calls since all were out of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Place in the members.
    pub(super) place: u32,
    pub(super) bytes: u64,
}

impl Sent {
    /// Notes what was sent by now. Costs nothing where nobody tells of the network.
    pub(super) fn note(&mut self, sight: &Sight<'_, '_>) {
        for of in &sight.scene.communicators {
            if of.members.iter().all(|member| member.links.is_empty()) {
                continue;
            }
            if !self.0.contains_key(of.id) {
                self.0.insert(of.id.to_owned(), Known::default());
            }
            if let Some(known) = self.0.get_mut(of.id) {
                known.note(sight, of);
            }
        }
        self.0.retain(|_, known| std::mem::replace(&mut known.in_use, false));
    }

    /// Whether somebody may have sent something since the readings before the newest.
    pub(super) fn moves(&self, sight: &Sight<'_, '_>, communicator: u32) -> bool {
        let of = sight.communicator(communicator);
        let newest = self.0.get(of.id).map_or([].as_slice(), |known| &known.newest);
        newest.iter().zip(&of.members).any(|(newest, member)| {
            // Seen for the first time, it may well move: the next look tells.
            !member.links.is_empty()
                && (newest.since == sight.scene.now || sight.process(member.process).heard_at < newest.since)
        })
    }

    /// What each rank that sends over the network has sent since all were out of calls. Absent: it cannot be compared.
    pub(super) fn shares(&self, of: &Communicator<'_>) -> Option<Vec<Share>> {
        let known = self.0.get(of.id)?;
        let [Some(before), Some(rest)] = &known.rests else { return None };
        let usual: Vec<u64> =
            rest.bytes.iter().zip(&before.bytes).map(|(at, before)| at.saturating_sub(*before)).collect();
        let most = usual.iter().copied().max()?;
        let is_alike = |usual: u64| usual == 0 || most - usual <= most / ALIKE;
        if most == 0 || !usual.iter().all(|usual| is_alike(*usual)) {
            return None;
        }
        let shares = of.members.iter().zip(&rest.bytes).zip(&usual).zip(0_u32..);
        let sends = shares.filter(|((_, usual), _)| **usual > 0);
        Some(
            sends
                .map(|(((member, rest), _), place)| Share {
                    place,
                    bytes: in_calls(member).saturating_sub(*rest),
                })
                .collect(),
        )
    }
}

impl Known {
    fn note(&mut self, sight: &Sight<'_, '_>, of: &Communicator<'_>) {
        let now = sight.scene.now;
        self.in_use = true;
        if self.newest.len() != of.members.len() {
            // Another rank was heard of: places mean something else.
            *self = Self { in_use: true, ..Self::default() };
            self.newest.resize(of.members.len(), Newest { bytes: 0, since: now });
        }
        for (newest, member) in self.newest.iter_mut().zip(&of.members) {
            let bytes = sum(member, |link| link.sent_bytes);
            if newest.bytes != bytes {
                *newest = Newest { bytes, since: now };
            }
        }
        if let Some(calls) = at_rest(sight, of) {
            let bytes: Vec<u64> = of.members.iter().map(in_calls).collect();
            match &mut self.rests {
                [_, Some(newest)] if newest.calls == calls => newest.bytes = bytes,
                [before, newest] => *before = newest.replace(Rest { calls, bytes }),
            }
        }
    }
}

/// After how many calls all ranks of a communicator are out of calls, where they are and all tell of the network.
fn at_rest(sight: &Sight<'_, '_>, of: &Communicator<'_>) -> Option<u64> {
    let calls = of.members.first()?.calls?.made;
    let rests = |member: &Member<'_>| {
        member.state == MemberState::Active
            && member.completion_known
            && member.open.is_empty()
            && member.calls.is_some_and(|own| own.made == calls)
            && sight.process(member.process).level == Level::Steps
    };
    (of.members.len() == of.n_ranks as usize && of.members.iter().all(rests)).then_some(calls)
}

fn in_calls(member: &Member<'_>) -> u64 {
    sum(member, |link| link.sent_in_calls)
}

/// Over all links of a rank. What agents tell may be anything.
pub(super) fn sum(member: &Member<'_>, of: fn(&Link) -> u64) -> u64 {
    member.links.iter().map(of).fold(0, u64::saturating_add)
}

/// Hops are alike whose bytes differ by less than this part: channels do not divide every call evenly.
const ALIKE: u64 = 64;
