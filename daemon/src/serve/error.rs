//! Why the daemon does not run.

use std::net::SocketAddr;

use ringscope_store::StoreError;
use ringscope_tls::TlsError;

/// Why the daemon does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is taken, or not ours.
    #[error("cannot listen on {address}: {reason}. {advice}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's words.
        reason: String,
        /// What to do.
        advice: &'static str,
    },
    /// The database is another daemon's.
    #[error(transparent)]
    InUse(StoreError),
    /// A newer release has been at the database.
    #[error(transparent)]
    Unfit(StoreError),
    /// The database of several daemons cannot be used.
    #[error(transparent)]
    Shared(StoreError),
    /// Nobody else can have its database.
    #[error(
        "--cluster-url makes this daemon one of several that share a Postgres: give that with --database-url postgres://..."
    )]
    NotShared,
    /// A certificate or a key cannot be used.
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
    /// Everybody who reaches the address would be let in, or nobody.
    #[error(
        "{listen} can be reached from other machines, and nobody could show that they may use this daemon: the database \
         {database} has no token that holds.{make} Or have people sign in elsewhere: --oidc-issuer, --trusted-proxy. To let in whoever reaches that address, who then sees all jobs and may \
         set levels, say --insecure-open. On 127.0.0.1 nothing is needed"
    )]
    NobodyMayEnter {
        /// The address.
        listen: SocketAddr,
        /// Where tokens are kept.
        database: String,
        /// How to make the first one.
        make: String,
    },
    /// The OpenID provider could send nobody back.
    #[error("--public-url {0:?} is no address that an OpenID provider could send browsers back to")]
    PublicUrl(String),
    /// The system has none to give.
    #[error("the system gives no random bytes: {0}")]
    Random(String),
    /// The metrics are wrong in themselves.
    #[error("the metrics cannot be registered: {0}")]
    Metrics(#[from] prometheus::Error),
}
