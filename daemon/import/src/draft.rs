//! Facts of several files about the same processes, put together as `batch.proto` has them.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_api::Digest;
use ringscope_api::clock::Timestamp;
use ringscope_judge::version::Version;
use ringscope_wire::batch::{
    self, Batch, CallSequence, Communicator, CommunicatorState, Counters, Evidence, FORMAT_VERSION, Identity,
    Operation, PairCalls, Process, ProcessState,
};

/// Which process: its host, and what tells it from others there (its pid, or its rank where no pid is known).
pub(super) type Place = (String, String);

/// Who has which rank of which communicator (hash, ranks, rank).
pub(super) type Homes = BTreeMap<(u64, u32, u32), Place>;

/// The processes of an import.
#[derive(Default)]
pub(super) struct Draft {
    /// When it is read: what has no other time gets this one.
    now: Timestamp,
    processes: BTreeMap<Place, Drafted>,
    homes: Homes,
    /// Hashes of communicators that no file names.
    made_up: BTreeSet<u64>,
}

/// One process.
#[derive(Default)]
struct Drafted {
    pid: u32,
    global_rank: Option<u32>,
    since: Timestamp,
    communicators: Vec<Communicator>,
    counters: BTreeMap<(u64, i32), Counters>,
    in_flight: Vec<Operation>,
    last_completed: BTreeMap<u64, Operation>,
    recalled: Vec<Operation>,
    sequences: BTreeMap<u64, CallSequence>,
    pairs: Vec<PairCalls>,
    told_until: Option<Timestamp>,
    told_by_peers: String,
    lacks: Vec<String>,
    dropped: BTreeMap<&'static str, u64>,
    library_version: u32,
}

/// Who says something of a rank.
pub(super) struct Claim<'a> {
    pub(super) host: &'a str,
    /// Absent: not known.
    pub(super) pid: Option<u32>,
    pub(super) comm_hash: u64,
    pub(super) rank: u32,
    pub(super) n_ranks: u32,
    /// When the file was written, or the first record in it. 0: not known.
    pub(super) at: Timestamp,
    /// Whether who has the same rank of the same communicator is the same process, whatever its host is called: RAS
    /// gives addresses, the Flight Recorder nothing.
    pub(super) by_rank: bool,
}

/// One process's part in one communicator.
pub(super) struct Part<'d> {
    process: &'d mut Drafted,
    index: usize,
}

impl Draft {
    /// Nobody yet.
    pub(super) fn new(now: Timestamp) -> Self {
        Self { now, ..Self::default() }
    }

