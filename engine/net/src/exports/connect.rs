//! Fence: connections are made and closed. Objects are boxes that their pointers stand for.

#![expect(unsafe_code, reason = "functions that C calls, with pointers")]

use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use nccl_net::{Code, Config, HANDLE_BYTES, MAX_REQUESTS};

use crate::device::{self, Device};
use crate::exports::fence::{fence, object, put};
use crate::exports::setup::{Context, traffic_class};
use crate::failure::{Failure, Result};
use crate::link::{Link, Registrations};
use crate::receive::Receiver;
use crate::rendezvous::{Calling, Listening, Wishes};
use crate::send::Sender;
use crate::wire::Handle;

/// Where in a handle the sender keeps what it is at: the last eight bytes, which are zero at first.
const STAGE: usize = HANDLE_BYTES - 8;

/// One end, as its pointer stands for it. NCCL registers memory for it on another thread than the one that sends and receives, so
/// each is reached by itself, and never the whole.
#[derive(Debug)]
pub(super) struct Comm {
    end: End,
    shared: Shared,
    /// One for each place of a request, and one for each flush.
    tokens: [Token; 2 * MAX_REQUESTS],
}

/// What any thread may look at.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) device: Arc<Device>,
    pub(super) registrations: Arc<Registrations>,
    /// The other end, as errors name it.
    pub(super) peer: String,
}

#[derive(Debug)]
pub(super) enum End {
    Send(Box<Sender>),
    Receive(Box<Receiver>),
}

/// A request, as its pointer stands for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) comm: *mut Comm,
    pub(super) place: usize,
    pub(super) is_flush: bool,
}

/// # Safety
/// NCCL's: room for a handle and for a pointer.
unsafe fn listen(wishes: Wishes, number: c_int, handle: *mut c_void, listening: *mut *mut c_void) -> Code {
    fence(|| {
        let (made, found) = Listening::new(device::numbered(number)?, wishes)?;
        // SAFETY: NCCL's promise.
        unsafe { put(handle.cast::<[u8; HANDLE_BYTES]>(), found.to_bytes()) }?;
        // SAFETY: as above.
        unsafe { put(listening, Box::into_raw(Box::new(made)).cast()) }
    })
}

/// # Safety
/// As for [`listen`].
pub(super) unsafe extern "C" fn listen_v8(
    number: c_int,
    handle: *mut c_void,
    listening: *mut *mut c_void,
) -> Code {
    // SAFETY: the caller's promise.
    unsafe { listen(Wishes::default(), number, handle, listening) }
}

/// # Safety
/// As for [`listen`]; a context of `init_v11`.
pub(super) unsafe extern "C" fn listen_v11(
    context: *mut c_void,
    number: c_int,
    handle: *mut c_void,
    listening: *mut *mut c_void,
) -> Code {
    // SAFETY: the caller's promise.
    let wishes = unsafe { context.cast::<Context>().as_ref() }.map(|context| context.wishes);
    // SAFETY: as above.
    unsafe { listen(wishes.unwrap_or_default(), number, handle, listening) }
}

/// What the connection is at lies in the handle, as a box of a [`Calling`], since NCCL calls again with the same handle.
///
/// # Safety
/// NCCL's: a handle, which is the same memory at each call, and room for pointers.
unsafe fn connect(
    wishes: Wishes,
    number: c_int,
    handle: *mut c_void,
    sending: *mut *mut c_void,
    offload: *mut *mut c_void,
) -> Code {
    fence(|| {
        // SAFETY: NCCL's promise.
        unsafe { put(sending, null_mut()) }?;
        if !offload.is_null() {
            // SAFETY: as above.
            unsafe { put(offload, null_mut()) }?;
        }
        // SAFETY: as above.
        let bytes: &mut [u8; HANDLE_BYTES] = unsafe { object(handle) }?;
        let stage = bytes.last_chunk::<8>().map_or(0, |stage| usize::from_ne_bytes(*stage));
        let mut calling = if stage == 0 {
            let found = Handle::from_bytes(bytes);
            let found = found.ok_or_else(|| {
                Failure::usage("a handle that is not of this plugin: all ranks need the same")
            })?;
            Box::new(Calling::new(device::numbered(number)?, found, wishes)?)
        } else {
            bytes[STAGE..].fill(0);
            // SAFETY: a box that an earlier call left there; taken out above, so nobody else gets it.
            unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut::<Calling>(stage)) }
        };
        let Some((link, rooms)) = calling.go_on()? else {
            bytes[STAGE..].copy_from_slice(&Box::into_raw(calling).expose_provenance().to_ne_bytes());
            return Ok(());
        };
        let comm = Comm::boxed(End::Send(Box::new(Sender::new(link, rooms))));
        // SAFETY: NCCL's promise.
        unsafe { put(sending, comm) }
    })
}

/// # Safety
/// As for [`connect`].
pub(super) unsafe extern "C" fn connect_v8(
    number: c_int,
    handle: *mut c_void,
    sending: *mut *mut c_void,
    offload: *mut *mut c_void,
) -> Code {
    // SAFETY: the caller's promise.
    unsafe { connect(Wishes::default(), number, handle, sending, offload) }
}

