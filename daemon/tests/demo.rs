//! The demo's report against what the demo's ranks say they did, on SQLite and on Postgres.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use common::closed_form::{Algorithm, each_rank_obeys_its_formula, is_untold};
use common::postgres::Postgres;
use common::stage::{RINGSCOPE, Stage, faithful};
use common::totals::{completed_bytes, has_ended, said, shown};
use common::{PATIENCE, TempDir, eventually, free_port};
use ringscope_api::{Finding, FindingKind, FindingState, Hop, Severity};
use ringscope_daemon::demo::job::{Installation, Job, JobSpec};
use ringscope_daemon::demo::report::{self, Report, ReportedCommunicator};
use ringscope_daemon::demo::worker::{Called, WorkerLog};
use ringscope_daemon::demo::{MIN_CHANNELS_JOB, TRAINING_JOB};
use serde::Deserialize;

/// Runs the demo as a user does and returns its report.
fn demo(dir: &Path, database_url: Option<&str>) -> Report {
    let url = database_url.map(|url| format!("--database-url={url}"));
    report(dir, "12", url.as_deref())
}

/// The report of a demo with one further option.
fn report(dir: &Path, seconds: &str, option: Option<&str>) -> Report {
    let mut command = Command::new(RINGSCOPE);
    command.args(["demo", "--json", "--seconds", seconds, "--listen", &format!("127.0.0.1:{}", free_port())]);
    command.arg("--work-dir").arg(dir).args(option);
    let output = command.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {words}", output.status);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("not one JSON report: {error}: {words}"))
}

fn check(report: &Report, dir: &Path) {
    findings_name_the_degraded_host(report);
    a_floor_of_channels_is_explained(report);
    rings_are_permutations(report);
    rings_agree_with_the_connections(report, dir);
    counters_agree_with_the_jobs_own_log(report, dir);
    bytes_obey_the_ring_formula(report);
    each_rank_obeys_its_formula(report, tells_inside(), |_, _, _| Algorithm::Ring);
    assert!(report.dropped.is_empty(), "nothing may be lost: {:?}", report.dropped);
}

fn of_phase<'a>(report: &'a Report, phase: &'a str) -> impl Iterator<Item = &'a ReportedCommunicator> {
    report.communicators.iter().filter(move |one| one.phase.as_deref() == Some(phase))
}

/// Must show 2.
fn findings_name_the_degraded_host(report: &Report) {
    let ids: BTreeSet<&str> = of_phase(report, "degraded").map(|one| one.id.as_str()).collect();
    let hosts = |kind: FindingKind| -> BTreeSet<&str> {
        let findings = report.findings.iter().filter(|one| one.finding == kind && one.job == TRAINING_JOB);
        findings.map(|one| one.host.as_str()).collect()
    };
    assert_eq!(hosts(FindingKind::ChannelShortfall), BTreeSet::from(["host-2"]));
    assert_eq!(hosts(FindingKind::ChannelRegression), BTreeSet::from(["host-2"]));
    assert_eq!(hosts(FindingKind::CappedByPeer), BTreeSet::from(["host-0", "host-1", "host-3"]));
    // How fast a job goes changes from second to second on a machine with other work.
    let is_of_channels = |one: &&Finding| one.job == TRAINING_JOB && !one.finding.is_about_pace();
    for finding in report.findings.iter().filter(is_of_channels) {
        assert!(ids.contains(finding.comm.as_str()), "only degraded communicators: {finding:?}");
        assert_eq!(finding.state, FindingState::Resolved, "{finding:?}");
        if finding.finding == FindingKind::CappedByPeer {
            assert_eq!(finding.culprits, ["host-2"], "{finding:?}");
        }
    }
    let firing = |phase: &str| -> Vec<&Finding> {
        let firing = report.phases.iter().filter(|one| one.phase == phase).flat_map(|one| &one.firing);
        firing.filter(|one| !one.finding.is_about_pace()).collect()
    };
    assert!(firing("healthy").is_empty(), "{:?}", firing("healthy"));
    assert!(firing("healed").is_empty(), "{:?}", firing("healed"));
    let degraded = firing("degraded");
    assert!(!degraded.is_empty() && degraded.iter().all(|one| one.host == "host-2"), "{degraded:?}");
    // The NIC is what to look at; that channels are lost is its consequence.
    assert!(degraded.iter().any(|one| one.finding == FindingKind::NicDegraded), "{degraded:?}");
    let words = "host-2 found 1 channel because nic1 ";
    let explained = report.findings.iter().filter(|one| one.finding == FindingKind::ChannelShortfall);
    let explained: Vec<_> = explained.filter(|one| one.message.starts_with(words)).collect();
    assert!(!explained.is_empty(), "{:?}", report.findings);
    for one in explained {
        assert!(one.message.ends_with("the others 2: every rank runs on 2 channels instead of 4"), "{one:?}");
        assert_eq!((one.cause.as_str(), one.nic.as_deref()), ("nic_down", Some("nic1")));
    }
    let of_nics: Vec<_> =
        report.findings.iter().filter(|one| one.finding == FindingKind::NicDegraded).collect();
    let of_nics: Vec<_> = of_nics
        .iter()
        .map(|one| (one.host.as_str(), one.nic.as_deref(), one.cause.as_str(), one.state))
        .collect();
    assert_eq!(of_nics, [("host-2", Some("nic1"), "nic_down", FindingState::Resolved)]);
}

