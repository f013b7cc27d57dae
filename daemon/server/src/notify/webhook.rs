//! The task that tells one webhook: a message for what is open, one when it is over, none twice.

use std::collections::BTreeSet;
use std::time::Duration;

use ringscope_api::clock;
use ringscope_store::{Store, StoreError};
use tokio::time::Instant;

use super::Teller;
use super::message::{message, more};
use super::told::{Due, Round, Told};
use crate::ingest::StoreState;

/// What the task remembers.
struct Memory {
    told: Told,
    /// Name of the target in the store.
    id: String,
    /// Whether what the store remembers has been read.
    loaded: bool,
    /// Incidents whose row in the store is not as `told` has it.
    unsaved: BTreeSet<String>,
}

/// Tells until the daemon stops.
pub(super) async fn run(mut teller: Teller) {
    let mut memory = Memory {
        told: Told::default(),
        id: teller.poster.target().id(),
        loaded: false,
        unsaved: BTreeSet::new(),
    };
    let start = Instant::now();
    let mut rest_until = start;
    let mut changed = true;
    loop {
        let Some(news) = teller.wait().await else { return };
        changed |= news;
        memory.load(&teller).await;
        memory.save(&teller).await;
        let knows = memory.loaded || start.elapsed() >= LOAD_PATIENCE;
        if !knows || Instant::now() < rest_until || !(changed || memory.told.is_waiting()) {
            continue;
        }
        changed = false;
        match tell(&teller, &mut memory).await {
            Some(true) => {}
            Some(false) => {
                changed = true;
                rest_until = Instant::now() + teller.pace.repeat;
            }
            None => return,
        }
    }
}

/// Tells what is due. Returns whether the target took it; `None`: stopped.
async fn tell(teller: &Teller, memory: &mut Memory) -> Option<bool> {
    let Some(all) = teller.incidents().await else { return Some(false) };
    let Round { due, forgotten } = memory.told.round(&all, teller.severity, &teller.pace, clock::now());
    memory.unsaved.extend(forgotten);
    let (single, rest) = due.split_at(due.len().min(MESSAGES_MAX));
    for due in single {
        let message = message(due, &teller.links, clock::now());
        if !teller.stop.run_until_cancelled(teller.poster.post(&message, 1)).await? {
            return Some(false);
        }
        memory.note(due, teller).await;
    }
    if !rest.is_empty() {
        let message = more(rest.len(), &teller.links);
        if !teller.stop.run_until_cancelled(teller.poster.post(&message, 1)).await? {
            return Some(false);
        }
        teller.poster.dropped(rest.len());
        for due in rest {
            memory.note(due, teller).await;
        }
    }
    Some(true)
}

impl Memory {
    /// Notes, in the store too, that it was told.
    async fn note(&mut self, due: &Due, teller: &Teller) {
        self.told.note(due);
        self.unsaved.insert(due.incident.id.clone());
        self.save(teller).await;
    }

    async fn load(&mut self, teller: &Teller) {
        if self.loaded {
            return;
        }
        match teller.keeper.state() {
            StoreState::None => self.loaded = true,
            StoreState::Open(store) => match store.told(&self.id).await {
                Ok(told) => {
                    self.told.restore(told);
                    self.loaded = true;
                }
                Err(error) => tracing::debug!(%error, "what was told cannot be read"),
            },
            StoreState::Opening | StoreState::Away(_) => {}
        }
    }

    /// Writes what is not in the store, if that is there; else it is written later.
    async fn save(&mut self, teller: &Teller) {
        match teller.keeper.state() {
            StoreState::None => self.unsaved.clear(),
            StoreState::Open(store) => {
                if let Err(error) = self.write(&store).await {
                    tracing::debug!(%error, "what was told cannot be stored yet");
                }
            }
            StoreState::Opening | StoreState::Away(_) => {}
        }
    }

    async fn write(&mut self, store: &Store) -> Result<(), StoreError> {
        while let Some(subject) = self.unsaved.first() {
            match self.told.get(subject) {
                Some(incident) => store.tell(&self.id, subject, incident).await?,
                None => store.untell(&self.id, subject).await?,
            }
            self.unsaved.pop_first();
        }
        Ok(())
    }
}

/// How long a store that does not open is waited for: telling twice is better than not telling.
const LOAD_PATIENCE: Duration = Duration::from_secs(30);
/// Messages at once; a thousand hosts that lose a switch are one more message, not a thousand.
const MESSAGES_MAX: usize = 20;
