//! `ringscope_tls_certificate_expiry_seconds`, `ringscope_tls_certificate_refused` and `ringscope_tls_handshakes_total`:
//! only where the daemon speaks TLS.

use std::collections::HashMap;
use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use ringscope_api::clock;
use ringscope_tls::{Handshake, Own};

use super::family;

/// Reads how the certificate stands at each scrape.
pub(super) struct TlsCollector {
    own: Arc<Own>,
    desc: Desc,
}

impl TlsCollector {
    pub(super) fn new(own: Arc<Own>) -> Result<Self, prometheus::Error> {
        let desc = Desc::new("ringscope_tls".into(), "TLS".into(), Vec::new(), HashMap::new())?;
        Ok(Self { own, desc })
    }
}

impl Collector for TlsCollector {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let state = self.own.state();
        let left_s = family::seconds(state.ends_at) - family::seconds(clock::now());
        let refused = f64::from(u8::from(state.problem.is_some()));
        let handshakes = Handshake::ALL.map(|handshake| {
            let count = self.own.handshakes().count(handshake);
            (vec![("result", handshake.label())], family::number(count))
        });
        vec![
            family::gauge(
                "ringscope_tls_certificate_expiry_seconds",
                "Time until the daemon's TLS certificate ends; below zero: since it has ended.",
                [(Vec::new(), left_s)],
            ),
            family::gauge(
                "ringscope_tls_certificate_refused",
                "1 if the files of the certificate have changed and cannot be used: the one of before is used on.",
                [(Vec::new(), refused)],
            ),
            family::counter(
                "ringscope_tls_handshakes_total",
                "TLS handshakes by what became of them.",
                handshakes,
            ),
        ]
    }
}
