//! What a confined agent can no longer do, as seen from inside and from outside; that it does all its work is what `rights` shows.

use std::fs::{File, Permissions};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _, Scope,
};
use ringscope_agent::{AgentConfig, confine};
use ringscope_api::clock::monotonic;
use rustix::process::{Pid, Signal};

use crate::Host;
use crate::daemon::{Answer, FakeDaemon};
use crate::users::content;

/// The variables by which a child is told to confine itself: its folder, and ports that it tries.
const DIR: &str = "RINGSCOPE_TEST_SANDBOX_DIR";
const PORTS: &str = "RINGSCOPE_TEST_SANDBOX_PORTS";

/// Does nothing when run as a test; as a child it confines itself and says what it can still do.
#[test]
#[expect(clippy::disallowed_methods, reason = "the child is told by the environment")]
fn child_that_is_confined() {
    let Some(root) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let ports = std::env::var(PORTS).expect("ports");
    let ports: Vec<u16> = ports.split(',').map(|port| port.parse().expect("a port")).collect();
    let other = File::options().write(true).open(root.join("opened-before")).expect("open");
    let mut config = AgentConfig::new(format!("http://127.0.0.1:{}", ports[0]), root.join("state"));
    config.dir = root.join("segments");
    let config = confine(config).expect("confined");
    let deeds: [(&str, &dyn Fn() -> io::Result<()>); 18] = [
        ("write a segment", &|| std::fs::write(config.dir.join("1-1.seg"), "x")),
        ("remove a segment", &|| std::fs::remove_file(config.dir.join("1-1.seg"))),
        ("write state", &|| std::fs::write(config.state_dir.join("batch"), "x")),
        ("make a folder of state", &|| std::fs::create_dir(config.state_dir.join("folder"))),
        ("remove it", &|| std::fs::remove_dir(config.state_dir.join("folder"))),
        ("read a log", &|| std::fs::read(root.join("log")).map(drop)),
        ("list processes", &|| std::fs::read_dir("/proc").map(drop)),
        ("connect to the daemon", &|| TcpStream::connect(("127.0.0.1", ports[0])).map(drop)),
        ("make a thread", &|| std::thread::Builder::new().spawn(|| ()).map(drop)),
        ("write elsewhere", &|| std::fs::write(root.join("new"), "x")),
        ("write another's file", &|| File::options().write(true).open(root.join("log")).map(drop)),
        ("remove another's file", &|| std::fs::remove_file(root.join("log"))),
        ("give rights away", &|| other.set_permissions(Permissions::from_mode(0o666))),
        ("make a link", &|| std::os::unix::fs::symlink("/etc/shadow", config.dir.join("link"))),
        ("start a program", &|| Command::new("true").spawn().map(drop)),
        ("see another's memory", &|| File::open(format!("/proc/{}/maps", parent())).map(drop)),
        ("connect elsewhere", &|| TcpStream::connect(("127.0.0.1", ports[1])).map(drop)),
        ("listen", &|| TcpListener::bind("127.0.0.1:0").map(drop)),
    ];
    for (deed, doing) in deeds {
        let answer = doing().map_or_else(|error| error.kind().to_string(), |()| "done".to_owned());
        println!("{deed}: {answer}");
    }
}

fn parent() -> u32 {
    std::os::unix::process::parent_id()
}

#[test]
fn what_an_agent_needs_is_left_to_it_and_nothing_else() {
    let root = tempfile::tempdir().expect("folder");
    for name in ["log", "opened-before"] {
        std::fs::write(root.path().join(name), "x").expect("write");
    }
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("listen"));
    let ports = listeners.each_ref().map(|one| one.local_addr().expect("address").port().to_string());
    let output = Command::new("/proc/self/exe")
        .args(["--exact", "sandbox::child_that_is_confined", "--nocapture"])
        .env(DIR, root.path())
        .env(PORTS, ports.join(","))
        .output()
        .expect("child");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let done = |deed: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(deed)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("{deed}: {said}\n{}", String::from_utf8_lossy(&output.stderr)))
    };
    for deed in [
        "write a segment",
        "remove a segment",
        "write state",
        "make a folder of state",
        "remove it",
        "read a log",
        "list processes",
        "connect to the daemon",
        "make a thread",
    ] {
        assert_eq!(done(deed), "done", "{deed}: {said}");
    }
    for deed in ["give rights away", "start a program"] {
        assert_eq!(done(deed), "permission denied", "{deed}: {said}");
    }
    // The first that knows connections, and all that comes before.
    if !knows(ABI::V4) {
        println!("this kernel's Landlock does not know enough: what it does is not tried");
        return;
    }
    for deed in [
        "write elsewhere",
        "write another's file",
        "remove another's file",
        "make a link",
        "see another's memory",
        "connect elsewhere",
        "listen",
    ] {
        assert_eq!(done(deed), "permission denied", "{deed}: {said}");
    }
    assert!(root.path().join("log").exists() && !root.path().join("new").exists());
}

