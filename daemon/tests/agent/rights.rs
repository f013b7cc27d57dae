//! The agent as a user of its own: with the capabilities that its package gives it, and with none.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ringscope_api::clock::monotonic;
use ringscope_daemon::config::ServeConfig;
use ringscope_daemon::serve::Server;
use ringscope_wire::batch::{Inquiry, Process, ProcessState};
use ringscope_wire::segment::layout::{CONTROL_ON, CONTROL_RAISED};
use ringscope_wire::segment::read::control_offset;
use rustix::io::{FdFlags, fcntl_setfd};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::Host;
use crate::attacks::{of_user, shared_host};
use crate::daemon::{Answer, FakeDaemon};
use crate::users::{MACHINE, Other, SECOND, VICTIM, VICTIM_RUN, can_be_others, content};

/// The agent's user.
const AGENT: u32 = 4_004;
/// As `packaging/systemd/ringscope-agent.service` gives them.
const GIVEN: &str = "-all,+sys_ptrace,+dac_read_search,+syslog,+fowner,+dac_override";
/// The same without the right to write others' files.
const READING: &str = "-all,+sys_ptrace,+dac_read_search,+syslog,+fowner";
const NONE: &str = "-all";

/// A real agent of its own user, which is killed when it is dropped.
struct OwnAgent {
    child: Child,
    said: std::path::PathBuf,
}

impl Drop for OwnAgent {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl OwnAgent {
    fn start(host: &Host, daemon: &str, capabilities: &str) -> Self {
        Self::start_by(Command::new("setpriv"), host, daemon, capabilities)
    }

    /// The same where `/proc` shows processes to those alone who may trace them.
    fn start_behind_hidepid(host: &Host, daemon: &str, capabilities: &str) -> Self {
        let mut command = Command::new("unshare");
        let mount = "mount -t proc -o hidepid=2 proc /proc && exec setpriv \"$@\"";
        command.args(["--mount", "sh", "-c", mount, "setpriv"]);
        Self::start_by(command, host, daemon, capabilities)
    }

    fn start_by(mut setpriv: Command, host: &Host, daemon: &str, capabilities: &str) -> Self {
        let said = host.root.path().join("agent.log");
        let output = File::create(&said).expect("log");
        std::os::unix::fs::chown(host.root.path(), Some(AGENT), Some(AGENT)).expect("root");
        // By a descriptor also where nobody else may come by the program's path.
        let program = File::open(env!("CARGO_BIN_EXE_ringscope")).expect("program");
        fcntl_setfd(&program, FdFlags::empty()).expect("inherited");
        let user = AGENT.to_string();
        let child = setpriv
            .args(["--reuid", &user, "--regid", &user, "--clear-groups", "--inh-caps", capabilities])
            .args(["--ambient-caps", capabilities])
            .arg(format!("/proc/self/fd/{}", program.as_raw_fd()))
            .args(["agent", "--daemon", daemon, "--host", MACHINE, "--hardware-interval", "0s"])
            .args(["--no-kernel-log", "--interval", "20ms", "--keep-dead", "0s", "--dir"])
            .arg(host.dir())
            .arg("--state-dir")
            .arg(&host.config.state_dir)
            .current_dir("/")
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .expect("setpriv is missing: apt-get install util-linux");
        Self { child, said }
    }

    /// The lines in which it says what it may not do.
    fn lacks(&self) -> Vec<String> {
        self.says("the agent works without")
    }

