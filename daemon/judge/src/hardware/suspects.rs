//! What may have taken channels from a communicator: hardware that was not whole when it was made.

use ringscope_api::Evidence;
use ringscope_api::clock::Timestamp;
use ringscope_model::Name;

/// Hardware that is, or was for a while, not whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Suspect {
    /// Absent: not a NIC.
    nic: Option<Name>,
    cause: &'static str,
    /// "is down", "was down".
    words: String,
    /// What proves it now; what a file said earlier nobody kept.
    evidence: Vec<Evidence>,
    from: Timestamp,
    /// Absent: it still is.
    until: Option<Timestamp>,
}

/// Those of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Suspects(Vec<Suspect>);

/// Why a host found fewer channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Explanation {
    pub(in super::super) cause: &'static str,
    /// The NIC that explains it; the first of several.
    pub(in super::super) nic: Option<Name>,
    /// "mlx5_3 is down".
    pub(in super::super) words: String,
    /// Whether it still is so.
    pub(in super::super) is_now: bool,
    pub(in super::super) evidence: Vec<Evidence>,
}

impl Suspect {
    /// A NIC. `words`: for while it is so, and for after. `line`: what a file says while it is so. `is_first`: nobody knows
    /// how it was before `since`.
    pub(super) fn new(
        nic: Name,
        cause: &'static str,
        words: (String, String),
        line: Evidence,
        since: Timestamp,
        until: Option<Timestamp>,
        is_first: bool,
    ) -> Self {
        let from = if is_first { Timestamp(0) } else { Timestamp(since.0.saturating_sub(SEEN_AFTER_NS)) };
        let words = if until.is_none() { words.0 } else { words.1 };
        let evidence = if until.is_none() { vec![line] } else { Vec::new() };
        Self { nic: Some(nic), cause, words, evidence, from, until }
    }

    /// Something else that is so now; since when is not known.
    pub(super) fn now(cause: &'static str, words: String) -> Self {
        Self { nic: None, cause, words, evidence: Vec::new(), from: Timestamp(0), until: None }
    }

    /// A NIC of which a finding said before this daemon started that it is so.
    pub(super) fn recalled(nic: Name, cause: &'static str, is: &str, evidence: Vec<Evidence>) -> Self {
        Self { nic: Some(nic), evidence, ..Self::now(cause, is.to_owned()) }
    }

    fn was_so(&self, at: Timestamp) -> bool {
        self.from <= at && self.until.is_none_or(|until| at < until)
    }
}

impl Suspects {
    pub(super) fn extend(&mut self, suspects: impl IntoIterator<Item = Suspect>) {
        self.0.extend(suspects);
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Why the host found fewer channels in a communicator that was made then. NICs that are missing or down before slow
    /// ones, and these before all else.
    pub(in super::super) fn explain(&self, made: Timestamp) -> Option<Explanation> {
        let so = || self.0.iter().filter(|suspect| suspect.was_so(made));
        let cause = [super::NIC_MISSING, super::NIC_DOWN, super::NIC_SLOW, super::GPU_MISSING]
            .into_iter()
            .find(|cause| so().any(|suspect| suspect.cause == *cause))?;
        let all: Vec<&Suspect> = so().filter(|suspect| suspect.cause == cause).collect();
        let first = all.first()?;
        let same = || all.iter().filter(|suspect| suspect.words == first.words);
        let nics: Vec<&Name> = same().filter_map(|suspect| suspect.nic.as_ref()).collect();
        let words = match nics.as_slice() {
            [] => first.words.clone(),
            [nic] => format!("{nic} {}", first.words),
            nics => {
                let plural = first.words.replacen("is ", "are ", 1).replacen("was ", "were ", 1);
                let plural = plural.replacen("runs ", "run ", 1);
                format!("{} {plural}", ringscope_api::words::list(nics, NAMED))
            }
        };
        Some(Explanation {
            cause,
            nic: first.nic.clone(),
            words,
            is_now: first.until.is_none(),
            evidence: same().flat_map(|suspect| suspect.evidence.clone()).collect(),
        })
    }
}

/// How much later than it happens a change of hardware is read and sent, at most: two intervals of the agent.
const SEEN_AFTER_NS: u64 = 10_000_000_000;

/// NICs that one sentence names.
const NAMED: usize = 4;
