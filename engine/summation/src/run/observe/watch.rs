//! The whole of a group, told ten times a second while anything is under way, and once when it has come to rest.

mod cost;

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rsum_observer::{Contributor, END_LEFT, END_SUSPENDED, Sample};

use super::comparisons::{Compared, Comparisons, Kept};
use super::facts::{Facts, to_u32};
use super::heard::Heard;
use super::moved::Moved;
use super::plugin::Observer;
use super::voice::Voice;
use crate::config::GroupSettings;
use crate::run::contributing::Contributing;
use crate::run::members::Members;
use crate::run::serving::{Serving, View};
use crate::run::terms::Terms;
use crate::server::service::{Counters, Phase};
use crate::tensor::{DEFAULT_PARTITION_BYTES, Declarations};
use crate::worker::{Snapshot, Stage};
use rsccl_collective::clock;
use rsccl_collective::comm::Comm;
use rsccl_collective::error::{Error, Result};
use rsccl_collective::lock::lock;

pub use cost::Event;
pub(crate) use cost::Watched;

/// Between two samples: ten a second are enough for eyes and cost nothing.
pub(crate) const SAMPLE_NS: u64 = 100_000_000;
/// Waiting rounds that are told of.
const MAX_WAITS: usize = 64;
const N_STAGES: usize = Stage::ALL.len();

/// What lasts as long as a process is in a group, however often the group begins anew.
#[derive(Debug)]
pub(in crate::run) struct Watching {
    voice: Arc<Voice>,
    session: u64,
    one_of: u64,
    is_suspending: AtomicBool,
    comparisons: Comparisons,
    carried: Mutex<Option<Carried>>,
}

/// Totals that go from one beginning to the next.
#[derive(Debug)]
struct Carried {
    heard: Option<Box<Heard>>,
    moved: Option<Box<Moved>>,
    base: Base,
}

/// Totals of what was there before the group's last beginning.
#[derive(Clone, Debug, Default)]
struct Base {
    counters: Counters,
    /// In the order of [`Stage::ALL`]: entered, left, waited, worked, longest wait.
    stages: [[u64; 5]; N_STAGES],
    credits_waited_ns: u64,
    /// Pulls by rounds that the slowest worker was behind.
    staleness: Vec<u64>,
}

/// Of a driver.
#[derive(Debug)]
pub(in crate::run) struct Watch {
    watching: Arc<Watching>,
    base: Base,
    /// When the next sample is to be taken; none while nothing has moved since the last one.
    due_ns: Option<u64>,
}

impl Watching {
    /// If the settings name a watcher.
    pub(in crate::run) fn new(settings: &GroupSettings, session: u64) -> Option<Arc<Self>> {
        let observer = Observer::load(settings.observer.as_deref()?)?;
        Some(Self::by(observer, session, settings.fingerprints))
    }

    pub(super) fn by(observer: Arc<Observer>, session: u64, one_of: u64) -> Arc<Self> {
        let voice = Arc::new(Voice::new(observer));
        let (is_suspending, carried) = (AtomicBool::new(false), Mutex::new(None));
        let comparisons = Comparisons::default();
        Arc::new(Self { voice, session, one_of, is_suspending, comparisons, carried })
    }

    /// With a context that the watcher has already.
    #[cfg(test)]
    pub(super) fn with_context(self: Arc<Self>, pointer: *mut std::ffi::c_void) -> Arc<Self> {
        let _ = self.voice.context.set(self.voice.observer.context(pointer));
        self
    }

    /// The group has failed before its tensors were agreed: with none of them it begins, and ends.
    pub(in crate::run) fn fail_early(&self, comm: &Comm, terms: &Terms, error: &Error) {
        if let Ok(none) = Declarations::new(DEFAULT_PARTITION_BYTES) {
            self.voice.begin(&Facts { comm, terms, declarations: &none }, self.session);
            self.voice.fail(comm, error);
        }
    }

