//! Keeps what the hub knows in the store: opens it, writes what is unsaved, and tries again when it is away.

use std::sync::Arc;
use std::time::Duration;

use prometheus::IntGauge;
use ringscope_api::clock::{self, Timestamp};
use ringscope_judge::health::Cut;
use ringscope_store::{Claim, DatabaseUrl, Keep, Store, StoreError, TermSecret};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{away, restorer, sweeper};
use crate::hub::{Hub, Take};
use crate::metrics::OwnMetrics;

/// A handle on the task that writes.
#[derive(Clone, Debug)]
pub struct Keeper {
    tickets: mpsc::Sender<Ticket>,
    state: watch::Receiver<StoreState>,
    unrestored: IntGauge,
}

/// How the keeper keeps.
#[derive(Debug)]
pub struct KeeperConfig {
    /// Where.
    pub url: DatabaseUrl,
    /// How long.
    pub keep: Keep,
    /// That nobody else keeps there, where that is known already.
    pub claim: Option<Claim>,
    /// Where other daemons share the database: as whom this one leads. `None`: it is alone.
    pub lead: Option<Lead>,
}

/// As whom a daemon leads.
#[derive(Clone, Debug)]
pub struct Lead {
    /// Address at which the others reach it.
    pub url: String,
    /// With which they show that they are daemons of this database.
    pub secret: TermSecret,
    /// Cancelled when another one leads.
    pub deposed: CancellationToken,
}

/// Whether the store can be used.
#[derive(Clone, Debug)]
pub enum StoreState {
    /// Not open yet.
    Opening,
    /// Nothing is to be kept.
    None,
    /// In use.
    Open(Store),
    /// Not now.
    Away(Away),
}

/// A store that cannot be used.
#[derive(Clone, Debug)]
pub struct Away {
    /// Since when.
    pub since: Timestamp,
    /// Why, where, and what to do.
    pub reason: String,
}

/// Answered when everything that the hub knew when it was taken, but counters, is in the store.
type Ticket = oneshot::Sender<Result<(), String>>;

impl Keeper {
    /// Starts keeping, until `stop`; then writes what is left and closes the store.
    #[must_use]
    pub fn spawn(
        hub: Arc<Hub>,
        config: KeeperConfig,
        metrics: Arc<OwnMetrics>,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        let (tickets, waiting) = mpsc::channel(TICKETS_MAX);
        let (state_tx, state) = watch::channel(StoreState::Opening);
        let keep = config.keep;
        let unrestored = metrics.unrestored_processes.clone();
        let (opened_tx, opened) = oneshot::channel();
        tasks.spawn(restorer::run(opened, Arc::clone(&hub), unrestored.clone(), stop.clone()));
        let task = Task {
            hub,
            config,
            metrics,
            waiting,
            state: state_tx,
            stop: stop.clone(),
            claim_checked: Instant::now(),
            unrestored: Some(opened_tx),
        };
        tasks.spawn(task.run());
        tasks.spawn(sweeper::run(state.clone(), keep, stop));
        Self { tickets, state, unrestored }
    }

    /// Waits until everything that the hub knows now, but counters, is in the store.
    ///
    /// # Errors
    /// Why it is not, in words.
    pub async fn saved(&self) -> Result<(), String> {
        match &*self.state.borrow() {
            StoreState::None => return Ok(()),
            StoreState::Away(away) => return Err(away.reason.clone()),
            StoreState::Opening | StoreState::Open(_) => {}
        }
        let (ticket, answer) = oneshot::channel();
        self.tickets.try_send(ticket).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => "the database does not keep up".to_owned(),
            mpsc::error::TrySendError::Closed(_) => "the daemon is shutting down".to_owned(),
        })?;
        answer.await.unwrap_or_else(|_| Err("the daemon is shutting down".to_owned()))
    }

    /// Whether the store can be used, if anything is to be kept.
    #[must_use]
    pub fn is_up(&self) -> bool {
        matches!(*self.state.borrow(), StoreState::Open(_) | StoreState::None)
    }

    /// Why nothing new is taken, if so. `with_paths`: for those who may know what the database is called.
    #[must_use]
    pub fn cut(&self, with_paths: bool, now: Timestamp) -> Option<Cut> {
        away::cut(&self.state.borrow(), with_paths, now)
    }

    /// How many processes that ended before the daemon started are still to be read back.
    #[must_use]
    pub fn n_unrestored(&self) -> u64 {
        self.unrestored.get().unsigned_abs()
    }

    /// The store's state now.
    #[must_use]
    pub fn state(&self) -> StoreState {
        self.state.borrow().clone()
    }
}