fn a_floor_of_channels_is_explained(report: &Report) {
    let is_of_channels = |one: &&Finding| one.job == MIN_CHANNELS_JOB && !one.finding.is_about_pace();
    let findings: Vec<&Finding> = report.findings.iter().filter(is_of_channels).collect();
    assert!(!findings.is_empty(), "init_below_half_final must fire");
    for finding in findings {
        let found = (finding.finding, finding.severity, finding.cause.as_str());
        assert_eq!(found, (FindingKind::InitBelowHalfFinal, Severity::Info, "min_nchannels"), "{finding:?}");
    }
    let worlds = report.communicators.iter().filter(|one| one.job == MIN_CHANNELS_JOB && one.n_ranks == 2);
    for rank in worlds.flat_map(|one| &one.ranks) {
        assert_eq!((rank.init_channels, rank.final_channels), (Some(2), Some(8)));
    }
}

/// Must show 3, first half.
fn rings_are_permutations(report: &Report) {
    for one in &report.communicators {
        let name = one.name.as_deref().unwrap_or_default();
        let channels = one.ranks[0].final_channels.expect(name);
        assert_eq!(one.rings.len(), channels as usize, "{name}: a ring for every channel");
        for ring in &one.rings {
            assert!(ring.complete, "{name} channel {}: {:?}", ring.channel, ring.problem);
            let ranks: BTreeSet<u32> = ring.order.iter().map(|hop| hop.rank).collect();
            assert_eq!(ranks, (0..one.n_ranks).collect(), "{name} channel {}", ring.channel);
            assert_eq!(ring.order.len(), one.n_ranks as usize);
        }
    }
}

/// One line of the engine's connection log.
#[derive(Debug, Deserialize)]
struct Connection {
    comm: String,
    rank: u32,
    channel: u32,
    peer: u32,
    direction: String,
    transport: String,
    nic: String,
    local: Option<String>,
    remote: Option<String>,
}

/// The ends of the connections that the engine really used, by (communicator, channel, rank at this end).
type Connections = BTreeMap<(String, u32, u32), Connection>;

/// Sending ends and receiving ends.
fn connections(dir: &Path) -> (Connections, Connections) {
    let (mut sending, mut receiving) = (Connections::new(), Connections::new());
    for job in [TRAINING_JOB, MIN_CHANNELS_JOB] {
        for entry in std::fs::read_dir(dir.join("jobs").join(job)).unwrap().map(Result::unwrap) {
            if entry.path().extension().is_some_and(|extension| extension == "connections") {
                for line in std::fs::read_to_string(entry.path()).unwrap().lines() {
                    let end: Connection = serde_json::from_str(line).unwrap();
                    let ends = if end.direction == "send" { &mut sending } else { &mut receiving };
                    let key = (end.comm.clone(), end.channel, end.rank);
                    assert!(ends.insert(key, end).is_none(), "one connection a hop: {line}");
                }
            }
        }
    }
    (sending, receiving)
}

/// Must show 3, second half: what the page draws is what the connections were: memory inside a host, sockets between.
fn rings_agree_with_the_connections(report: &Report, dir: &Path) {
    let (sending, receiving) = connections(dir);
    let (mut hops, mut shared) = (0, 0);
    // A communicator of one rank has rings, and no connections.
    for one in report.communicators.iter().filter(|one| one.n_ranks > 1) {
        for ring in &one.rings {
            for hop in &ring.order {
                let key = (one.comm_hash.clone(), ring.channel, hop.rank);
                let sends = sending.get(&key).unwrap_or_else(|| panic!("no connection for {key:?}"));
                let other = &receiving[&(one.comm_hash.clone(), ring.channel, hop.next)];
                assert_eq!((sends.peer, other.peer), (hop.next, hop.rank), "{key:?}");
                let next = one.ranks.iter().find(|rank| rank.rank == hop.next).unwrap();
                if next.host == hop.host {
                    is_shared_memory(hop, [sends, other]);
                    shared += 1;
                } else {
                    is_a_socket(hop, sends, other);
                }
                hops += 1;
            }
        }
    }
    assert_eq!(hops, sending.len(), "every ring connection is drawn");
    assert!(shared > 0 && shared < hops, "{shared} of {hops} hops stay inside a host");
}

