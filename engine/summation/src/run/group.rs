//! A group, as its callers see it. [`starting`] makes what its thread owns.

mod starting;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::coding::Residuals;
use super::measure::{measure, n_machines};
use super::members::{Members, Role};
use super::nics::{self, Nic};
use super::observe::{Compared, Watching};
use super::probe::Probe;
use super::requests::{Ending, Requests};
use super::terms::Terms;
use super::timeline::Timeline;
use super::wire::{Epochs, MAX_PART_BYTES};
use crate::config::GroupSettings;
use crate::placement::assign::Placement;
use crate::placement::strategy::Strategy;
use crate::server::reduction::Reduction;
use crate::server::sums::Mode;
use crate::tensor::{Declaration, Declarations, Options};
use crate::worker;
use rsccl_collective::clock;
use rsccl_collective::comm::init::{Request, init_as};
use rsccl_collective::comm::pending::Pending;
use rsccl_collective::comm::{Comm, CommConfig, registry};
use rsccl_collective::config::Settings;
use rsccl_collective::error::{Error, Result};
use rsccl_collective::log::{self, Level, subsystem};
use rsccl_collective::memory::Region;
use rsccl_collective::net::control::{Failure, Health};
use rsccl_collective::net::unique_id::UNIQUE_ID_BYTES;
use rsccl_collective::net::watch::SILENT;

/// What a process brings to a group.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The unique id, the same for all.
    pub(crate) id: [u8; UNIQUE_ID_BYTES],
    /// The same for all.
    pub(crate) members: Members,
    /// This process's.
    pub(crate) role: Role,
    /// What stays when members change, the same for all.
    pub(crate) session: u64,
    /// How often the members have changed, the same for all.
    pub(crate) epoch: u32,
    /// The same for all.
    pub(crate) mode: Mode,
    /// Bytes of a part at most, the same for all workers. Servers are told.
    pub(crate) partition_bytes: u64,
    /// Of each rank, the same for all.
    pub(crate) nics: Nics,
    /// Which service gets which part, the same for all.
    pub(crate) strategy: Strategy,
    /// Of the communicator.
    pub(crate) settings: Settings,
    /// How this process sums.
    pub(crate) sums: GroupSettings,
    /// A worker's, of the groups that it was in before too.
    pub(crate) residuals: Arc<Residuals>,
}

/// How fast NICs are, and a worker's pipeline for that.
#[derive(Clone, Debug)]
pub(crate) enum Nics {
    /// What processes know, by rank; where that is not told, it is measured.
    Known(Vec<Nic>),
    /// By rank, in Mbit/s, or all the same; with any pipeline.
    Given(Option<Vec<u64>>, worker::Settings),
}

/// A worker's or a server's place in a group: it declares the tensors, starts, and, as a worker, pushes and pulls them.
///
/// Every worker declares the same tensors in the same order, and submits the same contributions in any order; servers are
/// told what is declared. A worker may declare more later and start again, which all do then: what runs until then is
/// a generation, and rounds count from 0 in each. Who is dropped without [`Group::leave`] ends the group for all.
#[derive(Debug)]
pub(crate) struct Group {
    comm: Arc<Comm>,
    members: Members,
    role: Role,
    declarations: Declarations,
    epochs: Epochs,
    mode: Mode,
    /// What is known of each rank's NIC; nothing where rates were given.
    nics: Vec<Nic>,
    nic_mbit: Option<Vec<u64>>,
    strategy: Strategy,
    sums: GroupSettings,
    pipeline: worker::Settings,
    residuals: Arc<Residuals>,
    running: Option<Run>,
    watching: Option<Arc<Watching>>,
    timeline: Option<Arc<Timeline>>,
    has_left: bool,
}

#[derive(Debug)]
struct Run {
    requests: Arc<Requests>,
    /// How many tensors were declared at the start.
    n_tensors: usize,
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
#[derive(Clone, Debug)]
#[must_use = "the buffers are in use until it is over"]
pub(crate) struct Handle(pub(super) Ending);

impl Pushed {
    /// Of the contribution, and of its sum.
    pub(crate) fn size_bytes(&self) -> usize {
        self.size_bytes
    }
}

impl Handle {
    /// Whether the sum is there; nothing while it is not.
    pub(crate) fn poll(&self) -> Option<Result<()>> {
        self.0.poll()
    }