    /// The caller has compared parameters. A difference is told when this returns, but a driver that has ended is not waited for.
    pub(in crate::run) fn compared(&self, compared: Compared, wake: impl FnOnce()) {
        let is_different = self.comparisons.hear(compared, clock::monotonic_ns());
        wake();
        if is_different {
            self.comparisons.wait_until_told();
        }
    }

    /// The group ends because another one with other members follows.
    pub(in crate::run) fn suspend(&self) {
        self.is_suspending.store(true, Ordering::Release);
    }
}

impl Watch {
    /// For a driver that begins; what is counted goes into its two sides.
    pub(in crate::run) fn new(
        watching: &Arc<Watching>,
        comm: &Comm,
        members: Members,
        serving: &mut Serving,
        contributing: Option<&mut Contributing>,
    ) -> Self {
        let voice = || Arc::clone(&watching.voice);
        let carried = lock(&watching.carried).take();
        let (heard, moved, base) =
            carried.map_or_else(Default::default, |carried| (carried.heard, carried.moved, carried.base));
        let new = || Box::new(Heard::new(voice(), members.n_workers));
        serving.heard = Some(heard.unwrap_or_else(new));
        if let Some(contributing) = contributing {
            let is_local = |service| {
                let rank = members.rank_of_service(service);
                rank == comm.rank || comm.host.as_ref().is_some_and(|host| host.reaches(rank))
            };
            let new = || {
                let is_local = (0..members.n_ranks()).map(is_local).collect();
                Box::new(Moved::new(voice(), is_local, watching.one_of))
            };
            contributing.moved = Some(moved.unwrap_or_else(new));
        }
        Self { watching: Arc::clone(watching), base, due_ns: None }
    }

    /// It is known what is declared: rounds begin anew.
    pub(in crate::run) fn place(
        declarations: &Declarations,
        serving: &mut Serving,
        contributing: Option<&mut Contributing>,
    ) {
        serving.heard.iter_mut().for_each(|heard| heard.begin(declarations.n_parts() as usize));
        let moved = contributing.and_then(|contributing| contributing.moved.as_mut());
        moved.into_iter().for_each(|moved| moved.begin(declarations));
    }

    /// See [`Watching::fail_early`].
    pub(in crate::run) fn fail_early(self, comm: &Comm, terms: &Terms, error: &Error) {
        self.watching.fail_early(comm, terms, error);
    }

    /// The tensors are agreed.
    pub(in crate::run) fn begin(&mut self, facts: &Facts<'_>) {
        self.watching.voice.begin(facts, self.watching.session);
        self.due_ns = Some(0);
    }

    /// Takes a sample if one is due. Whatever moves makes one due in a tenth of a second.
    pub(in crate::run) fn look(
        &mut self,
        moved: bool,
        now_ns: u64,
        serving: &Serving,
        contributing: Option<&Contributing>,
    ) {
        if self.watching.comparisons.has_news() {
            self.due_ns = Some(now_ns);
        }
        match self.due_ns {
            None if moved => self.due_ns = Some(now_ns + SAMPLE_NS),
            Some(due_ns) if now_ns >= due_ns => {
                let is_busy = self.sample(now_ns, serving, contributing);
                self.due_ns = is_busy.then_some(now_ns + SAMPLE_NS);
            }
            _ => {}
        }
    }

    /// How long the driver may sleep.
    pub(in crate::run) fn bound(&self, most: Duration, now_ns: u64) -> Duration {
        let left = self.due_ns.map(|due_ns| Duration::from_nanos(due_ns.saturating_sub(now_ns)));
        left.map_or(most, |left| left.min(most))
    }

