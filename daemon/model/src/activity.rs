//! What a process does besides its calls: what the operating system says of it, and what it was seen to do.

use std::sync::Arc;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_wire::batch;

use super::limits::{MAX_FRAMES, MAX_LOOK_BYTES, MAX_LOOK_LACKS, MAX_THREADS};
use super::losses::Losses;

/// What the operating system says of a process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Activity {
    /// As `/proc/PID/stat` has it: `R`, `S`, `D`, `T`, `t`, `Z`.
    pub state: char,
    /// Since when it was read to be so at each reading, by the clock of its host.
    pub state_since: Timestamp,
    /// Processor time of all its threads since it started.
    pub cpu_ns: u64,
    /// When it was read, by the clock of its host.
    pub read_at: Timestamp,
    /// Processors that it kept busy between the last two readings, e.g. 1.5. Absent: it was read once.
    pub load: Option<f64>,
}

impl Activity {
    /// Whether it computes. `None`: it was read once.
    #[must_use]
    pub fn moves(&self) -> Option<bool> {
        self.load.map(|load| load > IDLE_LOAD)
    }

    /// Whether it was stopped by a signal or a debugger.
    #[must_use]
    pub const fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// What is told, over what was known. `None`: it says nothing, or nothing newer.
    pub(super) fn told(told: &batch::Activity, known: Option<&Self>, losses: &mut Losses) -> Option<Self> {
        let mut letters = told.state.chars();
        let (Some(state), None) = (letters.next().filter(char::is_ascii_alphabetic), letters.next()) else {
            losses.add("unknown_activity");
            return None;
        };
        let read_at = Timestamp(told.read_at_ns);
        let Some(known) = known else {
            return Some(Self { state, state_since: read_at, cpu_ns: told.cpu_ns, read_at, load: None });
        };
        let passed = read_at.since(known.read_at);
        if passed.is_zero() {
            return None;
        }
        // Two readings in a moment say little: the processor's time is counted in hundredths of a second.
        let worked = Duration::from_nanos(told.cpu_ns.saturating_sub(known.cpu_ns));
        let load = (passed >= LOAD_STEP).then(|| worked.as_secs_f64() / passed.as_secs_f64());
        Some(Self {
            state,
            state_since: if state == known.state { known.state_since } else { read_at },
            cpu_ns: told.cpu_ns,
            read_at,
            load: load.or(known.load),
        })
    }
}

/// What is told of a look, cut to its bounds; what was cut is counted.
pub(super) fn look(told: &batch::Look, losses: &mut Losses) -> Arc<batch::Look> {
    let mut look = told.clone();
    cut(&mut look.threads, MAX_THREADS, losses);
    cut(&mut look.lacks, MAX_LOOK_LACKS, losses);
    let mut room = MAX_LOOK_BYTES;
    for thread in &mut look.threads {
        cut(&mut thread.python, MAX_FRAMES, losses);
        cut(&mut thread.native, MAX_FRAMES, losses);
        for frames in [&mut thread.python, &mut thread.native] {
            let fits = frames.iter().take_while(|frame| take(&mut room, frame.len())).count();
            cut(frames, fits, losses);
        }
    }
    Arc::new(look)
}

fn take(room: &mut usize, bytes: usize) -> bool {
    let left = room.checked_sub(bytes);
    *room = left.unwrap_or_default();
    left.is_some()
}

fn cut<T>(list: &mut Vec<T>, limit: usize, losses: &mut Losses) {
    losses.add_many("look_limit", list.len().saturating_sub(limit));
    list.truncate(limit);
}

/// Processors that somebody keeps busy who only waits: threads that look around now and then.
const IDLE_LOAD: f64 = 0.02;

/// Least time between two readings that are compared.
const LOAD_STEP: Duration = Duration::from_millis(200);