struct Task {
    hub: Arc<Hub>,
    config: KeeperConfig,
    metrics: Arc<OwnMetrics>,
    waiting: mpsc::Receiver<Ticket>,
    state: watch::Sender<StoreState>,
    stop: CancellationToken,
    claim_checked: Instant,
    /// Who reads back the rest, once the hub has taken in what it needs of what the store kept.
    unrestored: Option<oneshot::Sender<Store>>,
}

impl Task {
    async fn run(mut self) {
        let Some(store) = self.open().await else { return };
        let Some(store) = store else {
            self.state.send_replace(StoreState::None);
            return self.keep_nothing().await;
        };
        self.keep(&store).await;
        store.close().await;
        if let Some(claim) = self.config.claim.take() {
            claim.release().await;
        }
    }

    /// Opens the store, as often as it takes. The outer `None`: stopped before it was open.
    async fn open(&mut self) -> Option<Option<Store>> {
        loop {
            let stop = self.stop.clone();
            match stop.run_until_cancelled(self.open_once()).await? {
                Ok(store) => return Some(store),
                Err(error) => self.away(&error),
            }
            if let Some(lead) = &self.config.lead {
                // Another daemon may fare better, and has the claim when this one has ended.
                lead.deposed.cancel();
                return None;
            }
            if !self.refuse_tickets(RETRY_INTERVAL).await {
                return None;
            }
        }
    }

    /// Opens the store, for as long as the database stays this daemon's: nothing else bounds what may take long.
    async fn open_once(&mut self) -> Result<Option<Store>, StoreError> {
        self.claim().await?;
        let mut claim = self.config.claim.take();
        let opened = tokio::select! {
            opened = self.open_claimed() => opened,
            Some(error) = async { Some(claim.as_mut()?.lost().await) } => Err(error),
        };
        self.config.claim = claim;
        opened
    }

    async fn open_claimed(&mut self) -> Result<Option<Store>, StoreError> {
        let Some(store) = Store::open(&self.config.url).await? else { return Ok(None) };
        if let Some(lead) = &self.config.lead {
            self.within(store.lead(&lead.url, &lead.secret)).await?;
        }
        if self.unrestored.is_some() {
            let restored = within(RESTORED_WITHIN, &self.config.url, store.restore()).await?;
            if restored.unreadable_rows > 0 {
                tracing::warn!(
                    rows = restored.unreadable_rows,
                    "rows of the database could not be read and are left out"
                );
            }
            let n_ended = store.n_ended(restorer::since(clock::now()));
            let n_ended = within(RESTORED_WITHIN, &self.config.url, n_ended).await?;
            self.of_hub(|hub| hub.restore(restored, clock::now())).await?;
            // Before anybody is told that the store is open: what is missing is never taken for absent.
            self.metrics.unrestored_processes.set(i64::try_from(n_ended).unwrap_or(i64::MAX));
            if let Some(unrestored) = self.unrestored.take() {
                let _ = unrestored.send(store.clone());
            }
        }
        self.open_again(&store);
        Ok(Some(store))
    }

