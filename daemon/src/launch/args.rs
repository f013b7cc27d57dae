//! What `ringscope launch` is told on its command line, and what of its environment it heeds.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringscope_api::words::parse_duration;
use ringscope_tls::Trust;

use super::config;
use super::habits::USAGE;
use super::hosts::{MAX_HOSTS, Slots};
use crate::client::daemon_url;

/// Arguments of `ringscope launch`.
#[derive(Clone, Debug, clap::Args)]
#[command(override_usage = USAGE, after_help = "Examples:
  ringscope launch -n 4 -- python train.py                                   four workers on this machine
  ringscope launch -n 8 -H a:4,b:4 -- python train.py                        on two machines, by ssh
  ringscope launch -n 8 --servers 2 -H a:4,b:4 -- python train.py            with two summation servers
  ringscope launch -n 8 --servers 2 -H a:4,b:4 --dry-run -- python train.py  what would be started where
  sbatch -N 2 --ntasks-per-node 4 --wrap 'ringscope launch -- python train.py'
  ringscope launch --node $JOB_COMPLETION_INDEX/4 --meet train-0.train:29400 -- python train.py   in each of four pods

Each worker gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, MASTER_ADDR and MASTER_PORT, and what the
summation service needs (RSUM_ROOT, RSUM_SECRET, RSUM_WORKERS, RSUM_SERVERS, RSUM_RANK).

Exit status: 0 if all workers ended with 0, else that of the first that failed (128 + N if by signal N); 127 and 126 where the
command is not found or cannot be executed; 130, 143 and 129 after Ctrl-C, SIGTERM and SIGHUP; 1 where a host cannot be had or
was lost; 64 wrong usage")]
pub struct LaunchArgs {
    /// Workers in all [default: 1; in a Slurm allocation its tasks; with -H all slots that are named]
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=MAX_PROCESSES.into()))]
    pub(super) workers: Option<u32>,
    /// Summation servers beside them, dealt out over the hosts
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=MAX_PROCESSES.into()))]
    pub(super) servers: u32,
    /// Hosts and how many workers each takes: a:4,b:4 [default: the Slurm allocation, else this machine]
    #[arg(short = 'H', long, value_name = "HOST[:SLOTS]", value_delimiter = ',')]
    pub(super) hosts: Vec<String>,
    /// The same from a file: a host a line, `a slots=4` or `a:4`
    #[arg(long, value_name = "FILE", conflicts_with = "hosts")]
    pub(super) hostfile: Option<PathBuf>,
    /// Start more workers than there are slots
    #[arg(long)]
    pub(super) oversubscribe: bool,
    /// The job's name [default: RINGSCOPE_JOB, else slurm-<id>, else the command's and a number of its own]
    #[arg(long, value_name = "NAME")]
    pub(super) job: Option<String>,
    #[arg(id = "launch-job", long = "inherited-job", env = "RINGSCOPE_JOB", hide = true)]
    pub(super) inherited_job: Option<String>,
    /// Address of the daemon: agents are started that send to it, on hosts where none runs
    #[arg(long, env = "RINGSCOPE_DAEMON", value_name = "URL", value_delimiter = ',', value_parser = daemon_url)]
    pub(super) daemon: Vec<String>,
    /// File with the daemon's token, of the role ingest; one of operate also lets this launch see whether a job of its name runs
    /// [default: $RINGSCOPE_TOKEN, else $RINGSCOPE_TOKEN_FILE]
    #[arg(long, value_name = "FILE")]
    pub(super) token_file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) trust: Trust,
    /// Start no agents
    #[arg(long)]
    pub(super) no_agent: bool,
    /// Start the processes without ringscope's collector
    #[arg(long)]
    pub(super) no_collector: bool,
    /// How much to ask the library for from the start: counters, channels, steps or events
    #[arg(long, value_name = "LEVEL", conflicts_with = "no_collector", value_parser = ["counters", "channels", "steps", "events"])]
    pub(super) level: Option<String>,
    /// What stands before each line: nothing, the rank, or the rank and its host
    #[arg(long, value_enum, default_value_t = Prefix::Full)]
    pub(super) prefix: Prefix,
    /// Also write what each process says into a file of its own in this folder: rank-3.log
    #[arg(long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,
    /// How long processes have to end after they were told to, before they are killed
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    pub(super) grace: Duration,
    /// How often the whole job is started again after a failure
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 0)]
    pub(super) restarts: u32,
    /// Ports from which the first host chooses free ones
    #[arg(long, value_name = "A-B", default_value = "20000-29999", value_parser = ports)]
    pub(super) ports: Ports,
    /// Address at which the other hosts reach the first one [default: as ssh reaches it, or its name in the allocation]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) master_addr: Option<String>,
    /// How long a host may take to answer [default: 15s; 10m with --meet]
    #[arg(long, value_name = "DURATION", value_parser = a_second_or_more)]
    pub(super) connect_timeout: Option<Duration>,
    /// After how long without a sign of life a host counts as lost
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = a_second_or_more)]
    pub(super) silence: Duration,
    /// How long to wait, once the job is over, for a reader of its output that takes nothing; 0s: not at all
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub(super) drain: Duration,
    /// How to reach other hosts, with arguments: 'ssh -p 2222'
    #[arg(long, value_name = "COMMAND", default_value = "ssh")]
    pub(super) ssh: String,
    /// Where ringscope lies on the other hosts [default: where it lies here]
    #[arg(long, value_name = "PATH")]
    pub(super) remote_ringscope: Option<PathBuf>,
    /// The summation servers' program [default: ringscope-sumd beside ringscope, else in PATH]
    #[arg(long, value_name = "PATH")]
    pub(super) sumd: Option<PathBuf>,
    #[arg(short = 'x', long = "env", value_name = "NAME[=VALUE]", help = variables_help())]
    pub(super) variables: Vec<OsString>,
    /// Folder to start the processes in, on all hosts [default: this one]
    #[arg(long, value_name = "DIR")]
    pub(super) chdir: Option<PathBuf>,
    /// This is node I of N that somebody else starts, each with this same line
    #[arg(long, value_name = "I/N", requires = "meet", conflicts_with_all = ["hosts", "hostfile"], value_parser = node)]
    pub(super) node: Option<Node>,
    /// Where node 0 waits for the others
    #[arg(long, value_name = "HOST:PORT", requires = "node", value_parser = meeting)]
    pub(super) meet: Option<Meeting>,
    /// File with the secret that the nodes show each other [default: $RINGSCOPE_LAUNCH_SECRET]
    #[arg(long, value_name = "FILE", requires = "meet")]
    pub(super) secret_file: Option<PathBuf>,
    /// Print what would be started where, with which variables, and start nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) slurm: Allocation,
    /// The workers' command and its arguments, behind --
    #[arg(required = true, last = true, value_name = "CMD")]
    pub(super) command: Vec<OsString>,
}

