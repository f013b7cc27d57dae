//! A process that is in a group.

use rsccl::summation::placement::models::Model;
use rsccl::summation::placement::strategy::Strategy;
use rsccl::summation::server::reduction::Reduction;
use rsccl::summation::tensor::{DataType, Declaration, Options};
use rsccl::summation::trial::{Failed, ID_BYTES, Setup, Traffic, Trial};
use rsccl::summation::worker::Settings;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Failure;
use crate::values::{Input, Values, write};

/// How a group is joined.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Join {
    id: String,
    n_workers: usize,
    n_servers: usize,
    rank: usize,
    partition_bytes: u64,
    /// By [`Strategy::name`].
    strategy: String,
    /// Floats of each tensor.
    elements: Vec<u64>,
    /// Whether there is one tensor more, of one element, for barriers.
    #[serde(default)]
    barrier: bool,
    /// Or the tensors of this model.
    model: Option<String>,
    credit_bytes_per_server: Option<u64>,
    frame_bytes: Option<u64>,
    /// Of each tensor: a lower one goes first.
    #[serde(default)]
    priorities: Vec<i32>,
    /// Whether all connections are sent to alike, however much each has to carry.
    #[serde(default)]
    sender_per_connection: bool,
    /// What the machine's NIC carries, in Mbit/s.
    nic_mbit: Option<u64>,
}

/// A process in a group.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) trial: Trial,
    pub(crate) worker: usize,
    pub(crate) n_workers: usize,
    /// Of each tensor but the barrier's.
    pub(crate) elements: Vec<usize>,
    pub(crate) barrier: Option<usize>,
}

impl Member {
    /// Joins and starts.
    pub(crate) fn join(join: Join) -> Result<Self, Failure> {
        let Join { n_workers, n_servers, rank, partition_bytes, .. } = join;
        let strategy = Strategy::from_name(&join.strategy);
        let strategy = strategy.ok_or_else(|| format!("there is no strategy {}", join.strategy))?;
        let default = Settings::of_link(join.nic_mbit, partition_bytes);
        let pipeline = Settings {
            credit_bytes_per_server: join.credit_bytes_per_server.unwrap_or(default.credit_bytes_per_server),
            frame_bytes: join.frame_bytes.unwrap_or(default.frame_bytes),
            in_proportion: !join.sender_per_connection,
            ..default
        };
        let setup =
            Setup { id: bytes(&join.id)?, n_workers, n_servers, rank, partition_bytes, strategy, pipeline };
        let mut trial = Trial::join(&setup)?;
        let elements = elements(&join)?;
        for (index, elements) in elements.iter().enumerate() {
            let priority = join.priorities.get(index).copied().unwrap_or(0);
            let options = Options { priority, ..Options::default() };
            trial.declare(tensor(format!("tensor {index}"), *elements), options)?;
        }
        let barrier = match join.barrier {
            true => Some(trial.declare(tensor("barrier".to_owned(), 1), Options::default())?),
            false => None,
        };
        trial.start()?;
        let elements = elements.into_iter().map(usize::try_from).collect::<Result<_, _>>()?;
        Ok(Self { trial, worker: rank, n_workers, elements, barrier })
    }

    /// What one round of all tensors takes of this machine's NIC.
    pub(crate) fn predicted(&self) -> Result<Value, Failure> {
        let load = self.trial.predicted()?;
        Ok(json!({
            "sent": load.sent_bytes,
            "received": load.received_bytes,
            "loop_back": load.loop_back_bytes,
        }))
    }

    /// Writes this worker's contribution to a tensor's round.
    pub(crate) fn contribute(&mut self, input: Input) -> Result<(), Failed> {
        let values = input.contribution(self.worker, self.elements[input.tensor]);
        write(values, self.trial.contribution(input.tensor)?);
        Ok(())
    }

    /// Waits until all workers are here.
    pub(crate) fn barrier(&mut self) -> Result<(), Failed> {
        let Some(tensor) = self.barrier else { return Ok(()) };
        self.trial.push(tensor, Reduction::Sum)?;
        self.trial.pull(tensor)?;
        self.trial.wait(tensor).map(drop)
    }

    /// Sums all tensors until that fails; why it did.
    pub(crate) fn until_failure(&mut self) -> String {
        loop {
            if let Err(failed) = self.once() {
                return failed.to_string();
            }
        }
    }

    /// Leaves the group.
    pub(crate) fn leave(self) -> Result<Traffic, Failed> {
        self.trial.leave()
    }

    fn once(&mut self) -> Result<(), Failed> {
        let tensors = 0..self.elements.len();
        tensors.clone().try_for_each(|tensor| {
            self.contribute(Input { values: Values::Fractions, tensor, round: 0 })?;
            self.trial.push(tensor, Reduction::Sum)?;
            self.trial.pull(tensor)
        })?;
        tensors.into_iter().try_for_each(|tensor| self.trial.wait(tensor).map(drop))
    }
}

fn tensor(name: String, elements: u64) -> Declaration {
    Declaration { name, elements, data_type: DataType::F32 }
}

fn elements(join: &Join) -> Result<Vec<u64>, Failure> {
    let Some(name) = &join.model else { return Ok(join.elements.clone()) };
    let model = Model::from_name(name).ok_or_else(|| format!("there is no model {name}"))?;
    Ok(model.tensors().into_iter().map(|tensor| tensor.elements).collect())
}

/// Two digits for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Result<[u8; ID_BYTES], Failure> {
    let byte = |start: usize| hex.get(start..start + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
    let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| format!("not the id of a group: {hex}").into())
}
