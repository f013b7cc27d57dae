//! One part that is to be encoded or decoded: taken from a worker's side, for any thread to do, and taken back with what
//! came of it.

use super::residuals::Residual;
use crate::codec::{Choice, CodecError};
use rsccl_collective::clock;
use rsccl_collective::error::{Error, Result};
use rsccl_collective::kernels::gradients;
use rsccl_collective::memory::{Buffers, Own, Place, Region, Span};

/// A part and what is to be done with it. It reads and writes its caller's memory, so none may be left where callers are told
/// that their rounds are over.
#[derive(Debug)]
pub(in crate::run) struct Job {
    pub(in crate::run) key: u32,
    pub(in crate::run) work: Work,
    pub(in crate::run) choice: Choice,
    /// How it ended, once it was run.
    outcome: Result<()>,
    took_ns: u64,
}

/// What is to be done.
#[derive(Debug)]
pub(in crate::run) enum Work {
    /// To be sent.
    Encode {
        contribution: &'static [u8],
        /// Where the codec loses much.
        residual: Option<Residual>,
        /// What is pushed, once it was run; before that its memory.
        pushed: Vec<u8>,
    },
    /// Back.
    Decode {
        answer: Vec<u8>,
        /// The tensor's, and where the part is in it.
        recv: Region,
        offset: usize,
        len: usize,
    },
}

impl Job {
    /// To be run.
    pub(super) fn new(key: u32, choice: Choice, work: Work) -> Self {
        Self { key, work, choice, outcome: Ok(()), took_ns: 0 }
    }

    /// Bytes of the part's elements.
    pub(in crate::run) fn size_bytes(&self) -> usize {
        match &self.work {
            Work::Encode { contribution, .. } => contribution.len(),
            Work::Decode { len, .. } => *len,
        }
    }

    /// How it ended.
    pub(in crate::run) fn outcome(&self) -> Result<()> {
        self.outcome.clone()
    }

    /// How long it took.
    pub(in crate::run) fn took_ns(&self) -> u64 {
        self.took_ns
    }

    /// Does it.
    pub(in crate::run) fn run(&mut self) {
        let start_ns = clock::monotonic_ns();
        self.outcome = match &mut self.work {
            Work::Encode { contribution, residual, pushed } => {
                encode(self.choice, contribution, residual.as_mut(), pushed).map_err(|error| wrong(&error))
            }
            Work::Decode { answer, recv, offset, len } => {
                decode(self.choice, answer, *recv, Span { place: Place::Recv, offset: *offset, len: *len })
            }
        };
        self.took_ns = clock::monotonic_ns().saturating_sub(start_ns);
    }
}

fn encode(
    choice: Choice,
    contribution: &[u8],
    residual: Option<&mut Residual>,
    pushed: &mut Vec<u8>,
) -> std::result::Result<(), CodecError> {
    let unaligned: Vec<f32>;
    let gradient = match gradients::floats(contribution) {
        Some(floats) => floats,
        None => {
            unaligned = contribution.as_chunks().0.iter().map(|float| f32::from_ne_bytes(*float)).collect();
            &unaligned
        }
    };
    pushed.clear();
    match residual {
        Some(residual) => residual.encode(choice.codec().as_ref(), gradient, pushed),
        None => choice.codec().encode(gradient, pushed),
    }
}

fn decode(choice: Choice, answer: &[u8], recv: Region, span: Span) -> Result<()> {
    let mut buffers = Buffers::new(recv, recv, Own::default(), 0, 0);
    let into = buffers.write(span)?;
    if let Some(into) = gradients::floats_mut(into) {
        return choice.codec().decode(answer, into).map_err(|error| wrong(&error));
    }
    let mut elements = vec![0.0_f32; into.len() / size_of::<f32>()];
    choice.codec().decode(answer, &mut elements).map_err(|error| wrong(&error))?;
    for (place, element) in into.as_chunks_mut().0.iter_mut().zip(elements) {
        *place = element.to_ne_bytes();
    }
    Ok(())
}

fn wrong(error: &CodecError) -> Error {
    Error::Internal(error.to_string())
}
