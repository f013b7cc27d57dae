//! What is known of the hosts of a launch and of their processes, from what they say. No I/O: times come as arguments.

mod clock;

use std::time::{Duration, Instant};

use super::protocol::{Ended, Exit, Message, Role};
use clock::Clock;

/// All hosts.
#[derive(Debug)]
pub(super) struct Roster {
    nodes: Vec<Node>,
    /// Ends that were no good ones; all of their own accord but those that say that they were told.
    pub(super) bad_ends: Vec<BadEnd>,
    /// Servers may have any status from now on.
    pub(super) servers_are_told: bool,
    /// All were told that the launch is over: who goes is not lost.
    pub(super) is_leaving: bool,
}

/// One host.
#[derive(Debug)]
struct Node {
    roles: Vec<Role>,
    pids: Vec<u32>,
    ended: Vec<bool>,
    /// How many have not ended, and how many of them are workers.
    running: usize,
    workers_running: usize,
    ports: Option<Result<Vec<u16>, String>>,
    ready: Option<Result<(), Refusal>>,
    is_over: bool,
    lost: Option<Loss>,
    /// Somebody there ends it.
    stopped: Option<Loss>,
    heard_at: Instant,
    heard_ns: u64,
    clock: Clock,
}

/// Why a host does not start its share, and what exit status that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) text: String,
    pub(super) status: u8,
}

/// A host that is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) node: usize,
    pub(super) why: String,
    /// Since when, by this machine's clock: what says nothing any more is lost since its last message.
    pub(super) at_ns: u64,
}

/// An end that was not good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadEnd {
    pub(super) node: usize,
    pub(super) process: usize,
    pub(super) role: Role,
    pub(super) pid: u32,
    pub(super) exit: Exit,
    /// It ended after its host had been told to end all: perhaps because of that.
    pub(super) was_told: bool,
    /// By this machine's clock.
    pub(super) at_ns: u64,
}

/// What a message changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Nothing that others need to hear.
    Nothing,
    /// A process has failed.
    Failed,
    /// Something for people.
    Note(String),
}

impl Roster {
    /// Of so many hosts.
    pub(super) fn new(n_hosts: usize, now: Instant) -> Self {
        let node = |_| Node {
            roles: Vec::new(),
            pids: Vec::new(),
            ended: Vec::new(),
            running: 0,
            workers_running: 0,
            ports: None,
            ready: None,
            is_over: false,
            lost: None,
            stopped: None,
            heard_at: now,
            heard_ns: 0,
            clock: Clock::default(),
        };
        Self {
            nodes: (0..n_hosts).map(node).collect(),
            bad_ends: Vec::new(),
            servers_are_told: false,
            is_leaving: false,
        }
    }

    /// Another start of the job, with these processes on each host.
    pub(super) fn begin(&mut self, roles: Vec<Vec<Role>>) {
        self.bad_ends.clear();
        self.servers_are_told = false;
        for (node, roles) in self.nodes.iter_mut().zip(roles) {
            node.pids = vec![0; roles.len()];
            node.ended = vec![false; roles.len()];
            node.running = roles.len();
            node.workers_running = roles.iter().filter(|role| matches!(role, Role::Worker(_))).count();
            (node.roles, node.ready, node.is_over) = (roles, None, false);
        }
    }

    /// A host has come, or come again.
    pub(super) fn came(&mut self, node: usize, now: Instant, now_ns: u64) {
        if let Some(node) = self.nodes.get_mut(node) {
            (node.lost, node.stopped, node.ports) = (None, None, None);
            (node.heard_at, node.heard_ns) = (now, now_ns);
        }
    }

