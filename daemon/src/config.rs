//! What `ringscope serve` can be told, by command line, environment or file; the only place that reads the
//! environment.
//!
//! Each setting has one name: `--some-setting`, `RINGSCOPE_SOME_SETTING`, `some_setting = ..` in the file. What is
//! said first in that order holds. What `run` and `agent` share with it (`RINGSCOPE_DIR`) comes after the variable of
//! its own name.

mod access;
mod agent;
mod groups;
mod kubernetes;
mod launch;
mod notify;
mod oidc;
mod remote_write;
mod tls;
mod token;

pub use access::{AccessArgs, AccessConfig, is_local};
pub use agent::AgentArgs;
pub use kubernetes::KubernetesArgs;
pub(crate) use launch::{LaunchNote, launch, launch_note};
pub use oidc::OidcArgs;
pub use remote_write::RemoteWriteArgs;
pub use tls::TlsArgs;
pub use token::token_source;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use ringscope_agent::{DEFAULT_DIR, DEFAULT_HARDWARE_INTERVAL, DEFAULT_SYSFS, PretendedSysfs};
use ringscope_api::words::parse_duration;
use ringscope_server::kubernetes::Injection;
use ringscope_server::metrics::MetricsLimits;
use ringscope_server::notify::{NotifyConfig, public_url};
use ringscope_store::DatabaseUrl;
use ringscope_tls::ServerFiles;

use ringscope_server::remote_write::RemoteWriteConfig;

/// Command line of `ringscope serve`. Values are checked in [`ServeConfig::load`], all at once.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(after_help = "Examples:
  ringscope serve
  ringscope serve --listen 0.0.0.0:9440 --database-url postgres://ringscope@db/ringscope --with-agent false
  ringscope serve --listen 0.0.0.0:9440 --tls-cert host.pem --tls-key host.key

Each setting may also come from the environment (RINGSCOPE_LISTEN) or from the file of --config (listen = ...).

