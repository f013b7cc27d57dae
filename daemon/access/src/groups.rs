//! What people of an OpenID provider may do, by the groups that it says they are in.

use ringscope_api::Role;

use super::Tenant;

/// The group that everybody is in; and, of tenants, the one that stands for all of them.
const ALL: &str = "*";

/// What groups may do, and whose jobs they see.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Groups {
    /// Role of who is in a group; the greatest holds.
    pub roles: Vec<(String, Role)>,
    /// Tenant of who is in a group, `None`: all tenants. Empty: there are no tenants, and everybody sees all.
    pub tenants: Vec<(String, Option<Tenant>)>,
}

/// Why somebody whom the provider knows is not let in.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoAccess {
    /// No group of theirs may do anything.
    #[error(
        "{has}, and none gives you a role in this daemon. Those that do: {counting} (its --oidc-role). Ask whoever runs it, \
         or have your identity provider put you into one of these"
    )]
    NoRole {
        /// What the provider said.
        has: String,
        /// The groups that count.
        counting: String,
    },
    /// They are of no tenant.
    #[error(
        "{has}, and none is of a tenant of this daemon. Those that are: {counting} (its --oidc-tenant). Ask \
         whoever runs it, or have your identity provider put you into one of these"
    )]
    NoTenant {
        /// What the provider said.
        has: String,
        /// The groups that count.
        counting: String,
    },
    /// They are of several, and see one at most.
    #[error(
        "your groups are of the tenants {0}, and one person sees one tenant: have your identity provider leave you in one of \
         the groups, or ask whoever runs the daemon (--oidc-tenant)"
    )]
    SeveralTenants(String),
}

impl Groups {
    /// What who is in these groups may do.
    ///
    /// # Errors
    /// Why that is nothing.
    pub fn grant(&self, groups: &[String]) -> Result<(Role, Option<Tenant>), NoAccess> {
        let is_in = |group: &str| group == ALL || groups.iter().any(|one| one == group);
        let has = || match groups {
            [] => "your identity provider names no groups of yours".to_owned(),
            groups => format!("your groups are {}", list(groups.iter().map(String::as_str))),
        };
        let rank = |role: &Role| Role::ALL.iter().position(|known| known == role);
        let roles = self.roles.iter().filter(|(group, _)| is_in(group)).map(|(_, role)| *role);
        let Some(role) = roles.max_by_key(rank) else {
            let counting = list(self.roles.iter().map(|(group, _)| group.as_str()));
            return Err(NoAccess::NoRole { has: has(), counting });
        };
        // An admin makes tokens of any tenant.
        if role == Role::Admin || self.tenants.is_empty() {
            return Ok((role, None));
        }
        let tenants = self.tenants.iter().filter(|(group, _)| is_in(group)).map(|(_, tenant)| tenant);
        match one_tenant(tenants) {
            Ok(tenant) => Ok((role, tenant)),
            Err(names) if names.is_empty() => {
                let counting = list(self.tenants.iter().map(|(group, _)| group.as_str()));
                Err(NoAccess::NoTenant { has: has(), counting })
            }
            Err(names) => Err(NoAccess::SeveralTenants(list(names.iter().map(String::as_str)))),
        }
    }
}

/// The tenant of who is of these; `None`, which is all of them, holds before others.
///
/// # Errors
/// The names of several, for one person sees one; no name, if they are of none.
pub(super) fn one_tenant<'t>(
    tenants: impl Iterator<Item = &'t Option<Tenant>>,
) -> Result<Option<Tenant>, Vec<String>> {
    let mut tenants: Vec<_> = tenants.collect();
    tenants.sort();
    tenants.dedup();
    match tenants[..] {
        // `None` sorts first.
        [None, ..] => Ok(None),
        [Some(one)] => Ok(Some(one.clone())),
        _ => Err(tenants.into_iter().flatten().map(ToString::to_string).collect()),
    }
}

/// Reads `GROUP=ROLE`.
///
/// # Errors
/// What was expected.
pub fn group_role(text: &str) -> Result<(String, Role), String> {
    let (group, role) = pair(text, "GROUP=ROLE, e.g. sre=operate")?;
    match role.parse().map_err(|error: ringscope_api::UnknownRole| error.to_string())? {
        Role::Ingest => Err(format!("{text:?}: the role ingest is for agents, which come with a token")),
        role => Ok((group, role)),
    }
}

