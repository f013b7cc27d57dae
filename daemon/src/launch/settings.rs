//! What the arguments, the environment and the allocation come to: hosts and how they are reached, the plan, the job's name.

use std::ffi::OsString;
use std::net::{IpAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringscope_api::words::plural;
use ringscope_wire::launch::Slurm;
use tokio::process::Command;
use tokio::task::JoinSet;

use super::args::{LaunchArgs, MAX_SECRET_BYTES, said, text_of};
use super::hosts::{Slots, of_slurm};
use super::inherited::Inherited;
use super::node::Own;
use super::place::{Place, Ways, words};
use super::plan::Plan;
use super::protocol::AgentSettings;
use super::{config, daemon, node_name, open_files};

/// What is to be done.
pub(super) struct Settings {
    pub(super) args: LaunchArgs,
    pub(super) job: String,
    pub(super) plan: Plan,
    /// Of each host of the plan.
    pub(super) places: Vec<Place>,
    pub(super) ways: Ways,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) dir: PathBuf,
    /// Of nodes that meet.
    pub(super) secret: String,
    /// What agents show the daemon.
    token: Option<String>,
}

/// How long nodes that somebody else starts may take to come.
const MEET_WITHIN: Duration = Duration::from_secs(600);
/// How long a name may take to be looked up, and `scontrol` to answer.
const LOOKS_UP_WITHIN: Duration = Duration::from_secs(5);

impl Settings {
    /// Makes sense of what was said.
    ///
    /// # Errors
    /// What was wrong, and what to do.
    pub(super) async fn new(args: LaunchArgs, inherited: Inherited) -> Result<Self, String> {
        let (hosts, places) = hosts(&args, inherited).await?;
        let plan = Plan::new(&hosts, args.workers, args.servers, args.oversubscribe)?;
        let places = (plan.hosts.iter())
            .filter_map(|host| hosts.iter().position(|slots| slots.host == host.host))
            .filter_map(|place| places.get(place).cloned())
            .collect();
        if args.command.first().is_none_or(|program| program.is_empty()) {
            return Err("the command behind -- is empty: name a program, e.g. -- python train.py".to_owned());
        }
        let connect_timeout =
            args.connect_timeout.unwrap_or(if args.meet.is_some() { MEET_WITHIN } else { CONNECT_WITHIN });
        let dir = match &args.chdir {
            Some(dir) => dir.clone(),
            None => std::env::current_dir()
                .map_err(|error| format!("the current folder is gone: {error}; go to another"))?,
        };
        Ok(Self {
            job: job_name(&args),
            secret: secret(&args)?,
            token: daemon::token(&args)?,
            environment: config::passed(&args.variables)?,
            ways: Ways {
                ssh: words(&args.ssh)?,
                ringscope: args.remote_ringscope.clone().map_or_else(own_path, Ok)?,
                connect_timeout,
                silence: args.silence,
                grace: args.grace,
                inherited,
            },
            plan,
            places,
            dir,
            args,
        })
    }

    /// Whether somebody has chosen the job's name, so that another job may have it by mistake. Inside a Slurm job the name comes from
    /// Slurm's number. When the daemon knows a job of that name, it is the same Slurm job, and not in the way.
    pub(super) fn is_named(&self) -> bool {
        self.args.chosen_name().is_some() && slurm_name().as_ref() != Some(&self.job)
    }

    /// Whether this process may open what it takes to reach all hosts, and to write all files of `--output`.
    ///
    /// # Errors
    /// It may not, and what to do.
    pub(super) fn fits(&self) -> Result<(), String> {
        let of_host = |place: &Place| if *place == Place::Comes { 1 } else { OPEN_PER_HOST };
        let hosts: usize = self.places.iter().map(of_host).sum();
        let processes =
            usize::try_from(self.plan.workers.saturating_add(self.plan.servers)).unwrap_or(usize::MAX);
        let (files, output) = match &self.args.output {
            Some(_) => {
                (processes, format!(" to reach, and a file of --output for each of {processes} processes"))
            }
            None => (0, " to reach".to_owned()),
        };
        open_files::check(
            &format!("{}{output}", plural(self.places.len(), "host")),
            hosts.saturating_add(files),
        )
    }

    /// Options of `ringscope run` for each process; none: it is not to be watched.
    pub(super) fn watch(&self) -> Option<Vec<OsString>> {
        let level = self.args.level.iter().flat_map(|level| ["--level".into(), OsString::from(level)]);
        (!self.args.no_collector).then(|| level.collect())
    }

    /// How agents are started, where they are.
    pub(super) fn agent(&self) -> Option<AgentSettings> {
        let arguments = self.agent_arguments()?;
        Some(AgentSettings { arguments, token: self.token.clone() })
    }

