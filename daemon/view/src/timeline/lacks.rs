//! What a timeline lacks, in words.

use std::collections::BTreeSet;

use ringscope_api::{TimelineCommunicator, TimelineOperations};
use ringscope_model::{ClockBasis, HostClocks};

/// What the words follow from.
pub(super) struct Facts<'a> {
    pub(super) communicators: &'a [TimelineCommunicator],
    pub(super) operations: &'a TimelineOperations,
    pub(super) n_ranks: usize,
    /// How many operations there were, and what the numbers of those that stayed are divisible by.
    pub(super) thinned: Option<(usize, u64)>,
    /// Communicators of which operations of this time were forgotten.
    pub(super) forgotten: usize,
    pub(super) clocks: &'a HostClocks,
}

impl Facts<'_> {
    pub(super) fn in_words(&self) -> Vec<String> {
        let lacks =
            [self.none(), self.sampled(), self.thinned(), self.forgotten(), self.silent(), self.clocks()];
        lacks.into_iter().flatten().collect()
    }

    fn none(&self) -> Option<String> {
        let words = "No operation that ran in this time was told. Ask for another time, or wait: operations are told a second \
            or two after they completed.";
        self.operations.rank.is_empty().then(|| words.to_owned())
    }

    fn sampled(&self) -> Option<String> {
        let sampled = self.communicators.iter().map(|one| one.every).filter(|every| *every > 1);
        let (least, most) = (sampled.clone().min()?, sampled.clone().max()?);
        let each =
            if least == most { format!("each {least}th") } else { format!("each {least}th to {most}th") };
        let n = sampled.count();
        Some(format!(
            "Not every operation is told, but {each} of {n} communicator{}, the same ones by all ranks, and no send or recv. \
             To see all from now on, set the level of the job to channels.",
            if n == 1 { "" } else { "s" }
        ))
    }

    fn thinned(&self) -> Option<String> {
        let (n_all, every) = self.thinned?;
        let n = self.operations.rank.len();
        Some(format!(
            "Of {n_all} operations {n} are shown, those whose number is divisible by {every}: ask for a shorter time, or \
             for more of them (limit)."
        ))
    }

    fn forgotten(&self) -> Option<String> {
        let n = self.forgotten;
        (n > 0).then(|| {
            format!(
                "Of {n} communicator{} the first operations of this time are forgotten: they made room for newer ones.",
                if n == 1 { "" } else { "s" }
            )
        })
    }

    fn silent(&self) -> Option<String> {
        let told = self.operations.rank.iter().collect::<BTreeSet<_>>().len();
        let silent = self.n_ranks.saturating_sub(told);
        (silent > 0 && told > 0).then(|| {
            format!("{silent} of {} ranks told of no operation that ran in this time.", self.n_ranks)
        })
    }

    fn clocks(&self) -> Option<String> {
        let is_loose = |basis| matches!(basis, ClockBasis::Agent | ClockBasis::Unknown);
        let loose = self.clocks.all().filter(|(_, clock)| is_loose(clock.basis));
        let names: Vec<&str> = loose.map(|(host, _)| &**host).collect();
        let (first, others) = names.split_first()?;
        let whose = match others.len() {
            0 => format!("The clock of {first} is"),
            1 => format!("The clocks of {first} and {} are", others[0]),
            n => format!("The clocks of {first} and {n} other hosts are"),
        };
        Some(format!(
            "{whose} known only from when their agents send, to two seconds: no collective with another host of this job was told."
        ))
    }
}
