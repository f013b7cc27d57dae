//! The launching side: from the first connection to the exit status.

use std::time::{Duration, Instant};

use ringscope_api::clock;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use super::args::Prefix;
use super::ending::{Deed, Ending};
use super::link::{self, Event, Link, Sinks};
use super::meet;
use super::output::{Item, Label, Output};
use super::place::Place;
use super::plan::Facts;
use super::protocol::{Hello, Order, Share};
use super::report::{self, Failure, Fallen};
use super::roster::{News, Refusal, Roster};
use super::say::Say;
use super::signals::{self, Signals};
use super::wish::{self, Wish};

/// Hosts that are being reached at once.
const AT_ONCE: usize = 64;
/// Words of hosts that wait to be heard.
const EVENTS: usize = 4096;
/// Between two signs of life.
const PING: Duration = Duration::from_secs(2);
/// Between two looks at the time.
const TICK: Duration = Duration::from_millis(50);
/// How long a host may take to look at its share, and to find ports: its disks may be slow.
const PREPARES_WITHIN: Duration = Duration::from_secs(60);
/// How long hosts may take to take leave: an agent sends the rest.
const LEAVE_WITHIN: Duration = Duration::from_secs(10);
/// Ports: the program's own rendezvous, and that of the summation service.
const PORTS: u16 = 2;

/// A job that is being launched.
pub(super) struct Job {
    wish: Wish,
    launch: String,
    say: Say,
    signals: Signals,
    output: Output,
    sinks: Sinks,
    events: Receiver<(usize, Event)>,
    links: Vec<Option<Link>>,
    roster: Roster,
    ending: Ending,
    pings: u64,
    pinged_at: Instant,
}

/// How one start of the job ended.
#[derive(Debug, Default)]
struct Outcome {
    failures: Vec<Failure>,
    /// Nothing was started, for this reason.
    refused: Option<u8>,
}

impl Job {
    /// Prepares the ways for output and words.
    pub(super) fn new(wish: Wish, launch: String, say: Say, signals: Signals) -> Result<Self, String> {
        let n_hosts = wish.plan.hosts.len();
        if let Some(dir) = &wish.args.output {
            std::fs::create_dir_all(dir).map_err(|error| format!("--output {}: {error}", dir.display()))?;
        }
        let output = Output::start(n_hosts, wish.args.output.clone(), say.clone())
            .map_err(|error| error.to_string())?;
        let (heard, events) = channel(EVENTS);
        let sinks = Sinks { events: heard, output: output.items(), tasks: TaskTracker::new() };
        let now = clock::monotonic();
        let ending = Ending::new(wish.args.grace);
        let links = (0..n_hosts).map(|_| None).collect();
        let roster = Roster::new(n_hosts, now);
        Ok(Self {
            wish,
            launch,
            say,
            signals,
            output,
            sinks,
            events,
            links,
            roster,
            ending,
            pings: 0,
            pinged_at: now,
        })
    }

    /// Runs it to its end; the exit status.
    pub(super) async fn run(mut self) -> u8 {
        let mut restart = 0;
        let status = loop {
            let outcome = self.once(restart).await;
            if let Some(report) = report::text(&self.wish.job, &outcome.failures) {
                self.say.lines(&report);
            }
            if let Some(signal) = self.ending.interrupted() {
                self.say.note(&format!("job {} was ended by {}", self.wish.job, signals::name(signal)));
                break u8::try_from(128 + signal).unwrap_or(1);
            }
            if let Some(status) = outcome.refused {
                break status;
            }
            let Some(first) = report::first(&outcome.failures) else { break 0 };
            if restart >= self.wish.args.restarts {
                break first.status();
            }
            restart += 1;
            self.ending = Ending::new(self.wish.args.grace);
            self.say.note(&format!(
                "job {} is started again ({restart} of {})",
                self.wish.job, self.wish.args.restarts
            ));
        };
        self.leave(status).await;
        status
    }

    /// Starts the job, and waits for its end.
    async fn once(&mut self, restart: u32) -> Outcome {
        match self.started(restart).await {
            Ok(()) => {}
            Err(refused) => return Outcome { refused: Some(refused), ..Outcome::default() },
        }
        self.watch().await;
        self.drain().await;
        Outcome { failures: self.failures(), refused: None }
    }

