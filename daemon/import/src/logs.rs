//! Facts of the library's logs into the draft.

use std::collections::BTreeSet;

use ringscope_api::Fnv;
use ringscope_api::clock::Timestamp;
use ringscope_logs::nccl_log::{CommunicatorFacts, End, NcclLog, RingFact, assemble};
use ringscope_wire::batch::{CommunicatorState, RingPosition, Sources};

use super::draft::{Claim, Draft, Part};
use super::gathered::Gathered;
use super::xml;

/// Puts what the logs say into the draft.
pub(super) fn draft(gathered: &Gathered, draft: &mut Draft) {
    let logs: Vec<&NcclLog> = gathered.logs.iter().map(|(_, _, log)| log).collect();
    let assembled = assemble(&logs);
    for (index, known) in assembled.communicators.iter().enumerate() {
        let Some(n_ranks) = known.n_ranks else { continue };
        // Where nothing names the communicator, its place among those of this import does.
        let comm_hash = known.comm_hash.unwrap_or_else(|| {
            let made_up = Fnv::new().text("no commId").number(u64::from(n_ranks)).number(index as u64);
            let made_up = made_up.finish().max(1);
            draft.made_up(made_up);
            made_up
        });
        for (rank, member) in &known.members {
            let Some((file, at, log)) = gathered.logs.get(member.log) else { continue };
            let facts = &member.facts;
            let claim = Claim {
                host: &facts.host,
                pid: Some(facts.pid),
                comm_hash,
                rank: *rank,
                n_ranks,
                at: *at,
                by_rank: false,
            };
            let Some(mut part) = draft.part(&claim) else { continue };
            fill(&mut part, facts, (file, *at, log));
            let told: BTreeSet<u32> = part.communicator().rings.iter().map(|ring| ring.channel).collect();
            let others = known.rings.iter().filter(|(channel, _)| !told.contains(channel));
            let places = others.filter_map(|(channel, order)| in_order(facts, *channel, *rank, order));
            part.communicator().rings.extend(places);
            xml::name_nics(&gathered.xml, facts.bus_id.as_deref(), part.communicator());
            if let Some(version) =
                facts.version.as_deref().or(known.version.as_deref()).or_else(|| log.version())
            {
                part.library_version(version);
                version.clone_into(&mut part.communicator().log_version);
            }
            for lack in assembled.lacks.get(member.log).into_iter().flatten() {
                part.lacks(lack);
            }
        }
    }
}

/// A rank's place on a ring that other lines tell whole.
fn in_order(facts: &CommunicatorFacts, channel: u32, rank: u32, order: &[u32]) -> Option<RingPosition> {
    let n = order.len();
    let place = order.iter().position(|one| *one == rank)?;
    let (prev, next) = (order[(place + n - 1) % n], order[(place + 1) % n]);
    Some(facts.position(&RingFact { channel, prev, next }))
}

fn fill(part: &mut Part<'_>, facts: &CommunicatorFacts, (file, at, log): (&str, Timestamp, &NcclLog)) {
    let is_torn = log.counts().torn + log.counts().cut > 0;
    let known = part.communicator();
    let sources = known.sources.unwrap_or_default();
    known.sources = Some(Sources { log: true, ..sources });
    known.n_nodes = facts.n_nodes.or(known.n_nodes);
    known.local_ranks = facts.local_ranks.or(known.local_ranks);
    known.local_rank = facts.local_rank.or(known.local_rank);
    known.mnnvl = facts.mnnvl.or(known.mnnvl);
    if let Some(gpu) = &facts.bus_id {
        known.gpu.clone_from(gpu);
    }
    known.init_channels = facts.init_channels.or(known.init_channels);
    known.final_channels = facts.final_channels.or(known.final_channels);
    known.ring_bw_intra = facts.ring_bw_intra.or(known.ring_bw_intra);
    known.ring_bw_inter = facts.ring_bw_inter.or(known.ring_bw_inter);
    known.collnet_channels = facts.collnet_channels.or(known.collnet_channels);
    known.nvls_channels = facts.nvls_channels.or(known.nvls_channels);
    known.search_fell_back |= facts.search_fell_back;
    if let Some(api) = &facts.api {
        known.made_by.clone_from(api);
    }
    if !facts.rings.is_empty() {
        known.rings = facts.rings.iter().map(|ring| facts.position(ring)).collect();
    }
    if !facts.settings.is_empty() {
        known.channel_settings.clone_from(&facts.settings);
    }
    known.graphs = facts.graphs().or(known.graphs.take());
    known.evidence.extend(facts.evidence_in(file));
    let state = match facts.end {
        _ if facts.failed => CommunicatorState::Failed,
        // Where lines are lost anyway, it says nothing that these are.
        _ if !facts.complete && is_torn => CommunicatorState::Aborted,
        // Where no line of inits was asked for, it says nothing either.
        _ if !facts.complete && facts.comm_pointer != 0 => CommunicatorState::Forming,
        // How it ran is what the import is about; that it was taken down in the end changes nothing. PyTorch aborts
        // its communicators also where all went well.
        None | Some(End::Destroyed | End::Aborted) => CommunicatorState::Active,
    };
    known.state = state.into();
    let is_open = matches!(state, CommunicatorState::Forming | CommunicatorState::Failed);
    let begun = facts.evidence.first().filter(|_| is_open).map(|line| (line.line, line.text.clone()));
    if state != CommunicatorState::Active {
        known.ended_at_ns = Some(at.0.max(known.created_at_ns));
    }
    part.told_until(at);
    // What the library warned of says more than that the init has begun.
    let place = format!("{}:{}:", facts.host, facts.pid);
    let warned = log.warnings().iter().filter(|line| facts.failed && line.text.starts_with(&place));
    for line in warned.take(WARNINGS) {
        part.proof(file, line.line, line.text.clone());
    }
    if let Some((line, text)) = begun {
        part.proof(file, line, text);
    }
}

/// Warnings of one rank that are shown.
const WARNINGS: usize = 2;
