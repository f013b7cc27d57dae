//! What is known of steps: predicted, measured and simulated, by way, hosts and mode.

use super::formulas::{Costs, Shape, Way};
use super::measure::{Case, Spread};
use super::options::{Mode, Plan, powers_of_two};
use super::simulate::{MODE, MOST_HOSTS};

/// All that is known of all cases.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) plan: Plan,
    pub(super) costs: Costs,
    /// What a link carried, where one was measured.
    pub(super) carried_bytes_per_s: Option<f64>,
    /// By hosts, then as [`Plan::ways`] has them, then by mode.
    rows: Vec<Row>,
}

/// One case: seconds of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) case: Case,
    pub(super) predicted_s: f64,
    pub(super) measured: Option<Spread>,
    pub(super) simulated_s: Option<f64>,
}

impl Table {
    /// Beside what formulas say, up to the hosts that are drawn.
    pub(super) fn new(
        plan: &Plan,
        costs: Costs,
        carried_bytes_per_s: Option<f64>,
        measured: &[(Case, Spread)],
        simulated: &[(Case, f64)],
    ) -> Self {
        let row = |case: Case| {
            let messages = plan.messages(case.mode);
            Row {
                case,
                predicted_s: case.way.step_s(case.shape, &costs, &messages, plan.compute_s),
                measured: measured.iter().find(|(of, _)| *of == case).map(|(_, spread)| *spread),
                simulated_s: simulated.iter().find(|(of, _)| *of == case).map(|(_, step_s)| *step_s),
            }
        };
        let cases = powers_of_two(MOST_HOSTS)
            .into_iter()
            .flat_map(Plan::ways)
            .flat_map(|(way, shape)| Mode::ALL.into_iter().map(move |mode| Case { way, shape, mode }));
        Self { plan: plan.clone(), costs, carried_bytes_per_s, rows: cases.map(row).collect() }
    }

    /// All cases.
    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Of what a rank alone does in a time, the part that each of many does.
    pub(super) fn efficiency(&self, step_s: f64) -> f64 {
        self.plan.compute_s / step_s
    }

    /// In a line: what is trained, and over what.
    pub(super) fn heading(&self) -> String {
        let Plan { gradient_bytes, compute_s, rate_mbit, .. } = self.plan;
        format!(
            "{} MiB of gradients, {:.0} ms of compute, links of {rate_mbit} Mbit/s",
            gradient_bytes >> 20,
            1e3 * compute_s
        )
    }
}

/// One way of summing over any number of hosts, with overlap and fusion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) ranks_per_host: usize,
    /// By hosts.
    way: fn(usize) -> Way,
}

/// All that are shown.
pub(super) fn columns() -> [Column; 6] {
    let half: fn(usize) -> Way = |hosts| Way::Summation { helpers: hosts.div_ceil(2) };
    [
        Column { name: "ring", ranks_per_host: 1, way: |_| Way::Ring },
        Column { name: "summation, helpers for half", ranks_per_host: 1, way: half },
        Column {
            name: "summation, helpers for all",
            ranks_per_host: 1,
            way: |hosts| Way::Summation { helpers: hosts },
        },
        Column { name: "ring, 2 ranks", ranks_per_host: 2, way: |_| Way::Ring },
        Column { name: "hierarchical, 2 ranks", ranks_per_host: 2, way: |_| Way::Hierarchical },
        Column { name: "summation, 2 ranks, helpers for half", ranks_per_host: 2, way: half },
    ]
}

impl Column {
    /// Whether a row is of this way and its best mode.
    pub(super) fn has(&self, row: &Row) -> bool {
        self.is_of(row) && row.case.mode == MODE
    }

    /// Whether a row is of this way.
    pub(super) fn is_of(&self, row: &Row) -> bool {
        let Shape { hosts, ranks_per_host } = row.case.shape;
        ranks_per_host == self.ranks_per_host && row.case.way == (self.way)(hosts)
    }
}

/// A way in words.
pub(super) fn name(way: Way) -> String {
    match way {
        Way::Ring => "ring".to_owned(),
        Way::Hierarchical => "hierarchical".to_owned(),
        Way::Summation { helpers } => format!("summation, {helpers} helping"),
    }
}

/// Who sums how.
pub(super) fn who(way: Way, shape: Shape) -> String {
    format!("{} x {} {}", shape.hosts, shape.ranks_per_host, name(way))
}
