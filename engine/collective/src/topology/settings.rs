//! The settings of topology and search, each by ringscope's name or NCCL's, ringscope's first; and those of described machines.

use crate::channels::rules;
use crate::topology::machine::files;
use crate::topology::search::CrossNic;

/// What the environment says about files and search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopologySettings {
    /// `TOPO_FILE`: says where ranks and NICs are, in place of the machine.
    pub(crate) topology_file: Option<String>,
    /// `GRAPH_FILE`: says the channels, in place of the search.
    pub(crate) graph_file: Option<String>,
    /// `TOPO_DUMP_FILE`: where the topology is written.
    pub(crate) topology_dump: Option<String>,
    /// `TOPO_DUMP_FILE_RANK`: who writes it; 0.
    pub(crate) topology_dump_rank: usize,
    /// `GRAPH_DUMP_FILE`: where the graph is written.
    pub(crate) graph_dump: Option<String>,
    /// `GRAPH_DUMP_FILE_RANK`: who writes it; 0.
    pub(crate) graph_dump_rank: usize,
    /// `CROSS_NIC`: whether a channel may leave by another NIC than it came in by; 2 as in NCCL, only where that is
    /// better.
    pub(crate) cross_nic: CrossNic,
}

/// What the environment says of a described machine, in the faithful mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MachineSettings {
    /// `RSCCL_MACHINE`: its name, or the path of its topology file.
    pub(crate) machine: Option<String>,
    /// In the faithful mode, its name or the text of its file.
    pub(crate) text: Option<String>,
    /// `NCCL_COLLNET_ENABLE`: off, as in NCCL.
    pub(crate) collnet: bool,
    /// `NCCL_NVLS_ENABLE`: on where the machine has it, as in NCCL.
    pub(crate) nvls: bool,
    /// `NCCL_CUMEM_ENABLE`: on, as in NCCL where the driver has it; AMD's library has none.
    pub(crate) cumem: bool,
    /// `NCCL_RUNTIME_CONNECT`: on, as in NCCL, where memory is shared by cuMem.
    pub(crate) runtime_connect: Option<bool>,
    /// `NCCL_WORK_ARGS_BYTES`: no limit that matters.
    pub(crate) args_bytes: Option<usize>,
}

impl MachineSettings {
    /// The names that the log reports.
    pub(crate) const NAMES: [&'static str; 5] = [
        "RSCCL_MACHINE",
        "NCCL_COLLNET_ENABLE",
        "NCCL_NVLS_ENABLE",
        "NCCL_CUMEM_ENABLE",
        "NCCL_WORK_ARGS_BYTES",
    ];

    /// From `lookup`. Outside the faithful mode they have no effect, so nothing is a mistake there.
    pub(crate) fn parse(
        lookup: impl Fn(&str) -> Option<String>,
        is_faithful: bool,
        mistakes: &mut Vec<String>,
    ) -> Self {
        let lookup = |name: &str| lookup(name).filter(|_| is_faithful || name == "RSCCL_MACHINE");
        let mut flag = |name: &str, known: &[&str]| {
            let text = lookup(name)?;
            if !known.contains(&text.trim()) {
                mistakes.push(format!("{name}: \"{text}\" is none of {}", known.join(", ")));
            }
            Some(text.trim() != "0")
        };
        let collnet = flag("NCCL_COLLNET_ENABLE", &["0", "1"]);
        let nvls = flag("NCCL_NVLS_ENABLE", &["0", "1", "2"]);
        // Both are ways to leave it to NCCL.
        let cumem = flag("NCCL_CUMEM_ENABLE", &["0", "1", "-2"]);
        let runtime_connect = flag("NCCL_RUNTIME_CONNECT", &["0", "1"]);
        let machine = lookup("RSCCL_MACHINE");
        let read = |wanted: &String| files::text(wanted).map_err(|why| mistakes.push(why)).ok();
        let text = machine.as_ref().filter(|_| is_faithful).and_then(read);
        Self {
            machine,
            text,
            collnet: collnet.unwrap_or(false),
            nvls: nvls.unwrap_or(true),
            cumem: cumem.unwrap_or(true),
            runtime_connect,
            args_bytes: args_bytes(lookup, mistakes),
        }
    }
}

/// `NCCL_WORK_ARGS_BYTES`: room for one channel at least.
fn args_bytes(lookup: impl Fn(&str) -> Option<String>, mistakes: &mut Vec<String>) -> Option<usize> {
    let name = "NCCL_WORK_ARGS_BYTES";
    let text = lookup(name)?;
    let bytes = text.trim().parse().ok().filter(|bytes| rules::args_channels(Some(*bytes)) > 0);
    if bytes.is_none() {
        let least = rules::ONE_CHANNEL_BYTES;
        mistakes.push(format!(
            "{name}: \"{text}\" is not a number of bytes from {least} on, which one channel takes"
        ));
    }
    bytes
}

impl TopologySettings {
    /// The names that the log reports.
    pub(crate) const NAMES: [&'static str; 7] = [
        "CROSS_NIC",
        "TOPO_FILE",
        "GRAPH_FILE",
        "TOPO_DUMP_FILE",
        "TOPO_DUMP_FILE_RANK",
        "GRAPH_DUMP_FILE",
        "GRAPH_DUMP_FILE_RANK",
    ];

