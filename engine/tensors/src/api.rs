//! The C API: `include/rtensor.h`. No panic crosses into C.

#![expect(unsafe_code, reason = "exported C functions")]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::{Deadline, Patience};
use crate::device::{self, Kind, Role};
use crate::error::{Error, Result};
use crate::link::{Declaration, EdgeId, Hold, Link};
use crate::tensor::{DataType, MAX_DIMS, Shape};

thread_local! {
    /// The thread's last error.
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// `rtensor_link_t`
#[derive(Debug)]
pub struct RtensorLink {
    link: Mutex<Link>,
    /// The process that made it: a forked child's copy is not its own.
    pid: u32,
}

/// `rtensor_t`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RtensorTensor {
    data: *mut c_void,
    size_bytes: u64,
    datatype: c_int,
    n_dims: c_int,
    dims: [u64; MAX_DIMS],
}

/// `rtensor_counts_t`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RtensorCounts {
    work_requests: u64,
    moved_bytes: u64,
    messages: u64,
    copied_bytes: u64,
    registrations: u64,
    polls: u64,
    hits: u64,
}

/// Exported functions with their documentation.
macro_rules! export {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $result:ty $body:block)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The arguments are what `rtensor.h` asks for.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> $result $body
    )*};
}

export! {
    /// Connects to a peer.
    fn rtensor_connect(
        device: *const c_char, listens: c_int, address: *const c_char, timeout_s: f64, link: *mut *mut RtensorLink,
    ) -> c_int {
        code(|| {
            let (device, address) = (text(device, "device")?, text(address, "address")?);
            let kind: Kind = device.parse()?;
            let role = if listens == 0 { Role::Call } else { Role::Listen };
            if link.is_null() {
                return Err(null("link"));
            }
            let made = Link::new(device::connect(kind, role, &address, deadline(timeout_s)?)?);
            let made = Box::into_raw(Box::new(RtensorLink { link: Mutex::new(made), pid: std::process::id() }));
            // SAFETY: the caller's place for a pointer.
            unsafe { link.write(made) };
            Ok(())
        })
    }

    /// Bytes of the arena.
    fn rtensor_set_arena(link: *mut RtensorLink, bytes: u64) -> c_int {
        code(|| lock(link)?.set_arena_bytes(bytes))
    }

    /// Declares a static sender.
    fn rtensor_static_sender(
        link: *mut RtensorLink, name: *const c_char, datatype: c_int, n_dims: c_int, dims: *const u64,
        held_by: *const c_char,
    ) -> c_int {
        number(|| {
            let declaration =
                Declaration::static_sender(text(name, "name")?, shape(datatype, n_dims, dims)?, hold(held_by)?);
            declare(link, declaration)
        })
    }

    /// Declares a static receiver.
    fn rtensor_static_receiver(
        link: *mut RtensorLink, name: *const c_char, datatype: c_int, n_dims: c_int, dims: *const u64,
    ) -> c_int {
        number(|| {
            let shape = shape(datatype, n_dims, dims)?;
            declare(link, Declaration::static_receiver(text(name, "name")?, shape))
        })
    }

    /// Declares a dynamic sender.
    fn rtensor_dynamic_sender(
        link: *mut RtensorLink, name: *const c_char, limit_bytes: u64, held_by: *const c_char,
    ) -> c_int {
        number(|| {
            declare(link, Declaration::dynamic_sender(text(name, "name")?, limit_bytes, hold(held_by)?))
        })
    }

    /// Declares a dynamic receiver.
    fn rtensor_dynamic_receiver(link: *mut RtensorLink, name: *const c_char, limit_bytes: u64) -> c_int {
        number(|| declare(link, Declaration::dynamic_receiver(text(name, "name")?, limit_bytes)))
    }

    /// Sets the edges up.
    fn rtensor_ready(link: *mut RtensorLink, timeout_s: f64) -> c_int {
        code(|| ready(link, deadline(timeout_s)?))
    }

    /// Allocates a tensor of a dynamic edge.
    fn rtensor_begin(
        link: *mut RtensorLink, edge: c_int, datatype: c_int, n_dims: c_int, dims: *const u64,
    ) -> c_int {
        code(|| lock(link)?.begin(id(edge)?, &shape(datatype, n_dims, dims)?))
    }

    /// The tensor to be sent.
    fn rtensor_to_send(link: *mut RtensorLink, edge: c_int, tensor: *mut RtensorTensor) -> c_int {
        code(|| {
            let (mut link, edge) = (lock(link)?, id(edge)?);
            let shape = link.shape_to_send(edge)?;
            let data = link.tensor_mut(edge)?.as_mut_ptr();
            tell(tensor, &shape, data)
        })
    }

    /// Sends it.
    fn rtensor_send(link: *mut RtensorLink, edge: c_int) -> c_int {
        code(|| lock(link)?.send(id(edge)?))
    }

    /// Whether the next may be sent.
    fn rtensor_may_send(link: *mut RtensorLink, edge: c_int) -> c_int {
        number(|| lock(link)?.may_send(id(edge)?).map(c_int::from))
    }

    /// Waits until it may.
    fn rtensor_wait_to_send(link: *mut RtensorLink, edge: c_int, timeout_s: f64) -> c_int {
        code(|| {
            let edge = id(edge)?;
            until(link, deadline(timeout_s)?, |link| link.may_send(edge), |link| link.waiting_for(edge))
        })
    }

    /// Whether a tensor is there.
    fn rtensor_poll(link: *mut RtensorLink, edge: c_int) -> c_int {
        number(|| lock(link)?.poll(id(edge)?).map(c_int::from))
    }

    /// Waits until it is.
    fn rtensor_wait(link: *mut RtensorLink, edge: c_int, timeout_s: f64) -> c_int {
        code(|| {
            let edge = id(edge)?;
            until(link, deadline(timeout_s)?, |link| link.poll(edge), |link| link.waiting_for(edge))
        })
    }

    /// The tensor that is there.
    fn rtensor_received(link: *mut RtensorLink, edge: c_int, tensor: *mut RtensorTensor) -> c_int {
        code(|| {
            let link = lock(link)?;
            let (shape, bytes) = link.tensor(id(edge)?)?;
            tell(tensor, shape, bytes.as_ptr().cast_mut())
        })
    }

    /// Gives it up.
    fn rtensor_release(link: *mut RtensorLink, edge: c_int) -> c_int {
        code(|| lock(link)?.release(id(edge)?))
    }

    /// What this end has done.
    fn rtensor_counts(link: *mut RtensorLink, counts: *mut RtensorCounts) -> c_int {
        code(|| {
            let (done, polls) = {
                let link = lock(link)?;
                (link.counts(), link.polls())
            };
            if counts.is_null() {
                return Err(null("counts"));
            }
            let told = RtensorCounts {
                work_requests: done.work_requests,
                moved_bytes: done.moved_bytes,
                messages: done.messages,
                copied_bytes: done.copied_bytes,
                registrations: done.registrations,
                polls: polls.polls,
                hits: polls.hits,
            };
            // SAFETY: the caller's place for the counts.
            unsafe { counts.write(told) };
            Ok(())
        })
    }

    /// Waits until neither end needs the other.
    fn rtensor_finish(link: *mut RtensorLink, timeout_s: f64) -> c_int {
        code(|| finish(link, deadline(timeout_s)?))
    }

    /// Ends the link.
    fn rtensor_close(link: *mut RtensorLink) -> c_int {
        code(|| {
            if !link.is_null() {
                // SAFETY: made by `rtensor_connect`; the caller promises that no other call uses it now or later.
                let link = unsafe { Box::from_raw(link) };
                if link.pid == std::process::id() {
                    drop(link);
                } else {
                    // The parent's: what it has told its peer stays true.
                    std::mem::forget(link);
                }
            }
            Ok(())
        })
    }

    /// The thread's last error.
    fn rtensor_last_error() -> *const c_char {
        LAST_ERROR.try_with(|text| text.borrow().as_ptr()).unwrap_or(c"".as_ptr())
    }
}

