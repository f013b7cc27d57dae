//! The pipeline itself: tensors in, work out, and the way of a part from stage to stage.

use std::collections::{BTreeMap, VecDeque};

use super::credits::Credits;
use super::error::{Misreport, Refusal};
use super::interleave::Interleave;
use super::queue::{Queue, Waiting};
use super::server::Server;
use super::settings::Settings;
use super::stage::{Route, Stage};
use super::tensor::{Entry, Finished, Part, Tensor, TensorId};

/// What to do with a part in a stage other than the push and the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// What.
    pub stage: Stage,
    /// The part.
    pub key: u32,
    /// Its tensor.
    pub tensor: TensorId,
    /// Its owner.
    pub server: usize,
    /// Bytes that the stage takes in: of elements where it compresses, else those that come back.
    pub bytes: u64,
}

/// All parts of a worker, on their way.
#[derive(Debug)]
pub struct Pipeline {
    pub(super) settings: Settings,
    pub(super) entries: BTreeMap<u32, Entry>,
    pub(super) tensors: BTreeMap<TensorId, Tensor>,
    pub(super) finished: VecDeque<Finished>,
    /// In the order of [`Stage::ALL`].
    pub(super) queues: [Queue; Stage::ALL.len()],
    pub(super) servers: Vec<Server>,
    pub(super) credits: Credits,
    pub(super) interleave: Interleave,
    /// Of the first part of each server that waited, while it lacked credits.
    pub(super) credits_waited_ns: u64,
    /// When bytes went out or came back last.
    pub(super) moved_ns: u64,
    next_tensor: u64,
    next_sequence: u64,
}

impl Pipeline {
    /// For servers that own these fractions of all bytes, as the placement has it; only [`Self::snapshot`] compares with them.
    pub fn new(shares: &[f64], settings: Settings) -> Self {
        let n_servers = shares.len();
        Self {
            settings,
            entries: BTreeMap::new(),
            tensors: BTreeMap::new(),
            finished: VecDeque::new(),
            queues: Stage::ALL.map(|_| Queue::new(n_servers)),
            servers: shares.iter().map(|&share| Server::new(share)).collect(),
            credits: Credits::new(shares, settings.credit_bytes_per_server, settings.credit_bytes),
            interleave: Interleave::new(n_servers, settings.first_server, settings.frame_bytes.max(1)),
            credits_waited_ns: 0,
            moved_ns: 0,
            next_tensor: 0,
            next_sequence: 0,
        }
    }

    /// With other shares of what may be in flight: where parts go to servers by another rule than by who owns them.
    #[must_use]
    pub(crate) fn with_credits(mut self, shares: &[f64]) -> Self {
        let Settings { credit_bytes_per_server, credit_bytes, .. } = self.settings;
        self.credits = Credits::new(shares, credit_bytes_per_server, credit_bytes);
        self
    }

