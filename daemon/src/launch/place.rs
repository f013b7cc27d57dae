//! How a host is reached: on this machine, by ssh, by srun. What a failure to reach one means, in words.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::Command;

use super::OWN_PROGRAM;
use super::config::KEPT;
use super::inherited::Inherited;

/// Where a host is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// This machine.
    Here,
    /// Behind ssh.
    Ssh,
    /// A node of the Slurm allocation.
    Srun,
    /// It came by itself, to the meeting.
    Comes,
}

/// How other hosts are reached.
#[derive(Clone, Debug)]
pub(super) struct Ways {
    /// ssh with its arguments.
    pub(super) ssh: Vec<String>,
    /// ringscope on the other hosts.
    pub(super) ringscope: PathBuf,
    /// How long a host may take to answer.
    pub(super) connect_timeout: Duration,
    /// When silence is an end, and how long processes have then.
    pub(super) silence: Duration,
    pub(super) grace: Duration,
    /// What this process was started with, and what it starts gets.
    pub(super) inherited: Inherited,
}

impl Ways {
    /// What starts the host side there, with its standard streams as the channel.
    pub(super) fn command(&self, place: &Place, host: &str) -> Command {
        let mut command = match place {
            Place::Here | Place::Comes => {
                let mut command = Command::new(OWN_PROGRAM);
                command.arg0("ringscope").args(self.node());
                command
            }
            Place::Ssh => self.by_ssh(host),
            Place::Srun => self.by_srun(host),
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        // A terminal's Ctrl-C is this process's alone.
        command.process_group(0);
        self.inherited.hand_on(command.as_std_mut());
        command
    }

    /// The hidden command and its options.
    pub(super) fn node(&self) -> [String; 5] {
        let ms = |time: Duration| time.as_millis().to_string();
        ["launch-node".into(), "--silence-ms".into(), ms(self.silence), "--grace-ms".into(), ms(self.grace)]
    }

    fn by_ssh(&self, host: &str) -> Command {
        let (program, arguments) =
            self.ssh.split_first().map_or(("ssh", &[][..]), |(first, rest)| (first.as_str(), rest));
        let mut command = Command::new(program);
        // First come, first served: what the user says holds.
        command.args(arguments).args(["-T", "-o", "BatchMode=yes"]);
        let seconds = self.connect_timeout.as_secs().max(1);
        command.args(["-o", &format!("ConnectTimeout={seconds}"), "-o", "ConnectionAttempts=1"]);
        // A connection that is there is used. One of ours that stayed for others would hold our streams, and outlive the job.
        command.args(["-o", "ControlMaster=no"]);
        command.args([
            "-o",
            "ServerAliveInterval=15",
            "-o",
            "LogLevel=ERROR",
            "--",
            host,
            &self.remote_line(),
        ]);
        command
    }

    /// What the other side's shell is given.
    pub(super) fn remote_line(&self) -> String {
        let words = [self.ringscope.display().to_string()].into_iter().chain(self.node());
        let words: Vec<String> = words.map(|word| quoted(&word)).collect();
        format!("exec {}", words.join(" "))
    }

    fn by_srun(&self, host: &str) -> Command {
        let mut command = Command::new("srun");
        command.args(["--nodes=1", "--ntasks=1", "--overlap", "--export=ALL", "--cpu-bind=none", "--quiet"]);
        command.args(["--kill-on-bad-exit=0", "--job-name=ringscope-launch"]);
        command.arg(format!("--nodelist={host}")).arg("--").arg(&self.ringscope).args(self.node());
        // What an outer step was told is not for this one, and what is this host's own or a secret stays here.
        for name in SRUN_VARIABLES.iter().chain(&KEPT) {
            command.env_remove(name);
        }
        command
    }
}

/// In single quotes, for any shell of Bourne's or the C shell's family.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Words of `--ssh`, between spaces; quotes keep spaces together.
pub(super) fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match (quote, words.is_empty()) {
        (Some(_), _) => Err(format!("--ssh {text:?}: a quote is not closed")),
        (None, true) => Err("--ssh: expected a command, e.g. 'ssh -p 2222'".to_owned()),
        (None, false) => Ok(words),
    }
}