    fn agent_arguments(&self) -> Option<Vec<OsString>> {
        if self.args.daemon.is_empty() || self.args.no_agent {
            return None;
        }
        let mut arguments: Vec<OsString> = vec!["--daemon".into(), self.args.daemon.join(",").into()];
        arguments.extend(daemon::trust_arguments(&self.args.trust));
        Some(arguments)
    }

    /// What this node starts of its own line, where it goes to node 0: also its agent reads the token where the line says.
    pub(super) fn own(&self) -> Own {
        let token_file = self.args.token_file.iter();
        let token = token_file.flat_map(|file| ["--token-file".into(), file.clone().into_os_string()]);
        let agent = self.agent_arguments().map(|arguments| arguments.into_iter().chain(token).collect());
        Own {
            server: self.args.sumd.clone().map(Into::into),
            dir: self.args.chdir.clone(),
            bare: self.args.no_collector,
            watch: self.watch().unwrap_or_default(),
            agent: agent.unwrap_or_default(),
            environment: self.environment.clone(),
            command: self.args.command.clone(),
        }
    }
}

const CONNECT_WITHIN: Duration = Duration::from_secs(15);
/// What reaches a host: its three streams, and one to see its end.
const OPEN_PER_HOST: usize = 4;

/// Hosts and how each is reached.
async fn hosts(args: &LaunchArgs, inherited: Inherited) -> Result<(Vec<Slots>, Vec<Place>), String> {
    if let Some(node) = args.node {
        let hosts: Vec<Slots> =
            (0..node.count).map(|index| Slots { host: format!("node {index}"), slots: None }).collect();
        let places =
            (0..node.count).map(|index| if index == node.index { Place::Here } else { Place::Comes });
        return Ok((hosts, places.collect()));
    }
    let named = args.named_hosts()?;
    if !named.is_empty() {
        let places = places(&named).await;
        return Ok((named, places));
    }
    if args.slurm.is_there() {
        let nodes = hostnames(args.slurm.nodes.as_deref().unwrap_or_default(), inherited).await?;
        let hosts = of_slurm(&nodes, said(args.slurm.tasks.as_deref()))?;
        if hosts.is_empty() {
            return Err("the Slurm allocation has no nodes: SLURM_JOB_NODELIST is empty".to_owned());
        }
        let places = vec![Place::Srun; hosts.len()];
        return Ok((hosts, places));
    }
    // This machine takes as many as come.
    let here = Slots { host: node_name(), slots: Some(args.workers.unwrap_or(1)) };
    Ok((vec![here], vec![Place::Here]))
}

async fn hostnames(nodes: &str, inherited: Inherited) -> Result<Vec<String>, String> {
    let failed = |why: String| {
        format!(
            "SLURM_JOB_NODELIST is {nodes:?}, and `scontrol show hostnames` does not say which nodes these are: {why}; name them with -H"
        )
    };
    let mut command = Command::new("scontrol");
    command.args(["show", "hostnames", "--", nodes]).kill_on_drop(true).stdin(std::process::Stdio::null());
    inherited.hand_on(command.as_std_mut());
    let output = tokio::time::timeout(LOOKS_UP_WITHIN, command.output()).await;
    let output = output
        .map_err(|_| failed("it does not answer".to_owned()))?
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect())
}

/// Which of the hosts are this machine.
async fn places(hosts: &[Slots]) -> Vec<Place> {
    let mut looking = JoinSet::new();
    for (number, slots) in hosts.iter().enumerate() {
        let host = slots.host.clone();
        looking.spawn_blocking(move || (number, is_here(&host)));
    }
    let mut places = vec![Place::Ssh; hosts.len()];
    let until = ringscope_api::clock::monotonic() + LOOKS_UP_WITHIN;
    while let Ok(Some(looked)) = tokio::time::timeout_at(until.into(), looking.join_next()).await {
        if let Ok((number, true)) = looked {
            places[number] = Place::Here;
        }
    }
    places
}

/// Whether a name or address is this machine's: an address on which we may listen is our own.
fn is_here(host: &str) -> bool {
    let own = node_name();
    let is_named = |name: &str| name == own || own.split('.').next() == Some(name);
    if host == "localhost" || is_named(host) {
        return true;
    }
    // Another user there, or a port of ssh's configuration, is for ssh to know.
    if host.contains('@') {
        return false;
    }
    match host.parse::<IpAddr>() {
        Ok(address) => TcpListener::bind((address, 0)).is_ok(),
        Err(_) => {
            use std::net::ToSocketAddrs as _;
            let addresses = (host, 0).to_socket_addrs();
            addresses.is_ok_and(|mut addresses| addresses.any(|address| TcpListener::bind(address).is_ok()))
        }
    }
}

