//! `ringscope demo`: what it leaves behind is nothing.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use ringscope_api::clock;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{PATIENCE, TempDir, free_port};
use crate::{end, ringscope};

/// Processes whose command line names a folder.
fn processes_with(dir: &Path) -> Vec<String> {
    let commands = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let command = std::fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&command).replace('\0', " "))
    });
    commands.filter(|command| command.contains(&dir.display().to_string())).collect()
}

fn files_in(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// The folders of segments of a demo: one while it runs.
fn segment_dirs(pid: u32) -> Vec<PathBuf> {
    let prefix = format!("ringscope-demo-{pid}-");
    let is_its =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix));
    files_in(Path::new("/dev/shm")).into_iter().filter(is_its).collect()
}

struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Interrupts the demo when it has said `words`.
fn interrupted(words: &str) {
    let dir = TempDir::new("demo-interrupt");
    let mut command = ringscope(&["demo", "--seconds", "8", "--listen"]);
    command.arg(format!("127.0.0.1:{}", free_port())).env("TMPDIR", &dir.0);
    let mut demo = Demo(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let pid = demo.0.id();
    let lines = BufReader::new(demo.0.stderr.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    assert!(lines.any(|line| line.contains(words)), "the demo never said {words:?}");
    assert!(!processes_with(&dir).is_empty() && segment_dirs(pid).len() == 1);
    kill_process(Pid::from_child(&demo.0), Signal::INT).unwrap();
    let rest: Vec<String> = lines.collect();
    let clock = clock::monotonic();
    while demo.0.try_wait().unwrap().is_none() {
        assert!(clock.elapsed() < PATIENCE, "{rest:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(demo.0.wait().unwrap().success(), "{rest:?}");
    assert!(files_in(&dir).is_empty(), "{:?}", files_in(&dir));
    assert!(segment_dirs(pid).is_empty());
    assert!(processes_with(&dir).is_empty(), "{:?}", processes_with(&dir));
}

#[test]
fn interrupted_while_healthy() {
    interrupted("phase healthy");
}

#[test]
fn interrupted_while_degraded() {
    interrupted("phase degraded");
}

#[test]
fn interrupted_while_the_jobs_finish() {
    interrupted("the jobs finish");
}

#[test]
fn a_taken_port_is_said_before_any_job_starts() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = TempDir::new("demo-taken");
    let (code, stdout, stderr) = end(ringscope(&["demo", "--listen", &address]).env("TMPDIR", &dir.0));
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
    assert!(
        stderr.contains(&address) && stderr.contains("--listen") && !stderr.contains("phase"),
        "{stderr}"
    );
    assert!(files_in(&dir).is_empty(), "{:?}", files_in(&dir));
}

#[test]
fn others_are_let_in_on_demand_alone() {
    let dir = TempDir::new("demo-open");
    let (code, _, stderr) = end(ringscope(&["demo", "--listen", "0.0.0.0:0"]).env("TMPDIR", &dir.0));
    assert_eq!(code, Some(1), "{stderr}");
    for part in ["0.0.0.0:0 can be reached from other machines", "sees all jobs", "say --insecure-open"] {
        assert!(stderr.contains(part), "{part} in {stderr}");
    }
    assert!(files_in(&dir).is_empty(), "{:?}", files_in(&dir));
}
