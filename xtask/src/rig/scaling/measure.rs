//! What the machines cost, by themselves; and what steps take, in turns: each round goes through all ways and modes.

use anyhow::Result;

use super::formulas::{Costs, Link, Message, Shape, Way, real_bytes as real, without_overlap};
use super::hosts::{Fleet, Ground};
use super::options::{Mode, Plan};
use crate::process::say;

/// A way, with whom and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) way: Way,
    pub(super) shape: Shape,
    pub(super) mode: Mode,
}

/// The middle of some times, and the outermost ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median_s: f64,
    pub(super) least_s: f64,
    pub(super) most_s: f64,
}

/// What a pair showed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    /// One message of next to nothing.
    one_s: f64,
    /// What each of many adds.
    more_s: f64,
    /// The whole model.
    whole_s: f64,
}

/// Costs, and what a link carried in the same run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) costs: Costs,
    /// Bytes per second of payload, both ways at once, by one large message.
    pub(super) carried_bytes_per_s: f64,
}

/// Costs of a pair of hosts, and of a pair on one host. What a link carries is derived: payload of whole packets.
pub(super) fn costs(ground: &Ground, plan: &Plan) -> Result<Measured> {
    let host = Shape { hosts: 1, ranks_per_host: 2 };
    let hosts = Shape { hosts: 2, ranks_per_host: 1 };
    let inside = pair(ground, plan, (0, Way::Ring, host))?;
    let between = pair(ground, plan, (1, Way::Ring, hosts))?;
    let summed = pair(ground, plan, (2, Way::Summation { helpers: 1 }, hosts))?;
    let bytes = real(plan.gradient_bytes);
    // An all-reduce of two is two hops, and each rank sends all bytes once.
    let alpha = |pair: Pair| pair.more_s / 2.0;
    let bytes_per_s = |pair: Pair| bytes / (pair.whole_s - pair.one_s);
    let costs = Costs {
        between: Link {
            alpha_s: plan.alpha_s.unwrap_or(alpha(between)),
            bytes_per_s: plan.link_bytes_per_s(),
        },
        inside: Link { alpha_s: alpha(inside), bytes_per_s: bytes_per_s(inside) },
        push_pull_s: summed.one_s,
        push_pull_more_s: summed.more_s,
    };
    Ok(Measured { costs, carried_bytes_per_s: bytes_per_s(between) })
}

fn pair(ground: &Ground, plan: &Plan, (number, way, shape): (u16, Way, Shape)) -> Result<Pair> {
    let tiny = Message { ready_s: 0.0, bytes: 4 };
    let whole = Message { ready_s: 0.0, bytes: plan.gradient_bytes };
    let layouts = [vec![tiny; 1], vec![tiny; 1 + MORE], vec![whole]];
    let mut fleet = ground.fleet(number, way, shape, &layouts)?;
    let mut times = [const { Vec::new() }; 3];
    for turn in 0..=plan.n_pair_turns {
        for (layout, messages) in layouts.iter().enumerate() {
            let took = fleet.step(layout, messages)?;
            // The first turn finds everything cold.
            if turn > 0 {
                times[layout].push(took);
            }
        }
    }
    fleet.leave()?;
    let [one_s, many_s, whole_s] = times.map(|times| Spread::of(times).median_s);
    #[expect(clippy::cast_precision_loss, reason = "a few")]
    let more_s = (many_s - one_s).max(0.0) / MORE as f64;
    Ok(Pair { one_s, more_s, whole_s })
}

/// Steps of all ways and modes on all hosts that are measured.
pub(super) fn steps(ground: &Ground, plan: &Plan) -> Result<Vec<(Case, Spread)>> {
    let on_hosts = plan.measured_hosts().into_iter().flat_map(Plan::ways);
    let mut fleets = Vec::new();
    for (number, (way, shape)) in (FIRST_NUMBER..).zip(on_hosts) {
        let mut fleet = ground.fleet(number, way, shape, plan.layouts())?;
        // The first step of each layout finds everything cold.
        for (layout, messages) in plan.layouts().iter().enumerate() {
            fleet.step(layout, &without_overlap(messages, 0.0))?;
        }
        fleets.push((way, shape, fleet));
    }
    say(&format!("scaling: {} groups of ranks stand; {} rounds", fleets.len(), plan.n_rounds));
    let mut times = vec![Vec::new(); fleets.len() * Mode::ALL.len()];
    for round in 0..plan.n_rounds {
        // Each round begins with another one, so that none is always behind the same.
        for turn in 0..times.len() {
            let case = (turn + usize::try_from(round).unwrap_or(0) * TURNED) % times.len();
            let (_, _, fleet) = &mut fleets[case / Mode::ALL.len()];
            times[case].push(measure(fleet, plan, Mode::ALL[case % Mode::ALL.len()])?);
        }
        say(&format!("scaling: round {} of {}", round + 1, plan.n_rounds));
    }
    let case = |(index, times): (usize, Vec<f64>)| {
        let (way, shape, _) = fleets[index / Mode::ALL.len()];
        (Case { way, shape, mode: Mode::ALL[index % Mode::ALL.len()] }, Spread::of(times))
    };
    let found = times.into_iter().enumerate().map(case).collect();
    fleets.into_iter().try_for_each(|(_, _, fleet)| fleet.leave())?;
    Ok(found)
}

fn measure(fleet: &mut Fleet, plan: &Plan, mode: Mode) -> Result<f64> {
    fleet.step(mode.layout(), &plan.messages(mode))
}

impl Spread {
    /// Of an even number, the larger one of both in the middle.
    pub(super) fn of(mut times_s: Vec<f64>) -> Self {
        times_s.sort_by(f64::total_cmp);
        let at = |index: usize| times_s.get(index).copied().unwrap_or(f64::NAN);
        let last = times_s.len().saturating_sub(1);
        Self { median_s: at(times_s.len() / 2), least_s: at(0), most_s: at(last) }
    }
}

/// Messages beside the first, of what each of many adds.
const MORE: usize = 64;
/// Of the fleets whose steps are measured; pairs have those before.
const FIRST_NUMBER: u16 = 3;
/// By how many cases a round begins further than the one before it: no divisor of their number.
const TURNED: usize = 29;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_outermost() {
        let spread = |times: &[f64]| Spread::of(times.to_vec());
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Spread { median_s: 2.0, least_s: 1.0, most_s: 3.0 });
        assert!((spread(&[1.0, 2.0]).median_s - 2.0).abs() < 1e-9);
        assert!(spread(&[]).median_s.is_nan());
    }
}
