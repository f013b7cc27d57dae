//! What a version of the library makes possible.

use super::report::{Sees, Source};

/// A version of NCCL: major, minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub(super) u32, pub(super) u32);

/// The first version with profiler plugins.
const HAS_PROFILER: Version = Version(2, 23);

impl Version {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        Some(Self(parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// How the end of operations will be known, with these versions among so many copies.
pub(super) fn completion(versions: &[Version], n_copies: usize, has_driver: bool) -> Source {
    let source = |sees, why: String| Source { source: "completion", sees, why };
    let driver = if has_driver { "a CUDA driver is here" } else { "no CUDA driver is found on this machine" };
    let Some(oldest) = versions.iter().min() else {
        let why =
            if n_copies == 0 { "no NCCL is found" } else { "the version of NCCL is not found in its file" };
        return source(Sees::Unknown, why.to_owned());
    };
    match (*oldest >= HAS_PROFILER, has_driver) {
        (true, _) => {
            source(Sees::Yes, format!("NCCL {oldest} speaks to profiler plugins (2.23 and later do)"))
        }
        (false, true) => source(
            Sees::Yes,
            format!("by CUDA events: NCCL {oldest} has no profiler interface, and {driver}"),
        ),
        (false, false) => source(
            Sees::No,
            format!("NCCL {oldest} has no profiler interface (2.23 and later do), and {driver}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completion_needs_a_profiler_interface_or_a_driver() {
        let check = |version: &str, has_driver, expected| {
            let versions: Vec<Version> = Version::parse(version).into_iter().collect();
            assert_eq!(completion(&versions, 1, has_driver).sees, expected, "{version} {has_driver}");
        };
        check("2.23.4", false, Sees::Yes);
        check("2.21.5", true, Sees::Yes);
        check("2.21.5", false, Sees::No);
        check("?", true, Sees::Unknown);
        assert!(Version(2, 9) < HAS_PROFILER && Version(2, 30) > HAS_PROFILER);
    }
}
