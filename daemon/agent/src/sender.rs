//! Brings batches to the daemon: in order, one at a time, until it has them.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ringscope_wire::batch::{Inquiry, Wish};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::backlog::Backlog;
use super::loss::{Loss, Losses};
use super::transport::{Outcome, Transport};

/// First wait after a failure ...
const BACK_OFF_MIN: Duration = Duration::from_millis(100);
/// ... doubling up to this.
const BACK_OFF_MAX: Duration = Duration::from_secs(5);
/// Batches that may wait in memory for an answer before they go to disk.
const MAX_IN_MEMORY: usize = 8;
/// Reasons that are said between two batches that are taken: those of a network that goes and comes are a few.
const MAX_REASONS: usize = 16;
/// Questions that wait for the reader.
const MAX_INQUIRIES: usize = 1024;
/// How often the same reason of a refusal is logged: a share that is full refuses some batches a second.
const SAID_AGAIN: Duration = Duration::from_secs(60);
/// Time to send what is left when the agent stops.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// One encoded batch on its way.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) seq: u64,
    pub(super) body: Vec<u8>,
}

/// What the reader must hear of, gathered until it looks.
#[derive(Debug, Default)]
pub(super) struct News {
    /// The daemon has this agent's batches up to this one, or will never have them.
    pub(super) settled: u64,
    /// The next batch must carry everything.
    pub(super) resend_all: bool,
    /// A batch was refused: carry everything in a while.
    pub(super) refused: bool,
    pub(super) losses: Losses,
    /// What is wished for in this agent's jobs, if the daemon has answered since.
    pub(super) wishes: Option<Vec<Wish>>,
    /// The jobs that diagnosis raises; counts with `wishes`.
    pub(super) raised: Vec<String>,
    /// How long counts may wait, if the daemon has answered since.
    pub(super) counts_wait: Option<Duration>,
    /// What the daemon wants to know, at most [`MAX_INQUIRIES`].
    pub(super) inquiries: Vec<Inquiry>,
}

/// The letter box between sender and reader.
#[derive(Clone, Debug, Default)]
pub(super) struct NewsBox(Arc<Mutex<News>>);

impl NewsBox {
    /// Takes what is new. `settled` stays.
    pub(super) fn take(&self) -> News {
        let mut news = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let settled = news.settled;
        std::mem::replace(&mut *news, News { settled, ..News::default() })
    }

