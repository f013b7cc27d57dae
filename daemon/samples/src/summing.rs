//! Summation groups for tests.

use ringscope_api::SummationRole as Role;
use ringscope_wire::batch::{
    Batch, Identity, Process, ProcessState, SummationContributor, SummationKeyClass, SummationMember,
    SummationRole, SummationRound, SummationService, SummationStage, SummationState, SummationTraffic,
    SummationWait,
};

use ringscope_api::GroupId;

use crate::cluster::{at, batch};

/// Role and number.
type Place = (Role, u32);

/// Bytes of a part; there are 100 of them.
pub const PART_BYTES: u64 = 1 << 20;

/// A group with one process for each member.
#[derive(Clone)]
pub struct Summing {
    pub session: u64,
    pub epoch: u64,
    pub n_workers: u32,
    pub n_servers: u32,
    /// Parts that each service owns, of 100.
    pub owned: Vec<u32>,
    /// Parts that each should own.
    pub optimal: Vec<u32>,
    /// Of 10 rounds those in which each worker comes last, and how much after the first each comes, in milliseconds.
    pub last: Vec<(u64, u64)>,
    pub state: SummationState,
    /// Second at which its processes began.
    pub started: u64,
}

impl Default for Summing {
    fn default() -> Self {
        Self::new()
    }
}

impl Summing {
    /// Four workers and two servers as they should be, of which none is late.
    pub fn new() -> Self {
        let shares = vec![30, 30, 10, 10, 10, 10];
        Self {
            session: 7,
            epoch: 1,
            n_workers: 4,
            n_servers: 2,
            owned: shares.clone(),
            optimal: shares,
            last: vec![(3, 2), (2, 1), (2, 2), (3, 2)],
            state: SummationState::Running,
            started: 0,
        }
    }

    pub fn id(&self) -> GroupId {
        GroupId::new(self.session, self.group())
    }

    fn group(&self) -> u64 {
        self.session * 100 + self.epoch
    }

    pub fn places(&self) -> Vec<Place> {
        let workers = (0..self.n_workers).map(|index| (Role::Worker, index));
        workers.chain((0..self.n_servers).map(|index| (Role::Server, index))).collect()
    }

    pub fn host(&self, (role, index): Place) -> String {
        match role {
            Role::Worker => format!("train-{index}"),
            Role::Server => format!("sum-{index}"),
        }
    }

    pub fn key(&self, place: Place) -> String {
        format!("{}/{}/{}", self.host(place), self.pid(place), 1 + self.started)
    }

    fn pid(&self, place: Place) -> u32 {
        100 + place.1 + u32::try_from(self.started).unwrap()
    }

    /// What a member says after so many rounds of all tensors.
    pub fn member(&self, place: Place, rounds: u64) -> SummationMember {
        let (role, index) = place;
        let is_worker = role == Role::Worker;
        let own = if is_worker { self.n_servers + index } else { index };
        let own_parts = u64::from(self.owned[own as usize]);
        SummationMember {
            local_id: self.epoch,
            group: self.group(),
            session: self.session,
            membership_epoch: self.epoch,
            placement_epoch: self.epoch,
            role: if is_worker { SummationRole::Worker } else { SummationRole::Server }.into(),
            index,
            n_workers: self.n_workers,
            n_servers: self.n_servers,
            state: self.state.into(),
            joined_at_ns: at(1 + self.started).0 + u64::from(index),
            n_tensors: 10,
            n_parts: 100,
            model_bytes: 100 * PART_BYTES,
            partition_bytes: PART_BYTES,
            services: (0..self.owned.len()).map(|service| self.service(service, is_worker, rounds)).collect(),
            contributors: (0..self.n_workers)
                .map(|worker| self.contributor(worker, own_parts * rounds))
                .collect(),
            stages: if is_worker { stages(rounds) } else { Vec::new() },
            credits_used_bytes: PART_BYTES,
            credit_bytes: 4 * PART_BYTES,
            finished_rounds: own_parts * rounds,
            summed_bytes: own_parts * rounds * u64::from(self.n_workers) * PART_BYTES,
            summing_ns: own_parts * rounds * u64::from(self.n_workers) * 100_000,
            ..SummationMember::default()
        }
    }

