//! Which library, and which of NCCL's channel rules it has.

use std::fmt;

/// The version of a collective library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// NCCL's version, or that which the library follows.
    pub number: (u32, u32, u32),
    /// Whose it is.
    pub family: Family,
}

/// Libraries that speak NCCL's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// NVIDIA's.
    Nccl,
    /// AMD's: another way to the final count.
    Rccl,
    /// ringscope's engine: doubling and settings, nothing else.
    Rsccl,
}

impl Version {
    /// NCCL's, of this number.
    #[must_use]
    pub const fn nccl(major: u32, minor: u32, patch: u32) -> Self {
        Self { number: (major, minor, patch), family: Family::Nccl }
    }

    /// From what the log says ("2.27.3+cuda12.9"), else from `ncclGetVersion`'s code (0: not known).
    #[must_use]
    pub fn of(log_version: &str, code: u32) -> Option<Self> {
        Self::from_text(log_version).or_else(|| Self::from_code(code))
    }

    fn from_text(text: &str) -> Option<Self> {
        let lower = text.to_ascii_lowercase();
        let family = if lower.contains("rsccl") {
            Family::Rsccl
        } else if lower.contains("hip") || lower.contains("rocm") || lower.contains("rccl") {
            Family::Rccl
        } else {
            Family::Nccl
        };
        let start = lower.find(|c: char| c.is_ascii_digit())?;
        let mut parts = lower[start..].splitn(3, '.').map(|part| {
            let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part[..end].parse::<u32>().ok()
        });
        let major = parts.next()??;
        let minor = parts.next()??;
        Some(Self { number: (major, minor, parts.next().flatten().unwrap_or(0)), family })
    }

    /// `NCCL_VERSION`: X·1000 + Y·100 + Z up to 2.8, X·10000 + Y·100 + Z since.
    fn from_code(code: u32) -> Option<Self> {
        let thousands = if code < 10_000 { 1_000 } else { 10_000 };
        (code > 0).then(|| Self::nccl(code / thousands, code % thousands / 100, code % 100))
    }

    /// Which of the rules it has.
    #[must_use]
    pub fn rules(self) -> Rules {
        let since = |major, minor, patch| self.number >= (major, minor, patch);
        if self.family == Family::Rsccl {
            return Rules { max_channels: 64, ctas: true, ..Rules::default() };
        }
        Rules {
            max_channels: if since(2, 25, 0) { 64 } else { 32 },
            collnet: since(2, 9, 0),
            hopper: match () {
                () if since(2, 25, 0) => Some(Hopper { later: true, below: 16 }),
                () if since(2, 20, 0) => Some(Hopper { later: false, below: 16 }),
                // Written as 2n <= MAXCHANNELS there.
                () if since(2, 18, 0) => Some(Hopper { later: false, below: 17 }),
                () => None,
            },
            unpack: since(2, 22, 0),
            ctas: since(2, 17, 0),
            shared_cap: since(2, 18, 0),
            nvls_raise: since(2, 20, 3) && !since(2, 28, 0),
            parent_clamp: since(2, 21, 5),
            args_bytes: since(2, 22, 0),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, patch) = self.number;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// Which rules a version has between the search's result and the final count (NCCL `ncclTopoPostset`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rules {
    /// MAXCHANNELS.
    pub max_channels: u32,
    /// Half as many more where CollNet is used.
    pub collnet: bool,
    /// Doubled again on Hopper, and when.
    pub hopper: Option<Hopper>,
    /// Doubled again where the network device unpacks.
    pub unpack: bool,
    /// MIN_CTAS and MAX_CTAS bound it.
    pub ctas: bool,
    /// What a parent shares bounds it.
    pub shared_cap: bool,
    /// NVLS channels raise it.
    pub nvls_raise: bool,
    /// What a parent with NVLS shares bounds it after that.
    pub parent_clamp: bool,
    /// WORK_ARGS_BYTES bounds it.
    pub args_bytes: bool,
}

/// When channels are doubled on Hopper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hopper {
    /// Later GPUs count too.
    pub later: bool,
    /// Only fewer channels than this are doubled.
    pub below: u32,
}

impl Hopper {
    /// Whether GPUs of this compute capability (times ten) are meant.
    #[must_use]
    pub fn admits(self, compute_capability: u32) -> bool {
        compute_capability == 90 || self.later && compute_capability > 90
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_logs_and_codes() {
        let check = |text: &str, code, expected: Option<(&str, Family)>| {
            let found = Version::of(text, code);
            let found = found.map(|version| (version.to_string(), version.family));
            assert_eq!(found, expected.map(|(text, family)| (text.to_owned(), family)), "{text} {code}");
        };
        check("2.27.3+cuda12.9", 0, Some(("2.27.3", Family::Nccl)));
        check("2.28.9+rsccl0.1.0", 22_809, Some(("2.28.9", Family::Rsccl)));
        check("2.22.3+hip6.3 HEAD:abc", 0, Some(("2.22.3", Family::Rccl)));
        check("RCCL 2.27.7", 22_707, Some(("2.27.7", Family::Rccl)));
        check("", 22_809, Some(("2.28.9", Family::Nccl)));
        check("", 2_708, Some(("2.7.8", Family::Nccl)));
        check("nonsense", 0, None);
        check("2", 0, None);
        check("99999999999999.1", 0, None);
        check("", 0, None);
    }
}
