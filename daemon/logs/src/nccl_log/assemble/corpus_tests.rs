//! Every log of the corpus says what a careful reader finds in it.

use serde_json::{Value, json};

use super::*;

macro_rules! corpus {
    ($($test:ident: $($name:literal),+;)+) => {$(
        #[test]
        fn $test() {
            $(check(
                include_bytes!(concat!("../../../../../fixtures/logs/", $name, ".log")),
                include_str!(concat!("../../../../../fixtures/logs/", $name, ".expect.json")),
            );)+
        }
    )+};
}

corpus! {
    connect_lines_alone: "fragment-timestamps-k8s-16ranks";
    three_communicators_without_ids: "nccl-2.11.4-8xa100pcie-3comms";
    a_collnet_search_after_the_tree: "nccl-2.16.5-2node-ib-graph";
    graph_without_init: "nccl-2.18.1-3090-2node-16ranks-graph-only";
    four_communicators_with_pxn: "nccl-2.18.5-h100-2node-8ranks-4comms";
    one_file_per_node: "nccl-2.20.5-rxe-3node-max1-node0", "nccl-2.20.5-rxe-3node-max1-node1",
        "nccl-2.20.5-rxe-3node-max1-node2";
    a_failed_init: "nccl-2.21.5-perlmutter-failed-init";
    sixteen_ranks_with_runtime_connect: "nccl-2.22.3-p5-h100-efa-16ranks-mpirun";
    eight_threads: "nccl-2.27.3-a800-8gpu-graph";
    one_rank_of_a_split: "nccl-2.27.3-efa-split-rank0of4";
    torn_by_eight_processes: "nccl-2.27.3-torn-8procs-one-file";
    sixteen_ranks_without_ids: "nccl-2.8.3-p4d-efa-16ranks-mpirun";
    no_nccl_log: "not-nccl-mlperf-gaudi2";
    rccl: "rccl-2.27.7-2x7900xtx-graph";
}

#[test]
fn three_files_of_one_job_make_one_communicator() {
    let logs = [
        include_bytes!("../../../../../fixtures/logs/nccl-2.20.5-rxe-3node-max1-node0.log").as_slice(),
        include_bytes!("../../../../../fixtures/logs/nccl-2.20.5-rxe-3node-max1-node1.log"),
        include_bytes!("../../../../../fixtures/logs/nccl-2.20.5-rxe-3node-max1-node2.log"),
    ]
    .map(read);
    let assembled = assemble(&logs.each_ref());
    let [communicator] = &assembled.communicators[..] else { panic!("one communicator") };
    assert_eq!((communicator.comm_hash, communicator.missing()), (Some(0x1f82_f8f6_b786_3cd3), vec![]));
    assert_eq!(communicator.rings, BTreeMap::from([(0, vec![0, 1, 2])]));
    assert_eq!(communicator.rings_source, Some(RingsSource::EveryRank));
    assert_eq!(communicator.version.as_deref(), Some("2.20.5+cuda12.4"));
    assert_eq!(
        (0..3).map(|rank| communicator.relation_of(rank)).collect::<Vec<_>>(),
        [Some(Relation::Less); 3]
    );
    assert!(communicator.members[&2].facts.hops[&0].transport == "NET/IB");
}

fn read(bytes: &[u8]) -> NcclLog {
    let mut log = NcclLog::new();
    log.feed(bytes);
    log.finish();
    log
}

/// What was expected and not found, all of it at once.
struct Differences(Vec<String>);

impl Differences {
    fn is(&mut self, what: &str, found: impl Into<Value>, expected: &Value) {
        let found = found.into();
        if found != *expected {
            self.0.push(format!("{what}: found {found}, expected {expected}"));
        }
    }
}

fn check(bytes: &[u8], expectation: &str) {
    let expected: Value = serde_json::from_str(expectation).expect("the expectation is JSON");
    let log = read(bytes);
    let mut differences = Differences(Vec::new());
    check_log(&mut differences, &log, &expected);
    let found = assemble(&[&log]).communicators;
    let wanted = expected["communicators"].as_array().expect("a list");
    differences.is("number of communicators", found.len(), &json!(wanted.len()));
    let mut left: Vec<_> = found.iter().collect();
    for wanted in wanted {
        let id = wanted["commId"].as_str();
        let same = |found: &&AssembledCommunicator| printed(found).as_deref() == id;
        match left.iter().position(same) {
            Some(at) => check_communicator(&mut differences, left.remove(at), wanted),
            None => differences.0.push(format!("no communicator {id:?}")),
        }
    }
    assert!(differences.0.is_empty(), "{}\nlacks {:?}", differences.0.join("\n"), log.lacks());
}

