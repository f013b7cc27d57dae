//! Rings, put together from the places of all ranks.

use std::collections::BTreeMap;

use ringscope_api::clock::Timestamp;
use ringscope_api::{Hop, Ring, Rings};
use ringscope_judge::Diagnosis;
use ringscope_model::rings::{Place, stitch};
use ringscope_model::{Model, RankRef};

use super::text;

/// The rings of a communicator, one a channel.
#[must_use]
pub fn rings(model: &Model, diagnosis: &Diagnosis, _now: Timestamp, id: &str) -> Option<Rings> {
    let known = model.communicator(id.parse().ok()?)?;
    let ranks: BTreeMap<u32, RankRef<'_>> = known.ranks(model).map(|rank| (rank.rank, rank)).collect();
    let mut places: BTreeMap<u32, BTreeMap<u32, Place>> = BTreeMap::new();
    for rank in ranks.values() {
        for (channel, place) in rank.facts.rings.iter() {
            let place = Place { prev: place.prev, next: place.next };
            places.entry(channel).or_default().insert(rank.rank, place);
        }
    }
    // One pass over the links for all channels.
    let mut sent: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for rank in ranks.values() {
        for ((_, peer), link) in rank.local.links() {
            let sum = sent.entry((rank.rank, *peer)).or_default();
            *sum = sum.saturating_add(link.bytes);
        }
    }
    let channels = diagnosis.channels(known, model);
    let odd = channels.odd_hops();
    let ring = |(channel, places): (u32, BTreeMap<u32, Place>)| {
        let stitched = stitch(known.n_ranks(), &places);
        let hops = stitched.order.iter().filter_map(|rank| {
            let hop = hop(ranks.get(rank)?, channel, &ranks)?;
            let odd = odd.get(&(*rank, channel)).cloned().unwrap_or_default();
            let sent_bytes =
                hop.sent_bytes.map(|_| sent.get(&(*rank, hop.next)).copied().unwrap_or_default());
            Some(Hop { odd, sent_bytes, ..hop })
        });
        Ring {
            channel,
            complete: stitched.problem.is_none(),
            order: hops.collect(),
            missing_ranks: stitched.missing_ranks,
            problem: stitched.problem,
        }
    };
    Some(Rings { id: id.to_owned(), rings: places.into_iter().map(ring).collect() })
}

fn hop(rank: &RankRef<'_>, channel: u32, ranks: &BTreeMap<u32, RankRef<'_>>) -> Option<Hop> {
    let place = rank.facts.rings.get(channel)?;
    let next = ranks.get(&place.next).and_then(|next| next.facts.rings.get(channel));
    let next = next.filter(|next| next.prev == rank.rank);
    Some(Hop {
        rank: rank.rank,
        host: rank.identity.host.to_string(),
        gpu: text(&rank.facts.gpu),
        transport: text(&place.transport),
        nic: text(&place.nic),
        recv_nic: next.and_then(|next| text(&next.recv_nic)),
        gpu_direct: place.transport.starts_with("NET").then_some(place.gpu_direct),
        proxy_rank: place.proxy_rank,
        odd: Vec::new(),
        next: place.next,
        sent_bytes: rank.is_measured(true).then_some(0),
    })
}