Exit status: 0 stopped by SIGTERM or SIGINT, 1 cannot run, 64 wrong usage or configuration")]
pub struct ServeArgs {
    /// Address to listen on for agents, browsers and Prometheus [default: 127.0.0.1:9440]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
    /// Where to keep data: sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE [default: sqlite in --data-dir]
    #[arg(long, value_name = "URL")]
    pub database_url: Option<String>,
    /// Address at which the other daemons of the same Postgres reach this one, e.g. http://node-1:9440: one of them leads, the
    /// others hand everything on to it and take over when it is gone [default: it is alone]
    #[arg(long, value_name = "URL")]
    pub cluster_url: Option<String>,
    /// Directory for the daemon's own files [default: $XDG_DATA_HOME/ringscope]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<String>,
    /// How often the history of a series gets a point at most [default: 1s]
    #[arg(long, value_name = "DURATION")]
    pub sample_interval: Option<String>,
    /// How long history and ended processes are kept; history goes by whole days (UTC), once all of a day is older [default: 7d]
    #[arg(long, value_name = "DURATION")]
    pub retention: Option<String>,
    /// How long history is kept as fine as it was sampled; older is kept by the minute. At most --retention [default: 2d]
    #[arg(long, value_name = "DURATION")]
    pub raw_retention: Option<String>,
    /// Largest batch taken from an agent, unpacked [default: 16MiB]
    #[arg(long, value_name = "SIZE")]
    pub body_limit: Option<String>,
    /// Series on /metrics at most; the unhealthy and largest communicators come first [default: 20000]
    #[arg(long, value_name = "NUMBER")]
    pub metrics_series: Option<String>,
    /// Communicators in use on /metrics at most [default: as many as there are series for]
    #[arg(long, value_name = "NUMBER")]
    pub metrics_communicators: Option<String>,
    /// Whether this process is also the agent of its host [default: true; with --cluster-url false]
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true")]
    pub with_agent: Option<String>,
    /// Directory in which this host's processes leave their segments [default: $RINGSCOPE_DIR, else /dev/shm/ringscope]
    #[arg(long, value_name = "DIR")]
    pub agent_dir: Option<String>,
    /// Directory in which the kernel shows this host's devices [default: /sys]
    #[arg(long, value_name = "DIR")]
    pub agent_sysfs: Option<String>,
    /// Web page that may read this API from a browser, e.g. https://grafana.example.org; may be repeated [default: none]
    #[arg(long, alias = "cors-origins", value_name = "URL")]
    pub cors_origin: Vec<String>,
    /// Another name by which this daemon is called, as agents and browsers give it; may be repeated [default: addresses,
    /// localhost, the machine's name and that of --public-url]
    #[arg(long, alias = "allowed-hosts", value_name = "NAME")]
    pub allowed_host: Vec<String>,
    /// Alertmanager to tell findings to, by its API v2; may be given several times
    #[arg(long, value_name = "URL")]
    pub alertmanager: Vec<String>,
    /// Webhook to tell findings to, in Slack's shape; may be given several times. Often a secret: better in --config
    #[arg(long, value_name = "URL")]
    pub webhook: Vec<String>,
    /// Least severity that those are told of: info, warning or critical [default: warning]
    #[arg(long, value_name = "SEVERITY")]
    pub notify_severity: Option<String>,
    /// Address at which people open the page, for links in messages [default: http://LISTEN]
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    /// How often this host's hardware is read; 0: never [default: 5s]
    #[arg(long, value_name = "DURATION")]
    pub agent_hardware_interval: Option<String>,
    /// Whether agents look at what the culprit of a hang does: stacks, and what it is blocked in [default: true]
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true")]
    pub look: Option<String>,
    /// Whether the agent of this process looks at what a process does when a finding names it [default: true]
    #[arg(long, value_name = "true|false")]
    pub agent_look: Option<String>,
    /// Whether it reads the kernel's messages [default: true]
    #[arg(long, value_name = "true|false")]
    pub agent_kernel_log: Option<String>,
    /// With which certificate it serves.
    #[command(flatten)]
    pub tls: TlsArgs,
    /// Certificate of a CA that is trusted for webhooks, Alertmanagers, remote write and the other daemons of --cluster-url, besides those that this machine trusts, in PEM
    #[arg(long, value_name = "FILE")]
    pub ca: Option<String>,
    /// Where metrics are written to.
    #[command(flatten)]
    pub remote_write: RemoteWriteArgs,
    /// Who may do what.
    #[command(flatten)]
    pub access: AccessArgs,
    /// Where people sign in.
    #[command(flatten)]
    pub oidc: OidcArgs,
    /// What pods of Kubernetes get.
    #[command(flatten)]
    pub kubernetes: KubernetesArgs,
    /// Whether its processes may count themselves to other hosts (RINGSCOPE_HOST) than this machine [default: false]
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true")]
    pub agent_other_hosts: Option<String>,
    /// TOML file with any of these settings
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// A checked configuration of the daemon.
#[derive(Clone, Debug, PartialEq)]
pub struct ServeConfig {
    /// Address to listen on. Default 127.0.0.1:9440: nothing is shown to the network before somebody says so.
    pub listen: SocketAddr,
    /// What is needed of who asks. Default: nothing on a loopback address before there is a token, a token on others.
    pub access: AccessConfig,
    /// Where data is kept. Default: a SQLite file in `data_dir`, so that no server is needed.
    pub database_url: DatabaseUrl,
    /// Directory for the daemon's own files. Default: `$XDG_DATA_HOME/ringscope`, else `~/.local/share/ringscope`.
    pub data_dir: PathBuf,
    /// A series gets at most one point in this time. Default 1 s: what a person watching a job can follow.
    pub sample_interval: Duration,
    /// How long history and ended processes are kept. Default 7 days: Monday's job can be compared with last Monday's.
    pub retention: Duration,
    /// How long samples are kept beside their rollups. Default 2 days: what happened last night, or before a day off, is
    /// looked at to the second, and the rest takes a twentieth of the room.
    pub raw_retention: Duration,
    /// Largest batch taken. Default 16 MiB: ten times what an agent of eight ranks sends at its start.
    pub body_limit_bytes: usize,
    /// How much there is on /metrics. Default 20 000 series: Prometheus takes them with ease, and of some thousand ranks
    /// nothing is left out.
    pub metrics: MetricsLimits,
    /// Where the other daemons of the database reach this one. Default none: a machine of its own needs one daemon.
    pub cluster_url: Option<String>,
    /// Whether this process is also the agent of its host. Default yes: one machine needs one process.
    pub with_agent: bool,
    /// Where this host's processes leave their segments. Default `/dev/shm/ringscope`: memory, never a disk.
    pub agent_dir: PathBuf,
    /// Where the kernel shows this host's devices. Default `/sys`; in a container the host's may be elsewhere.
    pub agent_sysfs: PathBuf,
    /// Who is told of findings besides those who look. Default nobody.
    pub notify: NotifyConfig,
    /// How often the agent of this process reads this host's hardware; zero: never. Default 5 s.
    pub agent_hardware_interval: Duration,
    /// Whether agents are asked what the culprits of hangs do. Default yes: it takes 100 ms of a process that everybody
    /// waits for, once, and names the line.
    pub look: bool,
    /// Whether the agent of this process looks at processes that a finding names: stacks and system calls. Default yes.
    pub agent_look: bool,
    /// Whether it reads the kernel's messages. Default yes: they often have the cause.
    pub agent_kernel_log: bool,
    /// Certificate, key and clients' CAs. Default none: http, for loopback needs no TLS.
    pub tls: Option<ServerFiles>,
    /// Whether processes of this machine may count themselves to other hosts. Default no: any user could tell of any host.
    pub agent_other_hosts: bool,
    /// Where metrics are written to for long. Default nowhere: Prometheus scrapes.
    pub remote_write: Option<RemoteWriteConfig>,
    /// What pods of Kubernetes get that ask for it. Default nothing: it takes a webhook that leads here.
    pub kubernetes: Option<Injection>,
    /// Hosts that this machine pretends to be; only the demo does.
    pub pretended_hosts: Vec<PretendedSysfs>,
    /// Origins whose pages may read the API from a browser. Default none: the daemon's own page needs none, and a browser
    /// in the cluster's network would else show the cluster to any page that it visits.
    pub cors_origins: Vec<String>,
    /// Names that the daemon answers to besides addresses, localhost, its machine's name and that of the page's address.
    /// Default none: a stranger's page whose name leads here would else count as the daemon's own.
    pub allowed_hosts: Vec<String>,
}

/// Name in the file of what `serve` takes as `--option`; in the environment it is that with `RINGSCOPE_` before it, in
/// capitals. `None`: only the command line has it.
#[must_use]
pub fn name_in_file(option: &str) -> Option<&'static str> {
    let (one, several) = (option.replace('-', "_"), option.replace('-', "_") + "s");
    names().chain(lists()).find(|name| *name == one || *name == several)
}

