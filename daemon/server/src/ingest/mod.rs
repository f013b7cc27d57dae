//! The way of a batch: bytes → [`Batch`] → hub → store → answer.
//!
//! A batch is answered only when the store has its facts, so that killing the daemon loses nothing that an agent was told
//! is safe: counters are absolute, and agents tell them again.

mod away;
mod clean;
mod keeper;
mod restorer;
mod sweeper;

pub use keeper::{Away, Keeper, KeeperConfig, Lead, StoreState};

use std::collections::BTreeSet;
use std::sync::Arc;

use prost::Message as _;
use ringscope_access::{Sender, Tenant, nobodys, without_tenants};
use ringscope_api::clock;
use ringscope_wire::batch::{Batch, BatchError, FORMAT_VERSION, IngestReply};
use tokio::sync::Semaphore;

use crate::hub::{Beyond, Hub, Taken};
use crate::metrics::OwnMetrics;

/// Takes batches.
#[derive(Clone)]
pub struct Ingest {
    hub: Arc<Hub>,
    keeper: Keeper,
    metrics: Arc<OwnMetrics>,
    /// Of the threads that apply what the threads that serve sockets do not: as many as there are cores, for more of them
    /// would only keep those from the cores.
    turns: Arc<Semaphore>,
}

/// A batch that is stored.
#[derive(Debug)]
pub struct Stored {
    /// What to answer.
    pub reply: IngestReply,
    /// Jobs of files that somebody imports with it, as the daemon calls them.
    pub imported: BTreeSet<String>,
}

/// Why a batch was not acknowledged.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// It never will be.
    #[error(transparent)]
    Refused(#[from] BatchError),
    /// Its sender has their share of what there is room for: what is known of it was taken, and the rest never will be.
    #[error("{beyond}")]
    Beyond {
        /// What was refused, and why.
        beyond: Box<Beyond>,
        /// As in [`Stored`]: of what was taken.
        imported: BTreeSet<String>,
    },
    /// It was judged, but the store has not got it: send it again.
    #[error("{reason}")]
    NotStored {
        /// Why not, and what to do.
        reason: String,
        /// As in [`Stored`]: it was imported all the same.
        imported: BTreeSet<String>,
    },
}

impl Ingest {
    /// Takes batches into `hub`, and has them kept by `keeper`.
    #[must_use]
    pub fn new(hub: Arc<Hub>, keeper: Keeper, metrics: Arc<OwnMetrics>) -> Self {
        let n_cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { hub, keeper, metrics, turns: Arc::new(Semaphore::new(n_cores)) }
    }

