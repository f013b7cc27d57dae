//! The summation service's C API: `include/rsum.h`.
//!
//! A process has one session at a time, which all threads share. Its lock is held for as long as it takes to find it, so a
//! thread that waits holds up no other.

#![expect(unsafe_code, reason = "exported C functions")]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::offset_of;
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use crate::codec::{Choice, Fraction};
use crate::gpu::driver::{Stream, refuse_device};
use crate::gpu::{Buffer, Submission};
use crate::pieces;
use crate::run::observe::Compared;
use crate::server::reduction::Reduction;
use crate::session::pool::message::Lending;
use crate::session::worker::{Numbers, Session, agreed_numbers};
use crate::tensor::{Asked, Declaration, Options};
use rsccl_collective::api::fence::export;
use rsccl_collective::error::{Error, IN_PROGRESS, Result, SUCCESS};
use rsccl_collective::fork::Owner;
use rsccl_collective::lock::lock;
use rsccl_collective::log::{self, Level, subsystem};
use rsccl_collective::memory::Region;
use rsccl_collective::types::DataType;

/// The process's place in its job.
static SESSION: RwLock<Option<Arc<Session>>> = RwLock::new(None);
/// Held while one is made or left.
static MAKING: Mutex<()> = Mutex::new(());
/// Whose place it is, from when it is being made. A child that was forked from that process takes no lock: the thread that
/// held it is not there.
static MEMBER: AtomicU64 = AtomicU64::new(NOBODY);
const NOBODY: u64 = u64::MAX;

/// What is kept of `top-k` where the caller does not say.
const DEFAULT_KEPT: f64 = 0.01;

thread_local! {
    /// The thread's last error.
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// `rsum_options_t`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RsumOptions {
    size: usize,
    priority: c_int,
    codec: c_int,
    kept: f64,
    min_bytes: u64,
    row: u64,
}

/// `rsum_comparison_t`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RsumComparison {
    size: usize,
    steps: u64,
    every: u64,
    n_parameters: u64,
    n_different: u64,
    parameter: *const c_char,
    hashes: *const u64,
    n_workers: u32,
    reserved: u32,
}

