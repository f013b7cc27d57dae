//! How what runs on a host is ended: by an order, because the launching side is gone, or because it has left others behind.

use std::time::{Duration, Instant};

use ringscope_api::{clock, signal};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::{Host, Stage};
use crate::launch::node::tree;
use crate::launch::node_name;
use crate::launch::protocol::{Message, WhyEnd};

/// How long what copies logs may take after the last process.
const RELAYS: Duration = Duration::from_secs(10);
/// How long what is left may take to end by itself.
const SETTLES: Duration = Duration::from_millis(300);

impl Host<'_> {
    /// The launching side is gone.
    pub(super) fn abandon(&mut self) {
        if self.leaving.is_none() {
            self.leaving = Some(1);
        }
        self.room.abandon();
        self.end(libc::SIGTERM, self.args.grace(), WhyEnd::LaunchGone);
    }

    /// Somebody ends this process: by its guard's death, or by hand.
    pub(super) fn stop(&mut self, signal: i32) {
        self.say(Message::Stopped(format!(
            "ringscope there was ended by {}, or what started it has ended, and it has ended its processes",
            signal::name(signal)
        )));
        self.leaving.get_or_insert(1);
        self.end(libc::SIGTERM, self.args.grace(), WhyEnd::LaunchGone);
    }

    /// Signals go to the group of each process, as from a terminal; when time is up, all that descends from us is killed.
    pub(super) fn end(&mut self, signal: i32, grace: Duration, why: WhyEnd) {
        self.told.get_or_insert(why);
        self.has_killed |= signal == libc::SIGKILL;
        let until = clock::monotonic() + grace;
        match &mut self.stage {
            Stage::Idle | Stage::Drains => {}
            Stage::Leftovers { kill_at, .. } => *kill_at = Some(kill_at.map_or(until, |at| at.min(until))),
            Stage::Runs { kill_at } => {
                *kill_at = Some(kill_at.map_or(until, |at| at.min(until)));
                let Some(signal) = Signal::from_named_raw(signal) else { return };
                for pid in self.running.iter().flatten() {
                    send(*pid, signal);
                    // One that was stopped hears it only when it goes on.
                    send(*pid, Signal::CONT);
                }
            }
        }
    }

    pub(super) fn kill(&mut self) {
        self.has_killed = true;
        let spared = self.spared();
        tree::descendants(&spared).iter().for_each(|process| process.signal(Signal::KILL));
    }

    fn spared(&self) -> Vec<u32> {
        self.agent.pid().into_iter().collect()
    }

    /// Ends what the processes left behind.
    pub(super) fn clear(&mut self, now: Instant, since: Instant, kill_at: Option<Instant>, left: usize) {
        let waited = now.saturating_duration_since(since);
        let mut found = tree::descendants(&self.spared());
        if waited < RELAYS {
            let n_found = found.len();
            found.retain(|process| !process.is_log_relay());
            if found.is_empty() && n_found > 0 {
                return;
            }
        }
        if found.is_empty() {
            self.cleared(left);
            return;
        }
        let signal = match kill_at {
            // What is just about to end by itself is left to do so.
            None if waited < SETTLES => return,
            None => Some(Signal::TERM),
            Some(at) if now >= at => Some(Signal::KILL),
            Some(_) => (self.told.is_some() && left == 0).then_some(Signal::TERM),
        };
        if let Some(signal) = signal {
            found.iter().for_each(|process| process.signal(signal));
        }
        let kill_at = Some(kill_at.unwrap_or(now + self.args.grace()));
        self.stage = Stage::Leftovers { since, kill_at, left: left.max(found.len()) };
    }

    fn cleared(&mut self, left: usize) {
        if left > 0 && self.told.is_none() {
            let host = node_name();
            self.say(Message::Note(format!(
                "{host}: processes had left others running ({left}), which were ended"
            )));
        }
        self.stage = Stage::Drains;
    }
}

/// Sends a signal to the group of a process whose end was not taken yet, so that its number is still its own.
fn send(pid: u32, signal: Signal) {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    // It makes its group itself, and may not have come to that: then it is alone.
    if kill_process_group(pid, signal) == Err(Errno::SRCH) {
        let _ = kill_process(pid, signal);
    }
}
