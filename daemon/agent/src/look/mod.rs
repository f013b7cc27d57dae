//! What a process is doing, when the daemon asks: Python stacks, system calls and what they are about, states, memory of
//! its cgroup. Once per question, one look at a time, and nothing of the process is stopped.
//!
//! The look is done by a program of its own (`command`, this same executable), with limits on its time and memory: it
//! reads files and memory of a process that may be anybody's, and one that hangs in a driver may hang who looks at it.
//!
//! * `observe`: the look. `syscalls`, `subject`: what a thread is blocked in. `python`, `native`: its stacks.
//!   `cgroup`: memory. `command`: the program.

mod cgroup;
pub mod command;
mod native;
mod observe;
mod python;
mod subject;
mod syscalls;

use std::collections::VecDeque;
use std::io::Read as _;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use prost::Message as _;
use ringscope_wire::batch::Look;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::foreign::clean;
use super::procfs::Pid;
use super::programs::{Programs, Started, Wanted};

/// Looks in a minute: more is no diagnosis but a load.
const MAX_PER_MINUTE: usize = 60;
/// Questions that wait.
const MAX_WAITING: usize = 64;
/// Longest time of one look. It takes a fraction of a second; a cold file system takes longer.
const LIMIT: Duration = Duration::from_secs(4);
/// Looks whose program did not end though it was killed: it waits for a driver that does not answer.
const MAX_STUCK: usize = 4;
/// Bytes of an answer.
const MAX_ANSWER: usize = 4 << 20;
/// Bytes of a name, a frame or a path that is shown.
const MAX_SHOWN: usize = 200;

/// Text of the process as it may be shown.
fn shown(text: &str) -> String {
    clean(text, MAX_SHOWN)
}

/// A question.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// Process.key.
    pub(super) process: String,
    /// Inquiry.id.
    pub(super) inquiry: String,
    /// Whether to read its state for a second and a half too.
    pub(super) watch: bool,
    /// The process as this agent knows it; `None` if it does not.
    pub(super) pid: Option<Pid>,
}

/// Looks at processes, one after the other.
#[derive(Debug)]
pub(super) struct Looker {
    /// Who looks; `None`: nobody may.
    programs: Option<Programs>,
    waiting: VecDeque<Asked>,
    running: Option<Running>,
    started: VecDeque<Instant>,
    /// Threads whose program has not ended yet.
    alive: Arc<AtomicUsize>,
    done: Vec<(String, Look)>,
    limit: Duration,
}

#[derive(Debug)]
struct Running {
    asked: Asked,
    answer: mpsc::Receiver<Look>,
}

impl Looker {
    pub(super) fn new(programs: Option<Programs>) -> Self {
        Self {
            programs,
            waiting: VecDeque::new(),
            running: None,
            started: VecDeque::new(),
            alive: Arc::default(),
            done: Vec::new(),
            limit: LIMIT,
        }
    }

    /// Takes a question. It is answered, if only with why not.
    pub(super) fn ask(&mut self, asked: Asked) {
        let refusal = if self.programs.is_none() {
            Some("looking at processes is switched off (--no-look, RINGSCOPE_LOOK=off)")
        } else if asked.pid.is_none() {
            Some("the process was not found on this machine: it has ended, or this agent does not see it")
        } else if self.waiting.len() >= MAX_WAITING {
            Some("too many questions at once")
        } else {
            None
        };
        match refusal {
            Some(why) => self.done.push(unseen(&asked, why)),
            None => self.waiting.push_back(asked),
        }
    }

    /// What was seen since the last time, by key. Starts the next look.
    pub(super) fn poll(&mut self, now: Instant) -> Vec<(String, Look)> {
        let answer = self.running.as_ref().map(|running| running.answer.try_recv());
        match answer {
            None | Some(Err(mpsc::TryRecvError::Empty)) => {}
            Some(answer) => {
                if let Some(Running { asked, .. }) = self.running.take() {
                    let look = answer.unwrap_or_else(|_| lacking("the look failed"));
                    self.done.push((asked.process, Look { inquiry: asked.inquiry, ..look }));
                }
            }
        }
        while self
            .started
            .front()
            .is_some_and(|at| now.saturating_duration_since(*at) >= Duration::from_secs(60))
        {
            self.started.pop_front();
        }
        if self.running.is_none() && self.started.len() < MAX_PER_MINUTE {
            self.start(now);
        }
        std::mem::take(&mut self.done)
    }

