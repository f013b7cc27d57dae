//! Which lines of the library's log the user asked for.
//!
//! NCCL does not print a line's subsystem, so lines of subsystems that only ringscope asked for are known by their
//! wording. A line that is not known is passed on: better one too many than one lost.

use super::log::Level;

/// Takes a log as it is written and gives the lines that the user asked for.
pub(super) struct Filter {
    level: Level,
    without: Vec<String>,
    /// A line whose end has not come.
    partial: Vec<u8>,
    /// The line before was empty: NCCL puts an empty line before a warning.
    after_empty: bool,
}

impl Filter {
    pub(super) fn new(level: Level, without: &[String]) -> Self {
        Self { level, without: without.to_vec(), partial: Vec::new(), after_empty: false }
    }

    /// The lines that are whole now.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.partial.extend(piece);
            if piece.ends_with(b"\n") || self.partial.len() > MAX_LINE_BYTES {
                let line = std::mem::take(&mut self.partial);
                self.judge(&line, &mut out);
            }
        }
        out
    }

    /// What is left when nothing more will come.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        if self.partial.is_empty() { Vec::new() } else { self.feed(b"\n") }
    }

    fn judge(&mut self, line: &[u8], out: &mut Vec<u8>) {
        let text = String::from_utf8_lossy(line);
        if text == "\n" {
            self.after_empty = true;
            return;
        }
        let is_warning = text.contains(" NCCL WARN ");
        let wanted = match (self.level, text.split_once(" NCCL INFO ")) {
            (Level::Version, info) => info.is_some_and(|(_, said)| said.starts_with(VERSION)),
            (Level::Warn, Some((_, said))) => said.starts_with(VERSION),
            (Level::Warn, None) => is_warning || text.starts_with(VERSION),
            (_, Some((_, said))) => self.is_asked_for(said),
            (_, None) => true,
        };
        if wanted {
            // Below INFO the library says its version without a prefix.
            let bare = match text.split_once(" NCCL INFO ") {
                Some((_, said)) if self.level == Level::Version || self.level == Level::Warn => {
                    said.as_bytes()
                }
                _ => line,
            };
            if self.after_empty {
                out.push(b'\n');
            }
            out.extend(bare);
        }
        self.after_empty = false;
    }

    fn is_asked_for(&self, said: &str) -> bool {
        let subsystems = subsystems(said);
        // Every subsystem says its version.
        said.starts_with(VERSION)
            || subsystems.is_empty()
            || subsystems.iter().any(|one| self.without.iter().all(|without| without != one))
    }
}

/// The subsystems that each bring a line about; empty if that is not known. Source: `src/init.cc`, `src/graph/*.cc`,
/// `src/transport/*.cc`, `src/misc/param.cc`, `src/plugin/` of NCCL 2.8 to 2.30.
fn subsystems(said: &str) -> &'static [&'static str] {
    // 2.29 and later begin some lines so.
    let said = match said.strip_prefix("[Rank ").and_then(|rest| rest.split_once("] ")) {
        Some((_, rest)) => rest,
        None => said,
    };
    let starts = |words: &[&str]| words.iter().any(|word| said.starts_with(word));
    let is_search_row = said.trim_start().split_once(" :").is_some_and(|(channel, rest)| {
        channel.bytes().all(|byte| byte.is_ascii_digit())
            && (rest.starts_with(" GPU/") || rest.starts_with(" NET/"))
    });
    let is_tree =
        said.strip_prefix("Tree ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    // The topology: its head and foot, its tree of parts, and the paths between them.
    let is_link = said.trim_start().strip_prefix("+ ").is_some_and(|rest| rest.contains("] - "));
    let is_path = said
        .strip_prefix("NET/")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()) && rest.contains(" :"));
    let is_topology = is_link || is_path || starts(&["=== System", "==========", "CPU/", "GPU/"]);
    if is_search_row || is_tree || is_topology || starts(&["Pattern ", "Ring ", "NVLS Graph"]) {
        return &["GRAPH"];
    }
    if said.contains(" set by environment to ") {
        return &["ENV"];
    }
    if starts(&["NET/", "Using network ", "Initialized NET plugin", "Assigned NET plugin"])
        || said.contains(" via NET/")
    {
        return &["INIT", "NET"];
    }
    if said.starts_with("Init timings - ") {
        return &["INIT", "PROFILE"];
    }
    if said.contains(" via P2P/") {
        return &["INIT", "P2P"];
    }
    if said.contains(" via SHM/") || said.contains(" via direct shared memory") {
        return &["INIT", "SHM"];
    }
    if starts(&["PROFILER/Plugin: ", "Successfully loaded external profiler plugin "]) {
        return &["INIT", "ENV"];
    }
    if said.starts_with("NVLS comm ") {
        return &["INIT", "NVLS"];
    }
    let is_init =
        starts(&["Channel ", "Trees ", "Connected ", "threadThresholds ", "comm 0x", "P2P Chunksize"])
            || starts(&[
                "NVLS multicast support",
                "CommRevokeAsync ",
                "Profiler event mask",
                "Check P2P Type",
            ])
            || said.contains(" coll channels, ")
            || said.contains(" comm 0x") && said.contains(" rank ");
    if is_init { &["INIT"] } else { &[] }
}

