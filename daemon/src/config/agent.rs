//! What `ringscope agent` can be told, by command line or environment.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ringscope_agent::{
    AgentConfig, DEFAULT_BACKLOG_BYTES, DEFAULT_DIR, DEFAULT_HARDWARE_INTERVAL, DEFAULT_INTERVAL,
    DEFAULT_KEEP_DEAD, DEFAULT_SYSFS, PretendedSysfs,
};
use ringscope_api::words::parse_duration;
use ringscope_tls::Trust;

use super::{ConfigError, boolean, default_data_dir, directory, environment, or_never, size, token_source};

/// Command line of `ringscope agent`. Values are checked in [`AgentArgs::into_config`], all at once.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  ringscope agent --daemon http://ringscope.cluster:9440
  ringscope agent --daemon https://ringscope.cluster:9440 --ca ca.pem
  ringscope agent --daemon http://ringscope-1:9440,http://ringscope-2:9440

Exit status: 0 stopped by SIGTERM or SIGINT, 1 cannot run, 64 wrong usage or configuration")]
pub struct AgentArgs {
    /// Address of the daemon; of several daemons of one database those of all, separated by commas: the one that answers is used
    #[arg(long, env = "RINGSCOPE_DAEMON", value_name = "URL", value_delimiter = ',', required = true)]
    daemon: Vec<String>,
    /// File with the token that the daemon wants, of the role ingest [default: $RINGSCOPE_TOKEN, else $RINGSCOPE_TOKEN_FILE]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Directory in which this host's processes leave their segments
    #[arg(long, env = "RINGSCOPE_DIR", value_name = "DIR", default_value = DEFAULT_DIR)]
    dir: String,
    /// Directory in which batches wait while the daemon is away [default: $XDG_DATA_HOME/ringscope/agent]
    #[arg(long, env = "RINGSCOPE_STATE_DIR", value_name = "DIR")]
    state_dir: Option<String>,
    /// Time between two readings [default: 250ms]
    #[arg(long, env = "RINGSCOPE_INTERVAL", value_name = "DURATION")]
    interval: Option<String>,
    /// Bytes of batches that may wait; beyond, the oldest are dropped and counted [default: 64MiB]
    #[arg(long, env = "RINGSCOPE_BACKLOG", value_name = "SIZE")]
    backlog: Option<String>,
    /// How long files of an ended process are kept after the daemon has heard of its end; beyond 64 MiB, or a sixteenth of
    /// the file system, the first that ended go earlier [default: 1h]
    #[arg(long, env = "RINGSCOPE_KEEP_DEAD", value_name = "DURATION")]
    keep_dead: Option<String>,
    /// Directory in which the kernel shows this host's devices; in a container, where the host's is mounted
    #[arg(long, env = "RINGSCOPE_SYSFS", value_name = "DIR", default_value = DEFAULT_SYSFS)]
    sysfs: String,
    /// Time between two readings of NICs; 0s: read no hardware, GPUs neither [default: 5s]
    #[arg(long, env = "RINGSCOPE_HARDWARE_INTERVAL", value_name = "DURATION")]
    hardware_interval: Option<String>,
    /// Never look at what a process does (stacks, system calls) when the daemon asks
    #[arg(long)]
    no_look: bool,
    /// Never read the kernel's messages
    #[arg(long)]
    no_kernel_log: bool,
    /// Do not give up what the agent never needs: it then may write, start and connect to whatever its user may
    #[arg(long)]
    no_sandbox: bool,
    #[command(flatten)]
    trust: Trust,
    /// Let processes count themselves to other hosts (RINGSCOPE_HOST) than the machine that the agent runs on, as on a machine
    /// that pretends to be several; any user can then tell of any host
    #[arg(long)]
    allow_other_hosts: bool,
    /// Name of this host; in a container, the machine's [default: as `uname -n` says]
    #[arg(long, env = "RINGSCOPE_AGENT_HOST", value_name = "NAME")]
    host: Option<String>,
    #[arg(long = "inherited-look", env = "RINGSCOPE_LOOK", hide = true)]
    look: Option<String>,
    #[arg(long = "inherited-kernel-log", env = "RINGSCOPE_KERNEL_LOG", hide = true)]
    kernel_log: Option<String>,
    #[arg(long = "inherited-sandbox", env = "RINGSCOPE_SANDBOX", hide = true)]
    sandbox: Option<String>,
    /// TOML file with a folder in the shape of /sys for each host that this machine pretends to be
    #[arg(long, value_name = "FILE", hide = true)]
    pretended_hosts: Option<String>,
}

