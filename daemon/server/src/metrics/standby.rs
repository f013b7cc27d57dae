//! What a daemon shows of itself that stands by: `ringscope_daemon_leads` and `ringscope_daemon_reaches_leader`, its version, and
//! its certificate. Nothing of the model: the leader is scraped for that, and it is to be there once.

use std::sync::Arc;

use prometheus::{Encoder as _, IntGauge, Registry, TextEncoder};
use ringscope_tls::Own;

use super::{LEADS, LEADS_HELP, own, tls};

/// See the module.
#[derive(Debug)]
pub struct StandbyMetrics {
    registry: Registry,
    reaches_leader: IntGauge,
}

impl StandbyMetrics {
    /// `certificate`: where the daemon speaks TLS.
    ///
    /// # Errors
    /// Two families of one name: a mistake in this module.
    pub fn new(certificate: Option<Arc<Own>>) -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        registry.register(Box::new(IntGauge::new(LEADS, LEADS_HELP)?))?;
        registry.register(Box::new(own::build_info()?))?;
        let reaches_leader = IntGauge::new(
            "ringscope_daemon_reaches_leader",
            "Whether the daemon that leads has lately answered this one, which stands by.",
        )?;
        registry.register(Box::new(reaches_leader.clone()))?;
        if let Some(certificate) = certificate {
            registry.register(Box::new(tls::TlsCollector::new(certificate)?))?;
        }
        Ok(Self { registry, reaches_leader })
    }

    /// The text that Prometheus reads, while the leader answers or does not.
    ///
    /// # Errors
    /// A family that does not fit the format: a mistake in this module.
    pub fn render(&self, reaches_leader: bool) -> Result<String, prometheus::Error> {
        self.reaches_leader.set(reaches_leader.into());
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        String::from_utf8(text).map_err(|error| prometheus::Error::Msg(error.to_string()))
    }
}
