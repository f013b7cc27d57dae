//! What a node does.

use crate::error::{Error, Result};
use crate::memory::Part;
use crate::memory::map::{floats, floats_mut};
use crate::tensor::Shape;

/// A node's computation. Closures over a [`Call`] are kernels whose outputs all have known shapes.
pub trait Kernel {
    /// The shapes of the outputs, for nodes that have some of unknown shape.
    ///
    /// # Errors
    /// In words: the inputs do not fit.
    fn shapes(&mut self, inputs: &[&Shape]) -> std::result::Result<Vec<Shape>, String> {
        let _ = inputs;
        Err("makes a tensor of unknown shape, but its kernel does not say which shape".to_owned())
    }

    /// Computes.
    ///
    /// # Errors
    /// In words: what went wrong.
    fn run(&mut self, call: &mut Call<'_>) -> std::result::Result<(), String>;
}

impl<F: FnMut(&mut Call<'_>) -> std::result::Result<(), String>> Kernel for F {
    fn run(&mut self, call: &mut Call<'_>) -> std::result::Result<(), String> {
        self(call)
    }
}

/// A node's inputs, and its outputs to be written.
pub type Operands<'a, T> = (Vec<&'a [T]>, Vec<&'a mut [T]>);

/// One run of a node: its inputs and outputs.
#[derive(Debug)]
pub struct Call<'a> {
    iteration: u64,
    inputs: &'a [(Shape, Part)],
    outputs: &'a [(Shape, Part)],
}

impl<'a> Call<'a> {
    /// # Errors
    /// An output overlaps another operand without being the very same memory, which a plan excludes.
    pub(super) fn new(
        iteration: u64,
        inputs: &'a [(Shape, Part)],
        outputs: &'a [(Shape, Part)],
    ) -> Result<Self> {
        for (number, (_, output)) in outputs.iter().enumerate() {
            let others = outputs.iter().take(number).chain(inputs).map(|(_, part)| part);
            for other in others.filter(|other| output.overlaps(other)) {
                if !is_same(output, other)
                    || inputs.iter().filter(|(_, part)| is_same(part, output)).count() > 1
                {
                    return Err(Error::Usage("two operands of a node overlap".to_owned()));
                }
            }
        }
        Ok(Self { iteration, inputs, outputs })
    }

    /// The iteration, from 0 on.
    pub fn iteration(&self) -> u64 {
        self.iteration
    }

    /// The inputs' shapes.
    pub fn input_shapes(&self) -> impl Iterator<Item = &Shape> {
        self.inputs.iter().map(|(shape, _)| shape)
    }

    /// The outputs' shapes.
    pub fn output_shapes(&self) -> impl Iterator<Item = &Shape> {
        self.outputs.iter().map(|(shape, _)| shape)
    }

    /// All operands as bytes. An input that is changed in place is empty: it is the first output.
    pub fn bytes(&mut self) -> Operands<'_, u8> {
        let is_changed = |part: &Part| self.outputs.iter().any(|(_, output)| is_same(part, output));
        let input =
            |(_, part): &'a (Shape, Part)| -> &[u8] { if is_changed(part) { &[] } else { part.bytes() } };
        (
            self.inputs.iter().map(input).collect(),
            self.outputs.iter().map(|(_, part)| part.bytes_mut()).collect(),
        )
    }

    /// The same as single-precision floats.
    ///
    /// # Errors
    /// In words: an operand is none.
    pub fn floats(&mut self) -> std::result::Result<Operands<'_, f32>, String> {
        let (inputs, outputs) = self.bytes();
        let inputs: Option<Vec<&[f32]>> = inputs.into_iter().map(floats).collect();
        let outputs: Option<Vec<&mut [f32]>> = outputs.into_iter().map(floats_mut).collect();
        inputs.zip(outputs).ok_or_else(|| "an operand is not of whole single-precision floats".to_owned())
    }
}

/// Whether both are the same bytes.
fn is_same(one: &Part, other: &Part) -> bool {
    one.size_bytes() > 0
        && one.overlaps(other)
        && (one.offset(), one.size_bytes()) == (other.offset(), other.size_bytes())
}