    /// Takes a tensor. A low `priority` goes first: the number of its layer, or of its submission for first come, first
    /// served. One without parts is finished at once.
    ///
    /// # Errors
    /// What is wrong with it; then nothing of it was taken.
    pub fn submit(
        &mut self,
        name: &str,
        priority: u32,
        parts: &[Part],
        now_ns: u64,
    ) -> Result<TensorId, Refusal> {
        self.check_room(name, parts.len())?;
        let mut keys: Vec<u32> = parts.iter().map(|part| part.key).collect();
        keys.sort_unstable();
        if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Refusal::Busy { key: twice[0], name: name.to_owned() });
        }
        parts.iter().try_for_each(|part| self.check_part(name, part))?;
        let tensor = TensorId(self.next_tensor);
        self.next_tensor += 1;
        let state = Tensor { name: name.to_owned(), parts_left: parts.len() };
        self.tensors.insert(tensor, state);
        for part in parts {
            self.add(tensor, priority, *part, now_ns);
        }
        self.finish_if_over(tensor);
        Ok(tensor)
    }

    /// The next part to be compressed, pulled or decompressed; it has then begun. Nothing for [`Stage::Push`],
    /// which [`Self::next_send`] serves, nor for [`Stage::Sum`], which is the server's.
    pub fn next_work(&mut self, stage: Stage, now_ns: u64) -> Option<Work> {
        if matches!(stage, Stage::Push | Stage::Sum) {
            return None;
        }
        let has_room = |part: &Waiting| self.entries.get(&part.key).is_some_and(|entry| self.has_room(entry));
        let head = self.queues[stage.index()].head(self.settings.overtake_bytes, has_room)?;
        let entry = self.entries.get(&head.key)?;
        let bytes = if stage < Stage::Push { entry.part.bytes } else { entry.pull_bytes };
        let work = Work { stage, key: head.key, tensor: entry.tensor, server: entry.part.server, bytes };
        self.queues[stage.index()].lanes[work.server].remove(head);
        self.queues[stage.index()].pass_all(head);
        self.begin(head.key, now_ns);
        Some(work)
    }

    /// A part was compressed, which took so long of the time since it had begun: so many bytes go to the server and come back,
    /// at least 1; at most so many, where [`Self::ends_with`] is to tell.
    ///
    /// # Errors
    /// It was not being compressed.
    pub fn compressed(
        &mut self,
        key: u32,
        (push_bytes, pull_bytes): (u64, u64),
        took_ns: u64,
        now_ns: u64,
    ) -> Result<(), Misreport> {
        self.check(key, Stage::Compress)?;
        if let Some(entry) = self.entries.get_mut(&key) {
            let server = &mut self.servers[entry.part.server];
            server.unsent_bytes = server.unsent_bytes - entry.push_bytes + push_bytes.max(1);
            (entry.push_bytes, entry.pull_bytes) = (push_bytes.max(1), pull_bytes.max(1));
        }
        self.leave_worked(key, took_ns, now_ns);
        Ok(())
    }

    /// A server has the sum of all workers' contributions: the part may be pulled.
    ///
    /// # Errors
    /// It was not sent to its end, or not to this server.
    pub fn summed(&mut self, server: usize, key: u32, now_ns: u64) -> Result<(), Misreport> {
        self.check_server(server, key, Stage::Sum)?;
        self.leave(key, now_ns);
        Ok(())
    }

    /// `bytes` more of a part have come back.
    ///
    /// # Errors
    /// It was not being pulled from this server, or that is more than it has.
    pub fn pulled(&mut self, server: usize, key: u32, bytes: u64, now_ns: u64) -> Result<(), Misreport> {
        self.check_server(server, key, Stage::Pull)?;
        let Some(entry) = self.entries.get_mut(&key) else { return Err(Misreport::NotHere { key }) };
        let left = entry.pull_bytes - entry.pulled_bytes;
        if bytes > left {
            return Err(Misreport::TooMuch { key, stage: Stage::Pull, bytes, left });
        }
        entry.pulled_bytes += bytes;
        self.servers[server].pulled_bytes += bytes;
        self.moved_ns = now_ns;
        if bytes == left {
            self.credits.give_back(server, entry.priority, entry.push_bytes);
            self.credits.narrow();
            self.leave(key, now_ns);
        }
        Ok(())
    }

    /// The answer of a part is over with so many bytes more, of which it was said only how many they may be.
    ///
    /// # Errors
    /// It was not being pulled.
    pub fn ends_with(&mut self, key: u32, bytes: u64) -> Result<(), Misreport> {
        self.check(key, Stage::Pull)?;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.pull_bytes = entry.pull_bytes.min(entry.pulled_bytes.saturating_add(bytes));
        }
        Ok(())
    }

    /// A part was decompressed, which took so long of the time since it had begun.
    ///
    /// # Errors
    /// It was not being decompressed.
    pub fn decompressed(&mut self, key: u32, took_ns: u64, now_ns: u64) -> Result<(), Misreport> {
        self.check(key, Stage::Decompress)?;
        self.leave_worked(key, took_ns, now_ns);
        Ok(())
    }

    /// Takes the next tensor that is over, in the order in which they ended.
    pub fn next_finished(&mut self) -> Option<Finished> {
        let finished = self.finished.pop_front()?;
        self.tensors.remove(&finished.tensor);
        Some(finished)
    }

    /// Whether a part was submitted and is not over.
    pub fn holds(&self, key: u32) -> bool {
        self.entries.contains_key(&key)
    }

    /// A part has begun in its stage, and keeps a place in the next one.
    pub(super) fn begin(&mut self, key: u32, now_ns: u64) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        (entry.begun, entry.begun_ns) = (true, now_ns);
        let wait_ns = now_ns.saturating_sub(entry.enqueued_ns);
        let queue = &mut self.queues[entry.stage.index()];
        queue.begun += 1;
        queue.waited_ns += wait_ns;
        queue.longest_wait_ns = queue.longest_wait_ns.max(wait_ns);
        if let Some(next) = entry.route.after(entry.stage) {
            self.queues[next.index()].slots[entry.part.server] += 1;
        }
    }

    /// A part that has begun in its stage is through, and goes on.
    pub(super) fn leave(&mut self, key: u32, now_ns: u64) {
        let begun_ns = self.entries.get(&key).map_or(now_ns, |entry| entry.begun_ns);
        self.leave_worked(key, now_ns.saturating_sub(begun_ns), now_ns);
    }

    /// The same where the work took less than the time since it had begun: for the rest it waited, for a thread.
    fn leave_worked(&mut self, key: u32, took_ns: u64, now_ns: u64) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let queue = &mut self.queues[entry.stage.index()];
        queue.begun -= 1;
        queue.n_left += 1;
        queue.worked_ns += took_ns;
        queue.waited_ns += now_ns.saturating_sub(entry.begun_ns).saturating_sub(took_ns);
        queue.slots[entry.part.server] -= 1;
        let Some(next) = entry.route.after(entry.stage) else {
            let tensor = entry.tensor;
            self.entries.remove(&key);
            self.end_part(tensor);
            return;
        };
        (entry.stage, entry.begun) = (next, false);
        self.enter(key, now_ns);
    }

    /// A part of a tensor is over.
    fn end_part(&mut self, tensor: TensorId) {
        if let Some(state) = self.tensors.get_mut(&tensor) {
            state.parts_left -= 1;
        }
        self.finish_if_over(tensor);
    }

    /// Whether a part is in a stage and has begun there.
    pub(super) fn check(&self, key: u32, reported: Stage) -> Result<&Entry, Misreport> {
        let entry = self.entries.get(&key).ok_or(Misreport::NotHere { key })?;
        if entry.stage != reported || !entry.begun {
            return Err(Misreport::OtherStage { key, reported, stage: entry.stage });
        }
        Ok(entry)
    }

    /// The same, at this server.
    pub(super) fn check_server(&self, reported: usize, key: u32, stage: Stage) -> Result<&Entry, Misreport> {
        let entry = self.entries.get(&key).ok_or(Misreport::NotHere { key })?;
        if entry.part.server != reported {
            return Err(Misreport::OtherServer { key, reported, server: entry.part.server });
        }
        self.check(key, stage)
    }

    fn add(&mut self, tensor: TensorId, priority: u32, part: Part, now_ns: u64) {
        let route = Route { compress: part.compress };
        let entry = Entry {
            part,
            tensor,
            priority,
            sequence: self.next_sequence,
            route,
            stage: route.first(),
            begun: false,
            enqueued_ns: now_ns,
            begun_ns: now_ns,
            submitted_ns: now_ns,
            push_bytes: part.bytes,
            pull_bytes: part.bytes,
            given_bytes: 0,
            sent_bytes: 0,
            pulled_bytes: 0,
        };
        self.next_sequence += 1;
        let server = &mut self.servers[part.server];
        server.unsent_bytes += part.bytes;
        server.assigned_bytes += part.bytes;
        self.queues[entry.stage.index()].slots[part.server] += 1;
        self.entries.insert(part.key, entry);
        self.enter(part.key, now_ns);
    }

    fn enter(&mut self, key: u32, now_ns: u64) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.enqueued_ns = now_ns;
        let queue = &mut self.queues[entry.stage.index()];
        queue.n_entered += 1;
        if entry.stage == Stage::Sum {
            self.begin(key, now_ns);
        } else {
            queue.lanes[entry.part.server].add(entry.waiting());
        }
    }

    /// Whether the stage after a part's present one has a place for it.
    fn has_room(&self, entry: &Entry) -> bool {
        let Some(next) = entry.route.after(entry.stage) else { return true };
        let taken = self.queues[next.index()].slots[entry.part.server];
        next.is_bounded_by_credits() || taken < self.settings.stage_parts.max(1)
    }

    fn finish_if_over(&mut self, tensor: TensorId) {
        let Some(state) = self.tensors.get_mut(&tensor).filter(|state| state.parts_left == 0) else { return };
        self.finished.push_back(Finished { tensor, name: state.name.clone() });
    }

    fn check_room(&self, name: &str, n_parts: usize) -> Result<(), Refusal> {
        let max_parts = self.settings.max_parts;
        let room = max_parts.saturating_sub(self.entries.len());
        if n_parts > room || self.tensors.len() >= max_parts {
            return Err(Refusal::Full { name: name.to_owned(), n_parts, room, max_parts });
        }
        Ok(())
    }

    fn check_part(&self, name: &str, part: &Part) -> Result<(), Refusal> {
        let (key, server, name) = (part.key, part.server, || name.to_owned());
        match self.servers.get(server) {
            None => Err(Refusal::UnknownServer { key, name: name(), server, n_servers: self.servers.len() }),
            Some(_) if part.bytes == 0 => Err(Refusal::Empty { key, name: name() }),
            Some(_) if self.entries.contains_key(&key) => Err(Refusal::Busy { key, name: name() }),
            Some(_) => Ok(()),
        }
    }
}
