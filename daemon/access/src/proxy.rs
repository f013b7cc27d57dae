//! Proxies that have signed people in and say who they are in headers. Only those that are listed are believed.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use ringscope_api::{KnownBy, Role, TOKEN_NAME_CHARS_MAX};

use super::groups::one_tenant;
use super::{Tenant, Who};

/// An address, or a network, of a proxy that is believed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Trusted(IpNet);

impl FromStr for Trusted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let net = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        let net =
            net.map_err(|_| format!("{text:?} is no network: expected e.g. 10.0.0.7 or 10.0.0.0/24"))?;
        if net.prefix_len() == 0 {
            return Err(format!(
                "{text} is everybody: whoever reaches the daemon could then say to be anybody"
            ));
        }
        Ok(Self(net))
    }
}

/// The role of who is in a group; of the group `*` everybody is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RoleOfGroup {
    group: String,
    role: Role,
    tenant: Option<Tenant>,
}

impl FromStr for RoleOfGroup {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (group, role) = text
            .rsplit_once('=')
            .ok_or_else(|| format!("{text:?}: expected GROUP=ROLE, e.g. sre=operate"))?;
        if group.is_empty() {
            return Err(format!("{text:?} names no group; everybody is *=ROLE"));
        }
        let (role, tenant) = match role.split_once('@') {
            Some((role, tenant)) => (role, Some(tenant.parse()?)),
            None => (role, None),
        };
        let role = role.parse().map_err(|error: ringscope_api::UnknownRole| error.to_string())?;
        if role == Role::Admin && tenant.is_some() {
            return Err(format!("{text:?}: an admin is of no tenant"));
        }
        Ok(Self { group: group.to_owned(), role, tenant })
    }
}

/// Somebody whom a proxy has named may do nothing.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "signed in as {name} by the proxy, but {why}: ask whoever runs the daemon (its --proxy-role), or whoever puts people into \
     groups"
)]
pub struct NoRole {
    name: String,
    why: String,
}

/// The first of them, in words. None has a control character: what a proxy tells may be of anybody.
fn some<'n>(names: impl Iterator<Item = &'n str> + Clone) -> String {
    let shown = names.clone().take(NAMES_MAX).map(|name| name.chars().filter(|c| !c.is_control()).collect());
    let rest = names.count().saturating_sub(NAMES_MAX);
    let shown = shown.collect::<Vec<String>>().join(", ");
    if rest == 0 { shown } else { format!("{shown} and {rest} more") }
}

/// Groups that are repeated to who is in them: a directory may have hundreds.
const NAMES_MAX: usize = 10;

/// Who is believed, and what they say.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Proxies {
    /// Whose word counts. None: nobody's.
    pub trusted: Vec<Trusted>,
    /// Header with the name of the person, lower case.
    pub user_header: String,
    /// Header with the person's groups, commas between; empty: none.
    pub groups_header: String,
    /// What groups may do.
    pub roles: Vec<RoleOfGroup>,
}

impl Proxies {
    /// Whether the word of this address counts.
    #[must_use]
    pub fn trusts(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.trusted.iter().any(|trusted| trusted.0.contains(&peer))
    }

    /// Who asks, in the words of a proxy; `header` gives a header that came exactly once. `None`: it names nobody.
    ///
    /// # Errors
    /// It names somebody who may do nothing.
    pub fn who<'a>(
        &self,
        peer: IpAddr,
        header: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Option<Who>, NoRole> {
        let Some(name) = header(&self.user_header).map(str::trim).filter(|_| self.trusts(peer)) else {
            return Ok(None);
        };
        if name.is_empty()
            || name.chars().count() > TOKEN_NAME_CHARS_MAX
            || name.chars().any(char::is_control)
        {
            return Ok(None);
        }
        let groups = if self.groups_header.is_empty() { None } else { header(&self.groups_header) };
        let groups: Vec<&str> =
            groups.unwrap_or_default().split(',').map(str::trim).filter(|group| !group.is_empty()).collect();
        let no_role = |tenants: &[String]| {
            NoRole {
            name: name.to_owned(),
            why: match (tenants, &groups[..]) {
                ([], []) if self.groups_header.is_empty() => {
                    "nobody has a role here by the groups alone that the proxy tells of, and it is asked for none \
                     (--proxy-groups-header)"
                        .to_owned()
                }
                ([], []) => format!("it names no group of yours (header {})", self.groups_header),
                ([], groups) => format!("none of the groups {} gives a role", some(groups.iter().copied())),
                (tenants, _) => {
                    let tenants = some(tenants.iter().map(String::as_str));
                    format!("your groups are of the tenants {tenants}, and one person sees one tenant")
                }
            },
        }
        };
        let holds = |rule: &&RoleOfGroup| rule.group == "*" || groups.contains(&rule.group.as_str());
        let rank = |rule: &&RoleOfGroup| Role::ALL.iter().position(|known| *known == rule.role);
        let role = self.roles.iter().filter(holds).max_by_key(rank).ok_or_else(|| no_role(&[]))?.role;
        let rules = self.roles.iter().filter(holds).filter(|rule| rule.role == role);
        let tenant = one_tenant(rules.map(|rule| &rule.tenant)).map_err(|tenants| no_role(&tenants))?;
        Ok(Some(Who {
            name: name.to_owned(),
            id: name.to_owned(),
            token: None,
            role,
            tenant,
            known_by: KnownBy::Proxy,
            ends_at: None,
        }))
    }

