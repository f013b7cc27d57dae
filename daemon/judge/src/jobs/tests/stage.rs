//! A job of a few ranks, told by one agent a host as agents tell it, and judged once a second.

use std::collections::BTreeMap;
use std::ops::Range;

use ringscope_api::Fnv;
use ringscope_api::clock::Timestamp;
use ringscope_api::{Finding, FindingKind, FindingState, Incident, Severity};
use ringscope_model::Model;
use ringscope_samples::cluster::{Cluster, at};
use ringscope_wire::batch::{
    self, Activity, Batch, CallSequence, CommunicatorState, FORMAT_VERSION, OpenCall, Operation,
    OperationState, PairCalls, Process, ProcessState,
};

use crate::Diagnosis;

/// What one rank called: primitive, elements.
pub(super) type Call = (batch::Primitive, u64);

/// A call that all ranks make alike.
pub(super) const SUM: Call = (batch::Primitive::AllReduce, 1_024);

/// One rank's part of one communicator.
#[derive(Clone, Default)]
pub(super) struct Part {
    /// Calls so far, and when each was made.
    pub(super) calls: Vec<(Call, Timestamp)>,
    pub(super) completed: usize,
    /// Calls with these numbers were made in one group.
    pub(super) group: Range<usize>,
    /// Sends and receives that are open: primitive, peer, since when.
    pub(super) open_pairs: Vec<(batch::Primitive, u32, Timestamp)>,
    /// Sends and receives so far, by primitive and peer.
    pub(super) pairs: Vec<(batch::Primitive, u32, u64)>,
    pub(super) state: Option<CommunicatorState>,
}

/// One process.
#[derive(Clone)]
pub(super) struct Rank {
    pub(super) parts: BTreeMap<u64, Part>,
    pub(super) activity: &'static str,
    pub(super) open: Vec<(&'static str, Option<u64>, Timestamp)>,
    pub(super) ended: Option<(ProcessState, Timestamp)>,
    pub(super) returned: Timestamp,
    /// It has told who it is.
    told: bool,
    cpu_ns: u64,
}

/// The job, and those who watch it.
pub(super) struct Stage {
    pub(super) model: Model,
    pub(super) diagnosis: Diagnosis,
    /// Its communicators, each with all its processes as ranks in the order given.
    pub(super) clusters: Vec<(Cluster, Vec<u32>)>,
    pub(super) ranks: Vec<Rank>,
    pub(super) now: Timestamp,
    /// How often agents read.
    pub(super) read_every_ms: u64,
    /// Hosts whose agents are silent.
    pub(super) silent: Vec<String>,
    /// Hosts whose clocks are ahead of ours, and by how many seconds.
    pub(super) ahead_s: BTreeMap<String, i64>,
    /// Its launcher tells no ranks.
    pub(super) unnumbered: bool,
    seq: BTreeMap<String, u64>,
    /// As who agents speak: another one after a restart.
    pub(super) agents: &'static str,
}

impl Stage {
    /// `hosts` of `per_host` ranks each in one communicator.
    pub(super) fn new(hosts: u32, per_host: u32) -> Self {
        let names: Vec<String> = (0..hosts).map(|host| format!("host-{host}")).collect();
        let spec: Vec<(&str, u32, u32)> = names.iter().map(|name| (name.as_str(), per_host, 2)).collect();
        let world = Cluster::new(&spec, 2);
        let n = world.n_ranks();
        let mut stage = Self {
            model: Model::new(),
            diagnosis: Diagnosis::new(),
            clusters: Vec::new(),
            ranks: Vec::new(),
            now: at(100),
            read_every_ms: 250,
            silent: Vec::new(),
            ahead_s: BTreeMap::new(),
            unnumbered: false,
            seq: BTreeMap::new(),
            agents: "agent",
        };
        for _ in 0..n {
            stage.ranks.push(Rank {
                parts: BTreeMap::new(),
                activity: "S",
                open: Vec::new(),
                ended: None,
                returned: at(100),
                told: false,
                cpu_ns: 0,
            });
        }
        stage.with(&world, (0..n).collect());
        stage
    }