impl AgentArgs {
    /// The agent's configuration.
    ///
    /// # Errors
    /// All mistakes, each with the option that it was made in.
    pub fn into_config(self) -> Result<AgentConfig, ConfigError> {
        let mut mistakes = Vec::new();
        let state_dir = check(&mut mistakes, "state-dir", self.state_dir.as_deref(), directory)
            .unwrap_or_else(|| default_data_dir(&environment).join("agent"));
        let interval = check(&mut mistakes, "interval", self.interval.as_deref(), interval);
        let backlog = check(&mut mistakes, "backlog", self.backlog.as_deref(), size);
        let keep_dead = check(&mut mistakes, "keep-dead", self.keep_dead.as_deref(), parse_duration);
        let dir = check(&mut mistakes, "dir", Some(&self.dir), directory);
        let sysfs = check(&mut mistakes, "sysfs", Some(&self.sysfs), directory);
        let hardware_interval =
            check(&mut mistakes, "hardware-interval", self.hardware_interval.as_deref(), or_never);
        let pretended =
            check(&mut mistakes, "pretended-hosts", self.pretended_hosts.as_deref(), pretended_hosts);
        let look = check_env(&mut mistakes, "RINGSCOPE_LOOK", self.look.as_deref());
        let kernel_log = check_env(&mut mistakes, "RINGSCOPE_KERNEL_LOG", self.kernel_log.as_deref());
        let sandbox = check_env(&mut mistakes, "RINGSCOPE_SANDBOX", self.sandbox.as_deref());
        let mut config = AgentConfig {
            dir: dir.unwrap_or_else(|| PathBuf::from(DEFAULT_DIR)),
            interval: interval.unwrap_or(DEFAULT_INTERVAL),
            backlog_bytes: backlog.map_or(DEFAULT_BACKLOG_BYTES, |bytes| bytes as u64),
            keep_dead: keep_dead.unwrap_or(DEFAULT_KEEP_DEAD),
            sysfs: sysfs.unwrap_or_else(|| PathBuf::from(DEFAULT_SYSFS)),
            hardware_interval: hardware_interval.unwrap_or(DEFAULT_HARDWARE_INTERVAL),
            other_hosts: self.allow_other_hosts || pretended.is_some(),
            pretended_hosts: pretended.unwrap_or_default(),
            token: token_source(self.token_file.as_deref(), &self.daemon),
            trust: self.trust,
            sandbox: !self.no_sandbox && sandbox != Some(false),
            daemon_urls: self.daemon,
            ..AgentConfig::new("", state_dir)
        };
        if let Some(host) = self.host.filter(|host| !host.is_empty()) {
            config.host = host;
        }
        config.look.take_if(|_| self.no_look || look == Some(false));
        config.kernel_log.take_if(|_| self.no_kernel_log || kernel_log == Some(false));
        if let Err(error) = config.ingest_urls() {
            mistakes.push(format!("--daemon: {error}"));
        }
        if mistakes.is_empty() { Ok(config) } else { Err(ConfigError { mistakes }) }
    }
}

fn check<T>(
    mistakes: &mut Vec<String>,
    name: &str,
    value: Option<&str>,
    parse: fn(&str) -> Result<T, String>,
) -> Option<T> {
    let value = value?;
    parse(value).map_err(|problem| mistakes.push(format!("--{name} {value:?}: {problem}"))).ok()
}

