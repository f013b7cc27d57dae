//! One process: what its segment and its log say now, and what the daemon has been told of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ringscope_api::clock::Timestamp;
use ringscope_logs::nccl_log::CommunicatorFacts;
use ringscope_wire::batch;
use ringscope_wire::segment::Snapshot;
use ringscope_wire::segment::clock::Clock;
use ringscope_wire::segment::groups::GroupOfRanks;
use ringscope_wire::segment::layout::{
    COMMUNICATOR_FAILED, COMMUNICATOR_FREE, CONTROL_RAISED, LEVEL_CHANNELS, LEVEL_STEPS, LIVE_CALLED,
    LIVE_CHAINED, STATE_ON, VERSION,
};
use ringscope_wire::segment::read::{Communicator, Identity};

use super::account::Account;
use super::awaited_end::{Awaited, Said};
use super::beneath::FileId;
use super::budget::Budgets;
use super::calls::Calls;
use super::completion::{self, Lost};
use super::connections::{self, Connections};
use super::hardware::QueuePairStates;
use super::join::{Wanted, find};
use super::lacks;
use super::liveness::is_silent;
use super::log_file::Reached;
use super::log_readers::LogReaders;
use super::log_tail::LogTail;
use super::loss::{Loss, Losses};
use super::operations::Operations;
use super::own_time::OwnTime;
use super::scheduled;
use super::segment_file::{ReadError, SegmentFile};
use super::summations::Summations;
use super::tell::{Times, communicator, known_enum};
use super::ticks;

/// What is the same for all processes of a reading.
#[derive(Clone, Copy)]
pub(super) struct Now<'a> {
    pub(super) wall: Timestamp,
    pub(super) monotonic: Instant,
    pub(super) ticks: ticks::Reading,
    pub(super) machine: &'a str,
    /// Whether processes may count themselves to other hosts than that.
    pub(super) other_hosts: bool,
    /// The folder of segments, and opened.
    pub(super) dir: &'a Path,
    pub(super) folder: Option<&'a OwnedFd>,
    /// The files of connections there.
    pub(super) connections: &'a connections::Files,
    pub(super) queue_pairs: &'a QueuePairStates,
    pub(super) readers: &'a LogReaders,
    pub(super) budgets: &'a Budgets,
}

/// One segment that could be read.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) path: PathBuf,
    /// The file of the segment.
    pub(super) file: FileId,
    pub(super) log: LogTail,
    pub(super) log_reached: Reached,
    pub(super) account: Account,
    pub(super) pid: u32,
    pub(super) run_id: String,
    /// Its control word as last read.
    pub(super) control: u32,
    /// How many places its records should have, if more than they have.
    pub(super) wanted_places: Option<u32>,
    /// Its end and all before it has been read.
    pub(super) is_final: bool,
    ending: Awaited,
    operations: Operations,
    own_time: OwnTime,
    calls: Calls,
    asked: Asked,
    summations: Summations,
    pub(super) connections: Connections,
    /// Kinds of errors of reading its connections that were said, each once.
    connection_errors: BTreeSet<&'static str>,
    communicators: BTreeMap<u64, Known>,
    /// Communicators seen so far, by pointer.
    uses: BTreeMap<u64, u32>,
    /// Communicators were in this segment that this agent has not seen.
    has_gaps: bool,
    /// Ticks and nanoseconds of what has been said, so that a better clock does not change it.
    busy: BTreeMap<(u64, i32), (u64, u64)>,
    sending: BTreeMap<(u64, i32, u32), (u64, u64)>,
    log_revision: Option<u64>,
    log_too_long: u64,
    log_error: Option<String>,
}

/// Questions that a process answers at most at one reading; more are dropped, and the daemon asks again.
const MAX_ASKED: usize = 64;
/// Pointers of communicators whose uses are counted; beyond that, logs are joined as after a gap.
const MAX_POINTERS: usize = 65_536;
/// Operations recalled in one batch: what one question may ask for, four times.
const MAX_RECALLED: usize = 256;

