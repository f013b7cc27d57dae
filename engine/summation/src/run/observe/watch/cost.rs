//! What watching costs, event by event: a member of a group that has a watcher and no connections, as it is when most of
//! its work is under way. For `examples/bench_summation`; it sums nothing.

use std::ffi::{CString, c_char};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use rsum_observer::{END_LEFT, ROLE_SERVER, ROLE_WORKER};

use super::{Heard, Moved, Voice, Watch, Watching};
use crate::placement::assign::Placement;
use crate::placement::routes::Routes;
use crate::run::contributing::Contributing;
use crate::run::line::Outcome;
use crate::run::members::{Members, Role};
use crate::run::observe::facts::to_u32;
use crate::run::observe::moved::Ended;
use crate::run::observe::plugin::Observer;
use crate::run::serving::{Frame, Serving};
use crate::run::terms::Terms;
use crate::run::wire::{Epochs, Wire};
use crate::server::message::Finished;
use crate::server::reduction::Reduction;
use crate::server::sums::Mode;
use crate::tensor::{Declarations, Part};
use crate::worker::{self, Pipeline};
use rsccl_collective::clock;
use rsccl_collective::error::{Error, Result};

/// What a watched member counts or tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A part was submitted.
    PushIssued,
    /// A frame of it is out.
    Pushed,
    /// A sum was asked for.
    PullIssued,
    /// A frame of it has come; with the choice whether its fingerprint is wanted.
    Pulled,
    /// A whole sum has its fingerprint, and is told.
    Result,
    /// A round of a tensor is over, and is told.
    Finished,
    /// A contribution is complete.
    Arrived,
    /// A result is made, and is told.
    Made,
    /// The whole state is gathered and told.
    Sample,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Watched {
    serving: Serving,
    contributing: Option<Contributing>,
    watch: Watch,
    /// What counts, while it is not to.
    idle: (Option<Box<Heard>>, Option<Box<Moved>>),
    is_watched: bool,
    n_workers: usize,
    /// By key: the service that owns it.
    owners: Vec<usize>,
    parts: Vec<Part>,
    owned: Vec<Part>,
    /// As many bytes as the model has, so that caches hold as much of a result as in a step.
    model: Vec<u8>,
    n_happened: usize,
}

impl Watched {
    /// A member whose watcher is the library at this path.
    ///
    /// # Errors
    /// The library is no watcher, or follows no group; the tensors have no placement.
    pub(crate) fn new(
        library: &Path,
        (members, role): (Members, Role),
        declarations: Declarations,
        one_of: u64,
    ) -> Result<Self> {
        let declarations = Arc::new(declarations);
        let terms = Terms::new(members, members.rank(role), (Epochs::default(), Mode::Rounds), None)?;
        let routes = terms.routes(&declarations)?;
        let placement = routes.placement();
        let observer = Observer::load(&library.to_string_lossy());
        let observer = observer.ok_or_else(|| Error::InvalidUsage("that is no watcher".to_owned()))?;
        let watching = Watching::by(observer, 1, one_of);
        begin(&watching.voice, &terms, &declarations, placement);
        if watching.voice.context.get().is_none() {
            return Err(Error::InvalidUsage("the watcher follows no group".to_owned()));
        }
        let (serving, contributing) = sides(&watching, &terms, &declarations, &routes)?;
        let own = terms.members.service_of_rank(terms.rank);
        let owner = |part: &Part| placement.owner(part.key).map_or(0, usize::from);
        let parts: Vec<Part> = declarations.parts().collect();
        let mut watched = Self {
            serving,
            contributing,
            watch: Watch { watching, base: Default::default(), due_ns: None },
            idle: (None, None),
            is_watched: true,
            n_workers: members.n_workers,
            owners: parts.iter().map(owner).collect(),
            owned: parts.iter().filter(|part| owner(part) == own).copied().collect(),
            parts,
            model: vec![0x38; usize::try_from(declarations.total_bytes()).unwrap_or(0)],
            n_happened: 0,
        };
        watched.fill().map_err(|trouble| Error::Internal(format!("{trouble:?}")))?;
        Ok(watched)
    }

    /// Parts that its service owns.
    pub(crate) fn n_owned(&self) -> usize {
        self.owned.len()
    }