export! {
    /// Joins the group; waits for all processes.
    fn rsum_init / prsum_init() -> c_int {
        code(|| {
            let _pending = lock(&MAKING);
            if session().is_ok() {
                return Err(Error::InvalidUsage("this process is in a summation group already".to_owned()));
            }
            MEMBER.store(Owner::this().into(), Ordering::Release);
            let session = Session::from_env().inspect_err(|_| MEMBER.store(NOBODY, Ordering::Release));
            let session = Arc::new(session?);
            *SESSION.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(session);
            Ok(())
        })
    }

    /// Leaves the group: waits until all sums are there and nobody needs this process.
    fn rsum_shutdown / prsum_shutdown() -> c_int {
        code(|| {
            // Another thread's shutdown is to be over: the next group is not its to end.
            let _pending = lock(&MAKING);
            let outcome = session()?.shutdown()?;
            *SESSION.write().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
            MEMBER.store(NOBODY, Ordering::Release);
            outcome
        })
    }

    /// Number of this worker, or -1.
    fn rsum_rank / prsum_rank() -> c_int {
        number(|numbers| numbers.rank)
    }

    /// Workers, or -1.
    fn rsum_size / prsum_size() -> c_int {
        number(|numbers| numbers.size)
    }

    /// Number of this worker among those of its host, or -1.
    fn rsum_local_rank / prsum_local_rank() -> c_int {
        number(|numbers| numbers.local_rank)
    }

    /// Workers of this host, or -1.
    fn rsum_local_size / prsum_local_size() -> c_int {
        number(|numbers| numbers.local_size)
    }

    /// Servers, or -1.
    fn rsum_servers / prsum_servers() -> c_int {
        number(|numbers| numbers.servers)
    }

    /// How often the members have changed, or -1.
    fn rsum_epoch / prsum_epoch() -> c_int {
        number(|numbers| numbers.epoch as usize)
    }

    /// Tells who watches what a comparison of the parameters has come to.
    fn rsum_compared / prsum_compared(comparison: *const RsumComparison) -> c_int {
        code(|| {
            let session = session()?;
            // SAFETY: NULL, or the caller's structure with its size in the first field.
            let compared = unsafe { read_comparison(comparison) }?;
            session.compared(compared)
        })
    }

    /// Declares a tensor; its number, or -1 - error.
    fn rsum_declare / prsum_declare(
        name: *const c_char, count: u64, datatype: c_int, options: *const RsumOptions,
    ) -> c_int {
        handle(|| {
            if name.is_null() {
                return Err(Error::InvalidArgument("name is NULL".to_owned()));
            }
            // SAFETY: the caller's text, which ends in NUL.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
            // SAFETY: NULL, or the caller's structure with its size in the first field.
            let options = unsafe { read_options(options) }?;
            let data_type = DataType::from_c(datatype)?;
            let options = checked_options(&options, data_type)?;
            let declared = session()?.declare(Declaration { name, elements: count, data_type }, options)?;
            c_int::try_from(declared).map_err(|_| Error::InvalidArgument("too many tensors".to_owned()))
        })
    }

    /// The codec that a tensor really travels with, or -1 - error.
    fn rsum_codec / prsum_codec(tensor: c_int) -> c_int {
        handle(|| Ok(session()?.codec(index(tensor)?)?.map_or(0, number_of)))
    }

    /// Contributes, and waits for the result.
    fn rsum_push_pull / prsum_push_pull(
        tensor: c_int, send: *const c_void, recv: *mut c_void, operation: c_int,
    ) -> c_int {
        code(|| {
            let session = session()?;
            // SAFETY: the caller's buffers of the tensor's size, until the wait is over.
            let number = unsafe { push_pull(&session, tensor, send, recv, operation) }?;
            session.handles.wait(number)
        })
    }

    /// Contributes; a handle, or -1 - error.
    fn rsum_push_pull_async / prsum_push_pull_async(
        tensor: c_int, send: *const c_void, recv: *mut c_void, operation: c_int,
    ) -> c_int {
        // SAFETY: the caller's buffers of the tensor's size, until `rsum_wait`.
        handle(|| session().and_then(|session| unsafe { push_pull(&session, tensor, send, recv, operation) }))
    }

    /// Contributes what a CUDA stream leaves in a GPU's memory; a handle, or -1 - error.
    fn rsum_push_pull_on_stream / prsum_push_pull_on_stream(
        tensor: c_int, send: *const c_void, recv: *mut c_void, operation: c_int, stream: *mut c_void,
    ) -> c_int {
        handle(|| {
            let session = session()?;
            let (tensor, reduction) = (index(tensor)?, reduction(operation)?);
            // SAFETY: the caller's buffers of the tensor's size, until `rsum_wait`; used only where they are this machine's.
            let (send_region, recv_region) = unsafe { regions(&session, tensor, send, recv) }?;
            let send = Buffer { address: send, region: send_region };
            let recv = Buffer { address: recv, region: recv_region };
            // SAFETY: the caller's stream, which is used only here.
            let stream = unsafe { Stream::of_caller(stream) };
            session.push_pull_on_stream(&Submission { tensor, send, recv, stream }, reduction)
        })
    }

    /// The first half; a handle, or -1 - error.
    fn rsum_push_async / prsum_push_async(tensor: c_int, send: *const c_void, operation: c_int) -> c_int {
        handle(|| {
            let session = session()?;
            let (tensor, reduction) = (index(tensor)?, reduction(operation)?);
            refuse_device(send, "send")?;
            // SAFETY: the caller's buffer of the tensor's size, until `rsum_wait`.
            let send = unsafe { Region::new(send, session.size_bytes(tensor)?, "send") }?;
            session.push(tensor, send, reduction)
        })
    }

    /// The second half.
    fn rsum_pull_async / prsum_pull_async(push: c_int, recv: *mut c_void) -> c_int {
        code(|| {
            refuse_device(recv, "recv")?;
            // SAFETY: the caller's buffer of the tensor's size, until `rsum_wait`.
            session()?.pull(push, |size_bytes| unsafe { Region::new(recv, size_bytes, "recv") })
        })
    }

    /// 1: over. 0: not yet. -1: no such handle.
    fn rsum_poll / prsum_poll(handle: c_int) -> c_int {
        if is_forked() {
            return -1;
        }
        let found = catch_unwind(|| session().ok().and_then(|session| session.handles.poll(handle)));
        found.ok().flatten().map_or(-1, c_int::from)
    }

    /// Waits until the work is over; how it ended.
    fn rsum_wait / prsum_wait(handle: c_int) -> c_int {
        code(|| session()?.handles.wait(handle))
    }

    /// The same, but not longer than so many milliseconds: `ncclInProgress`, and the handle stays, while it is not over.
    fn rsum_wait_for / prsum_wait_for(handle: c_int, timeout_ms: c_int) -> c_int {
        let most = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0));
        let waited = run(|| session()?.handles.wait_for(handle, most));
        waited.map_or_else(|code| code, |is_over| if is_over { SUCCESS } else { IN_PROGRESS })
    }

    /// Waits for the open rounds and leaves the group.
    fn rsum_suspend / prsum_suspend() -> c_int {
        code(|| session()?.suspend())
    }

    /// Goes on with so many workers and servers; -1: with those that are left.
    fn rsum_resume / prsum_resume(n_workers: c_int, n_servers: c_int) -> c_int {
        code(|| {
            let count = |number: c_int, least: c_int, what: &str| match number {
                -1 => Ok(None),
                number if number >= least => Ok(usize::try_from(number).ok()),
                _ => Err(Error::InvalidArgument(format!("{number} is no number of {what}"))),
            };
            session()?.resume(count(n_workers, 1, "workers")?, count(n_servers, 0, "servers")?)
        })
    }

    /// Goes on with the servers that a pool lends now; their number, or -1 - error.
    fn rsum_adapt / prsum_adapt() -> c_int {
        handle(|| adapt(true))
    }

    /// The same, unless a worker says 0.
    fn rsum_adapt_if / prsum_adapt_if(may: c_int) -> c_int {
        handle(|| adapt(may != 0))
    }

    /// Copies arrays into one, one behind the other.
    fn rsum_gather / prsum_gather(
        into: *mut c_void, n: usize, arrays: *const *const c_void, lengths: *const usize, element_bytes: usize,
    ) -> c_int {
        // SAFETY: the caller's memory, of as many bytes as it says.
        code(|| unsafe { pieces::gather(into.cast(), n, arrays.cast(), lengths, element_bytes) })
    }

    /// Copies an array into several, which lie in it one behind the other.
    fn rsum_scatter / prsum_scatter(
        from: *const c_void, n: usize, arrays: *const *mut c_void, lengths: *const usize, element_bytes: usize,
    ) -> c_int {
        // SAFETY: the caller's memory, of as many bytes as it says.
        code(|| unsafe { pieces::scatter(from.cast(), n, arrays.cast(), lengths, element_bytes) })
    }

    /// What the thread's last error was about.
    fn rsum_last_error / prsum_last_error() -> *const c_char {
        LAST_ERROR.try_with(|text| text.borrow().as_ptr()).unwrap_or(c"".as_ptr())
    }
}