/// What somebody wants to know at the next reading.
#[derive(Debug, Default)]
struct Asked {
    /// Communicators of which calls by peer are wanted.
    pairs: BTreeSet<u64>,
    /// Operations: communicator, and numbers among its collective calls.
    recalls: Vec<(u64, RangeInclusive<u64>)>,
}

/// What is kept of a communicator besides its slot.
#[derive(Debug, Default)]
struct Known {
    created_at_ns: u64,
    ended_at_ns: Option<u64>,
    /// Ticks of its error, and what was said of them.
    error_at: Option<(u64, u64)>,
    /// How many with its pointer came before; `None` while it has none, or where its init has failed.
    occurrence: Option<u32>,
    pointer: u64,
    lost: Option<Lost>,
    facts: Option<CommunicatorFacts>,
    /// Its slot without the counters as it was told last; `None` if it must be told anew.
    told: Option<Communicator>,
}

impl Process {
    /// A process seen for the first time; the owner of `file` is the user whose it is.
    pub(super) fn new(path: PathBuf, identity: &Identity, file: FileId, key: String, now: Now<'_>) -> Self {
        Self {
            path,
            file,
            log: LogTail::new(now.dir, identity, file.owner, now.machine),
            log_reached: Reached::Missing,
            account: Account::new(key),
            pid: identity.pid,
            run_id: identity.run_id.clone(),
            control: 0,
            wanted_places: None,
            is_final: false,
            ending: Awaited::default(),
            operations: Operations::default(),
            own_time: OwnTime::default(),
            calls: Calls::default(),
            asked: Asked::default(),
            summations: Summations::default(),
            connections: Connections::default(),
            connection_errors: BTreeSet::new(),
            communicators: BTreeMap::new(),
            uses: BTreeMap::new(),
            has_gaps: false,
            busy: BTreeMap::new(),
            sending: BTreeMap::new(),
            log_revision: None,
            log_too_long: 0,
            log_error: None,
        }
    }

    /// Reads segment and log. After the process has died once more, and to the end.
    pub(super) fn read(
        &mut self,
        file: &mut SegmentFile,
        now: Now<'_>,
        losses: &mut Losses,
    ) -> Result<(), ReadError> {
        // First whether it is dead, then what it has written: what a dead process has written is all.
        let is_dead = file.is_dead();
        let read = self.read_file(file, is_dead, now, losses);
        if read.is_err() {
            self.unreadable(Some(!is_dead), now);
        }
        read
    }

    fn read_file(
        &mut self,
        file: &mut SegmentFile,
        is_dead: bool,
        now: Now<'_>,
        losses: &mut Losses,
    ) -> Result<(), ReadError> {
        let mut snapshot = file.snapshot()?;
        self.control = snapshot.control;
        let clock = snapshot.clock.clock(now.ticks.ticks, now.ticks.monotonic_ns);
        let is_raised = snapshot.control == CONTROL_RAISED;
        let by_profiler = matches!(snapshot.level, LEVEL_CHANNELS | LEVEL_STEPS);
        self.operations.tell_by_device(snapshot.level, snapshot.device_error_ticks.is_some(), is_raised);
        self.operations.know(&snapshot.communicators);
        // Where nobody but the daemon's judge asked for more, it is for the links: to tell each operation would cost most of it.
        self.operations.tell_all(by_profiler && !is_raised, now.monotonic);
        self.operations.update(file, snapshot.next_ticket, clock, losses)?;
        let (over, open, is_whole) = self.operations.take_spans();
        let read_ns = clock.wall_ns(ticks_of(&snapshot, now));
        self.own_time.update(over, &open, read_ns, is_whole && snapshot.state == STATE_ON && !is_dead);
        self.own_time.know_error(snapshot.device_error_ticks.map_or(0, |ticks| clock.duration_ns(ticks)));
        self.wanted_places = self.operations.wanted_places(snapshot.n_places);
        self.read_calls(file, &snapshot, clock, now)?;
        self.summations.update(file, &snapshot.summation, clock)?;
        let history = self.operations.take_history();
        losses.add(Loss::OperationHistory, self.account.completed(history));
        self.read_connections(&snapshot, is_dead, now, losses);
        self.read_log(now, losses);
        self.know(&snapshot, clock, now);
        self.join(&snapshot);
        self.tell(&mut snapshot, clock, now);
        if is_dead {
            let is_said = self.tell_end(&snapshot, now);
            self.is_final = is_said && !matches!(self.log_reached, Reached::Middle | Reached::Silent);
            if self.is_final {
                losses.add(Loss::RecordTorn, self.operations.torn());
            }
        }
        Ok(())
    }

