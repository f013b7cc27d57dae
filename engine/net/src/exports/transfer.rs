//! Fence: memory is registered, and data go. A request is a [`Token`] of its connection.

#![expect(unsafe_code, reason = "functions that C calls, with pointers")]

use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};

use nccl_net::Code;
use verbs::{Access, Region};

use crate::config::settings;
use crate::device::Device;
use crate::exports::MAX_MESSAGE_BYTES;
use crate::exports::connect::{End, Shared, Token, end, shared, token};
use crate::exports::fence::{fence, object, put};
use crate::failure::{Failure, Result};
use crate::link::own;
use crate::memory::{Registered, pages};

/// Registers whole pages, or finds that they are.
fn register(
    comm: &Shared,
    (address, len): (u64, usize),
    region: impl FnOnce(&Device, (u64, u64)) -> verbs::Result<Region>,
) -> Result<*mut c_void> {
    let range = pages(address, len);
    let taken = comm.device.cache().take(range, || region(&comm.device, range));
    let (registered, was_there) = taken.map_err(|error| {
        let text = format!("{}, for a connection with {}: {error}", own(&comm.device), comm.peer);
        let failure = Failure { text, ..error.into() };
        comm.registrations.note_refused(failure.clone());
        failure
    })?;
    comm.registrations.note(was_there);
    Ok(Box::into_raw(Box::new(registered)).cast())
}

fn access() -> Access {
    Access { relaxed_ordering: settings().relaxed_ordering, ..Access::ALL }
}

/// # Safety
/// NCCL's: a connection; memory that stays until it is given back; room for a pointer.
pub(super) unsafe extern "C" fn register_memory(
    comm: *mut c_void,
    data: *mut c_void,
    len: usize,
    _kind: c_int,
    memory: *mut *mut c_void,
) -> Code {
    fence(|| {
        // SAFETY: NCCL's promise.
        let comm = unsafe { shared(comm) }?;
        let made = register(comm, (data as u64, len), |device, (start, end)| {
            let len = usize::try_from(end - start).unwrap_or(usize::MAX);
            let start = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(
                usize::try_from(start).unwrap_or(0),
            ));
            let start = start.ok_or(verbs::Error::OutOfRegion { offset: 0, end: len, len: 0 })?;
            // SAFETY: NCCL's promise for the memory; the rest of its pages is mapped as they are, and only what peers are told of
            // is written.
            unsafe { device.domain.register(start, len, access()) }
        })?;
        // SAFETY: NCCL's promise.
        unsafe { put(memory, made) }
    })
}

/// # Safety
/// NCCL's: a connection, the descriptor of a dma-buf, room for a pointer.
pub(super) unsafe extern "C" fn register_dma_buf(
    comm: *mut c_void,
    data: *mut c_void,
    len: usize,
    _kind: c_int,
    offset: u64,
    fd: c_int,
    memory: *mut *mut c_void,
) -> Code {
    fence(|| {
        // SAFETY: NCCL's promise.
        let comm = unsafe { shared(comm) }?;
        let address = data as u64;
        let made = register(comm, (address, len), |device, (start, end)| {
            let len = usize::try_from(end - start).unwrap_or(usize::MAX);
            // The first byte of the page lies before the buffer's where the buffer does not begin with a page.
            let outside = verbs::Error::OutOfRegion { offset: 0, end: len, len: 0 };
            let offset = offset.checked_sub(address - start).ok_or(outside)?;
            // SAFETY: NCCL's promise: the descriptor is open during the call.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            device.domain.register_dma_buf(fd, offset, len, start, access())
        })?;
        // SAFETY: NCCL's promise.
        unsafe { put(memory, made) }
    })
}

/// # Safety
/// NCCL's: a connection, and memory that was registered, given back once.
pub(super) unsafe extern "C" fn deregister(comm: *mut c_void, memory: *mut c_void) -> Code {
    fence(|| {
        // SAFETY: NCCL's promise.
        let comm = unsafe { shared(comm) }?;
        if !memory.is_null() {
            // SAFETY: made by a registration, and given back once.
            let registered = unsafe { Box::from_raw(memory.cast::<Registered>()) };
            comm.device.cache().release(&registered);
        }
        Ok(())
    })
}