/// # Safety
/// As for [`connect`]; `config` is null or valid.
pub(super) unsafe extern "C" fn connect_v10(
    number: c_int,
    config: *mut Config,
    handle: *mut c_void,
    sending: *mut *mut c_void,
    offload: *mut *mut c_void,
) -> Code {
    // SAFETY: the caller's promise.
    let traffic_class = unsafe { config.as_ref() }.and_then(traffic_class);
    // SAFETY: as above.
    unsafe { connect(Wishes { comm_hash: 0, traffic_class }, number, handle, sending, offload) }
}

/// # Safety
/// As for [`connect`]; a context of `init_v11`.
pub(super) unsafe extern "C" fn connect_v11(
    context: *mut c_void,
    number: c_int,
    handle: *mut c_void,
    sending: *mut *mut c_void,
    offload: *mut *mut c_void,
) -> Code {
    // SAFETY: the caller's promise.
    let wishes = unsafe { context.cast::<Context>().as_ref() }.map(|context| context.wishes);
    // SAFETY: as above.
    unsafe { connect(wishes.unwrap_or_default(), number, handle, sending, offload) }
}

/// # Safety
/// NCCL's: what listens, and room for pointers.
pub(super) unsafe extern "C" fn accept(
    listening: *mut c_void,
    receiving: *mut *mut c_void,
    offload: *mut *mut c_void,
) -> Code {
    fence(|| {
        // SAFETY: NCCL's promise.
        unsafe { put(receiving, null_mut()) }?;
        if !offload.is_null() {
            // SAFETY: as above.
            unsafe { put(offload, null_mut()) }?;
        }
        // SAFETY: as above.
        let listening: &mut Listening = unsafe { object(listening) }?;
        let Some(link) = listening.accept()? else { return Ok(()) };
        let comm = Comm::boxed(End::Receive(Box::new(Receiver::new(link)?)));
        // SAFETY: as above.
        unsafe { put(receiving, comm) }
    })
}

/// # Safety
/// NCCL's: a connection, closed once.
pub(super) unsafe extern "C" fn close(comm: *mut c_void) -> Code {
    fence(|| {
        if !comm.is_null() {
            // SAFETY: made by `connect` or `accept`, and closed once.
            let mut comm = unsafe { Box::from_raw(comm.cast::<Comm>()) };
            match &mut comm.end {
                End::Send(sender) => sender.link.close(),
                End::Receive(receiver) => receiver.link.close(),
            }
        }
        Ok(())
    })
}

/// # Safety
/// NCCL's: what listens, closed once.
pub(super) unsafe extern "C" fn close_listen(listening: *mut c_void) -> Code {
    fence(|| {
        if !listening.is_null() {
            // SAFETY: made by `listen`, and closed once.
            drop(unsafe { Box::from_raw(listening.cast::<Listening>()) });
        }
        Ok(())
    })
}

impl Comm {
    /// Of an end; its tokens know where it is, and it stays there.
    fn boxed(end: End) -> *mut c_void {
        let link = end.link();
        let (device, registrations) = (Arc::clone(&link.device), Arc::clone(&link.registrations));
        let shared = Shared { device, registrations, peer: link.peer.shown() };
        let token = |index: usize| Token {
            comm: null_mut(),
            place: index % MAX_REQUESTS,
            is_flush: index >= MAX_REQUESTS,
        };
        let comm = Box::into_raw(Box::new(Self { end, shared, tokens: std::array::from_fn(token) }));
        // SAFETY: made above, and nobody else knows it yet.
        let tokens = unsafe { &mut (*comm).tokens };
        tokens.iter_mut().for_each(|token| token.comm = comm);
        comm.cast()
    }
}

impl End {
    fn link(&self) -> &Link {
        match self {
            Self::Send(sender) => &sender.link,
            Self::Receive(receiver) => &receiver.link,
        }
    }
}

/// What sends or receives.
///
/// # Safety
/// Null, or a connection that is not closed; NCCL's contract: one thread at a time.
pub(super) unsafe fn end<'a>(comm: *mut c_void) -> Result<&'a mut End> {
    let comm =
        NonNull::new(comm.cast::<Comm>()).ok_or_else(|| Failure::internal("a connection that is NULL"))?;
    // SAFETY: the caller's promise; other threads reach other fields.
    Ok(unsafe { &mut (*comm.as_ptr()).end })
}

/// What any thread may look at.
///
/// # Safety
/// Null, or a connection that is not closed.
pub(super) unsafe fn shared<'a>(comm: *mut c_void) -> Result<&'a Shared> {
    let comm =
        NonNull::new(comm.cast::<Comm>()).ok_or_else(|| Failure::internal("a connection that is NULL"))?;
    // SAFETY: the caller's promise; nobody writes there.
    Ok(unsafe { &(*comm.as_ptr()).shared })
}

/// The pointer that stands for a request; null for none.
///
/// # Safety
/// A connection that is not closed.
pub(super) unsafe fn token(comm: *mut c_void, place: Option<usize>, is_flush: bool) -> *mut c_void {
    let Some(place) = place else { return null_mut() };
    let index = place % MAX_REQUESTS + if is_flush { MAX_REQUESTS } else { 0 };
    let comm = comm.cast::<Comm>();
    // SAFETY: the caller's promise.
    let tokens = unsafe { &raw mut (*comm).tokens };
    // SAFETY: less than their number.
    unsafe { tokens.cast::<Token>().add(index) }.cast()
}