/// Goes on with the servers that a pool lends now, where all workers may; how many there are then.
fn adapt(may: bool) -> Result<c_int> {
    let session = session()?;
    if let Some(lending) = session.lending() {
        // Of worker 0 alone; an operator's number counts from 1, since 0 is none.
        let number = |number: usize| i64::try_from(number).unwrap_or(0);
        let pinned = lending.and_then(|lending| lending.pinned).map_or(0, |pinned| number(pinned) + 1);
        let own = [lending.map_or(0, |lending| number(lending.there)), pinned, i64::from(!may)];
        let [there, pinned, n_busy] = sum_of_all(&session, own)?;
        if n_busy == 0 {
            let pinned = usize::try_from(pinned - 1).ok();
            session.adapt(Lending { there: usize::try_from(there).unwrap_or(0), pinned })?;
        }
    }
    let servers = session.numbers().map_or(0, |numbers| numbers.servers);
    c_int::try_from(servers).map_err(|_| Error::Internal(format!("{servers} servers")))
}

/// The sums of these numbers over all workers.
fn sum_of_all(session: &Session, own: [i64; 3]) -> Result<[i64; 3]> {
    let tensor = session.declare(agreed_numbers(), Asked::default())?;
    let mut sums = [0; 3];
    // SAFETY: numbers of this function's, which are there until the wait is over.
    let send = unsafe { Region::new((&raw const own).cast(), size_of_val(&own), "lent") }?;
    // SAFETY: as above.
    let recv = unsafe { Region::new((&raw mut sums).cast(), size_of_val(&own), "lent") }?;
    let number = session.push_pull(tensor, send, recv, Reduction::Sum)?;
    session.handles.wait(number)?;
    Ok(sums)
}

