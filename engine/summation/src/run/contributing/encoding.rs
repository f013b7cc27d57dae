//! What codecs do: parts into their form before they are pushed, and out of it when they are back, by threads of their own.

use super::super::coding::{self, Job, Work};
use super::super::line::{Outcome, Trouble};
use super::Contributing;
use crate::worker::Stage;
use rsccl_collective::error::Error;

impl Contributing {
    /// Takes what was encoded or decoded, and has more encoded. Whether there was anything.
    pub(super) fn encode(&mut self, now_ns: u64) -> Outcome<bool> {
        let mut moved = self.take_coded(now_ns)?;
        while let Some(work) = self.pipeline.next_work(Stage::Compress, now_ns) {
            moved = true;
            let part = self.declarations.part(work.key);
            let running = part.and_then(|part| Some((self.running.get(&part.tensor)?, part)));
            let Some((running, part)) = running else {
                return Err(self.internal(&format_args!("part {} is not running", work.key)));
            };
            let start = self.first_byte(&part);
            let contribution = running.send.read(start..start.saturating_add(self.size(&part)));
            let contribution = contribution.map_err(|error| Trouble::of(self.worker, error))?;
            let summed = coding::summed(&self.declarations, &part, self.routes.n_workers());
            let Some(job) = self.coding.encoding(work.key, summed, contribution) else {
                return Err(self.internal(&format_args!("part {} has no codec", work.key)));
            };
            if self.code(job, now_ns)? {
                // So that bytes move between two of them.
                break;
            }
        }
        Ok(moved)
    }

    /// Has what is back decoded. Whether there was anything.
    pub(super) fn decode(&mut self, now_ns: u64) -> Outcome<bool> {
        let mut moved = false;
        while let Some(work) = self.pipeline.next_work(Stage::Decompress, now_ns) {
            moved = true;
            let part = self.declarations.part(work.key);
            let running = part.and_then(|part| Some((self.running.get(&part.tensor)?, part)));
            let found = running.and_then(|(running, part)| Some((running.recv?, part)));
            let Some((recv, part)) = found else {
                return Err(self.internal(&format_args!("part {} is not pulled", work.key)));
            };
            let (start, len) = (self.first_byte(&part), self.size(&part));
            match self.coding.decoding(work.key, recv, start, len) {
                Some(job) => {
                    self.code(job, now_ns)?;
                }
                // It came as it is.
                None => self.decompressed(work.key, 0, now_ns)?,
            }
        }
        Ok(moved)
    }

    /// Puts back what was left out before the rounds that have failed. The pool's threads have ended.
    pub(super) fn give_back_residuals(&mut self) {
        let Some(pool) = &self.pool else { return self.coding.give_up(Vec::new(), Vec::new()) };
        self.coding.give_up(pool.take_left(), pool.take_coded().unwrap_or_default());
    }

    /// Whether a long part was coded here and now, and no thread had it.
    fn code(&mut self, job: Job, now_ns: u64) -> Outcome<bool> {
        let urgency = self.declarations.part(job.key).map_or(0, |part| self.urgencies[part.tensor]);
        let done = match &self.pool {
            Some(pool) => pool.code(urgency, job),
            None => {
                let mut job = job;
                job.run();
                Some(job)
            }
        };
        let Some(job) = done else { return Ok(false) };
        let is_long = job.size_bytes() >= LONG_BYTES;
        self.coded(job, now_ns)?;
        Ok(is_long)
    }

    fn take_coded(&mut self, now_ns: u64) -> Outcome<bool> {
        let done = self.pool.as_ref().map_or(Ok(Vec::new()), |pool| pool.take_coded());
        let done = done.map_err(|error| Trouble::of(self.worker, error))?;
        let moved = !done.is_empty();
        done.into_iter().try_for_each(|job| self.coded(job, now_ns))?;
        Ok(moved)
    }

    fn coded(&mut self, job: Job, now_ns: u64) -> Outcome<()> {
        let (key, choice, outcome, took_ns) = (job.key, job.choice, job.outcome(), job.took_ns());
        let Some(part) = self.declarations.part(key) else { return Ok(()) };
        match job.work {
            Work::Encode { residual, pushed, .. } => {
                outcome.map_err(|error| self.internal(&error))?;
                let summed = coding::summed(&self.declarations, &part, self.routes.n_workers());
                let (push_bytes, pull_bytes) = self.coding.encoded(key, summed, residual, pushed);
                if let Some(moved) = &mut self.moved {
                    moved.push_issued(self.routes.owner(key), key, push_bytes);
                }
                let compressed = self.pipeline.compressed(key, (push_bytes, pull_bytes), took_ns, now_ns);
                compressed.map_err(|misreport| self.internal(&misreport))
            }
            Work::Decode { answer, .. } => {
                let target = self.routes.target(self.worker, key);
                let line = self.services.get(target).and_then(|service| service.line.as_ref());
                let (peer, round) = (line.map_or(self.worker, |line| line.peer), self.round_of(key));
                outcome.map_err(|error| {
                    let text = format!("rank {peer} answered round {round} of part {key} wrongly: {error}");
                    Trouble::of(peer, Error::Internal(text))
                })?;
                self.coding.decoded(choice, answer);
                self.decompressed(key, took_ns, now_ns)
            }
        }
    }

    fn decompressed(&mut self, key: u32, took_ns: u64, now_ns: u64) -> Outcome<()> {
        let decompressed = self.pipeline.decompressed(key, took_ns, now_ns);
        decompressed.map_err(|misreport| self.internal(&misreport))
    }
}

/// Of a part that holds up the driver where it codes it itself: a millisecond's.
const LONG_BYTES: usize = 1 << 20;
