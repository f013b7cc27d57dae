//! What a person asks of a pool.

use super::super::server::Failed;
use super::line;
use super::message::{FromBroker, ListedJob, Listing, ToBroker};
use crate::config::PoolSettings;
use rsccl_collective::error::{Error, Result};

/// What a pool has, in lines.
///
/// # Errors
/// There is no such broker, or it does not let this process in.
pub fn list() -> std::result::Result<String, Failed> {
    ask(&ToBroker::List).map(|listing| words(&listing)).map_err(|error| Failed::new(error.to_string()))
}

/// Lends so many servers to a job, for as long as nobody says otherwise; none: as the pool deals them. What there is then.
///
/// # Errors
/// As [`list`], or there is no such job, or it takes fewer.
pub fn lend(job: &str, servers: Option<usize>) -> std::result::Result<String, Failed> {
    let lend = ToBroker::Lend { job: job.to_owned(), servers };
    ask(&lend).map(|listing| words(&listing)).map_err(|error| Failed::new(error.to_string()))
}

fn ask(question: &ToBroker) -> Result<Listing> {
    let PoolSettings { address, secret } = PoolSettings::from_env()?;
    match line::ask(&address, &secret, question)? {
        FromBroker::Listing(listing) => Ok(listing),
        FromBroker::Refused { why } => Err(Error::InvalidUsage(why)),
        other => Err(Error::Internal(format!("the broker {address} said {other:?}"))),
    }
}

fn words(listing: &Listing) -> String {
    let mut text = String::new();
    for ListedJob { name, most, share, lent, has, pinned } in &listing.jobs {
        let by = if *pinned { ", as an operator said" } else { "" };
        text += &format!(
            "job {name}: sums with {has} servers, is to have {share} of at most {most}{by}; {lent} are lent\n"
        );
    }
    for (name, job) in &listing.servers {
        let job = job.as_ref().map_or("free".to_owned(), |job| format!("lent to {job}"));
        text += &format!("{name}: {job}\n");
    }
    if text.is_empty() { "the pool has no jobs and no servers\n".to_owned() } else { text }
}
