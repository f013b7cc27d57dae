//! Browsers sign in at an OpenID provider: authorization code with PKCE, state and nonce.
//!
//! * `provider`: what the provider says of itself and its keys, asked for when it is needed and again when it signs with
//!   another key. `ask`: how it is asked: by TLS as all else, bounded.
//! * `pending`: sign-ins that were begun, each for one browser, one use and ten minutes.
//! * `flow`: the two steps. `claims`: what the provider says of a person. `error`: what went wrong, for who reads it.
//!
//! Takes nobody's word: an ID token counts if the provider has signed it, for this client, for this browser, and not long
//! ago. Knows no routes and begins no session; what groups may do is `access`'s.

mod ask;
mod claims;
mod error;
mod flow;
mod pending;
mod provider;

pub use error::OidcError;
pub use flow::{Answer, Begun, Oidc, Returned};

use std::path::PathBuf;

use openidconnect::IssuerUrl;
use ringscope_access::Groups;

/// How people sign in at a provider.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OidcConfig {
    /// The provider, as it names itself.
    pub issuer: IssuerUrl,
    /// The daemon's name there.
    pub client_id: String,
    /// File with the daemon's secret there. `None`: it is a public client, and PKCE alone ties the code to it.
    pub client_secret_file: Option<PathBuf>,
    /// What is asked for besides `openid`.
    pub scopes: Vec<String>,
    /// Where the provider names a person's groups.
    pub groups_claim: String,
    /// What groups may do.
    pub groups: Groups,
}

impl OidcConfig {
    /// The provider's host, as people know it.
    #[must_use]
    pub fn issuer_host(&self) -> String {
        let url = self.issuer.url();
        let host = url.host_str().unwrap_or_default();
        url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Whether it is asked by https, as all but a provider on this machine is.
    fn is_secure(&self) -> bool {
        self.issuer.url().scheme() == "https"
    }
}
