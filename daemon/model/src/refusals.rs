//! What was refused because who told it has their share already: it is not known here, and that is said.

use std::collections::BTreeMap;

use ringscope_api::clock::Timestamp;

use super::Model;
use super::limits::{MAX_REFUSALS, REFUSALS_KEPT};

/// What was refused for one reason.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// How often.
    pub n: u64,
    /// When it was for the last time.
    pub last: Timestamp,
}

/// By the reason, in words.
#[derive(Default)]
pub(super) struct Refusals(BTreeMap<String, Refusal>);

impl Model {
    /// Notes that something was refused, so many things of it.
    pub fn note_refused(&mut self, why: &str, n: usize, now: Timestamp) {
        self.losses.add_many("share_limit", n);
        let Refusals(known) = &mut self.refusals;
        if known.contains_key(why) || known.len() < MAX_REFUSALS {
            let one = known.entry(why.to_owned()).or_insert(Refusal { n: 0, last: now });
            one.n = one.n.saturating_add(1);
            one.last = one.last.max(now);
        }
    }

    /// What was refused of late: why, in words, and how often.
    pub fn refused(&self, now: Timestamp) -> impl Iterator<Item = (&str, Refusal)> {
        let Refusals(known) = &self.refusals;
        known
            .iter()
            .filter(move |(_, one)| now.since(one.last) < REFUSALS_KEPT)
            .map(|(why, one)| (&**why, *one))
    }

    pub(super) fn forget_refusals(&mut self, now: Timestamp) {
        self.refusals.0.retain(|_, one| now.since(one.last) < REFUSALS_KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringscope_samples::cluster::at;

    #[test]
    fn refusals_are_counted_and_forgotten() {
        let mut model = Model::new();
        model.note_refused("too many", 3, at(1));
        model.note_refused("too many", 2, at(5));
        let found: Vec<_> = model.refused(at(6)).collect();
        assert_eq!(found, [("too many", Refusal { n: 2, last: at(5) })]);
        assert_eq!(model.dropped()["share_limit"], 5);
        for n in 0..2 * MAX_REFUSALS {
            model.note_refused(&format!("{n}"), 1, at(6));
        }
        assert_eq!(model.refused(at(6)).count(), MAX_REFUSALS);
        assert_eq!(model.refused(at(700)).count(), 0);
        model.tick(at(700));
        assert_eq!(model.refusals.0.len(), 0);
    }
}
