//! What a look at the facts finds: a condition that holds, and whose fault it is.

use ringscope_api::clock::Timestamp;
use ringscope_api::{Cost, Culprit, Detail, Evidence, FindingKind, Severity};
use ringscope_model::{CommunicatorId, Name};

use super::past::Past;

/// A condition that holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Judgement {
    /// Which.
    pub kind: FindingKind,
    /// How bad it is.
    pub severity: Severity,
    /// Subject; of a communicator the host of its lowest rank.
    pub host: Name,
    /// Subject, if it is a rank.
    pub rank: Option<u32>,
    /// Subject, if it is a channel of that rank.
    pub channel: Option<u32>,
    /// Subject, or what explains it, if it is a NIC.
    pub nic: Option<Name>,
    /// One word why.
    pub cause: &'static str,
    /// Hosts to blame, if not the subject.
    pub culprits: Vec<String>,
    /// In words.
    pub message: String,
    /// The lines that prove it.
    pub evidence: Vec<Evidence>,
    /// Whose fault it is, where that is more than a host.
    pub blame: Blame,
}

/// Whose fault it is, and what follows from that.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Blame {
    /// Communicator that it is about, where a whole job is judged at once. Absent: none.
    pub comm: Option<CommunicatorId>,
    /// Tells it from others of its kind in that communicator, or on that host.
    pub key: String,
    /// Processes that are to blame.
    pub accused: Vec<Culprit>,
    /// Ranks that wait because of it.
    pub n_victims: u32,
    /// What it costs the job. Absent: not known, or it is not about time.
    pub cost: Option<Cost>,
    /// What to do.
    pub advice: String,
    /// What else was found out.
    pub details: Vec<Detail>,
    /// When it truly began.
    pub began_at: Option<Timestamp>,
    /// Whether all of it is known from files.
    pub imported: bool,
    /// The judgement that it follows from, as an index among those that are settled with it. Absent: it is a root.
    pub follows_from: Option<usize>,
}

impl Judgement {
    /// The same, of what is known from files: it began, at the latest, when these end.
    pub(super) fn of_past(mut self, past: Option<Past>) -> Self {
        if let Some(past) = past {
            self.blame.imported = true;
            self.blame.began_at = self.blame.began_at.or(past.until);
        }
        self
    }
}

/// Title of who has ended because of a long wait; more of them may end with every look.
pub(super) const GAVE_UP: &str = "Ended after they had waited";

/// Lines that one finding shows at most: enough to prove it, few enough to read.
pub(super) const MAX_PROOF: usize = 8;
