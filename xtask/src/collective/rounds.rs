//! Rounds: at each size all contenders one after another, and again.

use anyhow::Result;
use serde::Serialize;

use super::contender::{self, Contender};
use super::machine::{self, Machine};
use super::options::{Options, Transport, show_size};
use super::programs::Programs;
use super::statistics::Spread;
use super::team::{Order, Team};
use crate::process::say;

/// Batches of a round; their median is its figure.
const BATCHES: usize = 8;
/// Ranks that have just woken up are slow: the scheduler has yet to spread them, and caches to fill.
const WARM_UP_NS: f64 = 2e7;
/// A round of slow operations has fewer batches, down to three, to last no longer than this.
const ROUND_NS: f64 = 4e8;
/// How late the last rank is where waiting is measured: longer than any library spins before it sleeps, if it ever does.
const LATE_US: u64 = 5000;
/// Sizes at which waiting is measured.
const WAITING_BYTES: [usize; 2] = [1 << 10, 1 << 20];
/// Of the time between orders, a library whose ranks took more than this share disturbs the others.
const QUIET_CPU_NS: f64 = 50e6;

/// What one contender took.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cell {
    /// Its transport.
    pub(crate) transport: Transport,
    /// Its name.
    pub(crate) name: String,
    /// Ranks.
    pub(crate) n_ranks: usize,
    /// Size of each buffer.
    pub(crate) bytes: usize,
    /// How late the last rank was.
    pub(crate) late_us: u64,
    /// Median of each round's batches, nanoseconds per operation.
    pub(crate) rounds_ns: Vec<f64>,
    /// Processor time per operation of all ranks, in each round.
    pub(crate) rounds_cpu_ns: Vec<f64>,
}

/// All that was measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Results {
    /// On what.
    pub(crate) machine: Machine,
    /// How many rounds.
    pub(crate) rounds: usize,
    /// Every figure.
    pub(crate) cells: Vec<Cell>,
    /// Who is missing, and why.
    pub(crate) missing: Vec<(String, String)>,
}

impl Cell {
    /// Nanoseconds per operation over the rounds.
    pub(crate) fn time_ns(&self) -> Option<Spread> {
        Spread::of(&self.rounds_ns)
    }

    /// Processor time per operation over the rounds.
    pub(crate) fn cpu_ns(&self) -> Option<Spread> {
        Spread::of(&self.rounds_cpu_ns)
    }
}

/// Measures everything that is asked for.
pub(crate) fn run(options: &Options, programs: &Programs) -> Result<Results> {
    let mut results = Results::new(options, programs);
    for &transport in &options.transports {
        let contenders = contender::wanted(options, programs, transport);
        for &n_ranks in &options.ranks {
            Field::start(options, programs, &contenders, n_ranks, &mut results).measure(&mut results);
        }
        if !options.no_waiting {
            let n_ranks = 2 * machine::cores();
            Field::start(options, programs, &contenders, n_ranks, &mut results).wait(&mut results);
        }
    }
    Ok(results)
}

/// The teams of one transport and number of ranks.
pub(crate) struct Field<'a> {
    options: &'a Options,
    n_ranks: usize,
    teams: Vec<Team>,
}

impl<'a> Field<'a> {
    /// Starts a team of each contender that can be started.
    pub(crate) fn start(
        options: &'a Options,
        programs: &Programs,
        contenders: &[Contender],
        n_ranks: usize,
        results: &mut Results,
    ) -> Self {
        let congestion = results.machine.congestion.clone();
        let mut teams = Vec::new();
        for contender in contenders {
            match Team::start(contender.clone(), programs, n_ranks, congestion.as_deref()) {
                Ok(team) => teams.push(team),
                Err(error) => results.leave_out(contender, n_ranks, &error),
            }
        }
        Self { options, n_ranks, teams }
    }

    /// Every size.
    pub(crate) fn measure(mut self, results: &mut Results) {
        for bytes in self.options.sizes_bytes() {
            let orders = self.calibrate(bytes, results);
            self.rounds(&orders, results);
        }
    }

    /// What waiting costs: the last rank is always late.
    fn wait(mut self, results: &mut Results) {
        self.teams.retain(|team| team.contender.library != contender::Library::Limit);
        for bytes in WAITING_BYTES {
            let order = Order { bytes, batches: 1, per_batch: 20, warm_up: 2, late_us: LATE_US };
            let orders = vec![order; self.teams.len()];
            self.rounds(&orders, results);
        }
    }

