//! `ringscope launch` as its users meet it: real processes on this machine, and on pretended hosts that ssh leads to.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod daemon;
mod dry_run;
mod inherited;
mod local;
mod meet;
mod mistakes;
mod output;
mod slurm;
mod stage;
mod two_hosts;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use common::stage::RINGSCOPE;
use ringscope_api::clock;
use rustix::process::{Pid, Signal, kill_process};

/// A command with the signals as a terminal's shell starts it: a test may run in the background of one that ignores them.
fn fresh(program: &str) -> Command {
    let mut command = Command::new("/usr/bin/env");
    command.args(["--default-signal=INT,HUP,TERM", program]).stdin(Stdio::null());
    for variable in [
        "RINGSCOPE_DAEMON",
        "RINGSCOPE_TOKEN",
        "RINGSCOPE_TOKEN_FILE",
        "RINGSCOPE_DIR",
        "RINGSCOPE_JOB",
        "SLURM_JOB_ID",
        "SLURM_JOB_NODELIST",
        "RANK",
        "WORLD_SIZE",
        "RUST_LOG",
        "NCCL_DEBUG",
        "RSUM_ROOT",
        "LD_PRELOAD",
        "XDG_RUNTIME_DIR",
    ] {
        command.env_remove(variable);
    }
    command
}

/// `ringscope launch` with options.
fn launch(options: &[&str]) -> Command {
    let mut command = fresh(RINGSCOPE);
    command.arg("launch").args(options);
    command
}

/// What a launch came to.
#[derive(Debug)]
struct Ended {
    status: i32,
    out: String,
    err: String,
}

impl Ended {
    /// Checks its exit status, and that it says all of these on stderr.
    fn check(&self, status: i32, parts: &[&str]) {
        assert_eq!(self.status, status, "{self:#?}");
        for part in parts {
            assert!(self.err.contains(part), "{part:?} in {self:#?}");
        }
    }
}

/// A launch that runs, and is killed with the value.
struct Running {
    child: Child,
    out: std::thread::JoinHandle<String>,
    err: std::thread::JoinHandle<String>,
    said: std::sync::Arc<std::sync::Mutex<String>>,
}

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let said = std::sync::Arc::default();
        let out = read(child.stdout.take().unwrap(), &said);
        let err = read(child.stderr.take().unwrap(), &said);
        Self { child, out, err, said }
    }

    /// Waits until it has said this somewhere.
    fn wait_for(&mut self, part: &str) {
        let since = clock::monotonic();
        while !self.said.lock().unwrap().contains(part) {
            assert!(self.child.try_wait().unwrap().is_none(), "it has ended: {}", self.said.lock().unwrap());
            assert!(since.elapsed() < PATIENCE, "{part:?} in {}", self.said.lock().unwrap());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end.
    fn end(mut self) -> Ended {
        let since = clock::monotonic();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if since.elapsed() >= PATIENCE {
                self.child.kill().unwrap();
                panic!("it does not end: {}", self.said.lock().unwrap());
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        use std::os::unix::process::ExitStatusExt as _;
        let status = status.code().unwrap_or_else(|| -status.signal().unwrap());
        Ended { status, out: self.out.join().unwrap(), err: self.err.join().unwrap() }
    }
}

fn read(
    mut from: impl std::io::Read + Send + 'static,
    said: &std::sync::Arc<std::sync::Mutex<String>>,
) -> std::thread::JoinHandle<String> {
    let said = std::sync::Arc::clone(said);
    std::thread::spawn(move || {
        let (mut all, mut buffer) = (String::new(), [0; 4096]);
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..read]).into_owned();
            said.lock().unwrap().push_str(&text);
            all += &text;
        }
        all
    })
}

/// Runs a launch to its end.
fn end(command: &mut Command) -> Ended {
    Running::start(command).end()
}

/// The C program whose ranks add over the engine.
fn rounds() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let libraries = Path::new(RINGSCOPE).parent().unwrap();
        assert!(
            libraries.join("librsccl.so").exists(),
            "build it first: cargo build -p ringscope-engine --lib --bins"
        );
        let source = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("launch-rounds");
        // Whole under its name at once: several runs of these tests may share it.
        let fresh = program.with_extension(std::process::id().to_string());
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-D_GNU_SOURCE", "-I"])
            .arg(source.join("../engine/include"));
        cc.arg(source.join("tests/launch/rounds.c")).arg("-o").arg(&fresh).arg("-L").arg(libraries);
        cc.args(["-lrsccl", &format!("-Wl,-rpath,{}", libraries.display())]);
        assert!(cc.status().expect("a C compiler: apt-get install gcc").success());
        std::fs::rename(&fresh, &program).unwrap();
        program
    })
}

/// Arguments of processes of this machine that hold `mark`.
fn with_mark(mark: &str) -> Vec<String> {
    let numbers = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let own = std::process::id().to_string();
    let arguments = numbers
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()) && *name != own)
        .filter_map(|pid| {
            let text = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            Some(format!("{pid}: {}", String::from_utf8_lossy(&text).replace('\0', " ")))
        });
    arguments.filter(|arguments| arguments.contains(mark)).collect()
}

/// Waits until no process of this machine has `mark` among its arguments.
fn nothing_is_left(mark: &str, patience: Duration) {
    let since = clock::monotonic();
    loop {
        let left = with_mark(mark);
        if left.is_empty() {
            return;
        }
        assert!(since.elapsed() < patience, "left behind after {patience:?}: {left:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Seconds for `sleep` that no other process has: a mark.
fn mark() -> String {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    format!("9{:07}.{number:03}", std::process::id())
}