/// Whether a setting of that name takes several values, which the file has as an array.
#[must_use]
pub fn takes_several(name: &str) -> bool {
    lists().any(|list| list == name)
}

/// Settings with one value.
fn names() -> impl Iterator<Item = &'static str> {
    NAMES
        .into_iter()
        .chain(tls::NAMES)
        .chain(access::NAMES)
        .chain(oidc::NAMES)
        .chain(remote_write::NAMES)
        .chain(kubernetes::NAMES)
}

/// Settings that may have several, with spaces between them.
fn lists() -> impl Iterator<Item = &'static str> {
    LISTS
        .into_iter()
        .chain(access::LISTS)
        .chain(oidc::LISTS)
        .chain(remote_write::LISTS)
        .chain(kubernetes::LISTS)
}

/// Everything that is wrong with a configuration.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{} mistake(s) in the configuration:{}", .mistakes.len(), list(.mistakes))]
pub struct ConfigError {
    /// One sentence each.
    pub mistakes: Vec<String>,
}

impl Default for ServeConfig {
    fn default() -> Self {
        let data_dir = PathBuf::from("ringscope-data");
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 9440)),
            access: AccessConfig::default(),
            database_url: DatabaseUrl::Sqlite(data_dir.join(DATABASE_FILE)),
            data_dir,
            sample_interval: Duration::from_secs(1),
            retention: Duration::from_secs(7 * 24 * 3600),
            raw_retention: Duration::from_secs(2 * 86_400),
            body_limit_bytes: 16 << 20,
            metrics: MetricsLimits { series: 20_000, communicators: None },
            cluster_url: None,
            with_agent: true,
            look: true,
            agent_dir: PathBuf::from(DEFAULT_DIR),
            agent_sysfs: PathBuf::from(DEFAULT_SYSFS),
            notify: NotifyConfig::default(),
            agent_hardware_interval: DEFAULT_HARDWARE_INTERVAL,
            agent_look: true,
            agent_other_hosts: false,
            agent_kernel_log: true,
            tls: None,
            remote_write: None,
            kubernetes: None,
            pretended_hosts: Vec::new(),
            cors_origins: Vec::new(),
            allowed_hosts: Vec::new(),
        }
    }
}

