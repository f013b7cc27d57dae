//! What the launch itself says, on standard error. A thread of its own: where nobody reads it, nothing waits.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use ringscope_api::clock;
use ringscope_api::terminal::{clean, without_passwords};

/// Notes that wait to be written; what is beyond is lost.
const WAITING: usize = 1024;

/// Says things.
#[derive(Clone, Debug)]
pub(super) struct Say {
    notes: SyncSender<String>,
    waiting: Arc<AtomicUsize>,
}

impl Say {
    /// Begins to write to standard error.
    pub(super) fn start() -> io::Result<Self> {
        let (notes, to_write) = sync_channel::<String>(WAITING);
        let waiting = Arc::new(AtomicUsize::new(0));
        let written = Arc::clone(&waiting);
        std::thread::Builder::new().name("notes".into()).spawn(move || {
            for note in to_write {
                // Nowhere is left to say that stderr is gone.
                let _ = io::stderr().write_all(note.as_bytes());
                written.fetch_sub(1, Ordering::Relaxed);
            }
        })?;
        Ok(Self { notes, waiting })
    }

    /// A sentence.
    pub(super) fn note(&self, text: &str) {
        self.put(format!("ringscope: {text}"));
    }

    /// Several lines, without a name before them.
    pub(super) fn lines(&self, text: &str) {
        self.put(text.to_owned());
    }

    fn put(&self, text: String) {
        // Others have written it, so nothing of it may command a terminal; its lines are ours.
        let text = text
            .trim_end()
            .split('\n')
            .map(|line| clean(&without_passwords(line)).into_owned() + "\n")
            .collect();
        self.waiting.fetch_add(1, Ordering::Relaxed);
        if self.notes.try_send(text).is_err() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Waits until all is written, but not longer than this.
    pub(super) async fn finish(&self, patience: Duration) {
        let until = clock::monotonic() + patience;
        while self.waiting.load(Ordering::Relaxed) > 0 && clock::monotonic() < until {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
