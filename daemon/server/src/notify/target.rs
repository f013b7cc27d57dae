//! Whom to tell: an address that may be a secret and is never shown whole.

use std::fmt;

use reqwest::Url;
use sha2::{Digest as _, Sha256};

/// One address to tell.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    kind: TargetKind,
    url: Url,
}

/// What listens there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// An Alertmanager with its API v2.
    Alertmanager,
    /// What takes messages in Slack's shape.
    Webhook,
}

impl TargetKind {
    /// The word used in labels.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Alertmanager => "alertmanager",
            Self::Webhook => "webhook",
        }
    }
}

impl Target {
    /// Reads an address.
    ///
    /// # Errors
    /// What was expected; never the text, which may be a secret.
    pub fn parse(kind: TargetKind, text: &str) -> Result<Self, String> {
        match Url::parse(text) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(Self { kind, url }),
            _ => Err("expected addresses like http://127.0.0.1:9093, with spaces between them".to_owned()),
        }
    }

    /// What listens there.
    #[must_use]
    pub const fn kind(&self) -> TargetKind {
        self.kind
    }

    /// Whether it is told by TLS.
    pub fn is_secure(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// A name for the store that tells targets apart and gives no secret away.
    pub(super) fn id(&self) -> String {
        let digest = Sha256::digest(self.url.as_str().as_bytes());
        let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{hex}", self.kind.label())
    }

    /// Where to post; with all secrets.
    pub(super) fn post_url(&self) -> Url {
        let mut url = self.url.clone();
        if self.kind == TargetKind::Alertmanager
            && let Ok(mut segments) = url.path_segments_mut()
        {
            segments.pop_if_empty().extend(["api", "v2", "alerts"]);
        }
        url
    }
}

impl fmt::Display for Target {
    /// Without user, password and query; of a webhook without its path, which is its secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}://{}",
            self.kind.label(),
            self.url.scheme(),
            self.url.host_str().unwrap_or_default()
        )?;
        if let Some(port) = self.url.port() {
            write!(f, ":{port}")?;
        }
        match self.kind {
            TargetKind::Alertmanager => f.write_str(self.url.path().trim_end_matches('/')),
            TargetKind::Webhook => f.write_str("/…"),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_shown() {
        let cases = [
            (
                TargetKind::Webhook,
                "https://hooks.slack.com/services/T0/B0/s3cret",
                "webhook https://hooks.slack.com/…",
            ),
            (TargetKind::Webhook, "http://u:s3cret@h:1/?k=s3cret", "webhook http://h:1/…"),
            (TargetKind::Alertmanager, "http://u:s3cret@h:9093/am/", "alertmanager http://h:9093/am"),
        ];
        for (kind, url, shown) in cases {
            let target = Target::parse(kind, url).unwrap();
            assert_eq!(target.to_string(), shown);
            let all = format!("{target:?}{}", target.id());
            assert!(!all.contains("s3cret"), "{all}");
        }
        let error = Target::parse(TargetKind::Webhook, "hooks.slack.com/s3cret").unwrap_err();
        assert!(!error.contains("s3cret"), "{error}");
    }

    #[test]
    fn alerts_go_to_the_api_below_the_path_of_an_alertmanager() {
        for (url, expected) in
            [("http://h:9093", "http://h:9093/api/v2/alerts"), ("http://h/am/", "http://h/am/api/v2/alerts")]
        {
            let target = Target::parse(TargetKind::Alertmanager, url).unwrap();
            assert_eq!(target.post_url().as_str(), expected);
        }
    }
}
