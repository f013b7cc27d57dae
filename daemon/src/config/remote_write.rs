//! Where `/metrics` is written to for long, as the settings of `ringscope serve` say it.

use std::net::SocketAddr;
use std::time::Duration;

use reqwest::Url;
use ringscope_tls::Trust;

use super::{LIST_SEPARATOR, Settings, file};
use ringscope_api::words::parse_duration;
use ringscope_server::remote_write::{Login, RemoteWriteConfig};

/// Options of `ringscope serve` that say where metrics are written to.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct RemoteWriteArgs {
    /// Write what /metrics shows to this address too, by Prometheus' remote write 1.0: VictoriaMetrics, Mimir, Thanos, or a
    /// Prometheus that takes it [default: none]
    #[arg(long = "remote-write", value_name = "URL")]
    pub url: Option<String>,
    /// File with the token for it
    #[arg(long = "remote-write-token-file", value_name = "FILE")]
    pub token_file: Option<String>,
    /// Name to sign in with there, by basic authentication
    #[arg(long = "remote-write-user", value_name = "NAME")]
    pub user: Option<String>,
    /// File with the password of that name
    #[arg(long = "remote-write-password-file", value_name = "FILE")]
    pub password_file: Option<String>,
    /// How often it is written [default: 15s]
    #[arg(long = "remote-write-interval", value_name = "DURATION")]
    pub interval: Option<String>,
    /// Label of all series there, e.g. cluster=a; may be repeated [default: instance=MACHINE:PORT and job=ringscope, where there is none]
    #[arg(long = "remote-write-label", alias = "remote-write-labels", value_name = "NAME=VALUE")]
    pub label: Vec<String>,
}

impl RemoteWriteArgs {
    pub(super) fn named(&self) -> impl Iterator<Item = (&'static str, &Option<String>)> {
        NAMES.into_iter().zip([&self.url, &self.token_file, &self.user, &self.password_file, &self.interval])
    }

    pub(super) fn lists(&self) -> impl Iterator<Item = (&'static str, &Vec<String>)> {
        LISTS.into_iter().zip([&self.label])
    }
}

/// Where to; `None`: nowhere.
pub(super) fn remote_write(
    settings: &mut Settings<'_>,
    listen: SocketAddr,
    trust: &Trust,
) -> Option<RemoteWriteConfig> {
    let url = settings.get("remote_write", address);
    let token = settings.get("remote_write_token_file", file);
    let user = settings.get("remote_write_user", |text| Ok(text.to_owned()));
    let password = settings.get("remote_write_password_file", file);
    let interval = settings.get("remote_write_interval", interval).unwrap_or(INTERVAL);
    let mut labels = settings.get("remote_write_labels", labels).unwrap_or_default();
    let login = match (token, user, password) {
        (None, None, None) => Login::Nobody,
        (Some(token), None, None) => Login::Token(token),
        (None, Some(user), Some(password)) => Login::Basic { user, password },
        _ => {
            let mistake = "remote_write takes either remote_write_token_file, or remote_write_user with \
                           remote_write_password_file";
            settings.mistakes.push(mistake.to_owned());
            return None;
        }
    };
    if url.is_none() && (login != Login::Nobody || !labels.is_empty()) {
        settings
            .mistakes
            .push("remote_write_… is given without remote_write: say where to, or nothing".to_owned());
    }
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let instance = format!("{machine}:{}", listen.port());
    for (name, value) in [("instance", instance), ("job", "ringscope".to_owned())] {
        if labels.iter().all(|(known, _)| known != name) {
            labels.push((name.to_owned(), value));
        }
    }
    Some(RemoteWriteConfig {
        url: url?,
        login,
        labels,
        interval,
        trust: trust.clone(),
        queue_bytes_max: QUEUE_BYTES_MAX,
    })
}

/// Never says the text, which may hold a password.
fn address(text: &str) -> Result<Url, String> {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        _ => Err("expected an address like http://127.0.0.1:8428/api/v1/write".to_owned()),
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    if interval < INTERVAL_MIN { Err("expected 1s or more".to_owned()) } else { Ok(interval) }
}

fn labels(text: &str) -> Result<Vec<(String, String)>, String> {
    let is_name = |name: &str| {
        let starts =
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && !name.starts_with("__");
        starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let texts = text.split(LIST_SEPARATOR).flat_map(str::split_whitespace);
    let label = |text: &str| match text.split_once('=') {
        Some((name, value)) if is_name(name) && !value.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE, e.g. cluster=a".to_owned()),
    };
    texts.map(label).collect()
}

/// Settings with one value.
pub(super) const NAMES: [&str; 5] = [
    "remote_write",
    "remote_write_token_file",
    "remote_write_user",
    "remote_write_password_file",
    "remote_write_interval",
];
/// Settings with several.
pub(super) const LISTS: [&str; 1] = ["remote_write_labels"];
/// What Prometheus' own servers mostly scrape at.
const INTERVAL: Duration = Duration::from_secs(15);
/// A round costs as much as a scrape.
const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// What waits while nobody takes it, packed.
const QUEUE_BYTES_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::super::{ServeArgs, ServeConfig};
    use super::*;

    fn load(set: &[(&str, &str)]) -> Result<Option<RemoteWriteConfig>, String> {
        let env = |name: &str| {
            let found = set.iter().find(|(known, _)| format!("RINGSCOPE_REMOTE_WRITE{known}") == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        ServeConfig::load(&ServeArgs::default(), &env)
            .map(|config| config.remote_write)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_is_written_anywhere_unless_somebody_says_so() {
        assert_eq!(load(&[]), Ok(None));
        let written = load(&[("", "https://mimir:9009/api/v1/push"), ("_LABELS", "cluster=a job=ring")]);
        let written = written.unwrap().unwrap();
        let label = |name: &str| {
            let found = written.labels.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone())
        };
        assert_eq!((label("cluster"), label("job")), (Some("a".to_owned()), Some("ring".to_owned())));
        assert!(label("instance").unwrap().ends_with(":9440"));
        assert_eq!(written.interval, INTERVAL);
    }

    #[test]
    fn mistakes_are_told_without_passwords() {
        let url = ("", "http://u:s3cret@h/write");
        let cases: [(&[(&str, &str)], &str); 6] = [
            (&[("", "u:s3cret@h")], "expected an address like"),
            (&[url, ("_USER", "ann")], "remote_write_user with"),
            (&[url, ("_TOKEN_FILE", "t"), ("_PASSWORD_FILE", "p")], "takes either"),
            (&[url, ("_INTERVAL", "1ms")], "expected 1s or more"),
            (&[url, ("_LABELS", "9a=b")], "expected NAME=VALUE"),
            (&[("_TOKEN_FILE", "t")], "say where to"),
        ];
        for (set, expected) in cases {
            let error = load(set).unwrap_err();
            assert!(error.contains(expected) && !error.contains("s3cret"), "{error}");
        }
        assert!(!format!("{:?}", load(&[url])).contains("s3cret"));
    }
}