    /// The part that the claim speaks of, made if nobody spoke of it before. `None`: it names no rank.
    pub(super) fn part(&mut self, claim: &Claim<'_>) -> Option<Part<'_>> {
        let within = claim.pid.map_or_else(|| format!("rank-{}", claim.rank), |pid| pid.to_string());
        self.part_at(claim, &within)
    }

    /// The same for a process that is told from others on its host by `within`.
    pub(super) fn part_at(&mut self, claim: &Claim<'_>, within: &str) -> Option<Part<'_>> {
        if claim.n_ranks == 0 || claim.rank >= claim.n_ranks || claim.comm_hash == 0 {
            return None;
        }
        let at = if claim.at == Timestamp(0) { self.now } else { claim.at };
        let own = (claim.host.to_owned(), within.to_owned());
        let home =
            self.homes.entry((claim.comm_hash, claim.n_ranks, claim.rank)).or_insert_with(|| own.clone());
        let place = if claim.by_rank { home.clone() } else { own };
        let process = self.processes.entry(place).or_default();
        process.pid = claim.pid.unwrap_or(process.pid);
        if process.since == Timestamp(0) || at < process.since {
            process.since = at;
        }
        let index = process.communicators.iter().position(|known| {
            known.comm_hash == claim.comm_hash && known.n_ranks == claim.n_ranks && known.rank == claim.rank
        });
        let index = index.unwrap_or_else(|| {
            process.communicators.push(Communicator {
                local_id: process.communicators.len() as u64 + 1,
                comm_hash: claim.comm_hash,
                rank: claim.rank,
                n_ranks: claim.n_ranks,
                state: CommunicatorState::Active.into(),
                created_at_ns: at.0,
                ..Communicator::default()
            });
            process.communicators.len() - 1
        });
        Some(Part { process, index })
    }

    /// Who has which rank so far.
    pub(super) fn homes(&self) -> &Homes {
        &self.homes
    }

    /// Forgets how far the ranks of a communicator are, because another kind of file tells that better: two ways to count calls are not to be mixed.
    pub(super) fn forget_calls(&mut self, comm_hash: u64) {
        for process in self.processes.values_mut() {
            let known = process.communicators.iter().find(|known| known.comm_hash == comm_hash);
            let Some(local_id) = known.map(|known| known.local_id) else { continue };
            process.sequences.remove(&local_id);
            process.in_flight.retain(|open| open.local_id != local_id);
        }
    }

    /// Forgets until when files tell of a process: another kind of file tells it better.
    pub(super) fn forget_end(&mut self, place: &Place) {
        if let Some(process) = self.processes.get_mut(place) {
            process.told_until = None;
        }
    }

    /// Notes that nothing but this import gives a communicator its hash.
    pub(super) fn made_up(&mut self, comm_hash: u64) {
        self.made_up.insert(comm_hash);
    }

    /// Takes out the hashes that were made up.
    pub(super) fn take_made_up(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.made_up)
    }

    /// Numbered batches with everything, for `job`. A process is told of as living: only communicators in use are
    /// judged.
    pub(super) fn batches(self, job: &str, agent_id: &str, now: Timestamp) -> Vec<Batch> {
        let tag = Digest::of("import").text(job).finish();
        let processes: Vec<Process> =
            self.processes.into_iter().map(|(place, drafted)| drafted.process(&place, job, tag)).collect();
        let batch = |(index, processes): (usize, &[Process])| Batch {
            format_version: FORMAT_VERSION,
            agent_id: agent_id.to_owned(),
            seq_number: index as u64 + 1,
            agent_host: String::new(),
            sent_at_ns: now.0,
            processes: processes.to_vec(),
            dropped: Vec::new(),
            ..Batch::default()
        };
        processes.chunks(PROCESSES_PER_BATCH).enumerate().map(batch).collect()
    }
}

impl Part<'_> {
    pub(super) fn communicator(&mut self) -> &mut Communicator {
        &mut self.process.communicators[self.index]
    }

    fn local_id(&self) -> u64 {
        self.process.communicators[self.index].local_id
    }

    pub(super) fn counters(&mut self, primitive: ringscope_wire::Primitive) -> &mut Counters {
        let (local_id, primitive) = (self.local_id(), batch::Primitive::from(primitive).into());
        let counters = self.process.counters.entry((local_id, primitive)).or_default();
        counters.local_id = local_id;
        counters.primitive = primitive;
        counters
    }

    pub(super) fn in_flight(&mut self, operation: Operation) {
        let local_id = self.local_id();
        self.process.in_flight.push(Operation { local_id, ..operation });
    }

    /// An operation beside which no other one of the rank is known to be in flight.
    pub(super) fn only_in_flight(&mut self, operation: Operation) {
        let local_id = self.local_id();
        self.process.in_flight.retain(|known| known.local_id != local_id);
        self.in_flight(operation);
    }

    pub(super) fn completed(&mut self, operation: Operation) {
        let local_id = self.local_id();
        let newest = self.process.last_completed.entry(local_id).or_default();
        if operation.completed_at_ns >= newest.completed_at_ns {
            *newest = Operation { local_id, ..operation };
        }
    }

    /// One of the completed calls that matter.
    pub(super) fn recalled(&mut self, operation: Operation) {
        let local_id = self.local_id();
        self.process.recalled.push(Operation { local_id, ..operation });
    }