    /// The driver ends: the group too, unless it goes on with more tensors.
    pub(in crate::run) fn end(
        mut self,
        outcome: &Result<()>,
        goes_on: bool,
        now_ns: u64,
        comm: &Comm,
        (serving, contributing): (&mut Serving, Option<&mut Contributing>),
    ) {
        self.sample(now_ns, serving, contributing.as_deref());
        match (outcome, self.watching.voice.context.get()) {
            (Err(error), _) => self.watching.voice.fail(comm, error),
            (Ok(()), Some(context)) if !goes_on => {
                let is_suspending = self.watching.is_suspending.load(Ordering::Acquire);
                context.end(if is_suspending { END_SUSPENDED } else { END_LEFT }, None, "");
            }
            _ => {}
        }
        self.base.add(&serving.view(), contributing.as_deref().map(|one| one.view(now_ns)).as_ref());
        let moved = contributing.and_then(|contributing| contributing.moved.take());
        let carried = Carried { heard: serving.heard.take(), moved, base: self.base };
        *lock(&self.watching.carried) = Some(carried);
    }

    /// Whether anything is under way.
    fn sample(&self, now_ns: u64, serving: &Serving, contributing: Option<&Contributing>) -> bool {
        let comparisons = &self.watching.comparisons;
        let compared = comparisons.latest();
        let is_busy = self.tell(now_ns, serving, contributing, compared.as_deref());
        comparisons.told(compared.as_deref());
        is_busy
    }

    fn tell(
        &self,
        now_ns: u64,
        serving: &Serving,
        contributing: Option<&Contributing>,
        compared: Option<&Kept>,
    ) -> bool {
        let (Some(context), Some(heard)) = (self.watching.voice.context.get(), &serving.heard) else {
            return false;
        };
        let abi_comparison = compared.map(Kept::to_abi);
        let view = serving.view();
        let pipeline = contributing.map(|contributing| contributing.view(now_ns));
        let mut totals = self.base.clone();
        totals.add(&view, pipeline.as_ref());
        let stages = stages(pipeline.as_ref(), &totals);
        let traffic = contributing.and_then(|one| Some(one.moved.as_ref()?.traffic())).unwrap_or_default();
        let contributors = contributors(&view, heard);
        let waits = Waits::new(&view, heard);
        let abi_waits = waits.to_abi();
        let credit = |of: fn(&Snapshot) -> u64| pipeline.as_ref().map_or(0, of);
        context.sample(&Sample {
            size: size_of::<Sample>(),
            now_ns,
            n_stages: to_u32(stages.len()),
            n_services: to_u32(traffic.len() / rsum_observer::N_CLASSES),
            n_contributors: to_u32(contributors.len()),
            n_waits: to_u32(abi_waits.len()),
            stages: stages.as_ptr(),
            traffic: traffic.as_ptr(),
            contributors: contributors.as_ptr(),
            waits: abi_waits.as_ptr(),
            credits_used_bytes: credit(|one| one.credits_used_bytes),
            credit_bytes: credit(|one| one.servers.iter().map(|server| server.credit_bytes).sum()),
            credits_waited_ns: totals.credits_waited_ns,
            finished_rounds: totals.counters.finished_rounds,
            reserved: 0,
            refused: totals.counters.refused,
            summed_bytes: totals.counters.summed_bytes,
            summing_ns: heard.summing_ns(),
            staleness: totals.staleness.as_ptr(),
            n_staleness: totals.staleness.len() as u64,
            comparison: abi_comparison.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
        });
        !abi_waits.is_empty() || stages.iter().any(|stage| stage.waiting_parts + stage.running_parts > 0)
    }
}

impl Base {
    fn add(&mut self, view: &View<'_>, pipeline: Option<&Snapshot>) {
        let View { counters, leads, .. } = view;
        self.staleness.resize(self.staleness.len().max(leads.len()), 0);
        self.staleness.iter_mut().zip(*leads).for_each(|(total, pulls)| *total += pulls);
        self.counters.finished_rounds += counters.finished_rounds;
        self.counters.refused += counters.refused;
        self.counters.summed_bytes += counters.summed_bytes;
        let Some(pipeline) = pipeline else { return };
        self.credits_waited_ns += pipeline.credits_waited_ns;
        for (total, stage) in self.stages.iter_mut().zip(&pipeline.stages) {
            let [entered, left, waited_ns, worked_ns, longest_wait_ns] = total;
            *entered += stage.n_entered;
            *left += stage.n_left;
            *waited_ns += stage.waited_ns;
            *worked_ns += stage.worked_ns;
            *longest_wait_ns = stage.longest_wait_ns.max(*longest_wait_ns);
        }
    }
}

