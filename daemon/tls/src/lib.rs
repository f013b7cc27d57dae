//! TLS for everything that speaks HTTP: the daemon's listener, and all that asks a daemon, an Alertmanager or a webhook.
//!
//! TLS 1.2 and 1.3 by rustls and ring. Certificates are always verified: nothing here switches that off.
//!
//! * `own`: the daemon's certificate and key, read again when the files change. `accept`: handshakes, bounded.
//! * `trust`: whom a client trusts and as whom it shows itself. `http`: a client of these files, which may change too.
//! * `credential`: the token that a client shows.
//! * `itself`, `or_itself`: how the agent inside the daemon knows that daemon, and the other way round.
//! * `files`: PEM files. `words`: what went wrong, and what to do. `error`: files that cannot be used.

mod accept;
pub mod credential;
mod error;
mod files;
mod http;
mod itself;
mod or_itself;
mod own;
mod trust;
mod words;

pub use accept::{Handshake, Handshakes};
pub use error::TlsError;
pub use http::{Http, client};
pub use own::{Own, OwnState, ServerFiles};
pub use trust::Trust;
pub use words::{HTTPS_PORT, innermost, is_https_port, reason};
