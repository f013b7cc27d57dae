//! A communicator in the words of the batch: what a log's facts say of it, and over them what the segment says.

use std::path::Path;

use ringscope_logs::nccl_log::CommunicatorFacts;
use ringscope_wire::batch;
use ringscope_wire::segment::layout::{
    COMMUNICATOR_ABORTED, COMMUNICATOR_ACTIVE, COMMUNICATOR_DESTROYED, COMMUNICATOR_FAILED,
    COMMUNICATOR_FORMING, LOST_CUDA_EVENT, LOST_PROFILER_EVENT, LOST_RECORD, LOST_RUN, MADE_BY_GROW,
    MADE_BY_INIT, MADE_BY_SHRINK, MADE_BY_SPLIT, MADE_BY_SUMMATION, SOURCE_CALLS, SOURCE_PLUGIN,
};
use ringscope_wire::segment::read::Communicator;

/// Lines of evidence sent with one communicator; the format promises no more.
const MAX_EVIDENCE: usize = 64;

/// Settings of the program's own configuration, beside those of the environment.
const MIN_CTAS: &str = "config.minCTAs";
const MAX_CTAS: &str = "config.maxCTAs";

/// When a communicator was made and ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    pub(super) created_at_ns: u64,
    pub(super) ended_at_ns: Option<u64>,
    /// When its error was heard of.
    pub(super) error_at_ns: Option<u64>,
}

/// A communicator that has a slot, with what the log says of it.
pub(super) fn communicator(
    slot: &Communicator,
    times: Times,
    facts: Option<&CommunicatorFacts>,
    log: Option<&Path>,
) -> batch::Communicator {
    let said = facts.map(|facts| of_log(facts, log)).unwrap_or_default();
    let device = slot.device.map(|device| device.to_string());
    let mut settings = said.channel_settings;
    let ctas = [(MIN_CTAS, slot.min_ctas), (MAX_CTAS, slot.max_ctas)];
    settings.extend(ctas.into_iter().filter_map(|(name, ctas)| Some((name.to_owned(), ctas?.into()))));
    batch::Communicator {
        local_id: slot.local_id(),
        comm_hash: if slot.comm_hash == 0 { said.comm_hash } else { slot.comm_hash },
        name: slot.name.clone(),
        rank: slot.rank,
        n_ranks: slot.n_ranks,
        n_nodes: slot.n_nodes.or(said.n_nodes),
        parent_hash: Some(slot.parent_hash).filter(|hash| *hash != 0),
        state: known_enum::<batch::CommunicatorState>(state(slot, facts)),
        created_at_ns: times.created_at_ns,
        ended_at_ns: times.ended_at_ns,
        gpu: Some(said.gpu).filter(|gpu| !gpu.is_empty()).or(device).unwrap_or_default(),
        channel_settings: settings,
        sources: Some(batch::Sources {
            calls: slot.sources & SOURCE_CALLS != 0,
            plugin: slot.sources & SOURCE_PLUGIN != 0,
            log: facts.is_some(),
        }),
        completion: batch::Completion::try_from(slot.completion.cast_signed().saturating_add(1))
            .unwrap_or_default()
            .into(),
        completion_lost: completion_lost(slot.lost),
        compute_capability: slot.compute_capability,
        shares_resources: slot.shares_resources,
        error: slot.error.map(|error| error.result),
        error_function: slot.error.map(|error| error.function.to_owned()).unwrap_or_default(),
        error_at_ns: times.error_at_ns,
        made_by: Some(said.made_by)
            .filter(|made_by| !made_by.is_empty())
            .unwrap_or_else(|| made_by(slot.made_by).to_owned()),
        ..said
    }
}

/// The collector hears that an init which does not block is over when the program asks; the log, whose facts are of complete
/// inits, says it at once.
fn state(slot: &Communicator, facts: Option<&CommunicatorFacts>) -> u32 {
    let is_over = slot.state == COMMUNICATOR_FORMING && slot.pointer != 0 && facts.is_some();
    if is_over { COMMUNICATOR_ACTIVE } else { slot.state }
}

/// What a log alone says of a communicator: without an id, a state or times.
pub(super) fn of_log(facts: &CommunicatorFacts, log: Option<&Path>) -> batch::Communicator {
    let file = log.map(|log| log.display().to_string()).unwrap_or_default();
    batch::Communicator {
        comm_hash: facts.comm_hash.or(facts.derived_hash).unwrap_or_default(),
        rank: facts.rank,
        n_ranks: facts.n_ranks,
        n_nodes: facts.n_nodes,
        gpu: facts.bus_id.clone().unwrap_or_default(),
        init_channels: facts.init_channels,
        final_channels: facts.final_channels,
        rings: facts.rings.iter().map(|ring| facts.position(ring)).collect(),
        channel_settings: facts.settings.clone(),
        sources: Some(batch::Sources { log: true, ..batch::Sources::default() }),
        ring_bw_intra: facts.ring_bw_intra,
        ring_bw_inter: facts.ring_bw_inter,
        local_ranks: facts.local_ranks,
        local_rank: facts.local_rank,
        mnnvl: facts.mnnvl,
        collnet_channels: facts.collnet_channels,
        nvls_channels: facts.nvls_channels,
        log_version: facts.version.clone().unwrap_or_default(),
        search_fell_back: facts.search_fell_back,
        made_by: facts.api.clone().unwrap_or_default(),
        evidence: facts.evidence_in(&file).take(MAX_EVIDENCE).collect(),
        ..batch::Communicator::default()
    }
}

/// Why nobody will know of all operations whether they are over; empty where that is not so.
fn completion_lost(lost: u32) -> String {
    const REASONS: [(u32, &str); 4] = [
        (LOST_RECORD, "newer calls have overwritten the record of one in flight"),
        (LOST_CUDA_EVENT, "no CUDA event could be recorded behind one"),
        (LOST_PROFILER_EVENT, "the profiler's events of one could not be followed"),
        (LOST_RUN, "nothing tells the end of a run of a CUDA graph that was captured below level channels"),
    ];
    let reasons = REASONS.iter().filter(|(bit, _)| lost & bit != 0).map(|(_, reason)| *reason);
    reasons.collect::<Vec<_>>().join(", and ")
}

/// The function that made it, where the log does not name its variant. Of one that only the profiler spoke of nothing
/// is known.
const fn made_by(made_by: u32) -> &'static str {
    match made_by {
        MADE_BY_INIT => "ncclCommInitRank",
        MADE_BY_SPLIT => "ncclCommSplit",
        MADE_BY_SHRINK => "ncclCommShrink",
        MADE_BY_GROW => "ncclCommGrow",
        MADE_BY_SUMMATION => batch::MADE_BY_RSUM,
        _ => "",
    }
}

/// Whether a communicator in this state has ended, as the batch numbers states.
pub(super) fn has_ended(state: i32) -> bool {
    [COMMUNICATOR_DESTROYED, COMMUNICATOR_ABORTED, COMMUNICATOR_FAILED]
        .into_iter()
        .any(|ended| known_enum::<batch::CommunicatorState>(ended) == state)
}

/// A state of the segment as the batch numbers it: alike, and 0 for what is not known.
pub(super) fn known_enum<E: TryFrom<i32> + Into<i32> + Default>(state: u32) -> i32 {
    i32::try_from(state).ok().and_then(|state| E::try_from(state).ok()).unwrap_or_default().into()
}
