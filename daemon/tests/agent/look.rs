//! What the agent tells of processes besides their calls: a look when the daemon asks, what the operating system says,
//! the kernel's messages, and processes that were started and have not called the library.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use prost::Message as _;
use ringscope_agent::KernelLog;
use ringscope_wire::batch::{CollectorState, Inquiry, KernelMessageKind, Look, Process, ProcessState};

use crate::Host;
use crate::daemon::{Answer, FakeDaemon};
use crate::segment::{SegmentWriter, fixed};

/// A rank as its collector would have it: it holds the lock of its segment. Then it waits for data.
const SCRIPT: &str = "
import fcntl, sys

def fetch(path):
    with open(path, 'rb', buffering=0) as file:
        return file.read(10)

print('started', flush=True)
segment = open(sys.stdin.readline().strip(), 'rb')
fcntl.flock(segment, fcntl.LOCK_EX)
print('locked', flush=True)
fetch(sys.argv[1])
";

struct Rank {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Drop for Rank {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Rank {
    fn start(dir: &Path) -> Self {
        let script = dir.join("train.py");
        std::fs::write(&script, SCRIPT).expect("script");
        let path = dir.join("train.bin");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).expect("fifo");
        let mut child = Command::new("python3")
            .arg(&script)
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is missing: apt-get install python3");
        let out = BufReader::new(child.stdout.take().expect("stdout"));
        let mut rank = Self { child, out };
        rank.says("started");
        rank
    }

    fn says(&mut self, word: &str) {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("line");
        assert_eq!(line.trim(), word);
    }

    /// Makes its segment, and lets it take the lock.
    fn with_segment(&mut self, host: &Host) -> String {
        let mut fixed = fixed(self.child.id(), "");
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
        fixed.start_time_ns = u64::try_from(now.as_nanos()).expect("before 2554");
        let segment = SegmentWriter::create_from(host.dir(), &fixed);
        segment.communicator(0, 1, 0xa0, 1);
        let path = segment.path.clone();
        drop(segment);
        let stdin = self.child.stdin.as_mut().expect("stdin");
        writeln!(stdin, "{}", path.display()).expect("write");
        self.says("locked");
        format!("node1/{}/{}", self.child.id(), fixed.start_time_ns)
    }
}

fn inquiry(id: &str, process: &str) -> Inquiry {
    Inquiry { id: id.to_owned(), process: process.to_owned(), look: true, ..Inquiry::default() }
}

async fn next_look(daemon: &mut FakeDaemon, id: &str) -> Look {
    let has = |batch: &ringscope_wire::batch::Batch| {
        let looks = batch.processes.iter().filter_map(|process| process.look.clone());
        looks.into_iter().find(|look| look.inquiry == id)
    };
    let batch = daemon.until_batch(Answer::Take, |batch| has(batch).is_some()).await;
    has(&batch).expect("a look")
}

#[tokio::test]
async fn the_daemon_asks_and_gets_the_line() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let writer_dir = host.root.path().to_owned();
    let mut rank = Rank::start(&writer_dir);
    let fifo = writer_dir.join("train.bin");
    let _writer = std::fs::OpenOptions::new().read(true).write(true).open(&fifo).expect("open");
    let key = rank.with_segment(&host);
    let agent = host.agent();
    // First what the system says of it: then it is known which process it is.
    daemon.until(|all| all.get(&key).is_some_and(|one| one.activity.is_some())).await;
    let activity = daemon.processes[&key].activity.clone().expect("activity");
    assert!(["S", "R", "D"].contains(&activity.state.as_str()), "{activity:?}");

