//! Which tensors go first, the same in all processes: those of a lower priority, and of equals those declared earlier.

use crate::tensor::Declarations;

/// By tensor: its place in that order.
pub(super) fn urgencies(declarations: &Declarations) -> Vec<u32> {
    let mut order: Vec<usize> = (0..declarations.tensors().len()).collect();
    order.sort_by_key(|tensor| declarations.options(*tensor).priority);
    let mut urgencies = vec![0; order.len()];
    for (place, tensor) in (0..).zip(order) {
        urgencies[tensor] = place;
    }
    urgencies
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{Declaration, Options};
    use rsccl_collective::types::DataType;

    #[test]
    fn a_lower_priority_goes_first_and_then_an_earlier_declaration() {
        let mut declarations = Declarations::new(64).unwrap();
        for (name, priority) in [("a", 0), ("b", -1), ("c", 0), ("d", 7), ("e", -1)] {
            let tensor = Declaration { name: name.to_owned(), elements: 1, data_type: DataType::F32 };
            declarations.declare_with(tensor, Options { priority, codec: None }).unwrap();
        }
        assert_eq!(urgencies(&declarations), [2, 0, 3, 4, 1]);
    }
}
