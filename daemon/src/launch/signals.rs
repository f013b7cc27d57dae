//! The signals that a launch heeds. What was ignored when it began stays ignored: so a shell starts what is in the background.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// All that are taken, whoever has blocked them.
pub(super) const HEEDED: [i32; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGTSTP, libc::SIGXFSZ, libc::SIGCHLD];

/// Signals as they come.
pub(super) struct Signals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hang_up: Option<Signal>,
    /// Taken, and passed over: a launch that a terminal stops would be one that its hosts no longer hear.
    _stop: Option<Signal>,
    /// Taken too: a file of --output that may grow no more is one that cannot be written, not the end of the job.
    _file_size: Option<Signal>,
    child: Signal,
}

impl Signals {
    /// All that are not ignored. None: the system does not let us have them.
    pub(super) fn heeded() -> Option<Self> {
        Self::but(ignored())
    }

    /// All of them.
    pub(super) fn all() -> Option<Self> {
        Self::but(0)
    }

    fn but(ignored: u64) -> Option<Self> {
        let heed = |number: i32| -> Option<Option<Signal>> {
            if ignored & (1 << (number - 1)) != 0 {
                Some(None)
            } else {
                signal(SignalKind::from_raw(number)).ok().map(Some)
            }
        };
        Some(Self {
            interrupt: heed(libc::SIGINT)?,
            terminate: heed(libc::SIGTERM)?,
            hang_up: heed(libc::SIGHUP)?,
            _stop: heed(libc::SIGTSTP)?,
            _file_size: heed(libc::SIGXFSZ)?,
            child: signal(SignalKind::child()).ok()?,
        })
    }

    /// The next one: its number, SIGCHLD among them. Nothing is lost where this is given up.
    pub(super) async fn next(&mut self) -> i32 {
        tokio::select! {
            () = one(self.interrupt.as_mut()) => libc::SIGINT,
            () = one(self.terminate.as_mut()) => libc::SIGTERM,
            () = one(self.hang_up.as_mut()) => libc::SIGHUP,
            _ = self.child.recv() => libc::SIGCHLD,
        }
    }
}

async fn one(signal: Option<&mut Signal>) {
    if let Some(signal) = signal
        && signal.recv().await.is_some()
    {
        return;
    }
    std::future::pending().await
}

/// Signals that this process ignores, a bit each. Source: proc(5), SigIgn.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}
