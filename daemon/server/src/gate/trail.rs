//! Entries of the audit trail on their way to the store.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use ringscope_api::AuditEntry;
use ringscope_store::Store;
use tokio_util::task::TaskTracker;

/// Entries that are not stored yet, the oldest first.
#[derive(Default)]
pub(super) struct Trail {
    waiting: Mutex<Waiting>,
    /// Whoever stores holds it, so that entries keep their order.
    storing: tokio::sync::Mutex<()>,
    /// Those that store.
    tasks: TaskTracker,
}

#[derive(Default)]
struct Waiting {
    entries: VecDeque<AuditEntry>,
    dropped: u64,
}

impl Trail {
    /// Another entry. It is in the daemon's log too, which somebody else may keep.
    pub(super) fn push(&self, mut entry: AuditEntry) {
        for text in [&mut entry.who, &mut entry.subject, &mut entry.detail] {
            // Postgres takes none, and what stands behind would wait for ever.
            text.retain(|c| c != '\0');
            text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        }
        let AuditEntry { who, token, tenant, role, address, action, subject, detail, status, .. } = &entry;
        tracing::info!(?who, ?token, ?tenant, ?role, ?address, ?action, ?subject, ?detail, status, "audit");
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.entries.len() < WAITING_MAX {
            waiting.entries.push_back(entry);
        } else {
            waiting.dropped += 1;
        }
    }

    /// Stores what waits, as far as the store takes it. Goes on if who asks does not wait: an entry that is stored and still
    /// waits would stand there twice.
    pub(super) async fn flush(self: &Arc<Self>, store: &Store) {
        let (trail, store) = (Arc::clone(self), store.clone());
        let _ = self.tasks.spawn(async move { trail.store(&store).await }).await;
    }

    /// Waits until nobody stores any more.
    pub(super) async fn settle(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn store(&self, store: &Store) {
        let _storing = self.storing.lock().await;
        while let Some(entry) = self.oldest() {
            if let Err(error) = store.add_audit(&entry).await {
                tracing::warn!(%error, "the audit trail could not be stored; it is tried again");
                return;
            }
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.entries.pop_front();
            let dropped = std::mem::take(&mut waiting.dropped);
            if dropped > 0 {
                tracing::error!(dropped, "entries of the audit trail are in this log alone: too many waited");
            }
        }
    }

    /// Without what waits.
    pub(super) fn forget(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).entries.clear();
    }

    fn oldest(&self) -> Option<AuditEntry> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).entries.front().cloned()
    }
}

/// What people do while the database is away for a night.
const WAITING_MAX: usize = 4096;
/// Of a name or a detail.
const TEXT_BYTES_MAX: usize = 2000;
