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
    /// ringscope's engine: doubling and settings, nothing else, unless it shows a described machine.
    Rsccl,
}

impl Version {
    /// NCCL's, of this number.
    #[must_use]
    pub const fn nccl(major: u32, minor: u32, patch: u32) -> Self {
        Self { number: (major, minor, patch), family: Family::Nccl }
    }

    /// From what the log says ("2.27.3+cuda12.9"), else from `ncclGetVersion`'s code (0: not known). Whose library it is
    /// only the log says: its word holds also where the code has the number.
    #[must_use]
    pub fn of(log_version: &str, code: u32) -> Option<Self> {
        let lower = log_version.to_ascii_lowercase();
        let family = Family::of(&lower);
        let number = number(&lower).or_else(|| Self::from_code(code).map(|version| version.number));
        match (number, family) {
            (Some(number), _) => Some(Self { number, family }),
            // Its rules are unknown whatever its number is.
            (None, Family::Rccl) => Some(Self { number: (0, 0, 0), family }),
            (None, _) => None,
        }
    }

    /// NCCL's of the same number, whose rules the engine follows on a described machine.
    #[must_use]
    pub fn as_nccl(self) -> Self {
        Self { family: Family::Nccl, ..self }
    }

    /// `NCCL_VERSION`: X·1000 + Y·100 + Z up to 2.8, X·10000 + Y·100 + Z since.
    fn from_code(code: u32) -> Option<Self> {
        let thousands = if code < 10_000 { 1_000 } else { 10_000 };
        (code > 0).then(|| Self::nccl(code / thousands, code % thousands / 100, code % 100))
    }

    /// As `ncclGetVersion` would say it. `None`: no library has such a number.
    #[must_use]
    pub fn code(self) -> Option<u32> {
        let (major, minor, patch) = self.number;
        let (thousands, fits) = if (major, minor) < (2, 9) { (1_000, 10) } else { (10_000, 100) };
        (major > 0 && major < 100 && minor < fits && patch < 100)
            .then_some(major * thousands + minor * 100 + patch)
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

impl Family {
    /// By what a log calls its library, in small letters. Where the engine shows AMD's machines, it words its log as RCCL.
    fn of(text: &str) -> Self {
        if ["hip", "rocm", "rccl"].iter().any(|word| text.contains(word)) {
            Self::Rccl
        } else if text.contains("rsccl") {
            Self::Rsccl
        } else {
            Self::Nccl
        }
    }
}

/// (2, 27, 3) of `2.27.3+cuda12.9`, (2, 18, 1) of `2.18.1a`, (2, 18, 0) of `2.18-nightly`.
fn number(text: &str) -> Option<(u32, u32, u32)> {
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let mut rest = &text[start..];
    let mut parts = [None; 3];
    for part in &mut parts {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        *part = rest[..end].parse().ok();
        // A suffix has numbers of its own.
        match rest[end..].strip_prefix('.') {
            Some(more) => rest = more,
            None => break,
        }
    }
    Some((parts[0]?, parts[1]?, parts[2].unwrap_or(0)))
}

/// NCCL's without its name.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, patch) = self.number;
        match (self.family, major) {
            (Family::Rccl, 0) => write!(f, "RCCL"),
            (Family::Rccl, _) => write!(f, "RCCL {major}.{minor}.{patch}"),
            _ => write!(f, "{major}.{minor}.{patch}"),
        }
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
        check("RCCL 2.30.7-rsccl:0.1.0", 23_007, Some(("RCCL 2.30.7", Family::Rccl)));
        check("2.22.3+hip6.3 HEAD:abc", 0, Some(("RCCL 2.22.3", Family::Rccl)));
        check("RCCL 2.27.7", 22_707, Some(("RCCL 2.27.7", Family::Rccl)));
        check("RCCL", 22_707, Some(("RCCL 2.27.7", Family::Rccl)));
        check("RCCL", 0, Some(("RCCL", Family::Rccl)));
        check("2.18.1a", 0, Some(("2.18.1", Family::Nccl)));
        check("2.18-nightly.2025", 0, Some(("2.18.0", Family::Nccl)));
        check("2.19.4-nightly+cuda12.3", 0, Some(("2.19.4", Family::Nccl)));
        check("v2.20.5", 0, Some(("2.20.5", Family::Nccl)));
        check("", 22_809, Some(("2.28.9", Family::Nccl)));
        check("", 2_708, Some(("2.7.8", Family::Nccl)));
        check("nonsense", 0, None);
        check("2", 0, None);
        check("99999999999999.1", 0, None);
        check("", 0, None);
    }

    #[test]
    fn codes_are_those_of_the_library() {
        for code in [2_407, 2_708, 2_804, 20_908, 22_703] {
            assert_eq!(Version::of("", code).and_then(Version::code), Some(code));
        }
        assert_eq!(Version::of("2.300.1", 0).and_then(Version::code), None);
        assert_eq!(Version::of("RCCL", 0).and_then(Version::code), None);
    }
}
