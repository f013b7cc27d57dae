//! What the judge sees: one job at one moment, as plain data. Somebody else takes it from the model or from files.
//!
//! Times of a process are those of its host's clock, unless a field says "our clock". [`Process::ours`] makes them
//! comparable between hosts: whoever compares times of two processes, or tells one, does so by our clock. What is not known is absent, never a zero that looks like a fact.

use std::borrow::Cow;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_model::Exit;
use ringscope_wire::{Primitive, batch};

/// One job at one moment. All communicators of the job that live or ended within the last minutes, and all its
/// processes; of ended processes those that still are members of a communicator that others use, or ended lately.
#[derive(Debug, Default)]
pub struct Scene<'a> {
    /// Our clock. Of an import: the newest time that its files tell, for nothing is known of what came after.
    pub now: Timestamp,
    /// The job. Never empty.
    pub job: &'a str,
    /// When any agent, of this job or not, was last heard. Our clock. Absent: none since the daemon started.
    pub any_heard_at: Option<Timestamp>,
    /// Its hosts, in any order; [`Process::host`] points here.
    pub hosts: Vec<Host<'a>>,
    /// Its processes, in any order; [`Member::process`] points here.
    pub processes: Vec<Process<'a>>,
    /// Its communicators, in any order; [`OpenCall::communicator`] points here.
    pub communicators: Vec<Communicator<'a>>,
}

/// One machine.
#[derive(Debug, Default)]
pub struct Host<'a> {
    /// Its name.
    pub name: &'a str,
    /// When any agent that looks after it was last heard, or since when it is waited for by a daemon that has started since.
    /// Our clock. Absent: nobody looks after it (a log, an import).
    pub heard_at: Option<Timestamp>,
    /// The same for people: when it was heard before the daemon started, if it was not since.
    pub last_word_at: Option<Timestamp>,
    /// Whether its agent said goodbye: it was ended in good order, so that silence is no sign of anything.
    pub agent_ended: bool,
    /// Messages of its kernel that say that something is wrong, oldest first; those of the last ten minutes.
    pub kernel: Vec<&'a batch::KernelMessage>,
    /// What is wrong with its NICs and GPUs now, in words that can follow its name: "mlx5_3 is down".
    pub hardware: Vec<Cow<'a, str>>,
}

/// One training process.
#[derive(Debug, Default)]
pub struct Process<'a> {
    /// `<host>/<pid>/<start_time_ns>`. The judge remembers processes by it.
    pub key: &'a str,
    /// Index in [`Scene::hosts`].
    pub host: u32,
    /// Process id there.
    pub pid: u32,
    /// That number is the one that it has inside its container, and another process's outside.
    pub in_container: bool,
    /// Rank in the job.
    pub global_rank: Option<u32>,
    /// Where a scheduler has put it, in words. Empty: none has, or not known.
    pub place: &'a str,
    /// Ranks in the job, as its launcher said.
    pub world_size: Option<u32>,
    /// When it began.
    pub started_at: Timestamp,
    /// Whether it lives.
    pub life: Life,
    /// How it ended, as far as is known.
    pub exit: Exit,
    /// When it was seen to have ended.
    pub ended_at: Option<Timestamp>,
    /// Until which moment its agent's newest reading covers it: `sent_at_ns` of the agent's newest batch, also one that
    /// does not name this process (then nothing has changed). The host's clock. 0: nobody reads it (an import).
    pub read_at: Timestamp,
    /// When that reading came. Our clock. Of an import: until when its files tell of it, or as long as those of the
    /// others where that is not known.
    pub heard_at: Timestamp,
    /// Calls may have been lost between the program and us: the collector or the agent dropped events of this process
    /// within the last minutes. Then what is absent proves nothing.
    pub lost_events: bool,
    /// Version of the collector's layout; 0: it has no segment. With [`Collector::Absent`]: one that nobody reads. From [`NUMBERED`] on calls are numbered and signed,
    /// and calls that have not returned are known.
    pub segment_version: u32,
    /// Whether calls are recorded.
    pub collector: Collector,
    /// Started through `ringscope run`.
    pub launched: bool,
    /// A server of a summation service: it has a rank, and is no worker.
    pub is_server: bool,
    /// It has called the library at least once (or its profiler spoke, or its log did).
    pub calls_seen: bool,
    /// How much is asked of the library now.
    pub level: batch::Level,
    /// What the operating system says of it. Absent: not known.
    pub activity: Option<Activity>,
    /// Calls into the library that have not returned, oldest first.
    pub open_calls: Cow<'a, [OpenCall<'a>]>,
    /// When a call of any function of the library returned last.
    pub last_returned_at: Option<Timestamp>,
    /// What it was seen to do, if somebody asked and the answer came. Also one that is minutes old.
    pub look: Option<&'a batch::Look>,
    /// What others say of it because it did not speak itself, so that it can follow its name: "does not answer". Empty:
    /// nothing.
    pub told_by_peers: &'a str,
    /// Why an RDMA connection of it failed at its own end, in the verbs' words. Empty: none has that is known.
    pub failed_connection: &'a str,
    /// Inits and splits that it is in and that are joined to no communicator yet, for they have no hash.
    pub forming: Cow<'a, [Forming<'a>]>,
}