fn stages(pipeline: Option<&Snapshot>, totals: &Base) -> Vec<rsum_observer::Stage> {
    let Some(pipeline) = pipeline else { return Vec::new() };
    let stage = |(view, total): (&crate::worker::StageView, &[u64; 5])| {
        let [entered_parts, left_parts, waited_ns, worked_ns, longest_wait_ns] = *total;
        rsum_observer::Stage {
            name: name(view.stage).as_ptr(),
            waiting_parts: view.depth as u64,
            running_parts: view.begun as u64,
            entered_parts,
            left_parts,
            waited_ns,
            worked_ns,
            longest_wait_ns,
        }
    };
    pipeline.stages.iter().zip(&totals.stages).map(stage).collect()
}

fn name(stage: Stage) -> &'static std::ffi::CStr {
    match stage {
        Stage::Compress => c"compress",
        Stage::Push => c"push",
        Stage::Sum => c"sum",
        Stage::Pull => c"pull",
        Stage::Decompress => c"decompress",
    }
}

fn contributors(view: &View<'_>, heard: &Heard) -> Vec<Contributor> {
    let unanswered = view.unanswered.iter().copied().chain(std::iter::repeat((0, 0)));
    let contributor = |(contributor, (unanswered, unanswered_bytes)): (&Contributor, (u64, u64))| {
        Contributor { unanswered, unanswered_bytes, ..*contributor }
    };
    heard.contributors().iter().zip(unanswered).map(contributor).collect()
}

/// Waiting rounds, the longest first, and what their C forms point to.
struct Waits(Vec<Waiting>);

struct Waiting {
    key: u32,
    round: u64,
    for_push: bool,
    tensor: CString,
    first_arrival_ns: u64,
    workers: Vec<u32>,
}

impl Waits {
    fn new(view: &View<'_>, heard: &Heard) -> Self {
        let begun = view.waits.iter().filter_map(|(pending, heard_key)| {
            heard.first_arrival_ns(*heard_key, pending.round).map(|first_ns| (first_ns, pending))
        });
        let mut longest: Vec<_> = begun.collect();
        longest.sort_by_key(|(first_ns, pending)| (*first_ns, pending.key));
        longest.truncate(MAX_WAITS);
        let waiting = |(first_arrival_ns, pending): (u64, &crate::server::service::Pending)| {
            let tensor = view.declarations.part(pending.key);
            let tensor = tensor.and_then(|part| view.declarations.tensors().get(part.tensor));
            let tensor = tensor.map_or("", |tensor| tensor.name.as_str());
            Waiting {
                key: pending.key,
                round: pending.round,
                for_push: pending.phase == Phase::Push,
                tensor: CString::new(tensor.replace('\0', " ")).unwrap_or_default(),
                first_arrival_ns,
                workers: pending.workers.iter().map(|worker| to_u32(*worker)).collect(),
            }
        };
        Self(longest.into_iter().map(waiting).collect())
    }

    fn to_abi(&self) -> Vec<rsum_observer::Wait> {
        let wait = |waiting: &Waiting| rsum_observer::Wait {
            key: waiting.key,
            for_push: waiting.for_push.into(),
            round: waiting.round,
            tensor: waiting.tensor.as_ptr(),
            first_arrival_ns: waiting.first_arrival_ns,
            workers: waiting.workers.as_ptr(),
            n_workers: to_u32(waiting.workers.len()),
            reserved: 0,
        };
        self.0.iter().map(wait).collect()
    }
}
