//! At which OpenID provider people sign in, as the settings of `ringscope serve` say it.

use openidconnect::IssuerUrl;
use ringscope_access::{Groups, group_role, group_tenant};
use ringscope_server::notify::public_url;
use ringscope_server::oidc::OidcConfig;

use super::groups::pairs;
use super::{Settings, file};

/// Default of the scopes besides `openid`: what people are called. Groups often need one more, which other providers refuse.
const SCOPES: [&str; 2] = ["profile", "email"];
/// Where most providers name groups.
const GROUPS_CLAIM: &str = "groups";

/// Options of `ringscope serve` that say at which OpenID provider people sign in.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct OidcArgs {
    /// OpenID provider at which people sign in, as it names itself, e.g. https://login.example.org/realms/main; needs
    /// --public-url [default: none]
    #[arg(long = "oidc-issuer", value_name = "URL")]
    pub issuer: Option<String>,
    /// Name that the provider has given to this daemon (client)
    #[arg(long = "oidc-client-id", value_name = "ID")]
    pub client_id: Option<String>,
    /// File with the secret of that client; read at each sign-in [default: none, a public client]
    #[arg(long = "oidc-client-secret-file", value_name = "FILE")]
    pub client_secret_file: Option<String>,
    /// What the provider is asked for besides openid; may be repeated [default: profile email]
    #[arg(long = "oidc-scopes", value_name = "SCOPE")]
    pub scopes: Vec<String>,
    /// Claim in which the provider names a person's groups, in the ID token or in userinfo [default: groups]
    #[arg(long = "oidc-groups-claim", value_name = "NAME")]
    pub groups_claim: Option<String>,
    /// Role of who is in a group there: read, operate or admin, the greatest holds; * is everybody; may be repeated
    #[arg(long = "oidc-role", value_name = "GROUP=ROLE")]
    pub role: Vec<String>,
    /// Tenant of who is in a group there; the tenant * is all; who is in none of these groups is then not let in; may be
    /// repeated [default: everybody sees all]
    #[arg(long = "oidc-tenant", value_name = "GROUP=TENANT")]
    pub tenant: Vec<String>,
}

impl OidcArgs {
    pub(super) fn named(&self) -> impl Iterator<Item = (&'static str, &Option<String>)> {
        NAMES.into_iter().zip([&self.issuer, &self.client_id, &self.client_secret_file, &self.groups_claim])
    }

    pub(super) fn lists(&self) -> impl Iterator<Item = (&'static str, &Vec<String>)> {
        LISTS.into_iter().zip([&self.scopes, &self.role, &self.tenant])
    }
}

/// The provider. `None`: people sign in with tokens alone.
pub(super) fn oidc(settings: &mut Settings<'_>) -> Option<OidcConfig> {
    let n_mistakes = settings.mistakes.len();
    let issuer = settings.get("oidc_issuer", issuer);
    let client_id = settings.get("oidc_client_id", word);
    let client_secret_file = settings.get("oidc_client_secret_file", file);
    let scopes = settings.get("oidc_scopes", words);
    let groups_claim = settings.get("oidc_groups_claim", word);
    let roles = settings.get("oidc_role", |text| pairs(text, group_role));
    let tenants = settings.get("oidc_tenant", |text| pairs(text, group_tenant));
    let groups = Groups { roles: roles.unwrap_or_default(), tenants: tenants.unwrap_or_default() };
    if settings.mistakes.len() > n_mistakes {
        return None;
    }
    let page = settings.get("public_url", public_url);
    // If it is wrong, that is told where messages get it.
    let is_wrong_page = settings.mistakes.len() > n_mistakes;
    settings.mistakes.truncate(n_mistakes);
    let is_told = client_id.is_some()
        || client_secret_file.is_some()
        || scopes.is_some()
        || groups_claim.is_some()
        || groups != Groups::default();
    let mistakes = [
        (issuer.is_none() && is_told, "oidc_.. without oidc_issuer: name the OpenID provider"),
        (
            issuer.is_some() && client_id.is_none(),
            "oidc_issuer without oidc_client_id: the name that the provider has given to this daemon",
        ),
        (
            issuer.is_some() && groups.roles.is_empty(),
            "oidc_issuer without oidc_role: nobody who signs in could do anything; e.g. --oidc-role sre=operate",
        ),
        (
            issuer.is_some() && page.is_none() && !is_wrong_page,
            "oidc_issuer without public_url: the provider sends browsers back to that address; e.g. --public-url https://ringscope.example.org",
        ),
    ];
    for (is_made, words) in mistakes {
        if is_made {
            settings.mistakes.push(words.to_owned());
        }
    }
    Some(OidcConfig {
        issuer: issuer?,
        client_id: client_id?,
        client_secret_file,
        scopes: scopes.unwrap_or_else(|| SCOPES.map(str::to_owned).to_vec()),
        groups_claim: groups_claim.unwrap_or_else(|| GROUPS_CLAIM.to_owned()),
        groups,
    })
}

