//! One process: what its segment and its log say now, and what the daemon has been told of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use ringscope_wire::batch;
use ringscope_wire::segment::Snapshot;
use ringscope_wire::segment::clock::Clock;
use ringscope_wire::segment::layout::{
    COMMUNICATOR_ABORTED, COMMUNICATOR_ACTIVE, COMMUNICATOR_DESTROYED, COMMUNICATOR_FAILED, LIVE_CALLED,
    LIVE_CHAINED, SOURCE_CALLS, SOURCE_PLUGIN,
};
use ringscope_wire::segment::read::{Communicator, Identity, snapshot};

use super::join::{Wanted, find};
use super::log_tail::{LogTail, Reached};
use super::loss::{Loss, Losses};
use super::operations::Operations;
use super::segment_file::{ReadError, SegmentFile};
use super::ticks;
use crate::clock::Timestamp;
use crate::nccl_log::CommunicatorFacts;

/// What is the same for all processes of a reading.
#[derive(Clone, Copy)]
pub(super) struct Now<'a> {
    pub(super) wall: Timestamp,
    pub(super) ticks: ticks::Reading,
    pub(super) machine: &'a str,
}

/// One segment that could be read.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) path: PathBuf,
    pub(super) log: LogTail,
    pub(super) log_reached: Reached,
    /// All that is known, as one message.
    pub(super) now: batch::Process,
    /// What has been queued for the daemon.
    pub(super) said: Option<batch::Process>,
    /// Batch in which the end of a communicator was said, by its local id; not yet acknowledged.
    pub(super) ends_said: BTreeMap<u64, u64>,
    /// Its end and all before it has been read.
    pub(super) is_final: bool,
    operations: Operations,
    communicators: BTreeMap<u64, Known>,
    /// Communicators seen so far, by pointer.
    uses: BTreeMap<u64, u32>,
    /// Communicators were in this segment that this agent has not seen.
    has_gaps: bool,
    /// Ticks and nanoseconds of what has been said, so that a better clock does not change it.
    busy: BTreeMap<(u64, i32), (u64, u64)>,
    log_revision: Option<u64>,
    log_too_long: u64,
}

/// What is kept of a communicator besides its slot.
#[derive(Debug, Default)]
struct Known {
    created_at_ns: u64,
    ended_at_ns: Option<u64>,
    /// How many with its pointer came before; `None` while its init has not succeeded.
    occurrence: Option<u32>,
    pointer: u64,
    facts: Option<CommunicatorFacts>,
}

