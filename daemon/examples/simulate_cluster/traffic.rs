//! What the ranks have done since their job started: counters, bytes per link, operations. All a function of time.

use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::{Communicator, Counters, Link, Operation, OperationState, Primitive};

use crate::cluster::Fault;
use crate::communicators::{DATA, TENSOR, WORLD};

/// How a job has gone on until now.
#[derive(Clone, Copy)]
pub(crate) struct Progress {
    started: Timestamp,
    /// Seconds of work: less than have passed where a fault slows it.
    worked_s: f64,
    speed: f64,
}

/// What a communicator does over and over.
struct Habit {
    primitive: Primitive,
    calls_per_s: f64,
    size_bytes: u64,
}

impl Progress {
    pub(crate) fn new(started: Timestamp, now: Timestamp, fault: Option<Fault>) -> Self {
        let speed = match fault {
            None => 1.0,
            Some(Fault::NicDown) => 7.0 / 8.0,
            Some(Fault::Socket) => 0.3,
            Some(Fault::CrossRail) => 0.9,
        };
        let passed_s = now.since(started).as_secs_f64();
        // Steps are not all alike; never backwards.
        let wave = |period_s: f64, share: f64| share * period_s * (passed_s / period_s).sin();
        Self { started, worked_s: speed * (passed_s + wave(9.0, 0.1) + wave(41.0, 0.15)), speed }
    }

    fn calls(self, habit: &Habit) -> u64 {
        (self.worked_s * habit.calls_per_s) as u64
    }

    /// When a call of this number is handed to the library.
    fn issued_at_ns(self, habit: &Habit, number: u64, now: Timestamp) -> u64 {
        let behind_s = (self.worked_s - number as f64 / habit.calls_per_s) / self.speed;
        now.0.saturating_sub((behind_s.max(0.0) * 1e9) as u64).max(self.started.0)
    }
}

/// Counters of a communicator: of each habit one call is in flight while it is `running`.
pub(crate) fn counters(communicator: &Communicator, progress: Progress, running: bool) -> Vec<Counters> {
    let of_habit = |habit: &Habit| {
        let completed_calls = progress.calls(habit);
        let issued_calls = completed_calls + u64::from(running);
        Counters {
            local_id: communicator.local_id,
            primitive: habit.primitive.into(),
            issued_calls,
            issued_bytes: issued_calls * habit.size_bytes,
            completed_calls,
            completed_bytes: completed_calls * habit.size_bytes,
            busy_ns: (completed_calls as f64 / habit.calls_per_s / progress.speed * BUSY * 1e9) as u64,
            ..Counters::default()
        }
    };
    habits(communicator.local_id).iter().map(of_habit).collect()
}

/// What has gone over the network, to each peer that a ring leads to.
pub(crate) fn links(communicator: &Communicator, progress: Progress) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    let n_channels = communicator.rings.len().max(1) as u64;
    for ring in communicator.rings.iter().filter(|ring| ring.transport.starts_with("NET")) {
        for habit in habits(communicator.local_id) {
            let calls = progress.calls(habit);
            let sent_bytes = calls * wire_bytes(habit, communicator.n_ranks) / n_channels;
            let same =
                |link: &&mut Link| link.peer == ring.next && link.primitive == i32::from(habit.primitive);
            if let Some(link) = links.iter_mut().find(same) {
                link.sent_bytes += sent_bytes;
                link.sent_steps += calls;
                continue;
            }
            links.push(Link {
                local_id: communicator.local_id,
                primitive: habit.primitive.into(),
                peer: ring.next,
                sent_bytes,
                sent_steps: calls,
                sending_ns: 0,
            });
        }
    }
    links
}

/// The calls that are in the library now, and the last that have left it.
pub(crate) fn operations(
    communicator: &Communicator,
    progress: Progress,
    now: Timestamp,
) -> [Vec<Operation>; 2] {
    let number = |habit: &Habit| progress.calls(habit);
    let all = habits(communicator.local_id);
    let running =
        all.iter().map(|habit| operation(communicator, progress, habit, number(habit), now)).collect();
    let last =
        |habit: &Habit| Some(finished(communicator, progress, habit, number(habit).checked_sub(1)?, now));
    [running, all.first().and_then(last).into_iter().collect()]
}

/// The world's calls that were finished between two times.
pub(crate) fn history(
    communicator: &Communicator,
    before: Progress,
    progress: Progress,
    now: Timestamp,
) -> Vec<Operation> {
    let Some(habit) = habits(communicator.local_id).first().filter(|_| communicator.local_id == WORLD) else {
        return Vec::new();
    };
    let last = progress.calls(habit);
    let first = before.calls(habit).max(last.saturating_sub(HISTORY_MAX));
    (first..last).map(|number| finished(communicator, progress, habit, number, now)).collect()
}

fn finished(
    communicator: &Communicator,
    progress: Progress,
    habit: &Habit,
    number: u64,
    now: Timestamp,
) -> Operation {
    let issued = operation(communicator, progress, habit, number, now);
    let busy_ns = (BUSY / habit.calls_per_s / progress.speed * 1e9) as u64;
    Operation {
        state: OperationState::Completed.into(),
        completed_at_ns: Some(issued.issued_at_ns + busy_ns),
        channels_done: issued.channels_expected,
        ..issued
    }
}

fn operation(
    communicator: &Communicator,
    progress: Progress,
    habit: &Habit,
    number: u64,
    now: Timestamp,
) -> Operation {
    Operation {
        local_id: communicator.local_id,
        primitive: habit.primitive.into(),
        seq_number: number,
        bytes: habit.size_bytes,
        count: habit.size_bytes / 2,
        datatype: BFLOAT16,
        state: OperationState::Issued.into(),
        issued_at_ns: progress.issued_at_ns(habit, number, now),
        channels_expected: communicator.rings.len() as u32,
        ..Operation::default()
    }
}

/// Bytes that a rank of a ring sends for one call.
fn wire_bytes(habit: &Habit, n_ranks: u32) -> u64 {
    let n = u64::from(n_ranks);
    match habit.primitive {
        Primitive::AllReduce => 2 * (n - 1) * habit.size_bytes / n,
        _ => (n - 1) * habit.size_bytes,
    }
}

fn habits(local_id: u64) -> &'static [Habit] {
    match local_id {
        WORLD => &WORLD_HABITS,
        TENSOR => &TENSOR_HABITS,
        DATA => &DATA_HABITS,
        _ => &[],
    }
}

const WORLD_HABITS: [Habit; 1] =
    [Habit { primitive: Primitive::AllReduce, calls_per_s: 0.5, size_bytes: 256 << 20 }];
const TENSOR_HABITS: [Habit; 1] =
    [Habit { primitive: Primitive::AllReduce, calls_per_s: 160.0, size_bytes: 32 << 20 }];
/// Of the two, the bytes of one rank's share.
const DATA_HABITS: [Habit; 2] = [
    Habit { primitive: Primitive::ReduceScatter, calls_per_s: 6.0, size_bytes: 2 << 20 },
    Habit { primitive: Primitive::AllGather, calls_per_s: 6.0, size_bytes: 2 << 20 },
];
/// Share of its time that a call is in the library.
const BUSY: f64 = 0.4;
/// Operations of a communicator in one batch.
const HISTORY_MAX: u64 = 16;
/// `ncclBfloat16`.
const BFLOAT16: u32 = 9;
