//! What the agents of a tenant say, with the tenant's mark in every text.

use std::collections::BTreeMap;

use ringscope_wire::batch::{
    Activity, Batch, Connection, ConnectionEnd, ConnectionState, Dropped, Evidence, Gpu, GraphRow, Graphs,
    KernelMessage, KernelMessageKind, KernelReading, Look, Nic, NicCounter, OpenCall, Process,
    SummationComparison, SummationDifference, Thread, TreePosition,
};

use crate::common::batches::{Job, SMALL, hardware};
use crate::common::summation;

/// A batch of one host of a job whose second host holds the first back, has a NIC that is down, and a GPU that fell off
/// the bus.
pub(crate) fn batch(mark: &str, host: usize, seq_number: u64, now_ns: u64) -> Batch {
    let (name, hosts) = (format!("{mark}-train"), ["a", "b"].map(|host| format!("{mark}-{host}")));
    let hosts = hosts.each_ref().map(String::as_str);
    let job = Job { name: &name, hosts: &hosts, ..SMALL };
    let mut batch = job.batch(host, seq_number, 2 + seq_number, now_ns);
    let text = |what: &str| format!("{mark}-{what}");
    batch.cannot_watch = text("cannot-watch");
    batch.not_watched = text("not-watched");
    batch.dropped.push(Dropped { reason: text("lost"), events: 1 });
    batch.kernel = vec![KernelMessage {
        boot_id: text("boot"),
        number: 1,
        at_ns: now_ns,
        kind: KernelMessageKind::GpuXid.into(),
        text: text("kernel-line"),
        meaning: text("kernel-meaning"),
        pci: text("kernel-pci"),
        nic: text("kernel-nic"),
        xid: Some(79),
        ..KernelMessage::default()
    }];
    batch.kernel_reading = Some(KernelReading { readable: true, how: text("kmsg"), lost: 0 });
    batch.hardware = vec![hardware(hosts[host], &["mlx5_0"], now_ns)];
    batch.hardware[0].network_functions = vec![text("function")];
    batch.hardware[0].queue_pairs_lack = text("queue-pairs-lack");
    batch.hardware[0].nics.push(nic(&text));
    batch.hardware[0].gpus = vec![gpu(&text)];
    batch.hardware[0].gpus_known = true;
    for process in &mut batch.processes {
        fill(process, &text, now_ns);
    }
    batch
}

/// The same of a summation group.
pub(crate) fn summing(mark: &str, seq_number: u64, now_ns: u64) -> Batch {
    let mut batch = summation::batch(seq_number, 2, now_ns, false);
    let own = |name: &mut String| name.insert_str(0, &format!("{mark}-"));
    own(&mut batch.agent_id);
    own(&mut batch.agent_host);
    for process in &mut batch.processes {
        own(&mut process.key);
        let identity = process.identity.as_mut().unwrap();
        own(&mut identity.host);
        own(&mut identity.job);
        for told in &mut process.summations {
            told.services.iter_mut().for_each(|service| own(&mut service.host));
            told.contributors.iter_mut().for_each(|one| own(&mut one.host));
            told.stages.extend(told.stages.first().cloned().map(|mut stage| {
                own(&mut stage.stage);
                stage
            }));
            told.waits.iter_mut().for_each(|wait| own(&mut wait.tensor));
            told.failure = format!("{mark}-failure");
            let difference =
                SummationDifference { parameter: format!("{mark}-weight"), ..Default::default() };
            told.comparison =
                Some(SummationComparison { difference: Some(difference), ..Default::default() });
        }
    }
    batch
}

/// A log of two ranks that was kept of a job.
pub(crate) fn log(mark: &str) -> String {
    let rank = |rank: u32| {
        let other = 1 - rank;
        let comm = format!(
            "ncclCommInitRankConfig comm 0x55d0{rank} rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc1"
        );
        let init = if rank == 0 { 8 } else { 1 };
        let search = format!("crossNic 0, nChannels {init}, bw 24.0/24.0, type NVL/PIX, sameChannels 1");
        let lines = [
            "NCCL version 2.27.3+cuda12.9".to_owned(),
            format!("NET/IB : Using [0]{mark}_nic:1/IB [RO]; OOB {mark}-eth:10.0.0.1<0>"),
            format!("{comm} - Init START"),
            format!("comm 0x55d0{rank} rank {rank} nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0"),
            format!("Pattern 4, {search}"),
            format!("Pattern 1, {search}"),
            format!("Ring 00 : {other} -> {rank} -> {other}"),
            "1 coll channels, 0 collnet channels, 0 nvls channels, 1 p2p channels, 2 p2p channels per peer"
                .to_owned(),
            format!("Channel 00/0 : {rank}[0] -> {other}[0] [send] via NET/IB/0"),
            format!("{comm} - Init COMPLETE"),
        ];
        let begin = format!("{mark}-kept-{rank}:{pid}:{pid} [0] NCCL INFO ", pid = 1000 + rank);
        lines.map(|line| format!("{begin}{line}\n")).concat()
    };
    rank(0) + &rank(1)
}

