//! Fence: the C API of the collective library, as a demo rank calls it.
//!
//! The library is loaded with `RTLD_GLOBAL` and every function is looked up in the global scope, where a preloaded
//! collector stands first: so a rank's calls go the way that a linked program's calls go.

#![expect(unsafe_code, reason = "calls into a C library")]

mod calls;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW, Symbol};

/// `ncclUniqueId`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct UniqueId(pub [u8; 128]);

/// `ncclConfig_t` of NCCL 2.28; [`Config::named`] fills what a caller leaves open.
#[repr(C)]
struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking_to_max_ctas: [c_int; 4],
    net_name: *const c_char,
    split_share: c_int,
    traffic_class: c_int,
    comm_name: *const c_char,
    rest: [c_int; 6],
}

/// `NCCL_CONFIG_UNDEF_INT`.
const UNDEF: c_int = c_int::MIN;

impl Config {
    fn named(name: &CStr) -> Self {
        Self {
            size: size_of::<Self>(),
            magic: 0xcafe_beef,
            version: 22_809,
            blocking_to_max_ctas: [UNDEF; 4],
            net_name: ptr::null(),
            split_share: UNDEF,
            traffic_class: UNDEF,
            comm_name: name.as_ptr(),
            rest: [UNDEF; 6],
        }
    }
}

/// `ncclDataType_t` values used here.
#[derive(Clone, Copy)]
pub enum Datatype {
    /// 32-bit signed integers.
    Int32 = 2,
    /// IEEE single precision.
    Float32 = 7,
}

/// `ncclRedOp_t` values used here.
#[derive(Clone, Copy)]
pub enum Reduction {
    /// Sum.
    Sum = 0,
    /// Maximum.
    Max = 2,
}

