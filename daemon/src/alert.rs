//! `ringscope alert test`: whether those who are to be told can be.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

use ringscope_api::clock::{self, Timestamp};
use ringscope_server::notify::alert::Alert;
use ringscope_server::notify::links::Links;
use ringscope_server::notify::message;
use ringscope_server::notify::post::{PostError, post_once};
use ringscope_server::notify::{Target, TargetKind};
use ringscope_tls::{self as tls, TlsError};

use crate::config::{ConfigError, ServeArgs, ServeConfig};

/// Arguments of `ringscope alert`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ringscope alert test --alertmanager http://alertmanager:9093

`ringscope alert test --help` has more.")]
pub struct AlertArgs {
    #[command(subcommand)]
    command: AlertCommand,
}

#[derive(Debug, clap::Subcommand)]
enum AlertCommand {
    /// Send a test alert to each target that `ringscope serve` would tell, and print what it answers
    Test(TestArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringscope alert test --alertmanager http://alertmanager:9093
  ringscope alert test --config /etc/ringscope.toml

Targets also come from the environment (RINGSCOPE_ALERTMANAGER, RINGSCOPE_WEBHOOK) or from the file of --config, as
for `ringscope serve`.

Exit status: 0 all took it, 1 one did not, 64 wrong usage or configuration")]
struct TestArgs {
    /// Alertmanager to try; may be given several times
    #[arg(long, value_name = "URL")]
    alertmanager: Vec<String>,
    /// Webhook in Slack's shape to try; may be given several times
    #[arg(long, value_name = "URL")]
    webhook: Vec<String>,
    /// Address of the page, for the links
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Certificate of a CA that is trusted besides those that this machine trusts, in PEM
    #[arg(long, value_name = "FILE")]
    ca: Option<String>,
    /// TOML file with the settings of `ringscope serve`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Why nothing could be tried, or not all took it.
#[derive(Debug, thiserror::Error)]
pub enum AlertError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The CA.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Nobody would be told.
    #[error("no target: give --alertmanager URL or --webhook URL, or the --config of `ringscope serve`")]
    NoTarget,
    /// Some would not hear.
    #[error("{failed} of {all} target(s) did not take the test alert")]
    Failed {
        /// So many.
        failed: usize,
        /// Of these.
        all: usize,
    },
    /// The terminal.
    #[error("cannot write: {0}")]
    Io(#[from] io::Error),
}

/// Tries each target and prints what it answered.
///
/// # Errors
/// [`AlertError`].
pub async fn run(args: AlertArgs, out: &mut impl Write) -> Result<(), AlertError> {
    let AlertCommand::Test(args) = args.command;
    let config = ServeConfig::from_args(&ServeArgs {
        alertmanager: args.alertmanager,
        webhook: args.webhook,
        public_url: args.public_url,
        ca: args.ca,
        config: args.config,
        ..ServeArgs::default()
    })?;
    let targets = &config.notify.targets;
    if targets.is_empty() {
        return Err(AlertError::NoTarget);
    }
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let listen = || format!("{scheme}://{}", config.listen);
    let links = Links::new(&config.notify.public_url.clone().unwrap_or_else(listen));
    let mut failed = 0;
    for target in targets {
        let http = tls::client(&config.notify.trust, target.is_secure(), reqwest::Client::builder())?;
        match try_one(http, target, &links, clock::now()).await {
            Ok((status, words)) => {
                let words = if words.is_empty() { String::new() } else { format!(" {words}") };
                writeln!(out, "{target}: took the test alert ({status}{words})")?;
            }
            Err(error) => {
                failed += 1;
                writeln!(out, "{target}: {error}")?;
            }
        }
    }
    if failed == 0 { Ok(()) } else { Err(AlertError::Failed { failed, all: targets.len() }) }
}

async fn try_one(
    http: reqwest::Client,
    target: &Target,
    links: &Links,
    now: Timestamp,
) -> Result<(reqwest::StatusCode, String), PostError> {
    match target.kind() {
        TargetKind::Alertmanager => post_once(http, target, &[test_alert(links, now)]).await,
        TargetKind::Webhook => post_once(http, target, &message::test(links)).await,
    }
}

/// It is over by itself after a minute.
fn test_alert(links: &Links, now: Timestamp) -> Alert {
    Alert {
        labels: BTreeMap::from([("alertname", "RingscopeTest".to_owned()), ("severity", "info".to_owned())]),
        annotations: BTreeMap::from([
            ("summary", "This is a test of ringscope: nothing is wrong".to_owned()),
            ("page", links.incidents()),
        ]),
        starts_at: now,
        ends_at: Timestamp(now.0.saturating_add(TEST_NS)),
        generator_url: links.incidents(),
    }
}

const TEST_NS: u64 = 60_000_000_000;
