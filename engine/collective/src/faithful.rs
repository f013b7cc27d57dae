//! The faithful mode (`RSCCL_FAITHFUL`): the version of NCCL that the library behaves as, in all that can be seen from
//! outside. Without it the library helps: it names who has failed, and times out.

/// A version of NCCL: the last release of its minor that was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    /// 2.27.7
    V2_27,
    /// 2.28.9, whose interface the library has also without the faithful mode.
    #[default]
    V2_28,
    /// 2.30.7
    V2_30,
    /// 2.32.3
    V2_32,
}

impl Version {
    /// All of them, the oldest first.
    pub(crate) const ALL: [Self; 4] = [Self::V2_27, Self::V2_28, Self::V2_30, Self::V2_32];

    /// As `RSCCL_FAITHFUL` names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V2_27 => "2.27",
            Self::V2_28 => "2.28",
            Self::V2_30 => "2.30",
            Self::V2_32 => "2.32",
        }
    }

    /// What `ncclGetVersion` says (`NCCL_VERSION` in nccl.h).
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::V2_27 => 22707,
            Self::V2_28 => 22809,
            Self::V2_30 => 23007,
            Self::V2_32 => 23203,
        }
    }

    /// `2.28.9`
    pub(crate) fn release(self) -> String {
        format!("{}.{}", self.name(), self.code() % 100)
    }

    /// From the text of `RSCCL_FAITHFUL`: nothing for `off`.
    ///
    /// # Errors
    /// Any other text, with what may be given.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>, String> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("off") {
            return Ok(None);
        }
        Self::ALL.into_iter().find(|version| version.name() == text).map(Some).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("RSCCL_FAITHFUL: \"{text}\" is none of {names}, off")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_named_by_its_minor() {
        assert_eq!(Version::parse("2.30"), Ok(Some(Version::V2_30)));
        assert_eq!(Version::parse("off"), Ok(None));
        let said = Version::parse("2.29").unwrap_err();
        assert_eq!(said, "RSCCL_FAITHFUL: \"2.29\" is none of 2.27, 2.28, 2.30, 2.32, off");
    }

    #[test]
    fn releases_and_codes_agree() {
        let shown = Version::ALL.map(|version| (version.release(), version.code()));
        let shown: Vec<_> = shown.iter().map(|(release, code)| (release.as_str(), *code)).collect();
        assert_eq!(shown, [("2.27.7", 22707), ("2.28.9", 22809), ("2.30.7", 23007), ("2.32.3", 23203)]);
    }
}