impl ServeConfig {
    /// The configuration that the command line, this process's environment and the file make together.
    ///
    /// # Errors
    /// All mistakes, each with where it was made.
    pub fn from_args(args: &ServeArgs) -> Result<Self, ConfigError> {
        Self::load(args, &environment)
    }

    /// The same with another environment.
    ///
    /// # Errors
    /// All mistakes, each with where it was made.
    pub fn load(args: &ServeArgs, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let mut settings = Settings::new(args, env);
        let default = Self::default();
        let data_dir = settings.get("data_dir", directory).unwrap_or_else(|| default_data_dir(env));
        let cluster_url = settings.get("cluster_url", cluster_url);
        let listen = settings.get("listen", address).unwrap_or(default.listen);
        let notify = notify::notify(&mut settings);
        let (retention, raw_retention) = retentions(&mut settings, &default);
        let config = Self {
            listen,
            access: access::access(&mut settings),
            database_url: settings
                .get("database_url", parsed)
                .unwrap_or_else(|| DatabaseUrl::Sqlite(data_dir.join(DATABASE_FILE))),
            sample_interval: settings
                .get("sample_interval", sample_interval)
                .unwrap_or(default.sample_interval),
            retention,
            raw_retention,
            body_limit_bytes: settings.get("body_limit", size).unwrap_or(default.body_limit_bytes),
            metrics: MetricsLimits {
                series: settings.get("metrics_series", series).unwrap_or(default.metrics.series),
                communicators: settings.get("metrics_communicators", parsed),
            },
            with_agent: settings.get("with_agent", boolean).unwrap_or(cluster_url.is_none()),
            cluster_url,
            agent_dir: settings.get("agent_dir", directory).unwrap_or(default.agent_dir),
            cors_origins: settings.get("cors_origins", origins).unwrap_or(default.cors_origins),
            allowed_hosts: settings.get("allowed_hosts", hosts).unwrap_or(default.allowed_hosts),
            agent_sysfs: settings.get("agent_sysfs", directory).unwrap_or(default.agent_sysfs),
            remote_write: remote_write::remote_write(&mut settings, listen, &notify.trust),
            notify,
            agent_hardware_interval: settings
                .get("agent_hardware_interval", or_never)
                .unwrap_or(default.agent_hardware_interval),
            look: settings.get("look", boolean).unwrap_or(default.look),
            agent_other_hosts: settings
                .get("agent_other_hosts", boolean)
                .unwrap_or(default.agent_other_hosts),
            agent_look: settings.get("agent_look", boolean).unwrap_or(default.agent_look),
            agent_kernel_log: settings.get("agent_kernel_log", boolean).unwrap_or(default.agent_kernel_log),
            tls: tls::tls(&mut settings),
            kubernetes: kubernetes::kubernetes(&mut settings),
            pretended_hosts: default.pretended_hosts,
            data_dir,
        };
        settings.mistakes.extend(config.of_several().map(str::to_owned));
        settings.finish()?;
        Ok(config)
    }
}

impl ServeConfig {
    /// What is wrong with one of several daemons.
    fn of_several(&self) -> impl Iterator<Item = &'static str> {
        let is_one = self.cluster_url.is_some();
        let is_shared = matches!(self.database_url, DatabaseUrl::Postgres(_));
        let no_postgres =
            "cluster_url makes this daemon one of several that share a Postgres: give that as database_url";
        let agent = "one of several daemons has no agent inside: run `ringscope agent` beside it, and leave with_agent out";
        let says_https = self.cluster_url.as_ref().is_some_and(|url| url.starts_with("https:"));
        let scheme = match (says_https, self.tls.is_some()) {
            (true, false) => Some(
                "cluster_url says https, and this daemon has no certificate: give tls_cert and tls_key too",
            ),
            (false, true) if is_one => {
                Some("cluster_url says http, and this daemon serves https: begin it with https://")
            }
            _ => None,
        };
        [(is_one && !is_shared).then_some(no_postgres), (is_one && self.with_agent).then_some(agent), scheme]
            .into_iter()
            .flatten()
    }
}

