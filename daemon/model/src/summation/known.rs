//! All groups, and what processes tell of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use ringscope_api::SummationRole as Role;
use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::SummationMember;

use super::super::agents::Stamp;
use super::super::limits::{
    LONG_WAIT, MAX_FLOWS, MAX_GROUP_MEMBERS, MAX_GROUPS, MAX_PROCESS_GROUPS, MAX_STAGES, MAX_STALENESS,
    MAX_TOLD_ROUNDS, MAX_WAITS,
};
use super::super::losses::Losses;
use super::super::older::OlderIds;
use super::super::process::ProcessId;
use super::GroupId;
use super::group::Group;
use super::member::{Member, Place, role};

/// See the module.
#[derive(Default)]
pub(in super::super) struct Groups {
    known: BTreeMap<GroupId, Group>,
    by_process: HashMap<ProcessId, BTreeSet<GroupId>>,
    /// Pairs of a worker and a service.
    n_flows: usize,
}

/// Who tells, and as of when.
#[derive(Clone, Copy)]
pub(in super::super) struct Told {
    pub(in super::super) process: ProcessId,
    pub(in super::super) stamp: Stamp,
    /// Time by our clock that the numbers are of.
    pub(in super::super) at: Timestamp,
    pub(in super::super) now: Timestamp,
    /// When the process was heard before. Absent: never, so since when it counts is not known.
    pub(in super::super) heard_before: Option<Timestamp>,
}

impl Groups {
    pub(in super::super) fn all(&self) -> impl Iterator<Item = &Group> {
        self.known.values()
    }

    pub(in super::super) fn get(&self, id: GroupId) -> Option<&Group> {
        self.known.get(&id)
    }

    /// The worst spread of each rank's results since the last call.
    pub(super) fn take_spreads(&mut self, id: GroupId) -> BTreeMap<u32, Duration> {
        self.known.get_mut(&id).map(|group| group.rounds.take_spreads()).unwrap_or_default()
    }

    /// The groups that a process was heard of in.
    pub(in super::super) fn of(&self, process: ProcessId) -> impl Iterator<Item = GroupId> {
        self.by_process.get(&process).into_iter().flatten().copied()
    }

    /// What a process said last of its groups, for the store.
    pub(in super::super) fn told_by(&self, process: ProcessId) -> Vec<SummationMember> {
        let groups = self.of(process).filter_map(|id| self.known.get(&id));
        let members =
            groups.flat_map(|group| group.members.values()).filter(|member| member.process == process);
        members.map(|member| member.told.clone()).collect()
    }

    /// Takes what a process says. Returns the groups of which anything changed, and whether that is alarming.
    pub(in super::super) fn hear(
        &mut self,
        all: &[SummationMember],
        of: Told,
        older: &OlderIds,
        losses: &mut Losses,
    ) -> BTreeMap<GroupId, bool> {
        losses.add_many("summation_process_limit", all.len().saturating_sub(MAX_PROCESS_GROUPS));
        let mut changed = BTreeMap::new();
        for told in all.iter().take(MAX_PROCESS_GROUPS) {
            match self.hear_one(told, of, older, losses) {
                Ok((id, is_alarming)) => *changed.entry(id).or_default() |= is_alarming,
                Err(reason) => losses.add(reason),
            }
        }
        changed
    }

    /// Lets go of a process in all its groups, and of the groups that are left without a member.
    pub(in super::super) fn forget_process(&mut self, process: ProcessId) -> BTreeSet<GroupId> {
        let ids = self.by_process.remove(&process).unwrap_or_default();
        for id in &ids {
            let Some(group) = self.known.get_mut(id) else { continue };
            let n_flows = &mut self.n_flows;
            group.members.retain(|place, member| {
                let stays = member.process != process;
                *n_flows -= if stays { 0 } else { flows(*place, &member.told) };
                stays
            });
            if group.members.is_empty() {
                self.known.remove(id);
            }
        }
        ids
    }

    pub(in super::super) fn forget(&mut self, id: GroupId) {
        let Some(group) = self.known.remove(&id) else { return };
        for (place, member) in &group.members {
            self.n_flows -= flows(*place, &member.told);
            if let Some(groups) = self.by_process.get_mut(&member.process) {
                groups.remove(&id);
            }
        }
        self.by_process.retain(|_, groups| !groups.is_empty());
    }