    /// Sees to it that no other daemon uses the database.
    async fn claim(&mut self) -> Result<(), StoreError> {
        if let Some(claim) = &mut self.config.claim {
            if self.claim_checked.elapsed() < CLAIM_INTERVAL {
                return Ok(());
            }
            match claim.check().await {
                Ok(()) => {
                    self.claim_checked = Instant::now();
                    return Ok(());
                }
                Err(error) => {
                    // Before the lock is tried again, which takes seconds: another daemon may have it.
                    self.away(&error);
                    if matches!(error, StoreError::FileGone { .. }) {
                        return Err(error);
                    }
                }
            }
        }
        self.config.claim = None;
        self.config.claim = Some(Claim::take(&self.config.url).await?);
        self.claim_checked = Instant::now();
        Ok(())
    }

    async fn within<R>(&self, asked: impl Future<Output = Result<R, StoreError>>) -> Result<R, StoreError> {
        within(ANSWERED_WITHIN, &self.config.url, asked).await
    }

    /// Asks the hub on a thread of its own: it may have to wait for the lock.
    async fn of_hub<R: Send + 'static>(
        &self,
        ask: impl FnOnce(&Hub) -> R + Send + 'static,
    ) -> Result<R, StoreError> {
        let hub = Arc::clone(&self.hub);
        let asked = tokio::task::spawn_blocking(move || ask(&hub)).await;
        asked.map_err(|_| StoreError::crashed())
    }

    /// Answers tickets with why the store is away. False: stopped.
    async fn refuse_tickets(&mut self, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return false,
                () = tokio::time::sleep_until(until) => return true,
                ticket = self.waiting.recv() => {
                    let Some(ticket) = ticket else { return false };
                    let reason = match &*self.state.borrow() {
                        StoreState::Away(away) => away.reason.clone(),
                        _ => "the database is not open yet".to_owned(),
                    };
                    let _ = ticket.send(Err(reason));
                }
            }
        }
    }

    async fn keep_nothing(&mut self) {
        let mut ticks = tokio::time::interval(FLUSH_INTERVAL);
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                _ = ticks.tick() => drop(self.of_hub(|hub| hub.take_unsaved(Take::All, clock::now())).await),
                ticket = self.waiting.recv() => match ticket {
                    Some(ticket) => drop(ticket.send(Ok(()))),
                    None => return,
                },
            }
        }
    }

    async fn keep(&mut self, store: &Store) {
        let mut flush = tokio::time::interval(FLUSH_INTERVAL);
        flush.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut due = Instant::now();
        loop {
            let mut tickets = Vec::new();
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                ticket = self.waiting.recv() => {
                    let Some(ticket) = ticket else { break };
                    tickets.push(ticket);
                    tokio::time::sleep(GATHER_TIME).await;
                    // Whoever waits by now shares the transaction.
                    while let Ok(ticket) = self.waiting.try_recv() {
                        tickets.push(ticket);
                    }
                }
                _ = flush.tick() => {}
            }
            let is_urgent = !tickets.is_empty() && Instant::now() < due;
            let what = if is_urgent { Take::Urgent } else { Take::Due };
            if !is_urgent {
                due = Instant::now() + DUE_INTERVAL;
            }
            let result = self.save(store, what).await;
            for ticket in tickets {
                let _ = ticket.send(result.clone());
            }
            if result.is_err() && !self.refuse_tickets(RETRY_INTERVAL).await {
                break;
            }
        }
        // Requests that were in flight when the shutdown began have ended by now; this is the rest.
        if self.save(store, Take::All).await.is_err() {
            tracing::error!("the last changes could not be stored; agents will send them again");
        }
    }

    /// Writes what is unsaved.
    async fn save(&mut self, store: &Store, what: Take) -> Result<(), String> {
        if let Err(error) = self.claim().await {
            self.away(&error);
            return Err(error.to_string());
        }
        let taken = self.of_hub(move |hub| hub.take_unsaved(what, clock::now())).await;
        let mut unsaved = taken.map_err(|error| error.to_string())?;
        self.metrics.dropped_samples.inc_by(unsaved.take_dropped_samples());
        if unsaved.is_empty() && matches!(*self.state.borrow(), StoreState::Open(_)) {
            return Ok(());
        }
        let start = clock::monotonic();
        let written = async {
            let mut batched = unsaved.batched();
            loop {
                let made = self.of_hub(move |hub| {
                    let rows = hub.next_rows(&mut batched, clock::now());
                    (batched, rows)
                });
                let rows;
                (batched, rows) = made.await?;
                let Some(rows) = rows else { break };
                if !rows.is_empty() {
                    self.within(store.write(&rows)).await?;
                }
            }
            // Nothing to write proves nothing.
            if unsaved.is_empty() { self.within(store.ping()).await } else { Ok(()) }
        };
        match written.await {
            Ok(()) => {
                self.metrics.durations.store_write(start.elapsed());
                self.metrics.store_commits.inc();
                self.open_again(store);
                Ok(())
            }
            Err(error) => {
                let _ = self.of_hub(|hub| hub.give_back(unsaved)).await;
                self.away(&error);
                Err(error.to_string())
            }
        }
    }

    fn away(&self, error: &StoreError) {
        if let Some(lead) = &self.config.lead
            && (matches!(error, StoreError::Deposed | StoreError::InUse { .. })
                || self.config.claim.is_none() && self.claim_checked.elapsed() > CLAIM_MISSED_MAX)
        {
            lead.deposed.cancel();
        }
        self.metrics.store_errors.inc();
        let reason = match error {
            // The driver does not say which.
            StoreError::Failed(_) => format!("{}: {error}", self.config.url),
            error => error.to_string(),
        };
        let known = match &*self.state.borrow() {
            StoreState::Away(known) => Some(known.clone()),
            _ => None,
        };
        if known.as_ref().is_none_or(|known| known.reason != reason) {
            tracing::error!(
                "{reason}. Until then batches are refused: agents keep what they have to say, and the page, the API and \
                 /metrics show what was known before; trying again every {} s",
                RETRY_INTERVAL.as_secs()
            );
        }
        let since = known.map_or_else(clock::now, |known| known.since);
        self.state.send_replace(StoreState::Away(Away { since, reason }));
    }

    fn open_again(&self, store: &Store) {
        if !matches!(*self.state.borrow(), StoreState::Open(_)) {
            tracing::info!("storing to {}", self.config.url);
            self.state.send_replace(StoreState::Open(store.clone()));
        }
    }
}