/// Where values come from, and what was wrong with them.
struct Settings<'a> {
    args: BTreeMap<&'static str, Cow<'a, str>>,
    env: &'a dyn Fn(&str) -> Option<String>,
    file: BTreeMap<String, String>,
    file_name: String,
    mistakes: Vec<String>,
}

impl<'a> Settings<'a> {
    fn new(args: &'a ServeArgs, env: &'a dyn Fn(&str) -> Option<String>) -> Self {
        let named = NAMES.into_iter().zip([
            &args.listen,
            &args.database_url,
            &args.data_dir,
            &args.sample_interval,
            &args.retention,
            &args.raw_retention,
            &args.body_limit,
            &args.metrics_series,
            &args.metrics_communicators,
            &args.with_agent,
            &args.agent_dir,
            &args.agent_sysfs,
            &args.notify_severity,
            &args.public_url,
            &args.agent_hardware_interval,
            &args.look,
            &args.agent_look,
            &args.agent_kernel_log,
            &args.ca,
            &args.agent_other_hosts,
            &args.cluster_url,
        ]);
        let named = named.chain(args.tls.named()).chain(args.access.named()).chain(args.oidc.named());
        let named = named.chain(args.remote_write.named()).chain(args.kubernetes.named());
        let single = named.filter_map(|(name, value)| Some((name, Cow::Borrowed(value.as_deref()?))));
        let several =
            LISTS.into_iter().zip([&args.cors_origin, &args.alertmanager, &args.webhook, &args.allowed_host]);
        let several = several.chain(args.access.lists()).chain(args.oidc.lists());
        let several = several.chain(args.remote_write.lists()).chain(args.kubernetes.lists());
        let several = several.filter(|(_, values)| !values.is_empty());
        let args_by_name =
            single.chain(several.map(|(name, values)| (name, values.join(LIST_SEPARATOR).into()))).collect();
        let mut settings = Self {
            args: args_by_name,
            env,
            file: BTreeMap::new(),
            file_name: String::new(),
            mistakes: Vec::new(),
        };
        let file = args.config.clone().or_else(|| env("RINGSCOPE_CONFIG").map(PathBuf::from));
        if let Some(file) = file {
            settings.read_file(&file);
        }
        settings
    }

    fn read_file(&mut self, file: &Path) {
        self.file_name = file.display().to_string();
        let table = match std::fs::read_to_string(file) {
            Ok(text) => text.parse::<toml::Table>().map_err(|error| error.to_string().trim_end().to_owned()),
            Err(error) => Err(error.to_string()),
        };
        match table {
            Ok(table) => {
                for (name, value) in table {
                    self.take_from_file(name, &value);
                }
            }
            Err(error) => self.mistakes.push(format!("{}: {error}", self.file_name)),
        }
    }

    fn take_from_file(&mut self, name: String, value: &toml::Value) {
        let text = match value {
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Boolean(boolean) => boolean.to_string(),
            toml::Value::Array(items) if takes_several(&name) => {
                let texts: Vec<&str> = items.iter().filter_map(toml::Value::as_str).collect();
                if texts.len() < items.len() {
                    self.mistakes.push(format!("{}: {name} holds what is no text", self.file_name));
                }
                texts.join(LIST_SEPARATOR)
            }
            other => {
                let kind = other.type_str();
                self.mistakes.push(format!(
                    "{}: {name} is a {kind}, expected a text, a number or a boolean",
                    self.file_name
                ));
                return;
            }
        };
        if names().chain(lists()).any(|known| known == name) {
            self.file.insert(name, text);
        } else {
            let known = names().chain(lists()).collect::<Vec<_>>().join(", ");
            self.mistakes.push(format!("{}: no setting is called {name}; there are {known}", self.file_name));
        }
    }

