//! Who is slow in a scene, how, and what it costs. Pure.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use ringscope_api::FindingKind;
use ringscope_api::clock::Timestamp;
use ringscope_model::{Name, real};
use ringscope_wire::batch::Look;

use super::habit::Habit;
use super::measured::FIRST_STEPS;
use super::outliers::{Outliers, outliers, quantile};
use super::roles::{self, Since, Usual};
use super::scene::{Rank, Scene};
use crate::seen;

/// What a finding is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    /// A process, by its key.
    Process(Name),
    /// All processes of a host.
    Host(Name),
}

/// How somebody is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// In every step.
    Steady,
    /// In some steps, which come without order.
    Intermittent,
    /// In every so many steps, by so much.
    Periodic { steps: u64, longer: Duration },
}

/// Somebody slow.
#[derive(Clone, Debug)]
pub(super) struct Slow {
    pub(super) subject: Subject,
    pub(super) kind: FindingKind,
    pub(super) how: How,
    /// Its key: the slowest, of a host.
    pub(super) process: Name,
    /// All that are slow together, by key.
    pub(super) processes: Vec<Name>,
    /// Processes that it is compared with; set once it is known who else is slow.
    pub(super) n_like: usize,
    /// It stands for its stage of a pipeline, and is compared with those that stand for the others.
    pub(super) is_stage: bool,
    /// How long each step takes longer.
    pub(super) lost: Duration,
    /// Of the job's time, from 0 to 1.
    pub(super) share: f64,
    /// Own time of a step, and what is usual among its like: of one that is slow in every step.
    pub(super) own: (Duration, Duration),
    pub(super) has_steps: bool,
    /// Since when, by our clock, as far back as is known.
    pub(super) began: Option<Timestamp>,
    /// Whether it was ever as fast as its like.
    pub(super) since: Since,
    /// What shows that it does other work, in words that follow its name. Absent: nothing.
    pub(super) role: Option<String>,
    /// Of those that are slow at the same time, the slowest: nobody gains before it is mended too. Absent: it is alone.
    pub(super) beside: Option<Beside>,
    /// How much more work it gets than its like, as in 1.3. Absent: no more.
    pub(super) more_work: Option<f64>,
    /// The share of the time in which somebody stops it, in collectives as well. Absent: not, or not known.
    pub(super) stopped: Option<f64>,
    /// How long a step takes now, and how long it took before it began, where it was seen.
    pub(super) step: Duration,
    pub(super) step_before: Option<Duration>,
    /// The share of all periods in which its limit of processor time holds it back, in collectives as well. Absent: not, or not known.
    pub(super) held_back: Option<f64>,
    /// What its GPU says of itself: "GPU 3 (0000:3b:00.0) is throttled". Absent: nothing.
    pub(super) device: Option<String>,
}

/// Others that are slow in every step as well.
#[derive(Clone, Debug)]
pub(super) struct Beside {
    /// A process of each of them, by key, the slowest first, and how long each step takes longer by it.
    pub(super) others: Vec<(Name, Duration)>,
    /// What a step gains where only this one is mended.
    pub(super) alone: Duration,
    /// Its part of what all of them cost together, as a share of the job's time: the parts of all add up to that.
    pub(super) part: f64,
}

/// Ranks that do the same work, and what is usual among them.
struct Class<'c, 'm> {
    ranks: Vec<&'c Rank<'m>>,
    /// Own time as a share, in each part of the window, the newest first.
    parts: Vec<f64>,
    /// The same with long steps, over the times of its ranks' habits.
    own_with_longer: [f64; 2],
    /// Standard deviation of the own time of a step, in seconds.
    spread_s: f64,
    /// Own time as a share, before the window, and in the first seconds.
    earlier: f64,
    at_first: f64,
    bytes: f64,
    operations: f64,
    /// Bytes and operations of a step. `None`: of some of them no step is known.
    per_step: Option<(f64, f64)>,
    /// What those do who do not stand out in it.
    others: OnceCell<Usual<'m>>,
}

