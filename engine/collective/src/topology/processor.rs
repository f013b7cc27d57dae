//! What processor a machine has, for NCCL's topology file and log.

/// A processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Processor {
    /// `x86_64`, `arm64`; empty where NCCL has no name for it.
    pub(crate) arch: &'static str,
    /// `GenuineIntel`; empty where it does not tell.
    pub(crate) vendor: String,
    /// Family.
    pub(crate) family: u32,
    /// Model.
    pub(crate) model: u32,
}

impl Processor {
    /// The machine's.
    pub(crate) fn of_machine() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
    }

    /// From the text of `/proc/cpuinfo`.
    pub(crate) fn parse(text: &str) -> Self {
        let find = |name: &str| {
            let line = text.lines().filter_map(|line| line.split_once(':'));
            line.map(|(key, value)| (key.trim(), value.trim())).find(|(key, _)| *key == name)
        };
        let number = |name| find(name).and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
        let arch = match std::env::consts::ARCH {
            "x86_64" => "x86_64",
            "aarch64" => "arm64",
            _ => "",
        };
        let vendor = find("vendor_id").map_or("", |(_, value)| value).to_owned();
        Self { arch, vendor, family: number("cpu family"), model: number("model") }
    }

    /// NCCL's codes of architecture, vendor and model (`src/graph/topo.h`), -1 for what it does not tell apart.
    pub(crate) fn codes(&self) -> (i8, i8, i8) {
        let arch = match self.arch {
            "x86_64" => 1,
            "arm64" => 3,
            _ => -1,
        };
        let vendor = match self.vendor.as_str() {
            "GenuineIntel" => 1,
            "AuthenticAMD" => 2,
            _ => -1,
        };
        let model = match (vendor, self.family, self.model) {
            (1, 6, 0xcf..) => 4,
            (1, 6, 0x8f..) => 3,
            (1, 6, 0x55..) => 2,
            (1, 6, _) => 1,
            _ => -1,
        };
        (arch, vendor, model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpuinfo_is_understood() {
        let text =
            "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: X\n";
        let processor = Processor::parse(text);
        assert_eq!((processor.vendor.as_str(), processor.family, processor.model), ("GenuineIntel", 6, 143));
        assert_eq!((processor.codes().1, processor.codes().2), (1, 3));
        assert_eq!(Processor::parse("").family, 0);
    }
}