    async fn started(&mut self, restart: u32) -> Result<(), u8> {
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

    /// Reaches all hosts that are not reached.
    async fn connect(&mut self) -> Result<(), u8> {
        let wanted: Vec<usize> = (0..self.links.len()).filter(|node| self.links[*node].is_none()).collect();
        let mut reached = JoinSet::new();
        let mut waiting =
            wanted.into_iter().filter(|node| self.wish.places[*node] != Place::Comes).collect::<Vec<_>>();
        waiting.reverse();
        if let (Some(node), Some(meeting)) = (self.wish.args.node, self.wish.args.meet.clone())
            && self.links.iter().skip(1).any(Option::is_none)
        {
            let (ways, sinks, secret) =
                (self.wish.ways.clone(), self.sinks.clone(), self.wish.secret.clone());
            reached.spawn(async move {
                Reached::All(meet::all(&meeting, node.count, &secret, &ways, &sinks).await)
            });
        }
        let mut failed = Vec::new();
        loop {
            while failed.is_empty()
                && reached.len() < AT_ONCE
                && let Some(node) = waiting.pop()
            {
                let (place, host) = (self.wish.places[node].clone(), self.wish.plan.hosts[node].host.clone());
                let (ways, sinks) = (self.wish.ways.clone(), self.sinks.clone());
                reached.spawn(async move {
                    Reached::One(node, link::start(node, (&place, &host), &ways, &sinks).await)
                });
            }
            tokio::select! {
                came = reached.join_next() => match came {
                    None => break,
                    Some(Ok(Reached::One(node, Ok(link)))) => self.came(node, link),
                    Some(Ok(Reached::All(Ok(links)))) => links.into_iter().for_each(|(node, link)| self.came(node, link)),
                    Some(Ok(Reached::One(_, Err(why)) | Reached::All(Err(why)))) => failed.push(why),
                    Some(Err(error)) => failed.push(error.to_string()),
                },
                moved = moved(&mut self.signals, &mut self.events) => self.heed(moved)?,
            }
        }
        if failed.is_empty() {
            return Ok(());
        }
        failed.iter().take(SHOWN).for_each(|why| self.say.note(why));
        if failed.len() > SHOWN {
            self.say.note(&format!("and {} more hosts cannot be had", failed.len() - SHOWN));
        }
        self.say.note("nothing was started");
        Err(1)
    }

    fn came(&mut self, node: usize, link: Link) {
        self.roster.came(node, clock::monotonic());
        self.links[node] = Some(link);
    }

    /// A host's name: as the user has it, or as it says.
    fn name(&self, node: usize) -> String {
        let named = self.wish.plan.hosts.get(node).map(|host| host.host.clone()).unwrap_or_default();
        let hello = self.links.get(node).and_then(Option::as_ref).map(|link| &link.hello.host);
        hello.filter(|_| self.wish.args.node.is_some()).cloned().unwrap_or(named)
    }

    fn label(&self) {
        let prefix = self.wish.args.prefix;
        let is_kept = self.wish.args.output.is_some();
        let of = |role: &str, host: &str| match prefix {
            Prefix::None => String::new(),
            Prefix::Rank => format!("[{role}] "),
            Prefix::Full => format!("[{role} {host}] "),
        };
        let label = |role: String, host: &str| Label {
            prefix: of(&role, host),
            file: is_kept.then(|| format!("{}.log", role.replace(' ', "-"))),
        };
        let hosts = self.wish.plan.hosts.iter().enumerate();
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
        let ports = self.wish.args.ports;
        self.tell(0, Order::FindPorts { count: PORTS, first: ports.first, last: ports.last });
        self.until(PREPARES_WITHIN, |roster| roster.ports(0).is_some() || !roster.losses().is_empty())
            .await?;
        let found = self.roster.ports(0).unwrap_or_else(|| Err("it is lost".to_owned()));
        let hellos: Vec<&Hello> = self.links.iter().flatten().map(|link| &link.hello).collect();
        let master = match hellos.split_first() {
            Some((first, others)) => wish::master(&self.wish, first, others),
            None => Err("there is no host".to_owned()),
        };
        let facts = found.map_err(|error| format!("{}: {error}", self.name(0))).and_then(|found| {
            let [master_port, root_port] = found.as_slice() else {
                return Err("it found other ports".to_owned());
            };
            Ok(Facts {
                job: self.wish.job.clone(),
                master: master?,
                master_port: master_port.to_string(),
                root_port: root_port.to_string(),
                secret: secret()?,
                restart: (restart, self.wish.args.restarts),
            })
        });
        facts.map_err(|error| {
            self.say.note(&error);
            self.say.note("nothing was started");
            1
        })
    }

    fn share(&self, node: usize, facts: &Facts) -> Share {
        let Wish { args, places, environment, dir, .. } = &self.wish;
        let (is_here, comes) = (places[node] == Place::Here, places[node] == Place::Comes);
        Share {
            job: self.wish.job.clone(),
            launch: self.launch.clone(),
            // Who came by himself has a command, a folder and an environment of his own.
            command: (!comes).then(|| args.command.clone()),
            server: args.sumd.clone().map(Into::into),
            dir: if comes { args.chdir.clone() } else { Some(dir.clone()) },
            environment: if comes { Vec::new() } else { environment.clone() },
            processes: self.wish.plan.processes(node, facts),
            watch: self.wish.watch(),
            agent: self.wish.agent(),
            // On this machine the launch itself has the name; pods have a machine each, as far as they know.
            claims: !is_here && !comes,
        }
    }

    fn tell(&self, node: usize, order: Order) {
        if let Some(Some(link)) = self.links.get(node) {
            // One that takes no orders is silent too, and noticed by that.
            let _ = link.orders.try_send(order);
        }
    }

    fn tell_all(&self, Deed { signal, grace }: Deed) {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        (0..self.links.len()).for_each(|node| self.tell(node, Order::End { signal, grace_ms }));
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

    /// Before anything runs: a signal ends the launch.
    fn heed(&mut self, moved: Moved) -> Result<(), u8> {
        match moved {
            Moved::Signal(signal) => {
                self.ending.signalled(signal, clock::monotonic());
                return Err(1);
            }
            Moved::Event(node, event) => drop(self.hear(node, event)),
            Moved::Time => {}
        }
        self.keep_in_touch();
        Ok(())
    }

    /// Waits until nothing runs any more.
    async fn watch(&mut self) {
        let mut ended_at = None;
        let mut are_done = false;
        while !self.roster.is_over() {
            let moved = moved(&mut self.signals, &mut self.events).await;
            let now = clock::monotonic();
            let deed = match moved {
                Moved::Signal(signal) => {
                    let deed = self.ending.signalled(signal, now);
                    self.say_ending(signal, deed);
                    Some(deed)
                }
                Moved::Event(node, event) => match self.hear(node, event) {
                    true => self.ending.failed(now),
                    false => None,
                },
                Moved::Time => None,
            };
            if let Some(deed) = deed {
                self.tell_all(deed);
            }
            if !are_done && self.roster.workers_are_done() {
                are_done = true;
                self.ending.workers_done(now);
            }
            if let Some(deed) = self.ending.tick(now) {
                self.roster.servers_are_told = true;
                self.tell_all(deed);
            }
            if self.ending.is_given_up(now) {
                self.give_up(&self.roster.not_over(), "it does not say that its processes have ended");
            }
            self.keep_in_touch();
            // What was written may never be taken.
            if self.roster.all_have_ended() {
                let since = *ended_at.get_or_insert(now);
                if now.saturating_duration_since(since) >= self.wish.args.drain {
                    return;
                }
            }
        }
    }

    fn say_ending(&self, signal: i32, deed: Deed) {
        let name = signals::name(signal);
        let text = if deed.signal == libc::SIGKILL {
            format!("{name} again: all processes are killed")
        } else {
            format!(
                "{name}: passed on; what has not ended in {} s is killed, or at once by another {name}",
                deed.grace.as_secs()
            )
        };
        self.say.note(&text);
    }

    /// Whether something has failed.
    fn hear(&mut self, node: usize, event: Event) -> bool {
        let (now, now_ns) = (clock::monotonic(), clock::now().0);
        match event {
            Event::Word(word) => match self.roster.hear(node, word, now, now_ns) {
                News::Nothing => false,
                News::Failed => true,
                News::Note(text) => {
                    self.say.note(&text);
                    false
                }
            },
            Event::Lost(why) => {
                if let Some(link) = self.links.get_mut(node) {
                    *link = None;
                }
                self.roster.lost(node, why)
            }
        }
    }

    fn keep_in_touch(&mut self) {
        let now = clock::monotonic();
        if now.saturating_duration_since(self.pinged_at) < PING {
            return;
        }
        self.pinged_at = now;
        self.pings += 1;
        for node in 0..self.links.len() {
            self.roster.asked(node, self.pings, clock::now().0);
            self.tell(node, Order::Ping(self.pings));
        }
        let silent = self.roster.silent(self.wish.args.silence, now);
        let silent: Vec<usize> = silent.into_iter().filter(|node| self.links[*node].is_some()).collect();
        if !silent.is_empty() {
            self.give_up(
                &silent,
                &format!("nothing was heard of it for {} s", self.wish.args.silence.as_secs()),
            );
            if let Some(deed) = self.ending.failed(now) {
                self.tell_all(deed);
            }
        }
    }

    /// Lets go of hosts: the end of the channel tells them, if they live.
    fn give_up(&mut self, nodes: &[usize], why: &str) {
        for node in nodes {
            let why =
                format!("{} is lost: {why}; what runs there ends as soon as it notices", self.name(*node));
            self.links[*node] = None;
            self.roster.lost(*node, why);
        }
    }

    async fn drain(&self) {
        if self.output.has_ended() || !self.output.drain(self.wish.args.drain).await {
            self.say.note(&format!(
                "nobody has taken the job's output for {} s; what is left of it is not written",
                self.wish.args.drain.as_secs()
            ));
        }
    }

    fn failures(&self) -> Vec<Failure> {
        let fallen = self.roster.fallen.iter().map(|fall| {
            let (tail, said_at_ns) =
                self.output.tail((fall.node, u32::try_from(fall.process).unwrap_or_default()));
            let host = self.name(fall.node);
            Failure::Process(Fallen {
                role: fall.role,
                host,
                pid: fall.pid,
                exit: fall.exit,
                at_ns: fall.at_ns,
                said_at_ns,
                tail,
            })
        });
        let lost = self.roster.losses().into_iter();
        fallen.chain(lost.map(|(node, why)| Failure::Lost { host: self.name(node), why })).collect()
    }

    /// Says to all hosts that it is over, and waits until they have gone.
    async fn leave(&mut self, status: u8) {
        self.roster.is_leaving = true;
        (0..self.links.len()).for_each(|node| self.tell(node, Order::Bye { status }));
        let until = clock::monotonic() + LEAVE_WITHIN + self.wish.args.grace;
        while self.links.iter().any(Option::is_some) && clock::monotonic() < until {
            match moved(&mut self.signals, &mut self.events).await {
                // Ctrl-C in this moment: there is nothing left to pass it on to.
                Moved::Signal(_) => return,
                Moved::Event(node, event) => drop(self.hear(node, event)),
                Moved::Time => {}
            }
        }
    }
}

enum Reached {
    One(usize, Result<Link, String>),
    All(Result<std::collections::BTreeMap<usize, Link>, String>),
}

/// What has happened.
enum Moved {
    Signal(i32),
    Event(usize, Event),
    Time,
}

async fn moved(signals: &mut Signals, events: &mut Receiver<(usize, Event)>) -> Moved {
    let signal = async {
        loop {
            match signals.next().await {
                libc::SIGCHLD => {}
                signal => return signal,
            }
        }
    };
    tokio::select! {
        signal = signal => Moved::Signal(signal),
        Some((node, event)) = events.recv() => Moved::Event(node, event),
        () = tokio::time::sleep(TICK) => Moved::Time,
    }
}

fn secret() -> Result<String, String> {
    let mut random = [0_u8; 32];
    getrandom::fill(&mut random).map_err(|error| format!("this machine gives no random numbers: {error}"))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Hosts that are named with what is wrong.
const SHOWN: usize = 10;
