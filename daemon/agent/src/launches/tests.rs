use std::process::{Child, Command};

use super::*;
use crate::budget::Budgets;
use crate::connections;
use crate::hardware::QueuePairStates;
use crate::log_readers::LogReaders;
use crate::ticks;

const MACHINE: &str = "machine";

struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Self(Command::new("sleep").arg("1000").spawn().unwrap())
    }

    fn pid(&self) -> Pid {
        Pid::of(self.0.id()).unwrap()
    }

    fn end(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.end();
    }
}

/// A folder with notes, and a clock.
struct Folder {
    dir: tempfile::TempDir,
    launches: Launches,
    start: Instant,
}

impl Folder {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let launches = Launches::new(dir.path().to_owned());
        Self { dir, launches, start: ringscope_api::clock::monotonic() }
    }

    fn note(&self, run: &str, pid: u32, start_time_ns: u64) -> serde_json::Value {
        let note = serde_json::json!({
            "job": "train", "command": ["/usr/bin/python3", "train.py"], "started_at": "2026-01-31T12:00:00Z",
            "pid": pid, "start_time_ns": start_time_ns, "boot_id": boot_id(), "host": "node1",
            "variables": {"RANK": "3", "WORLD_SIZE": "8"},
        });
        self.write(run, &note.to_string());
        note
    }

    fn write(&self, run: &str, text: &str) {
        std::fs::write(self.path(run), text).unwrap();
    }

    fn path(&self, run: &str) -> PathBuf {
        self.dir.path().join(format!("run-{run}.json"))
    }

    fn poll(&mut self, seconds: u64, claimed: &Claimed, pids: &[Pid]) {
        let notes: Vec<PathBuf> =
            std::fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        let now = Now {
            wall: ringscope_api::clock::now(),
            monotonic: self.start + Duration::from_secs(seconds),
            ticks: ticks::reading(),
            machine: MACHINE,
            other_hosts: true,
            folder: None,
            connections: &connections::Files::default(),
            queue_pairs: &QueuePairStates::default(),
            dir: self.dir.path(),
            readers: &LogReaders::default(),
            budgets: &Budgets::default(),
        };
        self.launches.poll(&notes, claimed, &BTreeSet::new(), pids, &mut Keys::default(), now);
    }

    fn cleaned(&mut self) -> Vec<PathBuf> {
        self.launches.clean().into_iter().map(|(path, _)| path).collect()
    }

    fn told(&self) -> Vec<batch::Process> {
        self.launches.accounts().filter_map(Account::changes).collect()
    }

    fn queue(&mut self, seq: u64) {
        self.launches.accounts_mut().for_each(|account| account.queued(seq));
    }
}

fn nobody() -> Claimed {
    Claimed::default()
}

fn claimed(run: &str, pid: u32) -> Claimed {
    let user = rustix::process::geteuid().as_raw();
    Claimed { by_segment: BTreeSet::from([(user, run.to_owned(), pid)]), ..nobody() }
}

#[test]
fn one_that_sleeps_is_told_until_it_is_gone() {
    let mut folder = Folder::new();
    let mut sleeper = Sleeper::start();
    let start_ns = sleeper.pid().stat().unwrap().start_ns().unwrap();
    folder.note("a", sleeper.0.id(), start_ns);
    folder.poll(0, &nobody(), &[]);
    assert_eq!(folder.told(), [], "it may end at once");
    folder.poll(2, &nobody(), &[]);
    let told = folder.told();
    assert_eq!(told[0].key, format!("node1/{}/{start_ns}", sleeper.0.id()));
    assert_eq!(
        (told[0].launched, told[0].has_segment, told[0].state()),
        (true, false, batch::ProcessState::Running)
    );
    let identity = told[0].identity.as_ref().unwrap();
    assert_eq!(
        (identity.job.as_str(), identity.global_rank, identity.world_size),
        ("train", Some(3), Some(8))
    );
    assert_eq!(identity.executable, "python3");
    let state = told[0].activity.as_ref().map_or("", |activity| activity.state.as_str());
    // It may just begin to sleep.
    assert!(["S", "R", "D"].contains(&state), "{state}");
    assert_eq!(folder.launches.pid(&told[0].key), Some(sleeper.pid()));
    folder.queue(1);
    assert_eq!(folder.told(), [], "told");
    folder.launches.acknowledged(1, folder.start);
    assert_eq!(folder.cleaned(), Vec::<PathBuf>::new());

    sleeper.end();
    folder.poll(4, &nobody(), &[]);
    let told = folder.told();
    assert_eq!(told[0].state(), batch::ProcessState::Exited);
    assert!(told[0].ended_at_ns.is_some() && folder.launches.pid(&told[0].key).is_none());
    folder.queue(2);
    folder.launches.acknowledged(2, folder.start);
    // The second time it is certain that all of it was said.
    folder.launches.acknowledged(2, folder.start);
    assert_eq!(folder.cleaned(), [folder.path("a")]);
    assert!(!folder.launches.knows("a"));
}

