//! Who is told of findings, as the settings of `ringscope serve` say it.

use ringscope_api::Severity;
use ringscope_server::notify::{NotifyConfig, Target, TargetKind, public_url};
use ringscope_tls::Trust;

use super::{Settings, file};

/// Who is told of findings.
pub(super) fn notify(settings: &mut Settings<'_>) -> NotifyConfig {
    let mut targets = settings.get("alertmanager", alertmanagers).unwrap_or_default();
    targets.extend(settings.get("webhook", webhooks).unwrap_or_default());
    let default = NotifyConfig::default();
    NotifyConfig {
        targets,
        severity: settings.get("notify_severity", severity).unwrap_or(default.severity),
        public_url: settings.get("public_url", public_url),
        trust: Trust { ca: settings.get("ca", file), ..Trust::default() },
        pace: default.pace,
    }
}

fn alertmanagers(text: &str) -> Result<Vec<Target>, String> {
    text.split_whitespace().map(|url| Target::parse(TargetKind::Alertmanager, url)).collect()
}

fn webhooks(text: &str) -> Result<Vec<Target>, String> {
    text.split_whitespace().map(|url| Target::parse(TargetKind::Webhook, url)).collect()
}

fn severity(text: &str) -> Result<Severity, String> {
    let all = [Severity::Info, Severity::Warning, Severity::Critical];
    let known = all.into_iter().find(|severity| severity.label() == text);
    known.ok_or_else(|| "expected info, warning or critical".to_owned())
}
