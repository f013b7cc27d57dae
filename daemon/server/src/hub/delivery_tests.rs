//! However batches come, the model is the same in the end: requests and answers are lost, copies come late and again, and the
//! daemon starts anew in between.

use proptest::prelude::*;
use ringscope_api::clock::Timestamp;
use ringscope_samples::cluster::{Cluster, at, ended};
use ringscope_store::Restored;
use ringscope_view::CommunicatorFilter;
use ringscope_wire::Primitive;
use ringscope_wire::batch::{Batch, FORMAT_VERSION, Process, ProcessState};
use serde_json::{Value, json};
use std::time::Duration;

use super::Hub;

/// What becomes of the next batch of an agent.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Taken,
    /// The daemon never sees it, and the agent sends it again.
    RequestLost,
    /// The daemon takes it, and the agent sends it again.
    AnswerLost,
    /// A copy of it stays on its way.
    Copied,
    /// A copy that was on its way arrives, of whichever agent.
    CopyArrives(usize),
    /// The daemon starts again, with what it had stored: facts, and counters if there was time.
    Restart {
        with_counters: bool,
    },
}

/// An agent with two ranks, which sends one batch after the other, each until it is taken.
struct Agent {
    first: u32,
    /// Batches made.
    made: u64,
    sending: Option<Batch>,
    /// It is to tell everything anew.
    tells_all: bool,
    /// It shows that it lives, though it has no news.
    shows_life: bool,
}

/// Steps in which counters change; after the last one the ranks have ended.
const STEPS: u64 = 6;

fn cluster() -> Cluster {
    Cluster::new(&[("host-0", 2, 2), ("host-1", 2, 1), ("host-2", 2, 2)], 2)
}

fn agents() -> Vec<Agent> {
    (0..3)
        .map(|host| Agent { first: 2 * host, made: 0, sending: None, tells_all: true, shows_life: false })
        .collect()
}

impl Agent {
    /// What it says of a rank after so many batches.
    fn process(&self, cluster: &Cluster, rank: u32, step: u64) -> Process {
        let mut process = if self.tells_all { cluster.process(rank) } else { cluster.word(rank) };
        if self.tells_all || self.made <= STEPS {
            let calls = 10 * step + u64::from(rank);
            let completed = calls - u64::from(step < STEPS);
            process.counters = vec![cluster.counters(Primitive::AllReduce, calls, completed, 1 << 20)];
            process.links = vec![cluster.link(Primitive::AllReduce, (rank + 1) % 6, calls << 10)];
        }
        if step == STEPS { ended(process, ProcessState::Exited, 1 + STEPS) } else { process }
    }

    fn next(&mut self, cluster: &Cluster) -> Batch {
        if let Some(sending) = &self.sending {
            return sending.clone();
        }
        self.made += 1;
        let step = self.made.min(STEPS);
        let host = cluster.process(self.first).identity.map(|identity| identity.host).unwrap_or_default();
        let ranks = self.first..self.first + 2;
        let batch = Batch {
            format_version: FORMAT_VERSION,
            agent_id: format!("agent of {host}"),
            seq_number: self.made,
            agent_host: host,
            sent_at_ns: at(step).0,
            processes: ranks.map(|rank| self.process(cluster, rank, step)).collect(),
            ..Batch::default()
        };
        (self.tells_all, self.shows_life) = (false, false);
        self.sending = Some(batch.clone());
        batch
    }

    fn send(&mut self, cluster: &Cluster, hub: &Hub, now: Timestamp, is_answered: bool) -> Batch {
        let batch = self.next(cluster);
        let taken = hub.ingest(&batch, now);
        if is_answered {
            self.sending = None;
            self.tells_all = taken.reply.resend_all;
        }
        batch
    }

    fn is_done(&self) -> bool {
        self.made >= STEPS && self.sending.is_none() && !self.tells_all && !self.shows_life
    }
}

