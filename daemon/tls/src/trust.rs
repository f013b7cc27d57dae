//! Whom a client trusts, and as whom it shows itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};

use super::files::{self, provider};
use super::itself::Itself;
use super::own::key_of;
use super::{Own, TlsError};

/// Files of a client. Default: the CAs that this machine trusts, and no certificate of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Trust {
    /// Certificate of a CA that is trusted for https besides those that this machine trusts, in PEM
    #[arg(long, env = "RINGSCOPE_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Certificate to show to a daemon that asks its clients for one, in PEM
    #[arg(long = "tls-cert", env = "RINGSCOPE_TLS_CERT", value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Key of that certificate, in PEM
    #[arg(id = "key", long = "tls-key", env = "RINGSCOPE_TLS_KEY", value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
}

impl Trust {
    /// What rustls makes of it.
    pub(super) fn config(&self) -> Result<ClientConfig, TlsError> {
        let builder = builder()?.with_root_certificates(self.roots()?);
        match (&self.cert, &self.key) {
            (None, None) => Ok(builder.with_no_client_auth()),
            (Some(cert), Some(key)) => {
                let pair = key_of(cert, key, files::certificates(cert)?)?;
                let resolver = rustls::sign::SingleCertAndKey::from(pair);
                Ok(builder.with_client_cert_resolver(Arc::new(resolver)))
            }
            (Some(_), None) => Err(TlsError::Half { given: "--tls-cert", lacking: "--tls-key" }),
            (None, Some(_)) => Err(TlsError::Half { given: "--tls-key", lacking: "--tls-cert" }),
        }
    }

    /// The files that it names.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        [&self.ca, &self.cert, &self.key].into_iter().flatten().map(PathBuf::as_path)
    }

    fn roots(&self) -> Result<RootCertStore, TlsError> {
        let mut roots = RootCertStore::empty();
        let system = rustls_native_certs::load_native_certs();
        for error in &system.errors {
            tracing::debug!(%error, "some CAs of this machine cannot be read");
        }
        roots.add_parsable_certificates(system.certs);
        if let Some(ca) = &self.ca {
            files::add_authorities(&mut roots, ca)?;
        }
        Ok(roots)
    }
}

/// For what is asked without TLS.
pub(super) fn nobody() -> Result<ClientConfig, TlsError> {
    Ok(builder()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

/// For the agent inside the daemon.
pub(super) fn itself(own: &Arc<Own>) -> Result<ClientConfig, TlsError> {
    let itself = Arc::new(Itself::new(own));
    let verifier: Arc<dyn rustls::client::danger::ServerCertVerifier> = itself.clone();
    // Another verifier, not none: it takes one certificate alone.
    Ok(builder()?.dangerous().with_custom_certificate_verifier(verifier).with_client_cert_resolver(itself))
}

fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, TlsError> {
    ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Setup(error.to_string()))
}