/// Runs a call; 0 or its error.
fn code(call: impl FnOnce() -> Result<()>) -> c_int {
    let panicked = |_| Err(None);
    match catch_unwind(AssertUnwindSafe(call)).map_or_else(panicked, |outcome| outcome.map_err(Some)) {
        Ok(()) => 0,
        Err(error) => {
            let words = error.as_ref().map_or_else(|| "the library panicked".to_owned(), ToString::to_string);
            let words = CString::new(words.replace('\0', " ")).unwrap_or_default();
            let _ = LAST_ERROR.try_with(|text| *text.borrow_mut() = words);
            error.as_ref().map_or(9, number_of)
        }
    }
}

/// Runs a call; its number or -1 - error.
fn number(call: impl FnOnce() -> Result<c_int>) -> c_int {
    let mut found = 0;
    match code(|| call().map(|number| found = number)) {
        0 => found,
        error => -1 - error,
    }
}

/// The header's number of an error.
fn number_of(error: &Error) -> c_int {
    match error {
        Error::System { .. } | Error::Device { .. } => 1,
        Error::Usage(_) | Error::Node { .. } => 2,
        Error::Mismatch { .. } => 3,
        Error::TooEarly { .. } | Error::Leaving { .. } => 4,
        Error::StaleKey { .. } | Error::OutOfBounds { .. } => 5,
        Error::TooLarge { .. } | Error::Exhausted { .. } | Error::NoMemory { .. } => 6,
        Error::PeerLost { .. } => 7,
        Error::NoProgress { .. } | Error::Nobody { .. } => 8,
        Error::Overtaken { .. } | Error::Malformed { .. } => 10,
    }
}

