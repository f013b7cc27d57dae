//! HTTP clients that speak TLS by the files of a [`Trust`]. No redirect is followed: what is sent may be a secret, and is
//! for the address that was named.

use std::sync::{Arc, Mutex, PoisonError};

use reqwest::ClientBuilder;
use reqwest::redirect::Policy;

use super::files::{self, Stamps};
use super::{Own, TlsError, Trust, trust};

/// A client for as long as a process lives: it reads its files again when they have changed.
#[derive(Debug)]
pub struct Http {
    trust: Trust,
    secure: bool,
    shape: fn() -> ClientBuilder,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    client: reqwest::Client,
    stamps: Stamps,
    /// Why the files as they are now are not used, as far as it was said: each reason once.
    refused: Vec<TlsError>,
}

impl Http {
    /// `secure`: https will be asked; else no file is read.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn new(trust: &Trust, secure: bool, shape: fn() -> ClientBuilder) -> Result<Self, TlsError> {
        let trust = if secure { trust.clone() } else { Trust::default() };
        let stamps = files::stamps(trust.paths());
        let client = client(&trust, secure, shape())?;
        Ok(Self { trust, secure, shape, held: Mutex::new(Held { client, stamps, refused: Vec::new() }) })
    }

    /// For the agent inside the daemon with this certificate.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn to_itself(own: &Arc<Own>, shape: fn() -> ClientBuilder) -> Result<Self, TlsError> {
        let client = build(shape(), trust::itself(own)?)?;
        let held = Mutex::new(Held { client, stamps: Stamps::new(), refused: Vec::new() });
        Ok(Self { trust: Trust::default(), secure: true, shape, held })
    }

    /// The client of the files as they are now, or, where they cannot be used, as they were.
    pub fn client(&self) -> reqwest::Client {
        let stamps = files::stamps(self.trust.paths());
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        // What was refused is tried again: that it may be read, for one, changes no stamp.
        if stamps != held.stamps || !held.refused.is_empty() {
            held.stamps = stamps;
            match client(&self.trust, self.secure, (self.shape)()) {
                Ok(client) => {
                    tracing::info!("the files for TLS have changed and are used as they are now");
                    held.client = client;
                    held.refused.clear();
                }
                Err(error) if held.refused.contains(&error) || held.refused.len() >= REASONS_MAX => {}
                Err(error) => {
                    tracing::error!(
                        "the files for TLS have changed, and those of before are used on: {error}"
                    );
                    held.refused.push(error);
                }
            }
        }
        held.client.clone()
    }
}

/// Reasons for which files are refused between two that can be used: each of a handful of files in a few ways.
const REASONS_MAX: usize = 32;

/// A client for one command.
///
/// # Errors
/// [`TlsError`].
pub fn client(trust: &Trust, secure: bool, shape: ClientBuilder) -> Result<reqwest::Client, TlsError> {
    build(shape, if secure { trust.config()? } else { trust::nobody()? })
}

fn build(shape: ClientBuilder, config: rustls::ClientConfig) -> Result<reqwest::Client, TlsError> {
    let client = shape.redirect(Policy::none()).use_preconfigured_tls(config).build();
    client.map_err(|error| TlsError::Setup(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn each_reason_is_kept_once_and_files_that_can_be_used_again_are() {
        let dir = tempfile::tempdir().unwrap();
        let ca = |name: &str| {
            let key = rcgen::KeyPair::generate().unwrap();
            let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
            params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            params.self_signed(&key).unwrap().pem()
        };
        let path: PathBuf = dir.path().join("ca.pem");
        std::fs::write(&path, ca("one")).unwrap();
        let trust = Trust { ca: Some(path.clone()), ..Trust::default() };
        let http = Http::new(&trust, true, reqwest::Client::builder).unwrap();
        let refused = || {
            http.client();
            http.client();
            http.held.lock().unwrap().refused.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(refused().is_empty());
        std::fs::write(&path, "garbage").unwrap();
        let first = refused();
        assert!(first.len() == 1 && first[0].contains("no certificate is in it"), "{first:?}");
        std::fs::remove_file(&path).unwrap();
        let second = refused();
        assert!(second.len() == 2 && second[1].contains("No such file"), "{second:?}");
        std::fs::write(&path, "garbage of before").unwrap();
        assert_eq!(refused(), second, "said already");
        std::fs::write(&path, ca("two")).unwrap();
        assert!(refused().is_empty(), "used, and the next reason is said again");
    }
}