    /// Says how it ended: as its launch does, or else as its segment. `false`: its launch may still say it.
    fn tell_end(&mut self, snapshot: &Snapshot, now: Now<'_>) -> bool {
        let run = (self.run_id.as_str(), self.file.owner);
        if self.account.ended().is_some() {
            return true;
        }
        let said = self.ending.ask_run(now.dir, run, self.pid, now.monotonic);
        if said == Said::NotYet {
            return false;
        }
        let state = if snapshot.exited { batch::ProcessState::Exited } else { batch::ProcessState::Killed };
        self.account.now.exit_status = snapshot.exit_status;
        match said {
            Said::Ends(ending) => ending.tell(&mut self.account, state, now.wall.0),
            Said::NotYet | Said::Nothing => self.account.end(state, now.wall.0),
        }
        true
    }

    /// Its segment is gone, which says nothing of the process itself: logind removes the files of a user who logs out.
    /// `lives`: whether it does; `None` where that cannot be looked up.
    pub(super) fn without_segment(&mut self, lives: Option<bool>, now: Now<'_>) {
        // Of one that went on without a segment nobody knows how it ended.
        let was_seen = self.account.now.collector_state != i32::from(batch::CollectorState::Removed);
        let ended = if was_seen { batch::ProcessState::Killed } else { batch::ProcessState::Exited };
        if self.lose_sight(lives, ended, now) {
            tracing::warn!(
                segment = %self.path.display(),
                "the segment was removed and its process goes on: nothing more is known of its calls until it is \
                 restarted. If its user logged out, set RemoveIPC=no in /etc/systemd/logind.conf"
            );
        }
    }

    /// Its segment is there and cannot be read: somebody has cut or overwritten it. Neither how its calls stand nor how it
    /// ends is known.
    pub(super) fn unreadable(&mut self, lives: Option<bool>, now: Now<'_>) {
        if self.lose_sight(lives, batch::ProcessState::Exited, now) {
            tracing::warn!(
                segment = %self.path.display(),
                "the segment of a process that goes on can be read no more: nothing more is known of its calls until it \
                 is restarted"
            );
        }
    }

    /// Nothing more is known of its calls; where it has ended, it did so as in `ended`. Whether that is new of one that
    /// goes on.
    fn lose_sight(&mut self, lives: Option<bool>, ended: batch::ProcessState, now: Now<'_>) -> bool {
        let removed = i32::from(batch::CollectorState::Removed);
        let told = &mut self.account.now;
        let is_new = told.collector_state != removed;
        let since_ns = told.collector_off_since_ns.filter(|_| !is_new).unwrap_or(now.wall.0);
        let lives = lives.unwrap_or_else(|| !is_silent(since_ns, now.wall.0));
        if is_new && (lives || ended == batch::ProcessState::Exited) {
            // Whether these have ended nobody knows.
            told.in_flight.clear();
            told.open_calls.clear();
        }
        if lives && is_new {
            (told.collector_state, told.collector_off_since_ns) = (removed, Some(since_ns));
        }
        if !lives {
            tracing::warn!(segment = %self.path.display(), "the segment can be read no more, and its process is gone");
            self.account.end(ended, now.wall.0);
            self.is_final = true;
        }
        lives && is_new
    }

    /// Takes what the daemon asks of the segment; the next reading answers it.
    pub(super) fn inquired(&mut self, inquiry: &batch::Inquiry) {
        let Some(local_id) = inquiry.local_id else { return };
        if inquiry.pairs && self.asked.pairs.len() < MAX_ASKED {
            self.asked.pairs.insert(local_id);
        }
        if let (Some(first), Some(last)) = (inquiry.first_number, inquiry.last_number)
            && self.asked.recalls.len() < MAX_ASKED
        {
            self.asked.recalls.push((local_id, first..=last));
        }
    }