    fn get<T>(&mut self, name: &'static str, parse: fn(&str) -> Result<T, String>) -> Option<T> {
        let variable = format!("RINGSCOPE_{}", name.to_uppercase());
        let agents = AGENT_NAMES.iter().find(|(known, _)| *known == name);
        let agents = agents.and_then(|(_, variable)| Some(((self.env)(variable)?, (*variable).to_owned())));
        let (value, place) = if let Some(value) = self.args.get(name) {
            (value.to_string(), format!("--{}", name.replace('_', "-")))
        } else if let Some(value) = (self.env)(&variable) {
            (value, variable)
        } else if let Some((value, variable)) = agents.filter(|(value, _)| !value.is_empty()) {
            (value, variable)
        } else {
            (self.file.get(name)?.clone(), format!("{}: {name}", self.file_name))
        };
        match parse(&value) {
            Ok(parsed) => Some(parsed),
            Err(problem) => {
                let shown = value.replace(LIST_SEPARATOR, " ");
                let shown = if SECRETS.contains(&name) { String::new() } else { format!(" {shown:?}") };
                self.mistakes.push(format!("{place}{shown}: {problem}"));
                None
            }
        }
    }

    fn finish(self) -> Result<(), ConfigError> {
        if self.mistakes.is_empty() { Ok(()) } else { Err(ConfigError { mistakes: self.mistakes }) }
    }
}

fn cluster_url(text: &str) -> Result<String, String> {
    let url = public_url(text).ok().filter(|url| !url.contains('@'));
    url.ok_or_else(|| "expected an address like http://node-1:9440, without a user".to_owned())
}

fn parsed<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "expected ADDRESS:PORT, e.g. 127.0.0.1:9440, 0.0.0.0:9440 or [::]:9440".to_owned())
}

fn file(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("expected a file".to_owned()) } else { Ok(PathBuf::from(text)) }
}

fn directory(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("expected a directory".to_owned()) } else { Ok(PathBuf::from(text)) }
}

/// Origins as browsers send them, with commas between.
fn origins(text: &str) -> Result<Vec<String>, String> {
    let is_origin = |origin: &&str| {
        let authority = ["http://", "https://"].into_iter().find_map(|scheme| origin.strip_prefix(scheme));
        let allowed = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
        authority.is_some_and(|authority| !authority.is_empty() && authority.chars().all(allowed))
    };
    let expected =
        "expected a scheme, a host and perhaps a port, and no path, e.g. https://grafana.example.org";
    let texts = text.split([',', ' ', '\n']).map(str::trim).filter(|origin| !origin.is_empty());
    texts
        .map(|origin| Some(origin).filter(is_origin).map(str::to_lowercase).ok_or(expected.to_owned()))
        .collect()
}

/// Names of hosts as in a URL, without a port, with commas between.
fn hosts(text: &str) -> Result<Vec<String>, String> {
    let is_name = |name: &&str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        name.len() <= 253 && !name.starts_with(['.', '-']) && name.chars().all(allowed)
    };
    let expected = "expected names of hosts without a port, e.g. ringscope.cluster";
    let texts = text.split([',', ' ', '\n']).map(str::trim).filter(|name| !name.is_empty());
    texts.map(|name| Some(name).filter(is_name).map(str::to_lowercase).ok_or(expected.to_owned())).collect()
}

fn sample_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    if interval < SAMPLE_INTERVAL_MIN { Err("expected 1s or more".to_owned()) } else { Ok(interval) }
}

fn series(text: &str) -> Result<usize, String> {
    let expected = || format!("expected a number of series, {METRICS_SERIES_MIN} or more");
    text.parse().ok().filter(|series| *series >= METRICS_SERIES_MIN).ok_or_else(expected)
}

/// A duration, or 0 for never.
fn or_never(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { parse_duration(text) }
}

/// How long all is kept, and how long what is fine.
fn retentions(settings: &mut Settings<'_>, default: &ServeConfig) -> (Duration, Duration) {
    let all = settings.get("retention", retention).unwrap_or(default.retention);
    let fine = settings.get("raw_retention", retention);
    if fine.is_some_and(|fine| fine > all) {
        let mistake = "raw_retention is longer than retention, and nothing is kept beyond that: make it shorter, or retention longer";
        settings.mistakes.push(mistake.to_owned());
    }
    (all, fine.unwrap_or(default.raw_retention.min(all)))
}

