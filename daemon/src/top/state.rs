//! What `ringscope top` shows and how keys change it. Pure: no terminal, no network, `now` is an argument.

use std::cmp::Reverse;
use std::collections::VecDeque;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ringscope_api::clock::Timestamp;
use ringscope_api::{
    Finding, Health, HostDetail, HostSummary, Job, JobState, SummationGroup, SummationGroupDetail,
    SummationGroupState,
};
use ringscope_judge::health;

/// What the daemon said at one moment.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) at: Timestamp,
    pub(super) jobs: Vec<Job>,
    pub(super) hosts: Vec<HostSummary>,
    pub(super) groups: Vec<SummationGroup>,
    /// The one sentence.
    pub(super) health: Health,
    /// Firing, worst first.
    pub(super) findings: Vec<Finding>,
    /// The host that is open, if the daemon knows it.
    pub(super) open_host: Option<HostDetail>,
    /// The summation group that is open, likewise.
    pub(super) open_group: Option<SummationGroupDetail>,
    /// What was open and could not be had, and why.
    pub(super) open_error: Option<(Open, String)>,
}

/// The parts of the overview that can be moved in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pane {
    Hosts,
    Findings,
    Jobs,
    /// Only where there are any.
    Groups,
}

/// What is open over the overview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Open {
    Host(String),
    Job(String),
    Group(String),
}

/// Order of the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Name,
    Worst,
    Slowest,
}

impl Sort {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Name => "by name",
            Self::Worst => "worst first",
            Self::Slowest => "slowest first",
        }
    }
}

/// What a key asks of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    None,
    /// Ask the daemon again now.
    Refresh,
    Quit,
}

/// Everything on the screen.
#[derive(Debug)]
pub(super) struct State {
    pub(super) daemon: String,
    pub(super) snapshot: Snapshot,
    /// Since when the daemon does not answer, and why.
    pub(super) away: Option<(Timestamp, String)>,
    /// Completed bytes per second, oldest first.
    pub(super) throughput: VecDeque<u64>,
    pub(super) pane: Pane,
    pub(super) open: Option<Open>,
    pub(super) help: bool,
    pub(super) sort: Sort,
    pub(super) filter: String,
    /// The filter is being typed.
    pub(super) typing: bool,
    /// Line that is chosen in each pane, by the order of [`Pane`].
    chosen: [usize; 4],
    /// Lines scrolled in what is open.
    pub(super) scroll: u16,
    /// Hosts in a row of the map, as last drawn: how far up and down lead.
    pub(super) map_columns: usize,
}

impl State {
    pub(super) fn new(daemon: String, snapshot: Snapshot) -> Self {
        let mut state = Self {
            daemon,
            snapshot: snapshot.clone(),
            away: None,
            throughput: VecDeque::new(),
            pane: Pane::Hosts,
            open: None,
            help: false,
            sort: Sort::Name,
            filter: String::new(),
            typing: false,
            chosen: [0; 4],
            scroll: 0,
            map_columns: 1,
        };
        state.take(Ok(snapshot));
        state
    }

    /// Takes in what the daemon said, or why it said nothing.
    pub(super) fn take(&mut self, said: Result<Snapshot, String>) {
        match said {
            Ok(snapshot) => {
                self.away = None;
                self.throughput.push_back(throughput(&snapshot.jobs));
                while self.throughput.len() > THROUGHPUT_MAX {
                    self.throughput.pop_front();
                }
                self.snapshot = snapshot;
                if self.snapshot.groups.is_empty() && self.pane == Pane::Groups {
                    self.pane = Pane::Hosts;
                }
            }
            Err(why) => {
                let since = self.away.take().map_or(self.snapshot.at, |(since, _)| since);
                self.away = Some((since, why));
            }
        }
    }

    /// The hosts that the filter admits, in order.
    pub(super) fn hosts(&self) -> Vec<&HostSummary> {
        let admits =
            |host: &&HostSummary| self.admits(&host.host) || host.jobs.iter().any(|job| self.admits(job));
        let mut hosts: Vec<&HostSummary> = self.snapshot.hosts.iter().filter(admits).collect();
        match self.sort {
            Sort::Name => hosts.sort_by_cached_key(|host| health::natural(&host.host)),
            Sort::Worst => hosts = health::worst_first(hosts.into_iter()),
            Sort::Slowest => {
                hosts.sort_by(|a, b| a.completed_bytes_per_s.total_cmp(&b.completed_bytes_per_s));
            }
        }
        hosts
    }

    /// The jobs that the filter admits: running first, newest first.
    pub(super) fn jobs(&self) -> Vec<&Job> {
        let admits = |job: &&Job| self.admits(&job.id) || job.hosts.iter().any(|host| self.admits(host));
        let mut jobs: Vec<&Job> = self.snapshot.jobs.iter().filter(admits).collect();
        jobs.sort_by_key(|job| (job.state == JobState::Ended, Reverse(job.first_seen)));
        jobs
    }

    /// The findings that the filter admits, each with how often it is there.
    pub(super) fn findings(&self) -> Vec<(&Finding, usize)> {
        let admits = |finding: &&Finding| {
            self.admits(&finding.host)
                || self.admits(&finding.job)
                || self.admits(finding.finding.label())
                || finding.nic.as_deref().is_some_and(|nic| self.admits(nic))
        };
        health::folded(self.snapshot.findings.iter().filter(admits))
    }

