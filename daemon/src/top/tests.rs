use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ringscope_api::clock::Timestamp;
use ringscope_api::{
    Condition, FindingKind, HostSummary, Incident, Job, JobState, Page, Severity, SummationGroup,
    SummationGroupDetail,
};
use ringscope_samples::objects::finding;
use ringscope_samples::objects::{NOW, host, incident, job};

use super::state::{Action, Open, Snapshot, State};
use super::*;

fn state(jobs: Vec<Job>, hosts: Vec<HostSummary>) -> State {
    let first_seen_s = NOW.0 / 1_000_000_000 - 840;
    let degraded = hosts.iter().filter(|host| host.degraded);
    let findings = degraded.map(|host| finding(&host.host, &host.host, first_seen_s)).collect();
    let open: Vec<Incident> = hosts
        .iter()
        .filter(|host| host.degraded)
        .map(|host| incident(&host.host, &host.host, Severity::Critical, &host.reasons[0]))
        .collect();
    let health = ringscope_judge::health::health(&jobs, &hosts, &open, NOW);
    let groups = Vec::new();
    State::new(
        "http://d".into(),
        Snapshot {
            at: NOW,
            jobs,
            hosts,
            groups,
            health,
            findings,
            open_host: None,
            open_group: None,
            open_error: None,
        },
    )
}

/// A job of `n` hosts of which `degraded` are.
fn cluster(n: usize, degraded: &[usize]) -> State {
    let hosts: Vec<HostSummary> =
        (0..n).map(|index| host(&format!("node-{index}"), u32::from(degraded.contains(&index)))).collect();
    let names = hosts.iter().map(|host| host.host.clone()).collect();
    state(vec![Job { hosts: names, ..job("train", JobState::Running, 0) }], hosts)
}

fn screen(state: &mut State, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw::draw(frame, state, NOW, true)).unwrap();
    let text = terminal.backend().to_string();
    assert_eq!(text.lines().count(), usize::from(height), "{text}");
    text
}

fn press(state: &mut State, keys: &[KeyCode]) -> Action {
    keys.iter().fold(Action::None, |_, key| state.key(KeyEvent::new(*key, KeyModifiers::NONE)))
}

fn letters(text: &str) -> Vec<KeyCode> {
    text.chars().map(KeyCode::Char).collect()
}

const SIZES: [(u16, u16); 5] = [(80, 24), (200, 50), (40, 12), (20, 5), (1, 1)];

#[test]
fn every_state_is_drawn_at_every_size() {
    let makers: [fn() -> State; 5] = [
        summing,
        || state(Vec::new(), Vec::new()),
        || cluster(1, &[]),
        || cluster(300, &[17, 40]),
        || cluster(5000, &[4999]),
    ];
    for make in makers {
        for (width, height) in SIZES {
            let mut state = make();
            for keys in [letters(""), letters("?"), letters("x"), vec![KeyCode::Enter], letters("/node-1")] {
                press(&mut state, &keys);
                screen(&mut state, width, height);
            }
        }
    }
}

