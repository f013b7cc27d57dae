//! What the store keeps of a process: as the agent would say it, so that [`Model::restore`] is the same as hearing it.

use ringscope_wire::Primitive;
use ringscope_wire::batch;

use super::Model;
use super::calls::OpenCall;
use super::facts::{Evidence, Facts, LocalState};
use super::limits::MAX_TOLD_MARKS;
use super::places::Position;
use super::process::{Identity, Local, Process, ProcessState};

impl Model {
    /// Identity, communicators and state of a process, for the store. `None`: not known (any more).
    #[must_use]
    pub fn process_facts(&self, key: &str) -> Option<batch::Process> {
        let process = self.process(key)?;
        Some(batch::Process {
            key: key.to_owned(),
            identity: process.identity.as_ref().map(identity),
            communicators: process
                .locals
                .iter()
                .filter_map(|(local_id, local)| Some(communicator(*local_id, local.facts.as_ref()?)))
                .collect(),
            collector_state: process.collector_state.into(),
            state: match process.state {
                ProcessState::Running => batch::ProcessState::Running,
                ProcessState::Exited => batch::ProcessState::Exited,
                ProcessState::Killed | ProcessState::Gone => batch::ProcessState::Killed,
                ProcessState::Imported => batch::ProcessState::Imported,
            }
            .into(),
            ended_at_ns: process.ended.map(|ended| ended.0),
            level: process.collector.level.into(),
            profiler_version: process.collector.profiler_version,
            plugin_chained: process.collector.plugin_chained,
            calls_seen: process.collector.calls_seen,
            n_libraries: process.collector.n_libraries,
            has_segment: process.collector.has_segment,
            log_lacks: process.collector.log_lacks.iter().map(ToString::to_string).collect(),
            launched: process.collector.launched,
            segment_version: process.collector.segment_version,
            collector_off_since_ns: process.collector.off_since.map(|since| since.0),
            unwatched_since_ns: self.unwatched_since(process).map(|since| since.0),
            told_until_ns: process.told_until.map(|until| until.0),
            exit_status: process.exit.status.map(u32::from),
            exit_signal: process.exit.signal.map(u32::from),
            launch_end: process.exit.launch_end(),
            told_by_peers: process.told_by_peers.as_deref().unwrap_or_default().to_owned(),
            groups: process.told_groups(),
            ..batch::Process::default()
        })
    }

    /// Counters, links, operations and losses of a process, for the store. `None`: not known (any more).
    #[must_use]
    pub fn process_counters(&self, key: &str) -> Option<batch::Process> {
        let id = *self.keys.get(key)?;
        let process = self.processes.get(&id)?;
        let locals = &process.locals;
        Some(batch::Process {
            key: key.to_owned(),
            counters: locals.iter().flat_map(|(local_id, local)| counters(*local_id, local)).collect(),
            links: locals.iter().flat_map(|(local_id, local)| links(*local_id, local)).collect(),
            in_flight: locals.values().flat_map(|local| local.in_flight.iter().copied()).collect(),
            last_completed: locals.values().filter_map(|local| local.last_completed).collect(),
            open_calls: process.open_calls.iter().map(open_call).collect(),
            sequences: locals.iter().filter_map(|(local_id, local)| sequence(*local_id, local)).collect(),
            pairs: locals.iter().flat_map(|(local_id, local)| pairs(*local_id, local)).collect(),
            last_returned_at_ns: process.last_returned.map(|returned| returned.0),
            dropped: process
                .dropped
                .iter()
                .map(|(reason, events)| batch::Dropped { reason: reason.clone(), events: *events })
                .collect(),
            summations: self.groups.told_by(id),
            ..batch::Process::default()
        })
    }

    /// A process.
    #[must_use]
    pub fn process(&self, key: &str) -> Option<&Process> {
        self.processes.get(self.keys.get(key)?)
    }
}

fn identity(known: &Identity) -> batch::Identity {
    batch::Identity {
        host: known.host.to_string(),
        pid: known.pid,
        start_time_ns: known.started.0,
        job: known.job.to_string(),
        global_rank: known.global_rank,
        world_size: known.world_size,
        local_rank: known.local_rank,
        executable: known.executable.to_string(),
        library_version: known.library_version,
        user: known.user,
        ..known.scheduled.told()
    }
}