    fn read_calls(
        &mut self,
        file: &mut SegmentFile,
        snapshot: &Snapshot,
        clock: Clock,
        now: Now<'_>,
    ) -> Result<(), ReadError> {
        if self.account.is_unsaid() {
            self.calls.forget_told();
        }
        self.calls.update(file, snapshot, clock, ticks_of(snapshot, now))?;
        let asked = std::mem::take(&mut self.asked);
        let mut wanted = self.operations.slow_pairs(now.wall.0);
        wanted.extend(asked.pairs);
        self.calls.read_pairs(file, &snapshot.communicators, &wanted)?;
        let recalled = &mut self.account.now.recalled;
        for question in asked.recalls {
            let found = self.operations.recall(file, snapshot.next_ticket, clock, question)?;
            recalled.extend(found);
        }
        recalled.truncate(MAX_RECALLED);
        Ok(())
    }

    /// Whether the log could be of use and says nothing of channels. Those of a summation group carry no rings.
    pub(super) fn lacks_log(&self) -> bool {
        self.account.communicators().iter().any(|communicator| {
            communicator.state == i32::from(batch::CommunicatorState::Active)
                && communicator.final_channels.is_none()
                && communicator.n_ranks > 1
                && communicator.made_by != batch::MADE_BY_RSUM
        })
    }

    fn read_connections(&mut self, snapshot: &Snapshot, is_last: bool, now: Now<'_>, losses: &mut Losses) {
        let reading = connections::Reading {
            folder: now.folder,
            dir: now.dir,
            files: now.connections,
            pid: snapshot.identity.pid,
            start_time_ns: snapshot.identity.start_time_ns,
            user: self.file.owner,
            monotonic: now.monotonic,
            is_last,
        };
        if let Err(error) = self.connections.update(&reading)
            && self.connection_errors.insert(error.kind())
        {
            losses.add(Loss::ConnectionsUnreadable, 1);
            tracing::warn!(
                segment = %self.path.display(),
                %error,
                "cannot read the RDMA connections of a process: all else of it is seen"
            );
        }
        losses.add(Loss::ConnectionsLeftOut, self.connections.newly_left_out());
    }

    fn read_log(&mut self, now: Now<'_>, losses: &mut Losses) {
        (self.log_reached, self.log_error) = match self.log.poll(now.readers, now.budgets, now.dir) {
            Ok(reached) => (reached, None),
            Err(error) => {
                tracing::debug!(segment = %self.path.display(), %error, "cannot read the log");
                (Reached::Missing, Some(error.to_string()))
            }
        };
        let too_long = self.log.log.too_long();
        losses.add(Loss::LogLineTooLong, too_long.saturating_sub(self.log_too_long));
        self.log_too_long = too_long;
    }

