//! Pictures: rings from two ranks to 8 000, bars of channels, bytes over time; complete and not, light and dark.

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

use ringscope_api::clock::Timestamp;
use ringscope_api::{
    ChannelPrediction, CommunicatorDetail, CommunicatorState, CommunicatorSummary, Completion, Coverage,
    FindingCounts, Hop, OddHop, Rank, RankState, Ring,
};
use ringscope_server::plots::{
    ChannelsPlot, Format, PlotError, PlotLine, RingPlot, RingsPlot, Size, Theme, TimePlot, Unit,
};

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
        standing: Default::default(),
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
    CommunicatorDetail { summary, prediction: ChannelPrediction::default(), ranks: vec![], graphs: None }
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
    keep(name, plot.draw(format))
}

fn keep(name: &str, drawn: Result<Vec<u8>, PlotError>) -> Vec<u8> {
    let picture = drawn.unwrap();
    std::fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name), &picture).unwrap();
    picture
}

fn svg(picture: Vec<u8>) -> String {
    String::from_utf8(picture).unwrap()
}

fn extent(png: &[u8]) -> (u32, u32) {
    let info = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    (info.info().width, info.info().height)
}

#[test]
fn svg_names_what_it_shows() {
    let svg = svg(draw("ring-8.svg", &ring(2, 4), Theme::Light, Format::Svg));
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
        assert_eq!(extent(&picture), (900, 900), "{name}");
    }
}