    /// Takes one batch. `held` is what it holds of the daemon: it is given back when the batch is stored, or, if nobody waits
    /// for that, when it is applied.
    ///
    /// # Errors
    /// An [`IngestError`].
    pub async fn take<H: Send + 'static>(
        &self,
        bytes: axum::body::Bytes,
        sender: &Sender,
        held: H,
    ) -> Result<Stored, IngestError> {
        let start = clock::monotonic();
        let stored = self.take_and_store(bytes, sender, held).await;
        self.metrics.durations.ingest(start.elapsed());
        stored
    }

    async fn take_and_store<H: Send + 'static>(
        &self,
        bytes: axum::body::Bytes,
        sender: &Sender,
        held: H,
    ) -> Result<Stored, IngestError> {
        self.metrics.ingest_bytes.inc_by(bytes.len() as u64);
        let (taken, _held) = if bytes.len() > LARGE_BYTES || self.hub.is_busy_for(sender.tenant.as_ref()) {
            let this = self.clone();
            let sender = sender.clone();
            let asked = clock::monotonic();
            let turn = Arc::clone(&self.turns).acquire_owned().await;
            let apply = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                this.metrics.durations.ingest_queue(asked.elapsed());
                (this.apply(&bytes, &sender), held)
            });
            apply.await.map_err(|error| IngestError::NotStored {
                reason: not_stored(&error),
                imported: BTreeSet::new(),
            })?
        } else {
            (self.apply(&bytes, sender), held)
        };
        let Taken { reply, imported, can_wait, beyond, .. } = taken?;
        // An agent is asked again for what was refused, and goes on to hear what is asked of it; files are sent once.
        if let Some(beyond) = beyond.filter(|beyond| beyond.of_files) {
            return Err(IngestError::Beyond { beyond: Box::new(beyond), imported });
        }
        if can_wait && self.keeper.is_up() {
            return Ok(Stored { reply, imported });
        }
        match self.keeper.saved().await {
            Ok(()) => Ok(Stored { reply, imported }),
            Err(error) => Err(IngestError::NotStored { reason: not_stored(&error), imported }),
        }
    }

    /// Counts a batch that was refused before it came here.
    pub fn count_refused(&self) {
        self.metrics.ingest_refused.inc();
    }

    fn apply(&self, bytes: &[u8], sender: &Sender) -> Result<Taken, BatchError> {
        let tenant = sender.tenant.as_ref();
        let mut batch = decode(bytes).inspect_err(|error| {
            self.metrics.ingest_refused.inc();
            self.tell_of_other_format(bytes, error, tenant);
        })?;
        let taken = match tenant {
            Some(tenant) => {
                tenant.own(&mut batch);
                let mut taken = self.hub.ingest_of(tenant, sender, &mut batch, clock::now());
                tenant.disown(&mut taken.reply);
                taken
            }
            None => {
                nobodys(&mut batch);
                let mut taken = self.hub.ingest_from(sender, &mut batch, clock::now());
                without_tenants(&mut taken.reply);
                taken
            }
        };
        self.metrics.ingest_batches.inc();
        if taken.beyond.is_some() {
            self.metrics.ingest_refused.inc();
        }
        if taken.duplicate {
            self.metrics.ingest_duplicates.inc();
        }
        Ok(taken)
    }

    /// Tells that a host's agent is of a release that this one does not understand. What a batch of any version says of its
    /// sender stands in the same fields.
    fn tell_of_other_format(&self, bytes: &[u8], error: &BatchError, tenant: Option<&Tenant>) {
        let (BatchError::UnknownVersion { found }, Ok(sent)) = (error, Batch::decode(bytes)) else { return };
        let mut batch = Batch { agent_id: sent.agent_id, agent_host: sent.agent_host, ..Batch::default() };
        if clean::clean(&mut batch).is_err() || batch.agent_id.is_empty() || batch.agent_host.is_empty() {
            return;
        }
        let why = other_format(*found);
        match tenant {
            Some(tenant) => {
                tenant.own(&mut batch);
                self.hub.not_understood_of(tenant, &batch.agent_id, &batch.agent_host, &why, clock::now());
            }
            None => {
                nobodys(&mut batch);
                self.hub.not_understood(&batch.agent_id, &batch.agent_host, &why, clock::now());
            }
        }
    }
}

/// What is said of a host whose agent sends batches of another version.
fn other_format(found: u32) -> String {
    let older = if found < FORMAT_VERSION { "the agent there" } else { "the daemon" };
    format!(
        "nothing new is known, because its agent sends batches of version {found} and this daemon reads version \
         {FORMAT_VERSION}: upgrade {older}; until then the agent keeps what it has to say"
    )
}

fn not_stored(error: &dyn std::fmt::Display) -> String {
    format!("{error}. The batch was judged but is not stored: send it again")
}

fn decode(bytes: &[u8]) -> Result<Batch, BatchError> {
    let mut batch = Batch::decode_checked(bytes)?;
    clean::clean(&mut batch)?;
    Ok(batch)
}

/// A batch with the facts of some processes, which takes a good part of a millisecond to decode and to judge, goes to a thread
/// of its own, as does one that would wait for the hub: the threads that serve sockets wait for nobody.
const LARGE_BYTES: usize = 8 * 1024;
