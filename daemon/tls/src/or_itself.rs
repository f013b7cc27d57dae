//! The daemon's side of how it and the agent inside it know each other (`itself`): of clients it takes a certificate that
//! the CAs vouch for, or its own.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

/// A certificate that the CAs vouch for, or the daemon's own.
#[derive(Debug)]
pub(super) struct OrItself {
    others: Arc<dyn ClientCertVerifier>,
    own: CertificateDer<'static>,
}

impl OrItself {
    pub(super) fn new(others: Arc<dyn ClientCertVerifier>, own: &CertifiedKey) -> Self {
        let own = own.cert.first().cloned().unwrap_or_else(|| CertificateDer::from(Vec::new()));
        Self { others, own }
    }
}

impl ClientCertVerifier for OrItself {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.others.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if *end_entity == self.own {
            // That it holds the key is verified next, as of any client.
            return Ok(ClientCertVerified::assertion());
        }
        self.others.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.others.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.others.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.others.supported_verify_schemes()
    }
}
