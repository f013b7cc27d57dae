//! What the judge says of one job at one moment.

use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::{Culprit, Detail, Evidence, FindingKind, Severity};

/// What the judge says of one job at one moment.
#[derive(Debug, Default)]
pub struct Verdict {
    /// What holds, the worst first. What held a look ago and is not here holds no more.
    pub judgements: Vec<Judgement>,
    /// What the judge would like to know, the most wanted first. A question is put once; it comes again only after a
    /// while without an answer.
    pub asks: Vec<Ask>,
    /// The job's level is to be `steps` as long as this is so.
    pub raise: bool,
    /// Waits for somebody that have ended well since the last look.
    pub ended_well: Vec<Wait>,
    /// What was left out, by reason, in this look.
    pub left_out: Vec<(&'static str, u64)>,
    /// Something is under way, and newer readings may tell what: look again as soon as they are there.
    pub unsettled: bool,
}

/// A condition that holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Which.
    pub kind: FindingKind,
    /// How bad it is.
    pub severity: Severity,
    /// Tells it from others of its kind in the same communicator (or, without one, the same host or job); the same from
    /// look to look and after a restart of the daemon.
    pub key: String,
    /// One word why.
    pub cause: &'static str,
    /// Communicator that it is about, as an index in the scene. Absent: none.
    pub communicator: Option<u32>,
    /// Host of the subject, as an index in the scene.
    pub host: Option<u32>,
    /// Rank of the subject in that communicator.
    pub rank: Option<u32>,
    /// NIC of the subject.
    pub nic: Option<String>,
    /// Processes that are to blame, as indices in the scene; as many as there are, where `accused` has the first few.
    pub culprits: Vec<u32>,
    /// Processes that are to blame, in words; at most [`ACCUSED_NAMED`].
    pub accused: Vec<Culprit>,
    /// Processes that wait because of it, as indices in the scene, ascending.
    pub victims: Vec<u32>,
    /// The reason in words, which begins with the culprit.
    pub message: String,
    /// What to do.
    pub advice: String,
    /// What else is known.
    pub details: Vec<Detail>,
    /// Lines of logs and of the kernel.
    pub evidence: Vec<Evidence>,
    /// When it truly began. Our clock.
    pub began_at: Option<Timestamp>,
    /// It follows from that one, as an index in [`Verdict::judgements`]. Absent: it is a root.
    pub follows_from: Option<u32>,
}

/// Something that was found, before it is known whether it is told.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) judgement: Judgement,
    /// No innocent cause: critical as soon as it was seen twice. Else its severity stands as it is.
    pub(super) certain: bool,
    /// Somebody merely has not come yet: how long that lasts is learned.
    pub(super) innocent: Option<Duration>,
    /// Number of the call in its communicator; a mismatch explains all that is not before it.
    pub(super) number: Option<u64>,
    /// While it holds the job's level is to be `steps`.
    pub(super) raises: bool,
}

/// A wait for somebody who merely had not come, as its last judgement told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// See [`Judgement::kind`].
    pub kind: FindingKind,
    /// Id of the communicator.
    pub communicator: String,
    /// See [`Judgement::key`].
    pub key: String,
}

/// A question about one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Index in the scene.
    pub process: u32,
    /// What is asked.
    pub what: Question,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Question {
    /// To look at its stacks and at what it is blocked in.
    Look,
    /// For the collective calls of this communicator (index in the scene) with numbers in `first..=last`.
    Recall {
        /// Index in the scene.
        communicator: u32,
        /// First number.
        first: u64,
        /// Last number, at most 63 more.
        last: u64,
    },
    /// For the sends and receives of this communicator (index in the scene) by peer.
    Pairs {
        /// Index in the scene.
        communicator: u32,
    },
}

/// Judgements of one job that are told; more tell nobody anything.
pub const MAX_JUDGEMENTS: usize = 64;
/// Culprits of one judgement that are named.
pub const ACCUSED_NAMED: usize = 16;
