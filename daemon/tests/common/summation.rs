//! Summation groups as agents tell of them: two workers and one server.

use ringscope_wire::batch::{
    Batch, FORMAT_VERSION, Identity, Process, ProcessState, SummationContributor, SummationKeyClass,
    SummationMember, SummationRole, SummationService, SummationStage, SummationState, SummationTraffic,
    SummationWait,
};

use super::batches::START_NS;

/// Job of the workers.
pub const JOB: &str = "summing";
/// Hosts of the service of the server, and of those in the workers.
pub const HOSTS: [&str; 3] = ["sum-a", "work-a", "work-b"];
const MIB: u64 = 1 << 20;
/// Bytes that each service owns: the second one more than the quarter that is best.
const OWNED: [u64; 3] = [48 * MIB, 32 * MIB, 16 * MIB];

/// What all three members say after so many rounds of all tensors; asynchronous ones have told of staleness.
pub fn batch(seq_number: u64, rounds: u64, now_ns: u64, asynchronous: bool) -> Batch {
    let member = |rank| process(rank, member(rank, rounds, asynchronous));
    Batch {
        format_version: FORMAT_VERSION,
        agent_id: "agent-summing".into(),
        seq_number,
        agent_host: HOSTS[0].into(),
        sent_at_ns: now_ns,
        processes: (0..3).map(member).collect(),
        ..Batch::default()
    }
}

/// Number of a rank's own service: servers come first there, and last among ranks.
fn own(rank: u32) -> usize {
    if rank == 2 { 0 } else { rank as usize + 1 }
}

fn process(rank: u32, told: SummationMember) -> Process {
    let host = HOSTS[own(rank)];
    Process {
        key: format!("{host}/{}/{START_NS}", 2000 + rank),
        identity: Some(Identity {
            host: host.into(),
            pid: 2000 + rank,
            start_time_ns: START_NS,
            job: if rank == 2 { format!("pid-2002@{host}") } else { JOB.into() },
            global_rank: (rank < 2).then_some(rank),
            ..Identity::default()
        }),
        state: ProcessState::Running.into(),
        has_segment: true,
        summations: vec![told],
        ..Process::default()
    }
}

fn member(rank: u32, rounds: u64, asynchronous: bool) -> SummationMember {
    let is_worker = rank < 2;
    let finished = rounds * OWNED[own(rank)] / MIB;
    SummationMember {
        local_id: 1,
        group: 77,
        session: 7,
        membership_epoch: 1,
        placement_epoch: 1,
        role: if is_worker { SummationRole::Worker } else { SummationRole::Server }.into(),
        index: if is_worker { rank } else { 0 },
        n_workers: 2,
        n_servers: 1,
        state: SummationState::Running.into(),
        joined_at_ns: START_NS,
        asynchronous,
        n_tensors: 4,
        n_parts: 96,
        model_bytes: 96 * MIB,
        partition_bytes: MIB,
        services: (0..3).map(|index| service(index, is_worker, rounds)).collect(),
        contributors: (0..2).map(|worker| contributor(worker, finished)).collect(),
        stages: if is_worker { stages(rounds) } else { Vec::new() },
        credits_used_bytes: if is_worker { 2 * MIB } else { 0 },
        credit_bytes: 4 * MIB,
        finished_rounds: finished,
        summed_bytes: 2 * finished * MIB,
        summing_ns: finished * 500_000,
        waits: if is_worker { Vec::new() } else { vec![wait(rounds)] },
        staleness: if asynchronous { vec![90, 9, 1] } else { Vec::new() },
        ..SummationMember::default()
    }
}

fn service(index: usize, is_worker: bool, rounds: u64) -> SummationService {
    let bytes = OWNED[index] * rounds;
    let traffic = SummationTraffic {
        key_class: SummationKeyClass::Gradient.into(),
        push_issued_bytes: bytes + MIB,
        push_completed_bytes: bytes,
        pull_issued_bytes: bytes,
        pull_completed_bytes: bytes,
        local_bytes: if index == 0 { 0 } else { bytes },
    };
    SummationService {
        rank: [2, 0, 1][index],
        host: HOSTS[index].into(),
        optimal_share_ppm: [500_000, 250_000, 250_000][index],
        share_ppm: [500_000, 333_333, 166_667][index],
        owned_bytes: OWNED[index],
        traffic: if is_worker { vec![traffic] } else { Vec::new() },
        ..SummationService::default()
    }
}

fn contributor(worker: u32, contributions: u64) -> SummationContributor {
    SummationContributor {
        worker,
        host: HOSTS[worker as usize + 1].into(),
        contributions,
        last_arrivals: contributions / 2,
        late_ns: contributions * 1_000_000,
        ..SummationContributor::default()
    }
}

fn stages(rounds: u64) -> Vec<SummationStage> {
    let stage = |name: &str| SummationStage {
        stage: name.into(),
        waiting_parts: 3,
        running_parts: 1,
        entered_parts: 96 * rounds,
        left_parts: 96 * rounds,
        waited_ns: 96 * rounds * 250_000,
        worked_ns: 96 * rounds * 100_000,
        longest_wait_ns: 1_000_000,
    };
    ["compress", "push", "sum", "pull", "decompress"].map(stage).into()
}

fn wait(round: u64) -> SummationWait {
    SummationWait {
        key: 5,
        round,
        tensor: "gradient.fc".into(),
        for_push: true,
        workers: vec![1],
        age_ns: 20_000_000,
    }
}