    /// It is asked for ports.
    pub(super) fn asks_for_ports(&mut self, node: usize) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.ports = None;
        }
    }

    /// It is asked for a sign of life.
    pub(super) fn asked(&mut self, node: usize, number: u64, now_ns: u64) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.clock.ask(number, now_ns);
        }
    }

    /// Takes a host's message.
    pub(super) fn hear(&mut self, number: usize, message: Message, now: Instant, now_ns: u64) -> News {
        let Some(node) = self.nodes.get_mut(number) else { return News::Nothing };
        (node.heard_at, node.heard_ns) = (now, now_ns);
        match message {
            Message::Hello(_) | Message::Bye => {}
            // Before it has answered it speaks of an earlier start.
            Message::Started { .. } | Message::Ended(_) | Message::Over if node.ready.is_none() => {}
            Message::Ports(ports) => node.ports = Some(ports),
            Message::Ready => node.ready = Some(Ok(())),
            Message::Refused { text, status } => node.ready = Some(Err(Refusal { text, status })),
            Message::Started { process, pid } => {
                if let Some(known) = node.pids.get_mut(process) {
                    *known = pid;
                }
            }
            Message::Ended(ended) => return self.ended(number, &ended),
            Message::Over => node.is_over = true,
            Message::Stopped(_) => return News::Failed,
            Message::Note(text) => return News::Note(text),
            Message::Pong { number, at_ns } => node.clock.answered(number, at_ns, now_ns),
        }
        News::Nothing
    }

    fn ended(&mut self, number: usize, ended: &Ended) -> News {
        let Some(node) = self.nodes.get_mut(number) else { return News::Nothing };
        let Some((was, role)) = node.ended.get_mut(ended.process).zip(node.roles.get(ended.process)) else {
            return News::Nothing;
        };
        if std::mem::replace(was, true) {
            return News::Nothing;
        }
        node.running -= 1;
        node.workers_running -= usize::from(matches!(role, Role::Worker(_)));
        let is_forgiven = self.servers_are_told && matches!(role, Role::Server(_));
        // By a signal that it was sent, it did as it was told.
        let obeyed = ended.was_told && matches!(ended.exit, Exit::Signal(_));
        if ended.exit.is_good() || obeyed || is_forgiven {
            return News::Nothing;
        }
        let pid = node.pids.get(ended.process).copied().unwrap_or_default();
        let at_ns = node.clock.ours(ended.at_ns);
        let (process, exit) = (ended.process, ended.exit);
        let was_told = ended.was_told;
        self.bad_ends.push(BadEnd { node: number, process, role: *role, pid, exit, was_told, at_ns });
        if was_told { News::Nothing } else { News::Failed }
    }

    /// A host's channel has ended, for this reason. Whether that is new.
    pub(super) fn lost(&mut self, number: usize, why: String, now: Instant, now_ns: u64) -> bool {
        let Some(node) = self.nodes.get(number) else { return false };
        // Of a machine that has died the channel ends long after it.
        let is_late = now.saturating_duration_since(node.heard_at) > SPEAKS_WITHIN;
        let at_ns = if is_late { node.heard_ns } else { now_ns };
        self.lose(Loss { node: number, why, at_ns })
    }

    /// A host is given up, for this reason: it is lost since its last message. One that answers and does not end its processes is not
    /// why others failed before that.
    pub(super) fn given_up(&mut self, number: usize, why: String) -> bool {
        let Some(node) = self.nodes.get(number) else { return false };
        let at_ns = node.heard_ns;
        self.lose(Loss { node: number, why, at_ns })
    }

    fn lose(&mut self, loss: Loss) -> bool {
        let Some(node) = self.nodes.get_mut(loss.node) else { return false };
        let is_new = node.lost.is_none() && !self.is_leaving;
        node.lost.get_or_insert(loss);
        is_new
    }

    /// Hosts from which nothing was heard for so long.
    pub(super) fn silent(&self, silence: Duration, now: Instant) -> Vec<usize> {
        let is_silent =
            |node: &Node| node.lost.is_none() && now.saturating_duration_since(node.heard_at) > silence;
        self.nodes.iter().enumerate().filter(|(_, node)| is_silent(node)).map(|(number, _)| number).collect()
    }

    /// The ports that a host has found.
    pub(super) fn ports(&self, number: usize) -> Option<Result<Vec<u16>, String>> {
        self.nodes.get(number)?.ports.clone()
    }

    /// Whether all hosts have said whether they can start.
    pub(super) fn all_have_answered(&self) -> bool {
        self.nodes.iter().all(|node| node.ready.is_some() || node.lost.is_some())
    }

    /// Hosts that will not start, and why.
    pub(super) fn refusals(&self) -> Vec<(usize, Refusal)> {
        let refused = |(number, node): (usize, &Node)| match (&node.ready, &node.lost) {
            (Some(Err(refusal)), _) => Some((number, refusal.clone())),
            (_, Some(loss)) => Some((number, Refusal { text: loss.why.clone(), status: 1 })),
            _ => None,
        };
        self.nodes.iter().enumerate().filter_map(refused).collect()
    }

    /// Whether nothing runs anywhere any more, as far as is known.
    pub(super) fn is_over(&self) -> bool {
        self.nodes.iter().all(|node| node.is_over || node.lost.is_some())
    }

    /// Hosts that have not said that their processes have ended. What these wrote may be on its way for longer.
    pub(super) fn still_running(&self) -> Vec<usize> {
        let runs = |node: &Node| node.running > 0 && node.lost.is_none();
        self.nodes.iter().enumerate().filter(|(_, node)| runs(node)).map(|(number, _)| number).collect()
    }

    /// Whether no process of any host runs any more; what they wrote may still be on its way.
    pub(super) fn all_have_ended(&self) -> bool {
        self.nodes.iter().all(|node| node.lost.is_some() || node.running == 0)
    }

    /// Whether all workers have ended.
    pub(super) fn workers_are_done(&self) -> bool {
        self.nodes.iter().all(|node| node.workers_running == 0)
    }

    /// Somebody ends a host's side, and it ends its processes: it is as good as lost, and may say more.
    pub(super) fn stopped(&mut self, number: usize, why: String, now_ns: u64) {
        if let Some(node) = self.nodes.get_mut(number) {
            node.stopped.get_or_insert(Loss { node: number, why, at_ns: now_ns });
        }
    }

    /// Hosts that are lost.
    pub(super) fn losses(&self) -> Vec<Loss> {
        self.nodes.iter().filter_map(|node| node.stopped.clone().or_else(|| node.lost.clone())).collect()
    }
}