    let mut n = 0;
    let look = loop {
        n += 1;
        let id = format!("look-{n}");
        daemon.inquire(vec![inquiry(&id, &key), inquiry(&id, &key)]);
        let look = next_look(&mut daemon, &id).await;
        // It may have been looked at before it came to its read.
        if look.threads.first().is_some_and(|main| main.syscall == "read" && !main.python.is_empty()) {
            break look;
        }
        assert!(n < 100, "{look:#?}");
    };
    let main = &look.threads[0];
    assert!(main.python[0].starts_with("train.py:6 fetch"), "{look:#?}");
    assert_eq!((main.subject.as_str(), look.stopped_ns), (fifo.to_str().expect("text"), 0), "{look:#?}");
    daemon.inquire(Vec::new());
    let looks = daemon.batches.iter().flat_map(|(_, batch)| &batch.processes);
    let looks = looks.filter(|process| process.look.as_ref().is_some_and(|look| look.inquiry == "look-1"));
    assert_eq!(looks.count(), 1, "each question is answered once");

    // Stopped, it is said to be, within a second.
    let pid = rustix::process::Pid::from_raw(i32::try_from(rank.child.id()).expect("small")).expect("pid");
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("stop");
    daemon.until(|all| all[&key].activity.as_ref().is_some_and(|activity| activity.state == "T")).await;
    agent.stop().await;
}

/// As logind does it when the job's user logs out.
#[tokio::test]
async fn a_segment_that_was_removed_is_no_death() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let mut rank = Rank::start(host.root.path());
    let key = rank.with_segment(&host);
    // Of a process that is not found on this machine nobody knows whether it lives.
    let elsewhere = SegmentWriter::create(host.dir(), 42, "");
    let keys = [key.clone(), crate::daemon::key(42)];
    let agent = host.agent();
    daemon.until(|all| all.get(&key).is_some_and(|one| one.activity.is_some())).await;
    daemon.until(|all| all.contains_key(&keys[1])).await;
    let name = key.trim_start_matches("node1/").replace('/', "-");
    for path in [host.dir().join(format!("{name}.seg")), elsewhere.path.clone()] {
        std::fs::remove_file(path).expect("remove");
    }
    let is_removed = |process: &Process| process.collector_state() == CollectorState::Removed;
    daemon.until(|all| keys.iter().all(|key| is_removed(&all[key]))).await;
    for key in &keys {
        let process = &daemon.processes[key];
        assert_eq!((process.state(), process.ended_at_ns), (ProcessState::Running, None));
        assert!(process.collector_off_since_ns.is_some());
    }

    rank.child.kill().expect("kill");
    rank.child.wait().expect("wait");
    daemon.until(|all| all[&key].ended_at_ns.is_some()).await;
    assert_eq!(daemon.processes[&key].state(), ProcessState::Exited, "nobody knows how");
    agent.stop().await;
}

#[tokio::test]
async fn off_and_unknown_are_answers_too() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let mut host = Host::new(&daemon.url);
    host.config.look = None;
    let segment = SegmentWriter::create(host.dir(), 42, "");
    segment.communicator(0, 1, 0xa0, 1);
    let key = crate::daemon::key(42);
    daemon.inquire(vec![inquiry("a", &key), inquiry("b", "node1/1/1")]);
    let agent = host.agent();
    daemon.until(|all| all.contains_key(&key)).await;
    let look = next_look(&mut daemon, "a").await;
    assert!(look.lacks[0].contains("--no-look") && look.threads.is_empty(), "{look:?}");
    agent.stop().await;
}

/// Copies the program by another process: what this one has open to write to, a child of another test may have inherited,
/// and then it cannot be executed.
fn copy(program: &Path) {
    let status = Command::new("cp").arg(env!("CARGO_BIN_EXE_ringscope")).arg(program).status().expect("cp");
    assert!(status.success());
}

