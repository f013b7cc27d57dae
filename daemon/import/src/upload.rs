//! One file that somebody sends to a daemon: its chunks go to a thread that reads them as they come, so that no file is
//! in memory as a whole.

use std::io::{self, Read};

use axum::body::Bytes;
use ringscope_api::Import;
use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::Batch;
use tokio::sync::mpsc;

use super::gathered::Gathered;
use super::room::Room;

/// Where the chunks go.
pub struct Upload {
    chunks: mpsc::Sender<io::Result<Bytes>>,
}

/// The reading end; to be run on a thread that may block.
pub struct Uploading {
    chunks: Chunks,
}

impl Upload {
    /// Both ends.
    #[must_use]
    pub fn new() -> (Self, Uploading) {
        let (chunks, receiver) = mpsc::channel(CHUNKS_MAX);
        (Self { chunks }, Uploading { chunks: Chunks { receiver, rest: Bytes::new() } })
    }

    /// Hands on a chunk, or that there will be none for this reason; waits while the reader is behind. False: the
    /// reader wants no more.
    pub async fn send(&self, chunk: io::Result<Bytes>) -> bool {
        self.chunks.send(chunk).await.is_ok()
    }
}

impl Uploading {
    /// Reads all chunks as one file called `name`, last written to at `written` (0: not known), and judges it.
    ///
    /// # Errors
    /// The room has come to its end.
    pub fn judge(
        self,
        room: &dyn Room,
        (name, written): (&str, Timestamp),
        job: &str,
        agent_id: &str,
        now: Timestamp,
    ) -> io::Result<(Import, Vec<Batch>)> {
        let mut gathered = Gathered::new();
        gathered.read_in(room, name, written.min(now), Box::new(self.chunks), &mut |_| {});
        room.is_wanted()?;
        Ok(gathered.judge(job, agent_id, now))
    }
}

struct Chunks {
    receiver: mpsc::Receiver<io::Result<Bytes>>,
    rest: Bytes,
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.receiver.blocking_recv() {
                Some(chunk) => self.rest = chunk?,
                None => return Ok(0),
            }
        }
        let n = buffer.len().min(self.rest.len());
        buffer[..n].copy_from_slice(&self.rest.split_to(n));
        Ok(n)
    }
}

/// Chunks that may wait for the reader: some hundred KiB, which may be a hundred MiB unpacked.
const CHUNKS_MAX: usize = 4;