    fn put(&self, write: impl FnOnce(&mut News)) {
        write(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The sending half of an agent.
pub(super) struct Sender {
    pub(super) backlog: Backlog,
    pub(super) transport: Transport,
    pub(super) news: NewsBox,
    /// Why a batch was refused, as it was logged last, and when.
    pub(super) said: Option<(String, Instant)>,
}

/// A request under way: which batch, and what became of it.
type InFlight = Pin<Box<dyn Future<Output = (Sent, Outcome)> + Send>>;

#[derive(Clone, Copy, Debug)]
struct Sent {
    id: u64,
    seq: Option<u64>,
}

/// How the talk with the daemon goes.
#[derive(Debug, Default)]
struct Line {
    /// When to try again; `None` if the daemon answered last.
    retry_at: Option<Instant>,
    failures: u32,
    /// Why it did not take batches since it took one: what was said, each reason once.
    said: Vec<String>,
    /// Batches of this agent were lost. Once the daemon answers again the next batch must say everything: what the lost
    /// ones said is in no other, and must not count as acknowledged with later ones.
    has_gap: bool,
}

impl Sender {
    /// Runs until the reader has stopped and the rest is sent or on disk.
    pub(super) async fn run(mut self, mut outgoing: mpsc::Receiver<Outgoing>) {
        let mut line = Line::default();
        let mut in_flight: Option<InFlight> = None;
        let mut deadline: Option<Instant> = None;
        loop {
            if in_flight.is_none() && line.retry_at.is_none() {
                in_flight = self.next(&mut line).await;
            }
            if deadline.is_some() && in_flight.is_none() {
                break;
            }
            let sent = async {
                match in_flight.as_mut() {
                    Some(sent) => sent.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                next = outgoing.recv(), if deadline.is_none() => match next {
                    Some(next) => self.keep(next, &mut line).await,
                    // The last try, whatever the daemon said before.
                    None => (deadline, line.retry_at) = (Some(Instant::now() + GRACE), None),
                },
                (sent, outcome) = sent => {
                    in_flight = None;
                    self.settle(sent, outcome, &mut line).await;
                }
                () = until(line.retry_at) => line.retry_at = None,
                () = until(deadline) => break,
            }
        }
        drop(in_flight);
        self.spill().await;
        self.backlog.close();
    }

    /// Starts to send the oldest batch.
    async fn next(&mut self, line: &mut Line) -> Option<InFlight> {
        while let Some(front) = self.backlog.front().await {
            let sent = Sent { id: front.id, seq: front.seq };
            match front.body {
                Ok(body) => {
                    let transport = self.transport.clone();
                    return Some(Box::pin(async move { (sent, transport.send(body).await) }));
                }
                Err(error) => {
                    tracing::warn!(%error, "a kept batch cannot be read back and is dropped");
                    self.news.put(|news| news.losses.add(Loss::BatchUnreadable, 1));
                    line.has_gap |= sent.seq.is_some();
                    self.backlog.done(sent.id);
                }
            }
        }
        None
    }

    async fn keep(&mut self, next: Outgoing, line: &mut Line) {
        let dropped = self.backlog.push(next.seq, next.body);
        if dropped > 0 {
            self.news.put(|news| news.losses.add(Loss::BacklogFull, dropped));
            line.has_gap = true;
        }
        if line.failures > 0 || self.backlog.in_memory() > MAX_IN_MEMORY {
            self.spill().await;
        }
    }

    async fn settle(&mut self, sent: Sent, outcome: Outcome, line: &mut Line) {
        match outcome {
            Outcome::Taken { resend_all, wishes, inquiries, raised, counts_wait } => {
                if line.failures > 0 {
                    tracing::info!("the daemon is back");
                }
                // Batches of an agent that is gone say nothing about this one's.
                let resend_all = (resend_all || line.has_gap) && sent.seq.is_some();
                self.settled(sent, |news| {
                    news.resend_all |= resend_all;
                    if sent.seq.is_some() {
                        news.wishes = Some(wishes);
                        news.raised = raised;
                        news.counts_wait = Some(counts_wait);
                    }
                    let room = MAX_INQUIRIES.saturating_sub(news.inquiries.len());
                    news.inquiries.extend(inquiries.into_iter().take(room));
                });
                *line = Line { has_gap: line.has_gap && sent.seq.is_none(), ..Line::default() };
            }
            Outcome::Refused(reason) => {
                let is_said = |(said, at): &(String, Instant)| *said == reason && at.elapsed() < SAID_AGAIN;
                if !self.said.as_ref().is_some_and(is_said) {
                    tracing::warn!(batch = sent.seq, reason, "the daemon refused a batch, which is dropped");
                    self.said = Some((reason, Instant::now()));
                }
                self.settled(sent, |news| {
                    news.losses.add(Loss::BatchRefused, 1);
                    news.refused = true;
                });
                *line = Line { has_gap: line.has_gap, ..Line::default() };
            }
            Outcome::Away(reason) => {
                if !line.said.contains(&reason) && line.said.len() < MAX_REASONS {
                    tracing::warn!(
                        reason,
                        "the daemon does not take batches: they are kept on disk until it does"
                    );
                    line.said.push(reason);
                }
                line.retry_at = Some(Instant::now() + back_off(line.failures));
                line.failures = line.failures.saturating_add(1);
                self.spill().await;
            }
        }
    }

    fn settled(&mut self, sent: Sent, write: impl FnOnce(&mut News)) {
        self.backlog.done(sent.id);
        self.news.put(|news| {
            news.settled = sent.seq.unwrap_or_default().max(news.settled);
            write(news);
        });
    }

    async fn spill(&mut self) {
        if let Err(error) = self.backlog.spill().await {
            tracing::warn!(%error, "cannot write batches to disk: they are kept in memory");
        }
    }
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// Doubles from the shortest to the longest wait, less up to a half, so that the agents of a cluster do not come back
/// all at once.
fn back_off(failures: u32) -> Duration {
    let longest = BACK_OFF_MIN.saturating_mul(1 << failures.min(10)).min(BACK_OFF_MAX);
    let random = u32::from(uuid::Uuid::new_v4().as_bytes()[0]);
    longest - longest / 512 * random
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_bound() {
        for failures in 0..100 {
            let wait = back_off(failures);
            assert!(wait >= BACK_OFF_MIN / 2 && wait <= BACK_OFF_MAX, "{failures}: {wait:?}");
        }
        assert!(back_off(99) > BACK_OFF_MIN * 20);
    }
}
