//! How the ranks of a job spend their time.

use ringscope_api::clock::Timestamp;
use ringscope_api::words::plural;
use ringscope_api::{JobPace, RankPace};
use ringscope_judge::{Account, Accounts, accounts};
use ringscope_model::{Model, Pace, Process};

/// `GET jobs/{job}/pace`, with so many ranks. `None`: there is no such job.
#[must_use]
pub fn pace(model: &Model, now: Timestamp, job: &str, limit: usize) -> Option<JobPace> {
    let (_, known) = model.job(job)?;
    let accounts = accounts(model, known, now);
    let ranks: Vec<RankPace> = accounts.ranks.iter().take(limit).filter_map(rank).collect();
    // A launcher that lives has no communicator: it is no rank.
    let is_rank = |process: &&Process| process.is_living() && process.has_communicators();
    let n_living = known.processes(model).filter(is_rank).count();
    let steps_s = accounts.ranks.iter().map(|account| account.step.as_secs_f64());
    Some(JobPace {
        job: job.to_owned(),
        step_seconds: steps_s.max_by(f64::total_cmp),
        n_ranks: accounts.ranks.len(),
        n_unknown: n_living.saturating_sub(accounts.ranks.len()),
        lacks: lacks(&accounts),
        ranks,
    })
}

/// Why ranks that tell their times are not among those that are compared.
fn lacks(accounts: &Accounts<'_>) -> Vec<String> {
    let n = accounts.n_of_other_basis;
    let (theirs, most) = if accounts.is_device { ("calls", "the device") } else { ("the device", "calls") };
    let (tell, it) = if n == 1 { ("tells its", "it is") } else { ("tell their", "they are") };
    let words = format!(
        "{} {tell} times by {theirs}, most others by {most}: these cannot be compared, so whether {it} slow is not known. \
         `ringscope level` shows the level of each: the same one everywhere ends that.",
        plural(n, "rank")
    );
    (n > 0).then_some(words).into_iter().collect()
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
        by_device: process.pace().is_some_and(Pace::is_device),
        device_error_seconds: process.pace().and_then(Pace::device_error).map(|error| error.as_secs_f64()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_whose_times_are_of_another_kind_are_named_as_unknown() {
        let of = |n_of_other_basis, is_device| Accounts { ranks: Vec::new(), n_of_other_basis, is_device };
        assert!(lacks(&of(0, true)).is_empty());
        let [one] = &lacks(&of(1, true))[..] else { panic!() };
        assert!(one.starts_with("1 rank tells its times by calls, most others by the device: "), "{one}");
        let [two] = &lacks(&of(2, false))[..] else { panic!() };
        assert!(two.starts_with("2 ranks tell their times by the device, most others by calls: "), "{two}");
    }
}