    /// Another communicator of these processes.
    pub(super) fn with(&mut self, cluster: &Cluster, processes: Vec<u32>) {
        for process in &processes {
            self.ranks[*process as usize].parts.insert(cluster.local_id, Part::default());
            self.ranks[*process as usize].told = false;
        }
        self.clusters.push((cluster.clone(), processes));
    }

    /// Communicators of pairs of processes.
    pub(super) fn pair(&mut self, local_id: u64, processes: [u32; 2]) {
        let (world, _) = &self.clusters[0];
        let mut cluster = world.again(0x1000 + local_id, local_id, 2);
        cluster.ranks = processes.iter().map(|process| world.ranks[*process as usize].clone()).collect();
        self.with(&cluster, processes.to_vec());
    }

    pub(super) fn world(&self) -> u64 {
        self.clusters[0].0.local_id
    }

    pub(super) fn part(&mut self, rank: usize, local_id: u64) -> &mut Part {
        self.ranks[rank].parts.get_mut(&local_id).unwrap()
    }

    /// These ranks call.
    pub(super) fn call(&mut self, ranks: impl IntoIterator<Item = usize>, local_id: u64, call: Call) {
        let now = self.now;
        for rank in ranks {
            self.part(rank, local_id).calls.push((call, now));
            self.ranks[rank].returned = now;
        }
    }

    /// What all members have called, and may have ended, has ended.
    pub(super) fn complete(&mut self, local_id: u64) {
        let members =
            self.clusters.iter().find(|(cluster, _)| cluster.local_id == local_id).unwrap().1.clone();
        let least = members.iter().map(|rank| self.ranks[*rank as usize].parts[&local_id].calls.len()).min();
        for rank in members {
            let part = self.part(rank as usize, local_id);
            part.completed = part.completed.max(least.unwrap());
        }
    }

    /// All ranks make some calls of the world, a quarter of a second each.
    pub(super) fn train(&mut self, calls: usize) {
        for _ in 0..calls {
            let all: Vec<usize> =
                (0..self.ranks.len()).filter(|rank| self.ranks[*rank].ended.is_none()).collect();
            self.call(all, self.world(), SUM);
            self.step(125);
            self.complete(self.world());
            self.step(125);
        }
    }

    /// Time passes, agents read, and the daemon looks once a second.
    pub(super) fn step(&mut self, ms: u64) -> Vec<Finding> {
        let mut news = Vec::new();
        let mut left = ms;
        while left > 0 {
            let step = left.min(self.read_every_ms);
            let before = self.now;
            self.now = Timestamp(before.0 + step * 1_000_000);
            left -= step;
            news.extend(self.read());
            if before.0 / 1_000_000_000 != self.now.0 / 1_000_000_000 {
                self.model.tick(self.now);
                news.extend(self.diagnosis.update(&self.model, None, self.now));
            }
        }
        news
    }

    /// Every agent that is not silent reads and tells.
    fn read(&mut self) -> Vec<Finding> {
        let mut news = Vec::new();
        let mut by_host: BTreeMap<String, Vec<Process>> = BTreeMap::new();
        for rank in 0..self.ranks.len() {
            let host = self.clusters[0].0.ranks[rank].host.clone();
            if self.silent.contains(&host) {
                continue;
            }
            let mut told = self.process(rank);
            shift(&mut told, self.ahead_ns(&host));
            by_host.entry(host).or_default().push(told);
            self.ranks[rank].told = true;
        }
        for (host, processes) in by_host {
            let sent_at_ns = self.now.0.saturating_add_signed(self.ahead_ns(&host));
            let seq_number = self.seq.entry(format!("{}-{host}", self.agents)).or_default();
            *seq_number += 1;
            let batch = Batch {
                format_version: FORMAT_VERSION,
                agent_id: format!("{}-{host}", self.agents),
                seq_number: *seq_number,
                agent_host: host,
                sent_at_ns,
                posted_at_ns: sent_at_ns,
                processes,
                ..Batch::default()
            };
            let changes = self.model.apply(&batch, self.now);
            if !changes.facts.is_empty() {
                news.extend(self.diagnosis.update(&self.model, Some(&changes.communicators), self.now));
            }
            news.extend(self.diagnosis.update_jobs(&self.model, Some(&changes.alarmed), self.now));
        }
        news
    }

