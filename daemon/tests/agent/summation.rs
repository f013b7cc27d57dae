//! A summation group of real processes, from its calls to what the agent says of it. It needs what
//! `cargo build -p ringscope-engine -p ringscope-collector -p ringscope-summation-watcher` builds.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ringscope_wire::batch::{Batch, Primitive, SummationMember, SummationRole, SummationState};

use super::daemon::{Answer, FakeDaemon};
use super::{Host, TempDir};

const N_ROUNDS: u64 = 20;
const GRADIENT_BYTES: u64 = 400_000;
const PARAMETER_BYTES: u64 = 40;

/// A file that cargo built beside this test.
fn built(name: &str) -> PathBuf {
    let here = std::env::current_exe().expect("a path");
    let folders = here.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("no {name}: see the head of this file"))
}

/// A worker, which does so many rounds.
fn worker_program(dir: &Path) -> PathBuf {
    let (program, library) = (dir.join("summation"), built("librsccl.so"));
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiled = Command::new("cc")
        .args(["-O1", "-Wall", "-Wextra", "-o"])
        .arg(&program)
        .arg(here.join("tests/agent/c/summation.c"))
        .arg("-I")
        .arg(here.join("../engine/include"))
        .arg(&library)
        .arg(format!("-Wl,-rpath,{}", library.parent().expect("a folder").display()))
        .status()
        .expect("a C compiler: apt-get install gcc");
    assert!(compiled.success());
    program
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// Two workers, with these arguments beside the number of rounds, and a server under the collector.
fn start(segments: &Path, program: &Path, arguments: &[&str]) -> Vec<Child> {
    let root = format!("127.0.0.1:{}", free_port());
    let collector = built("libringscope.so");
    let start = |rank: Option<u32>| {
        let mut command =
            rank.map_or_else(|| Command::new(built("ringscope-sumd")), |_| Command::new(program));
        if let Some(rank) = rank {
            command.arg(N_ROUNDS.to_string()).args(arguments).env("RSUM_RANK", rank.to_string());
        }
        let preloaded = command.env("LD_PRELOAD", &collector).env("NCCL_PROFILER_PLUGIN", &collector);
        let watched = preloaded.env("RSUM_OBSERVER", &collector).env("RINGSCOPE_DIR", segments);
        let group = watched.env("RSUM_ROOT", &root).env("RSUM_WORKERS", "2").env("RSUM_SERVERS", "1");
        let secret = group.env("RSUM_SECRET", "of this test").env("RSUM_PARTITION_BYTES", "100000");
        let quiet = secret.env("RSUM_FINGERPRINTS", "1").env("RSCCL_HOST", "box").stderr(Stdio::null());
        quiet.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process")
    };
    [None, Some(0), Some(1)].map(start).into_iter().collect()
}

/// The newest word on each process's groups, and all results, by process.
fn told(batches: &[(Answer, Batch)]) -> BTreeMap<String, SummationMember> {
    let mut told: BTreeMap<String, SummationMember> = BTreeMap::new();
    for process in batches.iter().flat_map(|(_, batch)| &batch.processes) {
        for member in &process.summations {
            let before = told.insert(process.key.clone(), member.clone());
            let mut rounds = before.map(|before| before.rounds).unwrap_or_default();
            rounds.extend(member.rounds.iter().copied());
            told.entry(process.key.clone()).and_modify(|member| member.rounds = rounds);
        }
    }
    told
}

#[tokio::test]
async fn a_group_of_real_processes_is_told_as_it_was() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let programs = TempDir::new().expect("folder");
    let children = start(host.dir(), &worker_program(programs.path()), &[]);
    let agent = host.agent();
    for mut child in children {
        assert!(child.wait().expect("a child").success());
    }
    let is_over = |member: &SummationMember| member.state() == SummationState::Left;
    let ended = |batches: &[(Answer, Batch)]| told(batches).values().filter(|one| is_over(one)).count();
    while ended(&daemon.batches) < 3 {
        daemon.next().await;
    }
    agent.stop().await;

    let told = told(&daemon.batches);
    let members: Vec<&SummationMember> = told.values().collect();
    let groups: BTreeSet<(u64, u64)> = members.iter().map(|one| (one.group, one.session)).collect();
    assert!(groups.len() == 1 && !groups.contains(&(0, 0)), "one group: {groups:?}");
    let n_keys = 4 + 1;
    let mut made = BTreeMap::new();
    for round in members.iter().flat_map(|one| &one.rounds).filter(|round| round.made) {
        assert_eq!((made.insert((round.key, round.round), round.fingerprint), round.contributors), (None, 2));
    }
    assert_eq!(made.len() as u64, n_keys * N_ROUNDS);
    let rounds: u64 = members.iter().map(|one| one.finished_rounds).sum();
    assert_eq!((rounds, members.iter().map(|one| one.rounds_dropped).sum::<u64>()), (n_keys * N_ROUNDS, 0));
    for (key, member) in &told {
        assert_eq!((member.n_workers, member.n_servers, member.services.len()), (2, 1, 3));
        assert!(member.services.iter().all(|one| one.host == "box"));
        assert!(member.ended_at_ns > Some(member.joined_at_ns) && member.communicator_local_id > 0);
        if member.role() == SummationRole::Worker {
            let pulled = member.rounds.iter().filter(|round| !round.made);
            let pulled: BTreeMap<_, _> = pulled.map(|one| ((one.key, one.round), one.fingerprint)).collect();
            assert_eq!(pulled, made, "what was made is what came");
            is_a_worker(member);
            calls_are_counted(&daemon, key);
        }
    }
}

