//! The launching side: from the first connection to the exit status. `connect` reaches the hosts, `begin` starts the processes;
//! here they are watched, ended, and reported of.

mod begin;
mod connect;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ringscope_api::{clock, signal};
use tokio::sync::mpsc::{Receiver, channel};
use tokio_util::task::TaskTracker;

use super::ending::{Ending, Termination};
use super::failure::{self, FailedProcess, Failure};
use super::link::{Event, HostEvent, Link, Sinks};
use super::meet;
use super::output::{Output, Untaken};
use super::protocol::{Message, Order};
use super::report;
use super::roster::{Loss, News, Roster};
use super::say::Say;
use super::settings::Settings;
use super::signals::Signals;

/// Events of hosts that wait to be looked at.
const EVENTS: usize = 4096;
/// Between two looks at the time.
const TICK: Duration = Duration::from_millis(50);
/// How long hosts may take to take leave: an agent sends the rest.
const LEAVE_WITHIN: Duration = Duration::from_secs(10);
/// How long a reader may take nothing after a signal: one that reads at all reads sooner.
const HURRIED: Duration = Duration::from_millis(300);
/// Hosts that are named with what is wrong.
const SHOWN: usize = 10;

/// A job that is being launched.
pub(super) struct Job {
    settings: Settings,
    launch: String,
    say: Say,
    signals: Signals,
    output: Output,
    sinks: Sinks,
    events: Receiver<HostEvent>,
    links: Vec<Option<Link>>,
    /// Channels that have ended before it was known that they stand.
    dead: BTreeSet<u64>,
    roster: Roster,
    ending: Ending,
    pings: u64,
    pinged_at: Instant,
    /// Since all have ended: how long nobody has taken what they wrote.
    untaken: Option<Untaken>,
    /// A signal came when all had ended: who takes no output is waited for no longer.
    is_hurried: bool,
}

/// How one start of the job ended.
#[derive(Debug, Default)]
struct Outcome {
    failures: Vec<Failure>,
    /// Nothing was started, for this reason.
    refused: Option<u8>,
}

impl Job {
    /// Prepares the ways for output and messages.
    pub(super) fn new(
        settings: Settings,
        launch: String,
        say: Say,
        signals: Signals,
    ) -> Result<Self, String> {
        let n_hosts = settings.plan.hosts.len();
        if let Some(dir) = &settings.args.output {
            std::fs::create_dir_all(dir).map_err(|error| format!("--output {}: {error}", dir.display()))?;
        }
        let output = Output::start(n_hosts, settings.args.output.clone(), say.clone())
            .map_err(|error| error.to_string())?;
        let (sender, events) = channel(EVENTS);
        let sinks = Sinks { events: sender, output: output.items(), tasks: TaskTracker::new() };
        let now = clock::monotonic();
        let ending = Ending::new(settings.args.grace);
        let links = (0..n_hosts).map(|_| None).collect();
        let roster = Roster::new(n_hosts, now);
        Ok(Self {
            settings,
            launch,
            say,
            signals,
            output,
            sinks,
            events,
            links,
            dead: BTreeSet::new(),
            roster,
            ending,
            pings: 0,
            pinged_at: now,
            untaken: None,
            is_hurried: false,
        })
    }

