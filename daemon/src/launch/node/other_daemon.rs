//! Whether the agent that runs on a host sends where the launch wants it. Looks no name up: what is not known to differ is told with
//! both addresses.

use std::ffi::OsString;
use std::net::{IpAddr, TcpListener};

use reqwest::Url;
use ringscope_api::terminal::without_passwords;

use crate::launch::node_name;

/// What is to be said of an agent that sends to `agents` and was not started for the launch, whose own would have these arguments.
/// Both are addresses between commas; one daemon of them is enough.
pub(super) fn note(agents: &str, own_arguments: &[OsString]) -> Option<String> {
    let mut words = own_arguments.iter().skip_while(|word| *word != "--daemon");
    let wanted = words.nth(1)?.to_string_lossy().into_owned();
    let is_met = addresses(agents).any(|one| addresses(&wanted).any(|other| is_same(&one, &other)));
    (!is_met).then(|| {
        format!(
            "{}: an agent runs that sends to {}, not to {}; if those are two daemons, the job is seen at the first one only",
            node_name(),
            without_passwords(agents),
            without_passwords(&wanted)
        )
    })
}

fn addresses(list: &str) -> impl Iterator<Item = Url> {
    list.split(',').filter_map(|address| Url::parse(address.trim()).ok())
}

fn is_same(one: &Url, other: &Url) -> bool {
    let is_one_host = one.host_str() == other.host_str() || is_here(one) && is_here(other);
    is_one_host && one.port_or_known_default() == other.port_or_known_default()
}

/// This machine's name, or an address of its own.
fn is_here(address: &Url) -> bool {
    let Some(host) = address.host_str() else { return false };
    let own = node_name();
    if host == "localhost" || host == own || own.split('.').next() == Some(host) {
        return true;
    }
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    address.is_ok_and(|address| TcpListener::bind((address, 0)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_daemons_are_told_and_one_under_two_names_is_not() {
        let said = |agents: &str, wanted: &str| note(agents, &["--daemon".into(), wanted.into()]);
        let here = node_name();
        for (agents, wanted) in [
            ("http://a:9440", "http://a:9440/"),
            ("http://a:9440,http://b:9440", "http://b:9440"),
            ("http://127.0.0.1:9440", &format!("http://{here}:9440")),
            ("https://a", "https://a:443"),
        ] {
            assert_eq!(said(agents, wanted), None, "{agents} {wanted}");
        }
        let text = said("http://127.0.0.1:9440", "http://u:pw@a:9440").unwrap();
        assert!(text.contains("sends to http://127.0.0.1:9440, not to http://…@a:9440;"), "{text}");
        assert!(said("http://a:9440", "http://a:9441").is_some());
        assert_eq!(note("http://a:9440", &[]), None);
    }
}
