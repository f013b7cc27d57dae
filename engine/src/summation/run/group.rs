//! A group, as its callers see it.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::agree::Agreement;
use super::contributing::Contributing;
use super::driver::{Driver, break_off};
use super::line::Line;
use super::members::{Members, Role};
use super::requests::{Ending, Requests};
use super::serving::Serving;
use super::wire::{ANSWER_CHANNEL, MAX_PART_BYTES, PUSH_CHANNEL, Wire};
use crate::comm::init::{Request, init_as};
use crate::comm::links::Links;
use crate::comm::making::Making;
use crate::comm::{Comm, CommConfig};
use crate::config::Settings;
use crate::error::{Error, Result};
use crate::memory::Region;
use crate::net::control::{Failure, lock};
use crate::net::unique_id::UNIQUE_ID_BYTES;
use crate::summation::placement::assign::Placement;
use crate::summation::placement::machines::Machines;
use crate::summation::placement::shares::Shares;
use crate::summation::server::message::Epochs;
use crate::summation::server::part::{Association, Part, Reduction};
use crate::summation::server::service::Service;
use crate::summation::tensor::{Declaration, Declarations};
use crate::summation::worker::{self, Pipeline};
use crate::types::DataType;

/// The rate that all NICs count as having, in bytes per second: only their proportions matter to a placement.
const NIC_BYTES_PER_S: u64 = 1 << 30;

/// What a process brings to a group.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The unique id, the same for all.
    pub(crate) id: [u8; UNIQUE_ID_BYTES],
    /// The same for all.
    pub(crate) members: Members,
    /// This process's.
    pub(crate) role: Role,
    /// Bytes of a part at most, the same for all.
    pub(crate) partition_bytes: u64,
    /// Of the communicator.
    pub(crate) settings: Settings,
    /// Of a worker's pipeline.
    pub(crate) pipeline: worker::Settings,
}

/// A worker's or a server's place in a group: it declares the tensors, starts, and, as a worker, pushes and pulls them.
///
/// Every process declares the same tensors in the same order, and every worker submits the same contributions in the same
/// order. Who is dropped without [`Group::leave`] ends the group for all.
#[derive(Debug)]
pub(crate) struct Group {
    comm: Arc<Comm>,
    members: Members,
    role: Role,
    declarations: Declarations,
    pipeline: worker::Settings,
    running: Option<Run>,
    has_left: bool,
}

#[derive(Debug)]
struct Run {
    requests: Arc<Requests>,
    declarations: Arc<Declarations>,
    placement: Arc<Placement>,
    thread: Option<JoinHandle<()>>,
}

/// A contribution that was submitted: its sum is to be pulled, as all workers' next round of the tensor waits for that.
#[derive(Debug)]
#[must_use = "the group waits until the sum is pulled"]
pub(crate) struct Pushed {
    ticket: u64,
    size_bytes: usize,
}

/// A sum that is to come.
#[derive(Debug)]
#[must_use = "the buffers are in use until it is over"]
pub(crate) struct Handle(Ending);

impl Handle {
    /// Whether the sum is there; nothing while it is not.
    pub(crate) fn poll(&self) -> Option<Result<()>> {
        self.0.poll()
    }

    /// Waits until the sum is there.
    ///
    /// # Errors
    /// The group has failed: the error names the rank.
    pub(crate) fn wait(&self) -> Result<()> {
        self.0.wait()
    }
}

impl Group {
    /// Joins a group, which all its processes do.
    ///
    /// # Errors
    /// There is no such role, parts would be too small or too large, or the communicator cannot be made.
    pub(crate) fn join(plan: Plan) -> Result<Self> {
        let Plan { id, members, role, partition_bytes, settings, pipeline } = plan;
        if !members.has(role) {
            return Err(Error::InvalidArgument(format!("there is no {role:?} among {members:?}")));
        }
        if partition_bytes > MAX_PART_BYTES {
            let text =
                format!("parts of {partition_bytes} bytes are too large; at most {MAX_PART_BYTES} work");
            return Err(Error::InvalidArgument(text));
        }
        let declarations = Declarations::new(partition_bytes);
        let declarations = declarations.map_err(|error| Error::InvalidArgument(error.to_string()))?;
        let (rank, n_ranks) = (members.rank(role), members.n_ranks());
        let request =
            Request { api: "summation", id, rank, n_ranks, config: CommConfig::default(), split: None };
        let comm = init_as(request, settings, &Making::new())?;
        Ok(Self { comm, members, role, declarations, pipeline, running: None, has_left: false })
    }

