//! What waits to be sent: bounded by its bytes; the oldest makes room for the newest.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::metrics::RemoteWrites;
use axum::body::Bytes;
use tokio::sync::Notify;

/// One body that can be sent.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) body: Bytes,
    pub(super) n_samples: usize,
}

/// See the module.
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    filled: Notify,
    bytes_max: usize,
    counts: RemoteWrites,
}

#[derive(Default)]
struct Waiting {
    requests: VecDeque<Request>,
    n_bytes: usize,
    /// Whether the last push dropped something, so that only the first is said.
    dropping: bool,
}

impl Queue {
    pub(super) fn new(bytes_max: usize, counts: RemoteWrites) -> Self {
        Self { waiting: Mutex::default(), filled: Notify::new(), bytes_max, counts }
    }

    pub(super) fn push(&self, requests: Vec<Request>) {
        let mut waiting = self.lock();
        let mut n_dropped = 0;
        for request in requests {
            waiting.n_bytes += request.body.len();
            waiting.requests.push_back(request);
        }
        while waiting.n_bytes > self.bytes_max
            && let Some(oldest) = waiting.requests.pop_front()
        {
            waiting.n_bytes -= oldest.body.len();
            n_dropped += oldest.n_samples;
        }
        self.counts.dropped(n_dropped);
        if n_dropped > 0 && !waiting.dropping {
            tracing::warn!(
                "more waits for remote write than the {} MiB there is room for: the oldest samples are dropped until it goes on \
                 (ringscope_remote_write_samples_total counts them)",
                self.bytes_max >> 20
            );
        }
        waiting.dropping = n_dropped > 0;
        self.counts.pending(n_samples(&waiting));
        drop(waiting);
        self.filled.notify_one();
    }

    /// The oldest; waits until there is one.
    pub(super) async fn next(&self) -> Request {
        loop {
            if let Some(request) = self.pop() {
                return request;
            }
            self.filled.notified().await;
        }
    }

    fn pop(&self) -> Option<Request> {
        let mut waiting = self.lock();
        let request = waiting.requests.pop_front()?;
        waiting.n_bytes -= request.body.len();
        self.counts.pending(n_samples(&waiting));
        Some(request)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn n_samples(waiting: &Waiting) -> usize {
    waiting.requests.iter().map(|request| request.n_samples).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_make_room_and_are_counted() {
        let counts = RemoteWrites::new().unwrap();
        let queue = Queue::new(25, counts.clone());
        let request = |n_samples| Request { body: vec![0; 10].into(), n_samples };
        queue.push(vec![request(1), request(2)]);
        assert_eq!(counts.values(), (0, 0, 0, 3));
        queue.push(vec![request(3), request(4)]);
        assert_eq!(counts.values(), (0, 0, 3, 7), "sent, failed, dropped, pending");
        assert_eq!(queue.next().await.n_samples, 3);
        assert_eq!(queue.next().await.n_samples, 4);
        assert_eq!(counts.values(), (0, 0, 3, 0));
    }
}
