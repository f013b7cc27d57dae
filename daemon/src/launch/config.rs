//! What a launch reads of its environment beside what clap does: the one room of it that may.

#![expect(clippy::disallowed_methods, reason = "this is the module that reads the environment")]

use std::collections::BTreeMap;
use std::env::{var, var_os, vars_os};
use std::ffi::{OsStr, OsString};

/// The secret that externally started nodes show each other.
pub(super) const SECRET: &str = "RINGSCOPE_LAUNCH_SECRET";
/// What goes along to other hosts without being asked for: settings of ours and of the libraries, and where programs are.
const PASSED: [&str; 9] =
    ["NCCL_", "RSCCL_", "RSUM_", "RTENSOR_", "RINGSCOPE_", "OMP_", "OPENBLAS_", "MKL_", "TORCH_"];
const PASSED_WHOLE: [&str; 5] = ["PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONUNBUFFERED", "VIRTUAL_ENV"];
/// Secrets of this process, and what is another host's own.
pub(super) const KEPT: [&str; 6] = [
    SECRET,
    "RINGSCOPE_TOKEN",
    "RINGSCOPE_TOKEN_FILE",
    "RINGSCOPE_HOST",
    "RINGSCOPE_SET_HOST",
    "RINGSCOPE_AGENT_HOST",
];

/// What goes along, in words.
pub(super) fn passed_names() -> Vec<String> {
    let beginnings = PASSED.iter().map(|beginning| format!("{beginning}*"));
    beginnings.chain(PASSED_WHOLE.iter().map(|name| (*name).to_owned())).collect()
}

/// The variables that go along, with those that `-x` names.
///
/// # Errors
/// A name that `-x` names and nothing sets, or that is none.
pub(super) fn passed(named: &[OsString]) -> Result<Vec<(OsString, OsString)>, String> {
    let goes = |name: &str| {
        !KEPT.contains(&name)
            && (PASSED_WHOLE.contains(&name) || PASSED.iter().any(|prefix| name.starts_with(prefix)))
    };
    let mut all: BTreeMap<OsString, OsString> =
        vars_os().filter(|(name, _)| name.to_str().is_some_and(goes)).collect();
    all.extend(named_variables(named, |name| var_os(name))?);
    Ok(all.into_iter().collect())
}

/// Those of `-x` alone.
fn named_variables(
    named: &[OsString],
    lookup: impl Fn(&OsStr) -> Option<OsString>,
) -> Result<Vec<(OsString, OsString)>, String> {
    use std::os::unix::ffi::OsStrExt as _;
    let one = |word: &OsString| {
        let bytes = word.as_bytes();
        let (name, value) = match bytes.iter().position(|byte| *byte == b'=') {
            Some(place) => {
                let (name, value) = bytes.split_at(place);
                (OsStr::from_bytes(name), Some(OsStr::from_bytes(&value[1..]).to_owned()))
            }
            None => (word.as_os_str(), lookup(word)),
        };
        if name.is_empty() {
            return Err(format!("-x {word:?}: expected NAME or NAME=VALUE"));
        }
        let value =
            value.ok_or_else(|| format!("-x {}: it is not set here; say {0}=VALUE", name.display()))?;
        Ok((name.to_owned(), value))
    };
    named.iter().map(one).collect()
}

/// The secret of externally started nodes.
pub(super) fn secret() -> Option<String> {
    var(SECRET).ok().filter(|secret| !secret.is_empty())
}

/// The addresses of an ssh connection: where it came from, and where to.
pub(super) fn ssh_connection() -> Option<(String, String)> {
    let text = var("SSH_CONNECTION").ok()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    Some((words.first()?.to_string(), words.get(2)?.to_string()))
}

/// Where programs are looked for.
pub(super) fn path() -> Option<OsString> {
    var_os("PATH")
}

/// The folder that agents and jobs share, where the environment names one.
pub(super) fn shared_dir() -> Option<OsString> {
    var_os("RINGSCOPE_DIR").filter(|dir| !dir.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_docs_name_what_goes_along() {
        let docs = include_str!("../../../docs/launch.md");
        let (_, told) = docs.split_once("\nAlong go ").unwrap();
        let (told, _) = told.split_once(';').unwrap();
        assert_eq!(told.split('`').skip(1).step_by(2).collect::<Vec<_>>(), passed_names());
    }

    #[test]
    fn a_variable_is_given_or_handed_on() {
        let named = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            named_variables(&words, |name| (name == "SET").then(|| "here".into()))
        };
        let pairs = |pairs: &[(&str, &str)]| {
            Ok(pairs
                .iter()
                .map(|(name, value)| (OsString::from(name), OsString::from(value)))
                .collect::<Vec<_>>())
        };
        assert_eq!(named(&["A=1=2", "SET", "B="]), pairs(&[("A", "1=2"), ("SET", "here"), ("B", "")]));
        assert!(named(&["UNSET"]).unwrap_err().contains("not set here"));
        assert!(named(&["=1"]).is_err());
    }
}