/// What Slurm says of the allocation that this process is in.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Allocation {
    #[arg(id = "launch-slurm-job", long = "slurm-job-id", env = "SLURM_JOB_ID", hide = true)]
    pub(super) job: Option<String>,
    #[arg(id = "launch-slurm-nodes", long = "slurm-job-nodelist", env = "SLURM_JOB_NODELIST", hide = true)]
    pub(super) nodes: Option<String>,
    #[arg(
        id = "launch-slurm-tasks",
        long = "slurm-tasks-per-node",
        env = "SLURM_TASKS_PER_NODE",
        hide = true
    )]
    pub(super) tasks: Option<String>,
}

/// What stands before each line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Prefix {
    /// Nothing: lines as they came
    None,
    /// `[rank 3]`
    Rank,
    /// `[rank 3 a]`
    Full,
}

/// Ports from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ports {
    pub(super) first: u16,
    pub(super) last: u16,
}

/// Which of how many nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) index: u32,
    pub(super) count: u32,
}

/// A place where nodes meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meeting {
    pub(super) host: String,
    pub(super) port: u16,
}

/// Workers or servers of one job: more than any machine room has, and few enough to be listed.
pub(super) const MAX_PROCESSES: u32 = 131_072;

/// Bytes of a file with hosts, and of one with a secret, at most: many times what they hold.
const MAX_HOSTFILE_BYTES: u64 = 4 << 20;
pub(super) const MAX_SECRET_BYTES: u64 = 4 << 10;

