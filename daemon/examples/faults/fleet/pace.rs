//! How the time of simulated ranks goes, in a job of tensor, pipeline and data parallel ranks: each computes, and then waits for
//! its tensor group, for its pipeline, for its replicas and for all. Who computes for longest in a step is waited for by all.

use std::collections::{BTreeMap, VecDeque};

use ringscope_wire::batch::{LongStep, OwnTime, TimeBasis};

/// How one rank is slow.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slow {
    /// By so many percent of what a step computes.
    Steady(u64),
    /// In one of so many steps at random, by so many percent.
    OneOf(u64, u64),
    /// In each of so many steps, by so many milliseconds.
    Periodic(u64, u64),
    /// In so many steps from now on, by so many percent.
    Spell(u64, u64),
    /// By so many percent, for it sends and receives twice as much.
    GivenMore(u64),
}

/// Where a rank has a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Tensor = 0,
    Data = 1,
    World = 2,
    Pipeline = 3,
}

/// What has come of the time of one rank so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spent {
    own_ns: u64,
    /// In calls, by [`Wait`].
    pub(crate) busy_ns: [u64; 4],
    /// Messages to and from other stages, and their bytes.
    pub(crate) messages: u64,
    pub(crate) message_bytes: u64,
    /// Own times of the last steps, and the middle of those before it was told last.
    recent_ns: VecDeque<u64>,
    usual_ns: u64,
    long_steps: Vec<LongStep>,
}

/// All ranks.
pub(crate) struct Pace {
    ranks: Vec<Spent>,
    ranks_per_host: u32,
    stages: u32,
    steps: u64,
    covered_ns: u64,
    /// Until when the job has been followed.
    now_ns: u64,
    /// Who is slow, and since which step.
    slow: BTreeMap<u32, (Slow, u64)>,
    /// By how many percent ranks differ anyway, at random.
    pub(crate) spread_percent: u64,
    /// By how many percent each stage of the pipeline computes for longer than the one before.
    pub(crate) stage_percent: u64,
    /// All pause in each third step.
    pub(crate) all_pause: bool,
    /// Sum of what steps were longer by, and how many of them, since somebody is slow.
    slower_ns: u64,
    slower_steps: u64,
}

impl Pace {
    pub(crate) fn new(n_ranks: u32, ranks_per_host: u32, stages: u32, now_ns: u64) -> Self {
        Self {
            ranks: vec![Spent::default(); n_ranks as usize],
            ranks_per_host,
            stages,
            steps: 0,
            covered_ns: 0,
            now_ns,
            slow: BTreeMap::new(),
            spread_percent: 5,
            stage_percent: 0,
            all_pause: false,
            slower_ns: 0,
            slower_steps: 0,
        }
    }

    /// From the next step on.
    pub(crate) fn slow(&mut self, rank: u32, how: Slow) {
        self.slow.insert(rank, (how, self.steps));
    }

    /// Seconds by which steps are longer, on the average.
    pub(crate) fn slower_s(&self) -> Option<f64> {
        (self.slower_ns > 0).then(|| self.slower_ns as f64 / self.slower_steps as f64 / 1e9)
    }

    /// Seconds of a step, over all of them.
    pub(crate) fn step_s(&self) -> f64 {
        self.covered_ns as f64 / 1e9 / self.steps.max(1) as f64
    }

    /// Takes all steps that have ended by now; how many.
    pub(crate) fn advance(&mut self, now_ns: u64) -> u64 {
        let before = self.steps;
        loop {
            let computed: Vec<u64> =
                (0..self.ranks.len() as u32).map(|rank| self.computes_ns(rank)).collect();
            let slowest = computed.iter().copied().max().unwrap_or(0);
            let took_ns = slowest + TRANSFERS_NS.iter().sum::<u64>();
            if self.now_ns + took_ns > now_ns {
                return self.steps - before;
            }
            self.take_step(&computed, slowest);
            self.now_ns += took_ns;
            self.covered_ns += took_ns;
            self.steps += 1;
        }
    }