/// # Safety
/// NCCL's: a sending connection, registered memory, room for a pointer.
unsafe fn send(
    comm: *mut c_void,
    data: *mut c_void,
    len: usize,
    memory: *mut c_void,
    request: *mut *mut c_void,
) -> Code {
    fence(|| {
        // SAFETY: NCCL's promise.
        unsafe { put(request, null_mut()) }?;
        // SAFETY: as above.
        let which = unsafe { end(comm) }?;
        // SAFETY: as above.
        let memory: &Registered = unsafe { object(memory) }?;
        let End::Send(sender) = which else {
            return Err(Failure::internal("a send on a receiving connection"));
        };
        if len > MAX_MESSAGE_BYTES {
            return Err(Failure::internal(format!("a message of {len} bytes; {MAX_MESSAGE_BYTES} at most")));
        }
        let place = sender.send(data as u64, len, memory)?;
        // SAFETY: as above.
        let token = unsafe { token(comm, place, false) };
        // SAFETY: as above.
        unsafe { put(request, token) }
    })
}

/// # Safety
/// As for [`send`].
pub(super) unsafe extern "C" fn send_v8(
    comm: *mut c_void,
    data: *mut c_void,
    len: c_int,
    _tag: c_int,
    memory: *mut c_void,
    request: *mut *mut c_void,
) -> Code {
    // SAFETY: the caller's promise.
    unsafe { send(comm, data, usize::try_from(len).unwrap_or(usize::MAX), memory, request) }
}

/// # Safety
/// As for [`send`].
pub(super) unsafe extern "C" fn send_v9(
    comm: *mut c_void,
    data: *mut c_void,
    len: usize,
    _tag: c_int,
    memory: *mut c_void,
    request: *mut *mut c_void,
) -> Code {
    // SAFETY: the caller's promise.
    unsafe { send(comm, data, len, memory, request) }
}

/// # Safety
/// As for [`send`].
pub(super) unsafe extern "C" fn send_v10(
    comm: *mut c_void,
    data: *mut c_void,
    len: usize,
    _tag: c_int,
    memory: *mut c_void,
    _event: *mut c_void,
    request: *mut *mut c_void,
) -> Code {
    // SAFETY: the caller's promise.
    unsafe { send(comm, data, len, memory, request) }
}

/// # Safety
/// NCCL's: a receiving connection, lists of `n`, room for a pointer.
unsafe fn receive(
    comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    room: Option<usize>,
    memory: *mut *mut c_void,
    request: *mut *mut c_void,
) -> Code {
    fence(|| {
        // SAFETY: NCCL's promise.
        unsafe { put(request, null_mut()) }?;
        // SAFETY: as above.
        let which = unsafe { end(comm) }?;
        let End::Receive(receiver) = which else {
            return Err(Failure::internal("a receive on a sending connection"));
        };
        let (1, Some(room)) = (n, room) else {
            return Err(Failure::internal(format!("{n} receives at once; this network takes one")));
        };
        // SAFETY: NCCL's promise: lists of one.
        let data = unsafe { data.read() };
        // SAFETY: as above.
        let memory = unsafe { memory.read() };
        // SAFETY: as above.
        let memory: &Registered = unsafe { object(memory) }?;
        let place = receiver.receive(data as u64, room, memory)?;
        // SAFETY: as above.
        let token = unsafe { token(comm, place, false) };
        // SAFETY: as above.
        unsafe { put(request, token) }
    })
}