fn communicator(local_id: u64, facts: &Facts) -> batch::Communicator {
    batch::Communicator {
        local_id,
        comm_hash: facts.comm_hash,
        name: facts.name.to_string(),
        rank: facts.rank,
        n_ranks: facts.n_ranks,
        n_nodes: facts.n_nodes,
        parent_hash: facts.parent_hash,
        state: match facts.state {
            LocalState::Forming => batch::CommunicatorState::Forming,
            LocalState::Active => batch::CommunicatorState::Active,
            LocalState::Destroyed => batch::CommunicatorState::Destroyed,
            LocalState::Aborted => batch::CommunicatorState::Aborted,
            LocalState::Failed => batch::CommunicatorState::Failed,
        }
        .into(),
        created_at_ns: facts.created.0,
        ended_at_ns: facts.ended.map(|ended| ended.0),
        gpu: facts.gpu.to_string(),
        init_channels: facts.init_channels,
        final_channels: facts.final_channels,
        rings: facts.rings.iter().map(|(channel, place)| ring(channel, place)).collect(),
        channel_settings: facts.settings.iter().map(|(name, value)| (name.to_string(), *value)).collect(),
        sources: Some(batch::Sources {
            calls: facts.sources.calls,
            plugin: facts.sources.plugin,
            log: facts.sources.log,
        }),
        completion: facts.completion.into(),
        completion_lost: facts.completion_lost.to_string(),
        compute_capability: facts.compute_capability,
        ring_bw_intra: facts.ring_bw_intra,
        ring_bw_inter: facts.ring_bw_inter,
        local_ranks: facts.local_ranks,
        local_rank: facts.local_rank,
        mnnvl: facts.mnnvl,
        collnet_channels: facts.collnet_channels,
        nvls_channels: facts.nvls_channels,
        shares_resources: facts.shares_resources,
        log_version: facts.log_version.to_string(),
        search_fell_back: facts.search_fell_back,
        net_unpack: facts.net_unpack,
        made_by: facts.made_by.to_string(),
        graphs: facts.graphs.as_ref().map(|graphs| graphs.to_batch()),
        evidence: facts.evidence.iter().map(evidence).collect(),
        error: facts.error.as_ref().map(|error| error.code),
        error_function: facts.error.as_ref().map(|error| error.function.to_string()).unwrap_or_default(),
        error_at_ns: facts.error.as_ref().and_then(|error| error.at).map(|at| at.0),
        warnings: facts.warnings.iter().map(evidence).collect(),
    }
}

fn ring(channel: u32, place: &Position) -> batch::RingPosition {
    batch::RingPosition {
        channel,
        prev: place.prev,
        next: place.next,
        transport: place.transport.to_string(),
        nic: place.nic.to_string(),
        gpu_direct: place.gpu_direct,
        recv_nic: place.recv_nic.to_string(),
        nic_index: place.nic_index,
        recv_nic_index: place.recv_nic_index,
        proxy_rank: place.proxy_rank,
    }
}

fn evidence(line: &Evidence) -> batch::Evidence {
    batch::Evidence {
        fact: line.fact.to_string(),
        file: line.file.to_string(),
        line: line.line,
        text: line.text.to_string(),
    }
}

fn counters(local_id: u64, local: &Local) -> impl Iterator<Item = batch::Counters> {
    local.counters.iter().map(move |(primitive, counted)| {
        let totals = counted.totals();
        batch::Counters {
            local_id,
            primitive: number(primitive),
            issued_calls: totals.issued_calls,
            issued_bytes: totals.issued_bytes,
            completed_calls: totals.completed_calls,
            completed_bytes: totals.completed_bytes,
            failed_calls: totals.failed_calls,
            busy_ns: totals.busy_ns,
            captured_calls: totals.captured_calls,
            captured_bytes: totals.captured_bytes,
            replayed_calls: totals.replayed_calls,
            replayed_bytes: totals.replayed_bytes,
        }
    })
}

fn open_call(call: &OpenCall) -> batch::OpenCall {
    batch::OpenCall {
        thread: call.thread,
        function: call.function.to_string(),
        local_id: call.local_id,
        entered_at_ns: call.entered.0,
    }
}

/// With the newest marks, as many as a batch has.
fn sequence(local_id: u64, local: &Local) -> Option<batch::CallSequence> {
    let sequence = local.sequence.as_ref()?;
    let older = sequence.marks.len().saturating_sub(MAX_TOLD_MARKS);
    let marks = sequence.marks.iter().skip(older);
    Some(batch::CallSequence {
        local_id,
        calls: sequence.calls,
        hash: sequence.hash,
        marks: marks.map(|mark| batch::SequenceMark { calls: mark.calls, hash: mark.hash }).collect(),
        sampled_log2: 0,
    })
}

fn pairs(local_id: u64, local: &Local) -> impl Iterator<Item = batch::PairCalls> {
    local.pairs.iter().map(move |((primitive, peer), pair)| batch::PairCalls {
        local_id,
        primitive: number(*primitive),
        peer: *peer,
        calls: pair.calls,
        bytes: pair.bytes,
        hash: pair.hash,
    })
}

fn links(local_id: u64, local: &Local) -> impl Iterator<Item = batch::Link> {
    local.links.iter().map(move |((primitive, peer), sent)| batch::Link {
        local_id,
        primitive: number(*primitive),
        peer: *peer,
        sent_bytes: sent.bytes,
        sent_steps: sent.steps,
        sending_ns: sent.sending_ns,
    })
}

fn number(primitive: Primitive) -> i32 {
    batch::Primitive::from(primitive).into()
}