fn own_path() -> Result<PathBuf, String> {
    let path = std::env::current_exe()
        .map_err(|error| format!("cannot tell where this program lies: {error}; say --remote-ringscope"))?;
    // A program that was replaced while it runs lies under the same name.
    let text = path.to_string_lossy();
    Ok(text.strip_suffix(" (deleted)").map_or_else(|| path.clone(), PathBuf::from))
}

/// As somebody has chosen it, as all of a job of Slurm's has it, or the launch's own.
fn job_name(args: &LaunchArgs) -> String {
    let chosen = args.chosen_name().map(str::to_owned);
    chosen.or_else(slurm_name).unwrap_or_else(|| own_name(&args.command))
}

/// That of the job of Slurm's that this process is in: whatever step of it, all that is launched is the job.
fn slurm_name() -> Option<String> {
    let slurm = crate::config::launch().scheduled.slurm?;
    Some(Slurm { step_id: None, ..slurm }.job())
}

/// The script's name, or the program's, and a number of this launch's own.
fn own_name(command: &[OsString]) -> String {
    let name = |word: &OsString| Path::new(word).file_stem().map(|name| name.to_string_lossy().into_owned());
    let program = command.first().and_then(name).unwrap_or_default();
    let is_interpreter = ["python", "bash", "sh", "dash", "env", "perl", "ruby"]
        .iter()
        .any(|known| program.starts_with(known));
    let script = command.iter().skip(1).find(|word| !word.to_string_lossy().starts_with('-'));
    let script = script.filter(|script| is_interpreter && Path::new(script).is_file()).and_then(name);
    let named: String = script
        .unwrap_or(program)
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "._-".contains(*c))
        .take(40)
        .collect();
    let number = uuid::Uuid::new_v4().simple().to_string();
    format!("{}-{}", if named.is_empty() { "job" } else { &named }, &number[..8])
}

fn secret(args: &LaunchArgs) -> Result<String, String> {
    let Some(meeting) = &args.meet else { return Ok(String::new()) };
    let secret = match &args.secret_file {
        Some(file) => {
            let text = text_of(file, MAX_SECRET_BYTES);
            let text = text.map_err(|error| format!("--secret-file {}: {error}", file.display()))?;
            Some(text.trim().to_owned()).filter(|secret| !secret.is_empty())
        }
        None => config::secret(),
    };
    match secret {
        Some(secret) => Ok(secret),
        // It meets nobody.
        None if args.node.is_some_and(|node| node.count == 1) => Ok(String::new()),
        None => Err(format!(
            "nodes that meet at {} need a secret that only they know, on one machine too, where others may have accounts: put some \
             random text into a file that all nodes have, and name it with --secret-file, or set {}",
            meeting.host,
            config::SECRET
        )),
    }
}

/// Where the processes of all hosts reach the first one.
pub(super) fn master(
    settings: &Settings,
    first: &super::protocol::Hello,
    others: &[&super::protocol::Hello],
) -> Result<String, String> {
    let Settings { args, plan, places, .. } = settings;
    let first_host = plan.hosts.first().map(|host| host.host.as_str()).unwrap_or_default();
    if let Some(named) = &args.master_addr {
        return Ok(named.clone());
    }
    if let Some(meeting) = &args.meet {
        return Ok(meeting.host.clone());
    }
    if places.iter().all(|place| *place == Place::Here) {
        return Ok("127.0.0.1".to_owned());
    }
    match places.first() {
        Some(Place::Srun) => Ok(first_host.to_owned()),
        Some(Place::Ssh) => Ok(first.own_address.clone().unwrap_or_else(|| first_host.to_owned())),
        _ => others.iter().find_map(|other| other.from_address.clone()).ok_or_else(|| {
            format!(
                "the other hosts do not say at which address they see {first_host}: say --master-addr ADDRESS"
            )
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_its_own_says_what_runs() {
        let name = |words: &[&str]| own_name(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert!(name(&["/opt/bin/train_it", "x"]).starts_with("train_it-"));
        assert!(name(&["python3", "no-such-file.py"]).starts_with("python3-"));
        assert!(name(&["…"]).starts_with("job-"));
        assert_ne!(name(&["a"]), name(&["a"]));
    }

    #[test]
    fn this_machine_knows_itself() {
        for host in ["localhost", "127.0.0.1", "127.0.0.7", "::1", &node_name()] {
            assert!(is_here(host) || host == "::1", "{host}");
        }
        for host in ["203.0.113.1", "no-such-host.invalid", "me@localhost"] {
            assert!(!is_here(host), "{host}");
        }
    }
}