/// https, for what comes from there says who may do what; http only of this machine.
fn issuer(text: &str) -> Result<IssuerUrl, String> {
    let expected = "expected the issuer as the provider itself writes it, with https://, e.g. https://login.example.org/realms/main";
    let issuer = IssuerUrl::new(text.to_owned()).map_err(|_| expected.to_owned())?;
    let url = issuer.url();
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_local = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    match url.scheme() {
        _ if host.is_empty() || url.query().is_some() || url.fragment().is_some() => Err(expected.to_owned()),
        "https" => Ok(issuer),
        "http" if is_local => Ok(issuer),
        _ => Err(expected.to_owned()),
    }
}

fn word(text: &str) -> Result<String, String> {
    if text.is_empty() || text.chars().any(char::is_whitespace) {
        return Err("expected one word".to_owned());
    }
    Ok(text.to_owned())
}

#[expect(clippy::unnecessary_wraps, reason = "settings are parsed by functions that may fail")]
fn words(text: &str) -> Result<Vec<String>, String> {
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// Settings with one value.
pub(super) const NAMES: [&str; 4] =
    ["oidc_issuer", "oidc_client_id", "oidc_client_secret_file", "oidc_groups_claim"];
/// Settings that may have several.
pub(super) const LISTS: [&str; 3] = ["oidc_scopes", "oidc_role", "oidc_tenant"];

#[cfg(test)]
mod tests {
    use super::super::{ServeArgs, ServeConfig};
    use super::*;

    fn load(change: impl Fn(&mut ServeArgs)) -> Result<Option<OidcConfig>, Vec<String>> {
        let mut args = ServeArgs {
            oidc: OidcArgs {
                issuer: Some("https://login.example.org/main".to_owned()),
                client_id: Some("ringscope".to_owned()),
                role: vec!["*=read".to_owned(), "sre=operate".to_owned()],
                ..OidcArgs::default()
            },
            public_url: Some("https://ring.example.org/".to_owned()),
            ..ServeArgs::default()
        };
        change(&mut args);
        let config = ServeConfig::load(&args, &|_| None);
        config.map(|config| config.access.oidc).map_err(|error| error.mistakes)
    }

    #[test]
    fn a_provider_needs_little() {
        let config = load(|_| {}).unwrap().unwrap();
        assert_eq!(
            (config.groups_claim.as_str(), config.scopes.join(" ").as_str()),
            ("groups", "profile email")
        );
        assert_eq!((config.issuer_host().as_str(), config.groups.roles.len()), ("login.example.org", 2));
        let role = "Site Reliability=operate".to_owned();
        let spaced = load(|args| args.oidc.role.push(role.clone())).unwrap().unwrap();
        assert_eq!(spaced.groups.roles[2].0, "Site Reliability");
        let none = load(|args| *args = ServeArgs::default()).unwrap();
        assert_eq!(none, None);
        let local =
            load(|args| args.oidc.issuer = Some("http://127.0.0.1:8080".to_owned())).unwrap().unwrap();
        assert_eq!(local.issuer_host(), "127.0.0.1:8080");
    }

    #[test]
    fn mistakes_are_named() {
        let mistake = |change: fn(&mut ServeArgs), part: &str| {
            let mistakes = load(change).unwrap_err();
            assert!(mistakes.len() == 1 && mistakes[0].contains(part), "{part} in {mistakes:?}");
        };
        mistake(|args| args.oidc.issuer = None, "without oidc_issuer");
        mistake(|args| args.oidc.issuer = Some("http://login.example.org".to_owned()), "https://");
        mistake(|args| args.oidc.issuer = Some("login.example.org".to_owned()), "https://");
        mistake(|args| args.oidc.client_id = None, "without oidc_client_id");
        mistake(|args| args.oidc.role.clear(), "--oidc-role sre=operate");
        mistake(|args| args.oidc.role = vec!["sre".to_owned()], "GROUP=ROLE");
        mistake(|args| args.oidc.tenant = vec!["x=A_b".to_owned()], "names no tenant");
        mistake(|args| args.public_url = None, "without public_url");
    }
}
