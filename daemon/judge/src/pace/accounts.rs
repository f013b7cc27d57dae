//! How the ranks of a job spend their time, for who shows it. Pure.

use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_model::{Job, Model, Process};

use super::outliers::quantile;
use super::scene::Scene;

/// A rank of a job.
pub struct Account<'m> {
    /// Whose it is.
    pub process: &'m Process,
    /// Ranks of one number do the same work.
    pub class: usize,
    /// How long a step took over the time that all of this is about.
    pub step: Duration,
    /// Whether a step is known; else each operation counts as one.
    pub has_steps: bool,
    /// Own time as a share of all, from 0 to 1, without what long steps took longer.
    pub own: f64,
    /// What is usual of its like: a quarter of them are not above it.
    pub usual: f64,
    /// What long steps took longer, as a share of the time.
    pub longer: f64,
}

/// How a job's ranks spend their time.
pub struct Accounts<'m> {
    /// Ranks of which it is known, the slowest of their like first.
    pub ranks: Vec<Account<'m>>,
    /// Ranks whose times are of another kind than most have, so that nothing compares them.
    pub n_of_other_basis: usize,
    /// Whether the times of most are the device's.
    pub is_device: bool,
}

/// Of all ranks of which it is known.
#[must_use]
pub fn accounts<'m>(model: &'m Model, job: &'m Job, now: Timestamp) -> Accounts<'m> {
    let scene = Scene::of(model, job, now);
    let (n_of_other_basis, is_device) = (scene.n_of_other_basis, scene.is_device);
    let mut accounts = Vec::new();
    for (class, ranks) in scene.classes.into_iter().enumerate() {
        let usual = quantile(ranks.iter().map(|rank| rank.measured.own).collect(), 25);
        accounts.extend(ranks.into_iter().map(|rank| Account {
            process: rank.process,
            class,
            step: rank.measured.of_late(rank.measured.parts.len()).0,
            has_steps: rank.measured.has_steps,
            own: rank.measured.own,
            usual,
            longer: rank.measured.habits[0].longer,
        }));
    }
    let excess = |account: &Account<'_>| account.own - account.usual + account.longer;
    accounts.sort_by(|one, other| excess(other).total_cmp(&excess(one)));
    Accounts { ranks: accounts, n_of_other_basis, is_device }
}
