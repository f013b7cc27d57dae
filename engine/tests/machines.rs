//! The log of ranks on described machines (`RSCCL_MACHINE`), as each version of NCCL words it, held to committed logs, which
//! `RINGSCOPE_BLESS=1 cargo test -p ringscope-engine --test machines` writes anew.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use common::{Job, Rank, compile, folder, rank_program};

/// A job of two hosts, or one: how many ranks each has, and what its environment is.
struct Ranks<'a> {
    name: &'a str,
    hosts: usize,
    per_host: usize,
    program: &'a str,
    settings: &'a [(&'a str, &'a str)],
}

impl Ranks<'_> {
    /// What each rank has written, by rank.
    fn logs(&self) -> Vec<String> {
        let folder = folder(&format!("machines-{}", self.name));
        let program = folder.join(self.program);
        compile(&format!("{}.c", self.program), &program, &["-lrsccl"]);
        let log = folder.join("log.%p").to_string_lossy().into_owned();
        let environment = |rank: usize| {
            let host = rank / self.per_host + 1;
            let (host, nics) = (format!("host-{host}"), format!("eth0=127.0.{host}.1"));
            let own = [
                ("RSCCL_HOST", host.as_str()),
                ("RSCCL_NICS", &nics),
                ("NCCL_PROFILER_PLUGIN", "none"),
                ("NCCL_DEBUG", "INFO"),
                ("NCCL_DEBUG_SUBSYS", "ALL"),
                ("NCCL_DEBUG_FILE", &log),
            ];
            let all = own.iter().chain(self.settings);
            all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let n_ranks = self.hosts * self.per_host;
        let job = Job { program: &program, n_ranks, command: &[], environment: &environment };
        let end = |process: Rank| {
            let pid = process.child.id();
            assert_eq!(process.rest(), "DONE\n", "{}", self.name);
            std::fs::read_to_string(folder.join(format!("log.{pid}"))).unwrap()
        };
        let logs = job.start().into_iter().map(end).collect();
        std::fs::remove_dir_all(folder).unwrap();
        logs
    }
}