/// The same, of a daemon that starts with what this one would have stored.
fn restarted(hub: &Hub, cluster: &Cluster, now: Timestamp, with_counters: bool) -> Hub {
    let mut processes = stored(hub, cluster);
    processes.retain(|process| with_counters || process.identity.is_some());
    let next = Hub::new(Duration::from_secs(1));
    next.restore(Restored { processes, ..Restored::default() }, now);
    next
}

fn stored(hub: &Hub, cluster: &Cluster) -> Vec<Process> {
    hub.read(|model, _| {
        let keys = (0..cluster.n_ranks()).map(|rank| cluster.key(rank));
        keys.flat_map(|key| [model.process_facts(&key), model.process_counters(&key)]).flatten().collect()
    })
}

/// All that is to be the same.
fn outcome(hub: &Hub, cluster: &Cluster, now: Timestamp) -> (Vec<Process>, Value) {
    let shown = hub.read(|model, diagnosis| {
        let communicators =
            ringscope_view::communicators(model, diagnosis, now, &CommunicatorFilter::default());
        let of = |id: &str| {
            json!([
                ringscope_view::rings(model, diagnosis, now, id),
                ringscope_view::primitives(model, diagnosis, now, id),
            ])
        };
        let totals: Vec<_> = ringscope_view::jobs(model, diagnosis, now)
            .iter()
            .map(|job| json!([job.id, job.state, job.issued_bytes, job.completed_bytes, job.n_processes]))
            .collect();
        json!([
            communicators
                .iter()
                .map(|known| json!([known.id, known.state, of(&known.id)]))
                .collect::<Vec<_>>(),
            totals
        ])
    });
    (stored(hub, cluster), shown)
}

fn any_fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        4 => Just(Fate::Taken),
        2 => Just(Fate::RequestLost),
        2 => Just(Fate::AnswerLost),
        2 => Just(Fate::Copied),
        2 => any::<usize>().prop_map(Fate::CopyArrives),
        1 => any::<bool>().prop_map(|with_counters| Fate::Restart { with_counters }),
    ]
}

proptest! {
    #[test]
    fn any_order_repetition_loss_and_delay_gives_the_same_model(
        fates in proptest::collection::vec((0..3_usize, any_fate()), 0..60),
    ) {
        let cluster = cluster();
        let end = at(STEPS + 2);
        let straight = Hub::new(Duration::from_secs(1));
        for mut agent in agents() {
            while !agent.is_done() {
                agent.send(&cluster, &straight, end, true);
            }
        }
        let mut hub = Hub::new(Duration::from_secs(1));
        let (mut agents, mut copies) = (agents(), Vec::new());
        for (which, fate) in fates {
            let agent = &mut agents[which];
            match fate {
                Fate::CopyArrives(_) if copies.is_empty() => {}
                Fate::CopyArrives(of) => drop(hub.ingest(&copies[of % copies.len()], end)),
                Fate::Restart { with_counters } => {
                    hub = restarted(&hub, &cluster, end, with_counters);
                    agents.iter_mut().for_each(|agent| agent.shows_life = true);
                }
                // One that has told everything tells no more.
                _ if agent.is_done() => {}
                Fate::Taken => drop(agent.send(&cluster, &hub, end, true)),
                Fate::RequestLost => drop(agent.next(&cluster)),
                Fate::AnswerLost => drop(agent.send(&cluster, &hub, end, false)),
                Fate::Copied => copies.push(agent.send(&cluster, &hub, end, true)),
            }
        }
        while let Some(agent) = agents.iter_mut().find(|agent| !agent.is_done()) {
            agent.send(&cluster, &hub, end, true);
        }
        // And all that was still on its way.
        copies.iter().for_each(|copy| drop(hub.ingest(copy, end)));
        prop_assert_eq!(outcome(&hub, &cluster, end), outcome(&straight, &cluster, end));
    }
}
