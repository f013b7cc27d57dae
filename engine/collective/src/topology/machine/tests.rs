//! What is found in the described machines, held against what real ones have logged.

use super::files::Machine;
use super::print;
use super::search::{TopoGraph, Wanted, search};
use super::system::System;
use crate::faithful::Version;
use crate::topology::search::CrossNic;

fn system(machine: &str, n_gpus: u32, inter: bool) -> System {
    let machine = Machine::parse(machine).unwrap();
    System::new(&machine.tree, &(0..n_gpus).collect::<Vec<_>>(), inter, true).unwrap()
}

fn rings(system: &System) -> TopoGraph {
    search(system, Wanted::rings(CrossNic::IfBetter, Version::V2_28))
}

fn told(machine: &str, n_gpus: u32, inter: bool) -> String {
    let system = system(machine, n_gpus, inter);
    let found = rings(&system);
    let trees = search(&system, Wanted::rings(CrossNic::IfBetter, Version::V2_28).trees(&found));
    let head = |found: &TopoGraph| print::found(&system, found).remove(0);
    format!("{}; {}", head(&found), head(&trees))
}

/// Known of the first two: 12 channels of 20 and of 30 GB/s within a node, 8 of 24 and of 48 between nodes.
#[test]
fn each_machine_has_its_channels() {
    let table = [
        (
            "dgx-a100",
            false,
            "Pattern 4, crossNic 0, nChannels 12, bw 20.000000/20.000000, type NVL/PIX, sameChannels 1; \
             Pattern 1, crossNic 0, nChannels 12, bw 20.000000/20.000000, type NVL/PIX, sameChannels 1",
        ),
        (
            "dgx-a100",
            true,
            "Pattern 4, crossNic 0, nChannels 8, bw 24.000000/24.000000, type NVL/PXB, sameChannels 0; \
             Pattern 1, crossNic 0, nChannels 8, bw 30.000000/24.000000, type NVL/PXB, sameChannels 0",
        ),
        (
            "dgx-h100",
            false,
            "Pattern 4, crossNic 0, nChannels 12, bw 30.000000/30.000000, type NVL/PIX, sameChannels 1; \
             Pattern 1, crossNic 0, nChannels 12, bw 30.000000/30.000000, type NVL/PIX, sameChannels 1",
        ),
        (
            "dgx-h100",
            true,
            "Pattern 4, crossNic 2, nChannels 8, bw 48.000000/48.000000, type NVL/PIX, sameChannels 0; \
             Pattern 3, crossNic 0, nChannels 8, bw 48.000000/48.000000, type NVL/PIX, sameChannels 0",
        ),
        (
            "mi300x-like",
            true,
            "Pattern 4, crossNic 0, nChannels 7, bw 48.000000/48.000000, type XGMI/PXN, sameChannels 0; \
             Pattern 3, crossNic 0, nChannels 7, bw 48.000000/48.000000, type XGMI/PIX, sameChannels 0",
        ),
        (
            "pcie",
            false,
            "Pattern 4, crossNic 0, nChannels 1, bw 10.000000/10.000000, type SYS/PIX, sameChannels 1; \
             Pattern 1, crossNic 0, nChannels 1, bw 10.000000/10.000000, type SYS/PIX, sameChannels 1",
        ),
    ];
    for (machine, inter, expected) in table {
        assert_eq!(told(machine, 8, inter), expected, "{machine} {inter}");
    }
}

/// What a rank of a real log wrote behind its prefix.
fn lines_of(log: &str, rank: &str) -> Vec<String> {
    let text = std::fs::read_to_string(format!("{}/../../fixtures/logs/{log}", env!("CARGO_MANIFEST_DIR")));
    let text = text.unwrap();
    let of_rank = text.lines().filter_map(|line| line.split_once(rank).map(|(_, said)| said.to_owned()));
    of_rank.collect()
}

/// The whole topology of a server of eight A800, as NCCL 2.27.3 wrote it, and its channels.
#[test]
fn a_real_server_is_shown_as_nccl_showed_it() {
    let machine = Machine::parse(include_str!("tests_data/hgx-a800.xml")).unwrap();
    let devices: Vec<u32> = (0..8).collect();
    let system = System::new(&machine.tree, &devices, false, false).unwrap();
    let log = lines_of("nccl-2.27.3-a800-8gpu-graph.log", "[5] NCCL INFO ");
    let start = log.iter().position(|line| line.starts_with("=== System")).unwrap();
    let own = print::system(&system, &devices.iter().map(|device| *device as usize).collect::<Vec<_>>());
    // A log's lines that are longer than its readers like were cut.
    for (own, real) in own.iter().zip(&log[start..]) {
        assert_eq!(own, real);
    }
    let found = rings(&system);
    let trees = search(&system, Wanted::rings(CrossNic::IfBetter, Version::V2_27).trees(&found));
    for found in [&found, &trees] {
        let own = print::found(&system, found);
        let at = log.iter().position(|line| *line == own[0]).unwrap();
        let order = |row: &String| row.matches("GPU/").count();
        assert_eq!(
            own.iter().map(order).collect::<Vec<_>>(),
            log[at..at + own.len()].iter().map(order).collect::<Vec<_>>()
        );
        let in_order = (0..8).collect::<Vec<_>>();
        assert!(found.channels.iter().all(|channel| channel.order == in_order));
    }
}

/// Two servers of four H100 in a mesh, and one of them: the rings that NCCL 2.18.5 wrote.
#[test]
fn a_mesh_has_the_rings_that_nccl_found() {
    let machine = Machine::parse(include_str!("tests_data/xe8640.xml")).unwrap();
    let orders = |inter: bool| {
        let system = System::new(&machine.tree, &[0, 1, 2, 3], inter, true).unwrap();
        let found = search(&system, Wanted::rings(CrossNic::Never, Version::V2_28));
        found.channels.into_iter().map(|channel| channel.order).collect::<Vec<_>>()
    };
    let log =
        lines_of("nccl-2.18.5-h100-2node-8ranks-4comms.log", "0: xe8640node05:200893:201382 [0] NCCL INFO ");
    for (channel, order) in orders(false).iter().enumerate() {
        let shown: Vec<String> = order.iter().map(usize::to_string).collect();
        let line = format!("Channel {channel:02}/24 :    {}", shown.join("   "));
        assert!(log.contains(&line), "{line}");
    }
    assert_eq!(orders(false).len(), 12);
    assert_eq!(orders(true).len(), 8);
}
