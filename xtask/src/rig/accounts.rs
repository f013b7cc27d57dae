//! The kernel's account: payload bytes on every TCP connection of a job, by its ends.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::job::Job;
use crate::clock::eventually;

/// Bytes from one rank to another.
pub(crate) type Flows = BTreeMap<(usize, usize), u64>;

/// What the kernel has counted on all connections between ranks, by its two ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kernel {
    /// What the receiver has acknowledged, as the sender's kernel counts.
    pub(crate) sent: Flows,
    /// What has come, as the receiver's counts.
    pub(crate) received: Flows,
}

impl Kernel {
    /// Asks every rank for its sockets, until the last acknowledgement has come or is not to be expected.
    pub(crate) fn of(job: &mut Job) -> Result<Self> {
        let mut kernel = Self::default();
        let _ = eventually("all that came acknowledged", ACKNOWLEDGED, || {
            kernel = Self::now(job)?;
            Ok((kernel.sent == kernel.received).then_some(()))
        });
        Ok(kernel)
    }

    fn now(job: &mut Job) -> Result<Self> {
        let sockets = sockets(job)?;
        let ends: BTreeMap<&str, (usize, &Socket)> =
            sockets.iter().map(|(rank, socket)| (socket.here.as_str(), (*rank, socket))).collect();
        let mut kernel = Self::default();
        for (rank, socket) in &sockets {
            // A connection whose other end is no rank of the job is not between ranks.
            let Some((peer, other)) = ends.get(socket.there.as_str()) else { continue };
            // Who opened the connection has its SYN acknowledged too, which counts as one byte.
            let syn = u64::from(socket.acknowledged == other.received + 1);
            *kernel.sent.entry((*rank, *peer)).or_default() += socket.acknowledged - syn;
            *kernel.received.entry((*peer, *rank)).or_default() += socket.received;
        }
        Ok(kernel)
    }

    /// What has been added since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self { sent: less(&self.sent, &before.sent), received: less(&self.received, &before.received) }
    }
}

/// Every TCP connection of every rank.
fn sockets(job: &mut Job) -> Result<Vec<(usize, Socket)>> {
    let answers = job.ask_all("sockets")?;
    let of_rank = |(rank, answer): (usize, &String)| {
        let each = answer.split(';').filter(|one| !one.is_empty());
        each.map(|one| Ok((rank, Socket::parse(one)?))).collect::<Vec<_>>()
    };
    answers.iter().enumerate().flat_map(of_rank).collect()
}

fn less(now: &Flows, before: &Flows) -> Flows {
    let was = |pair| before.get(pair).copied().unwrap_or_default();
    now.iter().map(|(pair, bytes)| (*pair, bytes.saturating_sub(was(pair)))).collect()
}

/// One end of a connection: `local remote` here, which is `remote local` there.
#[derive(Debug)]
struct Socket {
    here: String,
    there: String,
    acknowledged: u64,
    received: u64,
}

impl Socket {
    fn parse(text: &str) -> Result<Self> {
        let wrong = || format!("not a socket: {text}");
        let mut words = text.split(' ');
        let mut next = || words.next().with_context(wrong);
        let (local, remote) = (next()?, next()?);
        Ok(Self {
            here: format!("{local} {remote}"),
            there: format!("{remote} {local}"),
            acknowledged: next()?.parse().with_context(wrong)?,
            received: next()?.parse().with_context(wrong)?,
        })
    }
}

/// Acknowledgements wait 40 ms for data to go with.
const ACKNOWLEDGED: Duration = Duration::from_secs(2);