fn variables_help() -> String {
    format!(
        "A variable for all processes: NAME=VALUE, or NAME to hand on this one's value; may be repeated. {} go along by themselves",
        config::passed_names().join(", ")
    )
}

fn a_second_or_more(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text)?;
    if time < Duration::from_secs(1) {
        Err("expected a second or more, e.g. 30s".to_owned())
    } else {
        Ok(time)
    }
}

/// What a file says, where it is no larger than that.
pub(super) fn text_of(file: &Path, max_bytes: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(file)?.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|read| read > max_bytes) {
        return Err(io::Error::other(format!("it is larger than {} KiB", max_bytes >> 10)));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is no text"))
}

fn ports(text: &str) -> Result<Ports, String> {
    let expected = || "expected two ports, the smaller first, e.g. 20000-29999".to_owned();
    let (first, last) = text.split_once('-').ok_or_else(expected)?;
    let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(expected);
    let ports = Ports { first: port(first)?, last: port(last)? };
    if ports.first <= ports.last { Ok(ports) } else { Err(expected()) }
}

fn node(text: &str) -> Result<Node, String> {
    let expected = || "expected which node this is of how many, counted from 0: 0/4 to 3/4".to_owned();
    let (index, count) = text.split_once('/').ok_or_else(expected)?;
    let number = |text: &str| text.parse::<u32>().map_err(|_| expected());
    let node = Node { index: number(index)?, count: number(count)? };
    if usize::try_from(node.count).is_ok_and(|count| count > MAX_HOSTS) {
        return Err(format!("{} nodes, and a job has {MAX_HOSTS} at most", node.count));
    }
    if node.index < node.count { Ok(node) } else { Err(expected()) }
}

fn meeting(text: &str) -> Result<Meeting, String> {
    let expected = || "expected host and port of node 0, e.g. train-0.train:29400".to_owned();
    let (host, port) = text.rsplit_once(':').ok_or_else(expected)?;
    let host = host.trim_matches(['[', ']']).to_owned();
    let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(expected)?;
    if host.is_empty() { Err(expected()) } else { Ok(Meeting { host, port }) }
}

impl Allocation {
    /// Hosts of the allocation are asked for only where there is one.
    pub(super) fn is_there(&self) -> bool {
        said(self.job.as_deref()).is_some() && said(self.nodes.as_deref()).is_some()
    }
}

/// The value, where it says anything.
pub(super) fn said(value: Option<&str>) -> Option<&str> {
    value.map(str::trim).filter(|value| !value.is_empty())
}

impl LaunchArgs {
    /// The name that somebody has chosen for the job.
    pub(super) fn chosen_name(&self) -> Option<&str> {
        said(self.job.as_deref()).or(said(self.inherited_job.as_deref()))
    }

    /// Hosts as the command line names them.
    pub(super) fn named_hosts(&self) -> Result<Vec<Slots>, String> {
        match &self.hostfile {
            Some(file) => {
                let text = text_of(file, MAX_HOSTFILE_BYTES).map_err(|error| {
                    format!(
                        "cannot read the hosts in {}: {error}; name another file with --hostfile",
                        file.display()
                    )
                })?;
                super::hosts::of_file(&text)
                    .map_err(|error| format!("--hostfile {}: {error}", file.display()))
            }
            None => super::hosts::of_list(&self.hosts).map_err(|error| format!("-H: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_checked_where_they_are_given() {
        assert_eq!(ports("5-7"), Ok(Ports { first: 5, last: 7 }));
        for text in ["7-5", "5", "0-5", "a-b", "5-70000"] {
            assert!(ports(text).is_err(), "{text}");
        }
        assert_eq!(node("3/4"), Ok(Node { index: 3, count: 4 }));
        for text in ["4/4", "0/0", "3", "-1/4", "/"] {
            assert!(node(text).is_err(), "{text}");
        }
        assert!(node("0/16384").is_ok() && node("0/16385").unwrap_err().contains("16384 at most"));
        assert_eq!(meeting("[fd00::1]:29400"), Ok(Meeting { host: "fd00::1".into(), port: 29400 }));
        for text in ["train-0", ":5", "a:0", "a:b"] {
            assert!(meeting(text).is_err(), "{text}");
        }
    }
}
