//! Operators that a communicator's caller has made (`ncclRedOpCreatePreMulSum`).

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::error::{Error, Result};
use crate::lock::lock;
use crate::memory::Region;
use crate::types::DataType;

/// Operators of one communicator at most.
const MAX_OPERATORS: usize = 64 * 1024;
/// `ncclNumOps`: the first value that is no built-in operator.
const FIRST: c_int = 5;
/// Values are not reused, so that one of another communicator, or one that was destroyed, is found out.
static NEXT: AtomicI32 = AtomicI32::new(FIRST);

/// Multiplies a rank's contribution by its scalar, before the sum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PreMul {
    /// Of the scalar and of all operations with it.
    pub(crate) data_type: DataType,
    /// One element, read when an operation runs, or the bytes that were there when the operator was made.
    pub(crate) scalar: Scalar,
}

/// Where the scalar is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scalar {
    /// Its bytes; the type has no more than these.
    Immediate([u8; 8]),
    /// In the caller's memory, while operations with it run.
    Later(Region),
}

/// A communicator's operators.
#[derive(Debug, Default)]
pub(crate) struct Operators(Mutex<HashMap<c_int, PreMul>>);

impl Operators {
    /// A new operator's value.
    pub(crate) fn create(&self, operator: PreMul) -> Result<c_int> {
        let mut operators = lock(&self.0);
        let next = |value: c_int| value.checked_add(1);
        let value = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        match value {
            Ok(value) if operators.len() < MAX_OPERATORS => {
                operators.insert(value, operator);
                Ok(value)
            }
            _ => Err(Error::InvalidUsage(format!(
                "{} operators are there already: destroy what is not used",
                operators.len()
            ))),
        }
    }

    /// The operator of a value.
    pub(crate) fn find(&self, value: c_int) -> Result<PreMul> {
        lock(&self.0).get(&value).copied().ok_or_else(|| unknown(value))
    }

    /// Forgets an operator; operations that were given it keep it.
    pub(crate) fn destroy(&self, value: c_int) -> Result<()> {
        lock(&self.0).remove(&value).map(drop).ok_or_else(|| unknown(value))
    }
}

fn unknown(value: c_int) -> Error {
    Error::InvalidArgument(format!(
        "{value} is no ncclRedOp_t, or one of another communicator, or a destroyed one"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_belong_to_their_communicator_until_destroyed() {
        let (one, other) = (Operators::default(), Operators::default());
        let scalar = Scalar::Immediate([0; 8]);
        let value = one.create(PreMul { data_type: DataType::F32, scalar }).unwrap();
        assert!(value >= FIRST);
        assert_eq!(one.find(value).unwrap().data_type, DataType::F32);
        assert!(other.find(value).is_err());
        one.destroy(value).unwrap();
        assert!(one.find(value).is_err() && one.destroy(value).is_err());
    }
}
