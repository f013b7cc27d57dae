//! One operation over one fabric, described by names and numbers: the way in from outside the crate.

use std::time::Duration;

use super::fabric::Fabric;
use super::outcome::Outcome;
use super::{Job, closed_form, simulate};
use crate::collective::algorithm::Algorithm;
use crate::collective::catalog::{schedule, supports};
use crate::collective::layout::Scope;
use crate::collective::primitive::Primitive;
use crate::collective::schedule::Schedule;
use crate::kernels::{Form, Reducer};
use crate::types::{DataType, RedOp};

/// What is to be simulated; roots are rank 0.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// As in `RSCCL_ALGO`.
    pub algorithm: String,
    /// `all_reduce`, `all_gather`, …
    pub primitive: String,
    /// Bytes as the call counts them: of the buffer, or of one rank's block. Rounded down to elements.
    pub size_bytes: usize,
    /// Channels. Each carries its share of every block.
    pub n_channels: usize,
    /// Bytes of a piece, where an algorithm passes a buffer along piece by piece.
    pub piece_bytes: usize,
    /// Whether elements are `f16`, whose partial sums travel as `f32` where the order of the ranks is kept; else `f32`.
    pub f16: bool,
    /// Hosts and links.
    pub fabric: Fabric,
    /// A rank that is lost, and when.
    pub lose: Option<(usize, Duration)>,
}

/// What a simulation found, beside what a formula says.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was found.
    pub outcome: Outcome,
    /// What the formula says, where there is one.
    pub closed_form: Option<Duration>,
}

/// An experiment that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No algorithm of this name.
    #[error("{name} is not an algorithm; there are {}", names())]
    UnknownAlgorithm {
        /// What was asked for.
        name: String,
    },
    /// No primitive of this name.
    #[error("{name} is not a collective primitive; there are {}", PRIMITIVES.map(Primitive::name).join(", "))]
    UnknownPrimitive {
        /// What was asked for.
        name: String,
    },
    /// This algorithm cannot carry out this primitive over these ranks.
    #[error("{algorithm} cannot carry out {primitive} over these ranks")]
    Unsupported {
        /// The algorithm.
        algorithm: String,
        /// The primitive.
        primitive: String,
    },
    /// A number that makes no sense.
    #[error("{0}")]
    Number(&'static str),
}

/// An experiment's operation, and its schedule on each channel.
pub(super) struct Planned<'a> {
    experiment: &'a Experiment,
    pub(super) algorithm: Algorithm,
    pub(super) primitive: Primitive,
    pub(super) count: usize,
    /// Of the sum.
    pub(super) reducer: Reducer,
    schedules: Vec<Box<dyn Schedule + 'a>>,
}

/// Runs an experiment.
///
/// # Errors
/// [`Refused`] says which name or number is wrong.
pub fn run(experiment: &Experiment) -> Result<Report, Refused> {
    let order: Vec<usize> = (0..experiment.fabric.n_ranks()).collect();
    let planned = Planned::new(experiment, &order)?;
    Ok(Report { outcome: simulate(&planned.job()), closed_form: planned.closed_form() })
}

impl<'a> Planned<'a> {
    /// Of ranks that stand in `order` in every ring.
    pub(super) fn new(experiment: &'a Experiment, order: &'a [usize]) -> Result<Self, Refused> {
        check(experiment)?;
        let algorithm = algorithm(&experiment.algorithm)?;
        let primitive = primitive(&experiment.primitive)?;
        let data_type = if experiment.f16 { DataType::F16 } else { DataType::F32 };
        let reducer =
            Reducer { width: algorithm.width(), ..Reducer::new(data_type, RedOp::Sum, order.len()) };
        let scope = |channel| scope(experiment, reducer, order, channel);
        if !supports(algorithm, primitive, &scope(0)) {
            let (algorithm, primitive) = (experiment.algorithm.clone(), experiment.primitive.clone());
            return Err(Refused::Unsupported { algorithm, primitive });
        }
        let count = experiment.size_bytes / reducer.bytes(Form::Element);
        let schedules = (0..experiment.n_channels)
            .map(|channel| schedule(algorithm, primitive, count, &scope(channel)))
            .collect();
        Ok(Self { experiment, algorithm, primitive, count, reducer, schedules })
    }

