//! The agent inside the daemon asks that daemon at an address for which its certificate need not be, and where clients
//! must have a certificate it has none. So each knows the other by the daemon's own certificate and key, which both hold:
//! nobody else has that key. This is the agent's side, `or_itself` the daemon's.

use std::sync::Arc;

use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

use super::Own;
use super::files::provider;

/// Takes the certificate that the daemon has now, and no other; shows the same.
#[derive(Debug)]
pub(super) struct Itself {
    own: Arc<Own>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Itself {
    pub(super) fn new(own: &Arc<Own>) -> Self {
        Self { own: Arc::clone(own), algorithms: provider().signature_verification_algorithms }
    }
}

impl ServerCertVerifier for Itself {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.own.key().cert.first() == Some(end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ResolvesClientCert for Itself {
    fn resolve(&self, _hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.own.key())
    }

    fn has_certs(&self) -> bool {
        true
    }
}
