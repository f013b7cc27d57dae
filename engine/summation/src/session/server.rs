//! The life of a process that does nothing but sum: it waits for a job, is in its groups, and waits again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use super::attempts::Attempts;
use super::pool::lent::{Lent, Loan};
use super::pool::message::At;
use super::rendezvous::caller::Caller;
use super::rendezvous::meeting::{Call, CallOff, Limit, Met};
use super::rendezvous::message::{Membership, Wanted};
use super::rendezvous::root::Root;
use super::status::{Present, Status};
use super::{health, worker};
use crate::config::{PoolSettings, SummationSettings};
use crate::run::group::Group;
use crate::tensor::DEFAULT_PARTITION_BYTES;
use rsccl_collective::comm::init::check_network;
use rsccl_collective::config::Settings;
use rsccl_collective::error::{Error, Result};
use rsccl_collective::lock::lock;
use rsccl_collective::log;
use rsccl_collective::net::control::{Failure, Health};

/// How a server is to live.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether it gives the rendezvous.
    pub root: bool,
    /// Whether it waits for another job after one.
    pub stay: bool,
    /// The broker of the pool that lends it to jobs.
    pub pool: Option<String>,
}

/// Why a server has ended before its job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failed(String);

impl Failed {
    /// With this text.
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }
}

/// A server.
#[derive(Debug)]
pub struct Server {
    options: Options,
    settings: SummationSettings,
    comm: Settings,
    ends: Arc<Ends>,
    status: Arc<Status>,
}

/// What ends a server from outside.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Ends>);

#[derive(Debug, Default)]
struct Ends {
    call_off: Arc<CallOff>,
    /// Of the present group, with this process's name in it.
    group: Mutex<Option<(Arc<Health>, String)>>,
}

/// How a job has ended for a server.
enum Job {
    Over,
    Lost,
}

impl Server {
    /// As the environment says.
    ///
    /// # Errors
    /// The settings are wrong, or the network that they name does not begin here.
    pub fn from_env(options: Options) -> std::result::Result<Self, Failed> {
        let settings = match &options.pool {
            Some(pool) => SummationSettings::lent_from_env(pool),
            None => SummationSettings::server_from_env(),
        };
        let settings = settings.map_err(failed)?;
        let settings = SummationSettings { worker: None, ..settings };
        let comm = Settings::from_env().and_then(|comm| settings.over_network(comm)).map_err(failed)?;
        log::warn_by_default();
        check_network(&comm).map_err(failed)?;
        Ok(Self { options, settings, comm, ends: Arc::default(), status: Arc::default() })
    }

