//! A worker's place in the groups of its job, one after the other, and what it has declared for all of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::handles::Handles;
use super::pool::job::Borrower;
use super::pool::message::{JobId, Lending};
use super::rendezvous::caller::Caller;
use super::rendezvous::meeting::{Call, CallOff, Limit, Met};
use super::rendezvous::message::{Membership, Seat, Wanted};
use super::rendezvous::root::{self, Root};
use crate::codec::Choice;
use crate::config::{GroupSettings, SummationSettings};
use crate::gpu::{Carrier, Contribution, Submission};
use crate::placement::strategy::Strategy;
use crate::run::coding::Residuals;
use crate::run::group::{Group, Handle, Nics, Plan};
use crate::run::nics::Nic;
use crate::run::observe::Compared;
use crate::server::reduction::Reduction;
use crate::tensor::{Asked, Declaration, Declarations};
use rsccl_collective::config::Settings;
use rsccl_collective::error::{Error, Result};
use rsccl_collective::lock::lock;
use rsccl_collective::log::{self, Level, subsystem};
use rsccl_collective::memory::Region;
use rsccl_collective::net::nic;
use rsccl_collective::net::unique_id::UNIQUE_ID_BYTES;
use rsccl_collective::types::DataType;

/// A worker in its job.
#[derive(Debug)]
pub(crate) struct Session {
    settings: SummationSettings,
    comm: Settings,
    declared: Mutex<Declarations>,
    /// None between two groups.
    place: RwLock<Option<Place>>,
    /// Of the place, for who asks while another thread waits for the next one.
    numbers: Mutex<Option<Numbers>>,
    caller: Mutex<Option<Caller>>,
    root: Option<Root>,
    /// What the codecs of its contributions have left out, in all groups.
    residuals: Arc<Residuals>,
    /// By host id: rates of NICs that were measured in groups before, in Mbit/s.
    measured: Mutex<BTreeMap<String, u32>>,
    /// Of a job whose servers a pool lends, at its worker 0.
    borrower: Mutex<Option<Borrower>>,
    /// How many servers an operator has said that the job is to have, as all workers know: any may become worker 0.
    pinned: Mutex<Option<usize>>,
    /// Why there is no group, where a process was lost between two.
    lost: Mutex<Option<String>>,
    /// What callers have submitted.
    pub(crate) handles: Handles,
    /// Calls whose memory is a GPU's.
    carrier: Carrier,
}

/// A place in the present group.
#[derive(Debug)]
struct Place {
    membership: Membership,
    group: Group,
    /// Tensors that the group knows.
    n_declared: usize,
}

/// What is asked of the present group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// Of this worker.
    pub(crate) rank: usize,
    /// Workers.
    pub(crate) size: usize,
    /// Of this worker, among those of its host.
    pub(crate) local_rank: usize,
    /// Workers of its host.
    pub(crate) local_size: usize,
    /// Servers.
    pub(crate) servers: usize,
    /// How often the members have changed.
    pub(crate) epoch: u32,
    /// The same for all groups of a job.
    session: u64,
}

impl Session {
    /// Joins the first group, as the environment says.
    ///
    /// # Errors
    /// The settings are wrong, nobody is at the rendezvous, one is not let in, or there is no group: why.
    pub(crate) fn from_env() -> Result<Self> {
        let settings = SummationSettings::worker_from_env()?;
        let comm = settings.over_network(Settings::from_env()?)?;
        Self::join(settings, comm)
    }

