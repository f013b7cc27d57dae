//! What every handler works on.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Guard;
use super::problem::ApiError;
use crate::clock::{self, Timestamp};
use crate::diagnose::Diagnosis;
use crate::gate::Gate;
use crate::hub::Hub;
use crate::ingest::{Ingest, Keeper};
use crate::metrics::Metrics;
use crate::model::Model;
use crate::tls::Own;

/// The rooms that the routes lead to.
#[derive(Clone)]
#[expect(missing_docs, reason = "the names are the rooms")]
pub struct App {
    pub hub: Arc<Hub>,
    pub keeper: Keeper,
    pub ingest: Ingest,
    pub metrics: Arc<Metrics>,
    pub guard: Guard,
    pub gate: Arc<Gate>,
    /// Largest batch, unpacked.
    pub body_limit_bytes: usize,
    /// The certificate, where TLS is spoken.
    pub tls: Option<Arc<Own>>,
    /// Ends the streams that would never end themselves.
    pub stop: CancellationToken,
}

impl App {
    /// Reads the model on a thread of its own: whoever holds the model for long keeps no other route waiting.
    pub(super) async fn read<R: Send + 'static>(
        &self,
        read: impl FnOnce(&Model, &Diagnosis, Timestamp) -> R + Send + 'static,
    ) -> Result<R, ApiError> {
        let hub = Arc::clone(&self.hub);
        let reading = tokio::task::spawn_blocking(move || {
            hub.read(|model, diagnosis| read(model, diagnosis, clock::now()))
        });
        reading.await.map_err(|error| ApiError::internal(&error))
    }
}
