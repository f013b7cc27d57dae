//! What a node that somebody else has started takes from its own line, whatever node 0 tells it: a stranger who got between the two
//! is to choose numbers and addresses at most, and never what runs here.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::launch::protocol::{AgentSettings, Share};

/// What the node's own line says. It has a command where it is such a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct Own {
    /// The summation servers' program
    #[arg(long)]
    pub(in crate::launch) server: Option<OsString>,
    /// Folder to start the processes in
    #[arg(long)]
    pub(in crate::launch) dir: Option<PathBuf>,
    /// Start the processes without ringscope's collector
    #[arg(long)]
    pub(in crate::launch) bare: bool,
    /// An argument of `ringscope run`; may be repeated
    #[arg(long, allow_hyphen_values = true)]
    pub(in crate::launch) watch: Vec<OsString>,
    /// An argument of the agent, of which there is none without; may be repeated
    #[arg(long, allow_hyphen_values = true)]
    pub(in crate::launch) agent: Vec<OsString>,
    /// Variables of `-x`, which are set for all that is started here
    #[arg(skip)]
    pub(in crate::launch) environment: Vec<(OsString, OsString)>,
    /// The workers' command, where this node was started with it
    #[arg(last = true)]
    pub(in crate::launch) command: Vec<OsString>,
}

impl Own {
    /// The same as arguments, which are the last ones of their line.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let mut arguments = Vec::new();
        let mut option = |name: &str, value: &OsString| {
            let mut word = OsString::from(name);
            word.push(value);
            arguments.push(word);
        };
        self.server.iter().for_each(|server| option("--server=", server));
        self.dir.iter().for_each(|dir| option("--dir=", &dir.clone().into_os_string()));
        self.watch.iter().for_each(|word| option("--watch=", word));
        self.agent.iter().for_each(|word| option("--agent=", word));
        if self.bare {
            arguments.push("--bare".into());
        }
        if !self.command.is_empty() {
            arguments.push("--".into());
            arguments.extend(self.command.iter().cloned());
        }
        arguments
    }

    /// Leaves of a share what node 0 may say, where this node has a command of its own.
    pub(super) fn impose_on(&self, share: &mut Share) {
        if self.command.is_empty() {
            return;
        }
        share.command = Some(self.command.clone());
        share.server = self.server.clone();
        share.dir = self.dir.clone();
        share.environment = Vec::new();
        share.watch = (!self.bare).then(|| self.watch.clone());
        // The token is that of the node's own file or environment.
        let is_wanted = !self.agent.is_empty();
        share.agent = is_wanted.then(|| AgentSettings { arguments: self.agent.clone(), token: None });
        for process in &mut share.processes {
            process.variables.retain(|(name, _)| TOLD.contains(&name.as_str()));
        }
    }
}

/// Variables that node 0 sets: those of docs/launch.md.
const TOLD: [&str; 18] = [
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "RSUM_ROOT",
    "RSUM_SECRET",
    "RSUM_WORKERS",
    "RSUM_SERVERS",
    "RSUM_RANK",
    "RINGSCOPE_JOB",
    "RINGSCOPE_RESTART",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
];

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::launch::hosts::of_list;
    use crate::launch::plan::{Facts, Plan};

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        own: Own,
    }

    fn own() -> Own {
        Own {
            server: Some("/opt/sumd".into()),
            dir: Some("/job".into()),
            bare: false,
            watch: vec!["--level".into(), "steps".into()],
            agent: vec!["--daemon".into(), "http://own:1".into()],
            environment: Vec::new(),
            command: vec!["train".into(), "--server=x".into()],
        }
    }

    #[test]
    fn it_survives_a_command_line() {
        for own in [own(), Own { bare: true, watch: Vec::new(), ..own() }, Own::default()] {
            let line = [vec!["x".into()], own.arguments()].concat();
            assert_eq!(Line::try_parse_from(line).unwrap().own, own);
        }
    }

    #[test]
    fn of_a_strangers_share_nothing_is_left_that_chooses_what_runs() {
        let evil = || vec![OsString::from("evil")];
        let plan = Plan::new(&of_list(&["a:2".to_owned()]).unwrap(), None, 1, false).unwrap();
        let facts = Facts {
            job: "j".into(),
            master: "a".into(),
            master_port: "1".into(),
            root_port: "2".into(),
            secret: "s".into(),
            restart: (0, 0),
        };
        let mut processes = plan.processes(0, &facts);
        let told = processes.clone();
        processes.iter_mut().for_each(|process| process.variables.push(("LD_PRELOAD".into(), "evil".into())));
        let mut share = Share {
            job: "j".into(),
            command: Some(evil()),
            server: Some("evil".into()),
            dir: Some("/evil".into()),
            environment: vec![("PATH".into(), "/evil".into())],
            processes,
            watch: Some(vec!["--".into(), "evil".into()]),
            agent: Some(AgentSettings { arguments: evil(), token: Some("evil".into()) }),
            ..Share::default()
        };
        let sent = share.clone();
        Own::default().impose_on(&mut share);
        assert_eq!(share, sent, "a host that was reached has no line of its own");
        own().impose_on(&mut share);
        assert!(!format!("{share:?}").contains("evil"), "{share:?}");
        assert_eq!(share.command, Some(own().command));
        assert_eq!(share.processes, told, "all variables that a launch sets are known");
    }
}