    fn ahead_ns(&self, host: &str) -> i64 {
        self.ahead_s.get(host).copied().unwrap_or_default() * 1_000_000_000
    }

    fn process(&mut self, rank: usize) -> Process {
        let now = self.now;
        let it = &mut self.ranks[rank];
        if it.activity != "T" && it.ended.is_none() {
            it.cpu_ns += 20_000_000;
        }
        let it = &self.ranks[rank];
        let mut process = Process { key: self.clusters[0].0.key(index(rank)), ..Process::default() };
        for (cluster, members) in &self.clusters {
            // Most often all of them are in it.
            let is_at = |place: &usize| members.get(*place).is_some_and(|member| *member as usize == rank);
            let place = Some(rank).filter(is_at).or_else(|| (0..members.len()).find(is_at));
            let Some(own) = place else { continue };
            let part = &it.parts[&cluster.local_id];
            if !it.told || part.state.is_some() {
                process.identity = self.clusters[0].0.process(index(rank)).identity;
                if let Some(identity) = process.identity.as_mut().filter(|_| self.unnumbered) {
                    (identity.global_rank, identity.world_size) = (None, None);
                }
                let mut communicator = cluster.process(index(own)).communicators[0].clone();
                communicator.state = part.state.unwrap_or(CommunicatorState::Active).into();
                process.communicators.push(communicator);
            }
            tell_part(&mut process, cluster, part);
        }
        process.in_flight.sort_by_key(|operation| operation.issued_at_ns);
        process.open_calls = it
            .open
            .iter()
            .map(|(function, local_id, since)| OpenCall {
                thread: 1,
                function: (*function).to_owned(),
                local_id: *local_id,
                entered_at_ns: since.0,
            })
            .collect();
        process.activity =
            Some(Activity { state: it.activity.to_owned(), cpu_ns: it.cpu_ns, read_at_ns: now.0 });
        process.last_returned_at_ns = Some(it.returned.0);
        process.state = it.ended.map_or(ProcessState::Running, |(state, _)| state).into();
        process.ended_at_ns = it.ended.map(|(_, at)| at.0);
        process.collector_state = batch::CollectorState::On.into();
        process.level = batch::Level::Counters.into();
        process.profiler_version = 5;
        process.calls_seen = true;
        process.has_segment = true;
        process.segment_version = 5;
        process
    }

    /// The firing findings about who waits for whom, as kind, severity and rank.
    pub(super) fn firing(&self) -> Vec<(FindingKind, Severity, Option<u32>)> {
        let mut firing: Vec<_> =
            self.hangs().iter().map(|finding| (finding.finding, finding.severity, finding.rank)).collect();
        firing.sort_unstable_by_key(|(kind, _, rank)| (*kind, *rank));
        firing
    }

    pub(super) fn hangs(&self) -> Vec<&Finding> {
        let all = self.diagnosis.firing();
        all.filter(|finding| crate::scope::is_of_job(finding.finding)).collect()
    }

    /// The finding of this kind that fires.
    #[track_caller]
    pub(super) fn one(&self, kind: FindingKind) -> &Finding {
        let mut of_kind = self.hangs().into_iter().filter(|finding| finding.finding == kind);
        let found = of_kind.next();
        let (Some(found), None) = (found, of_kind.next()) else { panic!("{:#?}", self.hangs()) };
        assert_eq!(found.state, FindingState::Firing);
        found
    }

    /// The only incident about a rank that is missing, as it is after the last look.
    #[track_caller]
    pub(super) fn incident(&mut self) -> Incident {
        self.diagnosis.gather(&self.model, true, self.now);
        let all = self.diagnosis.incidents().all();
        let all: Vec<&Incident> = all.filter(|one| one.finding == FindingKind::RankMissing).collect();
        let [one] = all.as_slice() else { panic!("{all:#?}") };
        (*one).clone()
    }