    /// How many operations fill a batch, for each team; who fails is out.
    fn calibrate(&mut self, bytes: usize, results: &mut Results) -> Vec<Order> {
        let batch_ns = self.options.batch_ns();
        let mut orders = Vec::new();
        let mut kept = Vec::new();
        for mut team in std::mem::take(&mut self.teams) {
            match operation_ns(&mut team, bytes, batch_ns) {
                Ok(operation_ns) => {
                    orders.push(fill(bytes, operation_ns, batch_ns));
                    kept.push(team);
                }
                Err(error) => results.leave_out(&team.contender, self.n_ranks, &error),
            }
        }
        self.teams = kept;
        orders
    }

    fn rounds(&mut self, orders: &[Order], results: &mut Results) {
        let first = results.cells.len();
        for (team, order) in self.teams.iter().zip(orders) {
            results.cells.push(Cell::new(&team.contender, self.n_ranks, order));
        }
        let n_teams = self.teams.len();
        for round in 0..self.options.n_rounds() {
            // Each round begins with another one.
            for index in (0..n_teams).map(|index| (index + round) % n_teams) {
                let team = &mut self.teams[index];
                match team.measure(&orders[index]) {
                    Ok(answer) => results.cells[first + index].add(&answer),
                    Err(error) => results.leave_out(&team.contender, self.n_ranks, &error),
                }
            }
        }
        for cell in &results.cells[first..] {
            say(&cell.line());
        }
    }
}

impl Results {
    /// None yet.
    pub(crate) fn new(options: &Options, programs: &Programs) -> Self {
        Self {
            machine: Machine::this(options),
            rounds: options.n_rounds(),
            cells: Vec::new(),
            missing: programs.missing.clone(),
        }
    }

    fn leave_out(&mut self, contender: &Contender, n_ranks: usize, error: &anyhow::Error) {
        let name = format!("{} over {:?}, {n_ranks} ranks", contender.name(), contender.transport);
        say(&format!("without {name}: {error:#}"));
        if !self.missing.iter().any(|(known, _)| *known == name) {
            self.missing.push((name, format!("{error:#}")));
        }
    }
}

impl Cell {
    fn new(contender: &Contender, n_ranks: usize, order: &Order) -> Self {
        Self {
            transport: contender.transport,
            name: contender.name(),
            n_ranks,
            bytes: order.bytes,
            late_us: order.late_us,
            rounds_ns: Vec::new(),
            rounds_cpu_ns: Vec::new(),
        }
    }

    fn add(&mut self, answer: &super::team::Answer) {
        self.rounds_ns.extend(Spread::of(&answer.batches_ns).map(|spread| spread.median));
        self.rounds_cpu_ns.push(answer.cpu_ns);
        if answer.idle_cpu_ns > QUIET_CPU_NS {
            let ms = answer.idle_cpu_ns / 1e6;
            say(&format!("{} took {ms:.0} ms of processor between two orders", self.name));
        }
    }

    fn line(&self) -> String {
        let Some(spread) = self.time_ns() else { return format!("{}: nothing", self.name) };
        format!(
            "{:?} {} ranks {:>8} {:<26} {:>12.2} us ({:.2} to {:.2})",
            self.transport,
            self.n_ranks,
            show_size(self.bytes),
            self.name,
            spread.median / 1e3,
            spread.min / 1e3,
            spread.max / 1e3
        )
    }
}

/// About what an operation takes: more and more of them, until they fill a batch.
fn operation_ns(team: &mut Team, bytes: usize, batch_ns: f64) -> Result<f64> {
    let mut per_batch = 2;
    loop {
        let trial = Order { bytes, batches: 2, per_batch, warm_up: per_batch, late_us: 0 };
        let answer = team.measure(&trial)?;
        let fastest = answer.batches_ns.iter().copied().fold(f64::INFINITY, f64::min);
        let filling = whole(batch_ns / fastest.max(1.0));
        if filling <= per_batch {
            return Ok(fastest);
        }
        per_batch = filling.min(per_batch * 8);
    }
}

/// As many operations as fill a batch, as few batches as fit in a round.
fn fill(bytes: usize, operation_ns: f64, batch_ns: f64) -> Order {
    let per_batch = whole(batch_ns / operation_ns).clamp(1, 50_000);
    let batches = whole(ROUND_NS / operation_ns.max(1.0)).clamp(3, BATCHES);
    Order {
        bytes,
        batches,
        per_batch,
        warm_up: whole(WARM_UP_NS / operation_ns).clamp(1, 50_000),
        late_us: 0,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small positive number, clamped"
)]
fn whole(number: f64) -> usize {
    number.ceil() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_operations_fill_batches() {
        let order = fill(4, 1000.0, 4e6);
        assert_eq!((order.batches, order.per_batch, order.warm_up), (8, 4000, 20_000));
    }

    #[test]
    fn long_operations_are_single() {
        let order = fill(1 << 28, 2.5e8, 4e6);
        assert_eq!((order.batches, order.per_batch, order.warm_up), (3, 1, 1));
    }
}