/// Whether a process lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Life {
    /// As far as is known.
    #[default]
    Running,
    /// Ran its exit handlers.
    Exited,
    /// Gone without having run them.
    Killed,
    /// Known from files only: whether it lives nobody knows. What the files say is all that will ever come.
    Imported,
}

/// Whether a process's calls are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Collector {
    /// They are.
    #[default]
    On,
    /// It was switched off, through the control word, since then.
    Off(Option<Timestamp>),
    /// It switched itself off after a fault, since then.
    Fault(Option<Timestamp>),
    /// The process has none that can be read: only its log or nothing is known, or its segment was removed.
    Absent,
}

/// What the operating system says of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Activity {
    /// As `/proc/PID/stat` has it: R, S, D, T, t, Z.
    pub state: char,
    /// Since when it is in that state without a break, as far as was seen.
    pub since: Option<Timestamp>,
    /// Share of one core that it used between the last two readings. Absent: there were no two.
    pub cores: Option<f32>,
}

/// A call into the library that has not returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenCall<'a> {
    /// Function, e.g. `ncclCommInitRank`.
    pub function: Cow<'a, str>,
    /// Index in [`Scene::communicators`]. Absent: the function has none, or it is not known.
    pub communicator: Option<u32>,
    /// When it was entered.
    pub entered_at: Timestamp,
}

/// An init or split without a hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forming<'a> {
    /// Function, e.g. `ncclCommSplit`.
    pub function: Cow<'a, str>,
    /// Index in [`Scene::communicators`] of the one that is split. Absent: none, or not known.
    pub parent: Option<u32>,
    /// Its rank and the number of ranks, as far as they are known before it is formed.
    pub rank: Option<u32>,
    /// See `rank`.
    pub n_ranks: Option<u32>,
    /// Since when.
    pub since: Timestamp,
}

/// A communicator.
#[derive(Debug, Default)]
pub struct Communicator<'a> {
    /// Its short id. The judge remembers communicators by it.
    pub id: &'a str,
    /// What it is for or how it is named, in one or two words: "tensor", "data", "dp_group". Empty: not known.
    pub purpose: &'a str,
    /// The library's hash. Two communicators with one hash and other `n_ranks` are one init that disagrees.
    pub hash: u64,
    /// Hash of the one that it was split from.
    pub parent_hash: Option<u64>,
    /// Number of ranks, heard of or not.
    pub n_ranks: u32,
    /// The ranks heard of, ascending by rank, each once.
    pub members: Vec<Member<'a>>,
}

/// One rank of a communicator, as its process tells it.
///
/// To keep peace cheap, whoever fills it may leave out what is said to be "only on suspicion" as long as no rank of the
/// communicator has an operation or an open call that is older than [`QUIET`], and none is destroyed, aborted or failed.
#[derive(Debug, Default)]
pub struct Member<'a> {
    /// Its rank here.
    pub rank: u32,
    /// Index in [`Scene::processes`].
    pub process: u32,
    /// What has become of it.
    pub state: MemberState,
    /// When its init was called.
    pub created_at: Timestamp,
    /// When it ended. Absent: it has not.
    pub ended_at: Option<Timestamp>,
    /// Function that made it, e.g. `ncclCommSplit`. Empty: not known.
    pub made_by: &'a str,
    /// GPU as the library says: PCI bus id or number. Empty: not known.
    pub gpu: &'a str,
    /// Whether anything tells when its operations end (the profiler, or CUDA events).
    pub completion_known: bool,
    /// Collective calls so far (`CallSequence.calls`), and the hash over their signatures. Absent: its calls are not
    /// numbered, or some of them were lost, so that numbers and hashes mean nothing any more.
    pub calls: Option<Calls>,
    /// The hash after so many calls, ascending, the newest ones that are known.
    pub marks: Cow<'a, [Mark]>,
    /// Operations that are not completed, oldest first: at least the oldest [`OPEN_TOLD`].
    pub open: Cow<'a, [Operation]>,
    /// Those of them inside a group that has not ended. Absent: none.
    pub queued: Option<Queued>,
    /// The newest completed operation.
    pub last_completed: Option<Operation>,
    /// Other operations of it that are known, completed or not, in any order: the history and what was asked for
    /// (`Process.recalled`). Only on suspicion.
    pub known: Cow<'a, [Operation]>,
    /// Sends and receives by peer. Only on suspicion.
    pub pairs: Cow<'a, [Pair]>,
    /// Sends and receives that it has called, to all peers together. Absent: nothing counts them.
    pub transfers: Option<Transfers>,
    /// What it has sent over the network by peer.
    pub links: Cow<'a, [Link]>,
    /// The rank after it in the ring of the first channel. Absent: not known.
    pub next_in_ring: Option<u32>,
    /// What the library said last that was an error.
    pub error: Option<CommError<'a>>,
    /// WARN lines of the library's log that name it: (file, line, text), newest last. Only on suspicion.
    pub warnings: Vec<Warning<'a>>,
}

/// Calls of a rank so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Transfers {
    pub sends: u64,
    pub recvs: u64,
}

