//! What real ranks on pretended hosts write down about their topology, and what they do with such files.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;

use common::{Job, folder, rank_program};

/// Four ranks on two hosts; returns the log of each rank.
fn run(folder: &Path, environment: &dyn Fn(usize) -> Vec<(String, String)>) -> Vec<String> {
    let program = rank_program(folder);
    let log = |rank: usize| folder.join(format!("log.{rank}"));
    let environment = |rank: usize| {
        let mut all = environment(rank);
        all.push(("NCCL_DEBUG".to_owned(), "INFO".to_owned()));
        all.push(("NCCL_DEBUG_SUBSYS".to_owned(), "INIT,GRAPH,ENV".to_owned()));
        all.push(("NCCL_DEBUG_FILE".to_owned(), log(rank).display().to_string()));
        all
    };
    let job = Job { program: &program, n_ranks: 4, command: &["init"], environment: &environment };
    job.start().into_iter().for_each(|rank| assert_eq!(rank.rest(), "DONE\n"));
    (0..4).map(|rank| std::fs::read_to_string(log(rank)).unwrap()).collect()
}

/// A machine without NUMA nodes, whose NICs are in this state.
fn machine(folder: &Path, nics: &[(&str, &str)]) -> String {
    for (name, state) in nics {
        let nic = folder.join("class/net").join(name);
        std::fs::create_dir_all(&nic).unwrap();
        std::fs::write(nic.join("operstate"), format!("{state}\n")).unwrap();
        std::fs::write(nic.join("speed"), "25000\n").unwrap();
    }
    folder.display().to_string()
}

#[test]
fn topology_and_graph_are_written_in_nccls_form() {
    let folder = folder("dump");
    let sysfs = machine(&folder.join("sys"), &[("mlx5_0", "up"), ("mlx5_1", "up")]);
    let path = |name: &str| folder.join(name).display().to_string();
    let logs = run(&folder, &|_| {
        vec![
            ("RSCCL_SYSFS".to_owned(), sysfs.clone()),
            ("NCCL_TOPO_DUMP_FILE".to_owned(), path("topology.xml")),
            ("NCCL_TOPO_DUMP_FILE_RANK".to_owned(), "3".to_owned()),
            ("RSCCL_GRAPH_DUMP_FILE".to_owned(), path("graphs.xml")),
        ]
    });
    let topology = std::fs::read_to_string(path("topology.xml")).unwrap();
    for part in [
        r#"<gpu dev="0" sm="0" rank="2" gdr="0"/>"#,
        r#"<gpu dev="1" sm="0" rank="3" gdr="0"/>"#,
        r#"<net name="mlx5_1" dev="1" latency="0" speed="25000" port="0""#,
    ] {
        assert!(topology.contains(part), "{part}: {topology}");
    }
    let graphs = std::fs::read_to_string(path("graphs.xml")).unwrap();
    let head = r#"<graph id="0" pattern="4" crossnic="0" nchannels="2" speedintra="3" speedinter="3""#;
    assert!(graphs.contains(head), "{graphs}");
    assert_eq!(graphs.matches(r#"<net dev="0x1"/>"#).count(), 4, "in and out, ring and tree: {graphs}");
    for line in [
        "=== System : maxBw 3.1 totalBw 6.2 ===",
        "NCCL INFO NET/0-1 :GPU/0-0 (2/3.1/PHB) GPU/0-1 (2/3.1/PHB) CPU/0-0 (1/3.1/PHB) ",
        "Pattern 4, crossNic 0, nChannels 2, bw 3.000000/3.000000, type LOC/PHB, sameChannels 0",
        " 1 : NET/0-1 GPU/0-1 GPU/0-0 NET/0-1",
        "Trees [0] ",
        "Channel 00/0 : 1[1] -> 2[0] [send] via NET/Socket/0",
        "Channel 01 : 1[1] -> 0[0] via SHM/direct/direct",
    ] {
        assert!(logs[1].contains(line), "{line}: {}", logs[1]);
    }
}

#[test]
fn a_graph_file_on_one_host_lowers_the_channels_of_all() {
    let folder = folder("graph");
    let file = folder.join("graphs.xml");
    let channel = r#"<channel><net dev="0x1"/><gpu dev="0x1"/><gpu dev="0x0"/><net dev="0x1"/></channel>"#;
    std::fs::write(&file, format!("<graphs version=\"1\"><graph id=\"0\">{channel}</graph></graphs>"))
        .unwrap();
    let logs = run(&folder, &|rank| {
        let path = file.display().to_string();
        if rank < 2 { Vec::new() } else { vec![("NCCL_GRAPH_FILE".to_owned(), path)] }
    });
    assert!(logs[2].contains("Search 0 : 1 channels loaded from XML graph"), "{}", logs[2]);
    assert!(logs[2].contains("Pattern 4, crossNic 0, nChannels 1,"), "{}", logs[2]);
    assert!(logs[0].contains("Pattern 4, crossNic 0, nChannels 2,"), "{}", logs[0]);
    assert!(logs[0].contains("Channel 01/02 : 0 1 3 2"), "{}", logs[0]);
    assert!(logs[2].contains("via NET/Socket/1"), "the file's NIC: {}", logs[2]);
}

#[test]
fn a_nic_that_is_down_leaves_its_rail_to_nobody() {
    let folder = folder("down");
    let up = machine(&folder.join("up"), &[("mlx5_0", "up"), ("mlx5_1", "up")]);
    let down = machine(&folder.join("down"), &[("mlx5_0", "down"), ("mlx5_1", "up")]);
    let logs = run(&folder, &|rank| {
        vec![("RSCCL_SYSFS".to_owned(), if rank < 2 { up.clone() } else { down.clone() })]
    });
    assert!(logs[0].contains("nChannels 2,") && logs[2].contains("nChannels 1,"), "{}{}", logs[0], logs[2]);
    assert!(logs[0].contains("2 coll channels"), "{}", logs[0]);
    // Index 1 is mlx5_1 on the first host; on the second, it is the only NIC.
    assert!(logs[1].contains("1[1] -> 2[0] [send] via NET/Socket/1"), "{}", logs[1]);
    assert!(logs[2].contains("1[1] -> 2[0] [receive] via NET/Socket/0"), "{}", logs[2]);
    assert!(!logs[0].contains("via NET/Socket/0") && !logs[1].contains("via NET/Socket/0"), "{}", logs[1]);
}

#[test]
fn files_that_cannot_be_used_are_warned_of_and_do_not_stop() {
    let folder = folder("unusable");
    let file = folder.join("cut.xml");
    std::fs::write(&file, "<graphs><graph id=\"0\">").unwrap();
    let logs = run(&folder, &|_| {
        let file = file.display().to_string();
        vec![
            ("NCCL_GRAPH_FILE".to_owned(), file.clone()),
            ("NCCL_TOPO_FILE".to_owned(), file),
            ("NCCL_TOPO_DUMP_FILE".to_owned(), "/nowhere/topology.xml".to_owned()),
        ]
    });
    for note in [
        "NCCL WARN Could not use graph file",
        "was cut: <graph> does not end",
        "NCCL WARN Could not use topology file",
        "has <graphs> and not <system>",
        "cannot write /nowhere/topology.xml",
    ] {
        assert!(logs[0].contains(note), "{note}: {}", logs[0]);
    }
    assert!(logs[0].contains("nChannels 2,"), "{}", logs[0]);
}