#[test]
fn a_segment_takes_over_and_a_launcher_is_nobody() {
    let mut folder = Folder::new();
    let (rank, launcher, early) = (Sleeper::start(), Sleeper::start(), Sleeper::start());
    for (run, sleeper) in [("rank", &rank), ("launcher", &launcher)] {
        folder.note(run, sleeper.0.id(), sleeper.pid().stat().unwrap().start_ns().unwrap());
    }
    folder.poll(0, &nobody(), &[]);
    folder.poll(2, &nobody(), &[]);
    assert_eq!(folder.told().len(), 2);
    folder.queue(1);
    let mut with_segment = claimed("rank", rank.0.id());
    with_segment.keys = folder.launches.accounts().map(|account| account.key().to_owned()).collect();
    folder.poll(3, &with_segment, &[]);
    assert!(
        folder.told().iter().all(|told| told.key.contains(&launcher.0.id().to_string())),
        "handed over in silence"
    );
    // A process of the same run has a segment: the launcher itself never will.
    folder.poll(4, &claimed("launcher", 4711), &[]);
    let told = folder.told();
    assert_eq!((told.len(), told[0].state()), (1, batch::ProcessState::Exited));
    folder.queue(2);
    folder.launches.acknowledged(2, folder.start);
    folder.launches.acknowledged(2, folder.start);
    assert_eq!(folder.cleaned(), Vec::<PathBuf>::new(), "it lives: its note stays");
    folder.poll(6, &nobody(), &[]);
    assert_eq!(folder.told(), [], "and is not taken up again");
    // One that is known to be a launcher before it was told of is never told.
    folder.note("early", early.0.id(), early.pid().stat().unwrap().start_ns().unwrap());
    folder.poll(8, &claimed("early", 4712), &[]);
    folder.poll(10, &nobody(), &[]);
    assert_eq!(folder.told(), []);
}

