//! The agent as a user of its own: with the capabilities that its package gives it, and with none.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ringscope_daemon::clock::monotonic;
use ringscope_daemon::config::ServeConfig;
use ringscope_daemon::serve::Server;
use ringscope_wire::batch::{Inquiry, Process, ProcessState};
use rustix::io::{FdFlags, fcntl_setfd};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::Host;
use crate::attacks::{of_user, shared_host};
use crate::daemon::{Answer, FakeDaemon};
use crate::users::{MACHINE, Other, SECOND, VICTIM, can_be_others, content};

/// The agent's user.
const AGENT: u32 = 4_004;
/// As `packaging/systemd/ringscope-agent.service` gives them.
const GIVEN: &str = "-all,+sys_ptrace,+dac_read_search,+syslog,+fowner";
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
        let said = host.root.path().join("agent.log");
        let output = File::create(&said).expect("log");
        std::os::unix::fs::chown(host.root.path(), Some(AGENT), Some(AGENT)).expect("root");
        // By a descriptor also where nobody else may come by the program's path.
        let program = File::open(env!("CARGO_BIN_EXE_ringscope")).expect("program");
        fcntl_setfd(&program, FdFlags::empty()).expect("inherited");
        let user = AGENT.to_string();
        let child = Command::new("setpriv")
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
async fn four_capabilities_are_enough_to_see_all_of_two_users() {
    if !can_be_others() {
        return;
    }
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = shared_host(&daemon.url);
    let mut jobs = [VICTIM, SECOND].map(|user| (user, Other::start(user, "victim", host.dir(), "")));
    let segments = jobs.each_mut().map(|(_, job)| std::path::PathBuf::from(job.says("segment")));
    // A level that diagnosis wishes for, which this agent may not write into their segments.
    daemon.raise(&["llama"]);
    let agent = OwnAgent::start(&host, &daemon.url, GIVEN);

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
    // What is lacking is said in one line, and no more than is.
    let lacks = agent.lacks();
    assert!(
        lacks.len() == 1 && lacks[0].contains("CAP_DAC_OVERRIDE: levels of their processes"),
        "{lacks:?}"
    );
    assert!(!lacks[0].contains("CAP_DAC_READ_SEARCH"), "{lacks:?}");
    let refused = agent.says("cannot write the level that is wished for");
    assert_eq!(refused.len(), 2, "of each process once, not at each reading: {refused:?}");

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