#[test]
fn incomplete_and_empty_rings_say_so() {
    let mut broken = ring(4, 4);
    broken.order.truncate(9);
    broken.complete = false;
    broken.missing_ranks = vec![9, 10];
    broken.problem = Some("rank 9 has not said its place".into());
    let svg = svg(draw("ring-broken.svg", &broken, Theme::Light, Format::Svg));
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

fn rings(n_channels: u32, n_hosts: u32, ranks_per_host: u32) -> Vec<Ring> {
    (0..n_channels).map(|channel| Ring { channel, ..ring(n_hosts, ranks_per_host) }).collect()
}

fn draw_all(name: &str, rings: &[Ring], theme: Theme, format: Format) -> Vec<u8> {
    let communicator = communicator(rings.first().unwrap_or(&ring(2, 4)));
    let degraded_hosts = BTreeSet::from(["gpu-node-01".to_owned()]);
    let (communicator, degraded_hosts) = (&communicator, &degraded_hosts);
    keep(name, RingsPlot { communicator, rings, degraded_hosts, theme, size_px: 900 }.draw(format))
}

#[test]
fn all_channels_are_side_by_side() {
    for (n_channels, n_hosts, theme) in
        [(1, 1, Theme::Light), (8, 4, Theme::Light), (64, 4, Theme::Dark), (16, 1000, Theme::Dark)]
    {
        let mut rings = rings(n_channels, n_hosts, 8);
        rings[0].order[3].odd = vec![OddHop::Fallback];
        let name = format!("rings-{n_channels}x{n_hosts}.png");
        assert_eq!(extent(&draw_all(&name, &rings, theme, Format::Png)), (900, 900));
    }
    let mut some = rings(3, 2, 4);
    some[1].complete = false;
    some[2].order[3].odd = vec![OddHop::CrossRail];
    let text = svg(draw_all("rings.svg", &some, Theme::Light, Format::Svg));
    for part in
        ["3 channels · 8 ranks on 2 hosts · 1 incomplete", "1 incomplete", "odd: 1 hops", "NET/IB: 6 hops"]
    {
        assert!(text.contains(part), "{part}");
    }
    let many = svg(draw_all("rings-many.svg", &rings(70, 1, 2), Theme::Light, Format::Svg));
    assert!(many.contains("the first 64 of 70 channels"));
    assert!(svg(draw_all("rings-none.svg", &[], Theme::Light, Format::Svg)).contains("no rings are known"));
}

/// Hosts of eight ranks, of which those named in `culprits` have found half of the channels.
fn with_channels(n_hosts: u32, culprits: &[u32]) -> CommunicatorDetail {
    let mut detail = communicator(&ring(n_hosts, 8));
    let name = |host: u32| format!("gpu-node-{host:02}");
    detail.summary.culprits = culprits.iter().map(|host| name(*host)).collect();
    let rank = |rank: u32| Rank {
        rank,
        global_rank: None,
        host: name(rank / 8),
        pid: rank,
        place: None,
        gpu: None,
        standing: Default::default(),
        state: RankState::Running,
        init_channels: Some(if culprits.contains(&(rank / 8)) { 8 } else { 16 }),
        final_channels: Some(16),
        cause: String::new(),
        causes: vec![],
        node: None,
        library_version: None,
        compute_capability: None,
        ring_bw_intra: None,
        ring_bw_inter: None,
        gpu_direct: None,
        sources: vec![],
        completion: Completion::Profiler,
        level: None,
        profiler_version: None,
        operation: None,
    };
    detail.ranks = (0..n_hosts * 8).map(rank).collect();
    detail
}

fn draw_channels(name: &str, communicator: &CommunicatorDetail, theme: Theme, format: Format) -> Vec<u8> {
    let source = "ringscope · from the library's logs".to_owned();
    keep(name, ChannelsPlot { communicator, source, theme, size: SIZE }.draw(format))
}

#[test]
fn channels_of_hosts_are_bars_with_the_culprits_first() {
    for (n_hosts, culprits, theme) in
        [(1, &[][..], Theme::Light), (4, &[1], Theme::Light), (1000, &[17, 203, 777], Theme::Dark)]
    {
        let detail = with_channels(n_hosts, culprits);
        let name = format!("channels-{n_hosts}.png");
        assert_eq!(extent(&draw_channels(&name, &detail, theme, Format::Png)), (900, 500));
    }
    let many = with_channels(1000, &[17, 203, 777]);
    let text = svg(draw_channels("channels.svg", &many, Theme::Light, Format::Svg));
    for part in ["⚠ gpu-node-17", "⚠ gpu-node-777", "997 hosts", "init of a culprit", "and 2 more"] {
        assert!(text.contains(part), "{part}");
    }
    let mut unknown = with_channels(2, &[]);
    unknown.ranks.iter_mut().for_each(|rank| (rank.init_channels, rank.final_channels) = (None, None));
    let text = svg(draw_channels("channels-unknown.svg", &unknown, Theme::Light, Format::Svg));
    assert!(text.contains("log does not say"));
}

const SIZE: Size = Size { width_px: 900, height_px: 500 };

fn over_time(theme: Theme, unit: Unit, lines: Vec<PlotLine>, gap: Option<&str>) -> TimePlot {
    TimePlot {
        title: "Bandwidth · llama-pretrain-17 · tensor-parallel".into(),
        subtitle: "busbw: what each link of its rings carries · 32 ranks".into(),
        source: "ringscope · 2026-01-31 12:00:00 to 12:15:00 UTC".into(),
        times_ms: (0..300).map(|index| 1_769_860_800_000 + index * 3_000).collect(),
        lines,
        gap: gap.map(ToOwned::to_owned),
        unit,
        theme,
        size: SIZE,
    }
}

fn line(name: &str, value: impl Fn(f64) -> Option<f64>) -> PlotLine {
    PlotLine { name: name.into(), values: (0..300).map(|index| value(f64::from(index))).collect() }
}

#[test]
fn bytes_over_time_are_lines_with_units() {
    for theme in [Theme::Light, Theme::Dark] {
        let bandwidth = over_time(
            theme,
            Unit::BytesPerSecond,
            vec![
                line("all_reduce", |at| Some(47e9 + 3e9 * (at / 9.0).sin())),
                line("all_gather", |at| (at > 40.0).then_some(21e9 + 1e9 * (at / 5.0).cos())),
                line("reduce_scatter", |at| (!(120.0..180.0).contains(&at)).then_some(12e9)),
            ],
            None,
        );
        keep(&format!("bandwidth-{theme:?}.png"), bandwidth.draw(Format::Png));
        let text = svg(keep(&format!("bandwidth-{theme:?}.svg"), bandwidth.draw(Format::Svg)));
        for part in ["50 GB/s", "12:05", "all_gather 2", "llama-pretrain-17", "UTC"] {
            assert!(text.contains(part), "{part}");
        }
        let completed = |at: f64| at * 1e10 - if at > 200.0 { (at - 200.0) * 7e9 } else { 0.0 };
        let backlog = over_time(
            theme,
            Unit::Bytes,
            vec![line("issued", |at| Some(at * 1e10 + 3e9)), line("completed", |at| Some(completed(at)))],
            Some("backlog 651.9 GiB"),
        );
        let name = format!("backlog-{theme:?}.png");
        assert_eq!(extent(&keep(&name, backlog.draw(Format::Png))), (900, 500));
        assert!(svg(backlog.draw(Format::Svg).unwrap()).contains("TiB"));
    }
}

#[test]
fn pictures_of_nothing_say_so() {
    for lines in [vec![], vec![line("all_reduce", |_| None)]] {
        let empty = over_time(Theme::Light, Unit::Bytes, lines, None);
        assert!(svg(keep("no-data.svg", empty.draw(Format::Svg))).contains("no data in this time"));
        keep("no-data.png", empty.draw(Format::Png));
    }
    let mut at_one_time = over_time(Theme::Dark, Unit::Bytes, vec![line("all_reduce", |_| Some(0.0))], None);
    at_one_time.times_ms.truncate(1);
    at_one_time.lines[0].values.truncate(1);
    keep("one-time.png", at_one_time.draw(Format::Png));
}

#[test]
fn the_smallest_and_the_largest_picture_have_room() {
    for (width_px, height_px) in [(400, 240), (400, 1200), (2400, 240)] {
        let size = Size { width_px, height_px };
        let lines = vec![line("all_reduce", |at| Some(at * 1e9)), line("all_gather", |at| Some(at * 2e8))];
        let plot = TimePlot { size, ..over_time(Theme::Light, Unit::BytesPerSecond, lines, None) };
        let name = format!("bandwidth-{width_px}x{height_px}.png");
        assert_eq!(extent(&keep(&name, plot.draw(Format::Png))), (width_px, height_px));
        let (communicator, source) = (&with_channels(40, &[3]), String::new());
        let plot = ChannelsPlot { communicator, source, theme: Theme::Light, size };
        keep(&format!("channels-{width_px}x{height_px}.png"), plot.draw(Format::Png));
    }
}
