//! One process's part in a group, and how fast what it counts grows.

use std::time::Duration;

use ringscope_api::SummationRole as Role;
use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::{SummationMember, SummationRole, SummationState, SummationTraffic};

use super::super::agents::Stamp;
use super::super::process::ProcessId;
use super::super::rate::Window;

/// Role and number: workers first, then servers.
pub type Place = (Role, u32);

/// See the module.
#[derive(Debug)]
pub struct Member {
    pub(super) process: ProcessId,
    pub(super) stamp: Stamp,
    /// The newest word; without results, which the group keeps.
    pub(super) told: SummationMember,
    /// Time by our clock that it is of.
    pub(super) at: Timestamp,
    /// When it ended, by our clock at the latest.
    pub(super) ended: Option<Timestamp>,
    flows: Vec<Flow>,
    stages: Vec<Stage>,
    summed: Window,
    finished: Window,
}

#[derive(Debug, Default)]
struct Flow {
    pushed: Window,
    pulled: Window,
}

#[derive(Debug, Default)]
struct Stage {
    left: Window,
    waited_ns: Window,
    worked_ns: Window,
}

/// How parts go through a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the fields are those of api::SummationStage")]
pub struct StagePace {
    pub parts_per_s: f64,
    pub mean_wait: Duration,
    pub mean_work: Duration,
}

impl Member {
    pub(super) fn new(process: ProcessId) -> Self {
        Self {
            process,
            stamp: Stamp::STORE,
            told: SummationMember::default(),
            at: Timestamp(0),
            ended: None,
            flows: Vec::new(),
            stages: Vec::new(),
            summed: Window::default(),
            finished: Window::default(),
        }
    }

    /// Takes a word that is not older than the one before. `grew_from`: it counts from nothing since then.
    pub(super) fn hear(
        &mut self,
        told: SummationMember,
        stamp: Stamp,
        (at, now): (Timestamp, Timestamp),
        grew_from: Option<Timestamp>,
    ) {
        if self.stamp == Stamp::STORE && stamp != Stamp::STORE {
            self.restart_rates();
        }
        self.flows.resize_with(told.services.len(), Flow::default);
        self.stages.resize_with(told.stages.len(), Stage::default);
        let note = |window: &mut Window, value| {
            if window.newest().is_some_and(|newest| value < newest) {
                // It counts anew, as when more tensors are declared.
                *window = Window::default();
            } else if let Some(from) = grew_from.filter(|_| window.is_empty()) {
                window.push(from.min(at), 0);
            }
            window.push(at, value);
        };
        for (flow, service) in self.flows.iter_mut().zip(&told.services) {
            note(&mut flow.pushed, sum(&service.traffic, |traffic| traffic.push_completed_bytes));
            note(&mut flow.pulled, sum(&service.traffic, |traffic| traffic.pull_completed_bytes));
        }
        for (stage, of) in self.stages.iter_mut().zip(&told.stages) {
            note(&mut stage.left, of.left_parts);
            note(&mut stage.waited_ns, of.waited_ns);
            note(&mut stage.worked_ns, of.worked_ns);
        }
        note(&mut self.summed, told.summed_bytes);
        note(&mut self.finished, told.finished_rounds);
        // What ended in the future would never be forgotten.
        let end = told.ended_at_ns.map(|end| Timestamp(end).min(now));
        self.ended = if is_end(told.state()) { self.ended.or(end).or(Some(now)) } else { None };
        (self.stamp, self.at, self.told) = (stamp, at, told);
    }

    /// Forgets the pace that the store's totals seem to have.
    fn restart_rates(&mut self) {
        self.flows.clear();
        self.stages.clear();
        (self.summed, self.finished) = (Window::default(), Window::default());
    }

    /// What it says of itself.
    #[must_use]
    pub fn told(&self) -> &SummationMember {
        &self.told
    }

    /// Bytes per second that it pushed to a service over the last seconds.
    #[must_use]
    pub fn pushed_bytes_per_s(&self, service: usize, now: Timestamp) -> f64 {
        self.flows.get(service).map_or(0.0, |flow| flow.pushed.rate(now))
    }

    /// The same that it pulled.
    #[must_use]
    pub fn pulled_bytes_per_s(&self, service: usize, now: Timestamp) -> f64 {
        self.flows.get(service).map_or(0.0, |flow| flow.pulled.rate(now))
    }

    /// Bytes of contributions that its service added up per second.
    #[must_use]
    pub fn summed_bytes_per_s(&self, now: Timestamp) -> f64 {
        self.summed.rate(now)
    }

    /// Rounds of its service per second that got a result.
    #[must_use]
    pub fn rounds_per_s(&self, now: Timestamp) -> f64 {
        self.finished.rate(now)
    }

    /// Whether any part of it was pushed, summed or pulled so far.
    #[must_use]
    pub fn has_worked(&self) -> bool {
        let moved = |traffic: &[SummationTraffic]| {
            sum(traffic, |traffic| traffic.push_completed_bytes.saturating_add(traffic.pull_completed_bytes))
        };
        self.told.summed_bytes > 0 || self.told.services.iter().any(|service| moved(&service.traffic) > 0)
    }

    /// The same over the last seconds.
    #[must_use]
    pub fn works(&self, now: Timestamp) -> bool {
        let moves = |flow: &Flow| flow.pushed.rate(now) > 0.0 || flow.pulled.rate(now) > 0.0;
        self.summed.rate(now) > 0.0 || self.flows.iter().any(moves)
    }

    /// How parts go through a stage, by its place; over the last seconds, or since the beginning if none left it then.
    #[must_use]
    pub fn pace(&self, stage: usize, now: Timestamp) -> StagePace {
        let (Some(windows), Some(told)) = (self.stages.get(stage), self.told.stages.get(stage)) else {
            return StagePace::default();
        };
        let parts_per_s = windows.left.rate(now);
        if parts_per_s > 0.0 {
            let mean = |window: &Window| {
                Duration::try_from_secs_f64(window.rate(now) / parts_per_s / 1e9).unwrap_or_default()
            };
            return StagePace {
                parts_per_s,
                mean_wait: mean(&windows.waited_ns),
                mean_work: mean(&windows.worked_ns),
            };
        }
        let mean = |total_ns: u64| Duration::from_nanos(total_ns.checked_div(told.left_parts).unwrap_or(0));
        StagePace { parts_per_s, mean_wait: mean(told.waited_ns), mean_work: mean(told.worked_ns) }
    }
}

/// The role that a member says it has. `None`: of another format.
pub(super) fn role(told: &SummationMember) -> Option<Role> {
    match told.role() {
        SummationRole::Worker => Some(Role::Worker),
        SummationRole::Server => Some(Role::Server),
        SummationRole::Unspecified => None,
    }
}

pub(crate) fn is_end(state: SummationState) -> bool {
    matches!(state, SummationState::Suspended | SummationState::Left | SummationState::Failed)
}

/// Over the classes of keys.
pub(super) fn sum(traffic: &[SummationTraffic], of: impl Fn(&SummationTraffic) -> u64) -> u64 {
    traffic.iter().fold(0, |sum, traffic| sum.saturating_add(of(traffic)))
}