fn printed(found: &AssembledCommunicator) -> Option<String> {
    let hash = found.members.values().find_map(|member| member.facts.comm_hash)?;
    Some(format!("{hash:#x}"))
}

fn check_log(differences: &mut Differences, log: &NcclLog, expected: &Value) {
    let version = expected["nccl_version"].as_str();
    let version = version.filter(|version| !version.starts_with("unknown"));
    differences.is("version", json!(log.version()), &json!(version));
    differences.is("lines", log.counts().lines, &expected["n_lines"]);
    let listed = [("n_nccl_info_records", log.counts().info), ("n_nccl_warn_records", log.counts().warn)];
    for (name, found) in listed {
        if !expected[name].is_null() {
            differences.is(name, found, &expected[name]);
        }
    }
    let processes = log.processes();
    if let Some(hosts) = expected["hosts"].as_array() {
        let found: BTreeSet<_> = processes.iter().map(|process| process.host.as_str()).collect();
        differences.is("hosts", json!(found), &json!(hosts));
    }
    for (host, nics) in expected["nics"].as_object().into_iter().flatten() {
        let of_host = processes.iter().filter(|process| process.host == *host);
        let found: BTreeMap<_, _> = of_host.flat_map(|process| process.nics.values().flatten()).collect();
        let found: Vec<_> = found.into_iter().map(|(index, name)| format!("{index} {name}")).collect();
        let name = |nic: &Value| nic.as_str().and_then(|nic| nic.split(':').next()).map(str::to_owned);
        let wanted: Vec<_> = nics.as_array().into_iter().flatten().map(name).collect();
        differences.is("nics", json!(found), &json!(wanted));
    }
    let mut environment: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, value) in processes.iter().flat_map(|process| &process.environment) {
        environment.entry(name).or_default().insert(value);
    }
    if !expected["env_lines"].is_null() {
        differences.is("env_lines", json!(environment), &expected["env_lines"]);
    }
    if !expected["unattributed_transports"].is_null() {
        differences.is("unattributed", json!(log.unattributed()), &expected["unattributed_transports"]);
    }
}

/// Compares what the expectation names; the number of ranks, the rings and the transports in its words.
fn check_communicator(differences: &mut Differences, found: &AssembledCommunicator, wanted: &Value) {
    let facts = || found.members.values().map(|member| &member.facts);
    let mut is = |name: &str, found: Value| {
        if wanted.get(name).is_some() {
            let unknown = wanted[name].as_str() == Some("unknown");
            differences.is(name, found, if unknown { &Value::Null } else { &wanted[name] });
        }
    };
    is("nranks", json!(found.n_ranks));
    is("n_nodes", json!(found.n_nodes));
    is("n_hosts_seen", json!(found.hosts().len()));
    // Some expectations list apart what was concluded.
    let concluded = wanted.get("ranks_deducible").is_none();
    let seen = found.members.iter().filter(|(_, member)| concluded || member.named).map(|(rank, _)| rank);
    is("ranks_seen", json!(seen.collect::<Vec<_>>()));
    is("ranks_missing", json!(found.missing()));
    let apis: BTreeSet<_> = facts().filter_map(|facts| facts.api.as_deref()).collect();
    is("api", json!(apis));
    let proven = |fact: &str| facts().filter(|f| f.evidence.iter().any(|line| line.fact == fact)).count();
    is("init_start", json!(proven("start")));
    is("init_complete", json!(facts().filter(|facts| facts.complete).count()));
    is("final_channels", json!(found.final_channels()));
    let said_final = facts().filter(|facts| facts.final_channels.is_some()).count();
    is("final_channels_ranks", json!(said_final));
    is("final_from_ring_lines", json!(found.rings.len()));
    let printed: BTreeSet<_> = facts().filter_map(|facts| facts.printed_channels).collect();
    is("channels_in_channel_lines", json!(printed));
    let rings: BTreeMap<_, _> =
        found.rings.iter().map(|(channel, ring)| (channel.to_string(), ring)).collect();
    is("rings", if rings.is_empty() { Value::Null } else { json!(rings) });
    is("transports", json!(found.connections()));
    let used: BTreeMap<_, _> = (found.members.iter())
        .filter(|(_, member)| !member.facts.nics_used.is_empty())
        .map(|(rank, member)| (rank.to_string(), &member.facts.nics_used))
        .collect();
    is("net_dev_index_used_per_rank", json!(used));
    let proxies: BTreeSet<_> = facts().flat_map(|facts| &facts.proxy_ranks).collect();
    is("pxn_proxy_ranks", json!(proxies));
    check_init(differences, found, &wanted["per_rank_init"]);
    check_gpus(differences, found, &wanted["gpus"]);
    check_relation(differences, found, &wanted["relation"]);
    check_fragments(differences, found, &wanted["ring_fragments"]);
    if let Some(parent) = wanted["split"]["parent_comm"].as_str() {
        let split = facts().next().expect("a member");
        differences.is("parent", json!(split.parent_pointer.map(|p| format!("{p:#x}"))), &json!(parent));
        differences.is("color", json!(split.color), &wanted["split"]["color"]);
        differences.is(
            "splitCount",
            json!(split.child_count.map(|n| n.to_string())),
            &wanted["split"]["splitCount"],
        );
        assert!(split.derived_hash.is_some(), "its parent's hash is printed");
    }
}