    /// The same, as the settings say.
    pub(crate) fn join(settings: SummationSettings, comm: Settings) -> Result<Self> {
        let root = if settings.worker == Some(0) { host(&settings, &comm, false)? } else { None };
        let (own, terms) = (root.as_ref().map(Root::address), terms(&settings, &comm, false)?);
        let caller = Caller::join(call(&settings, &comm), own, terms, Arc::new(CallOff::default()))?;
        let declarations = Declarations::new(settings.partition_bytes);
        let declarations = declarations.map_err(|error| Error::InvalidArgument(error.to_string()))?;
        let staging_bytes = usize::try_from(settings.staging_bytes).unwrap_or(usize::MAX);
        let carrier = Carrier::new(staging_bytes, settings.group.wait_limits.warning);
        // A pool's servers come later.
        let n_servers = settings.n_servers.filter(|_| settings.pool.is_none()).unwrap_or(0);
        let (n_workers, n_servers) = (settings.n_workers, Some(n_servers));
        let residuals = Arc::new(Residuals::new(settings.continues));
        let session = Self {
            settings,
            comm,
            declared: Mutex::new(declarations),
            place: RwLock::new(None),
            numbers: Mutex::new(None),
            caller: Mutex::new(Some(caller)),
            root,
            residuals,
            measured: Mutex::default(),
            borrower: Mutex::new(None),
            pinned: Mutex::new(None),
            lost: Mutex::new(None),
            handles: Handles::default(),
            carrier,
        };
        if session.settings.pool.is_some() {
            // Before all others: declared at its first use, it would end a generation whose rounds are open.
            session.declare(agreed_numbers(), Asked::default())?;
        }
        let place = session.meet(Wanted { n_workers, n_servers, ..Wanted::default() })?;
        session.take(&mut session.write(), Some(place));
        session.borrow(true, None)?;
        Ok(session)
    }

    /// The present group's numbers; none between two groups.
    pub(crate) fn numbers(&self) -> Option<Numbers> {
        *lock(&self.numbers)
    }

    /// The same in a forked child of the process, where nobody may be left to unlock them.
    pub(crate) fn inherited_numbers(&self) -> Option<Numbers> {
        *self.numbers.try_lock().ok()?
    }

    /// Declares a tensor; its number. One that is declared already keeps its own.
    ///
    /// # Errors
    /// The name is taken by another length or type, the codec is for other types, or there are too many parts or bytes.
    pub(crate) fn declare(&self, tensor: Declaration, asked: Asked) -> Result<usize> {
        let mut declared = lock(&self.declared);
        if let Some(index) = declared.index(&tensor.name) {
            let before = &declared.tensors()[index];
            if *before == tensor {
                return Ok(index);
            }
            let text = format!(
                "tensor {:?} of {} {} is declared already, with {} {}",
                tensor.name,
                tensor.elements,
                tensor.data_type.name(),
                before.elements,
                before.data_type.name()
            );
            return Err(Error::InvalidArgument(text));
        }
        if let Some(Place { group, .. }) = self.read().as_ref() {
            group.check_mode(&tensor.name, &asked.options)?;
        }
        let size_bytes = tensor.elements.saturating_mul(tensor.data_type.size_bytes() as u64);
        let options = asked.settle(size_bytes, self.settings.compression_min_bytes);
        if let (Some(codec), None) = (asked.options.codec, options.codec) {
            let text = format!(
                "tensor {:?} travels as it is: it has {size_bytes} bytes, too few to be sent as {codec} \
                 (min_bytes of its options, else RSUM_COMPRESSION_MIN_BYTES)",
                tensor.name
            );
            log::write(Level::Info, subsystem::ALL, 0, &text);
        }
        declared.declare_with(tensor, options).map_err(|error| Error::InvalidArgument(error.to_string()))
    }

    /// The codec that a tensor travels with; none: it travels as it is.
    ///
    /// # Errors
    /// There is no such tensor.
    pub(crate) fn codec(&self, tensor: usize) -> Result<Option<Choice>> {
        self.size_bytes(tensor)?;
        Ok(lock(&self.declared).options(tensor).codec)
    }

    /// Bytes of a tensor.
    ///
    /// # Errors
    /// There is no such tensor.
    pub(crate) fn size_bytes(&self, tensor: usize) -> Result<usize> {
        let declared = lock(&self.declared);
        let found = declared.tensors().get(tensor);
        let found = found.ok_or_else(|| Error::InvalidArgument(format!("there is no tensor {tensor}")))?;
        let bytes = found.elements.saturating_mul(found.data_type.size_bytes() as u64);
        usize::try_from(bytes).map_err(|_| Error::InvalidArgument(format!("tensor {tensor} is too large")))
    }

