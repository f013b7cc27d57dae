//! One process of a group with buffers of its own, as experiments need it: every setting that a placement or a pipeline
//! has, and at the end the account of what went over the network. It is no API for training.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::agree;
use super::group::{Group, Handle, Nics, Plan, Pushed};
use super::members::{Members, Role};
use super::wire::PUSH_CHANNEL;
use crate::config::GroupSettings;
use crate::placement::machines::Machines;
use crate::placement::predict::{Load, predict};
use crate::placement::strategy::Strategy;
use crate::server::reduction::Reduction;
use crate::server::sums::Mode;
use crate::tensor::{Declaration, Declarations, Options};
use crate::worker;
use rsccl_collective::clock;
use rsccl_collective::config::Settings;
use rsccl_collective::error::Error;
use rsccl_collective::lock::lock;
use rsccl_collective::memory::Region;
use rsccl_collective::net::root;
use rsccl_collective::net::unique_id::UNIQUE_ID_BYTES;

/// Bytes of the id of a group.
pub const ID_BYTES: usize = UNIQUE_ID_BYTES;

/// What a process brings to a group. The environment has the rest: `RSCCL_NICS` and so on.
#[derive(Clone, Debug)]
pub struct Setup {
    /// From [`new_id`], the same for all.
    pub id: [u8; ID_BYTES],
    /// n, the same for all.
    pub n_workers: usize,
    /// k, the same for all.
    pub n_servers: usize,
    /// Of this process: workers come first.
    pub rank: usize,
    /// Bytes of a part at most, the same for all.
    pub partition_bytes: u64,
    /// Which service gets which part, the same for all.
    pub strategy: Strategy,
    /// Of a worker's pipeline.
    pub pipeline: worker::Settings,
}

/// Why something failed, with the rank to blame where there is one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failed(String);

/// Payload that went over the network in all rounds, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// By this process.
    pub sent_bytes: u64,
    /// To this process.
    pub received_bytes: u64,
    /// Of those sent, contributions; the rest are sums.
    pub pushed_bytes: u64,
}

/// A process of a group.
#[derive(Debug)]
pub struct Trial {
    // Before the buffers, which the group uses until it is gone.
    group: Group,
    /// On a server too, which is told.
    declared: Declarations,
    tensors: Vec<Tensor>,
    n_workers: usize,
    n_servers: usize,
    rank: usize,
}

#[derive(Debug)]
struct Tensor {
    contribution: Vec<u8>,
    sum: Vec<u8>,
    open: Option<Open>,
}

#[derive(Debug)]
enum Open {
    Pushed(Pushed),
    Pulled(Handle),
}

/// An id for a group whose processes meet at this address; this process has to stay until all have.
///
/// # Errors
/// There can be no listener.
pub fn new_id(address: IpAddr) -> Result<[u8; ID_BYTES], Failed> {
    Ok(root::start(address, JOIN_PATIENCE)?.to_bytes())
}

/// Nanoseconds of the clock that all processes of a machine share.
pub fn now_ns() -> u64 {
    clock::monotonic_ns()
}

impl Trial {
    /// Joins a group, which all its processes do.
    ///
    /// # Errors
    /// There is no such rank, or the group cannot be made.
    pub fn join(setup: &Setup) -> Result<Self, Failed> {
        let Setup { id, n_workers, n_servers, rank, partition_bytes, strategy, pipeline } = *setup;
        let role = rank.checked_sub(n_workers).map_or(Role::Worker(rank), Role::Server);
        let members = Members { n_workers, n_servers };
        let (settings, sums) = (Settings::from_env()?, GroupSettings::from_env()?);
        let (session, epoch) = (1, 0);
        let plan = Plan {
            id,
            members,
            role,
            session,
            epoch,
            mode: Mode::Rounds,
            partition_bytes,
            nics: Nics::Given(None, pipeline),
            strategy,
            settings,
            sums,
            residuals: Arc::default(),
        };
        let declared = Declarations::new(partition_bytes).map_err(|error| Failed(error.to_string()))?;
        Ok(Self { group: Group::join(plan)?, declared, tensors: Vec::new(), n_workers, n_servers, rank })
    }

    /// Declares a tensor before the start, its number; all workers declare the same ones. Servers are told what they are.
    ///
    /// # Errors
    /// The name is taken.
    pub fn declare(&mut self, tensor: Declaration, options: Options) -> Result<usize, Failed> {
        let declared = self.declared.declare_with(tensor.clone(), options);
        let declared = declared.map_err(|error| Failed(error.to_string()))?;
        if self.rank >= self.n_workers {
            return Ok(declared);
        }
        let size = tensor.elements.saturating_mul(tensor.data_type.size_bytes() as u64);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let tensor = self.group.declare(tensor, options)?;
        self.tensors.push(Tensor { contribution: vec![0; size], sum: vec![0; size], open: None });
        Ok(tensor)
    }

    /// Connects to the others and waits until all have declared the same.
    ///
    /// # Errors
    /// Others have declared something else, or a rank is lost.
    pub fn start(&mut self) -> Result<(), Failed> {
        Ok(self.group.start()?)
    }