    fn service(&self, service: usize, is_worker: bool, rounds: u64) -> SummationService {
        let n_servers = self.n_servers as usize;
        let place = match service.checked_sub(n_servers) {
            Some(worker) => (Role::Worker, u32::try_from(worker).unwrap()),
            None => (Role::Server, u32::try_from(service).unwrap()),
        };
        let owned_bytes = u64::from(self.owned[service]) * PART_BYTES;
        let traffic = SummationTraffic {
            key_class: SummationKeyClass::Gradient.into(),
            push_issued_bytes: owned_bytes * rounds + PART_BYTES,
            push_completed_bytes: owned_bytes * rounds,
            pull_issued_bytes: owned_bytes * rounds,
            pull_completed_bytes: owned_bytes * rounds,
            local_bytes: 0,
        };
        SummationService {
            rank: if place.0 == Role::Worker { place.1 } else { self.n_workers + place.1 },
            host: self.host(place),
            optimal_share_ppm: self.optimal[service] * 10_000,
            share_ppm: self.owned[service] * 10_000,
            owned_bytes,
            predicted_sent_bytes: owned_bytes * u64::from(self.n_workers),
            predicted_received_bytes: owned_bytes * u64::from(self.n_workers),
            traffic: if is_worker { vec![traffic] } else { Vec::new() },
            lost: false,
        }
    }

    fn contributor(&self, worker: u32, contributions: u64) -> SummationContributor {
        let (last, late_ms) = self.last[worker as usize];
        SummationContributor {
            worker,
            host: self.host((Role::Worker, worker)),
            contributions,
            bytes: contributions * PART_BYTES,
            last_arrivals: contributions * last / 10,
            late_ns: contributions * late_ms * 1_000_000,
            ..SummationContributor::default()
        }
    }

    /// The process of a member, as its agent tells of it.
    pub fn process(&self, place: Place, told: SummationMember) -> Process {
        let (role, index) = place;
        let identity = Identity {
            host: self.host(place),
            pid: self.pid(place),
            start_time_ns: at(self.started).0,
            job: "train".to_owned(),
            global_rank: (role == Role::Worker).then_some(10 + index),
            ..Identity::default()
        };
        Process {
            key: self.key(place),
            identity: Some(identity),
            state: ProcessState::Running.into(),
            has_segment: true,
            summations: vec![told],
            ..Process::default()
        }
    }

    /// What all members say at `s` seconds, after `rounds` rounds; as `change` makes it.
    pub fn batch(&self, s: u64, rounds: u64, change: impl Fn(Place, &mut SummationMember)) -> Batch {
        let processes = self.places().into_iter().map(|place| {
            let mut told = self.member(place, rounds);
            change(place, &mut told);
            self.process(place, told)
        });
        batch(s + 1, s, processes.collect())
    }
}

fn stages(rounds: u64) -> Vec<SummationStage> {
    let stage = |name: &str| SummationStage {
        stage: name.to_owned(),
        entered_parts: 100 * rounds,
        left_parts: 100 * rounds,
        waited_ns: 100 * rounds * 1_000,
        worked_ns: 100 * rounds * 2_000,
        longest_wait_ns: 5_000,
        ..SummationStage::default()
    };
    ["compress", "push", "sum", "pull", "decompress"].map(stage).into()
}

/// A result that a member's service made, or that it pulled.
pub fn round(key: u32, round: u64, fingerprint: u64, made: bool) -> SummationRound {
    SummationRound {
        key,
        round,
        fingerprint,
        made,
        contributors: 4,
        last_arriver: 1,
        spread_ns: 2_000_000,
        took_ns: 10_000_000,
        at_ns: at(2).0 + round,
        placement_epoch: None,
    }
}

/// A round that waits for contributions of these workers.
pub fn wait(round: u64, workers: &[u32], age_ms: u64) -> SummationWait {
    SummationWait {
        key: 3,
        round,
        tensor: "gradient.fc".to_owned(),
        for_push: true,
        workers: workers.to_vec(),
        age_ns: age_ms * 1_000_000,
    }
}
