//! The composition root of the daemon: takes its address, builds the rooms (`core`), connects them, and ends them in order;
//! `in_turn`: one of several daemons of a database.

mod core;
mod error;
mod in_turn;

pub use error::ServeError;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ringscope_access::{Secret, TokenRow};
use ringscope_agent::{self as agent, AgentConfig};
use ringscope_api::clock;
use ringscope_server::http::{self, Addresses, Limits};
use ringscope_server::oidc::Oidc;
use ringscope_store::{Claim, DatabaseUrl, Store, StoreError};
use ringscope_tls::Own;
use ringscope_tls::credential::TokenSource;
use rustix::process::{Resource, Rlimit};
use tokio::net::TcpListener;
use tokio::signal::unix::SignalKind;
use tokio_util::sync::CancellationToken;

use self::core::{Core, Of};
use crate::config::{ServeConfig, is_local};

/// A daemon that has its address and does not run yet.
pub struct Server {
    config: ServeConfig,
    listener: TcpListener,
    local_addr: SocketAddr,
    tls: Option<Arc<Own>>,
    oidc: Option<Arc<Oidc>>,
    /// `None`: the database was not there, and is claimed when it is.
    claim: Option<Claim>,
}

/// Runs the daemon until `shutdown`.
///
/// # Errors
/// A [`ServeError`]. A database that is away is none, which is tried until it is there.
pub async fn serve(config: ServeConfig, shutdown: CancellationToken) -> Result<(), ServeError> {
    Server::bind(config).await?.run(shutdown).await
}

impl Server {
    /// Takes the address of `config` (port 0: any that is free), and reads its certificate.
    ///
    /// # Errors
    /// [`ServeError::Tls`], [`ServeError::Listen`], [`ServeError::InUse`], [`ServeError::Unfit`],
    /// [`ServeError::NobodyMayEnter`].
    pub async fn bind(config: ServeConfig) -> Result<Self, ServeError> {
        let tls = config.tls.clone().map(Own::load).transpose()?;
        let oidc = oidc(&config)?;
        let listen_error = |error: std::io::Error| ServeError::Listen {
            address: config.listen,
            reason: error.to_string(),
            advice: match error.kind() {
                std::io::ErrorKind::AddrInUse => {
                    "Another program listens there, perhaps another ringscope: stop it, or give another with --listen"
                }
                std::io::ErrorKind::PermissionDenied => {
                    "Ports below 1024 need privileges: give another with --listen"
                }
                _ => "Give an address of this machine with --listen",
            },
        };
        let listener = TcpListener::bind(config.listen).await.map_err(listen_error)?;
        let local_addr = listener.local_addr().map_err(listen_error)?;
        if config.cluster_url.is_some() {
            return Ok(Self { config, listener, local_addr, tls, oidc, claim: None });
        }
        let claim = match Claim::take(&config.database_url).await {
            Ok(mut claim) => {
                claim.check_schema().await.map_err(ServeError::Unfit)?;
                Some(claim)
            }
            Err(error @ StoreError::InUse { .. }) => return Err(ServeError::InUse(error)),
            // It is tried again, and the log says why.
            Err(_) => None,
        };
        somebody_may_enter(&config).await?;
        Ok(Self { config, listener, local_addr, tls, oidc, claim })
    }

    /// The address that it has.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Where this host finds it.
    #[must_use]
    pub fn local_url(&self) -> String {
        local_url(self.local_addr, self.tls.is_some())
    }

    /// Serves until `shutdown`; then stops accepting, finishes what is in flight, and stores what is left, within
    /// [`GRACE`].
    ///
    /// # Errors
    /// A [`ServeError`].
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), ServeError> {
        raise_file_limit();
        // A limit of the size of files is then an error of the database, and does not end the daemon.
        let _ = tokio::signal::unix::signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
        tracing::info!("listening on {}://{}", scheme(self.tls.is_some()), self.local_addr);
        match self.config.cluster_url.clone() {
            None => self.run_alone(shutdown).await,
            Some(url) => in_turn::run(self, url, shutdown).await,
        }
    }

    async fn run_alone(self, shutdown: CancellationToken) -> Result<(), ServeError> {
        let local_url = self.local_url();
        let Self { config, listener, tls, oidc, claim, .. } = self;
        let own_token = own_token()?;
        let agent = agent_config(&config, &local_url, tls.as_ref(), &own_token.text);
        let of = Of {
            config: &config,
            url: &local_url,
            tls: tls.as_ref(),
            oidc: oidc.as_ref(),
            own_token: own_token.hash,
        };
        let core = Core::start(of, claim, None)?;
        if let Some(tls) = &tls {
            core.tasks.spawn(Arc::clone(tls).watch(core.stop.clone()));
        }
        // The agent of this host ends first, so that its last batch is still taken.
        core.tasks.spawn(local_agent(agent, shutdown, core.stop.clone()));
        let router = http::router(core.app.clone(), &addresses(&config));
        tokio::select! {
            () = http::serve(listener, tls, router, Limits::default(), core.stop.clone()) => {}
            () = after(core.stop.clone(), REQUESTS_GRACE) => {
                tracing::warn!("some requests did not end in time and are cut off");
            }
        }
        core.end().await;
        tracing::info!("stopped");
        Ok(())
    }
}

/// By which names the daemon is called, and whose pages may read.
fn addresses(config: &ServeConfig) -> Addresses<'_> {
    Addresses {
        cors_origins: &config.cors_origins,
        allowed_hosts: &config.allowed_hosts,
        public_url: config.notify.public_url.as_deref(),
    }
}