    /// Waits until the sum is there, but not longer than this; nothing while it is not.
    pub(crate) fn wait_for(&self, most: Duration) -> Option<Result<()>> {
        self.0.wait_for(most)
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
        let Plan {
            id,
            members,
            role,
            session,
            epoch,
            mode,
            partition_bytes,
            nics,
            strategy,
            mut settings,
            sums,
            residuals,
        } = plan;
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
        let request = Request {
            api: "summation",
            id,
            rank,
            n_ranks,
            config: CommConfig::default(),
            device: None,
            split: None,
            kin: None,
        };
        settings.reported.extend(sums.reported.iter().cloned());
        let watching = Watching::new(&sums, session);
        let timeline = sums.timeline.as_deref().map(Timeline::new).transpose()?.map(Arc::new);
        let comm = init_as(request, settings, &Pending::new())?;
        // Known to the process, so that it tells its peers of a failure when it exits. Who exits without leaving is lost.
        comm.stay_awaited();
        registry::insert(Arc::clone(&comm));
        let (nics, nic_mbit, pipeline) = match nics {
            Nics::Known(nics) => found_out(&comm, nics, partition_bytes)?,
            Nics::Given(nic_mbit, pipeline) => (Vec::new(), nic_mbit, pipeline),
        };
        let epochs = Epochs { membership: epoch, placement: 0 };
        let (running, has_left) = (None, false);
        Ok(Self {
            comm,
            members,
            role,
            declarations,
            epochs,
            mode,
            nics,
            nic_mbit,
            strategy,
            sums,
            pipeline,
            residuals,
            running,
            watching,
            timeline,
            has_left,
        })
    }

    /// Declares a tensor, from the next start on; its index.
    ///
    /// # Errors
    /// This is no worker, the name is taken, or there would be too many parts or bytes.
    pub(crate) fn declare(&mut self, tensor: Declaration, options: Options) -> Result<usize> {
        if let Role::Server(server) = self.role {
            return Err(Error::InvalidUsage(format!("server {server} is told what is declared")));
        }
        self.check_mode(&tensor.name, &options)?;
        let declared = self.declarations.declare_with(tensor, options);
        declared.map_err(|error| Error::InvalidArgument(error.to_string()))
    }

    /// Whether tensors were declared that the group does not sum yet.
    pub(crate) fn is_behind(&self) -> bool {
        self.running.as_ref().is_none_or(|run| run.n_tensors < self.declarations.tensors().len())
    }

    /// Waits until all workers have declared the same. Where the group has started before, the open rounds end first.
    ///
    /// # Errors
    /// Others have declared something else: the first tensor that differs is named. Or a rank is lost.
    pub(crate) fn start(&mut self) -> Result<()> {
        self.launch()?.wait_for_start()
    }

    /// The same without the wait.
    fn launch(&mut self) -> Result<Arc<Requests>> {
        if self.running.is_some() {
            self.end_generation(false)?;
            self.epochs.placement = self.epochs.placement.wrapping_add(1);
        }
        let terms =
            Terms::new(self.members, self.comm.rank, (self.epochs, self.mode), self.nic_mbit.as_deref())?;
        let terms = terms.with(self.strategy).on(self.comm.hosts(), self.sums.local_sums)?;
        let requests = Arc::new(Requests::new(Arc::clone(&self.comm.health)));
        let driver =
            self.driver(terms.clone(), &requests).map_err(|error| self.fail_start(&terms, &error))?;
        let thread = std::thread::Builder::new().name("rsccl-summation".to_owned());
        let thread = thread.spawn(move || driver.run());
        let thread = Some(thread.map_err(|error| Error::system("starting a group's thread", &error))?);
        let n_tensors = self.declarations.tensors().len();
        self.running = Some(Run { requests: Arc::clone(&requests), n_tensors, thread });
        Ok(requests)
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
        self.pull(&pushed, recv)
    }

    /// The first half of [`Self::push_pull`]. Waits while very many contributions are open.
    ///
    /// # Errors
    /// This is no worker, there is no such tensor, the buffer has another size, so many are open and not pulled, or the group has
    /// ended.
    pub(crate) fn push(&self, tensor: usize, send: Region, reduction: Reduction) -> Result<Pushed> {
        let run = self.run()?;
        if let Role::Server(server) = self.role {
            return Err(Error::InvalidUsage(format!("server {server} has no contributions")));
        }
        if reduction == Reduction::Average && self.mode != Mode::Rounds {
            let text = "a group that sums asynchronously has no averages: push differences, and sum them";
            return Err(Error::InvalidUsage(text.to_owned()));
        }
        let declared = self.declarations.tensors().get(tensor).filter(|_| tensor < run.n_tensors);
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
    pub(crate) fn pull(&self, pushed: &Pushed, recv: Region) -> Result<Handle> {
        check_size(recv, pushed.size_bytes)?;
        Ok(Handle(self.run()?.requests.pull(pushed.ticket, recv)))
    }

    /// Asks the present generation's thread.
    pub(crate) fn probe(&self) -> Option<Probe> {
        self.running.as_ref().map(|run| Probe(Arc::clone(&run.requests)))
    }

    /// Who owns what, once the group has started.
    pub(crate) fn placement(&self) -> Option<Arc<Placement>> {
        self.running.as_ref().and_then(|run| run.requests.placement())
    }

    /// Waits until all sums are there, and all workers need this process no more. A server serves until then, however
    /// often the workers declare more.
    ///
    /// # Errors
    /// The group has failed: the error names the rank.
    pub(crate) fn leave(mut self) -> Result<()> {
        self.finish()
    }

    /// The same, because a group with other members follows.
    ///
    /// # Errors
    /// As [`Self::leave`].
    pub(crate) fn suspend(&mut self) -> Result<()> {
        self.watching.iter().for_each(|watching| watching.suspend());
        self.finish()
    }

    /// The same, with the communicator still there.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.serve(|_, _| {})
    }

