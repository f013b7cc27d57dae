//! What groups may do, as settings say it: `GROUP=WHAT`, several of them.

/// Reads pairs, one a line; of words without spaces several may stand in a line.
///
/// # Errors
/// What `pair` says of one; or that it is not clear where one ends.
pub(super) fn pairs<T>(text: &str, pair: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    let mut all = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let read: Result<Vec<T>, String> = words.iter().map(|word| pair(word)).collect();
        let (_, before) = words.split_last().unwrap_or((&"", &[]));
        match read {
            Ok(pairs) => all.extend(pairs),
            // The name of a group with spaces: only the last word has what it may do.
            Err(_) if before.iter().all(|word| pair(word).is_err()) => all.push(pair(line)?),
            Err(_) => {
                return Err(format!(
                    "{line:?}: where does the first one end? The name of a group with spaces needs an option of its own, \
                     an item of the list in the file of --config, or a line of its own in the variable"
                ));
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::pairs;
    use ringscope_access::{group_role, group_tenant};
    use ringscope_api::Role;

    fn roles(text: &str) -> Result<Vec<(String, Role)>, String> {
        pairs(text, group_role)
    }

    #[test]
    fn names_of_groups_may_have_spaces() {
        let pair = |group: &str, role| (group.to_owned(), role);
        let (read, operate) = (Role::Read, Role::Operate);
        for (text, expected) in [
            ("", vec![]),
            ("*=read sre=operate", vec![pair("*", read), pair("sre", operate)]),
            ("Site Reliability=operate", vec![pair("Site Reliability", operate)]),
            ("*=read\nSite Reliability=operate\n", vec![pair("*", read), pair("Site Reliability", operate)]),
            ("CN=On Call,OU=Groups=read", vec![pair("CN=On Call,OU=Groups", read)]),
        ] {
            assert_eq!(roles(text), Ok(expected), "{text}");
        }
        let tenants = pairs("Acme Staff=acme\nSite Reliability=*", group_tenant).unwrap();
        assert_eq!(tenants[0], ("Acme Staff".to_owned(), Some("acme".parse().unwrap())));
        assert_eq!(tenants[1], ("Site Reliability".to_owned(), None));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for text in ["*=read Site Reliability=operate", "Site Reliability=operate *=read"] {
            assert!(roles(text).unwrap_err().contains("line of its own"), "{text}");
        }
        for text in ["sre", "Site Reliability", "Site Reliability=root", "=read"] {
            assert!(roles(text).is_err(), "{text}");
        }
    }
}