fn is_shared_memory(hop: &Hop, ends: [&Connection; 2]) {
    assert!(hop.transport.as_deref().is_some_and(|transport| transport.starts_with("SHM")), "{hop:?}");
    assert_eq!((&hop.nic, &hop.recv_nic), (&None, &None), "{hop:?}");
    for end in ends {
        assert!(end.transport.starts_with("shm") && end.local.is_none() && end.remote.is_none(), "{end:?}");
    }
}

fn is_a_socket(hop: &Hop, sends: &Connection, receives: &Connection) {
    assert_eq!(hop.transport.as_deref(), Some("NET/Socket"), "{hop:?}");
    assert_eq!((Some(&sends.nic), Some(&receives.nic)), (hop.nic.as_ref(), hop.recv_nic.as_ref()), "{hop:?}");
    assert_eq!((&*sends.transport, &*receives.transport), ("tcp", "tcp"), "{hop:?}");
    assert_eq!((&receives.local, &receives.remote), (&sends.remote, &sends.local), "{hop:?}");
    assert!(sends.local.as_ref().is_some_and(|local| belongs_to(local, &hop.host)), "{sends:?}");
}

/// Host i of the demo owns 127.1.(i+1).0/24.
fn belongs_to(address: &str, host: &str) -> bool {
    let index: usize = host.trim_start_matches("host-").parse().unwrap();
    address.starts_with(&format!("127.1.{}.", index + 1))
}

/// Must show 4, first half: per rank, per communicator, per primitive.
fn counters_agree_with_the_jobs_own_log(report: &Report, dir: &Path) {
    for job in [TRAINING_JOB, MIN_CHANNELS_JOB] {
        let mut shown: BTreeMap<(u32, String, String), Called> = BTreeMap::new();
        for one in report.communicators.iter().filter(|one| one.job == job) {
            for rank in &one.rank_primitives {
                let global_rank =
                    one.ranks.iter().find(|other| other.rank == rank.rank).unwrap().global_rank.unwrap();
                for totals in &rank.primitives {
                    assert_eq!(
                        totals.issued_calls, totals.completed_calls,
                        "{job} {:?} {totals:?}",
                        one.name
                    );
                    assert_eq!(
                        totals.issued_bytes, totals.completed_bytes,
                        "{job} {:?} {totals:?}",
                        one.name
                    );
                    let key = (global_rank, one.name.clone().unwrap(), totals.primitive.clone());
                    let called = Called { calls: totals.issued_calls, bytes: totals.issued_bytes };
                    assert!(shown.insert(key, called).is_none());
                }
            }
        }
        assert_eq!(shown, job_log(&dir.join("jobs").join(job)), "{job}");
    }
}

fn job_log(dir: &Path) -> BTreeMap<(u32, String, String), Called> {
    let mut said = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.path().extension().is_some_and(|extension| extension == "json") {
            let log: WorkerLog = serde_json::from_slice(&std::fs::read(entry.path()).unwrap()).unwrap();
            let rank = u32::try_from(log.rank).unwrap();
            for (communicator, primitives) in log.communicators {
                for (primitive, called) in primitives {
                    said.insert((rank, communicator.clone(), primitive), called);
                }
            }
        }
    }
    assert!(!said.is_empty(), "the ranks of {} left no log", dir.display());
    said
}

/// In the faithful mode the engine tells of its connections between hosts alone, as NCCL does, and the daemon computes what
/// stays inside.
fn tells_inside() -> bool {
    faithful() == "off"
}

/// Must show 4, second half, over all ranks: exact whatever the sizes where the library tells all; a byte a rank off where
/// the part inside hosts is computed, which of single messages and of a root it is not.
fn bytes_obey_the_ring_formula(report: &Report) {
    for one in &report.communicators {
        let n = u64::from(one.n_ranks);
        for totals in one.primitives.iter().filter(|totals| tells_inside() || !is_untold(one, totals)) {
            let sent = totals.intra_bytes.unwrap() + totals.inter_bytes.unwrap();
            let bytes = totals.completed_bytes; // already summed over the n ranks
            let expected = match totals.primitive.as_str() {
                "all_reduce" => bytes / n * 2 * (n - 1),
                "all_gather" | "reduce_scatter" => bytes * (n - 1),
                "broadcast" | "gather" | "scatter" => bytes / n * (n - 1),
                "all_to_all" => bytes * (n - 1),
                "send" => bytes,
                _ => 0,
            };
            let is_ring =
                ["send", "gather", "scatter", "broadcast"].iter().all(|message| totals.primitive != *message);
            if tells_inside() {
                assert_eq!(sent, expected, "{:?} {totals:?}", one.name);
            } else if is_ring {
                assert!(sent.abs_diff(expected) <= n, "{expected}: {:?} {totals:?}", one.name);
            }
            let one_host = one.ranks.iter().all(|rank| rank.host == one.ranks[0].host);
            assert!(!one_host || totals.inter_bytes == Some(0), "{:?} {totals:?}", one.name);
        }
    }
}

