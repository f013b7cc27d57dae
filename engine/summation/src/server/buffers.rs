//! Memory for contributions and results, used again by whichever key has parts of the same size.

use std::collections::BTreeMap;
use std::sync::Arc;

/// What lies idle between rounds. Of each size it never holds more than was in use at once.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    by_size: BTreeMap<usize, Vec<Vec<u8>>>,
    idle_bytes: usize,
}

impl Buffers {
    /// Its bytes are old ones.
    pub(crate) fn take(&mut self, size_bytes: usize) -> Vec<u8> {
        let idle = self.by_size.get_mut(&size_bytes).and_then(Vec::pop);
        self.idle_bytes -= idle.as_ref().map_or(0, Vec::len);
        idle.unwrap_or_else(|| vec![0; size_bytes])
    }

    /// Takes it back.
    pub(crate) fn give(&mut self, buffer: Vec<u8>) {
        self.idle_bytes += buffer.len();
        self.by_size.entry(buffer.len()).or_default().push(buffer);
    }

    /// Takes it back if nobody reads it any more; the last reader frees it otherwise.
    pub(crate) fn give_shared(&mut self, buffer: Arc<Vec<u8>>) {
        if let Ok(buffer) = Arc::try_unwrap(buffer) {
            self.give(buffer);
        }
    }

    /// Bytes that lie idle.
    pub(crate) fn idle_bytes(&self) -> usize {
        self.idle_bytes
    }
}
