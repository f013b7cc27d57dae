//! What several tests need: a Postgres of their own, a daemon of their own, batches as agents send them.

#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test uses a part")]
#![allow(clippy::disallowed_methods, reason = "tests watch real clocks for their deadlines")]

pub mod batches;
pub mod daemon;
pub mod postgres;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a test waits for what must happen; far more than it ever takes.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// A directory of this test's own.
pub fn scratch(name: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("ringscope-{name}-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Looks again until the condition holds.
pub async fn until<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let deadline = Instant::now() + DEADLINE;
    while !condition().await {
        assert!(Instant::now() < deadline, "not within {DEADLINE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