    /// Where a request came from: the peer, or, of a proxy that is believed, the last address that it was told by somebody
    /// who is none.
    #[must_use]
    pub fn origin(&self, peer: IpAddr, forwarded_for: &[&str]) -> IpAddr {
        if !self.trusts(peer) {
            return peer.to_canonical();
        }
        let told = forwarded_for.iter().flat_map(|value| value.split(','));
        let told: Vec<Option<IpAddr>> = told.map(|text| text.trim().parse().ok()).collect();
        let mut origin = peer;
        for address in told.into_iter().rev() {
            // What is no address was said by nobody whom we know.
            let Some(address) = address else { break };
            origin = address;
            if !self.trusts(address) {
                break;
            }
        }
        origin.to_canonical()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies() -> Proxies {
        Proxies {
            trusted: vec!["10.0.0.0/24".parse().unwrap(), "::1".parse().unwrap()],
            user_header: "x-forwarded-user".to_owned(),
            groups_header: "x-forwarded-groups".to_owned(),
            roles: ["*=read", "sre=operate", "admins=admin"].map(|text| text.parse().unwrap()).to_vec(),
        }
    }

    fn ask(peer: &str, user: Option<&'static str>, groups: Option<&'static str>) -> Option<(String, Role)> {
        let header = |name: &str| if name == "x-forwarded-user" { user } else { groups };
        proxies().who(peer.parse().unwrap(), header).unwrap().map(|who| (who.name, who.role))
    }

    #[test]
    fn only_listed_proxies_say_who_somebody_is() {
        let ann = |role| Some(("ann".to_owned(), role));
        assert_eq!(ask("10.0.0.9", Some("ann"), None), ann(Role::Read));
        assert_eq!(ask("::ffff:10.0.0.9", Some("ann"), Some("dev, sre")), ann(Role::Operate));
        assert_eq!(ask("::1", Some(" ann "), Some("sre")), ann(Role::Operate));
        assert_eq!(ask("10.0.1.9", Some("ann"), Some("sre")), None, "not listed");
        assert_eq!(ask("10.0.0.9", None, Some("sre")), None, "nobody is named");
        for name in ["", "  ", "a\u{1b}b"] {
            assert_eq!(ask("10.0.0.9", Some(name), None), None, "{name:?}");
        }
        let both = Proxies {
            roles: ["acme=read@acme", "globex=read@globex"].map(|text| text.parse().unwrap()).to_vec(),
            ..proxies()
        };
        let of = |groups: &'static str| {
            let header = |name: &str| Some(if name == "x-forwarded-user" { "ann" } else { groups });
            let who = both.who("10.0.0.9".parse().unwrap(), header);
            who.map(|who| who.unwrap().tenant.unwrap().to_string()).map_err(|error| error.to_string())
        };
        assert_eq!(of("globex").as_deref(), Ok("globex"));
        assert!(of("acme, globex").unwrap_err().contains("of the tenants acme, globex, and one person sees"));
    }

    #[test]
    fn who_has_no_role_is_told_which_groups_do_not_count() {
        let refused = |roles: &[&str], groups_header: &str, groups: &'static str| {
            let proxies = Proxies {
                roles: roles.iter().map(|text| text.parse().unwrap()).collect(),
                groups_header: groups_header.to_owned(),
                ..proxies()
            };
            let header = |name: &str| Some(if name == "x-forwarded-user" { "ann" } else { groups });
            proxies.who("10.0.0.9".parse().unwrap(), header).unwrap_err().to_string()
        };
        assert_eq!(
            refused(&["sre=admin"], "x-forwarded-groups", "dev, ops"),
            "signed in as ann by the proxy, but none of the groups dev, ops gives a role: ask whoever runs the daemon (its \
             --proxy-role), or whoever puts people into groups"
        );
        assert!(refused(&["sre=admin"], "x-forwarded-groups", " ,").contains("names no group of yours"));
        assert!(refused(&["sre=admin"], "", "dev").contains("--proxy-groups-header"));
        let many = "a,b,c,d,e,f,g,h,i,j,k,l";
        assert!(refused(&["sre=admin"], "x-forwarded-groups", many).contains("i, j and 2 more gives"));
    }

    #[test]
    fn origins_are_told_by_proxies_alone() {
        let origin = |peer: &str, told: &[&str]| proxies().origin(peer.parse().unwrap(), told).to_string();
        assert_eq!(origin("192.0.2.1", &["1.2.3.4"]), "192.0.2.1");
        assert_eq!(
            origin("10.0.0.1", &["1.2.3.4, 192.0.2.7"]),
            "192.0.2.7",
            "the client may have sent the first"
        );
        assert_eq!(origin("10.0.0.1", &["6.6.6.6", "192.0.2.7, 10.0.0.2"]), "192.0.2.7");
        assert_eq!(origin("10.0.0.1", &["192.0.2.7, nonsense"]), "10.0.0.1");
        assert_eq!(origin("10.0.0.1", &[]), "10.0.0.1");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in
            [("all", "10.0.0.0/24"), ("0.0.0.0/0", "everybody"), ("10.0.0.0/33", "no network")]
        {
            assert!(text.parse::<Trusted>().unwrap_err().contains(part), "{text}");
        }
        for (text, part) in [("sre", "GROUP=ROLE"), ("=read", "names no group"), ("sre=root", "ingest, read")]
        {
            assert!(text.parse::<RoleOfGroup>().unwrap_err().contains(part), "{text}");
        }
    }
}