    fn start(&mut self, now: Instant) {
        let Some(asked) = self.waiting.pop_front() else { return };
        let (Some(programs), Some(pid)) = (self.programs.clone(), asked.pid) else { return };
        if self.alive.load(Ordering::Relaxed) >= MAX_STUCK {
            self.done.push(unseen(
                &asked,
                "earlier looks have not ended: they wait for a driver or a file system",
            ));
            return;
        }
        self.started.push_back(now);
        let (sender, answer) = mpsc::channel();
        let (alive, limit) = (Arc::clone(&self.alive), self.limit);
        alive.fetch_add(1, Ordering::Relaxed);
        let wanted = Wanted::Look { pid: pid.number, start_ticks: pid.start_ticks, watch: asked.watch };
        let work = move || {
            run(&programs, wanted, limit, &sender);
            alive.fetch_sub(1, Ordering::Relaxed);
        };
        if let Err(error) = std::thread::Builder::new().name("look".to_owned()).spawn(work) {
            self.alive.fetch_sub(1, Ordering::Relaxed);
            self.done.push(unseen(&asked, &format!("no thread to look with: {error}")));
            return;
        }
        self.running = Some(Running { asked, answer });
    }
}

fn unseen(asked: &Asked, why: &str) -> (String, Look) {
    (asked.process.clone(), Look { inquiry: asked.inquiry.clone(), ..lacking(why) })
}

fn lacking(why: &str) -> Look {
    Look { at_ns: ringscope_api::clock::now().0, lacks: vec![why.to_owned()], ..Look::default() }
}

/// Runs the program, sends what it has seen in time, and waits for its end however long that takes.
fn run(programs: &Programs, wanted: Wanted, limit: Duration, sender: &mpsc::Sender<Look>) {
    let mut started = match programs.start(wanted) {
        Ok(started) => started,
        Err(why) => {
            // Nobody may wait any more.
            let _ = sender.send(lacking(&why));
            return;
        }
    };
    let look = match answer(&mut started, limit) {
        Ok(bytes) => match last(&bytes) {
            look if look.at_ns == 0 => lacking("the program that looks has failed"),
            look => look,
        },
        Err(bytes) => {
            let mut look = last(&bytes);
            if look.at_ns == 0 {
                look.at_ns = ringscope_api::clock::now().0;
            }
            look.lacks.push(format!("the look took more than {limit:?} and was given up"));
            look
        }
    };
    let _ = sender.send(look);
    started.wait();
}

/// All that the program writes until it ends; what it has written if it takes too long, as `Err`.
fn answer(started: &mut Started, limit: Duration) -> Result<Vec<u8>, Vec<u8>> {
    let deadline = ringscope_api::clock::monotonic() + limit;
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let left = deadline.saturating_duration_since(ringscope_api::clock::monotonic());
        let is_ready = !left.is_zero() && wait(&started.output, left);
        if !is_ready {
            started.give_up();
            return Err(bytes);
        }
        match started.output.read(&mut buffer) {
            Ok(n) if n > 0 && bytes.len() < MAX_ANSWER => bytes.extend_from_slice(&buffer[..n]),
            _ => return Ok(bytes),
        }
    }
}

/// Whether there is something to read, or the other end is closed, before the time is over.
fn wait(file: &impl AsFd, left: Duration) -> bool {
    let seconds = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
    let timeout = Timespec { tv_sec: seconds, tv_nsec: i64::from(left.subsec_nanos()) };
    let mut fds = [PollFd::new(file, PollFlags::IN)];
    loop {
        match poll(&mut fds, Some(&timeout)) {
            Err(Errno::INTR) => {}
            ready => return ready.is_ok_and(|ready| ready > 0),
        }
    }
}

/// The last whole look of what was written.
fn last(mut bytes: &[u8]) -> Look {
    let mut last = Look::default();
    while let Ok(look) = Look::decode_length_delimited(&mut bytes) {
        last = look;
        if bytes.is_empty() {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests;
