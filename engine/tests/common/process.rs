//! Processes that die, and what the others say when.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A process that says nothing for this long hangs, also on a machine that does much other work.
pub(crate) const HANG_WAIT: Duration = Duration::from_secs(120);

/// A process, and when it said what.
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) lines: mpsc::Receiver<(Instant, String)>,
}

impl Process {
    /// Starts it; its lines are timed as they come, whoever reads them when.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (said, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = said.send((now(), line));
            }
        });
        Self { child, lines }
    }

    /// The next line, and when it came; a process that says nothing hangs.
    pub(crate) fn line(&self, case: &str) -> (Instant, String) {
        self.lines.recv_timeout(HANG_WAIT).unwrap_or_else(|error| panic!("{case}: no line: {error}"))
    }

    /// The next line with this in it, and when it came; a process that says nothing hangs.
    pub(crate) fn wait_for(&self, text: &str, case: &str) -> (Instant, String) {
        let mut heard = Vec::new();
        loop {
            let next = self.lines.recv_timeout(HANG_WAIT);
            let (when, line) = next.unwrap_or_else(|_| panic!("{case}: no {text:?}, but {heard:#?}"));
            assert!(!line.starts_with("WRONG"), "{case}: {line}");
            if line.contains(text) {
                return (when, line);
            }
            heard.push(line);
        }
    }

    /// Waits until it has said all; a process that says nothing hangs.
    pub(crate) fn wait_for_end(&self, case: &str) {
        loop {
            match self.lines.recv_timeout(HANG_WAIT) {
                Ok((_, line)) => assert!(!line.starts_with("WRONG"), "{case}: {line}"),
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("{case} hangs"),
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// xorshift64*, so that a seed is all that a run depends on.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.max(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap()
    }
}

/// What the kernel's clock says.
#[expect(
    clippy::disallowed_methods,
    reason = "the times of deaths and errors are what these tests are about"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Nobody tells when a random moment has come.
pub(crate) fn wait_until(moment: Instant) {
    while now() < moment {
        std::thread::yield_now();
    }
}

/// A number of the environment.
#[expect(clippy::disallowed_methods, reason = "the settings of these tests")]
pub(crate) fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A text of the environment.
#[expect(clippy::disallowed_methods, reason = "the settings of these tests")]
pub(crate) fn text_setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
