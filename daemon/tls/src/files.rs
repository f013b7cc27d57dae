//! PEM files: certificates, keys, and whether they have changed.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use ringscope_api::clock::Timestamp;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{RootCertStore, crypto::CryptoProvider};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use super::TlsError;

/// What rustls computes with.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The certificates in a file, at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(wrong(path, "no certificate is in it".to_owned(), EXPECT_CERTIFICATE)),
        Err(error) => Err(wrong(path, error.to_string(), EXPECT_CERTIFICATE)),
    }
}

/// The private key in a file.
pub(super) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read(path)?;
    if text.windows(ENCRYPTED.len()).any(|part| part == ENCRYPTED) {
        let advice =
            "Nobody is there to type its password: take that off with `openssl pkey -in FILE -out NEW`";
        return Err(wrong(path, "the key is encrypted".to_owned(), advice));
    }
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
        let reason = match error {
            rustls::pki_types::pem::Error::NoItemsFound => "no private key is in it".to_owned(),
            error => error.to_string(),
        };
        wrong(path, reason, "Expected a private key in PEM, as `openssl genpkey` writes it")
    })
}

/// Adds the CAs of a file.
pub(super) fn add_authorities(roots: &mut RootCertStore, path: &Path) -> Result<(), TlsError> {
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| {
            wrong(path, error.to_string(), "Expected the certificates of CAs in PEM, and no others")
        })?;
    }
    Ok(())
}

/// When a certificate ends, and whom it is for.
pub(super) fn facts(path: &Path, certificate: &CertificateDer<'_>) -> Result<Facts, TlsError> {
    let (_, parsed) = X509Certificate::from_der(certificate)
        .map_err(|error| wrong(path, error.to_string(), EXPECT_CERTIFICATE))?;
    let ends_at = u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or(0);
    let names = parsed.subject_alternative_name().ok().flatten();
    let names = names.into_iter().flat_map(|names| &names.value.general_names);
    Ok(Facts {
        ends_at: Timestamp(ends_at.saturating_mul(1_000_000_000)),
        names: names.filter_map(name).take(NAMES_MAX).collect(),
    })
}

/// What is said of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) ends_at: Timestamp,
    pub(super) names: Vec<String>,
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            if let Ok(four) = <[u8; 4]>::try_from(*bytes) {
                return Some(std::net::Ipv4Addr::from(four).to_string());
            }
            <[u8; 16]>::try_from(*bytes).ok().map(|bytes| std::net::Ipv6Addr::from(bytes).to_string())
        }
        _ => None,
    }
}

/// Tells one state of files from another. `None`: it is not there.
pub(super) type Stamps = Vec<Option<(u64, u64, i64, i64)>>;

/// As the files are now; what a link leads to counts, as Kubernetes changes only links.
pub(super) fn stamps<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Stamps {
    let stamp = |path: &Path| {
        let file = std::fs::metadata(path).ok()?;
        Some((file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
    };
    paths.into_iter().map(stamp).collect()
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let advice = "Name a file that this user can read";
    let failed = |error: std::io::Error| wrong(path, error.to_string(), advice);
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut text = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(wrong(path, "larger than 4 MiB".to_owned(), EXPECT_CERTIFICATE));
    }
    Ok(text)
}

fn wrong(path: &Path, reason: String, advice: &'static str) -> TlsError {
    TlsError::File { path: path.to_owned(), reason, advice }
}

const EXPECT_CERTIFICATE: &str = "Expected certificates in PEM: -----BEGIN CERTIFICATE----- and what follows, as `openssl x509` writes them";
const ENCRYPTED: &[u8] = b"ENCRYPTED";
/// Ten times the bundle of all public CAs.
const BYTES_MAX: u64 = 4 << 20;
/// Names of a certificate that are told.
const NAMES_MAX: usize = 8;
