//! How soon slow ranks are named, and whether what they are said to cost is right.

use std::collections::BTreeMap;

use ringscope_api::Cost;
use serde::Serialize;

use crate::score::{Trial, kinds, median, share};

/// What a slow job is tried for beside who is named.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Pace {
    /// Seconds by which its steps are longer: by the job's own account, and as they were timed before and since.
    pub(crate) injected_s: Option<f64>,
    pub(crate) timed_s: Option<f64>,
    /// Seconds of a step since.
    pub(crate) step_s: Option<f64>,
    /// Seconds within which it must be named, where that is more than [`LIMIT_S`].
    pub(crate) listens_s: Option<f64>,
    /// What was said of it last.
    pub(crate) said: Option<Cost>,
}

impl Pace {
    /// What a step is longer by. The job's account is the better one: timing has the machine's noise in it.
    fn truth_s(&self) -> Option<f64> {
        self.injected_s.or(self.timed_s)
    }

    /// Share by which what was said is more than the truth.
    fn error(&self) -> Option<f64> {
        Some(self.said?.seconds_per_step / self.truth_s()? - 1.0)
    }

    /// Named within this, it was in time.
    fn limit_s(&self) -> f64 {
        self.listens_s.unwrap_or(LIMIT_S).max(LIMIT_STEPS * self.step_s.unwrap_or_default())
    }
}

/// A straggler is to be named within so many seconds, or steps where they take longer than that.
pub(crate) const LIMIT_S: f64 = 15.0;
const LIMIT_STEPS: f64 = 20.0;
/// What it is said to cost is to be that near to the truth.
const COST_ERROR: f64 = 0.15;

/// Named, but too late.
fn is_late(trial: &Trial, pace: &Pace) -> bool {
    trial.named_s.is_some_and(|after_s| after_s > pace.limit_s())
}

/// Named, and what it costs was not said, or wrongly.
fn is_cost_wrong(trial: &Trial, pace: &Pace) -> bool {
    let is_due = trial.named_s.is_some() && pace.truth_s().is_some();
    is_due && pace.error().is_none_or(|error| error.abs() > COST_ERROR)
}

fn paces<'a>(trials: &'a [&Trial]) -> impl Iterator<Item = (&'a Trial, &'a Pace)> {
    trials.iter().filter(|trial| !trial.is_twin()).filter_map(|trial| Some((*trial, trial.pace.as_ref()?)))
}

/// Prints the table; false if something was late or had a wrong cost.
pub(crate) fn print(trials: &[&Trial]) -> bool {
    let mut rows: BTreeMap<(bool, &str), Vec<&Trial>> = BTreeMap::new();
    for trial in trials {
        rows.entry((trial.is_twin(), &trial.name)).or_default().push(trial);
    }
    println!(
        "| slow | trials | named | in time | accused innocents | seconds to name, median (max) | ms a step: said, true \
         (timed) | error of cost, each | said |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for ((is_twin, name), trials) in &rows {
        let named = || trials.iter().filter(|trial| trial.named_s.is_some());
        let late = paces(trials).filter(|(trial, pace)| is_late(trial, pace)).count();
        let unjust = trials.iter().filter(|trial| trial.is_unjust()).count();
        let (typical, max) = median(named().filter_map(|trial| trial.named_s).collect());
        let [count, in_time] = [named().count(), named().count() - late]
            .map(|n| if *is_twin { "-".to_owned() } else { n.to_string() });
        println!(
            "| {name}{} | {} | {count} | {in_time} | {unjust} | {typical}{} | {} | {} | {} |",
            if *is_twin { " (healthy)" } else { "" },
            trials.len(),
            if max.is_empty() { max } else { format!(" ({max})") },
            costs(trials),
            errors(trials),
            kinds(trials),
        );
    }
    sum_up(trials)
}

/// Medians over the trials.
fn costs(trials: &[&Trial]) -> String {
    let typical = |of: &dyn Fn(&Pace) -> Option<f64>| {
        median(paces(trials).filter_map(|(_, pace)| of(pace)).map(|seconds| seconds * 1e3).collect()).0
    };
    if paces(trials).next().is_none() {
        return "-".to_owned();
    }
    let said = typical(&|pace| pace.said.map(|cost| cost.seconds_per_step));
    format!("{said}, {} ({})", typical(&Pace::truth_s), typical(&|pace| pace.timed_s))
}

fn errors(trials: &[&Trial]) -> String {
    let errors = paces(trials).filter_map(|(_, pace)| pace.error());
    let errors: Vec<String> = errors.map(|error| format!("{:+.0} %", error * 100.0)).collect();
    if errors.is_empty() { "-".to_owned() } else { errors.join(", ") }
}

fn sum_up(trials: &[&Trial]) -> bool {
    let late: Vec<_> = paces(trials).filter(|(trial, pace)| is_late(trial, pace)).collect();
    let wrong: Vec<_> = paces(trials).filter(|(trial, pace)| is_cost_wrong(trial, pace)).collect();
    let named = paces(trials).filter(|(trial, _)| trial.named_s.is_some()).count();
    let told =
        paces(trials).filter(|(trial, pace)| trial.named_s.is_some() && pace.truth_s().is_some()).count();
    println!(
        "\nof {named} slow ones named: within {LIMIT_S:.0} s or {LIMIT_STEPS:.0} steps {}, cost within {:.0} % {}",
        share(named - late.len(), named),
        COST_ERROR * 100.0,
        share(told - wrong.len(), told),
    );
    for (trial, pace) in &late {
        let after_s = trial.named_s.unwrap_or_default();
        println!(
            "{} seed {}: named after {after_s:.1} s, and not {:.1}",
            trial.name,
            trial.seed,
            pace.limit_s()
        );
    }
    for (trial, pace) in &wrong {
        let ms = |seconds: Option<f64>| {
            seconds.map_or("nothing".to_owned(), |seconds| format!("{:.1} ms", seconds * 1e3))
        };
        let said = ms(pace.said.map(|cost| cost.seconds_per_step));
        println!(
            "{} seed {}: said to cost {said} a step, in truth {}",
            trial.name,
            trial.seed,
            ms(pace.truth_s())
        );
    }
    late.is_empty() && wrong.is_empty()
}
