//! What a provider says of itself: its addresses and its keys.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use openidconnect::core::CoreProviderMetadata;
use ringscope_api::clock;

use super::ask::Asker;
use super::error::words;
use super::{OidcConfig, OidcError};

/// A provider, asked for what it says of itself when that is needed.
pub(super) struct Provider {
    pub(super) asker: Asker,
    known: tokio::sync::Mutex<Known>,
    /// Why it could not be asked the last time.
    away: Mutex<Option<String>>,
}

#[derive(Default)]
struct Known {
    metadata: Option<(Arc<CoreProviderMetadata>, Instant)>,
    failed_at: Option<Instant>,
}

impl Provider {
    pub(super) fn new(asker: Asker) -> Self {
        Self { asker, known: tokio::sync::Mutex::default(), away: Mutex::default() }
    }

    /// Why it could not be asked the last time. `None`: it could, or was not asked yet.
    pub(super) fn away(&self) -> Option<String> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What it says of itself, unless that is `stale`: signed with a key that is not in it.
    pub(super) async fn metadata(
        &self,
        config: &OidcConfig,
        stale: Option<&Arc<CoreProviderMetadata>>,
    ) -> Result<Arc<CoreProviderMetadata>, OidcError> {
        let away = |reason: String| OidcError::Away { issuer: config.issuer_host(), reason };
        // Who comes second waits for the first one's answer.
        let mut known = self.known.lock().await;
        if let Some((metadata, at)) = &known.metadata
            && at.elapsed() < METADATA_MAX
            && stale.is_none_or(|stale| !Arc::ptr_eq(stale, metadata))
        {
            return Ok(Arc::clone(metadata));
        }
        if let Some(reason) = self.away()
            && known.failed_at.is_some_and(|at| at.elapsed() < RETRY)
        {
            return Err(away(reason));
        }
        match self.fetch(config).await {
            Ok(metadata) => {
                let metadata = Arc::new(metadata);
                known.metadata = Some((Arc::clone(&metadata), clock::monotonic()));
                if self.say(None).is_some() {
                    tracing::info!(issuer = config.issuer.as_str(), "the OpenID provider answers again");
                }
                Ok(metadata)
            }
            Err(reason) => {
                known.failed_at = Some(clock::monotonic());
                if self.say(Some(reason.clone())).as_ref() != Some(&reason) {
                    tracing::warn!(
                        issuer = config.issuer.as_str(),
                        "the OpenID provider cannot be asked, and nobody signs in by it: {reason}"
                    );
                }
                Err(away(reason))
            }
        }
    }

    async fn fetch(&self, config: &OidcConfig) -> Result<CoreProviderMetadata, String> {
        let metadata = CoreProviderMetadata::discover_async(config.issuer.clone(), &self.asker)
            .await
            .map_err(|error| words(&error))?;
        let page = metadata.authorization_endpoint().as_str();
        self.asker.check(page).map_err(|error| words(&error))?;
        if metadata.token_endpoint().is_none() {
            return Err("it names no token_endpoint".to_owned());
        }
        Ok(metadata)
    }

    fn say(&self, away: Option<String>) -> Option<String> {
        std::mem::replace(&mut *self.away.lock().unwrap_or_else(PoisonError::into_inner), away)
    }
}

/// How long what it said holds: a key that it has withdrawn counts for no longer.
const METADATA_MAX: Duration = Duration::from_secs(3600);
/// However many want to sign in, one that is away is asked once in this time.
const RETRY: Duration = Duration::from_secs(2);