/// Twice the time between two signs of life of a host that lives.
const SPEAKS_WITHIN: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests {
    use super::*;

    fn two(now: Instant) -> Roster {
        let mut roster = unanswered(now);
        (0..2).for_each(|node| drop(roster.hear(node, Message::Ready, now, 0)));
        roster
    }

    fn unanswered(now: Instant) -> Roster {
        let mut roster = Roster::new(2, now);
        roster.begin(vec![vec![Role::Server(0), Role::Worker(0)], vec![Role::Worker(1)]]);
        roster
    }

    #[test]
    fn what_is_said_before_the_answer_is_of_an_earlier_start() {
        let now = ringscope_api::clock::monotonic();
        let mut roster = unanswered(now);
        for message in [end(0, Exit::Status(1), false), Message::Over] {
            assert_eq!(roster.hear(1, message.clone(), now, 0), News::Nothing);
        }
        assert!(roster.bad_ends.is_empty() && roster.still_running() == [0, 1] && !roster.all_have_ended());
        roster.hear(1, Message::Ready, now, 0);
        assert_eq!(roster.hear(1, end(0, Exit::Status(1), false), now, 0), News::Failed);
    }

    fn end(process: usize, exit: Exit, was_told: bool) -> Message {
        Message::Ended(Ended { process, exit, at_ns: 1_000, was_told })
    }

    #[test]
    fn a_bad_end_is_a_failure_unless_it_was_asked_for() {
        let now = ringscope_api::clock::monotonic();
        let mut roster = two(now);
        assert_eq!(roster.hear(0, end(1, Exit::Status(0), false), now, 0), News::Nothing);
        assert_eq!(roster.hear(1, end(0, Exit::Signal(15), true), now, 0), News::Nothing);
        assert!(roster.workers_are_done() && !roster.all_have_ended() && !roster.is_over());
        assert_eq!(roster.hear(0, end(0, Exit::Status(1), false), now, 0), News::Failed);
        assert_eq!(roster.bad_ends[0].role, Role::Server(0));
        assert!(roster.all_have_ended());
    }

    #[test]
    fn a_status_after_it_was_told_is_kept_and_fails_nothing() {
        let now = ringscope_api::clock::monotonic();
        let mut roster = two(now);
        assert_eq!(roster.hear(1, end(0, Exit::Status(7), true), now, 0), News::Nothing);
        assert!(roster.bad_ends[0].was_told);
    }

    #[test]
    fn servers_that_were_told_may_end_as_they_like() {
        let now = ringscope_api::clock::monotonic();
        let mut roster = two(now);
        roster.servers_are_told = true;
        assert_eq!(roster.hear(0, end(0, Exit::Status(1), false), now, 0), News::Nothing);
        assert_eq!(roster.hear(0, end(1, Exit::Status(1), false), now, 0), News::Failed);
    }

    #[test]
    fn times_are_by_our_clock_as_the_quickest_answer_tells_it() {
        let now = ringscope_api::clock::monotonic();
        let mut roster = two(now);
        let second = 1_000_000_000;
        roster.asked(1, 7, 100 * second);
        // It is 50 s behind, and the answer took 2 s.
        roster.hear(1, Message::Pong { number: 7, at_ns: 51 * second }, now, 102 * second);
        roster.asked(1, 8, 200 * second);
        roster.hear(1, Message::Pong { number: 8, at_ns: 9 * second }, now, 210 * second);
        let ended = Ended { process: 0, exit: Exit::Status(3), at_ns: 60 * second, was_told: false };
        roster.hear(1, Message::Ended(ended), now, 0);
        assert_eq!(roster.bad_ends[0].at_ns, 110 * second);
    }

    #[test]
    fn what_is_silent_is_lost_since_its_last_message() {
        let now = ringscope_api::clock::monotonic();
        let mut roster = two(now);
        let later = now + Duration::from_secs(20);
        roster.came(0, now, 100);
        roster.came(1, now, 100);
        roster.hear(1, Message::Ready, later, 900);
        assert!(roster.lost(0, "died".into(), later, 1_000) && roster.given_up(1, "hangs".into()));
        let at = |loss: &Loss| (loss.node, loss.at_ns);
        assert_eq!(roster.losses().iter().map(at).collect::<Vec<_>>(), [(0, 100), (1, 900)]);
        roster.came(0, later, 1_000);
        assert!(roster.lost(0, "was cut off".into(), later + Duration::from_secs(1), 1_500));
        assert_eq!(roster.losses()[0].at_ns, 1_500);
    }

    #[test]
    fn a_host_that_says_nothing_is_silent_and_one_that_is_lost_has_ended() {
        let now = ringscope_api::clock::monotonic();
        let mut roster = unanswered(now);
        let later = now + Duration::from_secs(31);
        roster.hear(0, Message::Ready, later, 0);
        assert_eq!(roster.silent(Duration::from_secs(30), later), [1]);
        let mut lost = |why: &str| roster.lost(1, why.into(), now, 5);
        assert!(lost("gone") && !lost("again"));
        assert_eq!(roster.refusals(), [(1, Refusal { text: "gone".into(), status: 1 })]);
        assert!(roster.all_have_answered() && !roster.workers_are_done());
        roster.hear(0, Message::Over, later, 0);
        assert!(roster.is_over());
        // Messages about processes that there are not change nothing.
        assert_eq!(roster.hear(0, end(9, Exit::Status(1), false), now, 0), News::Nothing);
        assert_eq!(roster.hear(9, Message::Over, now, 0), News::Nothing);
    }
}