/// What is known of a host that could not be had.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempt {
    /// How what was to reach it ended, if it has.
    pub(super) status: Option<(Option<i32>, Option<i32>)>,
    /// The last lines of its errors.
    pub(super) errors: Vec<String>,
    /// What came in place of our greeting.
    pub(super) before: String,
    /// Why what was to reach it could not be started.
    pub(super) not_started: Option<(OsString, std::io::ErrorKind, String)>,
}

impl Attempt {
    /// Notes how it ended.
    pub(super) fn ended(&mut self, status: ExitStatus) {
        use std::os::unix::process::ExitStatusExt as _;
        self.status = Some((status.code(), status.signal()));
    }
}

/// Why a host cannot be had, and what to do.
pub(super) fn why(place: &Place, host: &str, attempt: &Attempt, ways: &Ways) -> String {
    if let Some((program, kind, text)) = &attempt.not_started {
        let program = program.display();
        return match (kind, place) {
            (std::io::ErrorKind::NotFound, Place::Ssh) => format!(
                "{host} cannot be reached: there is no {program} on this machine; install an ssh client (Debian: apt-get install \
                 openssh-client), or name one with --ssh"
            ),
            (std::io::ErrorKind::NotFound, _) => {
                format!("{host} cannot be reached: there is no {program} on this machine")
            }
            _ => format!("{host} cannot be reached: {program} cannot be started: {text}"),
        };
    }
    let errors = attempt.errors.join("; ");
    let ssh = match place {
        Place::Srun => format!("srun -w {host}"),
        _ => format!("{} {host}", ways.ssh.join(" ")),
    };
    let says = |word: &str| errors.contains(word);
    let ringscope = ways.ringscope.display();
    match (place, attempt.status.map(|(code, _)| code)) {
        (_, None) => format!(
            "{host} does not answer within {} s: is it up, does it let us in, and do its login scripts end? Try `{ssh} true`, or \
             give it longer with --connect-timeout",
            ways.connect_timeout.as_secs_f64()
        ),
        (Place::Ssh, Some(Some(127))) => missing(host, &ringscope, &ssh),
        (Place::Ssh, Some(Some(126))) => format!("{host}: {ringscope} cannot be executed there: {errors}"),
        (Place::Ssh, Some(_)) if says("Could not resolve") => {
            format!(
                "{host} is not known: no name service and no ssh configuration has it ({errors}); is it spelled right?"
            )
        }
        (Place::Ssh, Some(_)) if says("Permission denied") || says("Too many authentication failures") => {
            format!(
                "{host} does not let this user in ({errors}): ssh must not ask for anything, so put a key there: ssh-copy-id {host}"
            )
        }
        (Place::Ssh, Some(_)) if says("Host key verification failed") => {
            format!(
                "{host}: ssh does not know its key ({errors}): go there once by hand, `{ssh}`, and look at the key"
            )
        }
        (Place::Ssh, Some(_))
            if says("timed out") || says("No route") || says("refused") || says("unreachable") =>
        {
            format!("{host} does not answer ({errors}): is it up, and does an ssh server run there?")
        }
        (_, Some(_)) if says("No such file or directory") && says("execve") => {
            missing(host, &ringscope, &ssh)
        }
        (_, Some(code)) => {
            let ended = code.map_or("a signal".to_owned(), |code| format!("status {code}"));
            let before =
                attempt.before.lines().next().map(|line| format!("; it said {line:?}")).unwrap_or_default();
            let errors = if errors.is_empty() { "it gave no reason".to_owned() } else { errors };
            format!(
                "{host}: the host side of the launch did not begin, and ended with {ended}: {errors}{before}"
            )
        }
    }
}

fn missing(host: &str, ringscope: &dyn std::fmt::Display, ssh: &str) -> String {
    format!(
        "{host}: there is no {ringscope} there: install ringscope there, or say where it is with --remote-ringscope; to look: \
         `{ssh} ls -l {ringscope}`"
    )
}

