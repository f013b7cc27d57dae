//! Who may do what, as the settings of `ringscope serve` say it.

use std::net::SocketAddr;
use std::str::FromStr;

use ringscope_access::{Doors, Proxies};
use ringscope_server::oidc::OidcConfig;

use super::groups::pairs;
use super::{Settings, boolean, oidc};

/// Options of `ringscope serve` that say who may do what.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct AccessArgs {
    /// Whether tokens are needed on a loopback address too before there are any; on others they always are [default: false]
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true")]
    pub require_tokens: Option<String>,
    /// Let whoever reaches the address see everything and set levels, without tokens: only where all who do may [default: false]
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true")]
    pub insecure_open: Option<String>,
    /// Address or network of a proxy that signs people in and is believed who they are; may be repeated [default: none]
    #[arg(long, value_name = "CIDR")]
    pub trusted_proxy: Vec<String>,
    /// Header in which that proxy names the person [default: X-Forwarded-User]
    #[arg(long, value_name = "NAME")]
    pub proxy_user_header: Option<String>,
    /// Header in which it names their groups, commas between [default: none]
    #[arg(long, value_name = "NAME")]
    pub proxy_groups_header: Option<String>,
    /// Role of who is in a group, the greatest holds; * is everybody, e.g. '*=read'; may be repeated
    #[arg(long, value_name = "GROUP=ROLE")]
    pub proxy_role: Vec<String>,
    /// What one tenant may have of the jobs, hosts, processes and communicators that the daemon has room for, in percent; a token
    /// has half of its tenant's [default: an equal part for each tenant, and one for what is of none]
    #[arg(long, value_name = "PERCENT")]
    pub tenant_share: Option<String>,
}

impl AccessArgs {
    pub(super) fn named(&self) -> impl Iterator<Item = (&'static str, &Option<String>)> {
        NAMES.into_iter().zip([
            &self.require_tokens,
            &self.insecure_open,
            &self.proxy_user_header,
            &self.proxy_groups_header,
            &self.tenant_share,
        ])
    }

    pub(super) fn lists(&self) -> impl Iterator<Item = (&'static str, &Vec<String>)> {
        LISTS.into_iter().zip([&self.trusted_proxy, &self.proxy_role])
    }
}

/// What is needed of who asks.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AccessConfig {
    /// Whether tokens are needed on an address of this machine alone before there are any. Default no: who starts the
    /// daemon to look at a job of their own needs no login.
    pub require_tokens: bool,
    /// Whether nothing is needed on any address. Default no.
    pub insecure_open: bool,
    /// Proxies that say who somebody is. Default none.
    pub proxies: Proxies,
    /// OpenID provider at which people sign in. Default none.
    pub oidc: Option<OidcConfig>,
    /// What one tenant may have of what there is room for, in percent. Default an equal part: whoever comes next finds room.
    pub tenant_share: Option<u8>,
}

impl AccessConfig {
    /// When something is needed of who reaches this address.
    #[must_use]
    pub fn doors(&self, listen: SocketAddr) -> Doors {
        let only_here = is_local(listen);
        // Behind a proxy everybody comes from this machine.
        let is_asked_for = self.require_tokens || !self.proxies.trusted.is_empty() || self.oidc.is_some();
        match () {
            () if self.insecure_open => Doors::Open,
            () if only_here && !is_asked_for => Doors::UntilToken,
            () => Doors::Closed,
        }
    }
}

/// Whether only this machine reaches the address.
#[must_use]
pub fn is_local(listen: SocketAddr) -> bool {
    listen.ip().to_canonical().is_loopback()
}

/// What is needed of who asks.
pub(super) fn access(settings: &mut Settings<'_>) -> AccessConfig {
    let default = AccessConfig::default();
    let access = AccessConfig {
        require_tokens: settings.get("require_tokens", boolean).unwrap_or(default.require_tokens),
        insecure_open: settings.get("insecure_open", boolean).unwrap_or(default.insecure_open),
        proxies: Proxies {
            trusted: settings.get("trusted_proxy", words).unwrap_or_default(),
            user_header: settings
                .get("proxy_user_header", header)
                .unwrap_or_else(|| "x-forwarded-user".to_owned()),
            groups_header: settings.get("proxy_groups_header", header).unwrap_or_default(),
            roles: settings.get("proxy_role", |text| pairs(text, str::parse)).unwrap_or_default(),
        },
        oidc: oidc::oidc(settings),
        tenant_share: settings.get("tenant_share", percent),
    };
    let Proxies { trusted, groups_header, roles, .. } = &access.proxies;
    let mistakes = [
        (
            access.insecure_open && access.require_tokens,
            "insecure_open and require_tokens contradict each other",
        ),
        (
            !trusted.is_empty() && roles.is_empty(),
            "trusted_proxy without proxy_role: nobody whom the proxy names could do anything; e.g. --proxy-role '*=read'",
        ),
        (
            trusted.is_empty() && !roles.is_empty(),
            "proxy_role without trusted_proxy: name the proxy that is believed",
        ),
        (
            trusted.is_empty() && !groups_header.is_empty(),
            "proxy_groups_header without trusted_proxy: name the proxy",
        ),
    ];
    for (is_made, words) in mistakes {
        if is_made {
            settings.mistakes.push(words.to_owned());
        }
    }
    access
}

fn words<T: FromStr<Err = String>>(text: &str) -> Result<Vec<T>, String> {
    text.split_whitespace().map(str::parse).collect()
}

fn percent(text: &str) -> Result<u8, String> {
    let percent = text.trim_end_matches('%').parse().ok().filter(|percent| (1..=100).contains(percent));
    percent.ok_or_else(|| "expected a whole number of percent from 1 to 100, e.g. 50".to_owned())
}

/// The name of a header, lower case.
fn header(text: &str) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if text.is_empty() || !text.chars().all(is_name) {
        return Err("expected the name of a header, e.g. X-Forwarded-User".to_owned());
    }
    Ok(text.to_lowercase())
}

/// Settings with one value.
pub(super) const NAMES: [&str; 5] =
    ["require_tokens", "insecure_open", "proxy_user_header", "proxy_groups_header", "tenant_share"];
/// Settings that may have several.
pub(super) const LISTS: [&str; 2] = ["trusted_proxy", "proxy_role"];