fn null(name: &str) -> Error {
    Error::Usage(format!("{name} is NULL"))
}

fn text(text: *const c_char, name: &str) -> Result<String> {
    if text.is_null() {
        return Err(null(name));
    }
    // SAFETY: the caller's text, which ends in NUL.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(str::to_owned).map_err(|_| Error::Usage(format!("{name} is not UTF-8")))
}

fn hold(held_by: *const c_char) -> Result<Hold> {
    if held_by.is_null() { Ok(Hold::Release) } else { text(held_by, "held_by").map(Hold::By) }
}

fn deadline(timeout_s: f64) -> Result<Deadline> {
    let wait = Duration::try_from_secs_f64(timeout_s);
    wait.map(Deadline::after).map_err(|_| Error::Usage(format!("a timeout of {timeout_s} seconds")))
}

fn shape(datatype: c_int, n_dims: c_int, dims: *const u64) -> Result<Shape> {
    let known = u32::try_from(datatype).ok().and_then(DataType::from_number);
    let data_type = known.ok_or_else(|| Error::Usage(format!("there is no type {datatype}")))?;
    let n_dims = usize::try_from(n_dims).ok().filter(|n_dims| *n_dims <= MAX_DIMS);
    let n_dims = n_dims.ok_or_else(|| Error::Usage(format!("a tensor has 0 to {MAX_DIMS} dimensions")))?;
    if n_dims == 0 {
        return Shape::new(data_type, &[]);
    }
    if dims.is_null() {
        return Err(null("dims"));
    }
    // SAFETY: the caller's array of so many numbers.
    Shape::new(data_type, unsafe { std::slice::from_raw_parts(dims, n_dims) })
}

