//! The scene with what everybody asks of it at hand: who is where, which operations truly run, who can be believed.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::time::Duration;

use ringscope_api::clock::Timestamp;

use super::Settings;
use super::scene::{
    Collector, Communicator, Life, Member, MemberState, Operation, OperationState, Pair, Process, Queued,
    Scene,
};

/// The scene, and each process's parts of it.
pub(super) struct Sight<'s, 'a> {
    pub(super) scene: &'s Scene<'a>,
    pub(super) settings: &'s Settings,
    /// (communicator, place in its members), grouped by process.
    parts: Vec<(u32, u32)>,
    /// Where each process's parts begin; one more than there are processes.
    begins: Vec<u32>,
    /// Processes by host, and communicators by hash; made when somebody asks first.
    on_host: OnceCell<Vec<Vec<u32>>>,
    by_hash: OnceCell<HashMap<u64, Vec<u32>>>,
}

/// An operation that nothing of its own process holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head<'s> {
    pub(super) communicator: u32,
    pub(super) member: u32,
    pub(super) operation: &'s Operation,
    /// Since when nothing of its own process holds it back, by the host's clock: its call, or the end of what ran
    /// before it.
    pub(super) since: Timestamp,
}

/// Why a process proves nothing by what it does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blind {
    /// Its agent was not heard.
    Unheard,
    /// Its collector is off, or absent.
    NotWatched,
    /// Calls may have been lost.
    Lost,
}

impl<'s, 'a> Sight<'s, 'a> {
    pub(super) fn new(scene: &'s Scene<'a>, settings: &'s Settings) -> Self {
        let mut begins = vec![0_u32; scene.processes.len() + 1];
        let members = || {
            scene.communicators.iter().zip(0_u32..).flat_map(|(communicator, index)| {
                communicator
                    .members
                    .iter()
                    .zip(0_u32..)
                    .map(move |(member, place)| (member.process, (index, place)))
            })
        };
        for (process, _) in members() {
            if let Some(count) = begins.get_mut(process as usize + 1) {
                *count += 1;
            }
        }
        for at in 1..begins.len() {
            begins[at] += begins[at - 1];
        }
        let mut next = begins.clone();
        let mut parts = vec![(0, 0); begins.last().copied().unwrap_or_default() as usize];
        for (process, part) in members() {
            if let Some(at) = next.get_mut(process as usize)
                && let Some(slot) = parts.get_mut(*at as usize)
            {
                *slot = part;
                *at += 1;
            }
        }
        Self { scene, settings, parts, begins, on_host: OnceCell::new(), by_hash: OnceCell::new() }
    }

    pub(super) fn process(&self, index: u32) -> &'s Process<'a> {
        &self.scene.processes[index as usize]
    }

    pub(super) fn communicator(&self, index: u32) -> &'s Communicator<'a> {
        &self.scene.communicators[index as usize]
    }

    pub(super) fn member(&self, communicator: u32, place: u32) -> &'s Member<'a> {
        &self.scene.communicators[communicator as usize].members[place as usize]
    }

