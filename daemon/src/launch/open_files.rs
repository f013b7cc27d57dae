//! Whether this process may open as many files as its part of a job takes: asked before anything is started.

use rustix::process::{Resource, getrlimit};

/// What is open for a moment: pipes of a process that is just started, folders that are looked at.
const SPARE: usize = 32;

/// Whether so many more may be opened.
///
/// # Errors
/// They may not, because of `what`, in words.
pub(super) fn check(what: &str, more: usize) -> Result<(), String> {
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    fits(what, open.saturating_add(more).saturating_add(SPARE), getrlimit(Resource::Nofile).current)
}

fn fits(what: &str, needed: usize, limit: Option<u64>) -> Result<(), String> {
    match limit {
        Some(limit) if u64::try_from(needed).is_ok_and(|needed| needed > limit) => Err(format!(
            "{what}: ringscope has to hold {needed} files open there, and may open {limit}. Raise the hard limit (`ulimit -Hn`; nofile in \
             /etc/security/limits.conf, or LimitNOFILE= of the service that starts it), or start fewer"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_says_how_many_and_what_to_do() {
        assert_eq!((fits("a", 64, Some(64)), fits("a", 65, None)), (Ok(()), Ok(())));
        let error = fits("40 processes on one host", 112, Some(64)).unwrap_err();
        for part in ["40 processes", "112", "open 64", "ulimit -Hn"] {
            assert!(error.contains(part), "{part} in {error}");
        }
        assert!(check("all", usize::MAX).is_err() && check("nothing", 0).is_ok());
    }
}
