//! Servers that are lost, and pauses.

use super::pipeline::Pipeline;
use super::stage::Stage;
use super::tensor::{Entry, TensorId};

/// A part that was lost with its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The part.
    pub key: u32,
    /// Its tensor.
    pub tensor: TensorId,
    /// The tensor's name.
    pub name: String,
    /// Where it was.
    pub stage: Stage,
}

impl Pipeline {
    /// A server is lost: its parts are, unless they have come back, and their credits are free. All other parts go on;
    /// a tensor that lost some says so when it is finished. What is lost, in order of keys.
    ///
    /// A copy or codec that has begun on a lost part must end before its key is submitted again.
    pub fn failed(&mut self, server: usize) -> Vec<Lost> {
        let Some(state) = self.servers.get_mut(server) else { return Vec::new() };
        state.has_failed = true;
        (state.current, state.with_driver_bytes, state.unsent_bytes) = (None, 0, 0);
        let is_lost = |entry: &Entry| entry.part.server == server && entry.stage.needs_server();
        let of_server = self.entries.values().filter(|entry| is_lost(entry));
        let keys: Vec<u32> = of_server.map(|entry| entry.part.key).collect();
        keys.into_iter().filter_map(|key| self.lose(key)).collect()
    }

    /// Nothing begins any more that was not pushed in part; what has begun goes on to its end.
    pub fn suspend(&mut self) {
        self.is_suspended = true;
    }

    /// Parts begin again. For other servers or shares, make another pipeline once this one is quiet.
    pub fn resume(&mut self) {
        self.is_suspended = false;
    }

    /// Whether nothing is under way: all parts, if any, wait to be pushed or for what comes before.
    pub fn is_quiet(&self) -> bool {
        self.entries.values().all(|entry| !entry.begun && entry.stage <= Stage::Push)
    }

    fn lose(&mut self, key: u32) -> Option<Lost> {
        let entry = self.entries.remove(&key)?;
        let server = entry.part.server;
        if self.holds_credits(&entry) {
            self.credits.give_back(server, entry.priority, entry.push_bytes);
        }
        let queue = &mut self.queues[entry.stage.index()];
        queue.slots[server] -= 1;
        if entry.begun {
            queue.begun -= 1;
            if let Some(next) = entry.route.after(entry.stage) {
                self.queues[next.index()].slots[server] -= 1;
            }
        } else {
            queue.lanes[server].remove(entry.waiting());
        }
        let name = self.tensors.get(&entry.tensor).map(|state| state.name.clone()).unwrap_or_default();
        self.end_part(entry.tensor, |state| {
            state.lost.push(key);
            state.progress.lost_bytes += entry.part.bytes;
        });
        Some(Lost { key, tensor: entry.tensor, name, stage: entry.stage })
    }
}