/// Everybody that is slow, the costliest first.
pub(super) fn find(scene: &Scene<'_>) -> Vec<Slow> {
    let classes: Vec<Class<'_, '_>> =
        scene.classes.iter().map(|ranks| Class::of(ranks.iter().collect())).collect();
    let slow = classes.iter().flat_map(Class::slow).collect();
    let mut slow = hosts_as_one(slow, scene);
    slow.retain(|slow| slow.share >= LEAST_COST);
    if classes.len() > 1 && scene.has_world {
        let named: HashSet<Name> = slow.iter().flat_map(|slow| slow.processes.iter().cloned()).collect();
        let typical = Class::of(classes.iter().filter_map(Class::typical).collect());
        let stages = typical.stages().into_iter().filter(|slow| !named.contains(&slow.process));
        slow.extend(stages.map(|slow| match slow.since {
            Since::Later => as_slower_stage(slow, &classes, scene),
            Since::Start | Since::Unknown => slow,
        }));
    }
    slow.iter_mut().for_each(Slow::count_stops);
    slow.sort_by(|one, other| other.share.total_cmp(&one.share));
    slow.truncate(MAX_SLOW);
    share_out(&mut slow);
    slow
}

impl Slow {
    /// Who does other work, and did so as long as is known, is no straggler.
    pub(super) fn settle(&mut self) {
        self.count_waits();
        let is_blamed_for_its_work = matches!(
            self.kind,
            FindingKind::ComputeStraggler | FindingKind::UnevenWork | FindingKind::SlowHost
        );
        if is_blamed_for_its_work
            && self.how == How::Steady
            && self.stopped.is_none()
            && self.since != Since::Later
            && self.role.is_some()
        {
            self.kind = FindingKind::OtherWork;
        }
    }

    /// Where a limit of processor time holds it back all others wait too, whatever it was in: its own time has only what was outside of
    /// collectives. What that costs is what its steps take longer than they did, within the time in which it may have been held back.
    fn count_waits(&mut self) {
        let Some((held_back, before)) = self.held_back.zip(self.step_before) else { return };
        let lost = self.step.saturating_sub(before).min(of(self.step, held_back));
        if self.how == How::Steady && self.stopped.is_none() && lost > self.lost && !self.step.is_zero() {
            self.lost = lost;
            self.share = lost.as_secs_f64() / self.step.as_secs_f64();
        }
    }

    /// Its part of what all that are slow cost together, as a share of the job's time.
    pub(super) fn part(&self) -> f64 {
        self.beside.as_ref().map_or(self.share, |beside| beside.part)
    }

    /// All others wait while it is stopped, whatever it was in: its own time has only what was outside of collectives.
    fn count_stops(&mut self) {
        if let Some(stopped) = self.stopped.filter(|stopped| *stopped > self.share && self.share > 0.0) {
            self.lost = of(self.lost, stopped / self.share);
            self.share = stopped;
        }
    }
}

