//! What the store keeps over time of groups.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::Model;
use super::{Group, GroupId, Member};

/// Of one service of a group: totals, and the worst since the last time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSample {
    /// Group.
    pub group: GroupId,
    /// Host of the service. Empty: not known.
    pub host: String,
    /// Number among the services.
    pub service: usize,
    /// Bytes that workers pushed to it.
    pub pushed_bytes: u64,
    /// Bytes that workers pulled from it.
    pub pulled_bytes: u64,
    /// Bytes of contributions that it added up. `None`: its process was not heard of.
    pub summed_bytes: Option<u64>,
    /// Rounds of parts that got a result. `None`: the same.
    pub finished_rounds: Option<u64>,
    /// Millionths of all bytes that it owns.
    pub share_ppm: u32,
    /// Millionths of all bytes that it should own.
    pub optimal_share_ppm: u32,
    /// The longest time from the first to the last contribution of a round, of those told since the last time. `None`:
    /// none was.
    pub spread: Option<Duration>,
}

impl Model {
    /// Samples of every service of these groups, in that order. The worst begins anew with each.
    pub fn take_summation_samples(&mut self, groups: &BTreeSet<GroupId>) -> Vec<ServiceSample> {
        let spreads: BTreeMap<GroupId, BTreeMap<u32, Duration>> =
            groups.iter().map(|id| (*id, self.groups.take_spreads(*id))).collect();
        let known = spreads.iter().filter_map(|(id, spreads)| Some((self.summation(*id)?, spreads)));
        known.flat_map(|(group, spreads)| self.samples_of_group(group, spreads)).collect()
    }

    fn samples_of_group<'a>(
        &'a self,
        group: &'a Group,
        spreads: &'a BTreeMap<u32, Duration>,
    ) -> impl Iterator<Item = ServiceSample> + 'a {
        group.services().map(|service| {
            let owner = service.owner.map(Member::told);
            ServiceSample {
                group: group.id(),
                host: service.host(self).to_owned(),
                service: service.index,
                pushed_bytes: service.traffic(|traffic| traffic.push_completed_bytes),
                pulled_bytes: service.traffic(|traffic| traffic.pull_completed_bytes),
                summed_bytes: owner.map(|told| told.summed_bytes),
                finished_rounds: owner.map(|told| told.finished_rounds),
                share_ppm: service.told.share_ppm,
                optimal_share_ppm: service.told.optimal_share_ppm,
                spread: spreads.get(&group.rank(service.place)).copied(),
            }
        })
    }
}
