//! Where the token of a command or an agent comes from. Never an argument: everybody on the machine sees those.

use std::path::Path;

use super::environment;
use crate::credential::TokenSource;

/// The file of `--token-file`, else `RINGSCOPE_TOKEN`, else the file that `RINGSCOPE_TOKEN_FILE` names.
#[must_use]
pub fn token_source(file: Option<&Path>) -> Option<TokenSource> {
    find(file, &environment)
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