    /// Its agent tells everything of a process once more.
    pub(super) fn forget_told(&mut self, rank: usize) {
        self.ranks[rank].told = false;
    }

    /// What the store would give back to another daemon, that starts now.
    pub(super) fn restart(&mut self) {
        let keys: Vec<String> =
            (0..self.ranks.len()).map(|rank| self.clusters[0].0.key(index(rank))).collect();
        let kept =
            keys.iter().flat_map(|key| [self.model.process_facts(key), self.model.process_counters(key)]);
        let kept: Vec<Process> = kept.flatten().collect();
        let findings = self.diagnosis.findings().cloned().collect();
        self.model = Model::new();
        self.diagnosis = Diagnosis::new();
        self.model.restore(kept, self.now);
        self.diagnosis.restore(findings);
        self.diagnosis.hold_jobs(self.now);
        self.diagnosis.update(&self.model, None, self.now);
    }
}

/// Tells the same by a clock that is ahead.
fn shift(process: &mut Process, by_ns: i64) {
    let shift = |at: &mut u64| *at = at.saturating_add_signed(by_ns);
    process.identity.iter_mut().for_each(|identity| shift(&mut identity.start_time_ns));
    process.communicators.iter_mut().for_each(|told| shift(&mut told.created_at_ns));
    let completed = process.last_completed.iter_mut().chain(&mut process.completed_operations);
    for operation in process.in_flight.iter_mut().chain(completed) {
        shift(&mut operation.issued_at_ns);
        operation.started_at_ns.iter_mut().for_each(shift);
        operation.completed_at_ns.iter_mut().for_each(shift);
    }
    process.open_calls.iter_mut().for_each(|call| shift(&mut call.entered_at_ns));
    process.activity.iter_mut().for_each(|activity| shift(&mut activity.read_at_ns));
    process.last_returned_at_ns.iter_mut().for_each(shift);
    process.ended_at_ns.iter_mut().for_each(shift);
}

fn tell_part(process: &mut Process, cluster: &Cluster, part: &Part) {
    let operation = |(number, (call, at)): (usize, &(Call, Timestamp)), completed| Operation {
        primitive: call.0.into(),
        count: call.1,
        bytes: call.1 * 4,
        issued_at_ns: at.0,
        call_number: Some(number as u64),
        op: Some(0),
        group: u32::from(part.group.contains(&number)),
        start_known: true,
        started_at_ns: Some(at.0 + 1_000),
        completed_at_ns: completed,
        state: if completed.is_some() { OperationState::Completed } else { OperationState::Issued }.into(),
        ..cluster.operation(number as u64, 1, None)
    };
    let calls = || part.calls.iter().enumerate();
    process.in_flight.extend(calls().skip(part.completed).map(|call| operation(call, None)));
    let last = calls().take(part.completed).next_back();
    let ended = |call: (usize, &(Call, Timestamp))| operation(call, Some(call.1.1.0 + 1_000_000));
    process.last_completed.extend(last.map(ended));
    process.completed_operations.extend(calls().take(part.completed).map(ended));
    let hash = part.calls.iter().fold(0_u64, |hash, ((primitive, count), _)| {
        hash.wrapping_add(Fnv::new().number(*primitive as u64).number(*count).finish())
    });
    let sequence = CallSequence {
        local_id: cluster.local_id,
        calls: part.calls.len() as u64,
        hash,
        marks: vec![],
        sampled_log2: 0,
    };
    process.sequences.push(sequence);
    process.in_flight.extend(part.open_pairs.iter().map(|(primitive, peer, at)| Operation {
        primitive: (*primitive).into(),
        peer: Some(*peer),
        issued_at_ns: at.0,
        start_known: true,
        ..cluster.operation(0, 1, None)
    }));
    process.pairs.extend(part.pairs.iter().map(|(primitive, peer, calls)| PairCalls {
        local_id: cluster.local_id,
        primitive: (*primitive).into(),
        peer: *peer,
        calls: *calls,
        bytes: calls * 1_024,
        hash: *calls,
    }));
}

fn index(rank: usize) -> u32 {
    u32::try_from(rank).unwrap()
}
