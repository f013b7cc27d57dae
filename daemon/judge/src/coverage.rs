//! How much of a communicator is seen: a communicator that only one source knows is said to be partly seen, with the
//! reason and the remedy, never passed over in silence. Pure.

use std::collections::BTreeMap;

use ringscope_api::{self as api, CoverageState};
use ringscope_model::{Communicator, Model, ProcessState, RankRef};

use super::ranks::Ranks;

/// What is lacking, of which ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// One word.
    pub cause: &'static str,
    /// A sentence that ends with what to do.
    pub text: String,
    /// The ranks that it is true of, ascending.
    pub ranks: Vec<u32>,
    /// Whether the communicator works and its calls are not counted: more than a missing detail.
    pub loses_calls: bool,
}

/// How much of a communicator is seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Ranks heard of, and those that each source has told of.
    pub ranks: u32,
    /// Through the collector's own functions.
    pub calls: u32,
    /// Through the profiler.
    pub plugin: u32,
    /// Through the log.
    pub log: u32,
    /// What is lacking. Empty: nothing.
    pub lacks: Vec<Lack>,
}

impl Coverage {
    /// Of a communicator as the model knows it now.
    #[must_use]
    pub fn of(communicator: &Communicator, model: &Model, ranks: &Ranks<'_>) -> Self {
        let mut coverage = Self::default();
        for rank in ranks.iter() {
            let sources = rank.facts.sources;
            coverage.ranks += 1;
            coverage.calls += u32::from(sources.calls);
            coverage.plugin += u32::from(sources.plugin);
            coverage.log += u32::from(sources.log);
            for (cause, text, loses_calls) in lacks(rank) {
                coverage.note(cause, text, rank.rank, loses_calls);
            }
        }
        let silent = communicator.n_ranks().saturating_sub(coverage.ranks);
        if silent > 0 {
            let mut next = ranks.iter().map(|rank| rank.rank).peekable();
            let missing = (0..communicator.n_ranks()).filter(|rank| next.next_if_eq(rank).is_none());
            let is_imported = ranks.iter().any(is_imported);
            let text = if is_imported {
                "no file tells of some ranks: import the files of their hosts too".to_owned()
            } else if let Some((host, why)) = not_watched(communicator, model) {
                format!("nothing is known of some ranks; on {host} {why}")
            } else {
                "nothing is known of some ranks: run `ringscope agent` on their hosts".to_owned()
            };
            // Names a few; a count would not help to find them.
            for rank in missing.take(MAX_NAMED) {
                coverage.note("silent_ranks", text.clone(), rank, false);
            }
        }
        coverage
    }

    /// As the API shows it for one communicator.
    #[must_use]
    pub fn to_api(&self) -> api::Coverage {
        api::Coverage {
            state: if self.lacks.is_empty() { CoverageState::Full } else { CoverageState::Partly },
            ranks: self.ranks,
            calls: self.calls,
            plugin: self.plugin,
            log: self.log,
            lacks: self.lacks.iter().map(Lack::words).collect(),
        }
    }

    fn note(&mut self, cause: &'static str, text: String, rank: u32, loses_calls: bool) {
        match self.lacks.iter_mut().find(|lack| lack.text == text) {
            Some(lack) => lack.ranks.push(rank),
            None => self.lacks.push(Lack { cause, text, ranks: vec![rank], loses_calls }),
        }
    }
}

impl Lack {
    /// "… (rank 3)", "… (ranks 0 to 7)", "… (ranks 0, 2, 4 and 5 more)".
    #[must_use]
    pub fn words(&self) -> String {
        format!("{} ({})", self.text, ringscope_api::words::ranks(&self.ranks))
    }
}

/// How much of a job's communicators is seen.
#[derive(Clone, Debug, Default)]
pub struct JobCoverage {
    sum: api::Coverage,
    /// What is lacking, and of how many communicators.
    lacks: BTreeMap<String, u32>,
}

impl JobCoverage {
    /// Adds one communicator.
    pub fn add(&mut self, coverage: &Coverage) {
        self.sum.ranks += coverage.ranks;
        self.sum.calls += coverage.calls;
        self.sum.plugin += coverage.plugin;
        self.sum.log += coverage.log;
        for lack in &coverage.lacks {
            *self.lacks.entry(lack.text.clone()).or_default() += 1;
        }
    }

    /// As the API shows it. `has_any`: a communicator of the job is, or was, known.
    #[must_use]
    pub fn to_api(self, has_any: bool) -> api::Coverage {
        if !has_any {
            let lacks = vec!["no communicator of it is known, so nothing of its calls is".to_owned()];
            return api::Coverage { state: CoverageState::Partly, lacks, ..self.sum };
        }
        let words = |(text, n): (String, u32)| {
            let of = if n == 1 { "1 communicator".to_owned() } else { format!("{n} communicators") };
            format!("{text} ({of})")
        };
        let state = if self.lacks.is_empty() { CoverageState::Full } else { CoverageState::Partly };
        api::Coverage { state, lacks: self.lacks.into_iter().map(words).collect(), ..self.sum }
    }
}