/// # Safety
/// As for [`receive`].
pub(super) unsafe extern "C" fn receive_v8(
    comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut c_int,
    _tags: *mut c_int,
    memory: *mut *mut c_void,
    request: *mut *mut c_void,
) -> Code {
    // SAFETY: the caller's promise: null or a list of one at least.
    let room = unsafe { sizes.as_ref() }.and_then(|size| usize::try_from(*size).ok());
    // SAFETY: the caller's promise.
    unsafe { receive(comm, n, data, room, memory, request) }
}

/// # Safety
/// As for [`receive`].
pub(super) unsafe extern "C" fn receive_v9(
    comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut usize,
    _tags: *mut c_int,
    memory: *mut *mut c_void,
    request: *mut *mut c_void,
) -> Code {
    // SAFETY: the caller's promise: null or a list of one at least.
    let room = unsafe { sizes.as_ref() }.copied();
    // SAFETY: the caller's promise.
    unsafe { receive(comm, n, data, room, memory, request) }
}

/// # Safety
/// As for [`receive`].
pub(super) unsafe extern "C" fn receive_v10(
    comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut usize,
    _tags: *mut c_int,
    memory: *mut *mut c_void,
    _events: *mut *mut c_void,
    request: *mut *mut c_void,
) -> Code {
    // SAFETY: the caller's promise: null or a list of one at least.
    let room = unsafe { sizes.as_ref() }.copied();
    // SAFETY: the caller's promise.
    unsafe { receive(comm, n, data, room, memory, request) }
}

/// Of several receives, the last one is flushed: what came before it is behind the same read.
///
/// # Safety
/// NCCL's: a receiving connection, lists of `n`, room for a pointer.
pub(super) unsafe extern "C" fn flush(
    comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut c_int,
    memory: *mut *mut c_void,
    request: *mut *mut c_void,
) -> Code {
    fence(|| {
        // SAFETY: NCCL's promise.
        unsafe { put(request, null_mut()) }?;
        // SAFETY: as above.
        let which = unsafe { end(comm) }?;
        let End::Receive(receiver) = which else {
            return Err(Failure::internal("a flush on a sending connection"));
        };
        let count = usize::try_from(n).unwrap_or(0);
        // SAFETY: NCCL's promise: lists of so many.
        let sizes = unsafe { std::slice::from_raw_parts(sizes, count) };
        let Some(last) = sizes.iter().rposition(|size| *size > 0) else { return Ok(()) };
        // SAFETY: as above.
        let memory = unsafe { std::slice::from_raw_parts(memory, count) };
        // SAFETY: as above.
        let data = unsafe { std::slice::from_raw_parts(data, count) };
        // SAFETY: NCCL's promise: each is registered memory.
        let memory: &Registered = unsafe { object(memory[last]) }?;
        let place = receiver.flush(data[last] as u64, memory)?;
        // SAFETY: as above.
        let token = unsafe { token(comm, Some(place), true) };
        // SAFETY: NCCL's promise.
        unsafe { put(request, token) }
    })
}

/// # Safety
/// NCCL's: a request in flight, room for the result; `sizes` may be null.
pub(super) unsafe extern "C" fn test(request: *mut c_void, done: *mut c_int, sizes: *mut c_int) -> Code {
    fence(|| {
        // SAFETY: NCCL's promise.
        unsafe { put(done, 0) }?;
        // SAFETY: as above: a token, which lies in memory of its connection's.
        let Token { comm, place, is_flush } = *unsafe { object::<Token>(request) }?;
        // SAFETY: a token's connection lives as long as it does.
        let which = unsafe { end(comm.cast()) }?;
        let bytes = match which {
            End::Send(sender) => sender.test(place)?,
            End::Receive(receiver) if is_flush => receiver.test_flush(place)?,
            End::Receive(receiver) => receiver.test(place)?,
        };
        let Some(bytes) = bytes else { return Ok(()) };
        if !sizes.is_null() {
            // SAFETY: NCCL's promise.
            unsafe { put(sizes, c_int::try_from(bytes).unwrap_or(c_int::MAX)) }?;
        }
        // SAFETY: as above.
        unsafe { put(done, 1) }
    })
}
