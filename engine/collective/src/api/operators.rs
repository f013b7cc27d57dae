//! Operators made by the caller.

#![expect(unsafe_code, reason = "exported C functions")]

use std::ffi::{c_int, c_void};

use crate::api::fence::{export, guard};
use crate::api::place::{self, Out};
use crate::comm::operators::{PreMul, Scalar};
use crate::comm::registry;
use crate::error::{Error, Result};
use crate::memory::Region;
use crate::types::DataType;

/// `ncclComm_t`
type Handle = *mut c_void;

export! {
    /// A sum of what each rank's contribution is after it was multiplied by the rank's scalar.
    fn ncclRedOpCreatePreMulSum / pncclRedOpCreatePreMulSum(
        op: *mut c_int, scalar: *mut c_void, data_type: c_int, residence: c_int, comm: Handle,
    ) -> c_int {
        guard(|| {
            // SAFETY: the caller's place.
            let place = unsafe { Out::new(op, "op") }?;
            let comm = registry::find(comm.addr())?;
            let data_type = DataType::from_c(data_type)?;
            // SAFETY: the caller's scalar: now, or while operations with it run.
            let scalar = unsafe { read_scalar(scalar, data_type, residence) }?;
            place.set(comm.operators.create(PreMul { data_type, scalar })?);
            Ok(())
        })
    }

    /// Forgets an operator; operations that were given it still run.
    fn ncclRedOpDestroy / pncclRedOpDestroy(op: c_int, comm: Handle) -> c_int {
        guard(|| {
            if (0..5).contains(&op) {
                return Err(Error::InvalidArgument(format!("op {op} is built in and stays")));
            }
            registry::find(comm.addr())?.operators.destroy(op)
        })
    }
}

/// # Safety
/// `scalar` is NULL or one element: now, if immediate; else while operations run.
unsafe fn read_scalar(scalar: *mut c_void, data_type: DataType, residence: c_int) -> Result<Scalar> {
    let size_bytes = data_type.size_bytes();
    match residence {
        // SAFETY: by this function's contract.
        0 => unsafe { Region::new(scalar, size_bytes, "scalar") }.map(Scalar::Later),
        1 => {
            let count = c_int::try_from(size_bytes).unwrap_or_default();
            let mut bytes = [0; 8];
            // SAFETY: by this function's contract.
            bytes[..size_bytes]
                .copy_from_slice(unsafe { place::array(scalar.cast::<u8>(), count, "scalar") }?);
            Ok(Scalar::Immediate(bytes))
        }
        _ => Err(Error::InvalidArgument(format!("residence {residence} is no ncclScalarResidence_t"))),
    }
}
