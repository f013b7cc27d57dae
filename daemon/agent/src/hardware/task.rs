//! Work in threads of its own, which may hang: drivers do.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Work that is done in a thread of its own, at most once in an interval and never twice at a time.
#[derive(Debug)]
pub(super) struct Task<T> {
    pub(super) interval: Duration,
    started_at: Option<Instant>,
    running: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> Task<T> {
    /// An interval of zero: never.
    pub(super) const fn new(interval: Duration) -> Self {
        Self { interval, started_at: None, running: None }
    }

    /// The result if there is one since the last time. Starts `work` when it is due.
    pub(super) fn poll(&mut self, now: Instant, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let ended = self.running.take_if(|running| running.is_finished());
        let is_due = self.started_at.is_none_or(|at| now.saturating_duration_since(at) >= self.interval);
        if !self.interval.is_zero() && is_due && self.running.is_none() {
            self.started_at = Some(now);
            let thread = std::thread::Builder::new().name("hardware".to_owned()).spawn(work);
            self.running =
                thread.inspect_err(|error| tracing::warn!(%error, "cannot read the hardware")).ok();
        }
        ended.and_then(|ended| ended.join().ok())
    }
}

/// Something that is asked again and again, and its last answer.
#[derive(Debug)]
pub(super) struct Asked<T> {
    task: Task<T>,
    /// With when it came.
    answer: Option<(Instant, T)>,
    first_asked_at: Option<Instant>,
}

/// An answer that has not come within this time after it was due is missed, and the last one says no longer how things
/// stand: whether what is asked hangs, or the thread that asks cannot be started, or ends without an answer.
const OVERDUE: Duration = Duration::from_secs(10);

impl<T: Send + 'static> Asked<T> {
    /// See [`Task::new`].
    pub(super) const fn new(interval: Duration) -> Self {
        Self { task: Task::new(interval), answer: None, first_asked_at: None }
    }

    pub(super) const fn set_interval(&mut self, interval: Duration) {
        self.task.interval = interval;
    }

    /// Asks when it is time to. Returns whether an answer has come.
    pub(super) fn poll(&mut self, now: Instant, work: impl FnOnce() -> T + Send + 'static) -> bool {
        let answer = self.task.poll(now, work);
        self.first_asked_at = self.first_asked_at.or(self.task.started_at);
        let is_new = answer.is_some();
        self.answer = answer.map(|answer| (now, answer)).or_else(|| self.answer.take());
        is_new
    }

    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        let next_at = self.answer.as_ref().map(|(at, _)| *at + self.task.interval);
        let due_at = next_at.or(self.first_asked_at);
        due_at.is_some_and(|at| now.saturating_duration_since(at) >= OVERDUE)
    }

    /// The last answer. Absent: there is none, or the next one is overdue.
    pub(super) fn answer(&self, now: Instant) -> Option<&T> {
        self.answer.as_ref().filter(|_| !self.is_overdue(now)).map(|(_, answer)| answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls until the task has a result.
    fn result(task: &mut Task<u32>, now: Instant, value: u32) -> u32 {
        let patience = ringscope_api::clock::monotonic() + Duration::from_secs(30);
        loop {
            if let Some(result) = task.poll(now, move || value) {
                return result;
            }
            assert!(ringscope_api::clock::monotonic() < patience, "the work never ended");
            std::thread::yield_now();
        }
    }

    #[test]
    fn work_is_done_once_an_interval() {
        let start = ringscope_api::clock::monotonic();
        let mut task = Task::new(Duration::from_secs(5));
        assert_eq!(result(&mut task, start, 1), 1);
        assert_eq!(task.poll(start + Duration::from_secs(4), || 2), None);
        assert!(task.running.is_none(), "not due");
        assert_eq!(result(&mut task, start + Duration::from_secs(5), 3), 3);
    }

    #[test]
    fn work_that_hangs_is_not_started_again_and_work_that_panics_is() {
        let start = ringscope_api::clock::monotonic();
        let (release, held) = std::sync::mpsc::channel::<()>();
        let mut task = Task::new(Duration::from_secs(5));
        assert_eq!(task.poll(start, move || held.recv().map_or(0, |()| 1)), None);
        let later = start + Duration::from_secs(60);
        assert_eq!(task.poll(later, || 2), None);
        release.send(()).unwrap();
        assert_eq!(result(&mut task, start, 3), 1, "the first work's");
        assert_eq!(task.poll(later, || panic!("a driver's fault")), None);
        while !task.running.as_ref().is_some_and(JoinHandle::is_finished) {
            std::thread::yield_now();
        }
        assert_eq!(task.poll(later, || 4), None);
        assert_eq!(result(&mut task, later + Duration::from_secs(5), 5), 5);
    }

    #[test]
    fn an_interval_of_zero_is_never() {
        let mut task = Task::new(Duration::ZERO);
        assert_eq!(task.poll(ringscope_api::clock::monotonic(), || 1), None);
        assert!(task.running.is_none());
    }

    #[test]
    fn an_answer_counts_until_the_next_one_is_overdue() {
        let start = ringscope_api::clock::monotonic();
        let mut asked = Asked::new(Duration::from_secs(30));
        assert!(!asked.poll(start, || 1));
        while !asked.poll(start, || 2) {
            std::thread::yield_now();
        }
        let next = start + Duration::from_secs(30);
        assert_eq!(asked.answer(next), Some(&1));
        let (release, held) = std::sync::mpsc::channel::<()>();
        asked.poll(next, move || held.recv().map_or(0, |()| 3));
        assert_eq!((asked.answer(next), asked.is_overdue(next)), (Some(&1), false));
        let late = next + OVERDUE;
        assert_eq!((asked.answer(late), asked.is_overdue(late)), (None, true));
        release.send(()).unwrap();
        while !asked.poll(late, || 4) {
            std::thread::yield_now();
        }
        assert_eq!(asked.answer(late), Some(&3));
    }

    #[test]
    fn an_answer_does_not_outlive_work_that_ends_without_one() {
        let start = ringscope_api::clock::monotonic();
        let mut asked = Asked::new(Duration::from_secs(30));
        asked.poll(start, || 1);
        while !asked.poll(start, || 2) {
            std::thread::yield_now();
        }
        let next = start + Duration::from_secs(30);
        asked.poll(next, || panic!("a driver's fault"));
        while !asked.task.running.as_ref().is_some_and(JoinHandle::is_finished) {
            std::thread::yield_now();
        }
        let late = next + OVERDUE;
        assert!(!asked.poll(late, || unreachable!("not due")));
        assert_eq!((asked.answer(late), asked.is_overdue(late)), (None, true));
        // Nor is one awaited for ever that never came.
        let mut asked = Asked::<u32>::new(Duration::from_secs(30));
        asked.poll(start, || panic!("a driver's fault"));
        while !asked.task.running.as_ref().is_some_and(JoinHandle::is_finished) {
            std::thread::yield_now();
        }
        assert!(!asked.poll(start, || unreachable!("not due")));
        assert_eq!([start, start + OVERDUE].map(|now| asked.is_overdue(now)), [false, true]);
    }
}