    /// From `lookup`.
    pub(crate) fn parse(lookup: impl Fn(&str) -> Option<String>, mistakes: &mut Vec<String>) -> Self {
        let find = |name: &str| {
            let names = [format!("RSCCL_{name}"), format!("NCCL_{name}")];
            names.into_iter().find_map(|name| lookup(&name).map(|text| (name, text)))
        };
        let text = |name: &str| find(name).map(|(_, text)| text);
        let mut rank = |name: &str| {
            let Some((name, text)) = find(name) else { return 0 };
            text.trim().parse().unwrap_or_else(|_| {
                mistakes.push(format!("{name}: \"{text}\" is not a rank"));
                0
            })
        };
        let (topology_dump_rank, graph_dump_rank) =
            (rank("TOPO_DUMP_FILE_RANK"), rank("GRAPH_DUMP_FILE_RANK"));
        let cross_nic = match find("CROSS_NIC") {
            None => CrossNic::default(),
            Some((name, text)) => match text.trim() {
                "0" => CrossNic::Never,
                "1" => CrossNic::Always,
                "2" => CrossNic::IfBetter,
                _ => {
                    mistakes.push(format!("{name}: \"{text}\" is not 0, 1 or 2"));
                    CrossNic::default()
                }
            },
        };
        Self {
            topology_file: text("TOPO_FILE"),
            graph_file: text("GRAPH_FILE"),
            topology_dump: text("TOPO_DUMP_FILE"),
            topology_dump_rank,
            graph_dump: text("GRAPH_DUMP_FILE"),
            graph_dump_rank,
            cross_nic,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> (TopologySettings, Vec<String>) {
        let mut mistakes = Vec::new();
        let find =
            |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        (TopologySettings::parse(find, &mut mistakes), mistakes)
    }

    #[test]
    fn both_names_count_and_the_own_one_comes_first() {
        let (settings, mistakes) = parse(&[
            ("NCCL_CROSS_NIC", "1"),
            ("RSCCL_CROSS_NIC", "0"),
            ("NCCL_TOPO_FILE", "a.xml"),
            ("RSCCL_GRAPH_DUMP_FILE_RANK", "3"),
        ]);
        assert!(mistakes.is_empty(), "{mistakes:?}");
        assert_eq!((settings.cross_nic, settings.graph_dump_rank), (CrossNic::Never, 3));
        assert_eq!(settings.topology_file.as_deref(), Some("a.xml"));
    }

    #[test]
    fn a_machine_has_what_nccl_would_have_by_default() {
        let mut mistakes = Vec::new();
        let settings = MachineSettings::parse(|_| None, true, &mut mistakes);
        assert_eq!((settings.machine, settings.runtime_connect, settings.args_bytes), (None, None, None));
        assert_eq!((settings.nvls, settings.collnet, settings.cumem), (true, false, true));
        let set = |name: &str| match name {
            "NCCL_WORK_ARGS_BYTES" => Some("4096".to_owned()),
            "RSCCL_MACHINE" => Some("pcie".to_owned()),
            _ => Some("0".to_owned()),
        };
        let settings = MachineSettings::parse(set, true, &mut mistakes);
        assert_eq!(settings.text.as_deref(), Some("pcie"));
        assert_eq!(
            (settings.nvls, settings.runtime_connect, settings.args_bytes),
            (false, Some(false), Some(4096))
        );
        assert!(mistakes.is_empty(), "{mistakes:?}");
    }

    #[test]
    fn mistakes_of_a_machine_are_named_in_the_faithful_mode() {
        let set = |name: &str| match name {
            "NCCL_WORK_ARGS_BYTES" => Some("47".to_owned()),
            "RSCCL_MACHINE" => Some("/nowhere.xml".to_owned()),
            _ => Some("foo".to_owned()),
        };
        let mut mistakes = Vec::new();
        let settings = MachineSettings::parse(set, false, &mut mistakes);
        assert_eq!((settings.text, mistakes.len()), (None, 0));
        MachineSettings::parse(set, true, &mut mistakes);
        assert_eq!(
            mistakes[..4],
            [
                "NCCL_COLLNET_ENABLE: \"foo\" is none of 0, 1",
                "NCCL_NVLS_ENABLE: \"foo\" is none of 0, 1, 2",
                "NCCL_CUMEM_ENABLE: \"foo\" is none of 0, 1, -2",
                "NCCL_RUNTIME_CONNECT: \"foo\" is none of 0, 1",
            ]
        );
        assert!(
            mistakes[4].starts_with("RSCCL_MACHINE: \"/nowhere.xml\" is none of dgx-a100, "),
            "{mistakes:?}"
        );
        assert!(mistakes[5].starts_with("NCCL_WORK_ARGS_BYTES: \"47\" is not a number of bytes from 48 on"));
    }

    #[test]
    fn mistakes_are_named() {
        let (settings, mistakes) = parse(&[("NCCL_CROSS_NIC", "yes"), ("RSCCL_TOPO_DUMP_FILE_RANK", "all")]);
        assert_eq!(settings.cross_nic, CrossNic::IfBetter);
        assert_eq!(
            mistakes,
            ["RSCCL_TOPO_DUMP_FILE_RANK: \"all\" is not a rank", "NCCL_CROSS_NIC: \"yes\" is not 0, 1 or 2"]
        );
    }
}