    /// What is simulated.
    pub(super) fn job(&self) -> Job<'_> {
        let job = Job::new(&self.experiment.fabric, &self.schedules, self.primitive, self.count)
            .of_bytes(self.reducer.bytes(Form::Element), self.reducer.bytes(Form::Partial));
        match self.experiment.lose {
            Some((rank, at)) => job.losing(rank, at),
            None => job,
        }
    }

    fn closed_form(&self) -> Option<Duration> {
        let is_plain = self.primitive == Primitive::AllReduce && self.experiment.n_channels == 1;
        let element_bytes = self.reducer.bytes(Form::Element);
        let formula = || {
            let elements = closed_form::Elements {
                count: self.count,
                piece: self.experiment.piece_bytes / element_bytes,
                size_bytes: element_bytes,
            };
            closed_form::all_reduce(self.algorithm, &self.experiment.fabric, elements)
        };
        (is_plain && !self.reducer.is_wide()).then(formula).flatten()
    }

    /// What the algorithms are told.
    #[cfg(test)]
    pub(super) fn scope(&self, order: &'a [usize], channel: usize) -> Scope<'a> {
        scope(self.experiment, self.reducer, order, channel)
    }
}

/// What the algorithms are told.
fn scope<'a>(experiment: &'a Experiment, reducer: Reducer, order: &'a [usize], channel: usize) -> Scope<'a> {
    Scope {
        n_ranks: order.len(),
        nodes: &experiment.fabric.node_of,
        order,
        channel,
        n_channels: experiment.n_channels,
        wide: reducer.is_wide(),
        n_virtual: 1,
        // No piece is longer in its wider form.
        piece: experiment.piece_bytes / reducer.bytes(Form::Partial).max(reducer.bytes(Form::Element)),
    }
}

fn check(experiment: &Experiment) -> Result<(), Refused> {
    let n_ranks = experiment.fabric.n_ranks();
    let rates = [experiment.fabric.nic.bytes_per_s, experiment.fabric.intra.bytes_per_s];
    let odd_rates = experiment.fabric.odd_nics.iter().map(|odd| odd.2);
    let mistakes = [
        (n_ranks == 0, "there must be at least one rank"),
        (experiment.n_channels == 0, "there must be at least one channel"),
        (experiment.fabric.nics_per_host == 0, "a host must have at least one NIC"),
        (experiment.piece_bytes < LARGEST_ELEMENT_BYTES, "a piece must hold at least one element of 4 bytes"),
        (experiment.lose.is_some_and(|(rank, _)| rank >= n_ranks), "the rank to be lost does not exist"),
        (
            rates.into_iter().chain(odd_rates).any(|rate| rate <= 0.0 || rate.is_nan()),
            "a bandwidth must be positive",
        ),
        (
            experiment.fabric.reduced_bytes_per_s.is_nan() || experiment.fabric.reduced_bytes_per_s <= 0.0,
            "the rate of reducing must be positive",
        ),
    ];
    mistakes.iter().find(|(is_wrong, _)| *is_wrong).map_or(Ok(()), |(_, words)| Err(Refused::Number(words)))
}

fn algorithm(name: &str) -> Result<Algorithm, Refused> {
    let found = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name);
    found.ok_or_else(|| Refused::UnknownAlgorithm { name: name.to_owned() })
}

fn primitive(name: &str) -> Result<Primitive, Refused> {
    let found = PRIMITIVES.into_iter().find(|primitive| primitive.name() == name);
    found.ok_or_else(|| Refused::UnknownPrimitive { name: name.to_owned() })
}

fn names() -> String {
    Algorithm::ALL.map(Algorithm::name).join(", ")
}

/// Of an `f32`, whether element or partial sum.
const LARGEST_ELEMENT_BYTES: usize = 4;

const PRIMITIVES: [Primitive; 8] = [
    Primitive::AllReduce,
    Primitive::AllGather,
    Primitive::ReduceScatter,
    Primitive::Broadcast { root: 0 },
    Primitive::Reduce { root: 0 },
    Primitive::AllToAll,
    Primitive::Gather { root: 0 },
    Primitive::Scatter { root: 0 },
];
