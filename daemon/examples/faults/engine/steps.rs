//! By how much the steps of a job are longer since a fault: as the job knows it, and as the steps were timed.

use super::job::Event;
use super::slow::Slow;
use crate::pace::Pace;

/// From what its ranks have said.
pub(crate) fn pace(events: &[Event], slow: Slow) -> Pace {
    let Some(since) = events.iter().find(|event| event.event == "fault").map(|event| event.step) else {
        return Pace::default();
    };
    let steps: Vec<&Event> = events.iter().filter(|event| event.event == "step" && event.rank == 0).collect();
    let durations_s = |is_wanted: &dyn Fn(i64) -> bool| {
        let pairs = steps.windows(2).filter(|pair| is_wanted(pair[1].step));
        mean(pairs.map(|pair| pair[1].wall_ns.saturating_sub(pair[0].wall_ns) as f64 / 1e9).collect())
    };
    let newest_ns = steps.last().map_or(0, |event| event.wall_ns);
    let is_judged =
        |event: &&&Event| event.step >= since && (!slow.changes || newest_ns - event.wall_ns <= WINDOW_NS);
    let slower_s = steps.iter().filter(is_judged).map(|event| event.slower_us as f64 / 1e6);
    let before_s = durations_s(&|step| step > FIRST_STEPS && step < since);
    let after_s = durations_s(&|step| step > since);
    Pace {
        injected_s: mean(slower_s.collect()).filter(|seconds| *seconds > 0.0),
        timed_s: before_s.zip(after_s).map(|(before, after)| after - before),
        step_s: after_s,
        ..Pace::default()
    }
}

fn mean(values: Vec<f64>) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// What is said of a step is of the newest seconds.
const WINDOW_NS: u64 = 8_000_000_000;
/// They take longer than the later ones: connections are made.
const FIRST_STEPS: i64 = 10;
