//! Certificates of a test's own.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use ringscope_api::clock;
use ringscope_tls::{ServerFiles, Trust};
use time::{Duration, OffsetDateTime};

/// A CA.
pub struct Authority {
    /// Its certificate.
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
pub struct Pair {
    pub cert: String,
    pub key: String,
    /// The certificate as it is sent.
    pub der: Vec<u8>,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate for hosts and clients, for the next 90 days.
    pub fn issue(&self, names: &[&str]) -> Pair {
        self.issue_for(names, -1, 90)
    }

    /// The same between days from now.
    pub fn issue_for(&self, names: &[&str], from: i64, until: i64) -> Pair {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, "a host of the test");
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let now = OffsetDateTime::from_unix_timestamp_nanos(i128::from(clock::now().0)).unwrap();
        params.not_before = now + Duration::days(from);
        // Some hours more, so that whole days are left.
        params.not_after = now + Duration::days(until) + Duration::hours(2);
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        Pair { cert: cert.pem(), key: key.serialize_pem(), der: cert.der().to_vec() }
    }

    /// Its certificate as a file.
    pub fn write(&self, dir: &Path, name: &str) -> PathBuf {
        write(dir, name, &self.pem)
    }

    /// A client that trusts nobody else.
    pub fn client(&self) -> reqwest::ClientBuilder {
        let root = reqwest::Certificate::from_pem(self.pem.as_bytes()).unwrap();
        reqwest::Client::builder().tls_built_in_root_certs(false).add_root_certificate(root).tls_info(true)
    }
}

impl Pair {
    /// As files; those that are there are replaced, one after the other.
    pub fn write(&self, dir: &Path, name: &str) -> ServerFiles {
        let cert = write(dir, &format!("{name}.pem"), &self.cert);
        let key = write(dir, &format!("{name}.key"), &self.key);
        ServerFiles { cert, key, client_ca: None }
    }

    /// As files of a client that trusts `ca`.
    pub fn trust(&self, dir: &Path, name: &str, ca: PathBuf) -> Trust {
        let files = self.write(dir, name);
        Trust { ca: Some(ca), cert: Some(files.cert), key: Some(files.key) }
    }
}

/// Puts a file in its place at once.
pub fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let (path, new) = (dir.join(name), dir.join(format!("{name}.new")));
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, &path).unwrap();
    path
}