fn check_env(mistakes: &mut Vec<String>, name: &str, value: Option<&str>) -> Option<bool> {
    let value = value.filter(|value| !value.is_empty())?;
    boolean(value).map_err(|problem| mistakes.push(format!("{name} {value:?}: {problem}"))).ok()
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    if interval.is_zero() { Err("expected more than 0, e.g. 250ms".to_owned()) } else { Ok(interval) }
}

fn pretended_hosts(file: &str) -> Result<Vec<PretendedSysfs>, String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let hosts: BTreeMap<String, PathBuf> = toml::from_str(&text).map_err(|error| error.to_string())?;
    Ok(hosts.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: AgentArgs,
    }

    fn parse(args: &[&str]) -> Result<AgentConfig, ConfigError> {
        Cli::parse_from([&["agent", "--daemon", "http://d:1"], args].concat()).args.into_config()
    }

    #[test]
    fn hardware_is_read_from_where_and_as_often_as_told() {
        let config = parse(&[]).unwrap();
        assert_eq!((config.sysfs, config.hardware_interval), ("/sys".into(), Duration::from_secs(5)));
        let config = parse(&["--sysfs", "/host/sys", "--hardware-interval", "0"]).unwrap();
        assert_eq!((config.sysfs, config.hardware_interval), ("/host/sys".into(), Duration::ZERO));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "b = \"/b\"\na = \"/a\"\n").unwrap();
        let config = parse(&["--pretended-hosts", &file.path().display().to_string()]).unwrap();
        assert_eq!(config.pretended_hosts, [("a".to_owned(), "/a".into()), ("b".to_owned(), "/b".into())]);
    }

    #[test]
    fn processes_count_to_other_hosts_only_where_that_was_said() {
        assert!(!parse(&[]).unwrap().other_hosts);
        assert!(parse(&["--allow-other-hosts"]).unwrap().other_hosts);
        assert_eq!(parse(&["--host", "node7"]).unwrap().host, "node7");
    }

    #[test]
    fn looks_and_the_kernel_can_be_switched_off() {
        let config = parse(&[]).unwrap();
        assert!(config.look.is_some() && config.kernel_log.is_some());
        let config = parse(&["--no-look", "--no-kernel-log"]).unwrap();
        assert!(config.look.is_none() && config.kernel_log.is_none());
        let config = parse(&["--inherited-look", "off", "--inherited-kernel-log", "on"]).unwrap();
        assert!(config.look.is_none() && config.kernel_log.is_some());
        let mistakes = parse(&["--inherited-look", "perhaps"]).unwrap_err().mistakes;
        assert!(mistakes[0].contains("RINGSCOPE_LOOK"), "{mistakes:?}");
    }

    #[test]
    fn an_agent_is_confined_unless_somebody_says_otherwise() {
        assert!(parse(&[]).unwrap().sandbox && parse(&["--inherited-sandbox", "on"]).unwrap().sandbox);
        for args in [&["--no-sandbox"][..], &["--inherited-sandbox", "off"]] {
            assert!(!parse(args).unwrap().sandbox, "{args:?}");
        }
        let mistakes = parse(&["--inherited-sandbox", "perhaps"]).unwrap_err().mistakes;
        assert!(mistakes[0].contains("RINGSCOPE_SANDBOX"), "{mistakes:?}");
    }

    #[test]
    fn mistakes_name_their_option() {
        let wrong = ["--sysfs", "", "--hardware-interval", "5", "--pretended-hosts", "/none"];
        let mistakes = parse(&wrong).unwrap_err().mistakes.join("\n");
        for option in ["--sysfs", "--hardware-interval", "--pretended-hosts"] {
            assert!(mistakes.contains(option), "{option} in {mistakes}");
        }
    }
}