    /// Declares a tensor, before the start; its index.
    ///
    /// # Errors
    /// The group has started, the name is taken, or there would be too many parts or bytes.
    pub(crate) fn declare(&mut self, name: &str, elements: u64, data_type: DataType) -> Result<usize> {
        if self.running.is_some() {
            return Err(Error::InvalidUsage(format!("{name:?} is declared after the group's start")));
        }
        let declared = self.declarations.declare(Declaration { name: name.to_owned(), elements, data_type });
        declared.map_err(|error| Error::InvalidArgument(error.to_string()))
    }

    /// Connects to the others and waits until all have declared the same.
    ///
    /// # Errors
    /// Others have declared something else: the first tensor that differs is named. Or a rank is lost.
    pub(crate) fn start(&mut self) -> Result<()> {
        if self.running.is_some() {
            return Err(Error::InvalidUsage("the group has started already".to_owned()));
        }
        let declarations = Arc::new(self.declarations.clone());
        let Members { n_workers, n_servers } = self.members;
        let machines = Machines::even(n_workers, n_servers, NIC_BYTES_PER_S);
        let machines = machines.map_err(|error| Error::InvalidArgument(error.to_string()))?;
        let placement = Arc::new(Placement::by_shares(0, &declarations, &Shares::optimal(&machines)));
        let requests = Arc::new(Requests::new(Arc::clone(&self.comm.health)));
        let driver = self.driver(&declarations, &placement, &Shares::optimal(&machines), &requests);
        let driver = driver.map_err(|error| break_off(&self.comm, &error))?;
        let thread = std::thread::Builder::new().name("rsccl-summation".to_owned());
        let thread = thread.spawn(move || driver.run());
        let thread = Some(thread.map_err(|error| Error::system("starting a group's thread", &error))?);
        self.running = Some(Run { requests: Arc::clone(&requests), declarations, placement, thread });
        requests.wait_for_start()
    }

    /// Contributes `send` to the next round of a tensor, and gets the sum over all workers, or its average, in `recv`, which
    /// may be the same memory. Both stay the group's until the handle is over.
    ///
    /// # Errors
    /// This is no worker, there is no such tensor, a buffer has another size, or the group has ended.
    pub(crate) fn push_pull(
        &self,
        tensor: usize,
        send: Region,
        recv: Region,
        reduction: Reduction,
    ) -> Result<Handle> {
        let pushed = self.push(tensor, send, reduction)?;
        self.pull(pushed, recv)
    }

    /// The first half of [`Self::push_pull`]. Waits while very many contributions are open.
    ///
    /// # Errors
    /// This is no worker, there is no such tensor, the buffer has another size, or the group has ended.
    pub(crate) fn push(&self, tensor: usize, send: Region, reduction: Reduction) -> Result<Pushed> {
        let run = self.run()?;
        if let Role::Server(server) = self.role {
            return Err(Error::InvalidUsage(format!("server {server} has no contributions")));
        }
        let declared = run.declarations.tensors().get(tensor);
        let declared =
            declared.ok_or_else(|| Error::InvalidArgument(format!("there is no tensor {tensor}")))?;
        let size_bytes = declared.elements.saturating_mul(declared.data_type.size_bytes() as u64);
        let size_bytes = usize::try_from(size_bytes).unwrap_or(usize::MAX);
        check_size(send, size_bytes)?;
        let ticket = run.requests.push(tensor, send, reduction)?;
        Ok(Pushed { ticket, size_bytes })
    }

    /// The second half of [`Self::push_pull`].
    ///
    /// # Errors
    /// The buffer has another size.
    pub(crate) fn pull(&self, pushed: Pushed, recv: Region) -> Result<Handle> {
        check_size(recv, pushed.size_bytes)?;
        Ok(Handle(self.run()?.requests.pull(pushed.ticket, recv)))
    }

    /// Who owns what, once the group has started.
    pub(crate) fn placement(&self) -> Option<&Placement> {
        self.running.as_ref().map(|run| run.placement.as_ref())
    }

    /// Waits until all sums are there, and all workers need this process no more. A server serves until then.
    ///
    /// # Errors
    /// The group has failed: the error names the rank.
    pub(crate) fn leave(mut self) -> Result<()> {
        self.finish()
    }

    /// The same, with the communicator still there.
    pub(super) fn finish(&mut self) -> Result<()> {
        let Some(run) = &mut self.running else { return Err(not_started()) };
        run.requests.close();
        if let Some(Err(_)) = run.thread.take().map(JoinHandle::join) {
            return Err(Error::Internal("a group's thread panicked".to_owned()));
        }
        run.requests.wait_for_end()?;
        self.has_left = true;
        Ok(())
    }