/// Reads `GROUP=TENANT`; the tenant `*` is all of them.
///
/// # Errors
/// What was expected.
pub fn group_tenant(text: &str) -> Result<(String, Option<Tenant>), String> {
    let (group, tenant) = pair(text, "GROUP=TENANT, e.g. acme-staff=acme")?;
    if tenant == ALL {
        return Ok((group, None));
    }
    Ok((group, Some(tenant.parse()?)))
}

fn pair<'t>(text: &'t str, example: &str) -> Result<(String, &'t str), String> {
    match text.rsplit_once('=') {
        Some((group, what)) if !group.is_empty() => Ok((group.to_owned(), what)),
        _ => Err(format!("{text:?}: expected {example}; the group * is everybody")),
    }
}

fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let mut names: Vec<String> = names.map(|name| name.chars().take(SHOWN_CHARS_MAX).collect()).collect();
    let n_more = names.len().saturating_sub(SHOWN_MAX);
    names.truncate(SHOWN_MAX);
    let more = if n_more > 0 { format!(" and {n_more} more") } else { String::new() };
    format!("{}{more}", names.join(", "))
}

/// Groups that a message names; a directory puts people into hundreds.
const SHOWN_MAX: usize = 20;
/// Of each; some are the paths of a directory.
const SHOWN_CHARS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn groups() -> Groups {
        Groups {
            roles: ["*=read", "sre=operate", "root=admin"].map(|text| group_role(text).unwrap()).to_vec(),
            tenants: ["acme-staff=acme", "globex-staff=globex", "sre=*"]
                .map(|text| group_tenant(text).unwrap())
                .to_vec(),
        }
    }

    #[test]
    fn the_greatest_role_and_the_one_tenant_hold() {
        let acme: Tenant = "acme".parse().unwrap();
        for (has, expected) in [
            (&["acme-staff"][..], Some((Role::Read, Some(acme.clone())))),
            (&["sre", "acme-staff"], Some((Role::Operate, None))),
            (&["root"], Some((Role::Admin, None))),
            (&["acme-staff", "globex-staff"], None),
            (&[], None),
            (&["*"], None),
        ] {
            let has: Vec<String> = has.iter().map(|group| (*group).to_owned()).collect();
            assert_eq!(groups().grant(&has).ok(), expected, "{has:?}");
        }
        let of_nobody = Groups { tenants: Vec::new(), ..groups() };
        assert_eq!(
            of_nobody.grant(&[]),
            Ok((Role::Read, None)),
            "where there are no tenants everybody sees all"
        );
    }

    #[test]
    fn who_is_not_let_in_reads_which_groups_count() {
        let of_some = Groups { roles: vec![group_role("sre=read").unwrap()], tenants: Vec::new() };
        let words = of_some.grant(&["dev".to_owned()]).unwrap_err().to_string();
        assert!(
            words.contains("your groups are dev") && words.contains("Those that do: sre (its"),
            "{words}"
        );
        let words = of_some.grant(&[]).unwrap_err().to_string();
        assert!(words.contains("names no groups of yours"), "{words}");
        let words = groups().grant(&["dev".to_owned()]).unwrap_err().to_string();
        assert!(words.contains("acme-staff, globex-staff, sre (its --oidc-tenant"), "{words}");
        let both = ["acme-staff", "globex-staff"].map(ToOwned::to_owned);
        let words = groups().grant(&both).unwrap_err().to_string();
        assert!(words.contains("the tenants acme, globex,"), "{words}");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("sre", "GROUP=ROLE"),
            ("=read", "GROUP=ROLE"),
            ("sre=root", "ingest, read"),
            ("x=ingest", "agents"),
        ] {
            assert!(group_role(text).unwrap_err().contains(part), "{text}");
        }
        for (text, part) in [("acme", "GROUP=TENANT"), ("x=A b", "names no tenant")] {
            assert!(group_tenant(text).unwrap_err().contains(part), "{text}");
        }
        assert_eq!(group_role("cn=sre,o=x=read").unwrap(), ("cn=sre,o=x".to_owned(), Role::Read));
    }
}
