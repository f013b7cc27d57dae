//! With which certificate the daemon serves, as the settings of `ringscope serve` say it.

use super::{Settings, file};
use crate::tls::ServerFiles;

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