    /// Runs it to its end; the exit status.
    pub(super) async fn run(mut self) -> u8 {
        let mut restart = 0;
        let status = loop {
            let outcome = self.once(restart).await;
            if let Some(report) =
                report::text(&self.settings.job, self.settings.plan.workers, &outcome.failures)
            {
                self.say.lines(&report);
            }
            if let Some(signal) = self.ending.interrupted() {
                self.say.note(&format!("job {} was ended by {}", self.settings.job, signal::name(signal)));
                break u8::try_from(128 + signal).unwrap_or(1);
            }
            if let Some(status) = outcome.refused {
                break status;
            }
            let Some(first) = failure::first(&outcome.failures) else { break 0 };
            if restart >= self.settings.args.restarts {
                break first.status();
            }
            restart += 1;
            self.ending = Ending::new(self.settings.args.grace);
            // They are reached anew.
            self.roster.losses().iter().for_each(|loss| self.links[loss.node] = None);
            self.say.note(&format!(
                "job {} is started again ({restart} of {})",
                self.settings.job, self.settings.args.restarts
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
        // What happens to a host from now on happens to none of the job's processes.
        let losses = self.roster.losses();
        self.drain().await;
        Outcome { failures: self.failures(losses), refused: None }
    }

    /// A host's name: as the user has it, or as it says.
    fn name(&self, node: usize) -> String {
        let named = self.settings.plan.hosts.get(node).map(|host| host.host.clone()).unwrap_or_default();
        let hello = self.links.get(node).and_then(Option::as_ref).map(|link| &link.hello.host);
        hello.filter(|_| self.settings.args.node.is_some()).cloned().unwrap_or(named)
    }

    fn tell(&self, node: usize, order: Order) {
        if let Some(Some(link)) = self.links.get(node) {
            // One that takes no orders is silent too, and noticed by that.
            let _ = link.orders.try_send(order);
        }
    }

    fn tell_all(&self, Termination { signal, grace, why }: Termination) {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        (0..self.links.len()).for_each(|node| self.tell(node, Order::End { signal, grace_ms, why }));
    }

    /// Waits until nothing runs any more.
    async fn watch(&mut self) {
        self.untaken = None;
        while !self.roster.is_over() {
            let moved = moved(&mut self.signals, &mut self.events).await;
            let now = clock::monotonic();
            let is_signal = matches!(moved, Moved::Signal(_));
            if let Some(termination) = self.termination(moved, now) {
                self.tell_all(termination);
            }
            self.pass_time(now);
            // What was written may never be taken.
            if self.roster.all_have_ended() {
                self.is_hurried |= is_signal;
                let (taken, patience) = (self.output.taken(), self.patience());
                let untaken = self.untaken.get_or_insert(Untaken::new(taken, now));
                if untaken.lasts(taken, now) >= patience {
                    return;
                }
            }
        }
    }

    /// What all hosts are to be told because of this.
    fn termination(&mut self, moved: Moved, now: Instant) -> Option<Termination> {
        match moved {
            Moved::Signal(signal) => {
                let termination = self.ending.signalled(signal, now);
                self.say_ending(signal, termination);
                Some(termination)
            }
            Moved::Event(event) => {
                if self.hear(event) {
                    return self.ending.failed(now);
                }
                None
            }
            Moved::Time => None,
        }
    }

    fn pass_time(&mut self, now: Instant) {
        if self.roster.workers_are_done() {
            self.ending.workers_done(now);
        }
        if let Some(termination) = self.ending.tick(now) {
            self.roster.servers_are_told = true;
            self.tell_all(termination);
        }
        if self.ending.is_given_up(now) {
            self.give_up(&self.roster.still_running(), "it does not say that its processes have ended");
        }
        self.keep_in_touch();
    }

    fn say_ending(&self, signal: i32, termination: Termination) {
        let name = signal::name(signal);
        let text = if termination.signal == libc::SIGKILL {
            format!("{name} again: all processes are killed")
        } else {
            format!(
                "{name}: passed on; what has not ended in {} s is killed, or at once by another {name}",
                termination.grace.as_secs()
            )
        };
        self.say.note(&text);
    }

    /// Whether something has failed.
    fn hear(&mut self, HostEvent { node, link, event }: HostEvent) -> bool {
        let (now, now_ns) = (clock::monotonic(), clock::now().0);
        // Of a channel that was given up, or that is only about to be known.
        if self.links.get(node).and_then(Option::as_ref).is_none_or(|known| known.number != link) {
            if matches!(event, Event::Lost(_)) {
                self.dead.insert(link);
            }
            return false;
        }
        match event {
            Event::Message(Message::Stopped(why)) => {
                self.roster.stopped(node, format!("{} is lost: {why}", self.name(node)), now_ns);
                true
            }
            Event::Message(message) => match self.roster.hear(node, message, now, now_ns) {
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
                self.roster.lost(node, why, now, now_ns)
            }
        }
    }

    fn keep_in_touch(&mut self) {
        let now = clock::monotonic();
        if now.saturating_duration_since(self.pinged_at) < meet::pings(self.settings.args.silence) {
            return;
        }
        self.pinged_at = now;
        self.pings += 1;
        for node in 0..self.links.len() {
            self.roster.asked(node, self.pings, clock::now().0);
            self.tell(node, Order::Ping(self.pings));
        }
        let silent = self.roster.silent(self.settings.args.silence, now);
        let silent: Vec<usize> = silent.into_iter().filter(|node| self.links[*node].is_some()).collect();
        if !silent.is_empty() {
            self.give_up(
                &silent,
                &format!("nothing was heard of it for {} s", self.settings.args.silence.as_secs()),
            );
            if let Some(termination) = self.ending.failed(now) {
                self.tell_all(termination);
            }
        }
    }

    /// Lets go of hosts: the end of the channel tells them, if they live.
    fn give_up(&mut self, nodes: &[usize], why: &str) {
        for node in nodes {
            let why =
                format!("{} is lost: {why}; what runs there ends as soon as it notices", self.name(*node));
            self.links[*node] = None;
            self.roster.given_up(*node, why);
        }
    }

    /// How long a reader of the output may take nothing once all has ended.
    fn patience(&self) -> Duration {
        // What was only just written is still on its way.
        if self.is_hurried { HURRIED } else { self.settings.args.drain.max(HURRIED) }
    }

    /// Waits until what was written is taken, no longer than since all have ended; a signal ends that at once.
    async fn drain(&mut self) {
        let untaken = self.untaken.unwrap_or(Untaken::new(self.output.taken(), clock::monotonic()));
        let draining = self.output.drain(untaken, self.patience());
        tokio::pin!(draining);
        let is_written = !self.output.has_ended()
            && loop {
                tokio::select! {
                    is_written = &mut draining => break is_written,
                    moved = moved(&mut self.signals, &mut self.events) => match moved {
                        Moved::Signal(signal) => {
                            self.ending.signalled(signal, clock::monotonic());
                            self.is_hurried = true;
                            break false;
                        }
                        Moved::Event(event) => drop(self.hear(event)),
                        Moved::Time => {}
                    },
                }
                self.keep_in_touch();
            };
        if is_written {
            return;
        }
        let patience = self.settings.args.drain;
        self.say.note(&if self.is_hurried || patience.is_zero() {
            "what nobody has taken yet of the job's output is not written".to_owned()
        } else {
            let seconds = patience.as_secs_f64();
            format!("nobody has taken the job's output for {seconds} s; what is left of it is not written")
        });
    }

    fn failures(&self, losses: Vec<Loss>) -> Vec<Failure> {
        let processes = self.roster.bad_ends.iter().map(|end| {
            let (tail, said_at_ns) =
                self.output.tail((end.node, u32::try_from(end.process).unwrap_or_default()));
            let host = self.name(end.node);
            Failure::Process(FailedProcess {
                role: end.role,
                host,
                pid: end.pid,
                exit: end.exit,
                was_told: end.was_told,
                at_ns: end.at_ns,
                said_at_ns,
                tail,
            })
        });
        let lost = losses.into_iter().map(|Loss { node, why, at_ns }| {
            let host = self.name(node);
            Failure::Lost { host, why, at_ns }
        });
        processes.chain(lost).collect()
    }

    /// Says to all hosts that it is over, and waits until they have gone.
    async fn leave(&mut self, status: u8) {
        self.roster.is_leaving = true;
        (0..self.links.len()).for_each(|node| self.tell(node, Order::Bye { status }));
        let until = clock::monotonic() + LEAVE_WITHIN + self.settings.args.grace;
        while self.links.iter().any(Option::is_some) && clock::monotonic() < until {
            match moved(&mut self.signals, &mut self.events).await {
                // Ctrl-C in this moment: there is nothing left to pass it on to.
                Moved::Signal(_) => return,
                Moved::Event(event) => drop(self.hear(event)),
                Moved::Time => {}
            }
        }
    }
}

/// What has happened.
enum Moved {
    Signal(i32),
    Event(HostEvent),
    Time,
}

async fn moved(signals: &mut Signals, events: &mut Receiver<HostEvent>) -> Moved {
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
        Some(event) = events.recv() => Moved::Event(event),
        () = tokio::time::sleep(TICK) => Moved::Time,
    }
}