impl<'c, 'm> Class<'c, 'm> {
    fn of(ranks: Vec<&'c Rank<'m>>) -> Self {
        let all = |of: fn(&Rank<'_>) -> f64| ranks.iter().map(|rank| of(rank)).collect::<Vec<f64>>();
        let n_parts = ranks.iter().map(|rank| rank.measured.parts.len()).max().unwrap_or_default();
        let part = |back: usize| {
            let own = |rank: &&Rank<'_>| Some(rank.measured.parts.iter().rev().nth(back)?.own);
            quantile(ranks.iter().filter_map(own).collect(), 25)
        };
        let has_steps = ranks.iter().all(|rank| rank.measured.has_steps);
        let of_a_step = |of: fn((f64, f64)) -> f64| {
            quantile(ranks.iter().map(|rank| of(rank.measured.per_step())).collect(), 50)
        };
        Self {
            per_step: has_steps.then(|| (of_a_step(|step| step.0), of_a_step(|step| step.1))),
            parts: (0..n_parts).map(part).collect(),
            own_with_longer: [
                quantile(all(|rank| rank.measured.habits[0].own), 25),
                quantile(all(|rank| rank.measured.habits[1].own), 25),
            ],
            spread_s: quantile(all(|rank| rank.measured.spread.as_secs_f64()), 50),
            earlier: quantile(ranks.iter().filter_map(|rank| rank.measured.earlier).collect(), 25),
            at_first: quantile(ranks.iter().filter_map(|rank| rank.measured.at_first).collect(), 25),
            bytes: quantile(all(|rank| rank.measured.bytes), 50),
            operations: quantile(all(|rank| rank.measured.operations), 50),
            others: OnceCell::new(),
            ranks,
        }
    }

    fn slow(&self) -> Vec<Slow> {
        let own: Vec<f64> = self.ranks.iter().map(|rank| rank.measured.own).collect();
        let steadily = outliers(&own, LEAST);
        let mut slow = steadily.as_ref().map(|found| self.steady(found)).unwrap_or_default();
        let mut named: HashSet<usize> = steadily.into_iter().flat_map(|found| found.places).collect();
        for (stretch, own) in self.own_with_longer.into_iter().enumerate() {
            let habits: Vec<&Habit> =
                self.ranks.iter().filter_map(|rank| rank.measured.habits.get(stretch)).collect();
            let Some(found) = outliers(&habits.iter().map(|habit| habit.longer).collect::<Vec<_>>(), LEAST)
            else {
                continue;
            };
            for at in found.places {
                let (Some(rank), Some(habit)) = (self.ranks.get(at), habits.get(at)) else { continue };
                if !named.contains(&at)
                    && let Some(one) = self.by_long_steps(rank, habit, (own, found.usual))
                {
                    named.insert(at);
                    slow.push(one);
                }
            }
        }
        // They are compared with those who are not slow.
        let n_slow = slow.iter().filter(|slow| slow.share >= LEAST_COST).count();
        let n_like = self.ranks.len().saturating_sub(n_slow).max(1);
        slow.iter_mut().for_each(|slow| slow.n_like = n_like);
        slow
    }

    /// Those whose own time is longer in most steps.
    fn steady(&self, found: &Outliers) -> Vec<Slow> {
        let ranks = found.places.iter().filter_map(|at| self.ranks.get(*at));
        ranks.filter_map(|rank| Some(self.one(rank, self.steady_of_late(rank)?))).collect()
    }

    /// For how many parts it has been slow without a break, if it was so in most parts, and still is: what is over is no habit.
    fn steady_of_late(&self, rank: &Rank<'_>) -> Option<usize> {
        let excess = || rank.measured.excess(&self.parts);
        let n_parts = real(rank.measured.parts.len() as u64);
        let all = excess().sum::<f64>();
        if all - excess().fold(0.0, f64::max) < all / 2.0 {
            // Nearly all of it was in one part.
            return None;
        }
        let least = all / n_parts / 3.0;
        let n_above = excess().filter(|excess| *excess > least).count();
        let n_newest = excess().take_while(|excess| *excess > least).count();
        (real(n_above as u64) >= MOSTLY * n_parts && n_newest >= NEWEST_PARTS).then_some(n_newest)
    }

    fn one(&self, rank: &Rank<'_>, n_parts: usize) -> Slow {
        // In the first of these it may have begun in the middle.
        let n = if n_parts > NEWEST_PARTS { n_parts - 1 } else { n_parts };
        let excess = rank.measured.excess(&self.parts).take(n).sum::<f64>() / real(n as u64);
        let usual = self.parts.iter().take(n).sum::<f64>() / real(n as u64);
        let (step, _) = rank.measured.of_late(n);
        // The means of so few steps differ by chance too.
        let n_steps = rank.measured.n_steps * real(n as u64) / real(rank.measured.parts.len().max(1) as u64);
        let chance_s = SURE * self.spread_s * (2.0 / n_steps.max(1.0)).sqrt();
        let (before, step_before) = self.before(rank, n_parts);
        let before = rank.measured.earlier.map(|own| own - self.earlier).or(before);
        let step_before = step_before.or(rank.measured.earlier_step);
        let at_first = rank.measured.at_first.map(|own| own - self.at_first);
        let is_chance = excess * step.as_secs_f64() < chance_s;
        let share = if is_chance { 0.0 } else { (excess - self.by_chance(step)).clamp(0.0, 1.0) };
        let more_work = self.more_work(rank);
        let kind = if more_work.is_some() { FindingKind::UnevenWork } else { FindingKind::ComputeStraggler };
        Slow {
            kind,
            how: How::Steady,
            lost: of(step, share),
            share,
            own: (of(step, usual + excess), of(step, usual)),
            began: rank.measured.of_late(n_parts).1,
            since: roles::since(rank, excess, [before, at_first]),
            role: self.role(rank),
            step,
            step_before,
            more_work,
            ..self.blank(rank)
        }
    }

    /// By how much it was longer in the parts of the window before the newest `n`, and how long a step took then. All ranks are slow in
    /// their first steps.
    fn before(&self, rank: &Rank<'_>, n: usize) -> (Option<f64>, Option<Duration>) {
        let first_steps = FIRST_STEPS.saturating_mul(rank.measured.operations_per_step);
        let parts = rank.measured.excess(&self.parts).zip(rank.measured.parts.iter().rev()).skip(n);
        let (excess, rates): (Vec<f64>, Vec<f64>) = parts
            .filter(|(_, part)| part.n_before >= first_steps)
            .map(|(excess, part)| (excess, part.operations))
            .unzip();
        if excess.len() < NEWEST_PARTS {
            return (None, None);
        }
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / real(values.len() as u64);
        let step_s = real(rank.measured.operations_per_step) / mean(rates);
        (Some(mean(excess)), Duration::try_from_secs_f64(step_s).ok())
    }

    /// What shows that a rank that stands out does other work than those that do not.
    fn role(&self, rank: &Rank<'_>) -> Option<String> {
        let others = self.others.get_or_init(|| {
            let own: Vec<f64> = self.ranks.iter().map(|rank| rank.measured.own).collect();
            let apart = outliers(&own, LEAST).map(|found| found.places).unwrap_or_default();
            let apart: HashSet<usize> = apart.into_iter().collect();
            let others = self.ranks.iter().enumerate().filter(|(at, _)| !apart.contains(at));
            Usual::of(others.map(|(_, rank)| rank.process), (self.operations, self.bytes))
        });
        others.differs(rank)
    }

    /// One that stands for all: in the middle.
    fn typical(&self) -> Option<&'c Rank<'m>> {
        let mut ranks = self.ranks.clone();
        ranks.sort_by(|one, other| one.measured.own.total_cmp(&other.measured.own));
        // Of two the one that is not slower: what one of them takes longer is not what the stage takes.
        ranks.get(ranks.len().saturating_sub(1) / 2).copied()
    }

    /// Of ranks of which each stands for others like it, as a stage of a pipeline: those that all wait for. By design, unless they were
    /// as fast as the other stages once.
    fn stages(&self) -> Vec<Slow> {
        let own: Vec<f64> = self.ranks.iter().map(|rank| rank.measured.own).collect();
        let Some(found) = outliers(&own, LEAST) else { return Vec::new() };
        let ranks = found.places.iter().filter_map(|at| self.ranks.get(*at));
        let each = ranks.filter_map(|rank| Some(self.one(rank, self.steady_of_late(rank)?)));
        let as_a_stage = |slow: Slow| {
            let slow = Slow { is_stage: true, n_like: self.ranks.len() - found.places.len(), ..slow };
            if slow.since == Since::Later {
                return slow;
            }
            Slow { kind: FindingKind::OtherWork, role: slow.role.or(Some(A_STAGE.to_owned())), ..slow }
        };
        each.filter(|slow| slow.share >= LEAST_COST).map(as_a_stage).collect()
    }

    /// Where own times differ from step to step by chance, the step waits for whoever comes last, slow rank or not: by how much longer
    /// than usual the longest of all is then, as a share of the step.
    fn by_chance(&self, step: Duration) -> f64 {
        let n = real(self.ranks.len() as u64);
        // The expected largest of n normal values, fitted from 2 to 1000 to within 5 %, and of n values that are spread evenly, for
        // which the spread that is told is 1 / 1.35 of half their range. Nobody tells which they are.
        let normal = 1.055 * (2.0 * n.ln()).sqrt() - 0.684;
        let even = 1.35 * (n - 1.0) / (n + 1.0);
        let largest = f64::midpoint(normal, even);
        if step.is_zero() { 0.0 } else { self.spread_s * largest.max(0.0) / step.as_secs_f64() }
    }

    /// `usual`: what own time, and what long steps, usually take, as shares of the time.
    fn by_long_steps(&self, rank: &Rank<'_>, habit: &Habit, (own, usual): (f64, f64)) -> Option<Slow> {
        // All may have long steps, of which one is just long enough to be told.
        if habit.own - own < LEAST || habit.n_spells() < FEWEST_SPELLS || !habit.goes_on() {
            return None;
        }
        let (lost, step) = habit.lost_per_step()?;
        let share = (lost.as_secs_f64() / step.as_secs_f64()).clamp(0.0, 1.0 - usual.min(1.0));
        let how = match habit.period() {
            Some((steps, longer)) => How::Periodic { steps, longer },
            None => How::Intermittent,
        };
        let first = habit.long.first().map(|step| step.began.max(habit.since));
        Some(Slow { how, lost: of(step, share), share, began: first, ..self.blank(rank) })
    }

    fn blank(&self, rank: &Rank<'_>) -> Slow {
        let process = rank.process.name();
        Slow {
            subject: Subject::Process(process.clone()),
            kind: FindingKind::ComputeStraggler,
            how: How::Steady,
            process: process.clone(),
            processes: vec![process.clone()],
            n_like: 0,
            is_stage: false,
            lost: Duration::ZERO,
            share: 0.0,
            own: (Duration::ZERO, Duration::ZERO),
            has_steps: rank.measured.has_steps,
            began: None,
            since: Since::Later,
            role: None,
            beside: None,
            step: rank.measured.step,
            step_before: None,
            held_back: look_of(rank).and_then(seen::share_held_back),
            more_work: None,
            stopped: look_of(rank).and_then(seen::stopped),
            device: None,
        }
    }

    /// How much more it is asked to move, or to call, than its like: per second, and in each step too, for agents read their processes at
    /// different times, and a job is not equally fast at all of them.
    fn more_work(&self, rank: &Rank<'_>) -> Option<f64> {
        let ratio = |own: f64, usual: f64| (usual > 0.0).then(|| own / usual);
        let (bytes, operations) = rank.measured.per_step();
        let in_a_step = |own: f64, usual: fn((f64, f64)) -> f64| {
            self.per_step.map_or(Some(f64::INFINITY), |of_all| ratio(own, usual(of_all)))
        };
        let ratios = [
            ratio(rank.measured.bytes, self.bytes).zip(in_a_step(bytes, |all| all.0)),
            ratio(rank.measured.operations, self.operations).zip(in_a_step(operations, |all| all.1)),
        ];
        let ratios = ratios.map(|both| both.map(|(per_second, in_a_step)| f64::min(per_second, in_a_step)));
        let least = MORE_WORK.max(1.0 + EDGE_STEPS / rank.measured.n_steps);
        ratios.into_iter().flatten().max_by(f64::total_cmp).filter(|ratio| *ratio >= least)
    }
}

/// Who is slow in every step is waited for by all others, the other slow ones too: to mend one of them gains what it takes longer than
/// the next one. `slow`: the costliest first.
fn share_out(slow: &mut [Slow]) {
    // Stops, and waits for a processor, come at any time, so that they add up.
    let is_such =
        |slow: &&Slow| slow.how == How::Steady && slow.stopped.is_none() && slow.held_back.is_none();
    let all: Vec<(Name, Duration, f64)> =
        slow.iter().filter(is_such).map(|slow| (slow.process.clone(), slow.lost, slow.share)).collect();
    if all.len() < 2 {
        return;
    }
    let next = |at: usize| all.get(at + 1).map_or((Duration::ZERO, 0.0), |(_, lost, share)| (*lost, *share));
    for (at, slow) in slow.iter_mut().filter(|slow| is_such(&&**slow)).enumerate() {
        let others = all.iter().enumerate().filter(|(other, _)| *other != at);
        let others = others.map(|(_, (process, lost, _))| (process.clone(), *lost)).collect();
        let alone = if at == 0 { slow.lost.saturating_sub(next(at).0) } else { Duration::ZERO };
        // What each costs more than the next one is shared by all that cost at least as much.
        let steps = all.iter().enumerate().skip(at);
        let part = steps.map(|(at, (.., share))| (share - next(at).1).max(0.0) / real(at as u64 + 1)).sum();
        slow.beside = Some(Beside { others, alone, part });
    }
}

/// A look of long ago says nothing of now.
fn look_of<'r>(rank: &'r Rank<'_>) -> Option<&'r Look> {
    let look = rank.process.look().map(|look| &**look);
    look.filter(|_| rank.looked.is_some_and(|at| rank.measured.told.since(at) < LOOK_HOLDS))
}

fn host_of<'r>(rank: &'r Rank<'_>) -> Option<&'r str> {
    rank.process.identity().map(|identity| &*identity.host)
}

/// A share of a time. Numbers that agents told may be anything.
fn of(time: Duration, share: f64) -> Duration {
    Duration::try_from_secs_f64(time.as_secs_f64() * share.max(0.0)).unwrap_or_default()
}

/// Those of a host of which all ranks are slow in every step, as one; all others as they are.
fn hosts_as_one(slow: Vec<Slow>, scene: &Scene<'_>) -> Vec<Slow> {
    let is_steady = |slow: &Slow| slow.how == How::Steady;
    let (steady, mut all): (Vec<Slow>, Vec<Slow>) = slow.into_iter().partition(is_steady);
    if steady.len() < 2 {
        all.extend(steady);
        return all;
    }
    let ranks = || scene.classes.iter().flatten();
    let mut on_host: HashMap<&str, usize> = HashMap::new();
    for host in ranks().filter_map(host_of) {
        *on_host.entry(host).or_default() += 1;
    }
    let hosts: HashMap<&Name, &str> =
        ranks().filter_map(|rank| Some((rank.process.name(), host_of(rank)?))).collect();
    let mut by_host: BTreeMap<&str, Vec<Slow>> = BTreeMap::new();
    for slow in steady {
        match hosts.get(&slow.process) {
            Some(host) => by_host.entry(host).or_default().push(slow),
            None => all.push(slow),
        }
    }
    for (host, mut its) in by_host {
        // Not by who is the slowest at this look: the same are named in the same order.
        its.sort_by(|one, other| one.process.cmp(&other.process));
        let is_whole = its.len() > 1 && on_host.get(host) == Some(&its.len()) && on_host.len() > 1;
        if is_whole {
            all.extend(whole_host(host, its));
        } else {
            all.extend(its);
        }
    }
    all
}

/// A stage that is slower than it was: all of its ranks, which are a host where they are all on one.
fn as_slower_stage(slow: Slow, classes: &[Class<'_, '_>], scene: &Scene<'_>) -> Slow {
    let is_its = |class: &&Class<'_, '_>| class.ranks.iter().any(|rank| *rank.process.name() == slow.process);
    let Some(class) = classes.iter().find(is_its) else { return slow };
    let processes = class.ranks.iter().map(|rank| rank.process.name().clone()).collect();
    // It is compared with stages that may be asked for less, or for more, by design.
    let slow = Slow { kind: FindingKind::ComputeStraggler, more_work: None, processes, ..slow };
    let host = class.ranks.first().and_then(|rank| host_of(rank));
    let is_there = |rank: &Rank<'_>| host_of(rank) == host;
    let n_there = scene.classes.iter().flatten().filter(|rank| is_there(rank)).count();
    let is_whole =
        n_there > 1 && n_there == class.ranks.len() && class.ranks.iter().all(|rank| is_there(rank));
    match host.filter(|_| is_whole) {
        Some(host) => Slow { subject: Subject::Host(host.into()), kind: FindingKind::SlowHost, ..slow },
        None => slow,
    }
}

/// The slowest stands for its host. What it costs is the mean of its ranks, not the largest: among many ranks the largest is larger by
/// chance.
fn whole_host(host: &str, each: Vec<Slow>) -> Option<Slow> {
    let processes = each.iter().map(|slow| slow.process.clone()).collect();
    let began = each.iter().filter_map(|slow| slow.began).min();
    let n = u32::try_from(each.len()).unwrap_or(u32::MAX).max(1);
    let since = each.iter().map(|slow| slow.since).find(|since| *since == Since::Later);
    let role = each.iter().all(|slow| slow.role.is_some());
    let share = each.iter().map(|slow| slow.share).sum::<f64>() / f64::from(n);
    let lost = each.iter().map(|slow| slow.lost).fold(Duration::ZERO, Duration::saturating_add) / n;
    // A host of which all ranks are given more is no slow host.
    let more_work =
        each.iter().map(|slow| slow.more_work).reduce(|one, other| Some(one?.min(other?))).flatten();
    let worst = each.into_iter().max_by(|one, other| one.share.total_cmp(&other.share))?;
    Some(Slow {
        subject: Subject::Host(host.into()),
        kind: if more_work.is_some() { FindingKind::UnevenWork } else { FindingKind::SlowHost },
        since: since.unwrap_or(worst.since),
        role: worst.role.filter(|_| role),
        more_work,
        device: None,
        processes,
        began,
        share,
        lost,
        ..worst
    })
}

/// Said of a rank that stands for a stage, where neither its program nor its calls show what it does.
const A_STAGE: &str = "by its sends and receives it is another stage of a pipeline, or another part of the job, than they are; whether \
                       its part is larger, or it is slower, cannot be told";
/// So many standard deviations of a difference are no chance: many ranks are looked at, and often.
const SURE: f64 = 4.0;
/// Share of the job's time from which on somebody counts as slow.
const LEAST: f64 = 0.06;
/// Who is slow in every step is so in most parts of the window.
const MOSTLY: f64 = 0.6;
/// Newest parts in which it is so too.
const NEWEST_PARTS: usize = 2;
/// Of the job's time, what it has to cost after what chance costs anyway.
const LEAST_COST: f64 = 0.04;
/// Spells of long steps that make a habit: once is an evaluation, twice a coincidence.
const FEWEST_SPELLS: usize = 3;
/// So much more than its like, and it was given more ...
const MORE_WORK: f64 = 1.08;
/// ... if that is more than what is under way at the two edges of the window, in steps.
const EDGE_STEPS: f64 = 2.5;
/// For so long a look says how it is: until after the next one.
const LOOK_HOLDS: Duration = Duration::from_secs(90);
/// Findings of one look at a job: the costliest.
const MAX_SLOW: usize = 64;
