//! How a provider is asked: by the TLS files of everything else, without redirects, and never for more than fits.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse, http};
use reqwest::ClientBuilder;
use ringscope_tls::{self as tls, Http, TlsError, Trust};

use super::OidcConfig;

/// Asks a provider.
pub(super) struct Asker {
    http: Http,
    is_secure: bool,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    #[error("it names the address {0}, which is not https")]
    NotSecure(String),
    #[error("its answer is larger than {} KiB", ANSWER_BYTES_MAX >> 10)]
    Large,
    #[error("{0}")]
    Failed(String),
}

impl Asker {
    pub(super) fn new(config: &OidcConfig, trust: &Trust) -> Result<Self, TlsError> {
        // What is said of clients' certificates is for daemons.
        let trust = Trust { ca: trust.ca.clone(), ..Trust::default() };
        let is_secure = config.is_secure();
        Ok(Self { http: Http::new(&trust, is_secure, shape)?, is_secure })
    }

    async fn ask(&self, request: HttpRequest) -> Result<HttpResponse, AskError> {
        let address = request.uri().to_string();
        self.check(&address)?;
        let failed = |error: &reqwest::Error| match tls::reason(error) {
            Some(reason) => AskError::Failed(reason),
            None if error.is_timeout() => {
                AskError::Failed(format!("no answer within {} s", ANSWER_MAX.as_secs()))
            }
            None => AskError::Failed(super::error::words(error)),
        };
        let request = request.try_into().map_err(|error| failed(&error))?;
        let mut answer = self.http.client().execute(request).await.map_err(|error| failed(&error))?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let mut body = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(|error| failed(&error))? {
            if body.len() + part.len() > ANSWER_BYTES_MAX {
                return Err(AskError::Large);
            }
            body.extend_from_slice(&part);
        }
        let mut response = http::Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }

    /// A provider that is asked by https names no address without.
    pub(super) fn check(&self, address: &str) -> Result<(), AskError> {
        if self.is_secure && !address.starts_with("https://") {
            return Err(AskError::NotSecure(super::error::shown(address)));
        }
        Ok(())
    }
}

impl<'c> AsyncHttpClient<'c> for Asker {
    type Error = AskError;
    type Future = BoxFuture<'c, Result<HttpResponse, AskError>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        self.ask(request).boxed()
    }
}

fn shape() -> ClientBuilder {
    reqwest::Client::builder().connect_timeout(CONNECT_MAX).timeout(ANSWER_MAX)
}

/// People wait for it.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// Below what a request to the daemon may take, although one sign-in asks three times.
const ANSWER_MAX: Duration = Duration::from_secs(8);
/// The documents of the large providers have some 20 KiB, a person in a thousand groups as much.
const ANSWER_BYTES_MAX: usize = 512 << 10;