fn fill(process: &mut Process, text: &impl Fn(&str) -> String, now_ns: u64) {
    process.log_lacks = vec![text("log-lack")];
    process.told_by_peers = text("told-by-peers");
    process.dropped.push(Dropped { reason: text("dropped"), events: 1 });
    process.activity = Some(Activity { state: "S".into(), cpu_ns: 1, read_at_ns: now_ns });
    process.open_calls =
        vec![OpenCall { thread: 7, function: text("function"), local_id: Some(1), entered_at_ns: now_ns }];
    process.look = Some(Look {
        at_ns: now_ns,
        inquiry: text("inquiry"),
        threads: vec![Thread {
            thread: 7,
            name: text("thread"),
            state: "S".into(),
            python: vec![text("python-frame")],
            native: vec![text("native-frame")],
            wait_channel: text("wait-channel"),
            syscall: text("syscall"),
            subject: text("subject"),
        }],
        lacks: vec![text("look-lack")],
        ..Look::default()
    });
    process.connections = vec![connection(text)];
    let identity = process.identity.as_mut().unwrap();
    identity.k8s_namespace = text("namespace");
    identity.k8s_pod = text("pod");
    identity.k8s_node = text("node");
    identity.k8s_container = text("container");
    identity.executable = text("executable");
    for comm in &mut process.communicators {
        comm.name = text("world");
        comm.gpu = text("gpu");
        comm.log_version = text("log-version");
        comm.made_by = text("made-by");
        comm.error = Some(6);
        comm.error_function = text("error-function");
        comm.error_at_ns = Some(now_ns);
        comm.completion_lost = text("completion-lost");
        comm.channel_settings = BTreeMap::from([(text("SETTING"), 2)]);
        let line = |fact: &str| Evidence {
            fact: fact.to_owned(),
            file: text("file"),
            line: 1,
            text: text(&format!("line of {fact}")),
        };
        comm.evidence = vec![line("init"), line("final"), line(&text("fact"))];
        comm.warnings = vec![line("warning")];
        let row = GraphRow { ranks: vec![0, 1], enter: text("enter"), leave: text("leave") };
        let places = vec![TreePosition { channel: 0, up: None, down: vec![1] }];
        comm.graphs = Some(Graphs { rings: vec![row.clone()], trees: vec![row], places });
        for ring in &mut comm.rings {
            ring.transport += &text("/transport");
            ring.nic = text("ring-nic");
            ring.recv_nic = text("recv-nic");
        }
    }
}

fn connection(text: &impl Fn(&str) -> String) -> Connection {
    let end = |host: String| ConnectionEnd {
        device: text("device"),
        port: 1,
        gid: vec![1; 16],
        host,
        ..ConnectionEnd::default()
    };
    Connection {
        place: 1,
        generation: 1,
        state: ConnectionState::Open.into(),
        error: text("verbs-words"),
        is_send: true,
        local: Some(end(String::new())),
        remote: Some(end(text("remote-host"))),
        file: text("connections-file"),
        ..Connection::default()
    }
}

fn nic(text: &impl Fn(&str) -> String) -> Nic {
    Nic {
        name: text("nic"),
        up: false,
        state: text("state"),
        physical_state: text("physical-state"),
        link_layer: text("link-layer"),
        interface: text("interface"),
        pci: text("pci"),
        pci_path: vec![text("pci-path")],
        model: text("model"),
        errors: vec![NicCounter { name: text("counter"), value: 9 }],
        state_file: text("state-file"),
        ..Nic::default()
    }
}

fn gpu(text: &impl Fn(&str) -> String) -> Gpu {
    Gpu {
        index: 0,
        name: text("gpu-name"),
        uuid: text("gpu-uuid"),
        pci: text("gpu-pci"),
        pci_path: vec![text("gpu-pci-path")],
        ..Gpu::default()
    }
}

/// The format of batches has no text that is not marked here.
#[test]
fn every_text_of_a_batch_is_marked() {
    const FORMAT: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/proto/ringscope/v1/batch.proto"));
    // What the daemon answers.
    const ANSWERS: [&str; 3] = ["IngestReply", "Inquiry", "Wish"];
    let told = format!("{:?} {:?}", batch("wombat", 0, 1, 1), summing("wombat", 1, 1));
    let (mut message, mut n_texts) = ("", 0);
    for line in FORMAT.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("message ") {
            message = name.trim_end_matches(" {");
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let field = match words[..] {
            ["string", field, "=", ..] | ["optional" | "repeated", "string", field, "=", ..] => field,
            ["map<string,", _, field, "=", ..] => field,
            _ => continue,
        };
        if ANSWERS.contains(&message) {
            continue;
        }
        n_texts += 1;
        let begins = ["\"", "[\"", "{\""].map(|begin| format!("{field}: {begin}"));
        let is_marked = begins.iter().any(|begin| {
            let texts = told.match_indices(begin.as_str()).map(|(at, _)| &told[at + begin.len()..]);
            texts.into_iter().any(|text| text.split('"').next().is_some_and(|text| text.contains("wombat")))
        });
        assert!(is_marked, "{message}.{field}");
    }
    assert!(n_texts > 55, "{n_texts}");
}