#[test]
fn the_first_line_says_who_is_degraded_and_since_when() {
    for (width, height) in [(80, 24), (200, 50)] {
        let text = screen(&mut cluster(300, &[17]), width, height);
        assert!(text.contains("node-17 found 2 channels where others found 8."), "{text}");
        for part in [
            "14 min ago",
            "Hosts 300 · 1 degraded",
            "Jobs 1",
            "Firing findings 1",
            "critical",
            "!",
            "2.00 GB/s",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
    for (width, height) in [(40, 24), (80, 24), (200, 50)] {
        let text = screen(&mut cluster(300, &[17]), width, height);
        assert!(text.contains("11:46:00Z."), "to its end: {text}");
        assert!(text.contains("What to do: Look at its NICs."), "{text}");
    }
    let small = screen(&mut cluster(300, &[17]), 40, 12);
    assert!(small.contains("11:46:00Z.") && !small.contains("What to do"), "{small}");
    assert!(
        small.contains("node-17 found 2 channels") && small.contains('!') && !small.contains("Jobs"),
        "{small}"
    );
    let empty = screen(&mut state(Vec::new(), Vec::new()), 80, 24);
    assert!(empty.contains("No job yet.") && empty.contains("none"), "{empty}");
}

/// A sentence begins with who it is, whose host may have a long name.
#[test]
fn few_findings_are_shown_whole() {
    let mut few = cluster(4, &[1]);
    few.snapshot.findings[0].message = format!(
        "Rank 5 ({}, pid 4711) takes 60 ms of its own, outside of collectives, in each step, the others 40 ms",
        "dgx-a100-0123.rack-17.cluster.example.com"
    );
    let text = screen(&mut few, 80, 24);
    assert!(text.contains("the others 40 ms"), "{text}");
    let mut many = cluster(20, &[1, 2, 3, 4, 5, 6, 7, 8]);
    let text = screen(&mut many, 80, 24);
    assert!(text.contains("node-1 found 2") && text.contains("node-2 found 2"), "{text}");
}

#[test]
fn few_hosts_have_names_and_a_thousand_have_a_cell_each() {
    let text = screen(&mut cluster(12, &[3]), 80, 24);
    assert!(text.contains("! node-3") && text.contains("node-11"), "{text}");
    let degraded = [5, 500, 999];
    let text = screen(&mut cluster(1000, &degraded), 200, 50);
    let cells = text.matches('!').count() - text.matches("! degraded").count();
    assert_eq!(cells, degraded.len(), "{text}");
    // Where not even a cell each fits, no degraded host is lost among the others of its cell.
    let text = screen(&mut cluster(5000, &[4999]), 40, 12);
    assert!(text.contains('!'), "{text}");
}

#[test]
fn hosts_and_jobs_stand_as_the_page_says_it() {
    let mut state = cluster(12, &[3]);
    state.snapshot.hosts[3].standing.condition = Condition::Hung;
    state.snapshot.hosts[5].standing.condition = Condition::Failed;
    state.snapshot.jobs[0].standing.condition = Condition::Hung;
    let text = screen(&mut state, 120, 24);
    for part in ["Hosts 12 · 1 failed, 1 hung", "X node-3", "X node-5", "hung"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("running"), "{text}");
}

#[test]
fn enter_opens_a_host_with_its_findings_and_what_to_do() {
    let mut state = cluster(300, &[17]);
    assert_eq!(press(&mut state, &letters("s")), Action::None);
    assert_eq!(press(&mut state, &[KeyCode::Enter]), Action::Refresh);
    assert_eq!(state.open, Some(Open::Host("node-17".into())), "worst first");
    let text = screen(&mut state, 120, 40);
    for part in ["Host node-17", "found 2 channels where others found 8", "what to do", "  1. ", "esc back"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    press(&mut state, &[KeyCode::Down, KeyCode::PageDown]);
    assert!(!screen(&mut state, 120, 40).contains("found 8 channels, runs on 16"), "scrolled");
    press(&mut state, &[KeyCode::Esc, KeyCode::BackTab, KeyCode::Enter]);
    assert_eq!(state.open, Some(Open::Job("train".into())));
    let text = screen(&mut state, 120, 40);
    assert!(text.contains("Job train") && text.contains("300 hosts") && text.contains("node-17"), "{text}");
}

#[test]
fn what_is_open_and_cannot_be_had_says_why() {
    let why = "http://d/api/v1/nodes/node-17: it is too busy";
    let mut state = cluster(300, &[17]);
    press(&mut state, &[letters("s"), vec![KeyCode::Enter]].concat());
    assert!(screen(&mut state, 120, 40).contains('…'), "it is still to come");
    let mut snapshot = state.snapshot.clone();
    snapshot.open_error = Some((Open::Host("node-17".into()), why.into()));
    state.take(Ok(snapshot));
    let text = screen(&mut state, 120, 40);
    assert!(text.contains(why) && !text.contains('…'), "{text}");
    state.open = Some(Open::Host("node-3".into()));
    assert!(!screen(&mut state, 120, 40).contains(why), "of another host");
}

#[test]
fn a_host_shows_the_findings_that_accuse_it() {
    let mut state = cluster(12, &[3]);
    let accused = ringscope_api::Culprit { host: "node-5".into(), ..Default::default() };
    state.snapshot.findings[0].accused = vec![accused];
    state.open = Some(Open::Host("node-5".into()));
    assert!(screen(&mut state, 120, 40).contains("1 firing finding"));
    state.open = Some(Open::Host("node-6".into()));
    assert!(screen(&mut state, 120, 40).contains("0 firing findings"));
}

/// A cluster of the groups and the open one of the recorded answers.
fn summing() -> State {
    let groups: Page<SummationGroup> =
        serde_json::from_str(include_str!("../../../fixtures/summation/groups.json")).unwrap();
    let open: SummationGroupDetail =
        serde_json::from_str(include_str!("../../../fixtures/summation/group.json")).unwrap();
    let mut state = cluster(30, &[3]);
    let mut snapshot = state.snapshot.clone();
    snapshot.groups = groups.items;
    snapshot.findings[0].group = Some(open.group.id.clone());
    snapshot.open_group = Some(open);
    state.take(Ok(snapshot));
    state
}

#[test]
fn groups_are_shown_with_their_rounds_who_is_waited_for_and_how_uneven_they_are() {
    let mut state = summing();
    let text = screen(&mut state, 160, 50);
    for part in
        ["Summation groups 4", "5d1c09ab77e2", "resnet50-digits", "1312 rounds/s", "4+2", "share +24 %"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(text.contains("waits 2.3 s for worker 2"), "{text}");
    let at = |id: &str| text.find(id).unwrap();
    assert!(at("c0417d9be35a") < at("a93fe07c1142"), "at work before suspended: {text}");
    assert!(!screen(&mut cluster(30, &[3]), 160, 50).contains("Summation"), "no pane without a group");
}

#[test]
fn a_group_opens_from_its_pane_and_from_its_finding() {
    let mut state = summing();
    press(&mut state, &[KeyCode::BackTab, KeyCode::Enter]);
    let opened = Some(Open::Group("5d1c09ab77e2".into()));
    assert_eq!(state.open, opened);
    let text = screen(&mut state, 160, 60);
    for part in [
        "Summation group 5d1c09ab77e2",
        "found 2 channels where others found 8",
        "last in",
        "best",
        "esc back",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    press(&mut state, &[KeyCode::Esc, KeyCode::Tab, KeyCode::Tab, KeyCode::Enter]);
    assert_eq!(state.open, opened, "by the finding");
    for (width, height) in SIZES {
        screen(&mut state, width, height);
    }
    // The groups end while their pane has the focus.
    press(&mut state, &[KeyCode::Esc, KeyCode::Tab, KeyCode::Tab]);
    assert_eq!(state.pane, state::Pane::Groups);
    let gone = cluster(30, &[3]).snapshot;
    state.take(Ok(gone));
    assert_eq!(state.pane, state::Pane::Hosts);
}

#[test]
fn a_filter_keeps_groups_of_the_job_it_names() {
    let mut state = summing();
    press(&mut state, &letters("/bert"));
    assert_eq!(state.groups().iter().map(|group| &*group.id).collect::<Vec<_>>(), ["c0417d9be35a"]);
    screen(&mut state, 80, 24);
}

#[test]
fn arrows_move_over_the_map_and_stop_at_its_ends() {
    let mut state = cluster(300, &[]);
    screen(&mut state, 80, 24);
    let columns = state.map_columns;
    assert!(columns > 1);
    let cases: [(&[KeyCode], usize); 6] = [
        (&[KeyCode::Left, KeyCode::Up], 0),
        (&[KeyCode::Right], 1),
        (&[KeyCode::Down], columns + 1),
        (&[KeyCode::Up, KeyCode::Left], 0),
        (&[KeyCode::End, KeyCode::Right], 299),
        (&[KeyCode::Home], 0),
    ];
    for (keys, expected) in cases {
        press(&mut state, keys);
        assert_eq!(state.chosen(state::Pane::Hosts), expected, "{keys:?}");
    }
    press(&mut state, &[KeyCode::Right]);
    assert!(screen(&mut state, 80, 24).contains("› node-1: 1.00 GB/s, 8 ranks"));
}

#[test]
fn a_filter_keeps_what_it_names() {
    let mut state = cluster(300, &[17, 40]);
    press(&mut state, &letters("/NODE-17"));
    assert!(screen(&mut state, 80, 24).contains("/NODE-17▏"));
    // While it is typed, letters are no keys.
    assert_eq!(press(&mut state, &letters("q")), Action::None);
    press(&mut state, &[KeyCode::Backspace, KeyCode::Enter]);
    let text = screen(&mut state, 80, 24);
    // node-17, and node-170 to node-179.
    assert!(text.contains("Hosts 11 of 300 · 1 degraded") && text.contains("filter “NODE-17”"), "{text}");
    assert_eq!((state.jobs().len(), state.findings().len()), (1, 1), "{text}");
    press(&mut state, &[KeyCode::Esc]);
    assert_eq!(state.hosts().len(), 300);
    press(&mut state, &letters("/channel_shortfall"));
    assert!(state.findings().iter().all(|(finding, _)| finding.finding == FindingKind::ChannelShortfall));
}

#[test]
fn a_daemon_that_is_away_is_said_with_since_when_and_what_was_known_stays() {
    let mut state = cluster(12, &[3]);
    state.take(Err("Connection refused".into()));
    state.take(Err("Connection refused".into()));
    let later = Timestamp(NOW.0 + 90_000_000_000);
    let mut terminal = Terminal::new(TestBackend::new(160, 24)).unwrap();
    terminal.draw(|frame| draw::draw(frame, &mut state, later, false)).unwrap();
    let text = terminal.backend().to_string();
    for part in ["No answer for 90 s", "2026-01-31T12:00:00", "Connection refused", "! node-3"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let snapshot = state.snapshot.clone();
    state.take(Ok(snapshot));
    assert!(!screen(&mut state, 160, 24).contains("No answer"));
    assert_eq!(state.throughput.len(), 2);
}

#[test]
fn while_the_daemon_is_away_the_sentence_says_of_when_it_is_and_is_not_green() {
    let mut state = cluster(6, &[]);
    let first_line = |state: &mut State| {
        let mut terminal = Terminal::new(TestBackend::new(120, 24)).unwrap();
        terminal.draw(|frame| draw::draw(frame, state, NOW, true)).unwrap();
        terminal.backend().buffer().content()[..120].to_vec()
    };
    let is_green = |cell: &ratatui::buffer::Cell| cell.fg == ratatui::style::Color::Green;
    assert!(first_line(&mut state).iter().any(is_green));
    state.take(Err("Connection refused".into()));
    let line = first_line(&mut state);
    let text: String = line.iter().map(ratatui::buffer::Cell::symbol).collect();
    assert!(text.starts_with("As of 12:00:00Z: All 6 hosts healthy."), "{text}");
    assert!(!line.iter().any(is_green), "{text}");
    let mut critical = cluster(6, &[3]);
    critical.take(Err("Connection refused".into()));
    let red = first_line(&mut critical).iter().any(|cell| cell.fg == ratatui::style::Color::Red);
    assert!(red, "what was bad stays so until better is known");
}

#[test]
fn q_and_ctrl_c_quit_and_r_asks_again() {
    let mut state = cluster(1, &[]);
    assert_eq!(press(&mut state, &letters("q")), Action::Quit);
    assert_eq!(press(&mut state, &letters("r")), Action::Refresh);
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    press(&mut state, &letters("/abc"));
    assert_eq!(state.key(ctrl_c), Action::Quit);
}

#[test]
fn without_colour_nothing_has_one() {
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| draw::draw(frame, &mut cluster(30, &[3]), NOW, false)).unwrap();
    let plain = |cell: &ratatui::buffer::Cell| cell.fg == ratatui::style::Color::Reset;
    assert!(terminal.backend().buffer().content().iter().all(plain));
}