/// A server that is cut off does not say so.
async fn within<R>(
    limit: Duration,
    url: &DatabaseUrl,
    asked: impl Future<Output = Result<R, StoreError>>,
) -> Result<R, StoreError> {
    tokio::time::timeout(limit, asked).await.unwrap_or_else(|_| Err(StoreError::silent(url, limit)))
}

/// Batches that wait for one transaction: as many as the agents of the largest job have under way when it starts.
const TICKETS_MAX: usize = 16_384;
/// How long the first batch waits for others to share its transaction: little beside the 250 ms between an agent's
/// batches, and however many agents send, they share at most ten commits a second.
const GATHER_TIME: Duration = Duration::from_millis(100);
/// How often what no agent waits for is written: samples, findings that time brought.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// How often the same is written while one batch after the other waits.
const DUE_INTERVAL: Duration = Duration::from_secs(5);
/// How often a store that is away is tried.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// Longer than any statement may take.
const ANSWERED_WITHIN: Duration = Duration::from_secs(12);
/// Longer than it takes to read back the largest database.
const RESTORED_WITHIN: Duration = Duration::from_secs(300);
/// For how long a daemon leads that has lost the claim and cannot take it again: another one may lead by then.
const CLAIM_MISSED_MAX: Duration = Duration::from_secs(5);
/// How often it is looked whether the database is still this daemon's alone.
const CLAIM_INTERVAL: Duration = Duration::from_secs(1);