    /// The summation groups that the filter admits: those at work first, the newest first.
    pub(super) fn groups(&self) -> Vec<&SummationGroup> {
        let admits = |group: &&SummationGroup| self.admits(&group.id) || self.admits(&group.job);
        let mut groups: Vec<&SummationGroup> = self.snapshot.groups.iter().filter(admits).collect();
        groups.sort_by_key(|group| match group.state {
            SummationGroupState::Starting | SummationGroupState::Running => 0,
            SummationGroupState::Failed => 1,
            SummationGroupState::Suspended | SummationGroupState::Ended => 2,
        });
        groups
    }

    fn admits(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.filter.to_lowercase())
    }

    fn len(&self, pane: Pane) -> usize {
        match pane {
            Pane::Hosts => self.hosts().len(),
            Pane::Findings => self.findings().len(),
            Pane::Jobs => self.jobs().len(),
            Pane::Groups => self.groups().len(),
        }
    }

    /// The line that is chosen; there may be none.
    pub(super) fn chosen(&self, pane: Pane) -> usize {
        self.chosen[pane as usize].min(self.len(pane).saturating_sub(1))
    }

    /// Does what a key says.
    pub(super) fn key(&mut self, key: KeyEvent) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Action::Quit } else { Action::None };
        }
        if self.typing {
            self.type_key(key.code);
            return Action::None;
        }
        if self.help {
            self.help = false;
            return Action::None;
        }
        match key.code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char('r') => return Action::Refresh,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char('/') => (self.typing, self.open) = (true, None),
            KeyCode::Char('s') => {
                self.sort = match self.sort {
                    Sort::Name => Sort::Worst,
                    Sort::Worst => Sort::Slowest,
                    Sort::Slowest => Sort::Name,
                }
            }
            KeyCode::Esc | KeyCode::Backspace if self.open.is_some() => self.open = None,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Enter if self.open.is_none() => return self.open(),
            KeyCode::Tab if self.open.is_none() => self.pane = self.next_pane(false),
            KeyCode::BackTab if self.open.is_none() => self.pane = self.next_pane(true),
            code => self.step(code),
        }
        Action::None
    }

    fn type_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(c) if self.filter.len() < FILTER_MAX => self.filter.push(c),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter | KeyCode::Down | KeyCode::Tab => self.typing = false,
            KeyCode::Esc => (self.typing, self.filter) = (false, String::new()),
            _ => {}
        }
    }

    fn next_pane(&self, back: bool) -> Pane {
        let panes = [Pane::Hosts, Pane::Findings, Pane::Jobs, Pane::Groups];
        let n = if self.snapshot.groups.is_empty() { panes.len() - 1 } else { panes.len() };
        panes[(self.pane as usize + if back { n - 1 } else { 1 }) % n]
    }

    fn open(&mut self) -> Action {
        let place = self.chosen(self.pane);
        let open = match self.pane {
            Pane::Hosts => self.hosts().get(place).map(|host| Open::Host(host.host.clone())),
            Pane::Findings => self.findings().get(place).map(|(finding, _)| match &finding.group {
                Some(group) => Open::Group(group.clone()),
                None => Open::Host(finding.host.clone()),
            }),
            Pane::Jobs => self.jobs().get(place).map(|job| Open::Job(job.id.clone())),
            Pane::Groups => self.groups().get(place).map(|group| Open::Group(group.id.clone())),
        };
        (self.open, self.scroll) = (open, 0);
        Action::Refresh
    }

    fn step(&mut self, code: KeyCode) {
        let row = if self.pane == Pane::Hosts { self.map_columns.max(1) } else { 1 };
        let (back, steps) = match code {
            KeyCode::Left => (true, 1),
            KeyCode::Right => (false, 1),
            KeyCode::Up | KeyCode::Char('k') => (true, row),
            KeyCode::Down | KeyCode::Char('j') => (false, row),
            KeyCode::PageUp => (true, row * PAGE),
            KeyCode::PageDown => (false, row * PAGE),
            KeyCode::Home => (true, usize::MAX),
            KeyCode::End => (false, usize::MAX),
            _ => return,
        };
        if self.open.is_some() {
            let steps =
                u16::try_from(if steps == row { 1 } else { steps }).unwrap_or(u16::MAX).min(SCROLL_MAX);
            self.scroll =
                if back { self.scroll.saturating_sub(steps) } else { self.scroll.saturating_add(steps) };
            return;
        }
        let last = self.len(self.pane).saturating_sub(1);
        let place = self.chosen(self.pane);
        self.chosen[self.pane as usize] =
            if back { place.saturating_sub(steps) } else { place.saturating_add(steps).min(last) };
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is not negative, and below 2^64"
)]
fn throughput(jobs: &[Job]) -> u64 {
    jobs.iter().map(|job| job.completed_bytes_per_s).sum::<f64>() as u64
}

/// Points of the throughput: the widest screen, seven minutes.
const THROUGHPUT_MAX: usize = 240;
/// Letters of the filter.
const FILTER_MAX: usize = 64;
/// Lines of a page.
const PAGE: usize = 10;
/// Lines that one key scrolls.
const SCROLL_MAX: u16 = 10;