/// Contributes from the caller's buffers.
///
/// # Safety
/// `send` and `recv` are NULL, or stay valid for the tensor's bytes until the handle is waited for.
unsafe fn push_pull(
    session: &Session,
    tensor: c_int,
    send: *const c_void,
    recv: *mut c_void,
    operation: c_int,
) -> Result<c_int> {
    let (tensor, reduction) = (index(tensor)?, reduction(operation)?);
    refuse_device(send, "send")?;
    refuse_device(recv, "recv")?;
    // SAFETY: by this function's contract.
    let (from, to) = unsafe { regions(session, tensor, send, recv) }?;
    session.push_pull(tensor, from, to, reduction)
}

/// The caller's buffers as regions.
///
/// # Safety
/// `send` and `recv` are NULL, or stay valid for the tensor's bytes until the handle is waited for; or nothing looks inside.
unsafe fn regions(
    session: &Session,
    tensor: usize,
    send: *const c_void,
    recv: *mut c_void,
) -> Result<(Region, Region)> {
    let size_bytes = session.size_bytes(tensor)?;
    // SAFETY: by this function's contract.
    let from = unsafe { Region::new(send, size_bytes, "send") }?;
    // SAFETY: by this function's contract.
    let to = unsafe { Region::new(recv, size_bytes, "recv") }?;
    if to.offset_in(from).is_some_and(|offset| offset != 0) {
        let text = "send and recv overlap; they must be the same memory, or apart";
        return Err(Error::InvalidArgument(text.to_owned()));
    }
    Ok((from, to))
}

/// # Safety
/// NULL, or an `rsum_options_t` of the size that its first field says.
unsafe fn read_options(options: *const RsumOptions) -> Result<RsumOptions> {
    let mut read = RsumOptions {
        size: size_of::<RsumOptions>(),
        priority: 0,
        codec: 0,
        kept: 0.0,
        min_bytes: 0,
        row: 0,
    };
    if options.is_null() {
        return Ok(read);
    }
    // SAFETY: the first field is there whatever the size.
    let size = unsafe { options.cast::<usize>().read_unaligned() };
    // The first that was published ended there.
    if size < offset_of!(RsumOptions, min_bytes) {
        let text = format!("options: size is {size}, set it to sizeof(rsum_options_t)");
        return Err(Error::InvalidArgument(text));
    }
    let size = size.min(size_of::<RsumOptions>());
    // SAFETY: as many bytes as both have, and any of them make fields.
    unsafe { std::ptr::copy_nonoverlapping(options.cast::<u8>(), (&raw mut read).cast::<u8>(), size) };
    Ok(read)
}

/// # Safety
/// NULL, or an `rsum_comparison_t` of the size that its first field says, with as many hashes as it says.
unsafe fn read_comparison(comparison: *const RsumComparison) -> Result<Compared> {
    let wrong = |text: &str| Err(Error::InvalidArgument(text.to_owned()));
    if comparison.is_null() {
        return wrong("comparison is NULL");
    }
    // SAFETY: the first field is there whatever the size.
    let size = unsafe { comparison.cast::<usize>().read_unaligned() };
    if size < size_of::<RsumComparison>() {
        return wrong("comparison: set size to sizeof(rsum_comparison_t)");
    }
    // SAFETY: it has all fields.
    let told = unsafe { comparison.read_unaligned() };
    let RsumComparison { steps, every, n_parameters, n_different, .. } = told;
    let difference = if n_different == 0 {
        None
    } else if told.parameter.is_null() || told.hashes.is_null() {
        return wrong("comparison: a difference without the parameter's name and hashes");
    } else {
        // SAFETY: the caller's text, which ends in NUL.
        let parameter = unsafe { CStr::from_ptr(told.parameter) }.to_owned();
        // SAFETY: the caller's array of that many.
        let hashes = unsafe { std::slice::from_raw_parts(told.hashes, told.n_workers as usize) };
        Some((parameter, hashes.to_vec()))
    };
    Ok(Compared { steps, every, n_parameters, n_different, difference })
}