/// A call that the library refused or could not finish.
#[derive(Debug, thiserror::Error)]
pub enum NcclError {
    /// The library or one of its functions is not there.
    #[error("cannot load the collective library: {0}")]
    Load(#[from] libloading::Error),
    /// A function returned an error.
    #[error("{function} failed with {code}: {message}")]
    Call {
        /// Which function.
        function: &'static str,
        /// `ncclResult_t`.
        code: c_int,
        /// `ncclGetLastError`.
        message: String,
    },
}

type Pointer = *mut c_void;
type Rooted = unsafe extern "C" fn(*const c_void, Pointer, usize, c_int, c_int, Pointer, Pointer) -> c_int;

/// The functions, found once.
struct Functions {
    get_unique_id: Symbol<unsafe extern "C" fn(*mut UniqueId) -> c_int>,
    init_rank: Symbol<unsafe extern "C" fn(*mut Pointer, c_int, UniqueId, c_int, *mut Config) -> c_int>,
    split: Symbol<unsafe extern "C" fn(Pointer, c_int, c_int, *mut Pointer, *mut Config) -> c_int>,
    destroy: Symbol<unsafe extern "C" fn(Pointer) -> c_int>,
    abort: Symbol<unsafe extern "C" fn(Pointer) -> c_int>,
    last_error: Symbol<unsafe extern "C" fn(Pointer) -> *const c_char>,
    group_start: Symbol<unsafe extern "C" fn() -> c_int>,
    group_end: Symbol<unsafe extern "C" fn() -> c_int>,
    all_reduce:
        Symbol<unsafe extern "C" fn(*const c_void, Pointer, usize, c_int, c_int, Pointer, Pointer) -> c_int>,
    reduce_scatter:
        Symbol<unsafe extern "C" fn(*const c_void, Pointer, usize, c_int, c_int, Pointer, Pointer) -> c_int>,
    all_gather: Symbol<unsafe extern "C" fn(*const c_void, Pointer, usize, c_int, Pointer, Pointer) -> c_int>,
    all_to_all: Symbol<unsafe extern "C" fn(*const c_void, Pointer, usize, c_int, Pointer, Pointer) -> c_int>,
    broadcast: Symbol<Rooted>,
    gather: Symbol<Rooted>,
    scatter: Symbol<Rooted>,
    send: Symbol<unsafe extern "C" fn(*const c_void, usize, c_int, c_int, Pointer, Pointer) -> c_int>,
    recv: Symbol<unsafe extern "C" fn(Pointer, usize, c_int, c_int, Pointer, Pointer) -> c_int>,
    stream_create: Symbol<unsafe extern "C" fn(*mut Pointer) -> c_int>,
    stream_synchronize: Symbol<unsafe extern "C" fn(Pointer) -> c_int>,
    _library: Library,
}

/// The loaded library with one stream, on which everything is enqueued and waited for.
#[derive(Clone)]
pub struct Nccl {
    functions: Arc<Functions>,
    stream: Pointer,
}

/// A communicator. Ended by [`Communicator::destroy`] or [`Communicator::abort`].
pub struct Communicator {
    nccl: Nccl,
    pointer: Pointer,
    /// Rank of this process.
    pub rank: usize,
    /// Number of ranks.
    pub n_ranks: usize,
}

impl Nccl {
    /// Loads the library at `path`.
    ///
    /// # Errors
    /// [`NcclError::Load`] if it, or a function of it, is missing.
    pub fn load(path: &Path) -> Result<Self, NcclError> {
        // SAFETY: the library's initialisers have no preconditions.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }?;
        let global = Library::this();
        macro_rules! find {
            ($name:literal) => {
                // SAFETY: the type is the one that the C header declares for this name.
                unsafe { global.get($name) }?
            };
        }
        let functions = Functions {
            get_unique_id: find!(b"ncclGetUniqueId\0"),
            init_rank: find!(b"ncclCommInitRankConfig\0"),
            split: find!(b"ncclCommSplit\0"),
            destroy: find!(b"ncclCommDestroy\0"),
            abort: find!(b"ncclCommAbort\0"),
            last_error: find!(b"ncclGetLastError\0"),
            group_start: find!(b"ncclGroupStart\0"),
            group_end: find!(b"ncclGroupEnd\0"),
            all_reduce: find!(b"ncclAllReduce\0"),
            reduce_scatter: find!(b"ncclReduceScatter\0"),
            all_gather: find!(b"ncclAllGather\0"),
            all_to_all: find!(b"ncclAlltoAll\0"),
            broadcast: find!(b"ncclBroadcast\0"),
            gather: find!(b"ncclGather\0"),
            scatter: find!(b"ncclScatter\0"),
            send: find!(b"ncclSend\0"),
            recv: find!(b"ncclRecv\0"),
            stream_create: find!(b"rscclStreamCreate\0"),
            stream_synchronize: find!(b"rscclStreamSynchronize\0"),
            _library: library,
        };
        let mut nccl = Self { functions: Arc::new(functions), stream: ptr::null_mut() };
        // SAFETY: the pointer is valid for the one write that the call makes.
        let code = unsafe { (nccl.functions.stream_create)(&raw mut nccl.stream) };
        nccl.check("rscclStreamCreate", code, ptr::null_mut())?;
        Ok(nccl)
    }

    /// A new id, to be given to every rank of a new communicator.
    ///
    /// # Errors
    /// [`NcclError::Call`].
    pub fn unique_id(&self) -> Result<UniqueId, NcclError> {
        let mut id = UniqueId([0; 128]);
        // SAFETY: the pointer is valid for the one write that the call makes.
        let code = unsafe { (self.functions.get_unique_id)(&raw mut id) };
        self.check("ncclGetUniqueId", code, ptr::null_mut())?;
        Ok(id)
    }

    /// Joins a communicator; returns once every rank has.
    ///
    /// # Errors
    /// [`NcclError::Call`].
    pub fn init(
        &self,
        id: UniqueId,
        rank: usize,
        n_ranks: usize,
        name: &str,
    ) -> Result<Communicator, NcclError> {
        let name = CString::new(name).unwrap_or_default();
        let mut config = Config::named(&name);
        let mut pointer = ptr::null_mut();
        let (n, r) = (as_int(n_ranks), as_int(rank));
        // SAFETY: both pointers are valid during the call, and the name lives as long as the config.
        let code = unsafe { (self.functions.init_rank)(&raw mut pointer, n, id, r, &raw mut config) };
        self.check("ncclCommInitRankConfig", code, ptr::null_mut())?;
        Ok(Communicator { nccl: self.clone(), pointer, rank, n_ranks })
    }

