//! What a provider says of a person.

use openidconnect::AdditionalClaims;
use ringscope_api::TOKEN_NAME_CHARS_MAX;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::shown;

/// All that is no standard claim.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(transparent)]
pub(super) struct Claims(Map<String, Value>);

impl AdditionalClaims for Claims {}

impl Claims {
    /// The groups in this claim; a name that is no claim's is a path, as in `realm_access.roles`. `None`: there is none.
    pub(super) fn groups(&self, claim: &str) -> Option<Vec<String>> {
        let found = self.0.get(claim).or_else(|| {
            let mut parts = claim.split('.');
            let first = self.0.get(parts.next()?)?;
            parts.try_fold(first, |value, part| value.get(part))
        })?;
        match found {
            Value::String(one) => Some(vec![one.clone()]),
            Value::Array(all) => {
                let texts = all.iter().filter_map(Value::as_str).take(GROUPS_MAX);
                Some(texts.map(ToOwned::to_owned).collect())
            }
            _ => None,
        }
    }
}

/// The first of these that names somebody, as it may be shown.
pub(super) fn name<'n>(candidates: impl IntoIterator<Item = Option<&'n str>>) -> Option<String> {
    let names = candidates.into_iter().flatten().map(shown);
    let mut named = names.map(|name| name.chars().take(TOKEN_NAME_CHARS_MAX).collect::<String>());
    named.find(|name| !name.is_empty())
}

/// Groups of one person that are looked at.
const GROUPS_MAX: usize = 5000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_wherever_providers_put_them() {
        let text = r#"{"groups": ["a", 7, "b"], "role": "one", "realm_access": {"roles": ["c"]}, "n": 1,
                       "https://x.example/groups": ["d"]}"#;
        let claims: Claims = serde_json::from_str(text).unwrap();
        for (claim, expected) in [
            ("groups", Some(vec!["a", "b"])),
            ("role", Some(vec!["one"])),
            ("realm_access.roles", Some(vec!["c"])),
            ("https://x.example/groups", Some(vec!["d"])),
            ("n", None),
            ("nothing", None),
            ("realm_access.nothing", None),
        ] {
            let found = claims.groups(claim);
            assert_eq!(
                found.as_ref().map(|all| all.iter().map(String::as_str).collect()),
                expected,
                "{claim}"
            );
        }
    }

    #[test]
    fn somebody_is_named_by_what_can_be_read() {
        assert_eq!(name([None, Some("\u{202e}"), Some("a\u{1b}[1mnn")]), Some("a [1mnn".to_owned()));
        assert_eq!(name([Some(""), None]), None);
        assert_eq!(name([Some(&*"x".repeat(500))]).map(|name| name.len()), Some(TOKEN_NAME_CHARS_MAX));
    }
}