    /// The same; `tell` is told of each generation: that it waits for its workers, and that all have `agreed`.
    pub(crate) fn serve(&mut self, mut tell: impl FnMut(&Self, bool)) -> Result<()> {
        let mut start = |group: &mut Self| {
            let requests = group.launch()?;
            tell(group, false);
            requests.wait_for_start()?;
            tell(group, true);
            Ok(())
        };
        if self.running.is_none() {
            start(self)?;
        }
        while self.end_generation(true)? {
            self.epochs.placement = self.epochs.placement.wrapping_add(1);
            self.running = None;
            start(self)?;
        }
        self.has_left = true;
        Ok(())
    }

    /// Tells who watches what a comparison of the parameters has come to. A difference is known when this returns.
    pub(crate) fn compared(&self, compared: Compared) {
        let Some(watching) = &self.watching else { return };
        watching.compared(compared, || self.comm.health.wake_runner());
    }

    /// What is known of each rank's NIC.
    pub(crate) fn nics(&self) -> &[Nic] {
        &self.nics
    }

    /// Whether it has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.comm.health.has_failed()
    }

    /// The rank whose silence was the end of the group, if that is why it has failed: its process may still be there.
    pub(crate) fn silent(&self) -> Option<usize> {
        let failure = self.comm.health.failure().filter(|failure| failure.what.contains(SILENT))?;
        self.comm.names.iter().position(|name| failure.what.starts_with(name.as_str()))
    }

    /// The generation.
    pub(crate) fn placement_epoch(&self) -> u32 {
        self.epochs.placement
    }

    /// What tells of the group's end, and can end it.
    pub(crate) fn health(&self) -> Arc<Health> {
        Arc::clone(&self.comm.health)
    }

    /// From the next start on, this watches.
    #[cfg(test)]
    pub(super) fn watch(&mut self, watching: Arc<Watching>) {
        self.watching = Some(watching);
    }

    /// The communicator, with the connections once the group has [finished](Self::finish).
    pub(super) fn comm(&self) -> &Comm {
        &self.comm
    }

    /// Whether the workers go on with another generation; only a server does not know that before.
    fn end_generation(&mut self, is_last: bool) -> Result<bool> {
        let Some(run) = &mut self.running else { return Err(not_started()) };
        run.requests.close(is_last);
        if let Some(Err(_)) = run.thread.take().map(JoinHandle::join) {
            return Err(Error::Internal("a group's thread panicked".to_owned()));
        }
        run.requests.wait_for_end()?;
        Ok(matches!(self.role, Role::Server(_)) && run.requests.goes_on())
    }

    /// A store is not carried over to the next generation, and keeps what comes as it comes.
    ///
    /// # Errors
    /// The tensor cannot be declared for that: why.
    pub(crate) fn check_mode(&self, name: &str, options: &Options) -> Result<()> {
        let why = match self.mode {
            Mode::Store { .. } if options.codec.is_some() => "tensors have no codecs",
            Mode::Store { .. } if self.running.is_some() => "all tensors are declared before the first push",
            _ => return Ok(()),
        };
        Err(Error::InvalidUsage(format!("tensor {name:?}: in a group that sums asynchronously, {why}")))
    }

    fn run(&self) -> Result<&Run> {
        self.running.as_ref().ok_or_else(not_started)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.has_left {
            let what = format!("{} gave up the summation group", self.comm.names[self.comm.rank]);
            self.comm.health.fail(Failure::new(6, what));
            let _ = self.end_generation(true);
        }
        self.comm.destroy();
        let _ = registry::remove(self.comm.identity.handle);
    }
}

/// Measures what nobody was told. All of it, each rank's share of its machine's NIC, and a pipeline for this rank's.
fn found_out(
    comm: &Arc<Comm>,
    mut nics: Vec<Nic>,
    partition_bytes: u64,
) -> Result<(Vec<Nic>, Option<Vec<u64>>, worker::Settings)> {
    let machines = comm.hosts();
    let n_machines = n_machines(machines)?;
    if let Some(wanted) = nics::wanted(&nics, machines, n_machines) {
        let (start_ns, before) = (clock::monotonic_ns(), nics::measured(&nics, machines, n_machines));
        nics::with_measured(&mut nics, machines, &measure(comm, machines, &wanted, &before)?);
        let took_ms = clock::monotonic_ns().saturating_sub(start_ns) / 1_000_000;
        let known = nics.iter().enumerate().map(|(rank, nic)| format!("{}: {nic}", comm.names[rank]));
        let known = known.collect::<Vec<_>>().join("; ");
        let text = format!("{}: NICs in Mbit/s after {took_ms} ms: {known}", comm.name());
        log::write(Level::Info, subsystem::ALL, comm.rank, &text);
    }
    let shares = nics::shares(&nics, machines);
    let own_mbit = shares.as_ref().and_then(|rates| rates.get(comm.rank)).copied();
    Ok((nics, shares, worker::Settings::of_link(own_mbit, partition_bytes)))
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