    /// Takes in new communicators, in the order in which they were made, and forgets those whose slot was used again.
    fn know(&mut self, snapshot: &Snapshot, clock: Clock, now: Now<'_>) {
        let lost_events = completion::events(&snapshot.dropped);
        let mut slots: Vec<&Communicator> = snapshot.communicators.iter().collect();
        slots.sort_by_key(|communicator| communicator.created_ticks);
        for slot in slots {
            let id = slot.local_id();
            let previous = slot.generation.checked_sub(1).map(|n| u64::from(n) << 16 | u64::from(slot.slot));
            if !self.communicators.contains_key(&id) {
                let seen = previous.is_some_and(|previous| self.communicators.contains_key(&previous));
                self.has_gaps |= slot.generation > 1 && !seen;
            }
            let known = self.communicators.entry(id).or_insert_with(|| Known {
                created_at_ns: clock.wall_ns(slot.created_ticks),
                ..Known::default()
            });
            if slot.ended_ticks > 0 {
                known.ended_at_ns.get_or_insert_with(|| clock.wall_ns(slot.ended_ticks));
            }
            let error_at = slot.error.map(|error| error.ticks);
            if known.error_at.map(|(ticks, _)| ticks) != error_at {
                known.error_at = error_at.map(|ticks| (ticks, clock.wall_ns(ticks)));
            }
            let newest_ns = self.operations.newest_completed(id);
            let lost = Lost::of(known.lost, slot, lost_events, newest_ns, now.wall.0);
            if std::mem::replace(&mut known.lost, lost) != lost {
                known.told = None;
            }
            if slot.state == COMMUNICATOR_FAILED && known.occurrence.take().is_some() {
                // The log has no end of its init.
                self.uses.entry(known.pointer).and_modify(|uses| *uses = uses.saturating_sub(1));
            }
            // A pointer that is known before the init is over is that of one that does not block.
            let is_made = slot.state != COMMUNICATOR_FAILED && slot.state != COMMUNICATOR_FREE;
            if known.occurrence.is_none() && is_made && slot.pointer != 0 {
                known.pointer = slot.pointer;
                if self.uses.len() >= MAX_POINTERS {
                    self.uses.clear();
                    self.has_gaps = true;
                }
                let uses = self.uses.entry(slot.pointer).or_default();
                known.occurrence = Some(*uses);
                *uses += 1;
            }
        }
        let present: BTreeSet<u64> = snapshot.communicators.iter().map(Communicator::local_id).collect();
        self.communicators.retain(|id, _| present.contains(id));
        self.busy.retain(|(id, _), _| present.contains(id));
        self.sending.retain(|(id, ..), _| present.contains(id));
    }

    /// Finds the log's facts about each communicator, and takes them again when the log has more.
    fn join(&mut self, snapshot: &Snapshot) {
        let is_new = snapshot.communicators.iter().any(|slot| {
            self.communicators.get(&slot.local_id()).is_some_and(|known| {
                known.facts.is_none() && (known.occurrence.is_some() || is_known_by_hash(slot))
            })
        });
        if self.log_revision == Some(self.log.log.revision()) && !is_new {
            return;
        }
        self.log_revision = Some(self.log.log.revision());
        let is_certain = !self.has_gaps && !self.log.restarted;
        for slot in &snapshot.communicators {
            let id = slot.local_id();
            let Some(known) = self.communicators.get(&id) else { continue };
            if known.occurrence.is_none() && !is_known_by_hash(slot) {
                continue;
            }
            let joined = known.facts.as_ref().map(|facts| facts.occurrence);
            let taken = |facts: &CommunicatorFacts| {
                self.communicators.iter().any(|(other, known)| {
                    *other != id
                        && known.facts.as_ref().is_some_and(|taken| {
                            (taken.comm_pointer, taken.occurrence) == (facts.comm_pointer, facts.occurrence)
                        })
                })
            };
            let wanted = Wanted {
                pid: snapshot.identity.pid,
                pointer: known.pointer,
                comm_hash: slot.comm_hash,
                rank: slot.rank,
                n_ranks: slot.n_ranks,
                occurrence: joined.or(known.occurrence).filter(|_| is_certain),
            };
            let facts = find(&self.log.log, wanted, taken).cloned();
            if let Some(known) = self.communicators.get_mut(&id).filter(|_| facts.is_some()) {
                known.facts = facts;
                known.told = None;
            }
        }
    }