/// A log without what differs from run to run: processes, threads, addresses, ids and times.
fn steady(rank: usize, log: &str) -> String {
    let mut threads: HashMap<&str, usize> = HashMap::new();
    let (mut text, pid) = (String::new(), 1000 * (rank + 1));
    for line in log.lines() {
        let (head, rest) = line.split_once(' ').unwrap_or((line, ""));
        let writer: Vec<&str> = head.split(':').collect();
        let head = if let [host, _, thread] = writer[..] {
            let known = threads.len();
            let thread = *threads.entry(thread).or_insert(known);
            format!("{host}:{pid}:{}", pid + thread)
        } else {
            head.to_owned()
        };
        let words = rest.split(' ').map(|word| steady_word(rank, word));
        let line = [head].into_iter().chain(words).collect::<Vec<_>>().join(" ");
        let line = line.split_once(" total ").map_or(line.as_str(), |(timings, _)| timings);
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// Addresses by rank, and the communicator's id, which is twice as long as any other number in hexadecimal.
fn steady_word(rank: usize, word: &str) -> String {
    let digits = word.trim_start_matches("comm:").trim_end_matches(',').strip_prefix("0x");
    match digits.map(str::len) {
        Some(13..) if digits.is_some_and(|digits| digits.len() > 12) => "0xc0ffee0123456789".to_owned(),
        Some(9..) => word.replace(digits.unwrap_or_default(), &format!("55000000{rank:04}")),
        _ => word.to_owned(),
    }
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/faithful").join(format!("{name}.log"))
}

#[expect(clippy::disallowed_methods, reason = "blessing is asked for by the environment")]
fn is_blessing() -> bool {
    std::env::var_os("RINGSCOPE_BLESS").is_some()
}

fn check(name: &str, logs: &[String]) {
    let own: String = logs.iter().enumerate().map(|(rank, log)| steady(rank, log)).collect();
    if is_blessing() {
        std::fs::create_dir_all(golden(name).parent().unwrap()).unwrap();
        return std::fs::write(golden(name), own).unwrap();
    }
    let known = std::fs::read_to_string(golden(name)).unwrap();
    for (own, known) in own.lines().zip(known.lines()) {
        assert_eq!(own, known, "{name}");
    }
    assert_eq!(own.lines().count(), known.lines().count(), "{name}");
}

#[test]
fn each_version_writes_its_log() {
    for version in ["2.27", "2.28", "2.30", "2.32"] {
        let name = format!("dgx-h100-{version}");
        let settings = [("RSCCL_FAITHFUL", version), ("RSCCL_MACHINE", "dgx-h100")];
        let ranks = Ranks { name: &name, hosts: 2, per_host: 2, program: "script", settings: &settings };
        check(&name, &ranks.logs());
    }
}

#[test]
fn amds_library_has_its_own_wording() {
    let settings = [("RSCCL_FAITHFUL", "2.27"), ("RSCCL_MACHINE", "mi300x-like")];
    let ranks =
        Ranks { name: "mi300x-like-2.27", hosts: 2, per_host: 2, program: "script", settings: &settings };
    check("mi300x-like-2.27", &ranks.logs());
}

/// How often a log has this.
fn count(logs: &[String], words: &str) -> usize {
    logs.iter().map(|log| log.matches(words).count()).sum()
}

#[test]
fn a_box_without_nvlink_goes_over_memory_where_gpus_are_far() {
    let settings = [("RSCCL_FAITHFUL", "2.28"), ("RSCCL_MACHINE", "pcie")];
    let logs = Ranks { name: "pcie", hosts: 1, per_host: 4, program: "script", settings: &settings }.logs();
    // Pairs at a switch reach each other; from one to the next they do not.
    assert!(count(&logs, "0[0] -> 1[1] via P2P/CUMEM\n") > 0, "{}", logs[0]);
    assert!(count(&logs, "1[1] -> 2[2] via SHM/direct/direct\n") > 0, "{}", logs[1]);
    assert_eq!(count(&logs, "Init COMPLETE"), 4);
    assert!(logs[3].contains("cudaDev 3 nvmlDev 3 busId 4a000"), "{}", logs[3]);
}

#[test]
fn what_nccl_connects_at_init_is_told_at_init() {
    let settings = [("RSCCL_FAITHFUL", "2.28"), ("RSCCL_MACHINE", "dgx-h100"), ("NCCL_RUNTIME_CONNECT", "0")];
    let logs = Ranks { name: "early", hosts: 2, per_host: 2, program: "script", settings: &settings }.logs();
    for log in &logs {
        let at = |words: &str| log.find(words).unwrap_or_else(|| panic!("no {words:?} in {log}"));
        let made = at("Init COMPLETE");
        for words in [
            "Connected all rings, use ring PXN 1 GDR 1",
            "Connected all trees",
            "NVLS comm 0x",
            "Connected NVLS tree",
        ] {
            assert!(at(words) < made, "{words}: {log}");
        }
    }
}

/// The file is what another job has written of a machine that is known by name.
#[test]
fn a_machine_may_be_a_file_that_a_job_has_written() {
    let folder = folder("a-machine");
    let file = folder.join("machine.xml");
    let path = file.to_string_lossy();
    let link = |machine: &str, dump: &str| {
        let settings =
            [("RSCCL_FAITHFUL", "2.30"), ("RSCCL_MACHINE", machine), ("NCCL_TOPO_DUMP_FILE", dump)];
        let logs =
            Ranks { name: "file", hosts: 1, per_host: 2, program: "script", settings: &settings }.logs();
        assert!(count(&logs, "0[0] -> 1[1] via P2P/CUMEM/read\n") > 0, "{machine}: {}", logs[0]);
        assert!(logs[1].contains("cudaDev 1 nvmlDev 1 busId f000 "), "{machine}: {}", logs[1]);
    };
    link("dgx-a100", &path);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(r#"rank="1""#) && text.matches("<gpu ").count() == 2, "{text}");
    link(&path, &folder.join("again.xml").to_string_lossy());
    assert_eq!(std::fs::read_to_string(folder.join("again.xml")).unwrap(), text);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_child_keeps_its_parents_gpus() {
    let settings = [("RSCCL_FAITHFUL", "2.28"), ("RSCCL_MACHINE", "dgx-a100")];
    let logs =
        Ranks { name: "children", hosts: 1, per_host: 4, program: "children", settings: &settings }.logs();
    for (rank, bus_id) in ["7000", "f000", "47000", "4e000"].into_iter().enumerate() {
        let line = |api: &str| {
            let found = logs[rank].lines().find(|line| line.contains(api) && line.contains("Init COMPLETE"));
            found.unwrap_or_else(|| panic!("no {api} in {}", logs[rank])).to_owned()
        };
        let device = format!("cudaDev {rank} nvmlDev {rank} busId {bus_id} ");
        assert!(line("ncclCommSplit").contains(&format!("rank {} nranks 2 {device}", rank % 2)));
        if rank > 0 {
            assert!(line("ncclCommShrink").contains(&format!("rank {} nranks 3 {device}", rank - 1)));
        }
    }
}

/// What four ranks on two hosts say that get no communicator.
fn refusals(name: &str, setting: &str, value: &dyn Fn(usize) -> String) -> Vec<String> {
    let folder = folder(&format!("machines-{name}"));
    let program = rank_program(&folder);
    let environment = |rank: usize| {
        let version = ("RSCCL_FAITHFUL".to_owned(), "2.28".to_owned());
        vec![version, (setting.to_owned(), value(rank))]
    };
    let job = Job { program: &program, n_ranks: 4, command: &["init"], environment: &environment };
    let said = job.start().into_iter().map(Rank::rest).collect();
    std::fs::remove_dir_all(folder).unwrap();
    said
}

#[test]
fn ranks_that_show_as_different_versions_are_all_refused_by_name() {
    for odd in ["2.30", "off"] {
        let value = |rank| if rank == 3 { odd } else { "2.28" }.to_owned();
        let wanted = format!("RSCCL_FAITHFUL is not the same: 2.28 on ranks 0-2; {odd} on rank 3\n");
        for said in refusals("versions", "RSCCL_FAITHFUL", &value) {
            assert!(said.starts_with("ERROR 5 ") && said.contains(&wanted), "{odd}: {said}");
        }
    }
}

#[test]
fn ranks_of_a_host_that_show_as_different_machines_are_all_refused_by_name() {
    let value = |rank| if rank == 3 { "pcie" } else { "dgx-a100" }.to_owned();
    for said in refusals("hosts", "RSCCL_MACHINE", &value) {
        let wanted =
            "RSCCL_MACHINE is not the same on the ranks of host host-2: dgx-a100 on rank 2; pcie on rank 3";
        assert!(said.starts_with("ERROR 5 ") && said.contains(wanted), "{said}");
    }
}

#[test]
fn a_machine_without_the_faithful_mode_is_warned_of() {
    let settings = [("RSCCL_MACHINE", "dgx-h100")];
    let logs =
        Ranks { name: "useless", hosts: 1, per_host: 2, program: "script", settings: &settings }.logs();
    assert_eq!(
        count(&logs, "NCCL WARN RSCCL_MACHINE has an effect only with RSCCL_FAITHFUL\n"),
        2,
        "{}",
        logs[0]
    );
}