    /// The lines with these words.
    fn says(&self, words: &str) -> Vec<String> {
        content(&self.said).lines().filter(|line| line.contains(words)).map(str::to_owned).collect()
    }
}

fn calls(process: &Process) -> Option<u64> {
    process.counters.iter().map(|one| one.completed_calls).max()
}

#[tokio::test]
async fn five_capabilities_are_enough_for_all_of_two_users() {
    if can_be_others() {
        all_of_two_users(OwnAgent::start).await;
    }
}

#[tokio::test]
async fn they_are_also_where_the_kernel_hides_processes() {
    if can_be_others() {
        all_of_two_users(OwnAgent::start_behind_hidepid).await;
    }
}

async fn all_of_two_users(start: fn(&Host, &str, &str) -> OwnAgent) {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = shared_host(&daemon.url);
    let mut jobs = [VICTIM, SECOND].map(|user| (user, Other::start(user, "victim", host.dir(), "")));
    let segments = jobs.each_mut().map(|(_, job)| std::path::PathBuf::from(job.says("segment")));
    // A level that diagnosis wishes for, which is written into their segments.
    daemon.raise(&["llama"]);
    let agent = start(&host, &daemon.url, GIVEN);

    let mut keys = Vec::new();
    for (user, job) in &mut jobs {
        let key = format!("{MACHINE}/{}/{}", job.pid(), crate::users::started_ns(job.pid()));
        daemon.until(|all| all.get(&key).is_some_and(|one| one.activity.is_some())).await;
        // What the process does is seen too: that is what CAP_SYS_PTRACE is for.
        let id = format!("look-{user}");
        let question = Inquiry { id: id.clone(), process: key.clone(), look: true, ..Inquiry::default() };
        daemon.inquire(vec![question]);
        let look = |all: &std::collections::BTreeMap<String, Process>| {
            all[&key].look.clone().filter(|look| look.inquiry == id)
        };
        daemon.until(|all| look(all).is_some()).await;
        let look = look(&daemon.processes).expect("a look");
        assert!(look.threads.iter().any(|thread| !thread.syscall.is_empty()), "{look:#?}");
        daemon.inquire(Vec::new());
        keys.push(key);
    }
    for ((user, job), key) in jobs.iter_mut().zip(&keys) {
        job.tell("stop");
        let counted: u64 = job.says("counted").parse().expect("number");
        daemon.until(|all| all.get(key).and_then(calls) >= Some(counted)).await;
        let told = of_user(&daemon, *user).next().expect("told");
        assert_eq!((told.key.as_str(), calls(told)), (key.as_str(), Some(counted)));
        assert_eq!((told.communicators.len(), told.communicators[0].final_channels), (1, Some(4)));
        assert!(told.log_lacks.is_empty() && told.has_segment, "{:?}", told.log_lacks);
    }
    let blind = daemon.batches.iter().map(|(_, batch)| batch.not_watched.as_str());
    assert_eq!(blind.filter(|words| !words.is_empty()).collect::<Vec<_>>(), [""; 0]);
    assert_eq!(agent.lacks(), [""; 0]);
    assert_eq!(agent.says("(seccomp)").len(), 1, "confined, or what kept it from that");
    assert_eq!(segments.each_ref().map(|segment| control(segment)), [CONTROL_RAISED; 2]);
    assert_eq!(agent.says("cannot write the level"), [""; 0]);

    // Of one that has ended the segment goes, though it is another user's: CAP_FOWNER.
    let [(_, first), _second] = jobs;
    drop(first);
    daemon.until(|all| all[&keys[0]].state() == ProcessState::Killed).await;
    let started = monotonic();
    while segments[0].exists() {
        assert!(monotonic().duration_since(started) < Duration::from_secs(120), "it stays");
        daemon.next().await;
    }
    assert!(segments[1].exists());
}

#[tokio::test]
async fn a_container_that_names_itself_otherwise_is_no_lie() {
    if !can_be_others() {
        return;
    }
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = shared_host(&daemon.url);
    let agent = OwnAgent::start(&host, &daemon.url, GIVEN);
    for (is_contained, expected) in [(true, 0), (false, 1)] {
        let mut job = match is_contained {
            true => Other::start_in_container(VICTIM, "victim", host.dir(), "container7"),
            false => Other::start(SECOND, "victim", host.dir(), "container8"),
        };
        job.says("segment");
        let user = if is_contained { VICTIM } else { SECOND };
        daemon
            .until(|all| {
                all.values().any(|one| one.identity.as_ref().is_some_and(|id| id.user == Some(user)))
            })
            .await;
        let said = agent.says("counts itself to another host");
        assert_eq!(said.len(), expected, "{said:?}");
    }
}

#[tokio::test]
async fn what_was_read_of_another_users_long_log_is_freed() {
    if !can_be_others() {
        return;
    }
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = shared_host(&daemon.url);
    let mut job = Other::start(VICTIM, "victim", host.dir(), "");
    job.says("segment");
    let name = format!("logs-{VICTIM}/nccl-{VICTIM_RUN}-{MACHINE}-{}.log", job.pid());
    let log = host.dir().join(name);
    let more = File::options().append(true).open(&log).expect("log");
    (&more).write_all(&[b"l".repeat(63), b"\n".to_vec()].concat().repeat(64 << 10)).expect("write");
    let _agent = OwnAgent::start(&host, &daemon.url, GIVEN);
    let started = monotonic();
    let taken = || log.metadata().expect("log").blocks() * 512;
    while taken() > 1 << 20 {
        assert!(monotonic().duration_since(started) < Duration::from_secs(120), "{} bytes stay", taken());
        daemon.next().await;
    }
    assert!(log.metadata().expect("log").len() > 4 << 20);
}

#[tokio::test]
async fn without_the_right_to_write_others_files_levels_are_refused_once_and_that_is_said() {
    if !can_be_others() {
        return;
    }
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = shared_host(&daemon.url);
    let mut jobs = [VICTIM, SECOND].map(|user| Other::start(user, "victim", host.dir(), ""));
    let segments = jobs.each_mut().map(|job| std::path::PathBuf::from(job.says("segment")));
    daemon.raise(&["llama"]);
    let agent = OwnAgent::start(&host, &daemon.url, READING);
    let started = monotonic();
    let refused = || agent.says("cannot write the level that is wished for").len();
    while refused() < 2 {
        assert!(monotonic().duration_since(started) < Duration::from_secs(120), "{}", content(&agent.said));
        daemon.next().await;
    }
    for _ in 0..20 {
        daemon.next().await;
    }
    assert_eq!(refused(), 2, "of each process once, not at each reading");
    // What is lacking is said in one line, and no more than is.
    let lacks = agent.lacks();
    assert!(
        lacks.len() == 1 && lacks[0].contains("CAP_DAC_OVERRIDE: levels of their processes"),
        "{lacks:?}"
    );
    assert!(!lacks[0].contains("CAP_DAC_READ_SEARCH"), "{lacks:?}");
    assert_eq!(segments.each_ref().map(|segment| control(segment)), [CONTROL_ON; 2]);
}

/// The control word of a segment.
fn control(segment: &Path) -> u32 {
    let mut word = [0; 4];
    File::open(segment).expect("segment").read_exact_at(&mut word, control_offset()).expect("word");
    u32::from_le_bytes(word)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_capabilities_it_says_what_is_not_seen_and_so_does_status() {
    if !can_be_others() {
        return;
    }
    let config = ServeConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        database_url: "none".parse().expect("none"),
        with_agent: false,
        ..ServeConfig::default()
    };
    let server = Server::bind(config).await.expect("bind");
    let (url, token, mut tasks) = (server.local_url(), CancellationToken::new(), JoinSet::new());
    tasks.spawn(server.run(token.clone()));
    let host = shared_host(&url);
    let mut jobs = [VICTIM, SECOND].map(|user| Other::start(user, "victim", host.dir(), ""));
    jobs.iter_mut().for_each(|job| drop(job.says("segment")));
    let agent = OwnAgent::start(&host, &url, NONE);
    let started = monotonic();
    let status = loop {
        let output = Command::new(env!("CARGO_BIN_EXE_ringscope"))
            .args(["status", "--strict", "--daemon", &url])
            .output()
            .expect("status");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.contains("not watched") {
            break (text, output.status.code());
        }
        assert!(
            monotonic().duration_since(started) < Duration::from_secs(120),
            "{text}\n{}",
            content(&agent.said)
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let first = status.0.lines().next().unwrap_or_default();
    assert!(first.contains("unknown") && first.contains(MACHINE), "{}", status.0);
    let why = format!(
        "2 processes are not watched, because the agent may not read their segments in {} (permission denied): give it \
         the capability CAP_DAC_READ_SEARCH",
        host.dir().display()
    );
    assert!(status.0.contains(&why), "{}", status.0);
    assert_eq!(status.1, Some(3), "{}", status.0);
    let lacks = agent.lacks();
    assert_eq!(lacks.len(), 1, "{lacks:?}");
    for words in [
        "CAP_DAC_READ_SEARCH: jobs of other users are not watched",
        "CAP_SYS_PTRACE: what their processes do while a job hangs (stacks, system calls) is not seen",
        "CAP_SYSLOG: the kernel's messages",
        "CAP_FOWNER: segments of their processes that ended are left",
    ] {
        assert!(lacks[0].contains(words), "{words}: {lacks:?}");
    }
    drop(agent);
    token.cancel();
    tasks.join_next().await.expect("one task").expect("no panic").expect("no error");
}