    /// Writes down all that is known.
    fn tell(&mut self, snapshot: &mut Snapshot, clock: Clock, now: Now<'_>) {
        let present: BTreeSet<u64> = snapshot.communicators.iter().map(Communicator::local_id).collect();
        let counters = self.counters(snapshot, clock);
        let links = self.links(snapshot, clock);
        self.tell_communicators(&mut snapshot.communicators);
        let log_lacks = if self.lacks_log() {
            lacks::of_tail(&self.log, self.log_reached, self.log_error.as_deref())
        } else {
            Vec::new()
        };
        let sampled_log2 = |local_id| self.operations.sampled_log2(local_id);
        let sequences = self.calls.sequences(&self.account.now.sequences, sampled_log2);
        let told = &mut self.account.now;
        let before = connections::Told {
            connections: std::mem::take(&mut told.connections),
            counts: std::mem::take(&mut told.connection_counts),
            left_out: told.connections_left_out,
        };
        let connections = self.connections.tell(before, now.queue_pairs, clock);
        let summations = self.summations.tell(std::mem::take(&mut self.account.now.summations), clock);
        self.account.now = batch::Process {
            key: std::mem::take(&mut self.account.now.key),
            identity: Some(identity(snapshot, self.file.owner, now)),
            communicators: Vec::new(),
            counters,
            links,
            in_flight: self.in_flight(),
            last_completed: self.operations.last_completed(&present),
            dropped: dropped(snapshot),
            collector_state: known_enum::<batch::CollectorState>(snapshot.state),
            state: self.account.ended().unwrap_or(batch::ProcessState::Running).into(),
            ended_at_ns: self.account.now.ended_at_ns,
            level: known_enum::<batch::Level>(snapshot.level),
            profiler_version: snapshot.profiler_version,
            plugin_chained: snapshot.flags & LIVE_CHAINED != 0,
            calls_seen: snapshot.flags & LIVE_CALLED != 0,
            n_libraries: snapshot.n_libraries,
            has_segment: true,
            log_lacks,
            completed_operations: std::mem::take(&mut self.account.now.completed_operations),
            summations,
            open_calls: self.calls.open_calls(),
            sequences,
            pairs: self.calls.pairs(),
            recalled: std::mem::take(&mut self.account.now.recalled),
            last_returned_at_ns: self.calls.last_returned_at_ns(),
            segment_version: VERSION,
            collector_off_since_ns: self.calls.off_since_ns(),
            unwatched_since_ns: None,
            own_time: self.own_time.tell(self.account.now.own_time.take()),
            connections: connections.connections,
            connection_counts: connections.counts,
            connections_left_out: connections.left_out,
            groups: groups(&snapshot.groups),
            // Said by others.
            activity: self.account.now.activity.take(),
            look: self.account.now.look.take(),
            launched: !self.run_id.is_empty(),
            // Only of files.
            told_until_ns: None,
            exit_status: self.account.now.exit_status,
            exit_signal: self.account.now.exit_signal,
            launch_end: self.account.now.launch_end,
            told_by_peers: String::new(),
        };
    }

    /// Those in flight, but for those of which it is only not told that they are over.
    fn in_flight(&self) -> Vec<batch::Operation> {
        self.operations.in_flight(|operation| {
            let lost = self.communicators.get(&operation.local_id).and_then(|known| known.lost);
            lost.is_some_and(|lost| lost.is_past && operation.issued_at_ns <= lost.at_ns)
        })
    }

    /// Writes the communicators anew if one of them changed in more than its counters.
    fn tell_communicators(&mut self, slots: &mut [Communicator]) {
        for slot in slots.iter_mut() {
            slot.counters.clear();
            slot.sequence = None;
        }
        let is_told = |slot: &Communicator| {
            self.communicators.get(&slot.local_id()).is_some_and(|known| known.told.as_ref() == Some(slot))
        };
        if slots.len() == self.account.communicators().len() && slots.iter().all(is_told) {
            return;
        }
        let log = self.log.path();
        let mut told = Vec::with_capacity(slots.len());
        for slot in slots {
            let Some(known) = self.communicators.get_mut(&slot.local_id()) else { continue };
            let times = Times {
                created_at_ns: known.created_at_ns,
                ended_at_ns: known.ended_at_ns,
                error_at_ns: known.error_at.map(|(_, at_ns)| at_ns),
            };
            let mut one = communicator(slot, times, known.facts.as_ref(), log);
            if known.lost.is_some_and(|lost| lost.is_past) {
                one.completion_lost.clear();
            }
            told.push(one);
            known.told = Some(slot.clone());
        }
        self.account.set_communicators(told);
    }