/// Each connection needs a file descriptor, and the soft limit is often 1024, for programs that use `select`.
fn raise_file_limit() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if let Err(error) = rustix::process::setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files stays at {:?}", limit.current);
    }
}

/// Refuses an address that others reach where nobody could be let in, or everybody would be. A database that does not
/// answer is no reason: nobody is let in until it does.
async fn somebody_may_enter(config: &ServeConfig) -> Result<(), ServeError> {
    let has_others = !config.access.proxies.trusted.is_empty() || config.access.oidc.is_some();
    let only_here = is_local(config.listen);
    if config.access.insecure_open && !only_here {
        tracing::warn!(
            "whoever reaches {} sees every job and sets levels, as --insecure-open says",
            config.listen
        );
    }
    if config.access.insecure_open || has_others || only_here {
        return Ok(());
    }
    let url = &config.database_url;
    let refused = |make: &str| {
        let (listen, database, make) = (config.listen, url.to_string(), make.to_owned());
        Err(ServeError::NobodyMayEnter { listen, database, make })
    };
    if matches!(url, DatabaseUrl::None | DatabaseUrl::SqliteMemory) {
        return refused(" Give it one that outlives the daemon (--database-url).");
    }
    let Ok(Some(store)) = Store::open(url).await else { return Ok(()) };
    let tokens = store.tokens().await;
    store.close().await;
    let now = clock::now();
    let holds =
        |row: &TokenRow| row.token.revoked_at.is_none() && row.token.expires_at.is_none_or(|at| at > now);
    if tokens.is_ok_and(|tokens| !tokens.iter().any(holds)) {
        let make = format!(
            " Make one, as the user that the daemon runs as: ringscope token create --database '{url}' --name first --role admin."
        );
        return refused(&make);
    }
    Ok(())
}

/// How people sign in at a provider, if they do.
fn oidc(config: &ServeConfig) -> Result<Option<Arc<Oidc>>, ServeError> {
    let Some(wanted) = config.access.oidc.clone() else { return Ok(None) };
    let page = config.notify.public_url.as_deref().unwrap_or_default();
    let callback = http::oidc_callback(page).map_err(|_| ServeError::PublicUrl(page.to_owned()))?;
    Ok(Some(Arc::new(Oidc::new(wanted, page.to_owned(), callback, &config.notify.trust)?)))
}

/// With which the agent inside this process comes to its own daemon.
fn own_token() -> Result<Secret, ServeError> {
    let mut random = [0; 40];
    getrandom::fill(&mut random).map_err(|error| ServeError::Random(error.to_string()))?;
    Ok(Secret::token(random))
}

/// The agent that runs inside this daemon, unless it is to have none.
fn agent_config(
    config: &ServeConfig,
    local_url: &str,
    tls: Option<&Arc<Own>>,
    token: &str,
) -> Option<AgentConfig> {
    let default = AgentConfig::new(local_url, config.data_dir.join("agent"));
    config.with_agent.then(|| AgentConfig {
        token: Some(TokenSource::Given(token.to_owned())),
        dir: config.agent_dir.clone(),
        sysfs: config.agent_sysfs.clone(),
        hardware_interval: config.agent_hardware_interval,
        pretended_hosts: config.pretended_hosts.clone(),
        other_hosts: config.agent_other_hosts || !config.pretended_hosts.is_empty(),
        look: default.look.clone().filter(|_| config.agent_look),
        kernel_log: default.kernel_log.clone().filter(|_| config.agent_kernel_log),
        daemon_here: tls.cloned(),
        ..default
    })
}

fn local_url(local_addr: SocketAddr, is_tls: bool) -> String {
    format!("{}://{}", scheme(is_tls), reachable(local_addr))
}

const fn scheme(is_tls: bool) -> &'static str {
    if is_tls { "https" } else { "http" }
}

/// An address of this host that leads to what listens on `address`.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() {
            Ipv4Addr::LOCALHOST.into()
        } else {
            Ipv6Addr::LOCALHOST.into()
        });
    }
    address
}

/// Runs the agent until `shutdown` and then lets the rest of the daemon stop. A daemon whose agent cannot work still
/// serves the others, and tries again.
async fn local_agent(config: Option<AgentConfig>, shutdown: CancellationToken, stop: CancellationToken) {
    if let Some(config) = config {
        let mut said = String::new();
        while let Err(error) = agent::run(config.clone(), shutdown.clone()).await {
            let words = error.to_string();
            if words != said {
                tracing::error!("the agent of this host does not run: {words}");
                said = words;
            }
            if shutdown.run_until_cancelled(tokio::time::sleep(AGENT_RETRY)).await.is_none() {
                break;
            }
        }
    }
    shutdown.cancelled().await;
    stop.cancel();
}

async fn after(token: CancellationToken, wait: Duration) {
    token.cancelled().await;
    tokio::time::sleep(wait).await;
}

/// How soon a daemon that stands by asks again for a database that was away.
const AGAIN: Duration = Duration::from_secs(1);
/// How soon an agent that cannot work tries again: somebody makes its folder writable and looks at the page.
const AGENT_RETRY: Duration = Duration::from_secs(2);
/// Time from the signal to the end, of which the agent takes at most 2 s. Orchestrators kill after 10 s or more.
pub const GRACE: Duration = Duration::from_secs(5);
/// Of that, for the requests in flight.
const REQUESTS_GRACE: Duration = Duration::from_millis(1000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_files_as_may_be() {
        raise_file_limit();
        let limit = rustix::process::getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
