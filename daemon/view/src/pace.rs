//! How the ranks of a job spend their time.

use ringscope_api::clock::Timestamp;
use ringscope_api::{JobPace, RankPace};
use ringscope_judge::{Account, accounts};
use ringscope_model::{Model, Process};

/// `GET jobs/{job}/pace`, with so many ranks. `None`: there is no such job.
#[must_use]
pub fn pace(model: &Model, now: Timestamp, job: &str, limit: usize) -> Option<JobPace> {
    let (_, known) = model.job(job)?;
    let accounts = accounts(model, known, now);
    let ranks: Vec<RankPace> = accounts.iter().take(limit).filter_map(rank).collect();
    let n_living = known.processes(model).filter(|process| process.is_living()).count();
    Some(JobPace {
        job: job.to_owned(),
        step_seconds: ranks.iter().map(|rank| rank.step_seconds).max_by(f64::total_cmp),
        n_ranks: accounts.len(),
        n_unknown: n_living.saturating_sub(accounts.len()),
        ranks,
    })
}

fn rank(account: &Account<'_>) -> Option<RankPace> {
    let process: &Process = account.process;
    let (identity, step_s) = (process.identity()?, account.step.as_secs_f64());
    Some(RankPace {
        process: process.key().to_owned(),
        host: identity.host.to_string(),
        pid: identity.pid,
        global_rank: identity.global_rank,
        class: account.class,
        step_seconds: step_s,
        has_steps: account.has_steps,
        own_seconds: account.own * step_s,
        usual_own_seconds: account.usual * step_s,
        in_operations_seconds: (1.0 - account.own - account.longer).max(0.0) * step_s,
        longer_share: account.longer,
        by_device: process.pace().is_some_and(ringscope_model::Pace::is_device),
    })
}
