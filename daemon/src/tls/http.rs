//! HTTP clients that speak TLS by the files of a [`Trust`]. No redirect is followed: what is sent may be a secret, and is
//! for the address that was named.

use std::sync::{Arc, Mutex, PoisonError};

use reqwest::ClientBuilder;
use reqwest::redirect::Policy;

use super::files::{self, Stamps};
use super::{Own, TlsError, Trust, trust};

/// A client for as long as a process lives: it reads its files again when they have changed.
#[derive(Debug)]
pub(crate) struct Http {
    trust: Trust,
    secure: bool,
    shape: fn() -> ClientBuilder,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    client: reqwest::Client,
    stamps: Stamps,
}

impl Http {
    /// `secure`: https will be asked; else no file is read.
    ///
    /// # Errors
    /// [`TlsError`].
    pub(crate) fn new(trust: &Trust, secure: bool, shape: fn() -> ClientBuilder) -> Result<Self, TlsError> {
        let trust = if secure { trust.clone() } else { Trust::default() };
        let stamps = files::stamps(trust.paths());
        let client = client(&trust, secure, shape())?;
        Ok(Self { trust, secure, shape, held: Mutex::new(Held { client, stamps }) })
    }

    /// For the agent inside the daemon with this certificate.
    ///
    /// # Errors
    /// [`TlsError`].
    pub(crate) fn to_itself(own: &Arc<Own>, shape: fn() -> ClientBuilder) -> Result<Self, TlsError> {
        let client = build(shape(), trust::itself(own)?)?;
        let held = Mutex::new(Held { client, stamps: Stamps::new() });
        Ok(Self { trust: Trust::default(), secure: true, shape, held })
    }

    /// The client of the files as they are now, or, where they cannot be used, as they were.
    pub(crate) fn client(&self) -> reqwest::Client {
        let stamps = files::stamps(self.trust.paths());
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if stamps != held.stamps {
            held.stamps = stamps;
            match client(&self.trust, self.secure, (self.shape)()) {
                Ok(client) => {
                    tracing::info!("the files for TLS have changed and are used as they are now");
                    held.client = client;
                }
                Err(error) => {
                    tracing::error!(
                        "the files for TLS have changed, and those of before are used on: {error}"
                    );
                }
            }
        }
        held.client.clone()
    }
}

/// A client for one command.
///
/// # Errors
/// [`TlsError`].
pub(crate) fn client(trust: &Trust, secure: bool, shape: ClientBuilder) -> Result<reqwest::Client, TlsError> {
    build(shape, if secure { trust.config()? } else { trust::nobody()? })
}

fn build(shape: ClientBuilder, config: rustls::ClientConfig) -> Result<reqwest::Client, TlsError> {
    let client = shape.redirect(Policy::none()).use_preconfigured_tls(config).build();
    client.map_err(|error| TlsError::Setup(error.to_string()))
}