    fn take_step(&mut self, computed: &[u64], slowest: u64) {
        let per_host = self.ranks_per_host as usize;
        let hosts: Vec<u64> =
            computed.chunks(per_host).map(|ranks| ranks.iter().copied().max().unwrap_or(0)).collect();
        let replicas: Vec<u64> = hosts
            .chunks(self.stages as usize)
            .map(|hosts| hosts.iter().copied().max().unwrap_or(0))
            .collect();
        let latest = replicas.iter().copied().max().unwrap_or(0);
        for (rank, own) in computed.iter().enumerate() {
            let host = rank / per_host;
            let (tensor, pipeline) = (hosts[host], replicas[host / self.stages as usize]);
            let given_more = matches!(self.slow.get(&(rank as u32)), Some((Slow::GivenMore(_), _)));
            let spent = &mut self.ranks[rank];
            spent.own_ns += own;
            for (of, waited) in [
                (Wait::Tensor, tensor - own),
                (Wait::Pipeline, pipeline - tensor),
                (Wait::Data, latest - pipeline),
                (Wait::World, 0),
            ] {
                spent.busy_ns[of as usize] += waited + TRANSFERS_NS[of as usize];
            }
            spent.messages += 1;
            spent.message_bytes += if given_more { 2 * MESSAGE_BYTES } else { MESSAGE_BYTES };
            if spent.usual_ns > 0 && *own > 2 * spent.usual_ns {
                let operation = (self.steps + 1) * u64::from(CALLS_PER_STEP);
                let longer_ns = own - spent.usual_ns;
                spent.long_steps.push(LongStep { began_at_ns: self.now_ns, longer_ns, operation });
            }
            spent.recent_ns.push_back(*own);
            if spent.recent_ns.len() > STEPS_KNOWN {
                spent.recent_ns.pop_front();
            }
        }
        if !self.slow.is_empty() {
            let usual = (0..computed.len() as u32).map(|rank| self.usual_ns(rank)).max().unwrap_or(0);
            self.slower_ns += slowest - usual;
            self.slower_steps += 1;
        }
    }

    fn computes_ns(&self, rank: u32) -> u64 {
        let usual = self.usual_ns(rank);
        let Some((how, since)) = self.slow.get(&rank) else {
            return usual;
        };
        let at = self.steps - since;
        usual
            + match how {
                Slow::Steady(percent) | Slow::GivenMore(percent) => COMPUTES_NS / 100 * percent,
                Slow::OneOf(steps, percent) if random(rank, self.steps, 1).is_multiple_of(*steps) => {
                    COMPUTES_NS / 100 * percent
                }
                Slow::Periodic(every, ms) if at.is_multiple_of(*every) => ms * 1_000_000,
                Slow::Spell(steps, percent) if at < *steps => COMPUTES_NS / 100 * percent,
                Slow::OneOf(..) | Slow::Periodic(..) | Slow::Spell(..) => 0,
            }
    }

    fn usual_ns(&self, rank: u32) -> u64 {
        let stage = u64::from(rank / self.ranks_per_host % self.stages);
        let pause =
            if self.all_pause && self.steps % 3 == 2 { random(0, self.steps, 2) % ALL_PAUSE_NS } else { 0 };
        let least = COMPUTES_NS / 100 * (100 + self.stage_percent * stage) + pause;
        least + random(rank, self.steps, 0) % (COMPUTES_NS / 100 * self.spread_percent).max(1)
    }

    pub(crate) fn spent(&self, rank: u32) -> &Spent {
        &self.ranks[rank as usize]
    }

    /// What an agent tells; long steps are told once. `ahead_ns`: of its clock.
    pub(crate) fn tell(&mut self, rank: u32, ahead_ns: u64) -> OwnTime {
        let spent = &mut self.ranks[rank as usize];
        let mut long_steps = std::mem::take(&mut spent.long_steps);
        long_steps.truncate(LONG_MOST);
        long_steps.iter_mut().for_each(|step| step.began_at_ns += ahead_ns);
        spent.usual_ns = middle(spent.recent_ns.iter().copied());
        let distances = spent.recent_ns.iter().map(|own_ns| own_ns.abs_diff(spent.usual_ns));
        OwnTime {
            covered_ns: self.covered_ns,
            own_ns: spent.own_ns,
            operations: self.steps * u64::from(CALLS_PER_STEP),
            operations_per_step: CALLS_PER_STEP,
            basis: TimeBasis::Called.into(),
            usual_step_ns: spent.usual_ns,
            step_spread_ns: middle(distances) * 148 / 100,
            device_error_ns: 0,
            long_steps,
        }
    }
}

fn middle(all: impl Iterator<Item = u64>) -> u64 {
    let mut all: Vec<u64> = all.collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or_default()
}

fn random(rank: u32, step: u64, of: u64) -> u64 {
    let mut value = u64::from(rank) << 40 ^ step << 4 ^ of;
    for _ in 0..2 {
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    }
    value ^ value >> 31
}

/// What a step computes.
const COMPUTES_NS: u64 = 60_000_000;
/// What its calls take once all are there, by [`Wait`].
const TRANSFERS_NS: [u64; 4] = [10_000_000, 15_000_000, 10_000_000, 5_000_000];
/// One of each communicator, and of its pipeline one to and one from another stage.
const CALLS_PER_STEP: u32 = 5;
const MESSAGE_BYTES: u64 = 8 << 20;
/// As of an agent.
const LONG_MOST: usize = 8;
const STEPS_KNOWN: usize = 64;
const ALL_PAUSE_NS: u64 = 600_000_000;