const VERSION: &str = "NCCL version ";
/// Longer lines are passed on in pieces.
const MAX_LINE_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "n:1:2 [0] NCCL INFO NCCL version 2.28.9+cuda12.9\n\
        n:1:2 [0] NCCL INFO NCCL_DEBUG set by environment to INFO.\n\
        n:1:2 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 2 cudaDev 0 - Init START\n\
        n:1:2 [0] NCCL INFO Pattern 4, crossNic 0, nChannels 2, bw 1.0/1.0, type LOC/PIX, sameChannels 1\n\
        n:1:2 [0] NCCL INFO  0 : GPU/0-0 GPU/0-1\n\
        n:1:2 [0] NCCL INFO Ring 00 : 1 -> 0 -> 1\n\
        \nn:1:2 [0] NCCL WARN Cuda failure\n\
        n:1:2 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1\n";

    fn check(level: Level, without: &[&str], expected: &[&str]) {
        let without: Vec<String> = without.iter().map(|&name| name.to_owned()).collect();
        for piece in [1, 7, 4096] {
            let mut filter = Filter::new(level, &without);
            let mut out: Vec<u8> =
                LOG.as_bytes().chunks(piece).flat_map(|bytes| filter.feed(bytes)).collect();
            out.extend(filter.finish());
            let said = String::from_utf8(out).unwrap();
            let found: Vec<&str> =
                said.lines().map(|line| line.trim_start_matches("n:1:2 [0] NCCL ")).collect();
            assert_eq!(found.len(), expected.len(), "{found:#?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.starts_with(expected), "{found}, not {expected}");
            }
        }
    }

    #[test]
    fn each_level_gets_what_the_library_would_have_said() {
        check(Level::Version, &[], &["NCCL version 2.28.9"]);
        check(Level::Warn, &[], &["NCCL version 2.28.9", "", "WARN Cuda failure"]);
    }

    #[test]
    fn lines_of_subsystems_that_only_ringscope_wants_are_kept_back() {
        let all =
            ["INFO NCCL version", "INFO NCCL_DEBUG", "INFO ncclComm", "INFO Pattern", "INFO  0", "INFO Ring"];
        let rest = ["", "WARN Cuda failure", "INFO AllReduce"];
        check(Level::Info, &[], &[&all[..], &rest].concat());
        check(Level::Info, &["GRAPH"], &[&all[..3], &rest].concat());
        check(Level::Info, &["INIT", "GRAPH", "ENV"], &[&all[..1], &rest].concat());
    }

    #[test]
    fn a_line_of_two_subsystems_is_for_who_asked_for_either() {
        let line = b"n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0\n";
        let passes = |without: &[&str]| {
            let without: Vec<String> = without.iter().map(|&name| name.to_owned()).collect();
            Filter::new(Level::Info, &without).feed(line) == line
        };
        assert!(passes(&["INIT", "GRAPH", "ENV"]) && passes(&["GRAPH", "NET"]));
        assert!(!passes(&["INIT", "GRAPH", "ENV", "NET"]));
    }

    #[test]
    fn the_topology_is_of_graph_alone() {
        for said in [
            "=== System : maxBw 1.2 totalBw 12.0 ===",
            "CPU/0-0 (1/1/3)",
            "+ PCI[12.0] - NIC/0-30",
            "              + NET[1.2] - NET/0-0 (0/0/1/1.250000)",
            "==========================================",
            "GPU/0-1 :GPU/0-0 (2/5000.0/LOC) CPU/0-0 (1/5000.0/LOC) ",
            "NET/0-0 :GPU/0-0 (4/1.2/PHB) ",
        ] {
            assert_eq!(subsystems(said), ["GRAPH"], "{said}");
        }
        assert_eq!(subsystems("NET/Socket : Using [0]eth0:10.0.0.1<0>"), ["INIT", "NET"]);
    }

    #[test]
    fn lines_of_an_init_are_of_init_and_of_what_they_tell_of() {
        for (said, expected) in [
            ("Init timings - ncclCommInitRank: rank 0 nranks 2 total 0.02", &["INIT", "PROFILE"][..]),
            ("Assigned NET plugin IB to comm", &["INIT", "NET"]),
            ("NVLS comm 0x55 headRank 0 nHeads 8", &["INIT", "NVLS"]),
            ("NVLS multicast support is available on dev 0", &["INIT"]),
            ("Connected NVLS tree", &["INIT"]),
            ("PROFILER/Plugin: Loaded ringscope (v7)", &["INIT", "ENV"]),
            ("CommRevokeAsync START comm 0x55 rank 0 nRanks 2", &["INIT"]),
        ] {
            assert_eq!(subsystems(said), expected, "{said}");
        }
    }

    #[test]
    fn a_line_that_was_cut_by_the_end_is_passed_on() {
        let mut filter = Filter::new(Level::Warn, &[]);
        assert!(filter.feed(b"n:1:2 [0] NCCL WARN half").is_empty());
        assert_eq!(filter.finish(), b"n:1:2 [0] NCCL WARN half\n");
        assert!(filter.finish().is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_pass(pieces: Vec<Vec<u8>>) {
            let mut filter = Filter::new(Level::Info, &[]);
            let mut out: Vec<u8> = pieces.iter().flat_map(|piece| filter.feed(piece)).collect();
            out.extend(filter.finish());
            let lines = |bytes: &[u8]| bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
            proptest::prop_assert_eq!(lines(&out), lines(&pieces.concat()));
        }
    }
}
