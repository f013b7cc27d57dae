//! Where the token of a command or an agent comes from. Never an argument: everybody on the machine sees those.

use std::net::IpAddr;
use std::path::Path;

use reqwest::Url;
use ringscope_api::terminal::without_passwords;
use ringscope_tls::credential::TokenSource;

use super::environment;

/// The token for the daemons at these addresses: the file of `--token-file`, else `RINGSCOPE_TOKEN`, else the file that
/// `RINGSCOPE_TOKEN_FILE` names. Warns where others may see it on its way.
#[must_use]
pub fn token_source<D: AsRef<str>>(file: Option<&Path>, daemons: &[D]) -> Option<TokenSource> {
    let source = find(file, &environment)?;
    for daemon in daemons.iter().map(AsRef::as_ref).filter(|daemon| can_be_overheard(daemon)) {
        tracing::warn!(
            "the token goes to {} by http: whoever sees the network can read it and use it. Let the daemon speak https \
             (docs/tls.md), and write https:// in its address",
            without_passwords(daemon)
        );
    }
    Some(source)
}

/// Whether what is sent to this address leaves the machine, and without TLS.
fn can_be_overheard(daemon: &str) -> bool {
    let Ok(url) = Url::parse(daemon) else { return false };
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let is_here = match address {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    };
    url.scheme() == "http" && !is_here
}

fn find(file: Option<&Path>, env: &dyn Fn(&str) -> Option<String>) -> Option<TokenSource> {
    let set = |name: &str| env(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    file.map(|file| TokenSource::File(file.to_owned()))
        .or_else(|| set("RINGSCOPE_TOKEN").map(TokenSource::Given))
        .or_else(|| set("RINGSCOPE_TOKEN_FILE").map(|file| TokenSource::File(file.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_leaves_the_machine_without_tls_is_overheard() {
        for (daemon, expected) in [
            ("http://ringscope.cluster:9440", true),
            ("http://10.0.0.7", true),
            ("http://[fd00::7]:9440/x", true),
            ("http://localhost.evil.example", true),
            ("https://ringscope.cluster:9440", false),
            ("http://127.0.0.9:9440", false),
            ("http://[::1]:9440", false),
            ("http://[::ffff:127.0.0.1]", false),
            ("http://LOCALHOST:9440", false),
            ("http://a.localhost", false),
        ] {
            assert_eq!(can_be_overheard(daemon), expected, "{daemon}");
        }
    }

    #[test]
    fn the_nearest_token_holds_and_none_is_shown() {
        let env = |name: &str| match name {
            "RINGSCOPE_TOKEN" => Some(" secret\n".to_owned()),
            "RINGSCOPE_TOKEN_FILE" => Some("/b".to_owned()),
            _ => None,
        };
        let file = |path: &str| Some(TokenSource::File(path.into()));
        assert_eq!(find(Some(Path::new("/a")), &env), file("/a"));
        let given = find(None, &env);
        assert_eq!(given.as_ref().map(TokenSource::read), Some(Ok("secret".to_owned())));
        assert!(!format!("{given:?}").contains("secret"));
        let only_file = |name: &str| env(name).filter(|_| name == "RINGSCOPE_TOKEN_FILE");
        assert_eq!(find(None, &only_file), file("/b"));
        assert_eq!(find(None, &|_| Some(String::new())), None);
    }
}