    /// Counts and tells from now on, or does not.
    pub(crate) fn watch(&mut self, is_watched: bool) {
        if std::mem::replace(&mut self.is_watched, is_watched) != is_watched {
            std::mem::swap(&mut self.serving.heard, &mut self.idle.0);
            let moved = self.contributing.as_mut().map(|contributing| &mut contributing.moved);
            moved.into_iter().for_each(|moved| std::mem::swap(moved, &mut self.idle.1));
        }
    }

    /// Nanoseconds of this thread's processor time in which so many of these happen.
    pub(crate) fn time_ns(&mut self, event: Event, n: usize) -> u64 {
        let begun_ns = clock::thread_ns();
        for _ in 0..n {
            self.n_happened += 1;
            match event {
                Event::Arrived | Event::Made => self.hear(black_box(event)),
                Event::Sample => self.sample(),
                _ => self.move_one(black_box(event)),
            }
        }
        clock::thread_ns() - begun_ns
    }

    /// As the service does. Rounds are odd: the even ones have those that wait.
    fn hear(&mut self, event: Event) {
        let index = self.n_happened;
        let Some(part) = self.owned.get(index % self.owned.len().max(1)) else { return };
        let (key, worker) = (part.key, index % self.n_workers);
        let round = 2 * (index / self.owned.len()) as u64 + 1;
        let Some(heard) = black_box(&mut self.serving.heard) else { return };
        if event == Event::Arrived {
            heard.contributed(worker, usize::try_from(part.size_bytes).unwrap_or(0));
            heard.arrived(worker, key, round);
        } else {
            let (n_contributors, fingerprint) = (self.n_workers, index as u64);
            heard.made(&Finished { key, round, n_contributors, last_arriver: worker, fingerprint });
        }
    }

    /// As the worker does.
    fn move_one(&mut self, event: Event) {
        let index = self.n_happened;
        let Some(part) = self.parts.get(index % self.parts.len().max(1)) else { return };
        let (key, round, bytes) = (part.key, (index / self.parts.len()) as u64, part.size_bytes);
        let service = self.owners.get(key as usize).copied().unwrap_or(0);
        let Some(contributing) = black_box(&mut self.contributing) else { return };
        let Some(moved) = black_box(&mut contributing.moved) else { return };
        match event {
            Event::PushIssued => moved.push_issued(service, key, bytes),
            Event::Pushed => moved.pushed((service, service), key, bytes),
            Event::PullIssued => moved.pull_issued(service, key, bytes),
            Event::Pulled => {
                moved.pulled((service, service), key, bytes);
                black_box(moved.wants_result(key, round));
            }
            Event::Result => {
                let len = usize::try_from(bytes).unwrap_or(0);
                let first = (index * len) % (self.model.len() - len + 1);
                moved.result(key, round, self.model.get(first..first + len).unwrap_or_default(), 1);
            }
            _ => moved.finished(Ended { tensor: part.tensor, round, bytes, result: 0, submitted_ns: 1 }),
        }
    }

    fn sample(&self) {
        if self.is_watched {
            let now_ns = clock::monotonic_ns();
            black_box(self.watch.sample(now_ns, &self.serving, self.contributing.as_ref()));
        }
    }

    /// All workers but the last one have contributed all parts.
    fn fill(&mut self) -> Outcome<()> {
        for part in &self.owned {
            let len = usize::try_from(part.size_bytes).unwrap_or(0);
            let (round, offset, reduction, last) = (0, 0, Reduction::Sum, None);
            let frame = Frame { key: part.key, round, offset, len, reduction, last, ends: true };
            for worker in 0..self.n_workers - 1 {
                if self.serving.land(worker, &frame)?.is_some() {
                    self.serving.landed(worker, &frame)?;
                }
            }
        }
        Ok(())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watch.watching.voice.context.get().inspect(|context| context.end(END_LEFT, None, ""));
    }
}

