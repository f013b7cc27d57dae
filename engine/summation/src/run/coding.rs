//! Gradients in fewer bytes: what travels of a part, and a worker's side of it.
//!
//! Each part of a tensor that has a codec, however short the part is, is encoded before it is pushed, with what the last round
//! left out where the codec loses much. In which form it comes back is the service's: [`crate::server::coded`].
//!
//! [`job`] is the work on one part, for any thread; [`residuals`] is what the rounds leave out.

mod job;
mod residuals;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::codec::Choice;
use crate::server::buffers::Buffers;
use crate::server::coded::Coded;
use crate::server::part::Part;
use crate::tensor::{self, Declarations};
pub(super) use job::{Job, Work};
pub(in crate::run) use residuals::Residual;
pub(crate) use residuals::Residuals;
use rsccl_collective::memory::Region;
use rsccl_collective::types::DataType;

/// What a worker has of the parts that it has encoded.
#[derive(Debug, Default)]
pub(super) struct Coding {
    residuals: Arc<Residuals>,
    parts: BTreeMap<u32, Encoded>,
    /// Memory of parts that are over.
    buffers: Buffers,
}

/// A part under way.
#[derive(Debug)]
struct Encoded {
    choice: Choice,
    pushed: Arc<Vec<u8>>,
    /// None if it comes back as it is.
    answer: Option<Answer>,
}

/// An answer in the form of a codec.
#[derive(Debug)]
struct Answer {
    bytes: Vec<u8>,
    /// If answers have not all one length: bytes at most.
    grows_to: Option<usize>,
}

/// What services sum of a part, in which form.
pub(super) fn summed(declarations: &Declarations, part: &tensor::Part, n_workers: usize) -> Part {
    let data_type = declarations.tensors()[part.tensor].data_type;
    let count = usize::try_from(part.elements).unwrap_or(usize::MAX);
    let choice = declarations.options(part.tensor).codec.filter(|_| data_type == DataType::F32);
    Part { count, data_type, codec: choice.map(|choice| Coded { choice, n_workers }) }
}

impl Coding {
    /// With what earlier groups and generations have left out.
    pub(super) fn new(residuals: Arc<Residuals>) -> Self {
        Self { residuals, ..Self::default() }
    }

    /// The work of encoding a part's contribution; none if it travels as it is.
    pub(super) fn encoding(&mut self, key: u32, summed: Part, contribution: &'static [u8]) -> Option<Job> {
        let choice = summed.codec?.choice;
        let residual = choice.wants_feedback().then(|| self.residuals.take(key));
        let pushed = self.take(choice, summed.pushed_bytes());
        Some(Job::new(key, choice, Work::Encode { contribution, residual, pushed }))
    }

    /// A part was encoded; how many bytes go out and come back.
    pub(super) fn encoded(
        &mut self,
        key: u32,
        summed: Part,
        residual: Option<Residual>,
        pushed: Vec<u8>,
    ) -> (u64, u64) {
        residual.into_iter().for_each(|residual| self.residuals.give_back(key, residual));
        let (pushed_bytes, answered_bytes) = (pushed.len(), summed.answered_bytes());
        if let Some(Coded { choice, .. }) = summed.codec {
            let answer = summed.is_answered_coded().then(|| Answer {
                bytes: self.take(choice, answered_bytes),
                grows_to: (!choice.has_one_length()).then_some(answered_bytes),
            });
            self.parts.insert(key, Encoded { choice, pushed: Arc::new(pushed), answer });
        }
        (pushed_bytes as u64, answered_bytes as u64)
    }

    /// The round of these parts is over.
    pub(super) fn settle(&self, keys: impl Iterator<Item = u32>) {
        self.residuals.settle(keys);
    }

    /// The rounds under way have failed; of their parts those that no thread has begun to encode, and those that are done.
    pub(super) fn give_up(&self, left: Vec<Job>, done: Vec<Job>) {
        let residual = |job: Job| match job.work {
            Work::Encode { residual, .. } => Some((job.key, residual?)),
            Work::Decode { .. } => None,
        };
        for (key, residual) in left.into_iter().filter_map(residual) {
            self.residuals.give_back_unused(key, residual);
        }
        for (key, residual) in done.into_iter().filter_map(residual) {
            self.residuals.give_back(key, residual);
        }
        self.residuals.undo();
    }

    /// What is pushed of a part, if it is encoded.
    pub(super) fn pushed(&self, key: u32) -> Option<Arc<Vec<u8>>> {
        self.parts.get(&key).map(|coded| Arc::clone(&coded.pushed))
    }

    /// Where bytes of the answer of a part go that comes back encoded, if it may have so many.
    pub(super) fn answer(&mut self, key: u32, offset: usize, len: usize) -> Option<Option<&mut [u8]>> {
        let Answer { bytes, grows_to } = self.parts.get_mut(&key)?.answer.as_mut()?;
        let end = offset.saturating_add(len);
        if grows_to.is_some_and(|most| end <= most) {
            bytes.resize(bytes.len().max(end), 0);
        }
        Some(bytes.get_mut(offset..end))
    }

    /// Whether only the last frame of a part's answer tells how long it is.
    pub(super) fn is_answer_open(&self, key: u32) -> bool {
        let answer = self.parts.get(&key).and_then(|coded| coded.answer.as_ref());
        answer.is_some_and(|answer| answer.grows_to.is_some())
    }

    /// A part is back: if it came encoded, the work of decoding it.
    pub(super) fn decoding(&mut self, key: u32, recv: Region, offset: usize, len: usize) -> Option<Job> {
        let Encoded { choice, pushed, answer } = self.parts.remove(&key)?;
        if choice.has_one_length() {
            self.buffers.give_shared(pushed);
        }
        let answer = answer?.bytes;
        Some(Job::new(key, choice, Work::Decode { answer, recv, offset, len }))
    }

    /// A part was decoded.
    pub(super) fn decoded(&mut self, choice: Choice, answer: Vec<u8>) {
        if choice.has_one_length() {
            self.buffers.give(answer);
        }
    }

    /// Memory for so many bytes; of a codec that makes another length each time it is new, and none.
    fn take(&mut self, choice: Choice, size_bytes: usize) -> Vec<u8> {
        if choice.has_one_length() { self.buffers.take(size_bytes) } else { Vec::new() }
    }
}
