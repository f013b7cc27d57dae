//! Something wrong with hardware, or with what goes over it. Pure.

use ringscope_api::{Evidence, FindingKind, Severity};
use ringscope_model::Name;

use crate::judgement::{Blame, Judgement};

/// Something that is wrong now.
#[derive(Debug)]
pub(in super::super) struct Trouble {
    pub(in super::super) kind: FindingKind,
    pub(in super::super) nic: Option<Name>,
    pub(in super::super) cause: &'static str,
    /// Whether it takes channels from a communicator.
    pub(in super::super) costs_channels: bool,
    /// Whether it is that bad by itself.
    pub(in super::super) severity: Option<Severity>,
    pub(in super::super) message: String,
    pub(in super::super) evidence: Vec<Evidence>,
    /// Other hosts that are to blame, and processes.
    pub(in super::super) culprits: Vec<String>,
    pub(in super::super) blame: Blame,
}

impl Trouble {
    /// The finding. `lacks_channels`: the host found fewer channels than others in a communicator in use.
    pub(in super::super) fn judgement(self, host: &Name, lacks_channels: bool) -> Judgement {
        Judgement {
            blame: self.blame,
            kind: self.kind,
            severity: self.severity.unwrap_or(match self.costs_channels && lacks_channels {
                true => Severity::Critical,
                false => Severity::Warning,
            }),
            host: host.clone(),
            rank: None,
            channel: None,
            nic: self.nic,
            cause: self.cause,
            culprits: self.culprits,
            message: self.message,
            evidence: self.evidence,
        }
    }
}