#[tokio::test]
async fn a_difference_of_parameters_is_told_though_the_job_ends_by_it() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let programs = TempDir::new().expect("folder");
    let mut children = start(host.dir(), &worker_program(programs.path()), &["compare"]);
    // A worker that ends also ends the calls of the others: so none ends before both have had their answers.
    for child in &mut children[1..] {
        let mut said = String::new();
        BufReader::new(child.stdout.as_mut().expect("its output")).read_line(&mut said).expect("a line");
        assert_eq!(said, "compared\n");
    }
    for child in &mut children[1..] {
        assert!(child.wait().expect("a child").success());
    }
    // The agent comes when the workers are gone: what they said is what they have left.
    let agent = host.agent();
    let compared = |batches: &[(Answer, Batch)]| {
        let members = told(batches).into_values();
        members.filter(|one| one.role() == SummationRole::Worker).collect::<Vec<SummationMember>>()
    };
    while compared(&daemon.batches).len() < 2 {
        daemon.next().await;
    }
    agent.stop().await;
    children[0].kill().and_then(|()| children[0].wait()).expect("the server ends");
    for member in compared(&daemon.batches) {
        let comparison = member.comparison.expect("it was compared");
        assert_eq!((comparison.count, comparison.steps, comparison.equal_steps), (2, 4, Some(2)));
        let difference = comparison.difference.expect("it differs");
        assert_eq!((difference.parameter.as_str(), difference.hashes), ("fc.bias", vec![7, 9]));
        assert!((member.joined_at_ns..).contains(&difference.at_ns), "in the group's time");
    }
}

fn is_a_worker(member: &SummationMember) {
    let traffic = || member.services.iter().flat_map(|one| &one.traffic);
    let pushed: u64 = traffic().map(|one| one.push_completed_bytes).sum();
    let pulled: u64 = traffic().map(|one| one.pull_completed_bytes).sum();
    assert_eq!((pushed, pulled), (N_ROUNDS * (GRADIENT_BYTES + PARAMETER_BYTES), pushed));
    assert_eq!(traffic().map(|one| one.local_bytes).sum::<u64>(), 2 * pushed, "one host");
    assert_eq!(member.stages.len(), 5);
    assert!(member.stages.iter().all(|stage| stage.entered_parts == stage.left_parts));
}

fn calls_are_counted(daemon: &FakeDaemon, key: &str) {
    let counters: BTreeMap<i32, (u64, u64, u64)> = (daemon.processes[key].counters.iter())
        .map(|one| (one.primitive, (one.issued_calls, one.completed_calls, one.completed_bytes)))
        .collect();
    let all = |bytes: u64| Some((N_ROUNDS, N_ROUNDS, N_ROUNDS * bytes));
    let of = |primitive: Primitive| counters.get(&primitive.into()).copied();
    assert_eq!(of(Primitive::PushPull), all(GRADIENT_BYTES));
    assert_eq!((of(Primitive::Push), of(Primitive::Pull)), (all(PARAMETER_BYTES), all(PARAMETER_BYTES)));
}