/// What the program says of a process whose memory it may not read.
#[test]
fn refused_ptrace_is_said() {
    let dir = tempfile::tempdir().expect("folder");
    let program = dir.path().join("ringscope");
    copy(&program);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), mode).expect("mode");
    let stat = std::fs::read_to_string("/proc/1/stat").expect("init runs");
    let start =
        stat.rsplit_once(')').expect("a name").1.split_whitespace().nth(19).expect("field 22").to_owned();
    let mut command = Command::new(&program);
    command.args(["look-at", "--pid", "1", "--start-ticks", &start, "--cgroups", "/sys/fs/cgroup"]);
    if rustix::process::getuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    let output = command.output().expect("run");
    let mut bytes = output.stdout.as_slice();
    let mut last = None;
    while let Ok(look) = Look::decode_length_delimited(&mut bytes) {
        last = Some(look);
        if bytes.is_empty() {
            break;
        }
    }
    let look = last.expect("an answer");
    assert!(output.status.success() && !look.threads.is_empty(), "{look:?}");
    assert!(look.lacks.iter().any(|lack| lack.contains("ptrace is refused")), "{look:?}");
}

#[tokio::test]
async fn the_kernels_word_comes_with_the_batch() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let mut host = Host::new(&daemon.url);
    let kmsg = host.root.path().join("kmsg");
    let uptime = std::fs::read_to_string("/proc/uptime").expect("uptime");
    let seconds = uptime.split('.').next().expect("a number");
    let line =
        format!("4,7,{seconds}000000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus.\n");
    std::fs::write(&kmsg, line).expect("write");
    host.config.kernel_log = Some(KernelLog { kmsg: kmsg.clone(), journalctl: "/none".into() });
    let agent = host.agent();
    let batch = daemon.until_batch(Answer::Take, |batch| !batch.kernel.is_empty()).await;
    let message = &batch.kernel[0];
    assert_eq!((message.kind(), message.number, message.xid), (KernelMessageKind::GpuXid, 7, Some(79)));
    let readings = daemon.batches.iter().filter_map(|(_, batch)| batch.kernel_reading.as_ref());
    assert!(
        readings.into_iter().any(|reading| reading.readable && reading.how == kmsg.display().to_string())
    );
    agent.stop().await;
}

#[tokio::test]
async fn what_run_has_started_is_told_until_it_ends() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    // Beside a collector that nobody loads.
    let program = host.root.path().join("ringscope");
    copy(&program);
    for library in ["libringscope.so", "libringscope_preload.so", "libringscope_watcher.so"] {
        std::fs::write(host.root.path().join(library), "").expect("write");
    }
    let mut child = Command::new(&program)
        .args(["run", "--plugin-only", "--job", "gloo", "--dir"])
        .arg(host.dir())
        .arg("--cache-dir")
        .arg(host.root.path().join("cache"))
        .args(["--", "sleep", "1000"])
        .env("RINGSCOPE_HOST", "node1")
        .env("RANK", "3")
        .env("WORLD_SIZE", "8")
        .spawn()
        .expect("ringscope");
    let agent = host.agent();
    daemon.until(|all| !all.is_empty()).await;
    let process = daemon.processes.values().next().expect("one").clone();
    let identity = process.identity.clone().expect("identity");
    assert_eq!((identity.host.as_str(), identity.pid, identity.job.as_str()), ("node1", child.id(), "gloo"));
    assert_eq!((identity.global_rank, identity.world_size), (Some(3), Some(8)));
    assert_eq!(
        (process.launched, process.has_segment, process.state()),
        (true, false, ProcessState::Running)
    );
    assert_eq!(identity.executable, "sleep");
    child.kill().expect("kill");
    child.wait().expect("wait");
    daemon.until(|all| all.values().all(|one| one.state() == ProcessState::Exited)).await;
    assert_eq!(daemon.processes.len(), 1);
    // Its note goes with it.
    let notes = || {
        let names =
            std::fs::read_dir(host.dir()).expect("folder").map(|entry| entry.expect("entry").file_name());
        names.filter(|name| name.to_string_lossy().starts_with("run-")).count()
    };
    while notes() > 0 {
        daemon.next().await;
    }
    agent.stop().await;
}