fn check_init(differences: &mut Differences, found: &AssembledCommunicator, wanted: &Value) {
    let mut init: BTreeMap<String, u32> =
        found.init_channels().into_iter().map(|(rank, n)| (rank.to_string(), n)).collect();
    for Member { facts, .. } in &found.unplaced {
        let writer = format!("{}:{} [{}]", facts.host, facts.pid, facts.cuda_device.unwrap_or_default());
        init.extend(facts.init_channels.map(|n| (writer, n)));
    }
    // `host:pid:tid [device] (remark)` where the rank is not printed.
    let wanted = wanted.as_object().into_iter().flatten().map(|(rank, n)| {
        let short = |(writer, rest): (&str, &str)| {
            let process = writer.rsplit_once(':').map_or(writer, |(process, _)| process);
            format!("{process} {}", rest.split(' ').next().unwrap_or_default())
        };
        (rank.split_once(' ').map_or(rank.clone(), short), n.clone())
    });
    let wanted: serde_json::Map<_, _> = wanted.collect();
    differences.is("per_rank_init", json!(init), &json!(wanted));
}

fn check_gpus(differences: &mut Differences, found: &AssembledCommunicator, wanted: &Value) {
    for (rank, gpu) in wanted.as_object().into_iter().flatten() {
        let member = rank.parse().ok().and_then(|rank: u32| found.members.get(&rank));
        let Some(Member { facts, .. }) = member else {
            differences.0.push(format!("no rank {rank}"));
            continue;
        };
        let id =
            |text: &str| super::super::init_line::bus_id_text(u64::from_str_radix(text, 16).expect("hex"));
        differences.is("bus id", json!(facts.bus_id), &json!(gpu["busId"].as_str().map(id)));
        differences.is("cudaDev", json!(facts.cuda_device), &gpu["cudaDev"]);
        differences.is("host", json!(facts.host), &gpu["host"]);
        differences.is("pid", json!(facts.pid), &gpu["pid"]);
        differences.is("nvmlDev", json!(facts.nvml_device), &gpu["nvmlDev"]);
    }
}

fn check_relation(differences: &mut Differences, found: &AssembledCommunicator, wanted: &Value) {
    let relations: BTreeSet<_> = found.relations().map(|relation| format!("{relation:?}")).collect();
    let wanted = match wanted.as_str().expect("a word") {
        "unknown" => vec![],
        "<" => vec!["Less"],
        text if text.starts_with("final==2*init") => vec!["Equal"],
        other => panic!("{other}"),
    };
    differences.is("relation", json!(relations), &json!(wanted));
}

/// `{channel: {rank: [prev, next]}}`.
fn check_fragments(differences: &mut Differences, found: &AssembledCommunicator, wanted: &Value) {
    for (channel, ranks) in wanted.as_object().into_iter().flatten() {
        for (rank, edge) in ranks.as_object().into_iter().flatten() {
            let (rank, channel): (u32, u32) =
                (rank.parse().expect("a rank"), channel.parse().expect("a channel"));
            let rings = found.members.get(&rank).map(|member| &member.facts.rings);
            let ring = rings.into_iter().flatten().find(|ring| ring.channel == channel);
            differences.is("fragment", json!(ring.map(|ring| [ring.prev, ring.next])), edge);
        }
    }
}
