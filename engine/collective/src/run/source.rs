//! Contributions that are multiplied before they are reduced (`ncclRedOpCreatePreMulSum`).
//!
//! Made when the operation runs, in the stream's order.

#![expect(unsafe_code, reason = "kernels work on raw memory")]

use crate::comm::operators::{PreMul, Scalar};
use crate::error::Result;
use crate::kernels::Reducer;
use crate::memory::{Buffers, Own, Place, Region, Span};
use crate::types::RedOp;

fn read(region: Region, len: usize) -> Result<Vec<u8>> {
    let whole = Span { place: Place::Send, offset: 0, len };
    Buffers::new(region, region, Own::default(), 0, 0).read(whole).map(<[u8]>::to_vec)
}

/// Multiplies elements in place. Products are rounded to the element type, as in NCCL.
pub(crate) fn multiply(elements: &mut [u8], operator: PreMul) -> Result<()> {
    let size_bytes = operator.data_type.size_bytes();
    let scalar = match operator.scalar {
        Scalar::Immediate(bytes) => bytes[..size_bytes].to_vec(),
        Scalar::Later(region) => read(region, size_bytes)?,
    };
    let reducer = Reducer::new(operator.data_type, RedOp::Sum, 1);
    let (target, count) = (elements.as_mut_ptr(), elements.len() / size_bytes);
    // SAFETY: `count` elements are in the slice, which is the target and the source; the scalar is one element.
    unsafe { reducer.scale(target, target, scalar.as_ptr(), count) };
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