#[test]
fn the_demo_shows_what_happened_on_sqlite() {
    let dir = TempDir::new("demo-sqlite");
    let report = demo(&dir.0, None);
    check(&report, &dir.0);
}

/// Must show 6: the same checks hold, and the same is found.
#[test]
fn the_demo_shows_the_same_on_postgres() {
    let postgres = Postgres::start();
    let dir = TempDir::new("demo-postgres");
    let report = demo(&dir.0, Some(&postgres.url()));
    check(&report, &dir.0);
}

#[test]
fn a_healthy_demo_has_nothing_to_find() {
    let dir = TempDir::new("demo-healthy");
    let report = report(&dir.0, "8", Some("--healthy"));
    // Who is not scheduled for seconds, on a busy machine, is waited for: that is information.
    let is_wait = |one: &Finding| one.finding == FindingKind::Waiting && one.severity == Severity::Info;
    let of_training = report.findings.iter().filter(|one| one.job == TRAINING_JOB);
    let found: Vec<&Finding> = of_training.filter(|one| !is_wait(one)).collect();
    assert!(found.is_empty(), "{found:?}");
    a_floor_of_channels_is_explained(&report);
    let phases: Vec<&str> = report.phases.iter().map(|one| one.phase.as_str()).collect();
    assert_eq!(phases, ["healthy"; 3]);
    let worlds = report.communicators.iter().filter(|one| {
        one.job == TRAINING_JOB && one.name.as_deref().is_some_and(|name| name.starts_with("world"))
    });
    assert!(worlds.count() > 1, "its communicators are formed anew");
}

/// Which algorithm an all-reduce takes in the job below.
const TABLE: &str = r#"{"rows": [
    {"primitive": "all_reduce", "hosts": "several", "ranks": [2, 64], "up_to_bytes": 20000, "algorithm": "tree", "source": "test"},
    {"primitive": "all_reduce", "hosts": "several", "ranks": [2, 64], "algorithm": "hierarchical", "source": "test"},
    {"primitive": "all_reduce", "hosts": "one", "ranks": [2, 64], "algorithm": "ring", "source": "test"},
    {"primitive": "broadcast", "hosts": "several", "ranks": [2, 64], "algorithm": "tree", "source": "test"},
    {"primitive": "reduce_scatter", "hosts": "several", "ranks": [2, 64], "algorithm": "ring", "source": "test"},
    {"primitive": "all_gather", "hosts": "several", "ranks": [2, 64], "algorithm": "ring", "source": "test"}
]}"#;

fn in_table(one: &ReportedCommunicator, primitive: &str, elements: usize) -> Algorithm {
    match primitive {
        "all_reduce" if one.n_nodes == 1 => Algorithm::Ring,
        "all_reduce" if elements * 4 <= 20_000 => Algorithm::Tree,
        "all_reduce" => Algorithm::Hierarchical,
        "broadcast" => Algorithm::Tree,
        _ => Algorithm::Ring,
    }
}

/// Trees and the hierarchical all-reduce leave the rings' hops, and every byte is still counted where it went.
#[tokio::test]
async fn each_algorithm_sends_what_its_formula_says_inside_hosts_and_between() {
    let stage = Stage::new("algorithms");
    let _serve = stage.serve(true);
    let table = stage.dir.0.join("table.json");
    std::fs::write(&table, TABLE).unwrap();
    let spec = JobSpec {
        name: "algorithms".to_owned(),
        hosts: stage.hosts(2),
        ranks_per_host: 2,
        environment: vec![("RSCCL_TUNING", table.display().to_string())],
        step_ms: 5,
    };
    // NCCL has no such algorithms, and would not tell what stays inside a host.
    let installation = Installation { faithful: "off".to_owned(), ..stage.installation() };
    let mut job = Job::start(&spec, &installation, &stage.dir.0.join("jobs")).unwrap();
    let client = stage.client();
    eventually("some steps of the job", async || {
        (completed_bytes(&client, &job.name).await > 50 << 20).then_some(())
    })
    .await;
    job.stop(PATIENCE).await.unwrap_or_else(|error| panic!("{error}\n{}", stage.words()));
    eventually("the end of the job", async || has_ended(&client, &job.name).await.then_some(())).await;
    let (issued, completed) = shown(&client, &job.name).await.unwrap();
    let said = said(&job).unwrap();
    assert_eq!((&issued, &completed), (&said, &said), "{}", stage.words());
    let report = report::collect(&client, Vec::new()).await.unwrap();
    each_rank_obeys_its_formula(&report, true, in_table);
    assert!(report.dropped.is_empty(), "{:?}", report.dropped);
}