    /// How many collective calls it has made: the number that the next one gets; and a hash that is the same on all
    /// ranks that have made the same ones, 0 where that is not known of any rank.
    pub(super) fn calls(&mut self, calls: u64, hash: u64) {
        let local_id = self.local_id();
        let known = self.process.sequences.entry(local_id).or_default();
        if calls >= known.calls {
            *known = CallSequence { local_id, calls, hash, ..CallSequence::default() };
        }
    }

    pub(super) fn pair(&mut self, pair: PairCalls) {
        let local_id = self.local_id();
        self.process.pairs.push(PairCalls { local_id, ..pair });
    }

    /// A line, or what is there instead of one (`line` 0), that a judgement about this communicator rests on.
    pub(super) fn proof(&mut self, file: &str, line: u64, text: String) {
        let fact = "call".to_owned();
        self.communicator().warnings.push(Evidence { fact, file: file.to_owned(), line, text });
    }

    /// Until when a file tells of the process. 0: not known.
    pub(super) fn told_until(&mut self, at: Timestamp) {
        self.process.told_until = self.process.told_until.max(Some(at).filter(|at| at.0 > 0));
    }

    /// What others say of the process because it did not speak itself.
    pub(super) fn told_by_peers(&mut self, said: &str) {
        said.clone_into(&mut self.process.told_by_peers);
    }

    pub(super) fn global_rank(&mut self, rank: u32) {
        self.process.global_rank = Some(rank);
    }

    pub(super) fn lacks(&mut self, what: &str) {
        if !self.process.lacks.iter().any(|known| known == what) {
            self.process.lacks.push(what.to_owned());
        }
    }

    pub(super) fn library_version(&mut self, text: &str) {
        let code = Version::of(text, 0).and_then(Version::code);
        self.process.library_version = code.unwrap_or(self.process.library_version);
    }

    pub(super) fn dropped(&mut self, reason: &'static str, events: u64) {
        if events > 0 {
            let known = self.process.dropped.entry(reason).or_default();
            *known = known.saturating_add(events);
        }
    }
}

impl Drafted {
    fn process(mut self, (host, within): &Place, job: &str, tag: u64) -> Process {
        let host = bounded(host);
        self.in_flight.sort_by_key(|operation| operation.issued_at_ns);
        self.in_flight.truncate(ringscope_model::limits::MAX_IN_FLIGHT);
        self.recalled.truncate(ringscope_model::limits::MAX_IN_FLIGHT);
        Process {
            key: format!("{host}/{within}/import-{tag:016x}"),
            identity: Some(Identity {
                host,
                pid: self.pid,
                start_time_ns: self.since.0,
                job: job.to_owned(),
                global_rank: self.global_rank,
                library_version: self.library_version,
                ..Identity::default()
            }),
            communicators: self.communicators,
            counters: self.counters.into_values().collect(),
            in_flight: self.in_flight,
            last_completed: self.last_completed.into_values().collect(),
            recalled: self.recalled,
            sequences: self.sequences.into_values().collect(),
            pairs: self.pairs,
            told_until_ns: self.told_until.map(|until| until.0),
            told_by_peers: self.told_by_peers,
            dropped: (self.dropped.into_iter())
                .map(|(reason, events)| batch::Dropped { reason: reason.to_owned(), events })
                .collect(),
            state: ProcessState::Imported.into(),
            has_segment: false,
            log_lacks: self.lacks,
            ..Process::default()
        }
    }
}

/// The name, or so much of a longer one as may be in a key, with a hash of the rest: two hosts never become one.
fn bounded(host: &str) -> String {
    if host.len() <= HOST_BYTES_MAX {
        return host.to_owned();
    }
    let (kept, rest) = host.split_at(host.floor_char_boundary(HOST_BYTES_KEPT));
    format!("{kept}-{:016x}", Digest::of("host").text(rest).finish())
}

/// A batch of as many processes with 64 rings each has some 2 MiB.
const PROCESSES_PER_BATCH: usize = 64;
/// The longest name that DNS allows is 253 bytes; with the rest of the key it must stay below the model's bound.
const HOST_BYTES_MAX: usize = 200;
/// The same without the hash.
const HOST_BYTES_KEPT: usize = HOST_BYTES_MAX - 17;
