//! Gradients in fewer bytes: what travels of a part, and a worker's side of it.
//!
//! Each part of a tensor that has a codec, however short the part is, is encoded before it is pushed, with what the last round left out where the codec
//! loses much. Halves are answered as halves, rounded once. One-bit and top-k are answered as `f32`: the sum of n sparse or
//! signed gradients is neither, and a service that encoded it again would have to keep what it left out, which would end with
//! it when services come and go.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::codec::{Choice, CodecError, Feedback};
use crate::server::part::Part;
use crate::tensor::{self, Declarations};
use rsccl_collective::types::DataType;

/// What a worker keeps of the parts that it has encoded.
#[derive(Debug, Default)]
pub(super) struct Coding {
    /// What the rounds of a part have left out, where its codec loses much.
    feedback: BTreeMap<u32, Feedback>,
    parts: BTreeMap<u32, Coded>,
    /// Of one part, kept for its memory.
    elements: Vec<f32>,
}

/// A part under way.
#[derive(Debug)]
struct Coded {
    choice: Choice,
    pushed: Arc<Vec<u8>>,
    /// Empty if it is answered as `f32`.
    answer: Vec<u8>,
}

/// What services sum of a part, in which form.
pub(super) fn summed(declarations: &Declarations, part: &tensor::Part) -> Part {
    let data_type = declarations.tensors()[part.tensor].data_type;
    let count = usize::try_from(part.elements).unwrap_or(usize::MAX);
    let codec = declarations.options(part.tensor).codec.filter(|_| data_type == DataType::F32);
    Part { count, data_type, codec }
}

impl Coding {
    /// Encodes a part's contribution; how many bytes go there and come back.
    ///
    /// # Errors
    /// The part is too long for its codec.
    pub(super) fn encode(
        &mut self,
        part: &tensor::Part,
        summed: Part,
        contribution: &[u8],
    ) -> Result<(u64, u64), CodecError> {
        let Some(choice) = summed.codec else { return Ok((part.size_bytes, part.size_bytes)) };
        let (floats, _) = contribution.as_chunks();
        self.elements.clear();
        self.elements.extend(floats.iter().map(|float| f32::from_ne_bytes(*float)));
        let (mut pushed, codec) = (Vec::new(), choice.codec());
        if choice.wants_feedback() {
            let feedback = self.feedback.entry(part.key).or_default();
            feedback.encode(codec.as_ref(), &self.elements, &mut pushed)?;
        } else {
            codec.encode(&self.elements, &mut pushed)?;
        }
        let answer = if choice.answers_alike() { vec![0; summed.answered_bytes()] } else { Vec::new() };
        let bytes = (pushed.len() as u64, summed.answered_bytes() as u64);
        self.parts.insert(part.key, Coded { choice, pushed: Arc::new(pushed), answer });
        Ok(bytes)
    }

    /// What is pushed of a part, if it is encoded.
    pub(super) fn pushed(&self, key: u32) -> Option<Arc<Vec<u8>>> {
        self.parts.get(&key).map(|coded| Arc::clone(&coded.pushed))
    }

    /// Where the answer of a part goes that comes back encoded.
    pub(super) fn answer(&mut self, key: u32) -> Option<&mut [u8]> {
        self.parts.get_mut(&key).map(|coded| coded.answer.as_mut_slice()).filter(|answer| !answer.is_empty())
    }

    /// A part is back: if it came encoded, its elements.
    ///
    /// # Errors
    /// What came is no such part.
    pub(super) fn finish(&mut self, key: u32, count: usize) -> Result<Option<Vec<u8>>, CodecError> {
        let Some(Coded { choice, answer, .. }) = self.parts.remove(&key) else { return Ok(None) };
        if answer.is_empty() {
            return Ok(None);
        }
        self.elements.resize(count, 0.0);
        choice.codec().decode(&answer, &mut self.elements)?;
        Ok(Some(self.elements.iter().flat_map(|element| element.to_ne_bytes()).collect()))
    }
}