fn retention(text: &str) -> Result<Duration, String> {
    let retention = parse_duration(text)?;
    if retention < RETENTION_MIN { Err("expected 1m or more".to_owned()) } else { Ok(retention) }
}

fn size(text: &str) -> Result<usize, String> {
    let expected = || "expected a size from 64KiB to 1GiB, e.g. 16MiB".to_owned();
    let (number, shift) = match text {
        text if text.ends_with("GiB") => (text.trim_end_matches("GiB"), 30),
        text if text.ends_with("MiB") => (text.trim_end_matches("MiB"), 20),
        text if text.ends_with("KiB") => (text.trim_end_matches("KiB"), 10),
        text => (text, 0),
    };
    let number: usize = number.trim().parse().map_err(|_| expected())?;
    number.checked_mul(1 << shift).filter(|size| BODY_LIMITS.contains(size)).ok_or_else(expected)
}

fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

fn default_data_dir(env: &dyn Fn(&str) -> Option<String>) -> PathBuf {
    let absolute = |path: String| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let data_home = env("XDG_DATA_HOME").and_then(absolute);
    let home = || env("HOME").and_then(absolute).map(|home| home.join(".local/share"));
    data_home.or_else(home).unwrap_or_else(|| PathBuf::from("/var/lib")).join("ringscope")
}

/// Whether a terminal may have colours: see <https://no-color.org>.
pub(crate) fn colour_is_wanted() -> bool {
    environment("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Name of the user who runs this command, as the environment has it.
#[must_use]
pub fn user() -> String {
    environment("SUDO_USER").or_else(|| environment("USER")).unwrap_or_default()
}

#[expect(clippy::disallowed_methods, reason = "this is where the environment is read")]
fn environment(name: &str) -> Option<String> {
    Some(std::env::var_os(name)?.to_string_lossy().into_owned())
}

fn list(mistakes: &[String]) -> String {
    mistakes.iter().map(|mistake| format!("\n  {mistake}")).collect()
}

/// Those of the options above, in their order.
const LISTS: [&str; 4] = ["cors_origins", "alertmanager", "webhook", "allowed_hosts"];
/// Between the items of a list that come one by one: names of groups have spaces.
const LIST_SEPARATOR: &str = "\n";
/// Settings whose values are not shown: a URL may hold a password, or be one.
const SECRETS: [&str; 4] = ["database_url", "alertmanager", "webhook", "remote_write"];
/// Settings with one value, in the order of the fields of [`ServeArgs`].
const NAMES: [&str; 21] = [
    "listen",
    "database_url",
    "data_dir",
    "sample_interval",
    "retention",
    "raw_retention",
    "body_limit",
    "metrics_series",
    "metrics_communicators",
    "with_agent",
    "agent_dir",
    "agent_sysfs",
    "notify_severity",
    "public_url",
    "agent_hardware_interval",
    "look",
    "agent_look",
    "agent_kernel_log",
    "ca",
    "agent_other_hosts",
    "cluster_url",
];
/// What the agent alone calls a setting of its own: this process may be an agent too.
const AGENT_NAMES: [(&str, &str); 3] = [
    ("agent_dir", "RINGSCOPE_DIR"),
    ("agent_look", "RINGSCOPE_LOOK"),
    ("agent_kernel_log", "RINGSCOPE_KERNEL_LOG"),
];
/// The database's name in `data_dir`.
const DATABASE_FILE: &str = "ringscope.db";
/// Batches come every 250 ms, and the hub looks once a second.
const SAMPLE_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Less would delete what a chart of the last minute shows.
const RETENTION_MIN: Duration = Duration::from_secs(60);
/// Less has no room for what the daemon says of itself and of a small job.
const METRICS_SERIES_MIN: usize = 1000;
/// Less refuses ordinary batches; more lets one agent fill the memory.
const BODY_LIMITS: std::ops::RangeInclusive<usize> = 64 << 10..=1 << 30;

#[cfg(test)]
mod tests;
