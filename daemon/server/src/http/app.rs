//! What every handler works on.

use std::sync::{Arc, OnceLock};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use ringscope_access::{Tenant, Who};
use ringscope_api::clock::{self, Timestamp};
use ringscope_judge::Diagnosis;
use ringscope_model::Model;
use ringscope_store::TermSecret;
use ringscope_tls::Own;
use tokio_util::sync::CancellationToken;

use super::Guard;
use super::problem::ApiError;
use crate::gate::Gate;
use crate::hub::Hub;
use crate::ingest::{Ingest, Keeper};
use crate::kubernetes::Injection;
use crate::metrics::Metrics;
use crate::oidc::Oidc;

/// The rooms that the routes lead to, as everybody's together. A handler that takes this shows what is of all tenants.
#[derive(Clone)]
pub(super) struct Whole(pub(super) Arc<App>);

/// The rooms that the routes lead to, as who asks may see them: a handler that takes this need not think of tenants.
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
    /// How people sign in at a provider, where they do.
    pub oidc: Option<Arc<Oidc>>,
    /// What pods of Kubernetes get, where it asks this daemon.
    pub injection: Option<Arc<Injection>>,
    /// Ends the streams that would never end themselves.
    pub stop: CancellationToken,
    /// Whose jobs these are, with everybody's hub.
    pub of_tenant: Option<(Tenant, Arc<Hub>)>,
    /// With which other daemons of the database show that they hand something on; `None`: there are none.
    pub term_secret: Option<TermSecret>,
    /// That those may not reach this one, and why, once it has been seen.
    pub unreached: Arc<OnceLock<String>>,
}

impl FromRequestParts<Whole> for App {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, whole: &Whole) -> Result<Self, ApiError> {
        match parts.extensions.get::<Who>() {
            Some(who) => whole.of(who),
            None => {
                Err(ApiError::internal(&"a route that needs nothing asks for what only somebody may see"))
            }
        }
    }
}

impl Whole {
    /// What `who` may see.
    pub(super) fn of(&self, who: &Who) -> Result<App, ApiError> {
        let Self(app) = self;
        let Some(tenant) = &who.tenant else { return Ok(App::clone(app)) };
        let hub = app.hub.of_tenant(tenant);
        Ok(App { hub, of_tenant: Some((tenant.clone(), Arc::clone(&app.hub))), ..App::clone(app) })
    }
}

impl App {
    /// Whose jobs these are. `None`: everybody's.
    pub(super) fn tenant(&self) -> Option<&Tenant> {
        self.of_tenant.as_ref().map(|(tenant, _)| tenant)
    }

    /// What Prometheus is to have of it; of a tenant without what the daemon counts of itself.
    pub(super) fn metrics(&self) -> Arc<Metrics> {
        match self.tenant() {
            None => Arc::clone(&self.metrics),
            Some(tenant) => Arc::new(self.metrics.of_tenant(tenant, Arc::clone(&self.hub))),
        }
    }

    /// Where what somebody says has to be said too, once it was taken by `hub`: everybody's, which is stored and heard by agents.
    pub(super) fn whole_hub(&self) -> Option<Arc<Hub>> {
        self.of_tenant.as_ref().map(|(_, hub)| Arc::clone(hub))
    }

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
