//! Hands on what a process writes, as fast as it is taken: what is not taken stays in the process's own pipe. Once the launching
//! side is gone, it is read and thrown away, so that who is told to end can say its last words.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::unix::pipe::Receiver;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::SendTimeoutError;

use crate::launch::protocol::{CHUNK_BYTES, Chunk, Frame, Stream, WINDOW_BYTES, cost};

/// What may be on its way to the launching side.
pub(super) struct Room {
    window: Semaphore,
    is_gone: AtomicBool,
}

impl Room {
    /// A whole window.
    pub(super) fn new() -> Self {
        let window = Semaphore::new(usize::try_from(WINDOW_BYTES).unwrap_or_default());
        Self { window, is_gone: AtomicBool::new(false) }
    }

    /// So much has been taken. More than was ever sent is no word of a launching side of ours, and ignored.
    pub(super) fn give(&self, bytes: u32) {
        let most = usize::try_from(WINDOW_BYTES).unwrap_or_default();
        let bytes = usize::try_from(bytes).unwrap_or_default();
        self.window.add_permits(bytes.min(most.saturating_sub(self.window.available_permits())));
    }

    /// Nobody takes anything any more.
    pub(super) fn abandon(&self) {
        self.is_gone.store(true, Ordering::Relaxed);
        self.window.add_permits(usize::try_from(WINDOW_BYTES).unwrap_or_default());
    }

    fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }

    fn give_back(&self, bytes: u32) {
        self.window.add_permits(usize::try_from(bytes).unwrap_or_default());
    }
}

/// Reads one stream to its end.
pub(super) async fn hand_on(
    pipe: OwnedFd,
    (process, stream): (u32, Stream),
    room: Arc<Room>,
    frames: Sender<Frame>,
) {
    let Ok(pipe) = Receiver::from_owned_fd(pipe) else { return };
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        // Room is asked for only when there is something: who is silent holds none.
        if pipe.readable().await.is_err() {
            return;
        }
        let Ok(held) = room.window.acquire_many(cost(CHUNK_BYTES)).await else { return };
        match pipe.try_read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => {
                held.forget();
                room.give_back(cost(CHUNK_BYTES) - cost(read));
                let bytes = buffer.get(..read).unwrap_or_default().to_vec();
                if !send(Chunk { process, stream, bytes }, &room, &frames).await {
                    room.give_back(cost(read));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// Whether it is on its way.
async fn send(chunk: Chunk, room: &Room, frames: &Sender<Frame>) -> bool {
    let mut frame = Frame::Chunk(chunk);
    while !room.is_gone() {
        match frames.send_timeout(frame, LOOK_AGAIN).await {
            Ok(()) => return true,
            Err(SendTimeoutError::Timeout(back)) => frame = back,
            Err(SendTimeoutError::Closed(_)) => return false,
        }
    }
    false
}

/// Between two looks whether anybody is left to take it.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