/// Options of the allocation and of an outer `srun`: of how many tasks, and what each takes. Of the one task that is started on a
/// host they would ask for too much, or leave it a part of the host. Source: srun(1), INPUT ENVIRONMENT VARIABLES.
const SRUN_VARIABLES: [&str; 21] = [
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_TASKS_PER_NODE",
    "SLURM_NNODES",
    "SLURM_JOB_NUM_NODES",
    "SLURM_CPU_BIND",
    "SLURM_DISTRIBUTION",
    "SLURM_GPUS",
    "SLURM_GPUS_PER_TASK",
    "SLURM_GPUS_PER_SOCKET",
    "SLURM_NTASKS_PER_GPU",
    "SLURM_CPUS_PER_GPU",
    "SLURM_GPU_BIND",
    "SLURM_HINT",
    "SLURM_EXACT",
    "SLURM_THREADS_PER_CORE",
    "SLURM_CPUS_PER_TASK",
    "SRUN_CPUS_PER_TASK",
    "SLURM_TRES_PER_TASK",
    "SLURM_NTASKS_PER_SOCKET",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn ways() -> Ways {
        Ways {
            ssh: words("ssh -p 2222").unwrap(),
            ringscope: "/opt/my tools/ringscope".into(),
            connect_timeout: Duration::from_secs(15),
            silence: Duration::from_secs(30),
            grace: Duration::from_secs(5),
            inherited: Inherited::take_over(),
        }
    }

    #[test]
    fn words_may_hold_spaces_in_quotes() {
        assert_eq!(words(" ssh  -o 'A B' \"\" x'y'z").unwrap(), ["ssh", "-o", "A B", "", "xyz"]);
        assert!(words("ssh 'x").is_err());
        assert!(words("  ").is_err());
    }

    #[test]
    fn ssh_asks_nothing_and_the_host_is_no_option() {
        let command = ways().command(&Place::Ssh, "me@b");
        let words: Vec<_> =
            command.as_std().get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        assert_eq!(&words[..2], ["-p", "2222"]);
        for option in ["BatchMode=yes", "ConnectTimeout=15", "ControlMaster=no", "-T"] {
            assert!(words.iter().any(|word| word == option), "{option} in {words:?}");
        }
        assert_eq!(words[words.len() - 3..words.len() - 1], ["--".to_owned(), "me@b".to_owned()]);
        let line = "exec '/opt/my tools/ringscope' launch-node --silence-ms 30000 --grace-ms 5000";
        assert_eq!(words.last().unwrap(), line);
    }

    #[test]
    fn srun_is_given_no_options_of_others_and_no_secrets() {
        let command = ways().command(&Place::Srun, "n1");
        let removed: Vec<_> =
            command.as_std().get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        for name in ["SLURM_GPUS", "SRUN_CPUS_PER_TASK", "SLURM_EXACT", "RINGSCOPE_HOST", "RINGSCOPE_TOKEN"] {
            assert!(removed.iter().any(|known| *known == name), "{name} in {removed:?}");
        }
    }

    #[test]
    fn each_failure_says_what_to_do() {
        let said = |code: Option<i32>, errors: &str| {
            let errors = if errors.is_empty() { Vec::new() } else { vec![errors.to_owned()] };
            let attempt = Attempt { status: Some((code, None)), errors, ..Attempt::default() };
            why(&Place::Ssh, "b", &attempt, &ways())
        };
        for (code, errors, part) in [
            (127, "sh: 1: exec: /opt/my tools/ringscope: not found", "--remote-ringscope"),
            (255, "ssh: Could not resolve hostname b: Name or service not known", "spelled right"),
            (255, "root@b: Permission denied (publickey).", "ssh-copy-id b"),
            (255, "Host key verification failed.", "does not know its key"),
            (255, "ssh: connect to host b port 22: Connection refused", "ssh server"),
            (255, "ssh: connect to host b port 22: Connection timed out", "is it up"),
            (1, "", "no reason"),
        ] {
            let text = said(Some(code), errors);
            assert!(text.starts_with('b') && text.contains(part), "{part} in {text}");
        }
        let silent = why(&Place::Ssh, "b", &Attempt::default(), &ways());
        assert!(silent.contains("15 s") && silent.contains("--connect-timeout"), "{silent}");
        let no_ssh = Attempt {
            not_started: Some(("ssh".into(), std::io::ErrorKind::NotFound, String::new())),
            ..Attempt::default()
        };
        assert!(why(&Place::Ssh, "b", &no_ssh, &ways()).contains("openssh-client"));
    }
}
