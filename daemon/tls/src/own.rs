//! The daemon's own certificate and key. They are read again when the files change and when SIGHUP asks for it; what
//! cannot be used never takes the place of what can.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use ringscope_api::clock::{self, Timestamp};
use rustls::ServerConfig;
use rustls::client::verify_server_name;
use rustls::pki_types::ServerName;
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use tokio::net::TcpStream;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::MissedTickBehavior;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::files::{self, Facts, Stamps, provider};
use super::or_itself::OrItself;
use super::{Handshakes, TlsError};

/// What the daemon is told of its side of TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFiles {
    /// Its certificate first, then those between it and the CA.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// CAs of which clients must have a certificate. `None`: clients need none.
    pub client_ca: Option<PathBuf>,
}

/// The daemon's certificate and all that goes with it.
#[derive(Debug)]
pub struct Own {
    files: ServerFiles,
    /// The files as they were when they were read first.
    first: Stamps,
    loaded: RwLock<Loaded>,
    /// Why the files as they are now are not used.
    problem: Mutex<Option<TlsError>>,
    handshakes: Handshakes,
}

/// How the certificate stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnState {
    /// When it ends.
    pub ends_at: Timestamp,
    /// Why the files as they are now are not used.
    pub problem: Option<TlsError>,
}

#[derive(Clone, Debug)]
struct Loaded {
    config: Arc<ServerConfig>,
    key: Arc<CertifiedKey>,
    facts: Facts,
}

impl ServerFiles {
    fn paths(&self) -> impl Iterator<Item = &Path> {
        [&self.cert, &self.key].into_iter().chain(&self.client_ca).map(PathBuf::as_path)
    }
}