    /// Links carry the low 15 bits of the generation of the slot that they count for.
    fn links(&mut self, snapshot: &Snapshot, clock: Clock) -> Vec<batch::Link> {
        let slots: BTreeMap<(u16, u32), u64> = (snapshot.communicators.iter())
            .map(|slot| ((slot.slot, slot.generation & 0x7fff), slot.local_id()))
            .collect();
        let mut links = Vec::new();
        for link in &snapshot.links {
            let Some(local_id) = slots.get(&(link.communicator, link.generation)).copied() else { continue };
            let primitive = batch::Primitive::from(link.primitive).into();
            let sending = self.sending.entry((local_id, primitive, link.peer)).or_default();
            if sending.0 != link.sending_ticks {
                *sending = (link.sending_ticks, sending.1.max(clock.duration_ns(link.sending_ticks)));
            }
            links.push(batch::Link {
                local_id,
                primitive,
                peer: link.peer,
                sent_bytes: link.sent_bytes,
                sent_steps: link.sent_steps,
                sending_ns: sending.1,
            });
        }
        links
    }

    fn counters(&mut self, snapshot: &Snapshot, clock: Clock) -> Vec<batch::Counters> {
        let mut counters = Vec::new();
        for slot in &snapshot.communicators {
            for (primitive, raw) in &slot.counters {
                let (local_id, primitive) = (slot.local_id(), batch::Primitive::from(*primitive).into());
                let busy = self.busy.entry((local_id, primitive)).or_default();
                if busy.0 != raw.busy_ticks {
                    *busy = (raw.busy_ticks, busy.1.max(clock.duration_ns(raw.busy_ticks)));
                }
                counters.push(batch::Counters {
                    local_id,
                    primitive,
                    // The collector may publish a completion a moment before the issue that it belongs to.
                    issued_calls: raw.issued_calls.max(raw.completed_calls),
                    issued_bytes: raw.issued_bytes.max(raw.completed_bytes),
                    completed_calls: raw.completed_calls,
                    completed_bytes: raw.completed_bytes,
                    failed_calls: raw.failed_calls,
                    busy_ns: busy.1,
                    captured_calls: raw.captured_calls,
                    captured_bytes: raw.captured_bytes,
                    replayed_calls: raw.replayed_calls,
                    replayed_bytes: raw.replayed_bytes,
                });
            }
        }
        counters
    }
}

/// The reading, as the process counts time.
fn ticks_of(snapshot: &Snapshot, now: Now<'_>) -> u64 {
    if snapshot.clock.is_counter { now.ticks.ticks } else { now.ticks.monotonic_ns }
}

/// Unique over hosts and restarts.
pub(super) fn key(identity: &Identity, now: Now<'_>) -> String {
    format!("{}/{}/{}", host(identity, now), identity.pid, identity.start_time_ns)
}

/// Only the library's profiler has told of it, which names no pointer.
fn is_known_by_hash(slot: &Communicator) -> bool {
    slot.pointer == 0 && slot.comm_hash != 0
}

/// What else a process says is its user's claim, and that it runs here is known.
fn host<'a>(identity: &'a Identity, now: Now<'a>) -> &'a str {
    if identity.host.is_empty() || !now.other_hosts { now.machine } else { &identity.host }
}

fn identity(snapshot: &Snapshot, owner: u32, now: Now<'_>) -> batch::Identity {
    let identity = &snapshot.identity;
    let host = host(identity, now);
    let job = match identity.job.as_str() {
        "" => format!("pid-{}@{host}", identity.pid),
        job => job.to_owned(),
    };
    batch::Identity {
        host: host.to_owned(),
        pid: identity.pid,
        start_time_ns: identity.start_time_ns,
        job,
        global_rank: identity.global_rank,
        world_size: identity.world_size,
        local_rank: identity.local_rank,
        executable: identity.executable.clone(),
        library_version: snapshot.library_version,
        user: Some(owner),
        ..scheduled::told(&identity.scheduled)
    }
}

fn groups(read: &[GroupOfRanks]) -> Vec<batch::RankGroup> {
    let group = |group: &GroupOfRanks| batch::RankGroup {
        ranks_hash: group.ranks,
        n_ranks: group.n_ranks,
        name: group.name.clone(),
    };
    read.iter().map(group).collect()
}

fn dropped(snapshot: &Snapshot) -> Vec<batch::Dropped> {
    (snapshot.dropped.iter())
        .map(|(reason, events)| batch::Dropped { reason: reason.label().to_owned(), events: *events })
        .collect()
}
