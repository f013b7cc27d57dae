//! What the REST API shows of a job, and what the job's ranks say themselves, in the same shape.

use std::collections::BTreeMap;
use std::io;

use ringscope_api::JobState;
use ringscope_daemon::client::{Client, ClientError};
use ringscope_daemon::demo::job::Job;
use ringscope_daemon::demo::worker::Called;

/// (rank in the job, communicator name, primitive) → calls and bytes.
pub type Totals = BTreeMap<(u32, String, String), Called>;

/// Issued, and completed, as the REST API shows them.
pub async fn shown(client: &Client, job: &str) -> Result<(Totals, Totals), ClientError> {
    let (mut issued, mut completed) = (Totals::new(), Totals::new());
    for summary in client.communicators().await? {
        if summary.job != job {
            continue;
        }
        let detail = client.communicator(&summary.id).await?;
        for rank in client.primitives(&summary.id).await?.ranks {
            let member = detail.ranks.iter().find(|other| other.rank == rank.rank);
            let global_rank = member.and_then(|rank| rank.global_rank).unwrap_or(u32::MAX);
            for totals in rank.primitives {
                let key = (global_rank, summary.name.clone().unwrap_or_default(), totals.primitive);
                issued.insert(key.clone(), Called { calls: totals.issued_calls, bytes: totals.issued_bytes });
                completed
                    .insert(key, Called { calls: totals.completed_calls, bytes: totals.completed_bytes });
            }
        }
    }
    Ok((issued, completed))
}

/// The same as the ranks' own logs say.
pub fn said(job: &Job) -> io::Result<Totals> {
    let mut totals = Totals::new();
    for log in job.logs()? {
        for (communicator, primitives) in log.communicators {
            for (primitive, called) in primitives {
                let rank = u32::try_from(log.rank).unwrap_or(u32::MAX);
                totals.insert((rank, communicator.clone(), primitive), called);
            }
        }
    }
    Ok(totals)
}

/// Whether the daemon knows that every process of the job has ended.
pub async fn has_ended(client: &Client, job: &str) -> bool {
    let jobs = client.jobs().await.unwrap_or_default();
    jobs.iter().any(|one| one.id == job && one.state == JobState::Ended)
}

/// Completed bytes that the daemon shows of a job; 0 while it knows nothing of it.
pub async fn completed_bytes(client: &Client, job: &str) -> u64 {
    let jobs = client.jobs().await.unwrap_or_default();
    jobs.iter().find(|one| one.id == job).map_or(0, |one| one.completed_bytes)
}
