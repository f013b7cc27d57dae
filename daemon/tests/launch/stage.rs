//! Pretended hosts: namespaces that end with the test, with sshd in each.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ringscope_api::clock;

use crate::common::stage::RINGSCOPE;
use crate::common::{TempDir, needs, slurm};
use crate::{Running, fresh};

/// Hosts h1, h2, …
pub(crate) struct Hosts {
    child: Child,
    /// The first process inside, as this machine numbers it.
    inside: u32,
    pub(crate) dir: TempDir,
    /// Processes that stand when nothing was launched.
    standing: Vec<String>,
}

impl Hosts {
    pub(crate) fn up(n: u32) -> Self {
        Self::with(n, &[])
    }

    /// The same, as nodes of a Slurm cluster.
    pub(crate) fn of_slurm(n: u32) -> Self {
        needs(&slurm::PROGRAMS, slurm::PACKAGES);
        Self::with(n, &["slurm"])
    }

    fn with(n: u32, more: &[&str]) -> Self {
        needs(&["sshd", "ssh", "nsenter"], "openssh-server openssh-client util-linux");
        assert!(
            rustix::process::geteuid().is_root(),
            "pretended hosts are namespaces and sshd's, which need root"
        );
        let dir = TempDir::new("launch-hosts");
        std::fs::write(dir.join("slurm.settings"), slurm::SETTINGS).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/launch/hosts.sh");
        // The kernel kills it with the thread of this test, and with it all inside.
        let mut child = Command::new("setpriv")
            .args([
                "--pdeathsig",
                "KILL",
                "unshare",
                "--mount",
                "--net",
                "--pid",
                "--fork",
                "--kill-child=KILL",
                "--mount-proc",
                "sh",
            ])
            .arg(script)
            .arg(&dir.0)
            .arg(n.to_string())
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "the hosts do not stand");
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let inside = std::fs::read_to_string(children).unwrap().trim().parse().unwrap();
        let mut hosts = Self { child, inside, dir, standing: Vec::new() };
        hosts.standing = hosts.processes();
        hosts
    }

    /// A command on a host.
    pub(crate) fn on(&self, host: &str, words: &[&str]) -> Command {
        let mut command = fresh("nsenter");
        command.args(["-t", &self.inside.to_string(), "-p", "-m", "--wd=/", "--"]);
        command.arg(self.dir.join("on")).arg(host).args(words);
        command
    }

    /// `ringscope launch` on h1, whose number lies in `launch.pid`.
    pub(crate) fn launch(&self, options: &[&str], command: &str) -> Command {
        let ssh = format!("ssh -F {}", self.dir.join("ssh_config").display());
        let pid = self.dir.join("launch.pid");
        let _ = std::fs::remove_file(&pid);
        let script = format!("echo $$ > {} && cd {} && exec \"$@\"", pid.display(), self.dir.display());
        let words = ["sh", "-c", &script, "sh", RINGSCOPE, "launch"];
        let ssh = if options.contains(&"--ssh") { vec![] } else { vec!["--ssh", ssh.as_str()] };
        self.on("h1", &[&words, &*ssh, options, &["--", "sh", "-c", command]].concat())
    }

    /// Sends a signal to what has this number inside.
    pub(crate) fn signal(&self, signal: &str, pid: &str) {
        assert!(self.on("h1", &["kill", signal, pid]).status().unwrap().success(), "kill {signal} {pid}");
    }

    /// The number of the launch.
    pub(crate) fn launch_pid(&self) -> String {
        std::fs::read_to_string(self.dir.join("launch.pid")).unwrap().trim().to_owned()
    }

    /// Numbers of the processes on a host whose arguments are such.
    pub(crate) fn pids(&self, host: &str, is_such: impl Fn(&str) -> bool) -> Vec<String> {
        let own = self.on(host, &["readlink", "/proc/self/ns/net"]).output().unwrap().stdout;
        let own = String::from_utf8(own).unwrap();
        let such = |process: &String| {
            let mut words = process.splitn(3, ' ');
            let (pid, network, arguments) = (words.next()?, words.next()?, words.next()?);
            (network == own.trim() && is_such(arguments)).then(|| pid.to_owned())
        };
        self.processes().iter().filter_map(such).collect()
    }

    /// Ends what sshd has left of connections whose other end is gone: it knows no time-out.
    pub(crate) fn end_ssh_sessions(&self, host: &str) {
        for pid in
            self.pids(host, |arguments| arguments.starts_with("sshd:") && !arguments.contains("[listener]"))
        {
            let _ = self.on(host, &["kill", "-KILL", &pid]).status();
        }
    }

    /// Arguments of all processes inside.
    fn processes(&self) -> Vec<String> {
        let listed = self.on("h1", &["sh", "-c", LIST]).output().unwrap();
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        text.lines().filter(|line| !line.contains(LIST.lines().next().unwrap())).map(str::to_owned).collect()
    }

    /// Waits until nothing runs on any host but what stood before, by their numbers: these still become what they are to be.
    pub(crate) fn nothing_is_left(&self, patience: Duration) {
        let since = clock::monotonic();
        let number = |process: &str| process.split_once(' ').map(|(number, _)| number.to_owned());
        let standing: Vec<_> = self.standing.iter().map(|process| number(process)).collect();
        loop {
            let all = self.processes().into_iter();
            let left: Vec<String> = all.filter(|process| !standing.contains(&number(process))).collect();
            if left.is_empty() {
                break;
            }
            assert!(since.elapsed() < patience, "left behind after {patience:?}: {left:#?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        for host in ["h1", "h2"] {
            let claims = self.on(host, &["sh", "-c", HELD]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&claims.stdout), "", "a name is still claimed on {host}");
        }
    }

    /// Starts a launch.
    pub(crate) fn start(&self, options: &[&str], command: &str) -> Running {
        Running::start(&mut self.launch(options, command))
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Names of jobs that somebody holds.
const HELD: &str = r#"for f in /dev/shm/ringscope/jobs-*/*; do [ -e "$f" ] && ! flock -n "$f" true && echo "$f"; done; true"#;

/// Number, network and arguments of each process with arguments, but for this one and what it starts.
const LIST: &str = r#"# the list
for p in /proc/[0-9]*; do
  n=${p#/proc/}
  [ "$n" = "$$" ] && continue
  c=$(tr '\0' ' ' < "$p/cmdline" 2>/dev/null) && [ -n "$c" ] && echo "$n $(readlink "$p/ns/net") $c"
done"#;
