//! What a timeline lacks, in words.

use std::collections::BTreeSet;

use ringscope_api::TimelineOperations;
use ringscope_model::{ClockBasis, HostClocks};

use super::{Thinned, Told};

/// What the words follow from.
pub(super) struct Facts<'a> {
    /// Of each communicator.
    pub(super) told: Vec<Told>,
    pub(super) operations: &'a TimelineOperations,
    pub(super) n_ranks: usize,
    pub(super) thinned: Option<Thinned>,
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
        (self.operations.rank.is_empty() && self.thinned.is_none()).then(|| words.to_owned())
    }

    fn sampled(&self) -> Option<String> {
        let sampled = self.told.iter().map(|one| one.every).filter(|every| *every > 1);
        let Some((least, most)) = sampled.clone().min().zip(sampled.clone().max()) else {
            let lacks_pairs = self.told.iter().any(|one| one.lacks_pairs);
            return lacks_pairs
                .then(|| format!("Sends and receives are counted, but not told one by one. {ALL}"));
        };
        let least = ordinal(least);
        let each = if sampled.clone().all(|every| every == most) {
            least
        } else {
            format!("{least} to {}", ordinal(most))
        };
        let n = sampled.count();
        Some(format!(
            "Only every {each} operation of {n} communicator{} is told (the same ones by all ranks); sends and receives are \
             not. {ALL}",
            if n == 1 { "" } else { "s" }
        ))
    }

    fn thinned(&self) -> Option<String> {
        let thinned = self.thinned?;
        let (n, n_all) = (self.operations.rank.len(), thinned.n_all);
        let which = match (thinned.every, thinned.every_rank) {
            (1, 1) => String::new(),
            (every, 1) => format!(", those whose number is divisible by {every}"),
            (1, rank) => format!(", those of every {} rank", ordinal(rank.into())),
            (every, rank) => {
                format!(
                    ", those whose number is divisible by {every}, of every {} rank",
                    ordinal(rank.into())
                )
            }
        };
        let cut = if thinned.is_cut { ", as many as the limit allows" } else { "" };
        Some(format!(
            "Of {n_all} operations {n} are shown{which}{cut}: ask for a shorter time, or for more of them (limit)."
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
        if self.thinned.is_some_and(|thinned| thinned.every_rank > 1 || thinned.is_cut) {
            // Those that are not shown may have told.
            return None;
        }
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

/// What to do to see all.
const ALL: &str = "To see all from now on, set the level of the job to channels.";

/// `2nd`, `4th`: of a power of two.
fn ordinal(n: u64) -> String {
    let is_second = n % 10 == 2 && n % 100 != 12;
    format!("{n}{}", if is_second { "nd" } else { "th" })
}