fn checked_options(options: &RsumOptions, data_type: DataType) -> Result<Asked> {
    let kept = if options.kept == 0.0 { DEFAULT_KEPT } else { options.kept };
    let wrong = |text: String| Err(Error::InvalidArgument(text));
    let codec = match options.codec {
        0 => None,
        1 => Some(Choice::F16),
        2 => Some(Choice::Bf16),
        3 => Some(Choice::OneBit),
        4 => match Fraction::new(kept) {
            Some(fraction) => Some(Choice::TopK(fraction)),
            None => return wrong(format!("kept {kept}: a fraction above 0 and at most 1 makes sense")),
        },
        5 => match u32::try_from(options.row).ok().and_then(NonZeroU32::new) {
            Some(width) => Some(Choice::Rows(width)),
            None => return wrong(format!("row {}: a row has 1 to 2^32 - 1 elements", options.row)),
        },
        codec => return wrong(format!("{codec} is no codec: use rsumCodecNone to rsumCodecRows")),
    };
    if codec.is_some() && data_type != DataType::F32 {
        return wrong(format!("codecs are for f32, this tensor is {}", data_type.name()));
    }
    let min_bytes = (options.min_bytes > 0).then_some(options.min_bytes);
    Ok(Asked { options: Options { priority: options.priority, codec }, min_bytes })
}

/// Of `rsumCodec...`.
fn number_of(choice: Choice) -> c_int {
    match choice {
        Choice::F16 => 1,
        Choice::Bf16 => 2,
        Choice::OneBit => 3,
        Choice::TopK(_) => 4,
        Choice::Rows(_) => 5,
    }
}

fn reduction(operation: c_int) -> Result<Reduction> {
    match operation {
        0 => Ok(Reduction::Sum),
        1 => Ok(Reduction::Average),
        _ => {
            Err(Error::InvalidArgument(format!("operation {operation}: use rsumSum (0) or rsumAverage (1)")))
        }
    }
}

fn index(tensor: c_int) -> Result<usize> {
    usize::try_from(tensor).map_err(|_| Error::InvalidArgument(format!("there is no tensor {tensor}")))
}

fn session() -> Result<Arc<Session>> {
    let session = SESSION.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    session.ok_or_else(|| Error::InvalidUsage("call rsum_init first".to_owned()))
}

/// A forked child may ask for its parent's: a data loader's worker takes its share of the data by them.
fn number(of: impl Fn(Numbers) -> usize) -> c_int {
    let inherited = || SESSION.try_read().ok()?.as_ref()?.inherited_numbers();
    let own = || session().ok()?.numbers();
    let found = catch_unwind(|| if is_forked() { inherited() } else { own() });
    let found = found.ok().flatten().map(of);
    found.and_then(|number| c_int::try_from(number).ok()).unwrap_or(-1)
}

/// Runs a call that returns a code.
fn code(call: impl FnOnce() -> Result<()>) -> c_int {
    run(call).map_or_else(|code| code, |()| SUCCESS)
}

/// Runs a call that returns a number.
fn handle(call: impl FnOnce() -> Result<c_int>) -> c_int {
    run(call).unwrap_or_else(|code| -1 - code)
}

/// Whether this process was forked from the group's member.
fn is_forked() -> bool {
    let member = MEMBER.load(Ordering::Acquire);
    member != NOBODY && member != u64::from(Owner::this())
}

fn run<T>(call: impl FnOnce() -> Result<T>) -> std::result::Result<T, c_int> {
    if is_forked() {
        let text = c"this process was forked from a member of the group: only the one that called rsum_init can use it";
        let _ = LAST_ERROR.try_with(|last| *last.borrow_mut() = text.to_owned());
        return Err(Error::InvalidUsage(String::new()).code());
    }
    let result = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        Err(Error::Internal("the library panicked: a mistake of ringscope's engine".to_owned()))
    });
    result.map_err(|error| {
        let text = error.to_string();
        log::write(Level::Warn, subsystem::ALL, 0, &text);
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        let _ = LAST_ERROR.try_with(|last| *last.borrow_mut() = text);
        error.code()
    })
}