/// Whether this kernel's Landlock knows so much.
fn knows(version: ABI) -> bool {
    let asked = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(version))
        .and_then(|asked| asked.handle_access(AccessNet::from_all(version)))
        .and_then(|asked| asked.scope(Scope::from_all(version)));
    asked.and_then(Ruleset::create).is_ok()
}

/// A real agent, which is killed when it is dropped.
pub(crate) struct Running {
    child: Child,
    pub(crate) said: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    pub(crate) fn start(host: &Host, daemon: &str, args: &[&str]) -> Self {
        let said = host.root.path().join("agent.log");
        let child = Command::new(env!("CARGO_BIN_EXE_ringscope"))
            .args(["agent", "--daemon", daemon, "--hardware-interval", "0s", "--no-kernel-log"])
            .args(["--interval", "20ms", "--dir"])
            .arg(host.dir())
            .arg("--state-dir")
            .arg(&host.config.state_dir)
            .args(args)
            .stdout(Stdio::null())
            .stderr(File::create(&said).expect("log"))
            .spawn()
            .expect("agent");
        Self { child, said }
    }

    /// How the kernel holds each of its threads: filters of system calls, and whether it may gain rights.
    fn threads(&self) -> Vec<(String, String)> {
        // One that has ended meanwhile says nothing.
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("threads");
        let status = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok());
        let field = |status: &str, name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
        };
        status.map(|status| (field(&status, "Seccomp:"), field(&status, "NoNewPrivs:"))).collect()
    }
}

#[tokio::test]
async fn an_agent_is_confined_with_all_its_threads_and_says_so() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let agent = Running::start(&host, &daemon.url, &[]);
    daemon.until_batch(Answer::Take, |_| true).await;
    let threads = agent.threads();
    assert!(threads.len() > 1 && threads.iter().all(|held| *held == ("2".into(), "1".into())), "{threads:?}");
    let said = content(&agent.said);
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("(seccomp)")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    if knows(ABI::V6) {
        let words = format!("the agent is confined by Landlock: it writes in {} and", host.dir().display());
        assert!(lines[0].contains(&words), "{said}");
    }
}

#[tokio::test]
async fn one_that_is_told_so_is_not_confined_and_says_so() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let agent = Running::start(&host, &daemon.url, &["--no-sandbox"]);
    daemon.until_batch(Answer::Take, |_| true).await;
    let threads = agent.threads();
    assert!(threads.iter().all(|(filters, _)| filters == "0"), "{threads:?}");
    let said = content(&agent.said);
    assert!(said.contains("the agent is not confined, as it was told (--no-sandbox"), "{said}");
}

#[tokio::test]
async fn who_starts_its_programs_ends_with_the_agent() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let agent = Running::start(&host, &daemon.url, &[]);
    daemon.until_batch(Answer::Take, |_| true).await;
    let number = agent.child.id();
    let children = content(Path::new(&format!("/proc/{number}/task/{number}/children")));
    let starter: u32 = children.trim().parse().expect("one child");
    let command = content(Path::new(&format!("/proc/{starter}/cmdline")));
    assert!(command.contains("agent-starter"), "{command}");
    // Killed: it has no time to say goodbye.
    drop(agent);
    let started = monotonic();
    let lives = || {
        let stat = std::fs::read_to_string(format!("/proc/{starter}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    };
    while lives() {
        assert!(monotonic().duration_since(started) < Duration::from_secs(120), "it stays");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn one_whose_starter_has_ended_says_what_is_not_seen() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let agent = Running::start(&host, &daemon.url, &[]);
    let first = daemon.until_batch(Answer::Take, |_| true).await;
    assert_eq!(first.not_watched, "");
    let number = agent.child.id();
    let children = content(Path::new(&format!("/proc/{number}/task/{number}/children")));
    let starter = Pid::from_raw(children.trim().parse().expect("one child")).expect("number");
    rustix::process::kill_process(starter, Signal::KILL).expect("kill");
    let told = daemon.until_batch(Answer::Take, |batch| !batch.not_watched.is_empty()).await;
    for part in ["(stacks, system calls) is not seen", "agent-starter", "restart the agent"] {
        assert!(told.not_watched.contains(part), "{part} in {}", told.not_watched);
    }
}

#[tokio::test]
async fn where_its_folder_is_made_again_it_ends_and_says_why() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let mut agent = Running::start(&host, &daemon.url, &[]);
    daemon.until_batch(Answer::Take, |_| true).await;
    // While it is not there, nothing is lost yet.
    std::fs::remove_dir_all(host.dir()).expect("remove");
    daemon.until_batch(Answer::Take, |_| true).await;
    assert!(agent.child.try_wait().expect("wait").is_none(), "{}", content(&agent.said));
    std::fs::create_dir(host.dir()).expect("folder");
    daemon.until_batch(Answer::Take, |batch| batch.ending).await;
    let status = agent.child.wait().expect("wait");
    let said = content(&agent.said);
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("was removed and made again: this agent is held to the folder"), "{said}");
}