/// The service, and the worker with all tensors submitted.
fn sides(
    watching: &Arc<Watching>,
    terms: &Terms,
    declarations: &Arc<Declarations>,
    routes: &Arc<Routes>,
) -> Result<(Serving, Option<Contributing>)> {
    let (members, wire) = (terms.members, Wire::new(terms.epochs));
    let settings = worker::Settings::default();
    let frame_bytes = usize::try_from(settings.frame_bytes).unwrap_or(usize::MAX);
    let lines = std::iter::repeat_with(|| None).take(members.n_workers).collect();
    let mut serving = Serving::new(
        (terms.service(declarations, routes), terms.host_sums(declarations, routes)),
        wire,
        Arc::clone(declarations),
        frame_bytes,
        terms.rank,
        lines,
    );
    serving.heard = Some(Box::new(Heard::new(Arc::clone(&watching.voice), members.n_workers)));
    let mut contributing = match terms.rank < members.n_workers {
        true => Some(worker_side(watching, terms, declarations, routes)?),
        false => None,
    };
    Watch::place(declarations, &mut serving, contributing.as_mut());
    Ok((serving, contributing))
}

fn worker_side(
    watching: &Arc<Watching>,
    terms: &Terms,
    declarations: &Arc<Declarations>,
    routes: &Arc<Routes>,
) -> Result<Contributing> {
    let n_ranks = terms.members.n_ranks();
    let mut pipeline = Pipeline::new(&terms.fractions()?, worker::Settings::default());
    for (tensor, declaration) in declarations.tensors().iter().enumerate() {
        let part = |part: Part| worker::Part {
            key: part.key,
            server: routes.owner(part.key),
            bytes: part.size_bytes,
            compress: false,
        };
        let parts: Vec<_> = declarations.parts_of(tensor).map(part).collect();
        let submitted = pipeline.submit(&declaration.name, 0, &parts, clock::monotonic_ns());
        submitted.map_err(|refusal| Error::InvalidUsage(refusal.to_string()))?;
    }
    let lines = std::iter::repeat_with(|| None).take(n_ranks).collect();
    let (wire, known) = (Wire::new(terms.epochs), Arc::clone(declarations));
    let mut side = Contributing::new(terms.rank, pipeline, wire, known, Arc::clone(routes), lines);
    let is_local = vec![false; n_ranks];
    side.moved = Some(Box::new(Moved::new(Arc::clone(&watching.voice), is_local, watching.one_of)));
    Ok(side)
}

/// What [`super::Facts`] tells, of a group without a communicator.
fn begin(voice: &Voice, terms: &Terms, declarations: &Declarations, placement: &Placement) {
    let Members { n_workers, n_servers } = terms.members;
    let host = |rank| CString::new(format!("host-{rank}")).unwrap_or_default();
    let hosts: Vec<CString> = (0..terms.members.n_ranks()).map(host).collect();
    let worker_hosts: Vec<*const c_char> = hosts.iter().take(n_workers).map(|host| host.as_ptr()).collect();
    let service = |(service, owned): (usize, &u64)| {
        let rank = terms.members.rank_of_service(service);
        let host = hosts.get(rank).map_or(c"".as_ptr(), |host| host.as_ptr());
        rsum_observer::Service {
            rank: to_u32(rank),
            optimal_share_ppm: 0,
            share_ppm: 0,
            reserved: 0,
            host,
            owned_bytes: *owned,
            predicted_sent_bytes: 0,
            predicted_received_bytes: 0,
        }
    };
    let services: Vec<_> = placement.owned_bytes().iter().enumerate().map(service).collect();
    let server = terms.rank.checked_sub(n_workers);
    let group = rsum_observer::Group {
        size: size_of::<rsum_observer::Group>(),
        group: 1,
        session: 1,
        membership_epoch: 0,
        placement_epoch: 0,
        comm: 1,
        role: if server.is_some() { ROLE_SERVER } else { ROLE_WORKER },
        index: to_u32(server.unwrap_or(terms.rank)),
        n_workers: to_u32(n_workers),
        n_servers: to_u32(n_servers),
        asynchronous: 0,
        n_services: to_u32(services.len()),
        staleness_bound: u64::MAX,
        n_tensors: declarations.tensors().len() as u64,
        n_parts: declarations.n_parts().into(),
        model_bytes: declarations.total_bytes(),
        partition_bytes: declarations.partition_bytes(),
        services: services.as_ptr(),
        worker_hosts: worker_hosts.as_ptr(),
    };
    if let Some(context) = voice.observer.begin(None, &group) {
        let _ = voice.context.set(context);
    }
}
