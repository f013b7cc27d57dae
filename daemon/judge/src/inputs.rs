//! What the rules of prediction need, from what all ranks say. Where a rank is silent, only what holds whatever it would
//! say. Pure.

use ringscope_model::{Communicator, Model, RankRef};

use super::predict::{HOPPER_BW, Inputs, Shared};
use super::rank_channels::RankChannels;
use super::ranks::Ranks;
use super::version::{Family, Version};

/// The inputs for a communicator of which every rank's init is known.
pub(super) fn of(
    communicator: &Communicator,
    model: &Model,
    refs: &Ranks<'_>,
    ranks: &[RankChannels],
    base: u32,
) -> Inputs {
    // Ranks whose log is not known have the number alone: one that says whose library it is speaks for all.
    let foreign = ranks.iter().filter_map(|rank| rank.version).find(|version| version.family != Family::Nccl);
    let version = foreign.or_else(|| ranks.iter().find_map(|rank| rank.version));
    let version =
        version.map(|version| if is_described(version, refs) { version.as_nccl() } else { version });
    let n_nodes = refs.iter().filter_map(|rank| rank.facts.n_nodes).max();
    Inputs {
        base,
        version,
        n_nodes,
        compute_capability: lowest(ranks.iter().map(|rank| rank.compute_capability), |cc| cc < FIRST_HOPPER),
        ring_bw_intra: lowest(ranks.iter().map(|rank| rank.ring_bw_intra), |bw| bw <= HOPPER_BW),
        collnet: collnet(refs, version, n_nodes),
        unpack: unpack(refs),
        nvls_channels: refs.iter().filter_map(|rank| rank.facts.nvls_channels).max(),
        shared: shared(communicator, model, refs),
        bounds: ranks.first().map(|rank| rank.bounds.clone()).unwrap_or_default(),
    }
}

/// Whether ringscope's engine shows a described machine (`RSCCL_MACHINE`): it then chooses channels as NCCL of its number
/// does. Only there does it count channels for CollNet and NVLS.
fn is_described(version: Version, refs: &Ranks<'_>) -> bool {
    let counts = |rank: &RankRef<'_>| rank.facts.collnet_channels.max(rank.facts.nvls_channels);
    version.family == Family::Rsccl && refs.iter().filter_map(counts).any(|channels| channels > 0)
}

/// The lowest of all; of some only if that decides already, however low the others are.
fn lowest<T: PartialOrd + Copy>(
    values: impl Iterator<Item = Option<T>>,
    decides: impl Fn(T) -> bool,
) -> Option<T> {
    let (mut lowest, mut is_whole): (Option<T>, bool) = (None, true);
    for value in values {
        match value {
            Some(value) if lowest.is_none_or(|lowest| value < lowest) => lowest = Some(value),
            Some(_) => {}
            None => is_whole = false,
        }
    }
    lowest.filter(|lowest| is_whole || decides(*lowest))
}

/// CollNet is off unless somebody asks for it. Whether its rings are faster inside nodes no line says.
fn collnet(refs: &Ranks<'_>, version: Option<Version>, n_nodes: Option<u32>) -> Option<bool> {
    let n_ranks = refs.at(0).map_or(0, |rank| rank.facts.n_ranks);
    if n_nodes.is_some_and(|n_nodes| n_nodes >= n_ranks) {
        return Some(false);
    }
    if let Some(channels) = refs.iter().find_map(|rank| rank.facts.collnet_channels) {
        return if channels == 0 { Some(false) } else { None };
    }
    let setting = |rank: &RankRef<'_>| rank.facts.settings.get("NCCL_COLLNET_ENABLE").copied();
    match refs.iter().find_map(setting) {
        Some(enabled) if enabled > 0 => None,
        Some(_) => Some(false),
        // The configuration of a communicator can ask for it from 2.17 on, and from 2.20 on the log says how many.
        None => {
            version.is_none_or(|version| !((2, 17, 0)..(2, 20, 0)).contains(&version.number)).then_some(false)
        }
    }
}

/// The library's own networks leave unpacking to the GPU's kernels of no one.
fn unpack(refs: &Ranks<'_>) -> Option<bool> {
    if let Some(told) = refs.iter().find_map(|rank| rank.facts.net_unpack) {
        return Some(told);
    }
    let mut hops = refs.iter().flat_map(|rank| rank.facts.rings.values());
    let own =
        |text: &str| !text.starts_with("NET") || text.starts_with("NET/IB") || text.starts_with("NET/Socket");
    hops.all(|hop| !hop.transport.is_empty() && own(&hop.transport)).then_some(false)
}

fn shared(communicator: &Communicator, model: &Model, refs: &Ranks<'_>) -> Shared {
    let told = refs.iter().find_map(|rank| rank.facts.shares_resources);
    let parent_hash = refs.iter().find_map(|rank| rank.facts.parent_hash);
    let parent = || parent_hash.and_then(|hash| parent(communicator, model, hash));
    let of_parent = || {
        let parent = parent();
        let ranks = || parent.iter().flat_map(|parent| parent.ranks(model));
        let nvls = ranks().find_map(|rank| rank.facts.nvls_channels).map(|channels| channels > 0);
        (ranks().find_map(|rank| rank.facts.final_channels), nvls)
    };
    match (told, parent_hash) {
        (Some(false), _) | (None, None) => Shared::No,
        (Some(true), _) => {
            let (channels, nvls) = of_parent();
            Shared::With { channels, nvls }
        }
        (None, Some(_)) => {
            let (channels, nvls) = of_parent();
            Shared::Maybe { channels, nvls }
        }
    }
}

/// The communicator that this one was split from: of those with its hash the largest that is not younger. A parent that
/// shares its own parent's channels has no more than these, so its count bounds as well.
fn parent<'a>(child: &Communicator, model: &'a Model, hash: u64) -> Option<&'a Communicator> {
    let (_, job) = model.job(child.job())?;
    let created = child.created(model);
    job.communicators(model)
        .filter(|known| known.comm_hash() == hash && known.id() != child.id())
        .filter(|known| known.created(model) <= created)
        .max_by_key(|known| (known.n_ranks(), known.id()))
}

/// Compute capability, times ten, of the first GPUs for which channels are doubled again.
const FIRST_HOPPER: u32 = 90;