    /// What this worker contributes to the next round of a tensor.
    ///
    /// # Errors
    /// There is no such tensor, or its round is not over.
    pub fn contribution(&mut self, tensor: usize) -> Result<&mut [u8], Failed> {
        let tensor = self.tensor(tensor)?;
        if tensor.open.is_some() { Err(open()) } else { Ok(&mut tensor.contribution) }
    }

    /// Contributes to the next round of a tensor.
    ///
    /// # Errors
    /// As [`Self::contribution`], and where the group has ended.
    pub fn push(&mut self, tensor: usize, reduction: Reduction) -> Result<(), Failed> {
        let region = Region::of_slice_mut(self.contribution(tensor)?);
        let pushed = self.group.push(tensor, region, reduction)?;
        self.tensor(tensor)?.open = Some(Open::Pushed(pushed));
        Ok(())
    }

    /// Asks for the sum of what was pushed last.
    ///
    /// # Errors
    /// Nothing is pushed, or the group has ended.
    pub fn pull(&mut self, tensor: usize) -> Result<(), Failed> {
        let of = self.tensor(tensor)?;
        let Some(Open::Pushed(pushed)) = of.open.take() else { return Err(nothing_open()) };
        let region = Region::of_slice_mut(&mut of.sum);
        let handle = self.group.pull(&pushed, region)?;
        self.tensor(tensor)?.open = Some(Open::Pulled(handle));
        Ok(())
    }

    /// Whether a sum that was asked for is there, or will never be.
    pub fn is_over(&self, tensor: usize) -> bool {
        match self.tensors.get(tensor).and_then(|tensor| tensor.open.as_ref()) {
            Some(Open::Pulled(handle)) => handle.poll().is_some(),
            Some(Open::Pushed(_)) => false,
            None => true,
        }
    }

    /// Waits for a sum that was asked for.
    ///
    /// # Errors
    /// None was asked for, or the group has failed.
    pub fn wait(&mut self, tensor: usize) -> Result<&[u8], Failed> {
        let of = self.tensor(tensor)?;
        let Some(Open::Pulled(handle)) = of.open.take() else { return Err(nothing_open()) };
        handle.wait()?;
        Ok(&of.sum)
    }

    /// The sum that was waited for last.
    ///
    /// # Errors
    /// There is no such tensor, or its round is not over.
    pub fn sum(&self, tensor: usize) -> Result<&[u8], Failed> {
        let of = self.tensors.get(tensor).filter(|tensor| tensor.open.is_none());
        of.map(|tensor| tensor.sum.as_slice()).ok_or_else(open)
    }

    /// What one round of all tensors takes of this process's machine, by its placement.
    ///
    /// # Errors
    /// The group has not started.
    pub fn predicted(&self) -> Result<Load, Failed> {
        let machines = Machines::even(self.n_workers, self.n_servers, 1);
        let machines = machines.map_err(|refused| Failed(refused.to_string()))?;
        let placement =
            self.group.placement().ok_or_else(|| Failed("the group has not started".to_owned()))?;
        let members = Members { n_workers: self.n_workers, n_servers: self.n_servers };
        let loads = predict(&machines, &placement);
        let own = loads.loads().get(members.service_of_rank(self.rank)).copied();
        own.ok_or_else(|| Failed(format!("rank {} has no service", self.rank)))
    }

    /// Leaves the group once nobody needs this process any more, which for a server is when the workers have left.
    ///
    /// # Errors
    /// The group has failed.
    pub fn leave(mut self) -> Result<Traffic, Failed> {
        self.group.finish()?;
        let ends = lock(&self.group.comm().engine).links.traffic();
        let mut traffic = Traffic::default();
        for end in ends {
            match (end.is_send, end.channel == PUSH_CHANNEL) {
                (true, true) => traffic.pushed_bytes += end.payload_bytes,
                (false, _) => traffic.received_bytes += end.payload_bytes,
                (true, false) => {}
            }
            traffic.sent_bytes += if end.is_send { end.payload_bytes } else { 0 };
        }
        // Worker 0 told every server what is declared, which is no gradient.
        let list_bytes = agree::list(&self.declared)?.len() as u64;
        let sent_bytes = if self.rank == 0 { self.n_servers as u64 * list_bytes } else { 0 };
        let received_bytes = if self.rank >= self.n_workers { list_bytes } else { 0 };
        Ok(Traffic {
            sent_bytes: traffic.sent_bytes.saturating_sub(sent_bytes),
            received_bytes: traffic.received_bytes.saturating_sub(received_bytes),
            pushed_bytes: traffic.pushed_bytes.saturating_sub(sent_bytes),
        })
    }

    fn tensor(&mut self, tensor: usize) -> Result<&mut Tensor, Failed> {
        self.tensors.get_mut(tensor).ok_or_else(|| Failed(format!("there is no tensor {tensor}")))
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

fn open() -> Failed {
    Failed("the tensor's round is not over".to_owned())
}

fn nothing_open() -> Failed {
    Failed("nothing was pushed, or no sum asked for".to_owned())
}

/// For the last process of a group after the first one.
const JOIN_PATIENCE: Duration = Duration::from_secs(30);
