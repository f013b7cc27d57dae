//! Where a message leads: places on the page. Pure.

use reqwest::Url;
use ringscope_api::{FindingKind, Incident};

/// Makes links.
#[derive(Clone, Debug)]
pub struct Links {
    page: String,
}

impl Links {
    /// Links to the page at this address.
    pub fn new(page: &str) -> Self {
        Self { page: page.trim_end_matches('/').to_owned() }
    }

    /// The incident with its findings.
    pub(super) fn incident(&self, incident: &Incident) -> String {
        format!("{}/#/incidents/{}", self.page, incident.id)
    }

    /// What to do about it.
    pub(super) fn runbook(&self, kind: FindingKind) -> String {
        format!("{}/#/runbook/{}", self.page, kind.label())
    }

    /// All incidents.
    pub fn incidents(&self) -> String {
        format!("{}/#/incidents", self.page)
    }
}

/// Checks an address of the page in the configuration.
pub fn public_url(text: &str) -> Result<String, String> {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() && url.query().is_none() => {
            Ok(text.trim_end_matches('/').to_owned())
        }
        _ => Err("expected an address like https://ringscope.cluster".to_owned()),
    }
}