impl Process {
    /// A process seen for the first time.
    pub(super) fn new(path: PathBuf, identity: &Identity, machine: &str) -> Self {
        Self {
            path,
            log: LogTail::new(identity, machine),
            log_reached: Reached::Missing,
            now: batch::Process { key: key(identity, machine), ..batch::Process::default() },
            said: None,
            ends_said: BTreeMap::new(),
            is_final: false,
            operations: Operations::default(),
            communicators: BTreeMap::new(),
            uses: BTreeMap::new(),
            has_gaps: false,
            busy: BTreeMap::new(),
            log_revision: None,
            log_too_long: 0,
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
        let snapshot = match snapshot(file) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                if is_dead {
                    self.end(batch::ProcessState::Killed, now.wall);
                    self.is_final = true;
                }
                return Err(error);
            }
        };
        let clock = snapshot.clock.clock(now.ticks.ticks, now.ticks.monotonic_ns);
        self.operations.update(file, snapshot.next_ticket, clock, losses)?;
        self.read_log(losses);
        self.know(&snapshot, clock);
        self.join(&snapshot);
        self.tell(&snapshot, clock, now);
        if is_dead {
            let state =
                if snapshot.exited { batch::ProcessState::Exited } else { batch::ProcessState::Killed };
            self.end(state, now.wall);
            self.is_final = self.log_reached != Reached::Middle;
            if self.is_final {
                losses.add(Loss::RecordTorn, self.operations.torn());
            }
        }
        Ok(())
    }

    /// Marks the end of the process; the first time that it is seen counts.
    pub(super) fn end(&mut self, state: batch::ProcessState, at: Timestamp) {
        self.now.state = state.into();
        self.now.ended_at_ns.get_or_insert(at.0);
    }

    /// Whether there is anything to be said of it.
    pub(super) fn has_been_read(&self) -> bool {
        self.now.identity.is_some()
    }

    /// Whether the log could be of use and says nothing of channels.
    pub(super) fn lacks_log(&self) -> bool {
        self.now.communicators.iter().any(|communicator| {
            communicator.state == i32::from(batch::CommunicatorState::Active)
                && communicator.final_channels.is_none()
                && communicator.n_ranks > 1
        })
    }

    fn read_log(&mut self, losses: &mut Losses) {
        self.log_reached = self.log.poll().unwrap_or_else(|error| {
            tracing::debug!(segment = %self.path.display(), %error, "cannot read the log");
            Reached::Missing
        });
        let too_long = self.log.log.too_long();
        losses.add(Loss::LogLineTooLong, too_long.saturating_sub(self.log_too_long));
        self.log_too_long = too_long;
    }

    /// Takes in new communicators, in the order in which they were made, and forgets those whose slot was used again.
    fn know(&mut self, snapshot: &Snapshot, clock: Clock) {
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
            let succeeded =
                matches!(slot.state, COMMUNICATOR_ACTIVE | COMMUNICATOR_DESTROYED | COMMUNICATOR_ABORTED);
            if known.occurrence.is_none() && succeeded && slot.pointer != 0 {
                known.pointer = slot.pointer;
                let uses = self.uses.entry(slot.pointer).or_default();
                known.occurrence = Some(*uses);
                *uses += 1;
            }
        }
        let present: BTreeSet<u64> = snapshot.communicators.iter().map(Communicator::local_id).collect();
        self.communicators.retain(|id, _| present.contains(id));
        self.ends_said.retain(|id, _| present.contains(id));
        self.busy.retain(|(id, _), _| present.contains(id));
    }

    /// Finds the log's facts about each communicator, and takes them again when the log has more.
    fn join(&mut self, snapshot: &Snapshot) {
        let is_new =
            self.communicators.values().any(|known| known.facts.is_none() && known.occurrence.is_some());
        if self.log_revision == Some(self.log.log.revision()) && !is_new {
            return;
        }
        self.log_revision = Some(self.log.log.revision());
        let is_certain = !self.has_gaps && !self.log.restarted;
        for slot in &snapshot.communicators {
            let id = slot.local_id();
            let Some(known) = self.communicators.get(&id) else { continue };
            let (Some(occurrence), pointer) = (known.occurrence, known.pointer) else { continue };
            let joined = known.facts.as_ref().map(|facts| facts.occurrence);
            let taken = |occurrence| {
                self.communicators.iter().any(|(other, known)| {
                    *other != id
                        && known.pointer == pointer
                        && known.facts.as_ref().is_some_and(|facts| facts.occurrence == occurrence)
                })
            };
            let wanted = Wanted {
                pid: snapshot.identity.pid,
                pointer,
                comm_hash: slot.comm_hash,
                rank: slot.rank,
                n_ranks: slot.n_ranks,
                occurrence: joined.or(Some(occurrence)).filter(|_| is_certain),
            };
            let facts = find(&self.log.log, wanted, taken).cloned();
            if let Some(known) = self.communicators.get_mut(&id).filter(|_| facts.is_some()) {
                known.facts = facts;
            }
        }
    }

    /// Writes down all that is known.
    fn tell(&mut self, snapshot: &Snapshot, clock: Clock, now: Now<'_>) {
        let present: BTreeSet<u64> = snapshot.communicators.iter().map(Communicator::local_id).collect();
        self.now = batch::Process {
            key: std::mem::take(&mut self.now.key),
            identity: Some(identity(snapshot, now.machine)),
            communicators: snapshot.communicators.iter().map(|slot| self.communicator(slot)).collect(),
            counters: self.counters(snapshot, clock),
            links: links(snapshot),
            in_flight: self.operations.in_flight(),
            last_completed: self.operations.last_completed(&present),
            dropped: dropped(snapshot),
            collector_state: known_enum::<batch::CollectorState>(snapshot.state),
            state: batch::ProcessState::Running.into(),
            ended_at_ns: self.now.ended_at_ns,
            level: known_enum::<batch::Level>(snapshot.level),
            profiler_version: snapshot.profiler_version,
            plugin_chained: snapshot.flags & LIVE_CHAINED != 0,
            calls_seen: snapshot.flags & LIVE_CALLED != 0,
            n_libraries: snapshot.n_libraries,
            has_segment: true,
            log_lacks: Vec::new(),
        };
    }

    fn communicator(&self, slot: &Communicator) -> batch::Communicator {
        let id = slot.local_id();
        let known = self.communicators.get(&id);
        let facts = known.and_then(|known| known.facts.as_ref());
        let device = slot.device.map(|device| device.to_string());
        let hash = Some(slot.comm_hash).filter(|hash| *hash != 0);
        batch::Communicator {
            local_id: id,
            comm_hash: hash.or(facts.and_then(|facts| facts.comm_hash)).unwrap_or_default(),
            name: slot.name.clone(),
            rank: slot.rank,
            n_ranks: slot.n_ranks,
            n_nodes: slot.n_nodes.or(facts.and_then(|facts| facts.n_nodes)),
            parent_hash: Some(slot.parent_hash).filter(|hash| *hash != 0),
            state: known_enum::<batch::CommunicatorState>(slot.state),
            created_at_ns: known.map_or(0, |known| known.created_at_ns),
            ended_at_ns: known.and_then(|known| known.ended_at_ns),
            gpu: facts.and_then(|facts| facts.bus_id.clone()).or(device).unwrap_or_default(),
            init_channels: facts.and_then(|facts| facts.init_channels),
            final_channels: facts.and_then(|facts| facts.final_channels),
            rings: facts.map(rings).unwrap_or_default(),
            channel_settings: facts
                .map(|facts| facts.settings.clone().into_iter().collect())
                .unwrap_or_default(),
            sources: Some(batch::Sources {
                calls: slot.sources & SOURCE_CALLS != 0,
                plugin: slot.sources & SOURCE_PLUGIN != 0,
                log: facts.is_some(),
            }),
            completion: batch::Completion::try_from(slot.completion.cast_signed().saturating_add(1))
                .unwrap_or_default()
                .into(),
            compute_capability: slot.compute_capability,
            ring_bw_intra: facts.and_then(|facts| facts.ring_bw_intra),
            ring_bw_inter: facts.and_then(|facts| facts.ring_bw_inter),
            local_ranks: facts.and_then(|facts| facts.local_ranks),
            local_rank: facts.and_then(|facts| facts.local_rank),
            mnnvl: facts.and_then(|facts| facts.mnnvl),
            collnet_channels: facts.and_then(|facts| facts.collnet_channels),
            nvls_channels: facts.and_then(|facts| facts.nvls_channels),
            shares_resources: slot.shares_resources,
            log_version: facts.and_then(|facts| facts.version.clone()).unwrap_or_default(),
            search_fell_back: facts.is_some_and(|facts| facts.search_fell_back),
            net_unpack: None,
            made_by: facts.and_then(|facts| facts.api.clone()).unwrap_or_default(),
            evidence: Vec::new(),
        }
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

/// Whether a communicator in this state has ended, as the batch numbers states.
pub(super) fn has_ended(state: i32) -> bool {
    [COMMUNICATOR_DESTROYED, COMMUNICATOR_ABORTED, COMMUNICATOR_FAILED]
        .into_iter()
        .any(|ended| known_enum::<batch::CommunicatorState>(ended) == state)
}

/// Unique over hosts and restarts.
pub(super) fn key(identity: &Identity, machine: &str) -> String {
    format!("{}/{}/{}", host(identity, machine), identity.pid, identity.start_time_ns)
}

fn host<'a>(identity: &'a Identity, machine: &'a str) -> &'a str {
    if identity.host.is_empty() { machine } else { &identity.host }
}

fn identity(snapshot: &Snapshot, machine: &str) -> batch::Identity {
    let identity = &snapshot.identity;
    let host = host(identity, machine);
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
        k8s_namespace: identity.k8s_namespace.clone(),
        k8s_pod: identity.k8s_pod.clone(),
        executable: identity.executable.clone(),
        library_version: snapshot.library_version,
    }
}