    /// Runs `calls` as one group.
    ///
    /// # Errors
    /// The first error of a call, else that of the group's end.
    pub fn group(&self, calls: impl FnOnce() -> Result<(), NcclError>) -> Result<(), NcclError> {
        // SAFETY: no preconditions.
        let code = unsafe { (self.functions.group_start)() };
        self.check("ncclGroupStart", code, ptr::null_mut())?;
        let result = calls();
        // SAFETY: matches the start above, on the same thread.
        let code = unsafe { (self.functions.group_end)() };
        result.and(self.check("ncclGroupEnd", code, ptr::null_mut()))
    }

    /// Waits until everything enqueued is done.
    ///
    /// # Errors
    /// The first operation's that failed.
    pub fn synchronize(&self) -> Result<(), NcclError> {
        // SAFETY: the stream was created in `load` and lives as long as the process.
        let code = unsafe { (self.functions.stream_synchronize)(self.stream) };
        self.check("rscclStreamSynchronize", code, ptr::null_mut())
    }

    fn check(&self, function: &'static str, code: c_int, comm: Pointer) -> Result<(), NcclError> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: NULL or a communicator that has not been destroyed.
        let text = unsafe { (self.functions.last_error)(comm) };
        let message = if text.is_null() {
            String::new()
        } else {
            // SAFETY: the library returns NUL-terminated text that lives until its next error.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        Err(NcclError::Call { function, code, message })
    }
}

impl Communicator {
    /// The communicator of all ranks that give the same color, in order of `key`.
    ///
    /// # Errors
    /// [`NcclError::Call`].
    pub fn split(&self, color: usize, key: usize, n_ranks: usize, name: &str) -> Result<Self, NcclError> {
        let name = CString::new(name).unwrap_or_default();
        let mut config = Config::named(&name);
        let mut pointer = ptr::null_mut();
        let (color, key_int) = (as_int(color), as_int(key));
        let call = &self.nccl.functions.split;
        // SAFETY: both pointers are valid during the call, and the name lives as long as the config.
        let code = unsafe { call(self.pointer, color, key_int, &raw mut pointer, &raw mut config) };
        self.nccl.check("ncclCommSplit", code, self.pointer)?;
        Ok(Self { nccl: self.nccl.clone(), pointer, rank: key, n_ranks })
    }

    /// Ends the communicator after everything enqueued on it.
    ///
    /// # Errors
    /// [`NcclError::Call`].
    pub fn destroy(self) -> Result<(), NcclError> {
        // SAFETY: the communicator is consumed: nothing can use it afterwards.
        let code = unsafe { (self.nccl.functions.destroy)(self.pointer) };
        self.nccl.check("ncclCommDestroy", code, ptr::null_mut())
    }

    /// Gives the communicator up, whatever is enqueued on it.
    ///
    /// # Errors
    /// [`NcclError::Call`].
    pub fn abort(self) -> Result<(), NcclError> {
        // SAFETY: the communicator is consumed: nothing can use it afterwards.
        let code = unsafe { (self.nccl.functions.abort)(self.pointer) };
        self.nccl.check("ncclCommAbort", code, ptr::null_mut())
    }

    fn finish(&self, function: &'static str, code: c_int) -> Result<(), NcclError> {
        self.nccl.check(function, code, self.pointer)?;
        self.nccl.synchronize()
    }
}

/// An element that the library can reduce.
pub trait Element: Copy {
    /// Its `ncclDataType_t`.
    const TYPE: Datatype;
}

impl Element for f32 {
    const TYPE: Datatype = Datatype::Float32;
}

impl Element for i32 {
    const TYPE: Datatype = Datatype::Int32;
}

/// Ranks and counts of a demo fit into a C int.
fn as_int(value: usize) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}
