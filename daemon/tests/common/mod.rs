//! What several tests need: folders and ports of their own, a Postgres, a daemon inside the test or as a process,
//! batches as agents send them, jobs of real ranks.

#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test uses a part")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

pub mod batches;
pub mod certs;
pub mod closed_form;
pub mod cut;
pub mod daemon;
pub mod monitoring;
pub mod postgres;
pub mod prometheus;
pub mod slurm;
pub mod stage;
pub mod summation;
pub mod sysfs;
pub mod totals;

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::time::Duration;

use ringscope_api::clock;

/// How long a test waits for what must happen; far more than it ever takes.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// A folder that is removed with the value.
pub struct TempDir(pub PathBuf);

impl TempDir {
    pub fn new(name: &str) -> Self {
        Self::new_in(&std::env::temp_dir(), name)
    }

    pub fn new_in(parent: &Path, name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("ringscope-test-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Deref for TempDir {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for TempDir {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A folder of this test's own.
pub fn scratch(name: &str) -> TempDir {
    TempDir::new(name)
}

/// Fails where a program is missing, with the command that installs it.
pub fn needs(programs: &[&str], packages: &str) {
    let is_there = |program: &&str| {
        let look = ["-c", "PATH=$PATH:/usr/sbin; command -v \"$0\" >/dev/null", program];
        Command::new("sh").args(look).status().unwrap().success()
    };
    let missing: Vec<&&str> = programs.iter().filter(|program| !is_there(program)).collect();
    assert!(missing.is_empty(), "missing: {missing:?}; apt-get install --no-install-recommends {packages}");
}

/// A port that was free a moment ago, below 32768: there the kernel gives none to outgoing connections.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % 10_000).unwrap();
    (0..10_000)
        .map(|_| 21_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 10_000)
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("a free port")
}

/// Looks again until the condition holds.
pub async fn until<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    eventually(what, async || condition().await.then_some(())).await;
}

/// Asks again and again until the answer is there; panics with `what` if it does not come.
pub async fn eventually<T>(what: &str, ask: impl AsyncFnMut() -> Option<T>) -> T {
    eventually_within(PATIENCE, what, ask).await
}

/// The same, of what takes its time by design.
pub async fn eventually_within<T>(
    patience: Duration,
    what: &str,
    mut ask: impl AsyncFnMut() -> Option<T>,
) -> T {
    let clock = clock::monotonic();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(clock.elapsed() < patience, "after {patience:?} still not: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