    /// What ends it from another thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.ends))
    }

    /// Answers at an address how the server is, as long as the process lives: `/healthz`, `/readyz`, `/status`. Where it
    /// listens.
    ///
    /// # Errors
    /// It cannot listen there.
    pub fn answer_health(&self, address: &str) -> std::result::Result<SocketAddr, Failed> {
        health::answer(address, Arc::clone(&self.status)).map_err(failed)
    }

    /// Lives. `tell` gets a line about each thing that happens.
    ///
    /// # Errors
    /// The job ended otherwise than by its workers' leave, and this server does not stay: why.
    pub fn run(&self, mut tell: impl FnMut(&str)) -> std::result::Result<(), Failed> {
        if let Some(pool) = &self.options.pool {
            return self.serve_pool(pool, tell).map_err(failed);
        }
        let root = self.host(&mut tell).map_err(failed)?;
        let mut attempts = Attempts::new();
        loop {
            let outcome = self.job(root.as_ref(), None, &mut tell);
            if self.ends.call_off.is_set() {
                tell("stopped");
                return Ok(());
            }
            if outcome.is_ok() {
                attempts.succeeded();
            }
            match outcome {
                Ok(Job::Over) => tell("the job is over"),
                Ok(Job::Lost) if self.options.stay => {}
                Ok(Job::Lost) => return Err(Failed("the job has ended by a loss".to_owned())),
                Err(error) if self.options.stay => self.pause(&mut attempts, &error, &mut tell),
                Err(error) => return Err(failed(error)),
            }
            if !self.options.stay {
                return Ok(());
            }
        }
    }

    fn host(&self, tell: &mut impl FnMut(&str)) -> Result<Option<Root>> {
        if !self.options.root {
            return Ok(None);
        }
        let root = worker::host(&self.settings, &self.comm, self.options.stay)?;
        match &root {
            Some(root) => tell(&format!("the rendezvous is at {}", root.address())),
            None => {
                tell(&format!("another process gives the rendezvous at {}", self.settings.roots.join(", ")))
            }
        }
        Ok(root)
    }

    /// Serves jobs of a pool, one after the other, until it is told to stop.
    fn serve_pool(&self, address: &str, mut tell: impl FnMut(&str)) -> Result<()> {
        let pool = PoolSettings { address: address.to_owned(), secret: self.settings.secret.clone() };
        let mut attempts = Attempts::new();
        loop {
            let lent = Lent::start(pool.clone(), self.comm.host.clone(), Arc::clone(&self.ends.call_off))?;
            let Err(error) = self.serve_loans(&lent, &mut attempts, &mut tell) else { break };
            // Who is free is lent at once, as likely as not to the same job, which is to have another one meanwhile.
            drop(lent);
            self.pause(&mut attempts, &error, &mut tell);
        }
        tell("stopped");
        Ok(())
    }

    /// The same until one of them refuses it.
    fn serve_loans(&self, lent: &Lent, attempts: &mut Attempts, tell: &mut impl FnMut(&str)) -> Result<()> {
        while lent.is_reached() {
            tell(&format!("free, at the pool {}", lent.pool()));
            let Some(loan) = lent.loan() else { break };
            tell(&format!("lent to {}", loan.job));
            self.job(None, Some((lent, &loan)), tell)?;
            attempts.succeeded();
            lent.at(At::Free);
        }
        Ok(())
    }

    /// Waits after a failure, unless it is told to stop.
    fn pause(&self, attempts: &mut Attempts, error: &Error, tell: &mut impl FnMut(&str)) {
        let pause = attempts.failed();
        tell(&format!("{error}; the next attempt is in {} s", pause.as_secs()));
        self.ends.call_off.sleep(pause);
    }

    fn job(
        &self,
        root: Option<&Root>,
        lent: Option<(&Lent, &Loan)>,
        tell: &mut impl FnMut(&str),
    ) -> Result<Job> {
        let roots = lent.map_or(&self.settings.roots, |(_, loan)| &loan.roots);
        // Who stays waits for any job, without limit. A job that a server is lent to has begun.
        let idle = match lent {
            Some(_) => Some(self.comm.timeout),
            None => self.settings.idle.filter(|_| !self.options.stay),
        };
        let session = lent.map(|(_, loan)| loan.job.session);
        let call = worker::call(&self.settings, &self.comm);
        let call = Call { patience: idle, addresses: roots.clone(), session, ..call };
        let own = root.map(Root::address);
        let at = own.map_or_else(|| call.addresses.join(", "), |own| own.to_string());
        tell(&format!("waiting for a job at {at}"));
        let terms = worker::terms(&self.settings, &self.comm, self.options.stay)?;
        let mut caller = Caller::join(call, own, terms, Arc::clone(&self.ends.call_off))?;
        let (mut lost, mut idle) = (None, idle.filter(|_| lent.is_none()));
        let say = |at: At| lent.into_iter().for_each(|(lent, _)| lent.at(at));
        loop {
            if self.ends.call_off.is_set() {
                caller.leave();
                return Ok(Job::Over);
            }
            match caller.meet(
                Wanted { lost: lost.take(), ..Wanted::default() },
                idle.take().map(Limit::Idle),
                &|| say(At::Waiting),
            )? {
                Met::Group(membership) => {
                    say(At::Group);
                    match self.group(&membership, tell) {
                        Ok(()) => {
                            self.status.leave(None);
                            tell("the workers have left the group");
                        }
                        Err((error, silent)) => {
                            self.status.leave(Some(error.to_string()));
                            tell(&format!("the group has failed: {error}"));
                            if !membership.continues() {
                                return Ok(Job::Lost);
                            }
                            lost = silent;
                        }
                    }
                }
                Met::Over(None) => return Ok(Job::Over),
                Met::Over(Some(who)) => {
                    tell(&format!("the job has lost its last worker: {who}"));
                    return Ok(Job::Lost);
                }
            }
        }
    }

    /// Is in a group until its end; with an error, the rank that was silent.
    fn group(
        &self,
        membership: &Membership,
        tell: &mut impl FnMut(&str),
    ) -> std::result::Result<(), (Error, Option<usize>)> {
        let (rank, members) = (membership.rank, membership.members());
        tell(&format!(
            "joined as rank {rank} of {} ({} workers, then {} servers), epoch {}",
            members.n_workers + members.n_servers,
            members.n_workers,
            members.n_servers,
            membership.epoch
        ));
        let joined = worker::join(
            membership,
            DEFAULT_PARTITION_BYTES,
            &self.comm,
            &self.settings.group,
            // Only a worker says which machines are to be measured.
            (&Arc::default(), &BTreeMap::new()),
        );
        let mut group = joined.map_err(|error| (error, None))?;
        let name = format!("rank {rank} ({}) was told to stop", self.comm.host);
        *lock(&self.ends.group) = Some((group.health(), name));
        if self.ends.call_off.is_set() {
            self.stopper().stop();
        }
        let service = members.service_of_rank(rank);
        self.status.join(Present::of(membership, group.nics()));
        let served = group.serve(|group, has_agreed| {
            self.status.begin(has_agreed.then(|| group.placement_epoch()), group.probe());
            if has_agreed {
                tell(&generation(group, service));
            }
        });
        *lock(&self.ends.group) = None;
        served.map_err(|error| (error, group.silent()))
    }
}

impl Stopper {
    /// Ends the server. A group that it is in fails for all, with this server's name.
    pub fn stop(&self) {
        self.0.call_off.set();
        if let Some((health, what)) = lock(&self.0.group).as_ref() {
            health.fail(Failure::new(6, what.clone()));
        }
    }
}

fn generation(group: &Group, service: usize) -> String {
    let placement = group.placement();
    let owned = placement.as_ref().and_then(|placement| placement.owned_bytes().get(service).copied());
    let n_parts = placement.as_ref().map_or(0, |placement| placement.owners().len());
    format!(
        "generation {} of {n_parts} parts, {} bytes of them here",
        group.placement_epoch(),
        owned.unwrap_or(0)
    )
}

fn failed(error: Error) -> Failed {
    Failed(error.to_string())
}
