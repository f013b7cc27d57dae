//! Whether all workers have the same parameters.

use ringscope_api::clock::Timestamp;
use ringscope_api::{SummationComparison, SummationDifference, SummationParty};
use ringscope_model::summation::{Party, parties};
use ringscope_wire::batch;

/// As the workers have told it.
pub(super) fn shown(told: &batch::SummationComparison) -> SummationComparison {
    SummationComparison {
        every: told.every,
        steps: told.steps,
        at: Timestamp(told.at_ns),
        n_parameters: told.n_parameters,
        n_different: told.n_different,
        equal_steps: told.equal_steps,
        difference: told.difference.as_ref().map(difference),
    }
}

fn difference(told: &batch::SummationDifference) -> SummationDifference {
    let party = |Party { hash, workers }: Party| SummationParty { hash: format!("0x{hash:016x}"), workers };
    SummationDifference {
        steps: told.steps,
        at: Timestamp(told.at_ns),
        parameter: told.parameter.clone(),
        parties: parties(&told.hashes).into_iter().map(party).collect(),
    }
}
