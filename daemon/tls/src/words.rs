//! What went wrong with TLS, in words that say what to do.

use std::error::Error;
use std::io;

use ringscope_api::clock::Timestamp;
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, InvalidMessage};

/// What a port that speaks https answers to http.
pub const HTTPS_PORT: &str = "this port speaks https, not http: write https:// in the address of the daemon";

/// Whether that was the answer.
pub fn is_https_port(answer: &[u8]) -> bool {
    answer.starts_with(HTTPS_PORT.as_bytes())
}

/// What TLS has to do with an error of a request, if anything.
pub fn reason(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(found) = find::<rustls::Error>(error) {
        return Some(of_tls(found));
    }
    let ended = find::<io::Error>(error).filter(|error| error.to_string() == HANDSHAKE_EOF);
    ended.map(|_| {
        "it closed the connection during the TLS handshake: is https spoken at this port, and is it not overloaded?"
            .to_owned()
    })
}

fn of_tls(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(error) => of_certificate(error),
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "this port does not speak https, perhaps http: write http:// in the address, or give the daemon a certificate \
             (--tls-cert, --tls-key)"
                .to_owned()
        }
        rustls::Error::AlertReceived(alert) => of_alert(*alert),
        error => format!("TLS: {error}"),
    }
}

fn of_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => {
            "its certificate is from a CA that is not trusted here: give the certificate of its CA with --ca FILE \
             (RINGSCOPE_CA), and if you did, see that it is the CA of this certificate"
                .to_owned()
        }
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("its certificate expired on {}: it needs a new one", date_of(*not_after))
        }
        CertificateError::Expired => "its certificate has expired: it needs a new one".to_owned(),
        CertificateError::NotValidYetContext { not_before, .. } => {
            let begins = date_of(*not_before);
            format!("its certificate is not valid before {begins}: is the clock of this machine right?")
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names: Vec<String> = presented.iter().take(NAMES_MAX).map(|name| bare(name)).collect();
            let names = if names.is_empty() { "no name at all".to_owned() } else { names.join(", ") };
            format!(
                "its certificate is for {names}, not for {}: use that name in the address, or give it a certificate for this one",
                expected.to_str()
            )
        }
        CertificateError::Revoked => "its certificate was revoked: it needs a new one".to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate is not for servers (extended key usage): it needs one with serverAuth".to_owned()
        }
        CertificateError::ApplicationVerificationFailure => {
            "another certificate than this daemon's own was shown".to_owned()
        }
        error if format!("{error:?}").contains("CaUsedAsEndEntity") => {
            "its certificate is that of a CA and not of a host: issue one for the host (CA:FALSE) and give the CA's with --ca"
                .to_owned()
        }
        error => format!("its certificate cannot be trusted: {error}"),
    }
}

/// The other side's word.
fn of_alert(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateRequired => {
            "it takes only clients that show a certificate: give one with --tls-cert FILE and --tls-key FILE"
                .to_owned()
        }
        AlertDescription::UnknownCA
        | AlertDescription::BadCertificate
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::AccessDenied
        | AlertDescription::DecryptError => {
            format!(
                "it does not take the certificate of --tls-cert ({alert:?}): give one that is valid and from the CA of its --tls-client-ca"
            )
        }
        AlertDescription::ProtocolVersion => "it speaks neither TLS 1.2 nor 1.3".to_owned(),
        alert => format!("it ended the TLS handshake ({alert:?})"),
    }
}

/// The first error of this kind among an error and its causes. An [`io::Error`] shows what is in it only if asked.
fn find<'e, E: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    let mut next = Some(error);
    for _ in 0..CAUSES_MAX {
        let error = next?;
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if let Some(found) = inner.and_then(|inner| find::<E>(inner)) {
            return Some(found);
        }
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// `host` of `DnsName("host")` and `10.1.2.3` of `IpAddress(10.1.2.3)`, as webpki writes them.
fn bare(name: &str) -> String {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    inner.trim_matches('"').chars().filter(|c| !c.is_control()).take(NAME_CHARS).collect()
}

fn date_of(time: UnixTime) -> String {
    date(Timestamp(time.as_secs().saturating_mul(1_000_000_000)))
}

/// To the second.
pub(super) fn date(at: Timestamp) -> String {
    at.to_string().replace(".000Z", "Z")
}

/// In the words of tokio-rustls.
const HANDSHAKE_EOF: &str = "tls handshake eof";
/// Names of a certificate that are shown, and how much of each.
const NAMES_MAX: usize = 8;
const NAME_CHARS: usize = 253;
/// Causes of causes that are looked at.
const CAUSES_MAX: usize = 16;

/// What TLS makes of it, else the system's words: those around them repeat the URL.
pub fn innermost(error: &reqwest::Error) -> String {
    if let Some(reason) = reason(error) {
        return reason;
    }
    let mut innermost: &dyn Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