    /// Contributes to a tensor's next round; the number of the push. Waits for the others where more was declared.
    ///
    /// # Errors
    /// There is no such tensor, the group has failed, or the others have declared something else.
    pub(crate) fn push(&self, tensor: usize, send: Region, reduction: Reduction) -> Result<i32> {
        self.catch_up()?;
        self.carrier.wait_until_left();
        let place = self.read();
        let Place { group, membership, .. } = place.as_ref().ok_or_else(|| self.no_group())?;
        let pushed = group.push(tensor, send, reduction)?;
        Ok(self.handles.pushed(pushed, membership.epoch))
    }

    /// Asks for the sum of the round that a push went to.
    ///
    /// # Errors
    /// There is no such push, its sum is asked for already, or its group has ended.
    pub(crate) fn pull(&self, push: i32, recv: impl FnOnce(usize) -> Result<Region>) -> Result<()> {
        let place = self.read();
        let epoch = place.as_ref().map(|place| place.membership.epoch);
        self.handles.pull(push, epoch, |pushed| {
            let Place { group, .. } = place.as_ref().ok_or_else(|| self.no_group())?;
            let recv = recv(pushed.size_bytes())?;
            group.pull(pushed, recv)
        })
    }

    /// Both; the number of the work.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub(crate) fn push_pull(
        &self,
        tensor: usize,
        send: Region,
        recv: Region,
        reduction: Reduction,
    ) -> Result<i32> {
        self.catch_up()?;
        self.carrier.wait_until_left();
        Ok(self.handles.pulled(self.contribute(tensor, send, recv, reduction)?))
    }

    /// The same with buffers in the memory of a GPU, behind what the caller's stream has to do.
    ///
    /// # Errors
    /// As [`Self::push`] and [`Carrier::push_pull`].
    pub(crate) fn push_pull_on_stream(
        self: &Arc<Self>,
        call: &Submission,
        reduction: Reduction,
    ) -> Result<i32> {
        self.catch_up()?;
        let (session, index) = (Arc::clone(self), call.tensor);
        let contribute = Box::new(move |send, recv| session.contribute(index, send, recv, reduction));
        let tensor = lock(&self.declared).tensors().get(index).map(|tensor| tensor.name.clone());
        let tensor = tensor.unwrap_or_default();
        let health = self.read().as_ref().ok_or_else(|| self.no_group())?.group.health();
        let contribution = Contribution { tensor, health, contribute };
        Ok(self.handles.pulled(self.carrier.push_pull(call, contribution)?))
    }

    fn contribute(&self, tensor: usize, send: Region, recv: Region, reduction: Reduction) -> Result<Handle> {
        let place = self.read();
        let Place { group, .. } = place.as_ref().ok_or_else(|| self.no_group())?;
        group.push_pull(tensor, send, recv, reduction)
    }

    /// Tells who watches the group what a comparison of all workers' parameters has come to.
    ///
    /// # Errors
    /// There is no group, or it has another number of workers.
    pub(crate) fn compared(&self, compared: Compared) -> Result<()> {
        let place = self.read();
        let Place { group, membership, .. } = place.as_ref().ok_or_else(|| self.no_group())?;
        let n_workers = membership.n_workers;
        if let Some((_, hashes)) = &compared.difference
            && hashes.len() != n_workers
        {
            let text = format!("a comparison of {} workers in a group of {n_workers}", hashes.len());
            return Err(Error::InvalidArgument(text));
        }
        group.compared(compared);
        Ok(())
    }

    /// Waits for the open rounds and leaves the group. Servers wait for the next one.
    ///
    /// # Errors
    /// The sum of a push was never asked for, or the group has failed.
    pub(crate) fn suspend(&self) -> Result<()> {
        self.carrier.wait_until_left();
        let mut place = self.write();
        self.check_pulled("suspend", &place)?;
        place.as_mut().ok_or_else(|| self.no_group())?.group.suspend()?;
        self.take(&mut place, None);
        Ok(())
    }

    /// Goes on with so many workers and servers; none: with those that are left.
    ///
    /// # Errors
    /// The present group has neither ended nor failed, a loss is to stop the job, or there is no next group: why.
    pub(crate) fn resume(&self, n_workers: Option<usize>, n_servers: Option<usize>) -> Result<()> {
        self.carrier.wait_until_left();
        let mut place = self.write();
        let lost = match place.as_ref().map(|place| &place.group) {
            Some(group) if !group.has_failed() => {
                return Err(Error::InvalidUsage("the group is at work: suspend it first".to_owned()));
            }
            Some(_) if !self.settings.continues => {
                let text = "a loss ends this job: set RSUM_ON_LOSS=continue to go on after one";
                return Err(Error::InvalidUsage(text.to_owned()));
            }
            Some(group) => group.silent(),
            None => None,
        };
        self.take(&mut place, None);
        self.handles.forget_unpulled();
        let next = self.meet(Wanted { n_workers, n_servers, lost, takes_fewer: false })?;
        self.take(&mut place, Some(next));
        drop(place);
        self.borrow(false, None)
    }

    /// What the pool lends: worker 0 knows of that, others say nothing. None: no pool lends servers.
    pub(crate) fn lending(&self) -> Option<Option<Lending>> {
        self.settings.pool.as_ref()?;
        Some(lock(&self.borrower).as_ref().map(Borrower::lending))
    }

    /// Goes on with so many servers, or with fewer where some have gone meanwhile. All workers do.
    ///
    /// # Errors
    /// As [`Self::suspend`] and [`Self::resume`].
    pub(crate) fn adapt(&self, lending: Lending) -> Result<()> {
        *lock(&self.pinned) = lending.pinned;
        let numbers = self.numbers().ok_or_else(|| self.no_group())?;
        if numbers.servers == lending.there {
            return Ok(());
        }
        self.suspend()?;
        let mut place = self.write();
        let (n_workers, n_servers) = (Some(numbers.size), Some(lending.there));
        let next = self.meet(Wanted { n_workers, n_servers, lost: None, takes_fewer: true });
        let next = next.inspect_err(|error| *lock(&self.lost) = Some(error.to_string()))?;
        self.take(&mut place, Some(next));
        drop(place);
        self.borrow(false, n_servers)
    }

    /// Worker 0 tells the pool what the job has, where it wanted so many; who has become worker 0 calls it first. Later than at first a broker that does
    /// not let it in is no reason to stop: the job keeps the servers that it has.
    fn borrow(&self, is_first: bool, wanted: Option<usize>) -> Result<()> {
        let (Some(pool), Some(numbers)) = (&self.settings.pool, self.numbers()) else { return Ok(()) };
        let mut borrower = lock(&self.borrower);
        match &*borrower {
            _ if numbers.rank > 0 => *borrower = None,
            Some(borrower) => borrower.has(numbers.servers, wanted),
            None => {
                let SummationSettings { job, roots, n_servers, .. } = &self.settings;
                let most = n_servers.unwrap_or(0);
                // After the loss of the first rendezvous worker 0 gives the next one, which may be elsewhere.
                let next = lock(&self.caller).as_ref().and_then(Caller::gives);
                let roots = next.iter().map(ToString::to_string).chain(roots.iter().cloned()).collect();
                let id = JobId { name: job.clone(), session: numbers.session };
                let has = (numbers.servers, *lock(&self.pinned));
                match Borrower::start(pool.clone(), (id, roots), most, has) {
                    Ok(started) => *borrower = Some(started),
                    Err(error) if is_first => return Err(error),
                    Err(error) => log::write(Level::Warn, subsystem::INIT, 0, &error.to_string()),
                }
            }
        }
        Ok(())
    }

    /// Leaves the job: waits until all sums are there and nobody needs this process. How that ended; it is left in any case.
    ///
    /// # Errors
    /// The sum of a push was never asked for: nothing has happened then.
    pub(crate) fn shutdown(&self) -> Result<Result<()>> {
        self.carrier.wait_until_left();
        let mut place = self.write();
        self.check_pulled("shut down", &place)?;
        let left = place.take();
        drop(place);
        *lock(&self.numbers) = None;
        let outcome = left.map_or(Ok(()), |place| place.group.leave());
        self.carrier.close();
        *lock(&self.borrower) = None;
        let later = lock(&self.caller).take().and_then(Caller::leave);
        for root in self.root.iter().chain(&later).filter(|_| outcome.is_ok()) {
            root.wait(self.comm.timeout);
        }
        Ok(outcome)
    }

    /// Puts this in the place's place.
    fn take(&self, place: &mut Option<Place>, next: Option<Place>) {
        *lock(&self.numbers) = next.as_ref().map(|next| next.membership.numbers());
        if next.is_some() {
            *lock(&self.lost) = None;
        }
        *place = next;
    }

    /// Waits for a group, and joins it.
    fn meet(&self, wanted: Wanted) -> Result<Place> {
        let mut caller = lock(&self.caller);
        let caller = caller.as_mut().ok_or_else(|| self.no_group())?;
        let limit = Some(Limit::Silence(2 * self.comm.timeout));
        let membership = match caller.meet(wanted, limit, &|| ())? {
            Met::Group(membership) => *membership,
            Met::Over(_) => return Err(Error::Remote("the job is over".to_owned())),
        };
        let SummationSettings { partition_bytes, group, .. } = &self.settings;
        let measured = lock(&self.measured).clone();
        let group = join(&membership, *partition_bytes, &self.comm, group, (&self.residuals, &measured))?;
        for (seat, nic) in membership.seats.iter().zip(group.nics()) {
            let measured = nic.measured.map(|rate| (seat.host_id.clone(), rate));
            lock(&self.measured).extend(measured);
        }
        Ok(Place { membership, group, n_declared: 0 })
    }

    /// Makes the group know all that is declared.
    fn catch_up(&self) -> Result<()> {
        let n_declared = lock(&self.declared).tensors().len();
        let knows_all = |place: &Place| place.n_declared == n_declared && !place.group.is_behind();
        if knows_all(self.read().as_ref().ok_or_else(|| self.no_group())?) {
            return Ok(());
        }
        self.carrier.wait_until_left();
        // Before `place` is locked: who declares locks in this order. What is declared meanwhile comes with the next call.
        let declared = lock(&self.declared).clone();
        let mut place = self.write();
        self.check_pulled("contribute after more was declared", &place)?;
        let place = place.as_mut().ok_or_else(|| self.no_group())?;
        for (index, tensor) in declared.tensors().iter().enumerate().skip(place.n_declared) {
            place.group.declare(tensor.clone(), declared.options(index))?;
            place.n_declared = index + 1;
        }
        if place.group.is_behind() { place.group.start() } else { Ok(()) }
    }

    /// What was pushed must be pulled before the group can end. `_place` is locked, so that nobody pushes meanwhile.
    fn check_pulled(&self, what: &str, _place: &RwLockWriteGuard<'_, Option<Place>>) -> Result<()> {
        match self.handles.n_unpulled() {
            0 => Ok(()),
            n => Err(Error::InvalidUsage(format!("cannot {what}: the sums of {n} pushes are not pulled"))),
        }
    }

    fn no_group(&self) -> Error {
        match &*lock(&self.lost) {
            Some(why) => Error::Remote(format!("{why}; rsum_resume goes on without it")),
            None => Error::InvalidUsage("this process is in no summation group".to_owned()),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Option<Place>> {
        self.place.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Option<Place>> {
        self.place.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Membership {
    fn numbers(&self) -> Numbers {
        let ((local_rank, local_size), members) = (self.local(), self.members());
        Numbers {
            rank: self.rank,
            size: members.n_workers,
            local_rank,
            local_size,
            servers: members.n_servers,
            epoch: self.epoch,
            session: self.session,
        }
    }
}

/// The tensor by which workers agree on how many of a pool's servers they sum with.
pub(crate) fn agreed_numbers() -> Declaration {
    Declaration { name: "ringscope.lent servers".to_owned(), elements: 3, data_type: DataType::I64 }
}

/// Gives the rendezvous, unless another process does.
pub(super) fn host(settings: &SummationSettings, comm: &Settings, stays: bool) -> Result<Option<Root>> {
    for root in &settings.roots {
        if let Some(listener) = Root::listen(root)? {
            return Root::start(listener, terms(settings, comm, stays)?).map(Some);
        }
    }
    Ok(None)
}

/// With what this process gives the rendezvous, now or after the loss of the process that does.
pub(super) fn terms(settings: &SummationSettings, comm: &Settings, stays: bool) -> Result<root::Terms> {
    Ok(root::Terms {
        secret: settings.secret.clone(),
        bootstrap: nic::bootstrap_address(comm)?,
        timeout: comm.timeout,
        stays,
        after: None,
    })
}

/// How to come to the rendezvous.
pub(super) fn call(settings: &SummationSettings, comm: &Settings) -> Call {
    let seat = Seat {
        worker: settings.worker,
        n_workers: settings.n_workers,
        n_servers: settings.n_servers,
        host: comm.host.clone(),
        host_id: comm.host_id.clone(),
        pid: std::process::id(),
        nic: Nic {
            told: settings.nic_mbit.map(|rate| u32::try_from(rate).unwrap_or(u32::MAX)),
            measured: None,
            said: nic::told_speed_mbit(comm),
            measures: settings.measures,
        },
        continues: settings.continues,
        mode: settings.worker.map(|_| settings.mode.unwrap_or_default()).or(settings.mode),
        door: None,
    };
    let (addresses, secret) = (settings.roots.clone(), settings.secret.clone());
    Call { addresses, secret, seat, session: None, epoch: None, patience: Some(comm.timeout), door: None }
}

/// Joins a group; with what earlier ones have left out of contributions, and have measured, by host id.
pub(super) fn join(
    membership: &Membership,
    partition_bytes: u64,
    comm: &Settings,
    sums: &GroupSettings,
    (residuals, measured): (&Arc<Residuals>, &BTreeMap<String, u32>),
) -> Result<Group> {
    let id: [u8; UNIQUE_ID_BYTES] = membership
        .id
        .as_slice()
        .try_into()
        .map_err(|_| Error::Internal("the rendezvous gave no unique id".to_owned()))?;
    Group::join(Plan {
        id,
        members: membership.members(),
        role: membership.role(),
        session: membership.session,
        epoch: membership.epoch,
        mode: membership.mode(),
        partition_bytes,
        nics: Nics::Known(membership.nics(measured)),
        strategy: Strategy::Greedy,
        settings: comm.clone(),
        sums: sums.clone(),
        residuals: Arc::clone(residuals),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::DEFAULT_PARTITION_BYTES;

    /// A worker that is alone, and waits for a second for others.
    fn alone() -> Session {
        let settings = SummationSettings {
            roots: vec!["127.0.0.1:0".to_owned()],
            secret: String::new(),
            n_workers: Some(1),
            n_servers: None,
            worker: Some(0),
            partition_bytes: DEFAULT_PARTITION_BYTES,
            nic_mbit: None,
            measures: true,
            continues: false,
            idle: None,
            mode: None,
            staging_bytes: 1 << 20,
            compression_min_bytes: 0,
            network: None,
            pool: None,
            job: String::new(),
            group: GroupSettings::parse(|_| None).unwrap(),
        };
        let second = |name: &str| (name == "RSCCL_TIMEOUT_S").then(|| "1".to_owned());
        Session::join(settings, Settings::parse(second).unwrap()).unwrap()
    }

    #[test]
    fn who_asks_for_numbers_does_not_wait_for_the_next_group() {
        let session = alone();
        assert_eq!(session.numbers().map(|numbers| (numbers.rank, numbers.size)), Some((0, 1)));
        session.suspend().unwrap();
        std::thread::scope(|scope| {
            let resumed = scope.spawn(|| session.resume(None, Some(1)));
            while session.caller.try_lock().is_ok() {
                std::thread::yield_now();
            }
            assert_eq!(session.numbers(), None);
            assert!(!resumed.is_finished(), "it waits for a server");
            assert!(resumed.join().unwrap().unwrap_err().to_string().contains("0 of 1 servers"));
        });
    }
}