fn rings(facts: &CommunicatorFacts) -> Vec<batch::RingPosition> {
    let position = |ring: &crate::nccl_log::RingFact| {
        let hop = facts.hops.get(&ring.channel).cloned().unwrap_or_default();
        let recv = facts.recv_hops.get(&ring.channel).cloned().unwrap_or_default();
        batch::RingPosition {
            channel: ring.channel,
            prev: ring.prev,
            next: ring.next,
            transport: hop.transport,
            nic: hop.nic.unwrap_or_default(),
            gpu_direct: hop.gpu_direct,
            recv_nic: recv.nic.unwrap_or_default(),
            nic_index: hop.nic_index,
            recv_nic_index: recv.nic_index,
            proxy_rank: hop.proxy_rank,
        }
    };
    facts.rings.iter().map(position).collect()
}

/// Links carry the low 15 bits of the generation of the slot that they count for.
fn links(snapshot: &Snapshot) -> Vec<batch::Link> {
    let slots: BTreeMap<(u16, u32), u64> = (snapshot.communicators.iter())
        .map(|slot| ((slot.slot, slot.generation & 0x7fff), slot.local_id()))
        .collect();
    (snapshot.links.iter())
        .filter_map(|link| {
            Some(batch::Link {
                local_id: *slots.get(&(link.communicator, link.generation))?,
                primitive: batch::Primitive::from(link.primitive).into(),
                peer: link.peer,
                sent_bytes: link.sent_bytes,
                sent_steps: link.sent_steps,
            })
        })
        .collect()
}

fn dropped(snapshot: &Snapshot) -> Vec<batch::Dropped> {
    (snapshot.dropped.iter())
        .map(|(reason, events)| batch::Dropped { reason: reason.label().to_owned(), events: *events })
        .collect()
}

/// A state of the segment as the batch numbers it: alike, and 0 for what is not known.
fn known_enum<E: TryFrom<i32> + Into<i32> + Default>(state: u32) -> i32 {
    i32::try_from(state).ok().and_then(|state| E::try_from(state).ok()).unwrap_or_default().into()
}