    pub(super) fn host_name(&self, process: &Process<'_>) -> &'a str {
        self.scene.hosts.get(process.host as usize).map_or("an unknown host", |host| host.name)
    }

    /// Where a process has its number: for advice that names that.
    pub(super) fn place_name(&self, process: &Process<'_>) -> Cow<'a, str> {
        let host = self.host_name(process);
        if process.in_container { format!("{host}, inside its container").into() } else { host.into() }
    }

    /// The processes of a host.
    pub(super) fn on_host(&self, host: u32) -> &[u32] {
        let hosts = self.on_host.get_or_init(|| {
            let mut hosts = vec![Vec::new(); self.scene.hosts.len()];
            for (process, index) in self.scene.processes.iter().zip(0_u32..) {
                if let Some(host) = hosts.get_mut(process.host as usize) {
                    host.push(index);
                }
            }
            hosts
        });
        hosts.get(host as usize).map_or(&[], Vec::as_slice)
    }

    /// The communicators with this hash.
    pub(super) fn of_hash(&self, hash: u64) -> &[u32] {
        let by_hash = self.by_hash.get_or_init(|| {
            let mut by_hash: HashMap<u64, Vec<u32>> = HashMap::new();
            for (communicator, index) in self.scene.communicators.iter().zip(0_u32..) {
                by_hash.entry(communicator.hash).or_default().push(index);
            }
            by_hash
        });
        by_hash.get(&hash).map_or(&[], Vec::as_slice)
    }

    /// Its parts of communicators.
    pub(super) fn parts(&self, process: u32) -> &[(u32, u32)] {
        let at = process as usize;
        &self.parts[self.begins[at] as usize..self.begins[at + 1] as usize]
    }

    /// A process's largest communicator, with its place there.
    pub(super) fn largest(&self, process: u32) -> Option<(u32, u32)> {
        let parts = self.parts(process).iter().copied();
        parts.max_by_key(|(communicator, _)| self.communicator(*communicator).members.len())
    }

    /// Until when we know of it, by our clock.
    pub(super) fn read(&self, process: &Process<'_>) -> Timestamp {
        let is_file = process.life == Life::Imported;
        if process.read_at.0 == 0 && !is_file { self.scene.now } else { process.heard_at }
    }

    /// For how long it was in something, as far as its newest reading proves.
    pub(super) fn proven(&self, process: &Process<'_>, since: Timestamp) -> Duration {
        process.age(since, self.read(process))
    }

    /// Why it proves nothing by what it does not say.
    pub(super) fn blind(&self, process: &Process<'_>) -> Option<Blind> {
        match process.life {
            Life::Imported => return None,
            Life::Exited | Life::Killed => return None,
            Life::Running => {}
        }
        if self.is_unheard(process) {
            Some(Blind::Unheard)
        } else if process.collector != Collector::On {
            Some(Blind::NotWatched)
        } else if process.lost_events {
            Some(Blind::Lost)
        } else {
            None
        }
    }

    /// Whether it has not called the library, for its collector would be there: it comes with the first call.
    pub(super) fn has_never_called(&self, process: &Process<'_>) -> bool {
        process.launched
            && process.collector == Collector::Absent
            && process.segment_version == 0
            && !process.calls_seen
            && !self.is_unheard(process)
    }

    /// Whether its agent was not heard for too long.
    pub(super) fn is_unheard(&self, process: &Process<'_>) -> bool {
        process.life == Life::Running
            && process.read_at.0 > 0
            && self.scene.now.since(process.heard_at) > self.settings.unheard_after
    }

    /// The operations of a process that nothing of its own holds back: of each stream the oldest, with those of its
    /// group. A call of which no end would be told is none.
    pub(super) fn heads(&self, process: u32) -> Vec<Head<'s>> {
        self.heads_over(process, false)
    }

    /// As `heads`; `one_queue`: as if all streams were one.
    pub(super) fn heads_over(&self, process: u32, one_queue: bool) -> Vec<Head<'s>> {
        let it = self.process(process);
        let mut open: Vec<(u32, u32, &'s Operation)> = Vec::new();
        for (communicator, place) in self.parts(process) {
            let member = self.member(*communicator, *place);
            if member.completion_known && !is_over(member.state) {
                let running = member.open.iter().filter(|operation| is_handed_over(it, operation));
                open.extend(running.map(|operation| (*communicator, *place, operation)));
            }
        }
        // Stable: what one communicator tells in order stays so where times are equal.
        open.sort_by_key(|(_, _, operation)| operation.issued_at);
        let mut first_of: Vec<(u32, u32)> = Vec::new();
        let mut heads: Vec<Head<'s>> = Vec::new();
        for (communicator, member, operation) in open {
            let stream = if one_queue { 0 } else { operation.stream };
            let with = first_of.iter().find(|(known, _)| *known == stream).map(|(_, group)| *group);
            match with {
                None => first_of.push((stream, operation.group)),
                Some(group) if group != 0 && group == operation.group => {}
                Some(_) => continue,
            }
            let since = operation.issued_at.max(self.last_end(process, operation.stream));
            heads.push(Head { communicator, member, operation, since });
        }
        heads
    }

    /// When an operation of this stream ended last. Where streams are not known any.
    fn last_end(&self, process: u32, stream: u32) -> Timestamp {
        let ends = self.parts(process).iter().filter_map(|(communicator, place)| {
            let last = self.member(*communicator, *place).last_completed.as_ref()?;
            let same = stream == 0 || last.stream == 0 || last.stream == stream;
            same.then_some(last.completed_at)?
        });
        ends.max().unwrap_or_default()
    }

    /// The head that was called last, with its communicator.
    pub(super) fn newest_head(&self, process: u32) -> Option<(u32, &'s Operation)> {
        let heads = self.heads(process);
        let newest = heads.iter().max_by_key(|head| head.operation.issued_at)?;
        Some((newest.communicator, newest.operation))
    }

    /// What a rank has called inside a group that it has not begun to end. Absent: nothing.
    pub(super) fn queued(&self, member: &Member<'_>) -> Option<Queued> {
        member.queued.filter(|_| !ends_group(self.process(member.process)))
    }

    /// How many collective calls of a rank the library has. Absent: they are not numbered.
    pub(super) fn calls_made(&self, member: &Member<'_>) -> Option<u64> {
        let first = self.queued(member).and_then(|queued| queued.first);
        member.calls.map(|calls| first.unwrap_or(u64::MAX).min(calls.made))
    }

    /// The group that a process has open, over all communicators: its calls so far, and the first one's time.
    pub(super) fn open_group(&self, process: u32) -> Option<(usize, Timestamp)> {
        let parts = self.parts(process).iter();
        let members = parts.map(|(communicator, place)| self.member(*communicator, *place));
        let queued = members.filter(|member| !is_over(member.state)).filter_map(|member| self.queued(member));
        let all = queued.fold((0, Timestamp(u64::MAX)), |(calls, since), queued| {
            (calls + queued.calls as usize, since.min(queued.since))
        });
        (all.0 > 0).then_some(all)
    }

    /// The member's place in the communicator that has this rank.
    pub(super) fn by_rank(&self, communicator: u32, rank: u32) -> Option<u32> {
        let members = &self.communicator(communicator).members;
        // Where all are seen, the place is the rank.
        if members.get(rank as usize).is_some_and(|member| member.rank == rank) {
            return Some(rank);
        }
        let place = members.binary_search_by_key(&rank, |member| member.rank).ok()?;
        u32::try_from(place).ok()
    }

    /// The calls that one rank has made to send to another, and that one to receive them. Absent: they are not told.
    pub(super) fn both_sides(&self, communicator: u32, from: u32, to: u32) -> Option<(Pair, Pair)> {
        let pair = |rank: u32, is_send: bool, peer: u32| {
            let member = self.member(communicator, self.by_rank(communicator, rank)?);
            member.pairs.iter().find(|pair| pair.is_send == is_send && pair.peer == peer).copied()
        };
        pair(from, true, to).zip(pair(to, false, from))
    }
}

/// Whether a part of a communicator is not in use any more.
pub(super) fn is_over(state: MemberState) -> bool {
    state >= MemberState::Destroyed
}

/// Whether the library has the operation: inside a group that has not ended it has not.
pub(super) fn is_handed_over(process: &Process<'_>, operation: &Operation) -> bool {
    match operation.state {
        OperationState::Issued => true,
        OperationState::Queued => ends_group(process),
        OperationState::Completed | OperationState::Failed => false,
    }
}

/// Whether a process has handed over the calls of its group and waits for the library to take them.
fn ends_group(process: &Process<'_>) -> bool {
    process.open_calls.iter().any(|open| open.function == "ncclGroupEnd")
}

/// Whether the program has made the call for good: what a group queues is nothing yet.
pub(super) fn is_called(process: &Process<'_>, operation: &Operation) -> bool {
    operation.state != OperationState::Queued || ends_group(process)
}

/// Whether a process is there at all.
pub(super) fn lives(life: Life) -> bool {
    matches!(life, Life::Running | Life::Imported)
}