fn lock<'a>(link: *mut RtensorLink) -> Result<MutexGuard<'a, Link>> {
    // SAFETY: NULL, or made by `rtensor_connect` and not closed.
    let link = unsafe { link.as_ref() }.ok_or_else(|| null("link"))?;
    if link.pid != std::process::id() {
        return Err(Error::Usage(
            "the link is another process's: a forked child has none of its parent's".to_owned(),
        ));
    }
    Ok(link.link.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Waits; other threads have the link between two looks.
fn until(
    link: *mut RtensorLink,
    deadline: Deadline,
    mut is_over: impl FnMut(&mut Link) -> Result<bool>,
    waiting_for: impl Fn(&Link) -> String,
) -> Result<()> {
    let (mut patience, mut looks_around) = (Patience::default(), deadline.is_now());
    loop {
        let mut own = lock(link)?;
        if own.is_over(deadline, looks_around, &mut is_over, &waiting_for)? {
            return Ok(());
        }
        if own.is_moving() {
            patience.moved();
        }
        drop(own);
        looks_around = patience.wait();
    }
}

/// [`Link::ready`], between the looks of which other threads have the link.
fn ready(link: *mut RtensorLink, deadline: Deadline) -> Result<()> {
    lock(link)?.begin_ready()?;
    let outcome = until(link, deadline, Link::is_ready, Link::getting_ready);
    if outcome.is_err() {
        lock(link)?.give_up();
    }
    outcome
}

/// [`Link::finish`], between the looks of which other threads have the link.
fn finish(link: *mut RtensorLink, deadline: Deadline) -> Result<()> {
    lock(link)?.check_ready()?;
    until(link, deadline, Link::is_flushed, Link::flushing)?;
    lock(link)?.begin_finish()?;
    until(link, deadline, Link::has_finished, Link::finishing)
}

fn declare(link: *mut RtensorLink, declaration: Declaration) -> Result<c_int> {
    let edge = lock(link)?.declare(declaration)?;
    c_int::try_from(edge.0).map_err(|_| Error::Usage("too many edges".to_owned()))
}

fn id(edge: c_int) -> Result<EdgeId> {
    usize::try_from(edge).map(EdgeId).map_err(|_| Error::Usage(format!("there is no edge {edge}")))
}

fn tell(tensor: *mut RtensorTensor, shape: &Shape, data: *mut u8) -> Result<()> {
    if tensor.is_null() {
        return Err(null("tensor"));
    }
    let mut dims = [0; MAX_DIMS];
    dims.iter_mut().zip(shape.dims()).for_each(|(place, dim)| *place = *dim);
    let told = RtensorTensor {
        data: data.cast(),
        size_bytes: shape.size_bytes(),
        datatype: c_int::try_from(shape.data_type() as u32).unwrap_or(0),
        n_dims: c_int::try_from(shape.dims().len()).unwrap_or(0),
        dims,
    };
    // SAFETY: the caller's place for a tensor.
    unsafe { tensor.write(told) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn soon() -> Deadline {
        Deadline::after(Duration::from_secs(30))
    }

    fn link(role: Role, address: &str) -> Link {
        Link::new(device::connect(Kind::Local, role, address, soon()).unwrap())
    }

    #[test]
    fn whoever_waits_leaves_the_link_to_others_between_two_looks() {
        let address = format!("api-{}", std::process::id());
        let shape = Shape::new(DataType::U8, &[1]).unwrap();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| link(Role::Listen, &address));
            let one = link(Role::Call, &address);
            let mut other = other.join().unwrap();
            let sender = Declaration::static_sender("late", shape.clone(), Hold::Release);
            let sender = other.declare(sender).unwrap();
            let handle = Arc::new(RtensorLink { link: Mutex::new(one), pid: std::process::id() });
            let receiver = Declaration::static_receiver("late", shape.clone());
            let edge = handle.link.lock().unwrap().declare(receiver.clone()).unwrap();
            let wait = |wait: fn(*mut RtensorLink, EdgeId) -> Result<()>| {
                let waiting = Arc::clone(&handle);
                scope.spawn(move || wait(Arc::as_ptr(&waiting).cast_mut(), edge))
            };
            // It waits each time, and others have the link.
            let waits = wait(|link, _| ready(link, soon()));
            let declares_again = || handle.link.lock().unwrap().declare(receiver.clone()).unwrap_err();
            while !declares_again().to_string().contains("is being set up") {}
            let early = finish(Arc::as_ptr(&handle).cast_mut(), soon()).unwrap_err().to_string();
            assert!(early.contains("is being set up"), "{early}");
            other.ready(soon()).unwrap();
            waits.join().unwrap().unwrap();

            let waits =
                wait(|link, edge| until(link, soon(), |link| link.poll(edge), |link| link.waiting_for(edge)));
            while handle.link.lock().unwrap().polls().polls < 100 {}
            other.send(sender).unwrap();
            waits.join().unwrap().unwrap();

            let waits = wait(|link, _| finish(link, soon()));
            let controls = || handle.link.lock().unwrap().counts().controls;
            while controls() < 2 {}
            other.finish(soon()).unwrap();
            waits.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_link_that_was_not_ready_in_time_is_broken() {
        let address = format!("api-ready-{}", std::process::id());
        std::thread::scope(|scope| {
            let other = scope.spawn(|| link(Role::Listen, &address));
            let link = Mutex::new(link(Role::Call, &address));
            let mut handle = RtensorLink { link, pid: std::process::id() };
            let text = ready(&raw mut handle, Deadline::after(Duration::ZERO)).unwrap_err().to_string();
            assert!(text.contains("the link waits for the edges of"), "{text}");
            let text = ready(&raw mut handle, soon()).unwrap_err().to_string();
            assert!(text.contains("make a new link"), "{text}");
            other.join().unwrap();
        });
    }

    #[test]
    fn a_forked_child_has_no_link() {
        let address = format!("api-fork-{}", std::process::id());
        std::thread::scope(|scope| {
            let other = scope.spawn(|| link(Role::Listen, &address));
            let pid = std::process::id() + 1;
            let mut handle = RtensorLink { link: Mutex::new(link(Role::Call, &address)), pid };
            let text = lock(&raw mut handle).err().unwrap().to_string();
            assert!(text.contains("another process's"), "{text}");
            other.join().unwrap();
        });
    }
}
