//! From hosts that are reached to processes that run: ports and secret, what each host is to start, and whether it can.

use std::time::Duration;

use ringscope_api::clock;

use super::super::args::Prefix;
use super::super::output::{Item, Label};
use super::super::place::Place;
use super::super::plan::Facts;
use super::super::protocol::{Hello, Order, Share};
use super::super::roster::{Refusal, Roster};
use super::super::settings::{self, Settings};
use super::{Job, SHOWN, moved};

/// How long a host may take to look at its share, and to find ports: its disks may be slow.
const PREPARES_WITHIN: Duration = Duration::from_secs(60);
/// Ports: the program's own rendezvous, and that of the summation service.
const PORTS: u16 = 2;

impl Job {
    /// Starts the job on all hosts, or nowhere: then the exit status.
    pub(super) async fn started(&mut self, restart: u32) -> Result<(), u8> {
        self.connect().await?;
        self.label();
        let facts = self.facts(restart).await?;
        let shares: Vec<Share> = (0..self.links.len()).map(|node| self.share(node, &facts)).collect();
        let roles = shares.iter().map(|share| share.processes.iter().map(|process| process.role).collect());
        self.roster.begin(roles.collect());
        for (node, share) in shares.into_iter().enumerate() {
            self.tell(node, Order::Prepare(Box::new(share)));
        }
        self.until(PREPARES_WITHIN, Roster::all_have_answered).await?;
        let refusals = self.roster.refusals();
        if !refusals.is_empty() {
            return Err(self.refused(&refusals));
        }
        (0..self.links.len()).for_each(|node| self.tell(node, Order::Go));
        Ok(())
    }

    fn refused(&self, refusals: &[(usize, Refusal)]) -> u8 {
        for (node, Refusal { text, .. }) in refusals.iter().take(SHOWN) {
            self.say.note(&format!("{}: {text}", self.name(*node)));
        }
        if refusals.len() > SHOWN {
            self.say.note(&format!("and {} more hosts", refusals.len() - SHOWN));
        }
        self.say.note("nothing was started");
        refusals.first().map_or(1, |(_, refusal)| refusal.status)
    }

    fn label(&self) {
        let prefix = self.settings.args.prefix;
        let is_kept = self.settings.args.output.is_some();
        let of = |role: &str, host: &str| match prefix {
            Prefix::None => String::new(),
            Prefix::Rank => format!("[{role}] "),
            Prefix::Full => format!("[{role} {host}] "),
        };
        let label = |role: String, host: &str| Label {
            prefix: of(&role, host),
            file: is_kept.then(|| format!("{}.log", role.replace(' ', "-"))),
        };
        let hosts = self.settings.plan.hosts.iter().enumerate();
        let labels = hosts.map(|(node, plan)| {
            let host = self.name(node);
            let servers = plan.servers.iter().map(|number| label(format!("server {number}"), &host));
            let ranks = (plan.first_rank..plan.first_rank + plan.ranks)
                .map(|rank| label(format!("rank {rank}"), &host));
            servers.chain(ranks).collect()
        });
        let labels = labels.collect();
        let agents = (0..self.links.len()).map(|node| format!("[agent {}] ", self.name(node))).collect();
        let _ = self.sinks.output.try_send(Item::Labels { labels, agents });
    }

    /// What the processes are told: the first host finds ports.
    async fn facts(&mut self, restart: u32) -> Result<Facts, u8> {
        self.roster.asks_for_ports(0);
        let ports = self.settings.args.ports;
        self.tell(0, Order::FindPorts { count: PORTS, first: ports.first, last: ports.last });
        self.until(PREPARES_WITHIN, |roster| roster.ports(0).is_some() || !roster.losses().is_empty())
            .await?;
        let found = self.roster.ports(0).unwrap_or_else(|| Err("it is lost".to_owned()));
        let hellos: Vec<&Hello> = self.links.iter().flatten().map(|link| &link.hello).collect();
        let master = match hellos.split_first() {
            Some((first, others)) => settings::master(&self.settings, first, others),
            None => Err("there is no host".to_owned()),
        };
        let facts = found.map_err(|error| format!("{}: {error}", self.name(0))).and_then(|found| {
            let [master_port, root_port] = found.as_slice() else {
                return Err("it found other ports".to_owned());
            };
            Ok(Facts {
                job: self.settings.job.clone(),
                master: master?,
                master_port: master_port.to_string(),
                root_port: root_port.to_string(),
                secret: secret()?,
                restart: (restart, self.settings.args.restarts),
            })
        });
        facts.map_err(|error| {
            self.say.note(&error);
            self.say.note("nothing was started");
            1
        })
    }

    fn share(&self, node: usize, facts: &Facts) -> Share {
        let Settings { args, places, environment, dir, .. } = &self.settings;
        let share = Share {
            job: self.settings.job.clone(),
            launch: self.launch.clone(),
            processes: self.settings.plan.processes(node, facts),
            ..Share::default()
        };
        // Who came by himself has all else of his own; and what goes to him is not encrypted. Pods have a machine each, as far as they
        // know: there is no name to claim.
        if places[node] == Place::Comes {
            return share;
        }
        Share {
            command: Some(args.command.clone()),
            server: args.sumd.clone().map(Into::into),
            dir: Some(dir.clone()),
            environment: environment.clone(),
            watch: self.settings.watch(),
            agent: self.settings.agent(),
            // On this machine the launch itself has the name.
            claims: places[node] != Place::Here,
            ..share
        }
    }

    /// Waits before anything runs, for so long at most.
    async fn until(&mut self, patience: Duration, is_done: impl Fn(&Roster) -> bool) -> Result<(), u8> {
        let until = clock::monotonic() + patience;
        while !is_done(&self.roster) {
            let moved = moved(&mut self.signals, &mut self.events).await;
            self.heed(moved)?;
            if clock::monotonic() >= until {
                self.say.note(&format!(
                    "not all hosts answer within {} s; nothing was started",
                    patience.as_secs()
                ));
                return Err(1);
            }
        }
        Ok(())
    }
}

fn secret() -> Result<String, String> {
    let mut random = [0_u8; 32];
    getrandom::fill(&mut random).map_err(|error| format!("this machine gives no random numbers: {error}"))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}
