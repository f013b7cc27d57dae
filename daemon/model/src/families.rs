//! Communicators that have the same hash and as many ranks, told apart by the order in which they were made.
//!
//! The library's hash is not unique: up to NCCL 2.23 two splits of one parent with one color have the same one, and
//! both can be in use. A rank that is claimed twice therefore means two communicators. Which claim belongs to which
//! depends on nothing but the claims themselves, so the order in which batches come does not matter: of the claims to a
//! rank the oldest belongs to the first communicator, the next to the second.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ringscope_api::clock::Timestamp;

use super::changes::Changes;
use super::communicator::{Communicator, Member};
use super::family::{Claimed, FamilyKey};
use super::limits::{MAX_CLAIMS, MAX_COMMUNICATORS};
use super::names::Name;
use super::process::Process;
use super::{CommunicatorId, Model};

/// The communicators of one key.
#[derive(Debug, Default)]
pub(super) struct Family {
    /// Place of the first one that is remembered, among all that there were.
    first: u32,
    /// Claims to each rank, the oldest first. Of those that are forgotten the place stays, so that no other moves.
    claims: BTreeMap<u32, Vec<Claim>>,
}

#[derive(Debug)]
struct Claim {
    order: Order,
    member: Member,
}

/// When a rank's part of a communicator was made; what follows only breaks ties.
type Order = (Timestamp, Timestamp, Name, u64);

impl Model {
    /// Gives the member the rank that it claims, and the others of that rank what is left to them.
    pub(super) fn join_one(&mut self, process: u64, local_id: u64, changes: &mut Changes) {
        let member = Member { process, local_id };
        let Some(claim) = self.claim(member) else { return };
        if claim.facts.comm_hash == 0 {
            return;
        }
        let (comm_hash, n_ranks) = (claim.facts.comm_hash, claim.facts.n_ranks);
        let key = FamilyKey { job: Arc::clone(&claim.identity.job), comm_hash, n_ranks };
        let claimed = Claimed { key, rank: claim.rank };
        let order = (claim.facts.created, claim.identity.started, Arc::clone(&claim.process.key), local_id);
        // Its hash or its rank was told wrong before.
        let before = self.local_mut(member).and_then(|local| local.claimed.clone());
        if let Some(before) = before.filter(|before| *before != claimed) {
            self.withdraw(member, &before, changes);
        }
        let family = self.families.entry(claimed.key.clone()).or_default();
        let claims = family.claims.entry(claimed.rank).or_default();
        claims.retain(|claim| claim.member != member);
        if claims.len() >= MAX_CLAIMS {
            self.losses.add("claim_limit");
            return;
        }
        let at = claims.partition_point(|claim| claim.order < order);
        claims.insert(at, Claim { order, member });
        if let Some(local) = self.local_mut(member) {
            local.claimed = Some(claimed.clone());
        }
        self.place(&claimed, changes);
        if let Some(comm) = self.local_mut(member).and_then(|local| local.joined) {
            self.revise(comm, changes);
        }
    }

    /// Takes the member out of where it claimed to be.
    fn withdraw(&mut self, member: Member, claimed: &Claimed, changes: &mut Changes) {
        if let Some(claims) =
            self.families.get_mut(&claimed.key).and_then(|family| family.claims.get_mut(&claimed.rank))
        {
            claims.retain(|claim| claim.member != member);
        }
        self.leave(member, claimed.rank, changes);
        self.place(claimed, changes);
    }

    /// Gives all who claim this rank the communicator that is theirs.
    fn place(&mut self, claimed: &Claimed, changes: &mut Changes) {
        let Some(family) = self.families.get(&claimed.key) else { return };
        let claims = family.claims.get(&claimed.rank).map(Vec::as_slice).unwrap_or_default();
        let mut sequence = family.first;
        let mut wanted: Vec<(Member, Option<CommunicatorId>, u32)> = Vec::with_capacity(claims.len());
        for claim in claims {
            if self.is_shadowed(claim.member, claims) {
                wanted.push((claim.member, None, 0));
                continue;
            }
            let FamilyKey { job, comm_hash, n_ranks } = &claimed.key;
            let id = self.older.id_of(job, *comm_hash, *n_ranks, sequence);
            wanted.push((claim.member, Some(id), sequence));
            sequence += 1;
        }
        wanted.retain(|(member, comm, _)| {
            self.processes
                .get(&member.process)
                .and_then(|process| process.locals.get(&member.local_id))
                .is_some_and(|local| local.joined != *comm)
        });
        for (member, ..) in &wanted {
            self.leave(*member, claimed.rank, changes);
        }
        for (member, comm, sequence) in wanted {
            if let Some(comm) = comm {
                self.enter(member, comm, sequence, claimed, changes);
            }
        }
    }

