//! Pictures of rings: from two ranks to 256, complete and not, light and dark.

#![allow(missing_docs, reason = "a test")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by them"
)]

use std::collections::BTreeSet;
use std::path::Path;

use ringscope_daemon::api::{
    ChannelPrediction, CommunicatorDetail, CommunicatorState, CommunicatorSummary, Completion, Coverage,
    FindingCounts, Hop, Ring,
};
use ringscope_daemon::clock::Timestamp;
use ringscope_daemon::plots::{Format, RingPlot, Theme};

fn ring(n_hosts: u32, ranks_per_host: u32) -> Ring {
    let n_ranks = n_hosts * ranks_per_host;
    let order = (0..n_ranks).map(|rank| {
        let leaves = rank % ranks_per_host == ranks_per_host - 1 && n_hosts > 1;
        Hop {
            rank,
            host: format!("gpu-node-{:02}", rank / ranks_per_host),
            gpu: Some(format!("{:02x}:00.0", rank % ranks_per_host)),
            transport: Some(if leaves { "NET/IB" } else { "P2P/IPC" }.to_owned()),
            nic: leaves.then(|| format!("mlx5_{}", rank % 4)),
            next: (rank + 1) % n_ranks,
            recv_nic: None,
            gpu_direct: None,
            proxy_rank: None,
            odd: Vec::new(),
            sent_bytes: None,
        }
    });
    Ring { channel: 0, complete: true, missing_ranks: vec![], problem: None, order: order.collect() }
}

fn communicator(ring: &Ring) -> CommunicatorDetail {
    let mut hosts: Vec<String> = ring.order.iter().map(|hop| hop.host.clone()).collect();
    hosts.dedup();
    let summary = CommunicatorSummary {
        id: "9f3b5c6d7e8f".into(),
        comm_hash: "0x9f3b5c6d7e8f9a0b".into(),
        job: "llama-pretrain-17".into(),
        purpose: None,
        name: Some("tensor-parallel".into()),
        state: CommunicatorState::Active,
        created: Timestamp(0),
        ended: None,
        n_ranks: u32::try_from(ring.order.len()).unwrap(),
        n_ranks_seen: u32::try_from(ring.order.len()).unwrap(),
        n_nodes: u32::try_from(hosts.len()).unwrap(),
        hosts,
        base: Some(4),
        final_channels: Some(8),
        culprits: vec![],
        degraded: true,
        coverage: Coverage::default(),
        completion: Completion::Profiler,
        findings: FindingCounts::default(),
        issued_bytes: 0,
        completed_bytes: 0,
        completed_bytes_per_s: 0.0,
    };
    CommunicatorDetail { summary, prediction: ChannelPrediction::default(), ranks: vec![] }
}

/// Draws, keeps the picture where a person can look at it, and gives it back.
fn draw(name: &str, ring: &Ring, theme: Theme, format: Format) -> Vec<u8> {
    let communicator = communicator(ring);
    let degraded_hosts = BTreeSet::from(["gpu-node-01".to_owned()]);
    let plot = RingPlot {
        communicator: &communicator,
        ring,
        channels: 8,
        degraded_hosts: &degraded_hosts,
        theme,
        size_px: 900,
    };
    let picture = plot.draw(format).unwrap();
    std::fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name), &picture).unwrap();
    picture
}

#[test]
fn svg_names_what_it_shows() {
    let svg = String::from_utf8(draw("ring-8.svg", &ring(2, 4), Theme::Light, Format::Svg)).unwrap();
    for part in [
        "llama-pretrain-17",
        "9f3b5c6d7e8f",
        "channel 0 of 8",
        "init 4 → final 8",
        "gpu-node-00",
        "mlx5_3",
        "⚠ gpu-node-01",
    ] {
        assert!(svg.contains(part), "{part}");
    }
    assert!(svg.starts_with("<svg"));
}

#[test]
fn every_size_has_a_picture() {
    for (n_hosts, ranks_per_host) in [(1, 2), (2, 1), (4, 8), (8, 8), (32, 8), (128, 2), (1, 256)] {
        let name = format!("ring-{n_hosts}x{ranks_per_host}.png");
        let picture = draw(&name, &ring(n_hosts, ranks_per_host), Theme::Dark, Format::Png);
        let decoder = png::Decoder::new(std::io::Cursor::new(&picture));
        let info = decoder.read_info().unwrap();
        assert_eq!((info.info().width, info.info().height), (900, 900), "{name}");
    }
}

#[test]
fn incomplete_and_empty_rings_say_so() {
    let mut broken = ring(4, 4);
    broken.order.truncate(9);
    broken.complete = false;
    broken.missing_ranks = vec![9, 10];
    broken.problem = Some("rank 9 has not said its place".into());
    let svg = String::from_utf8(draw("ring-broken.svg", &broken, Theme::Light, Format::Svg)).unwrap();
    assert!(svg.contains("incomplete: rank 9 has not said its place"));
    draw("ring-broken.png", &broken, Theme::Light, Format::Png);
    broken.order.clear();
    draw("ring-empty.png", &broken, Theme::Light, Format::Png);
}

#[test]
fn a_ring_that_zigzags_between_hosts_is_drawn_across() {
    let mut zigzag = ring(2, 4);
    let order = [0, 4, 1, 5, 2, 6, 3, 7];
    zigzag.order = (0..8)
        .map(|at| {
            let mut hop = zigzag.order[order[at]].clone();
            hop.next = u32::try_from(order[(at + 1) % 8]).unwrap();
            hop.transport = Some("NET/Socket".into());
            hop.nic = Some("eth0".into());
            hop
        })
        .collect();
    draw("ring-zigzag.png", &zigzag, Theme::Light, Format::Png);
}