    fn hear_one(
        &mut self,
        told: &SummationMember,
        of: Told,
        older: &OlderIds,
        losses: &mut Losses,
    ) -> Result<(GroupId, bool), &'static str> {
        let place = place(told)?;
        let id = older.id_of_group(told.session, told.group);
        if !self.known.contains_key(&id) && self.known.len() >= MAX_GROUPS {
            return Err("summation_group_limit");
        }
        let kept = trimmed(told, losses);
        let before = self.known.get(&id).and_then(|group| group.members.get(&place));
        let is_new = before.is_none_or(|before| before.process != of.process);
        if before.is_some_and(|before| is_new && before.told.joined_at_ns >= told.joined_at_ns) {
            return Err("summation_member_twice");
        }
        let n_flows =
            self.n_flows - before.map_or(0, |before| flows(place, &before.told)) + flows(place, &kept);
        if n_flows > MAX_FLOWS {
            return Err("summation_flow_limit");
        }
        let group = self.known.entry(id).or_insert_with(|| Group::new(id, told.session));
        if is_new {
            group.members.insert(place, Member::new(of.process));
            self.by_process.entry(of.process).or_default().insert(id);
        }
        let mut is_alarming = false;
        if let Some(member) = group.members.get_mut(&place)
            && of.stamp.replaces(member.stamp)
            // Each time that more is declared the process begins anew, and tells of what was before as ended.
            && told.local_id >= member.told.local_id
        {
            is_alarming = alarms(&kept)
                || member.told.state != kept.state
                || difference(&member.told) != difference(&kept);
            let grew_from = of.heard_before.filter(|_| is_new);
            member.hear(kept, of.stamp, (of.at, of.now), grew_from);
            self.n_flows = n_flows;
        }
        is_alarming |= group.hear_rounds(place, told, losses);
        if group.marks.are_due(of.at) {
            let arrived = group.arrived();
            group.marks.note(of.at, arrived);
        }
        Ok((id, is_alarming))
    }
}

impl Group {
    /// Takes results, which a word of any age may tell. Returns whether members differ in some that were not known to.
    fn hear_rounds(&mut self, place: Place, told: &SummationMember, losses: &mut Losses) -> bool {
        losses.add_many("summation_round_limit", told.rounds.len().saturating_sub(MAX_TOLD_ROUNDS));
        let (rank, before) = (self.rank(place), self.rounds.n_mismatches());
        for round in told.rounds.iter().take(MAX_TOLD_ROUNDS) {
            // Several placements may have come and gone between two readings.
            let placement_epoch = round.placement_epoch.map_or(told.placement_epoch, u64::from);
            self.rounds.hear(placement_epoch, rank, round);
        }
        self.rounds.n_mismatches() > before
    }
}

/// Whether a member says that somebody was lost, or that a round waits for long.
fn alarms(told: &SummationMember) -> bool {
    told.lost_rank.is_some()
        || told.services.iter().any(|service| service.lost)
        || told.contributors.iter().any(|contributor| contributor.lost)
        || told.waits.iter().any(|wait| Duration::from_nanos(wait.age_ns) > LONG_WAIT)
}

/// When parameters were first seen to differ. `None`: they are the same, or nobody compares them.
fn difference(told: &SummationMember) -> Option<u64> {
    Some(told.comparison.as_ref()?.difference.as_ref()?.at_ns)
}

/// Whom a member says that it is.
fn place(told: &SummationMember) -> Result<Place, &'static str> {
    let role = role(told).ok_or("summation_unknown_role")?;
    if told.group == 0 {
        return Err("summation_unknown_group");
    }
    if told.n_workers > MAX_GROUP_MEMBERS || told.n_servers > MAX_GROUP_MEMBERS {
        return Err("summation_member_limit");
    }
    let n = if role == Role::Worker { told.n_workers } else { told.n_servers };
    if told.index < n { Ok((role, told.index)) } else { Err("summation_member_out_of_range") }
}

/// What is kept of a word: without results, and no list longer than it may be.
fn trimmed(told: &SummationMember, losses: &mut Losses) -> SummationMember {
    fn cut<T>(list: &mut Vec<T>, most: usize, reason: &'static str, losses: &mut Losses) {
        losses.add_many(reason, list.len().saturating_sub(most));
        list.truncate(most);
    }
    let mut kept = told.clone();
    kept.rounds = Vec::new();
    let (n_workers, n_servers) = (told.n_workers as usize, told.n_servers as usize);
    cut(&mut kept.services, n_workers + n_servers, "summation_service_limit", losses);
    cut(&mut kept.contributors, n_workers, "summation_contributor_limit", losses);
    cut(&mut kept.stages, MAX_STAGES, "summation_stage_limit", losses);
    cut(&mut kept.waits, MAX_WAITS, "summation_wait_limit", losses);
    cut(&mut kept.staleness, MAX_STALENESS, "summation_staleness_limit", losses);
    if let Some(difference) = kept.comparison.as_mut().and_then(|comparison| comparison.difference.as_mut()) {
        cut(&mut difference.hashes, n_workers, "summation_comparison_limit", losses);
    }
    for wait in &mut kept.waits {
        cut(&mut wait.workers, MAX_WAITS, "summation_wait_limit", losses);
    }
    for service in &mut kept.services {
        cut(&mut service.traffic, KEY_CLASSES, "summation_traffic_limit", losses);
    }
    kept
}

/// Pairs of a worker and a service that a member is.
fn flows((role, _): Place, told: &SummationMember) -> usize {
    if role == Role::Worker { told.services.len() } else { 0 }
}

/// Classes of keys that the batch format has.
const KEY_CLASSES: usize = 3;