    /// A process of which only the log is known is the same as that of its segment, if both are.
    fn is_shadowed(&self, member: Member, claims: &[Claim]) -> bool {
        let of = |member: Member| self.processes.get(&member.process);
        let who = |process: &Process| {
            process.identity.as_ref().map(|identity| (Arc::clone(&identity.host), identity.pid))
        };
        let Some(process) = of(member).filter(|process| claims.len() > 1 && !process.collector.has_segment)
        else {
            return false;
        };
        claims
            .iter()
            .filter_map(|claim| of(claim.member))
            .any(|other| other.collector.has_segment && who(other) == who(process))
    }

    /// Takes the member out of its communicator, and forgets that if it was the last.
    fn leave(&mut self, member: Member, rank: u32, changes: &mut Changes) {
        let Some(comm) = self.local_mut(member).and_then(|local| local.joined.take()) else { return };
        let Some(known) = self.communicators.get_mut(&comm) else { return };
        if known.members.get(&rank) == Some(&member) {
            known.members.remove(&rank);
        }
        if known.members.is_empty() {
            let gone = self.communicators.remove(&comm);
            if let Some(job) = gone.and_then(|gone| self.jobs.get_mut(&gone.job)) {
                job.communicators.remove(&comm);
            }
            changes.communicators.insert(comm);
        } else {
            self.revise(comm, changes);
        }
    }

    fn enter(
        &mut self,
        member: Member,
        comm: CommunicatorId,
        sequence: u32,
        claimed: &Claimed,
        changes: &mut Changes,
    ) {
        let FamilyKey { job, comm_hash, n_ranks } = &claimed.key;
        if !self.communicators.contains_key(&comm) {
            if self.communicators.len() >= MAX_COMMUNICATORS {
                self.losses.add("communicator_limit");
                return;
            }
            self.jobs.entry(Arc::clone(job)).or_default().communicators.insert(comm);
            let communicator = Communicator {
                id: comm,
                job: Arc::clone(job),
                comm_hash: *comm_hash,
                n_ranks: *n_ranks,
                sequence,
                members: BTreeMap::new(),
                revision: 0,
            };
            self.communicators.insert(comm, communicator);
        }
        let Some(known) = self.communicators.get_mut(&comm) else { return };
        let is_same = known.job == *job && known.comm_hash == *comm_hash && known.n_ranks == *n_ranks;
        if !is_same || known.sequence != sequence {
            self.losses.add("communicator_id_collision");
            return;
        }
        known.members.insert(claimed.rank, member);
        if let Some(local) = self.local_mut(member) {
            local.joined = Some(comm);
        }
        self.revise(comm, changes);
    }

    /// Forgets families of which nobody is left, and the first places of the others where nobody is.
    pub(super) fn sweep_families(&mut self) {
        let processes = &self.processes;
        let lives = |claim: &Claim| {
            let member = claim.member;
            processes
                .get(&member.process)
                .is_some_and(|process| process.locals.contains_key(&member.local_id))
        };
        self.families.retain(|_, family| {
            if !family.claims.values().flatten().any(lives) {
                return false;
            }
            while family.claims.values().all(|claims| claims.first().is_none_or(|first| !lives(first))) {
                family.claims.retain(|_, claims| {
                    claims.drain(..claims.len().min(1));
                    !claims.is_empty()
                });
                family.first += 1;
            }
            true
        });
    }

    fn local_mut(&mut self, member: Member) -> Option<&mut super::Local> {
        self.processes.get_mut(&member.process)?.locals.get_mut(&member.local_id).map(|local| &mut **local)
    }
}

/// By key.
pub(super) type Families = HashMap<FamilyKey, Family>;
