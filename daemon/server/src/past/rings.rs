//! The rings of a communicator that nothing runs of any more, from what its ranks said of them.

use std::collections::BTreeMap;

use ringscope_api::{Hop, Ring, Rings};
use ringscope_model::rings::{Place, stitch};
use ringscope_store::KeptHops;

/// One a channel.
pub(crate) fn rings(id: &str, kept: &[KeptHops]) -> Rings {
    let mut places: BTreeMap<u32, BTreeMap<u32, Place>> = BTreeMap::new();
    let mut hops: BTreeMap<(u32, u32), Hop> = BTreeMap::new();
    for rank in kept {
        for (channel, prev, next, transport, nic) in &rank.hops {
            places.entry(*channel).or_default().insert(rank.rank, Place { prev: *prev, next: *next });
            hops.insert((*channel, rank.rank), hop(rank, *next, transport.clone(), nic.clone()));
        }
    }
    let n_ranks = kept.first().map_or(0, |rank| rank.n_ranks);
    let ring = |(channel, places): (u32, BTreeMap<u32, Place>)| {
        let stitched = stitch(n_ranks, &places);
        Ring {
            channel,
            complete: stitched.problem.is_none(),
            order: stitched.order.iter().filter_map(|rank| hops.remove(&(channel, *rank))).collect(),
            missing_ranks: stitched.missing_ranks,
            problem: stitched.problem,
        }
    };
    Rings { id: id.to_owned(), rings: places.into_iter().map(ring).collect() }
}

/// What is not kept of a hop is not known.
fn hop(rank: &KeptHops, next: u32, transport: Option<String>, nic: Option<String>) -> Hop {
    Hop {
        rank: rank.rank,
        host: rank.host.clone(),
        gpu: rank.gpu.clone(),
        transport,
        nic,
        recv_nic: None,
        gpu_direct: None,
        proxy_rank: None,
        odd: Vec::new(),
        next,
        sent_bytes: None,
    }
}
