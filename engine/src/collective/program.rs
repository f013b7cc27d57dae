//! What one channel of one rank does for one operation: sends and receives in order, with what each waits for.
//!
//! A program is pure data. Each list runs in order; a step may also wait for steps of the other list, by count. Chunks
//! are cut into parts of at most [`STEP_BYTES`], so that a part can travel on while the next one arrives. Empty chunks
//! have no parts: both ends of a connection cut them alike.

use crate::memory::Span;

/// Payload of one transfer at most. NCCL's socket transport also moves 512 KiB per step (4 MiB buffer / 8 steps).
pub(crate) const STEP_BYTES: usize = 512 * 1024;

/// One transfer to the next rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SendStep {
    /// What is sent.
    pub(crate) from: Span,
    /// Receives that must be done before.
    pub(crate) after_recvs: usize,
}

/// One transfer from the previous rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecvStep {
    /// Where the result goes.
    pub(crate) into: Span,
    /// What becomes of the data.
    pub(crate) action: Action,
    /// Sends that must be done before, where `into` is still being sent from.
    pub(crate) after_sends: usize,
}

/// What is done with received data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Stored as it is.
    Copy,
    /// Reduced with this rank's contribution.
    Reduce {
        /// The contribution.
        with: Span,
        /// Whether this was the last contribution, so that an average is divided now.
        last: bool,
    },
}

/// The steps of one channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Program {
    /// Local copies, before anything else.
    pub(crate) copies: Vec<(Span, Span)>,
    /// In order.
    pub(crate) sends: Vec<SendStep>,
    /// In order.
    pub(crate) recvs: Vec<RecvStep>,
    /// Bytes of scratch memory.
    pub(crate) scratch_bytes: usize,
}

/// When a chunk may be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ready {
    /// At once.
    Now,
    /// Part by part, as the receive that starts at this index proceeds.
    Following(usize),
}

impl Program {
    /// Sends `chunk`.
    pub(crate) fn send(&mut self, chunk: Span, ready: Ready) {
        for (index, from) in parts(chunk).enumerate() {
            let after_recvs = match ready {
                Ready::Now => 0,
                Ready::Following(first) => first + index + 1,
            };
            self.sends.push(SendStep { from, after_recvs });
        }
    }

    /// Receives a chunk and stores it.
    pub(crate) fn recv_copy(&mut self, into: Span) -> Ready {
        let first = self.recvs.len();
        self.recvs.extend(parts(into).map(|into| RecvStep { into, action: Action::Copy, after_sends: 0 }));
        Ready::Following(first)
    }

    /// Receives a chunk and reduces it with `with`, once `after_sends` sends are done.
    pub(crate) fn recv_reduce(&mut self, into: Span, with: Span, last: bool, after_sends: usize) -> Ready {
        let first = self.recvs.len();
        for (into, with) in parts(into).zip(parts(with)) {
            self.recvs.push(RecvStep { into, action: Action::Reduce { with, last }, after_sends });
        }
        Ready::Following(first)
    }

    /// Payload bytes that this rank sends.
    #[cfg(test)]
    pub(crate) fn sent_bytes(&self) -> usize {
        self.sends.iter().map(|step| step.from.len).sum()
    }
}

fn parts(span: Span) -> impl Iterator<Item = Span> {
    (0..span.len.div_ceil(STEP_BYTES)).map(move |index| {
        let start = index * STEP_BYTES;
        Span { offset: span.offset + start, len: STEP_BYTES.min(span.len - start), ..span }
    })
}