#[test]
fn a_launcher_is_known_by_its_descendants() {
    let mut folder = Folder::new();
    let mut shell = Sleeper(Command::new("sh").args(["-c", "sleep 1000 & wait"]).spawn().unwrap());
    let child = loop {
        let children =
            all(MAX_PROCESSES).into_iter().filter_map(|number| Some((number, Stat::read(number)?)));
        let child = children.into_iter().find(|(_, stat)| stat.parent == shell.0.id());
        if let Some((number, _)) = child {
            break Pid::of(number).unwrap();
        }
    };
    folder.note("a", shell.0.id(), shell.pid().stat().unwrap().start_ns().unwrap());
    folder.poll(0, &nobody(), &[]);
    folder.poll(2, &nobody(), &[]);
    assert_eq!(folder.told().len(), 1);
    // The descendant has a segment of another run.
    folder.poll(4, &nobody(), &[child]);
    assert_eq!(folder.told()[0].state(), batch::ProcessState::Exited);
    shell.end();
    let raw = rustix::process::Pid::from_raw(i32::try_from(child.number).unwrap()).unwrap();
    rustix::process::kill_process(raw, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn notes_that_lie_are_passed_over() {
    let mut folder = Folder::new();
    let sleeper = Sleeper::start();
    let start_ns = sleeper.pid().stat().unwrap().start_ns().unwrap();
    let good = folder.note("good", sleeper.0.id(), start_ns);
    // The number was given to another process since.
    folder.note("reused", sleeper.0.id(), start_ns - 10_000_000_000);
    folder.note("gone", u32::MAX - 1, start_ns);
    let mut other_boot = good.clone();
    other_boot["boot_id"] = "another".into();
    folder.write("boot", &other_boot.to_string());
    for (n, text) in ["", "[]", "7", "{\"pid\":-1}", "{\"pid\":1e99,\"start_time_ns\":{}}"].iter().enumerate()
    {
        folder.write(&format!("text{n}"), text);
    }
    let mut long = good.clone();
    long["job"] = "x".repeat(1 << 20).into();
    folder.write("long", &long.to_string());
    std::os::unix::fs::symlink(folder.path("good"), folder.path("link")).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, folder.path("fifo"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    // One of another user, also if it says that it has ended: init's, or, where this is root, one that somebody else has written of
    // root's process.
    let mut other = good.clone();
    other["ending"] = serde_json::json!({"status": 1, "at_ns": ringscope_api::clock::now().0});
    if !rustix::process::getuid().is_root() {
        other["pid"] = 1.into();
        other["start_time_ns"] = Pid::of(1).unwrap().stat().unwrap().start_ns().unwrap().into();
    }
    folder.write("other", &other.to_string());
    if rustix::process::getuid().is_root() {
        std::os::unix::fs::chown(folder.path("other"), Some(65_534), Some(65_534)).unwrap();
    }
    let mut odd = good;
    odd["job"] = "a\u{1b}[31m\u{202e}b".into();
    folder.write("good", &odd.to_string());
    folder.poll(0, &nobody(), &[]);
    folder.poll(2, &nobody(), &[]);
    let told = folder.told();
    assert_eq!(told.len(), 1, "{told:#?}");
    assert_eq!(told[0].identity.as_ref().map(|identity| identity.job.as_str()), Some("a [31m b"));
    assert_eq!(folder.launches.passed.len(), 12, "{:?}", folder.launches.passed);
}

#[test]
fn a_launch_says_how_its_processes_ended_also_where_that_was_at_once() {
    let mut folder = Folder::new();
    let mut sleeper = Sleeper::start();
    let (pid, start_ns) = (sleeper.0.id(), sleeper.pid().stat().unwrap().start_ns().unwrap());
    let mut note = folder.note("a", pid, start_ns);
    note["reaped"] = true.into();
    folder.write("a", &note.to_string());
    folder.poll(0, &nobody(), &[]);
    sleeper.end();
    folder.poll(1, &nobody(), &[]);
    assert_eq!(folder.told(), [], "its launch may still say");
    let ended_at_ns = ringscope_api::clock::now().0;
    note["ending"] = serde_json::json!({"status": null, "signal": 15, "at_ns": ended_at_ns, "told": "signal", "told_signal": 2});
    folder.write("a", &note.to_string());
    folder.poll(2, &nobody(), &[]);
    let told = folder.told();
    assert_eq!(told[0].state(), batch::ProcessState::Killed);
    assert_eq!(
        (told[0].exit_status, told[0].exit_signal, told[0].ended_at_ns),
        (None, Some(15), Some(ended_at_ns))
    );
    let why = told[0].launch_end.unwrap();
    assert_eq!((why.cause(), why.signal), (batch::launch_end::Cause::Signal, 2));

    // One that had ended before the first look.
    note["ending"] = serde_json::json!({"status": 3, "at_ns": ended_at_ns});
    note["variables"]["RANK"] = "4".into();
    folder.write("b", &note.to_string());
    folder.poll(3, &nobody(), &[]);
    let told: Vec<batch::Process> = folder.told();
    let new = told.iter().find(|one| one.exit_status == Some(3)).expect("it is told");
    assert_eq!((new.state(), new.exit_signal, new.launch_end), (batch::ProcessState::Exited, None, None));
    // And one that ended long ago, or was written by somebody who can be no launch.
    note["ending"] = serde_json::json!({"status": 3, "at_ns": ended_at_ns - 60_000_000_000});
    folder.write("c", &note.to_string());
    note["ending"] = serde_json::json!({"status": -3, "signal": "x", "at_ns": ended_at_ns});
    note["reaped"] = "perhaps".into();
    folder.write("d", &note.to_string());
    folder.poll(4, &nobody(), &[]);
    assert_eq!(folder.launches.accounts().count(), 2);
}

#[test]
fn a_launch_that_says_nothing_is_not_waited_for_long() {
    let mut folder = Folder::new();
    let mut sleeper = Sleeper::start();
    let start_ns = sleeper.pid().stat().unwrap().start_ns().unwrap();
    let mut note = folder.note("a", sleeper.0.id(), start_ns);
    note["reaped"] = true.into();
    folder.write("a", &note.to_string());
    folder.poll(0, &nobody(), &[]);
    folder.poll(2, &nobody(), &[]);
    sleeper.end();
    folder.poll(3, &nobody(), &[]);
    assert_eq!(folder.told()[0].state(), batch::ProcessState::Running);
    folder.poll(6, &nobody(), &[]);
    let told = folder.told();
    assert_eq!((told[0].state(), told[0].exit_status), (batch::ProcessState::Exited, None));
}

#[test]
fn notes_of_ends_that_never_come_hold_nobody_up() {
    let mut folder = Folder::new();
    let sleeper = Sleeper::start();
    let mut note = folder.note("z", sleeper.0.id(), sleeper.pid().stat().unwrap().start_ns().unwrap());
    (note["pid"], note["reaped"]) = ((u32::MAX - 1).into(), true.into());
    note["start_time_ns"] = ringscope_api::clock::now().0.into();
    for run in 0..MAX_NEW {
        folder.write(&format!("a{run}"), &note.to_string());
    }
    for seconds in 0..4 {
        folder.poll(seconds, &nobody(), &[]);
        folder.cleaned();
    }
    let pids: Vec<u32> = folder.told().iter().filter_map(|one| Some(one.identity.as_ref()?.pid)).collect();
    assert_eq!(pids, [sleeper.0.id()]);
    assert_eq!(folder.launches.passed.len(), MAX_NEW, "nothing comes of them any more");
}