    /// The communicator, with the connections once the group has [finished](Self::finish).
    #[cfg(test)]
    pub(super) fn comm(&self) -> &Comm {
        &self.comm
    }

    fn run(&self) -> Result<&Run> {
        self.running.as_ref().ok_or_else(not_started)
    }

    fn driver(
        &self,
        declarations: &Arc<Declarations>,
        placement: &Arc<Placement>,
        shares: &Shares,
        requests: &Arc<Requests>,
    ) -> Result<Driver> {
        let mut links = std::mem::take(&mut lock(&self.comm.engine).links);
        let (comm, members) = (&self.comm, self.members);
        let epochs = Epochs { membership: 0, placement: placement.epoch() };
        let wire = Wire::new(epochs);
        // Bounded by server alone: with a bound over all of them, two workers could each have taken all of it for another
        // server's parts, and wait for each other.
        let settings = worker::Settings { credit_bytes: u64::MAX, ..self.pipeline };
        let frame_bytes = usize::try_from(settings.frame_bytes).unwrap_or(usize::MAX);

        let to_workers = lines(comm, &mut links, 0..members.n_workers, PUSH_CHANNEL, ANSWER_CHANNEL)?;
        let service = service(members, comm.rank, declarations, placement, epochs);
        let mut n_lines = to_workers.iter().flatten().count();
        let serving =
            Serving::new(service, wire, Arc::clone(declarations), frame_bytes, comm.rank, to_workers);
        let contributing = match self.role {
            Role::Server(_) => None,
            Role::Worker(worker) => {
                let ranks = (0..members.n_ranks()).map(|service| members.rank_of_service(service));
                let to_services = lines(comm, &mut links, ranks, ANSWER_CHANNEL, PUSH_CHANNEL)?;
                n_lines += to_services.iter().flatten().count();
                let first_server = worker * members.n_ranks() / members.n_workers;
                let pipeline =
                    Pipeline::new(&shares.fractions(), worker::Settings { first_server, ..settings });
                let (declarations, placement) = (Arc::clone(declarations), Arc::clone(placement));
                Some(Contributing::new(worker, pipeline, wire, declarations, placement, to_services))
            }
        };
        Ok(Driver {
            comm: Arc::clone(comm),
            requests: Arc::clone(requests),
            links,
            agreement: Agreement::new(declarations, members, n_lines),
            contributing,
            serving,
            has_started: false,
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.has_left {
            let what = format!("{} gave up the summation group", self.comm.names[self.comm.rank]);
            self.comm.health.fail(Failure { code: 6, what });
            let _ = self.finish();
        }
        self.comm.destroy();
    }
}

fn not_started() -> Error {
    Error::InvalidUsage("the group has not started".to_owned())
}

fn check_size(region: Region, size_bytes: usize) -> Result<()> {
    if region.len() == size_bytes {
        return Ok(());
    }
    let text = format!("a buffer of {} bytes for a tensor of {size_bytes} bytes", region.len());
    Err(Error::InvalidArgument(text))
}

/// A connection each way with each of these ranks but the own one, which has none.
fn lines(
    comm: &Comm,
    links: &mut Links,
    ranks: impl Iterator<Item = usize>,
    recv_channel: u32,
    send_channel: u32,
) -> Result<Vec<Option<Line>>> {
    let line = |peer: usize| {
        if peer == comm.rank {
            return Ok(None);
        }
        links.sends.connect(send_channel, peer, comm.open_send(send_channel, peer)?);
        if let Some(half) = comm.open_shared_recv(recv_channel, peer)? {
            links.recvs.connect(recv_channel, peer, half);
        }
        let (recv, send) = (links.recvs.index(recv_channel, peer), links.sends.index(send_channel, peer));
        Ok(Some(Line::new(peer, recv, send)))
    };
    ranks.map(line).collect()
}

/// Of the parts that the placement gives to a rank.
fn service(
    members: Members,
    rank: usize,
    declarations: &Declarations,
    placement: &Placement,
    epochs: Epochs,
) -> Service {
    let number = members.service_of_rank(rank);
    let owned = declarations
        .parts()
        .filter(|part| placement.owner(part.key).is_some_and(|owner| usize::from(owner) == number));
    let part = |part: crate::summation::tensor::Part| {
        let data_type = declarations.tensors()[part.tensor].data_type;
        (part.key, Part { count: usize::try_from(part.elements).unwrap_or(usize::MAX), data_type })
    };
    Service::new(members.n_workers, owned.map(part), Association::default(), epochs)
}
