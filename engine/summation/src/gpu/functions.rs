//! Fence: the functions of the CUDA driver that are used here, looked up in the library that the process has.
//!
//! Types and constants are cudarc's; its functions are not called. Those open `libcuda.so` by a list of names, which may
//! be another library than the one that the program uses (CUDA's stubs), panic where a driver lacks a function, and return
//! results as a Rust enum, in which a newer driver's code would be undefined behaviour. Here they return numbers.

#![expect(unsafe_code, reason = "looks functions up in a C library")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use cudarc::driver::sys::{CUcontext, CUdevice, CUdeviceptr, CUevent, CUstream};
use libloading::os::unix::Library;

use rsccl_collective::error::{Error, Result};

/// What every function returns: a `CUresult`.
pub(super) type Code = c_uint;

macro_rules! functions {
    ($($name:ident = $symbol:literal ($($type:ty),* $(,)?);)*) => {
        /// The driver's functions, with the signatures of `cuda.h`.
        #[derive(Clone, Copy, Debug)]
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($type),*) -> Code,)*
        }

        impl Functions {
            /// All of them.
            ///
            /// # Errors
            /// The driver is so old that it lacks one.
            pub(super) fn of(library: &Library) -> Result<Self> {
                // SAFETY: each symbol is the function of this name in cuda.h, which has this signature.
                Ok(Self { $($name: unsafe { find(library, $symbol) }?,)* })
            }
        }
    };
}

functions! {
    ctx_get_current = c"cuCtxGetCurrent" (*mut CUcontext);
    ctx_get_device = c"cuCtxGetDevice" (*mut CUdevice);
    ctx_pop_current = c"cuCtxPopCurrent_v2" (*mut CUcontext);
    ctx_push_current = c"cuCtxPushCurrent_v2" (CUcontext);
    event_create = c"cuEventCreate" (*mut CUevent, c_uint);
    event_destroy = c"cuEventDestroy_v2" (CUevent);
    event_query = c"cuEventQuery" (CUevent);
    event_record = c"cuEventRecord" (CUevent, CUstream);
    get_error_name = c"cuGetErrorName" (Code, *mut *const c_char);
    mem_free_host = c"cuMemFreeHost" (*mut c_void);
    mem_host_alloc = c"cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    memcpy_dtoh_async = c"cuMemcpyDtoHAsync_v2" (*mut c_void, CUdeviceptr, usize, CUstream);
    memcpy_htod_async = c"cuMemcpyHtoDAsync_v2" (CUdeviceptr, *const c_void, usize, CUstream);
    pointer_get_attribute = c"cuPointerGetAttribute" (*mut c_void, c_uint, CUdeviceptr);
    stream_create = c"cuStreamCreate" (*mut CUstream, c_uint);
    stream_destroy = c"cuStreamDestroy_v2" (CUstream);
    stream_get_ctx = c"cuStreamGetCtx" (CUstream, *mut CUcontext);
    stream_is_capturing = c"cuStreamIsCapturing" (CUstream, *mut c_uint);
    stream_synchronize = c"cuStreamSynchronize" (CUstream);
    thread_exchange_stream_capture_mode = c"cuThreadExchangeStreamCaptureMode" (*mut c_int);
}

/// # Safety
/// `F` is the type of the function of this name.
unsafe fn find<F: Copy>(library: &Library, symbol: &CStr) -> Result<F> {
    // SAFETY: by this function's contract.
    let found = unsafe { library.get::<F>(symbol.to_bytes_with_nul()) };
    found.map(|found| *found).map_err(|_| {
        let name = symbol.to_string_lossy();
        Error::System(format!(
            "the CUDA driver has no {name}: tensors on a GPU need one of CUDA 10.1 or later"
        ))
    })
}