/// What is lacking of one rank, and whether its calls are lost by it.
fn lacks(rank: &RankRef<'_>) -> Vec<(&'static str, String, bool)> {
    let (facts, collector) = (rank.facts, rank.process.collector());
    let sources = facts.sources;
    if !(sources.calls || sources.plugin || sources.log) {
        // Nobody says who has told of it.
        return Vec::new();
    }
    if &*facts.made_by == ringscope_wire::batch::MADE_BY_RSUM {
        // It carries a summation group, which is told of by its own words.
        return Vec::new();
    }
    let mut lacks: Vec<(&'static str, String, bool)> = Vec::new();
    let mut lack = |cause, text: &str, loses_calls| lacks.push((cause, text.to_owned(), loses_calls));
    let is_alone = facts.n_ranks == 1;
    if is_imported(rank) {
        // Only what the files themselves lack: nothing else could be known of it.
    } else if !collector.has_segment {
        lack(
            "log_only",
            "only the library's log is known, the collector is not in the process: start it with `ringscope run`",
            false,
        );
    } else {
        let counts_calls = sources.plugin && collector.profiler_version >= FIRST_API_EVENTS;
        match (sources.calls, counts_calls) {
            (true, _) => {}
            (false, true) => lack(
                "calls_bypass",
                "calls bypass the collector (ctypes, dlopen with RTLD_DEEPBIND, a static copy of the library, or `run \
                 --plugin-only`), issued counts come from the library's profiler: to record each call start with `ringscope run --shim`",
                false,
            ),
            (false, false) => lack(
                "calls_bypass",
                "calls bypass the collector (ctypes, dlopen with RTLD_DEEPBIND, a static copy of the library, or `run \
                 --plugin-only`) and are not counted: start with `ringscope run --shim`",
                true,
            ),
        }
        // The library plans nothing for one rank, so nobody tells of its operations.
        if !is_alone && !sources.plugin {
            lack("plugin_silent", silent_plugin(rank), false);
        }
        if !rank.knows_completion() {
            let lost = &rank.facts.completion_lost;
            let text = if lost.is_empty() {
                "nothing tells when operations complete, so completed counts stay at what was last known: it takes \
                 the library's profiler (NCCL 2.23 or newer) or a CUDA driver"
                    .to_owned()
            } else {
                ringscope_api::words::ends_not_known(lost)
            };
            lack("completion_unknown", &text, false);
        }
    }
    if is_alone {
        return lacks;
    }
    for said in &collector.log_lacks {
        lacks.push(("log_incomplete", format!("the library's log is not complete: {said}"), false));
    }
    if !sources.log {
        let text = "the library's log says nothing of it, so its rings and channels are not known: start with \
                    `ringscope run`, or set NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV";
        lacks.push(("no_log", text.to_owned(), false));
    } else if collector.log_lacks.is_empty() && (facts.init_channels.is_none() || facts.rings.is_empty()) {
        let text = "the library's log has no GRAPH lines of it, so its init channels and rings are not known: set \
                    NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV";
        lacks.push(("log_incomplete", text.to_owned(), false));
    }
    lacks
}

/// A host of its job where not all is watched, and why: the silent ranks may be there.
fn not_watched<'m>(communicator: &Communicator, model: &'m Model) -> Option<(&'m str, &'m str)> {
    let (_, job) = model.job(communicator.job())?;
    job.processes(model).find_map(|process| {
        let host = &*process.identity()?.host;
        Some((host, model.cannot_watch(host)?))
    })
}

fn is_imported(rank: &RankRef<'_>) -> bool {
    rank.process.state() == ProcessState::Imported
}

fn silent_plugin(rank: &RankRef<'_>) -> &'static str {
    match rank.identity.library_version {
        1..FIRST_PROFILER => {
            "the library is older than NCCL 2.23 and has no profiler: bytes per link and channels per operation are \
             not known"
        }
        _ if rank.process.collector().profiler_version == 0 => {
            "the library's profiler is silent, so bytes per link and channels per operation are not known: another \
             plugin may have its slot (NCCL_PROFILER_PLUGIN), start with `ringscope run`, which serves both"
        }
        _ => {
            "the library's profiler has told of other communicators and not of this one: bytes per link and channels \
             per operation are not known"
        }
    }
}

/// First version of the profiler interface that tells of each call (CollApi), NCCL 2.28.
const FIRST_API_EVENTS: u32 = 5;

/// First version of NCCL that has a profiler interface, as ncclGetVersion writes it.
const FIRST_PROFILER: u32 = 22_300;

/// Ranks that are named at most in one sentence.
const MAX_NAMED: usize = 64;
