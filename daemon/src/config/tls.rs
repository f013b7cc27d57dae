//! With which certificate the daemon serves, as the settings of `ringscope serve` say it.

use ringscope_tls::ServerFiles;

use super::{Settings, file};

/// Options of `ringscope serve` that say with which certificate it serves.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TlsArgs {
    /// Certificate of this daemon, in PEM, with those between it and its CA: https is served instead of http. Read again
    /// when it changes [default: none]
    #[arg(long = "tls-cert", value_name = "FILE")]
    pub cert: Option<String>,
    /// Key of that certificate, in PEM
    #[arg(long = "tls-key", value_name = "FILE")]
    pub key: Option<String>,
    /// Serve only clients that show a certificate of these CAs, in PEM [default: none]
    #[arg(long = "tls-client-ca", value_name = "FILE")]
    pub client_ca: Option<String>,
}

impl TlsArgs {
    pub(super) fn named(&self) -> impl Iterator<Item = (&'static str, &Option<String>)> {
        NAMES.into_iter().zip([&self.cert, &self.key, &self.client_ca])
    }
}

/// The files; `None`: http is served.
pub(super) fn tls(settings: &mut Settings<'_>) -> Option<ServerFiles> {
    let cert = settings.get("tls_cert", file);
    let key = settings.get("tls_key", file);
    let client_ca = settings.get("tls_client_ca", file);
    let lacking = match (&cert, &key, &client_ca) {
        (None, None, None) => return None,
        (Some(_), None, _) => Some("tls_cert is given without tls_key: give both, or neither"),
        (None, Some(_), _) => Some("tls_key is given without tls_cert: give both, or neither"),
        (None, None, Some(_)) => Some(
            "tls_client_ca asks clients for certificates, which takes https: give tls_cert and tls_key too",
        ),
        (Some(_), Some(_), _) => None,
    };
    settings.mistakes.extend(lacking.map(str::to_owned));
    Some(ServerFiles { cert: cert?, key: key?, client_ca })
}

/// Settings with one value.
pub(super) const NAMES: [&str; 3] = ["tls_cert", "tls_key", "tls_client_ca"];