/// What has become of a rank's part of a communicator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberState {
    /// Its init has not returned.
    Forming,
    /// In use.
    #[default]
    Active,
    /// Destroyed in good order.
    Destroyed,
    /// Aborted.
    Aborted,
    /// Its init returned an error.
    Failed,
}

/// How far a rank is in the order of collective calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calls so far: the number that the next one gets.
    pub made: u64,
    /// Hash over the signatures of all of them.
    pub hash: u64,
}

pub use ringscope_model::Mark;

/// Calls of a rank inside a group that has not ended: all are in [`Calls`], and the library has none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// How many.
    pub calls: u32,
    /// Number of the first numbered one. Absent: none of them is numbered.
    pub first: Option<u64>,
    /// When the first one was called: the group was open by then.
    pub since: Timestamp,
}

/// What was called. Ranks that make one collective call all give the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signature {
    /// Which primitive.
    pub primitive: Primitive,
    /// Elements.
    pub count: u64,
    /// `ncclDataType_t`, or [`NOT_TOLD`]: then neither count nor datatype is known, or ranks may give different ones.
    pub datatype: u32,
    /// `ncclRedOp_t`. Absent: the primitive has none, or not known.
    pub op: Option<u32>,
    /// Root of a rooted collective, peer of send and recv.
    pub peer: Option<u32>,
}

/// One operation: a call of a primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What was called.
    pub signature: Signature,
    /// Payload by the library's convention.
    pub bytes: u64,
    /// Number among the collective calls of the communicator. Absent: a send, recv or put_signal, or not numbered.
    pub number: Option<u64>,
    /// Counts the calls of this primitive on this communicator from 0.
    pub of_primitive: u64,
    /// How far it is.
    pub state: OperationState,
    /// When it was called. 0, of an import only: some time before its files end.
    pub issued_at: Timestamp,
    /// When the device or the proxy first showed that it runs. Absent: not started, or nothing tells.
    pub started_at: Option<Timestamp>,
    /// Whether something would tell that it has started.
    pub start_known: bool,
    /// When it was completed.
    pub completed_at: Option<Timestamp>,
    /// Stands for the stream within the process. 0: not known.
    pub stream: u32,
    /// Calls of one process with one number were made in one group. 0: in none.
    pub group: u32,
    /// Nothing tells its end but what begins after it on its stream, and nothing has: it may be over, and the stream wait for
    /// something else.
    pub ends_by_order: bool,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OperationState {
    /// Called inside a group that has not ended: not handed to the library yet.
    Queued,
    /// Handed to the library.
    #[default]
    Issued,
    /// Done.
    Completed,
    /// Refused, or given up with its communicator.
    Failed,
}

/// Sends, or receives, of one rank with one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Sends, else receives.
    pub is_send: bool,
    /// Rank of the other side.
    pub peer: u32,
    /// Calls so far.
    pub calls: u64,
    /// Their payload.
    pub bytes: u64,
    /// Hash over (count, datatype) of all of them, in their order.
    pub hash: u64,
}

/// What a rank has sent to another over the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Rank of the other side.
    pub peer: u32,
    /// Payload so far, over all primitives.
    pub sent_bytes: u64,
    /// Of that, in collective calls: without sends, receives and signals.
    pub sent_in_calls: u64,
}

/// An error that the library gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommError<'a> {
    /// `ncclResult_t`.
    pub code: u32,
    /// Function that gave it.
    pub function: Cow<'a, str>,
    /// When.
    pub at: Option<Timestamp>,
}

/// A line of the library's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warning<'a> {
    /// Path of the log.
    pub file: &'a str,
    /// Number of the line, counting from 1.
    pub line: u64,
    /// The line.
    pub text: &'a str,
}

impl Process<'_> {
    /// A time of its host's clock by our clock, as exactly as one reading tells.
    #[must_use]
    pub fn ours(&self, at: Timestamp) -> Timestamp {
        if self.read_at.0 == 0 {
            return at;
        }
        let moved = i128::from(at.0) - i128::from(self.read_at.0) + i128::from(self.heard_at.0);
        Timestamp(u64::try_from(moved).unwrap_or_default())
    }

    /// Whether it is gone, and not in good order as far as is known.
    #[must_use]
    pub fn ended_badly(&self) -> bool {
        let is_bad = self.life == Life::Killed
            || self.life == Life::Exited && self.exit.status.is_some_and(|status| status != 0);
        is_bad && self.exit.told.is_none()
    }

    /// How long ago that was.
    #[must_use]
    pub fn age(&self, at: Timestamp, now: Timestamp) -> Duration {
        now.since(self.ours(at))
    }
}

/// From this version of the segment's layout on calls are numbered and signed.
pub const NUMBERED: u32 = 5;

/// See [`Signature::datatype`].
pub const NOT_TOLD: u32 = u32::MAX;

/// Nothing that is open for less than this is looked at closely: whoever fills a scene may spare the details.
pub const QUIET: Duration = Duration::from_millis(800);

/// So many of a rank's open operations are told, the oldest: what comes after them waits for them.
pub const OPEN_TOLD: usize = 16;