impl Own {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`] of the first that cannot be used.
    pub fn load(files: ServerFiles) -> Result<Arc<Self>, TlsError> {
        let first = files::stamps(files.paths());
        let loaded = Loaded::read(&files)?;
        let own = Self {
            first,
            files,
            loaded: RwLock::new(loaded),
            problem: Mutex::new(None),
            handshakes: Handshakes::default(),
        };
        let Loaded { facts, .. } = own.loaded();
        tracing::info!(names = facts.names.join(", "), ends = %facts.ends_at, "TLS with this certificate");
        own.warn_of_end(clock::now());
        Ok(Arc::new(own))
    }

    /// How it stands.
    #[must_use]
    pub fn state(&self) -> OwnState {
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone();
        OwnState { ends_at: self.loaded().facts.ends_at, problem }
    }

    /// The handshakes with it.
    #[must_use]
    pub const fn handshakes(&self) -> &Handshakes {
        &self.handshakes
    }

    /// Reads the files again. What was there stays where they cannot be used.
    ///
    /// # Errors
    /// [`TlsError`]; [`Own::state`] shows it until they can be used.
    pub fn reload(&self) -> Result<(), TlsError> {
        let read = Loaded::read(&self.files).and_then(|loaded| {
            if loaded.facts.ends_at <= clock::now() {
                let ended = super::words::date(loaded.facts.ends_at);
                return Err(TlsError::Ended { path: self.files.cert.clone(), ended });
            }
            Ok(loaded)
        });
        let mut problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        *problem = read.as_ref().err().cloned();
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = read?;
        Ok(())
    }

    /// Reads the files again whenever they have changed, or at SIGHUP, until `stop`; and warns before the end. From now on
    /// SIGHUP ends the process no more.
    pub fn watch(self: Arc<Self>, stop: CancellationToken) -> impl Future<Output = ()> + Send {
        // Without the signal the files alone tell.
        let hangup = signal(SignalKind::hangup()).ok();
        self.looking(hangup, stop)
    }

    async fn looking(self: Arc<Self>, mut hangup: Option<Signal>, stop: CancellationToken) {
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen = Seen { stamps: self.first.clone(), ..Seen::default() };
        let mut warned_at = clock::monotonic();
        loop {
            let asked = tokio::select! {
                () = stop.cancelled() => return,
                _ = looks.tick() => false,
                Some(()) = received(&mut hangup) => true,
            };
            let own = Arc::clone(&self);
            // The files may lie on a server that is gone.
            let looked = tokio::task::spawn_blocking(move || {
                own.look(&mut seen, asked);
                seen
            });
            let Some(Ok(looked)) = stop.run_until_cancelled(looked).await else { return };
            seen = looked;
            if warned_at.elapsed() >= WARN_EVERY {
                warned_at = clock::monotonic();
                self.warn_of_end(clock::now());
            }
        }
    }

    fn look(&self, seen: &mut Seen, asked: bool) {
        let stamps = self.files_now();
        let changed = stamps != seen.stamps;
        if !changed && !asked && !seen.failed {
            return;
        }
        // Certificate and key are two files, and one of them comes first: what fails is said when it has not
        // changed for one look, and tried again until it goes.
        let said = seen.said.take();
        *seen = Seen { failed: false, said: None, stamps };
        match self.reload() {
            Ok(()) => {
                let Loaded { facts, .. } = self.loaded();
                tracing::info!(names = facts.names.join(", "), ends = %facts.ends_at, "TLS goes on with the certificate as it is now");
                self.warn_of_end(clock::now());
            }
            Err(error) => {
                seen.failed = true;
                if changed && !asked {
                    return;
                }
                if said.as_ref() != Some(&error) || asked {
                    tracing::error!("TLS goes on with the certificate of before: {error}");
                }
                seen.said = Some(error);
            }
        }
    }

    fn warn_of_end(&self, now: Timestamp) {
        if let Some(words) = self.state().end_in_words(now) {
            tracing::warn!("{words}");
        }
    }

    /// Makes a connection one of TLS, within `time`. `None`: it is none, and is closed.
    pub async fn accept(&self, stream: TcpStream, time: Duration) -> Option<TlsStream<TcpStream>> {
        self.handshakes.accept(self.loaded().config, stream, time).await
    }

    /// Whether the certificate is one for this name or address.
    pub fn is_for(&self, host: &str) -> bool {
        let key = self.key();
        let Some(Ok(certificate)) = key.cert.first().map(ParsedCertificate::try_from) else { return false };
        ServerName::try_from(host).is_ok_and(|host| verify_server_name(&certificate, &host).is_ok())
    }

    pub(super) fn key(&self) -> Arc<CertifiedKey> {
        self.loaded().key
    }

    fn loaded(&self) -> Loaded {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn files_now(&self) -> Stamps {
        files::stamps(self.files.paths())
    }
}

impl OwnState {
    /// What somebody should know of it, if anything; `with_paths`: who runs the daemon, else a tenant, whose business no file
    /// of the daemon's machine is.
    #[must_use]
    pub fn notices(&self, now: Timestamp, with_paths: bool) -> Vec<String> {
        let problem = self.problem.as_ref();
        let words =
            |problem: &TlsError| if with_paths { problem.to_string() } else { problem.without_paths() };
        let problem = problem.map(words);
        let problem = problem
            .map(|problem| format!("The new TLS certificate is not used, the one of before is: {problem}"));
        problem.into_iter().chain(self.end_in_words(now)).collect()
    }

    fn end_in_words(&self, now: Timestamp) -> Option<String> {
        let end = super::words::date(self.ends_at);
        if self.ends_at <= now {
            return Some(format!(
                "The daemon's TLS certificate ended on {end}: agents and browsers refuse it. Put a new one in its place"
            ));
        }
        let left = self.ends_at.since(now);
        let days = left.as_secs() / 86_400;
        (left < WARN_BEFORE).then(|| {
            format!(
                "The daemon's TLS certificate ends on {end}, in {}: put a new one in its place before",
                ringscope_api::words::plural(usize::try_from(days).unwrap_or(usize::MAX), "day")
            )
        })
    }
}

impl Loaded {
    fn read(files: &ServerFiles) -> Result<Self, TlsError> {
        let chain = files::certificates(&files.cert)?;
        let facts = files::facts(&files.cert, &chain[0])?;
        let key = key_of(&files.cert, &files.key, chain)?;
        let setup = |error: rustls::Error| TlsError::Setup(error.to_string());
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(setup)?;
        let resolver = Arc::new(rustls::sign::SingleCertAndKey::from(Arc::clone(&key)));
        let mut config = match &files.client_ca {
            None => builder.with_no_client_auth().with_cert_resolver(resolver),
            Some(client_ca) => {
                let mut roots = rustls::RootCertStore::empty();
                files::add_authorities(&mut roots, client_ca)?;
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
                    .build()
                    .map_err(|error| TlsError::Setup(error.to_string()))?;
                let verifier = OrItself::new(verifier, &key);
                builder.with_client_cert_verifier(Arc::new(verifier)).with_cert_resolver(resolver)
            }
        };
        if files.client_ca.is_some() {
            // A session that goes on would be trusted by what was trusted when it began.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), key, facts })
    }
}

/// A certificate with its key.
pub(super) fn key_of(
    cert: &Path,
    key: &Path,
    chain: Vec<rustls::pki_types::CertificateDer<'static>>,
) -> Result<Arc<CertifiedKey>, TlsError> {
    let der = files::key(key)?;
    match CertifiedKey::from_der(chain, der, &provider()) {
        Ok(pair) => Ok(Arc::new(pair)),
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err(TlsError::Mismatch { cert: cert.to_owned(), key: key.to_owned() })
        }
        Err(error) => Err(TlsError::File {
            path: key.to_owned(),
            reason: error.to_string(),
            advice: "Expected a key of RSA, ECDSA or Ed25519",
        }),
    }
}

/// What was looked at last.
#[derive(Debug, Default)]
struct Seen {
    stamps: Stamps,
    failed: bool,
    said: Option<TlsError>,
}

async fn received(hangup: &mut Option<Signal>) -> Option<()> {
    match hangup {
        Some(hangup) => hangup.recv().await,
        None => std::future::pending().await,
    }
}

/// How often the files are looked at: as soon as anybody waits for it.
const LOOK: Duration = Duration::from_secs(1);
/// Before the end somebody must still find the time.
const WARN_BEFORE: Duration = Duration::from_secs(14 * 86_400);
/// Who reads the log reads today's.
const WARN_EVERY: Duration = Duration::from_secs(86_400);
