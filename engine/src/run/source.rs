//! What an operation reads from, where that is not the caller's send buffer as it is: contributions that are multiplied
//! first, and an all-to-all in place, whose blocks would be overwritten before they are sent.
//!
//! Made when the operation runs, in the stream's order, and kept until its launch is over.

#![expect(unsafe_code, reason = "kernels work on raw memory")]

use crate::collective::operation::{Operation, Primitive};
use crate::comm::operators::{PreMul, Scalar};
use crate::error::Result;
use crate::kernels::Fold;
use crate::memory::{Buffers, Place, Region, Span};
use crate::types::RedOp;

/// The memory of one launch.
#[derive(Debug, Default)]
pub(crate) struct Sources(Vec<Vec<u8>>);

impl Sources {
    /// What the operation reads from.
    pub(crate) fn of(&mut self, operation: &Operation, n_ranks: usize) -> Result<Region> {
        let overwritten =
            operation.primitive == Primitive::AllToAll && operation.send.is_same(operation.recv);
        if !overwritten && operation.pre_mul.is_none() {
            return Ok(operation.send);
        }
        let blocks = matches!(operation.primitive, Primitive::AllToAll | Primitive::ReduceScatter);
        let len = operation.bytes() * if blocks { n_ranks } else { 1 };
        let mut copy = read(operation.send, len)?;
        if let Some(operator) = operation.pre_mul {
            multiply(&mut copy, operator)?;
        }
        let region = Region::of_slice(&copy);
        self.0.push(copy);
        Ok(region)
    }
}

fn read(region: Region, len: usize) -> Result<Vec<u8>> {
    let whole = Span { place: Place::Send, offset: 0, len };
    Buffers::new(region, region, 0).read(whole).map(<[u8]>::to_vec)
}

/// Products are rounded to the element type, as in NCCL.
fn multiply(elements: &mut [u8], operator: PreMul) -> Result<()> {
    let size_bytes = operator.data_type.size_bytes();
    let scalar = match operator.scalar {
        Scalar::Immediate(bytes) => bytes[..size_bytes].to_vec(),
        Scalar::Later(region) => read(region, size_bytes)?,
    };
    let fold = Fold { data_type: operator.data_type, op: RedOp::Sum, n_ranks: 1 };
    let (target, count) = (elements.as_mut_ptr(), elements.len() / size_bytes);
    // SAFETY: `count` elements are in the slice, which is the target and the source; the scalar is one element.
    unsafe { fold.scale(target, target, scalar.as_ptr(), count) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::DataType;

    #[test]
    fn each_element_is_multiplied() {
        let mut elements: Vec<u8> = (0..3000_i32).flat_map(i32::to_ne_bytes).collect();
        let mut scalar = [0; 8];
        scalar[..4].copy_from_slice(&(-3_i32).to_ne_bytes());
        multiply(&mut elements, PreMul { data_type: DataType::I32, scalar: Scalar::Immediate(scalar) })
            .unwrap();
        let expected: Vec<u8> = (0..3000_i32).flat_map(|value| (-3 * value).to_ne_bytes()).collect();
        assert_eq!(elements, expected);
    }

    #[test]
    fn a_later_scalar_is_read_when_it_is_needed() {
        let mut elements = 2.5_f64.to_ne_bytes();
        let mut scalar = 0_f64.to_ne_bytes();
        let operator =
            PreMul { data_type: DataType::F64, scalar: Scalar::Later(Region::of_slice_mut(&mut scalar)) };
        scalar.copy_from_slice(&4_f64.to_ne_bytes());
        multiply(&mut elements, operator).unwrap();
        assert_eq!(f64::from_ne_bytes(elements), 10.0);
    }
}
