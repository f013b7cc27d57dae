//! Fence: calls a network plugin.
//!
//! The versions of the interface differ in a few arguments; the rest of the engine sees one network.

#![expect(unsafe_code, reason = "a plugin is foreign code behind a table of C functions")]

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use libloading::os::unix::Library;
use nccl_net::{
    Accept, Close, Code, Config, HANDLE_BYTES, Logger, NetV8, NetV9, NetV10, NetV11,
    OPTIONAL_RECV_COMPLETION, PTR_HOST, SUCCESS, TRAFFIC_CLASS_UNDEFINED,
};

use crate::error::{Error, Result};
use crate::log::{self, Level, subsystem};

/// A plugin's table, of one of the versions that are known.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Table {
    /// `ncclNet_v8_t`
    V8(*const NetV8),
    /// `ncclNet_v9_t`
    V9(*const NetV9),
    /// `ncclNet_v10_t`
    V10(*const NetV10),
    /// `ncclNet_v11_t`
    V11(*const NetV11),
}

/// A loaded plugin that has begun.
#[derive(Debug)]
pub(crate) struct Network {
    table: Table,
    name: String,
    devices: Vec<Device>,
    /// From version 11 on, the context that keeps the plugin begun for as long as it is loaded; else null.
    first: *mut c_void,
    _library: Library,
}

// SAFETY: the table is a static of the library, which stays loaded; NCCL's contract lets any thread call it.
unsafe impl Send for Network {}
// SAFETY: as above.
unsafe impl Sync for Network {}

/// A device of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// Its name: `mlx5_0`.
    pub(crate) name: String,
    /// 10⁶ bits per second.
    pub(crate) speed_mbit: u32,
}

/// What a communicator has of a network: from version 11 on a context of its own.
#[derive(Debug)]
pub(crate) struct Context {
    network: Arc<Network>,
    pointer: *mut c_void,
}

// SAFETY: the context is a token of the plugin's, which any thread may hand back.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// By what a sender finds who listens. The plugin of the sender may write into it between its calls.
#[derive(Clone, Debug)]
#[repr(C, align(8))]
pub(crate) struct Handle(pub(crate) [u8; HANDLE_BYTES]);

/// Something of the plugin's that is closed once.
#[derive(Debug)]
pub(crate) struct End {
    context: Arc<Context>,
    pointer: NonNull<c_void>,
    kind: Kind,
}

// SAFETY: NCCL's contract: one thread at a time sends, receives and tests on a connection, whichever it is.
unsafe impl Send for End {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Listen,
    Send,
    Receive,
}

/// Memory that is registered for a connection; to be given back before that closes.
#[derive(Debug)]
pub(crate) struct Registration(*mut c_void);

// SAFETY: a token of the plugin's.
unsafe impl Send for Registration {}

/// A send or receive in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request(NonNull<c_void>);

// SAFETY: a token of the plugin's.
unsafe impl Send for Request {}

thread_local! {
    /// What a plugin has said on this thread in the call that it is in: the words for its error.
    static SAID: RefCell<Said> = const { RefCell::new(Said { warning: None, last: None }) };
}

#[derive(Default)]
struct Said {
    /// Its first warning; later ones come of that.
    warning: Option<String>,
    /// What it said last, warning or not.
    last: Option<String>,
}

/// Calls a function of a table of any version that has it alike.
macro_rules! of {
    ($table:expr, $field:ident) => {
        match $table {
            // SAFETY: a static of the library, which stays loaded.
            Table::V8(table) => unsafe { (*table).$field },
            // SAFETY: as above.
            Table::V9(table) => unsafe { (*table).$field },
            // SAFETY: as above.
            Table::V10(table) => unsafe { (*table).$field },
            // SAFETY: as above.
            Table::V11(table) => unsafe { (*table).$field },
        }
    };
}

impl Table {
    /// The interface's version.
    pub(crate) fn version(self) -> u32 {
        match self {
            Self::V8(_) => 8,
            Self::V9(_) => 9,
            Self::V10(_) => 10,
            Self::V11(_) => 11,
        }
    }

    /// As the plugin calls itself.
    pub(crate) fn name(self) -> String {
        let name = of!(self, name);
        if name.is_null() {
            return "unnamed".to_owned();
        }
        // SAFETY: by NCCL's interface, a NUL-terminated string.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}

impl Network {
    /// Begins a plugin: its devices are known from then on.
    ///
    /// # Errors
    /// It does not want to, or it has no device.
    pub(crate) fn begin(table: Table, library: Library) -> Result<Self> {
        let (name, devices) = (table.name(), Vec::new());
        let mut network = Self { table, name, devices, first: null_mut(), _library: library };
        network.first = network.init()?;
        let mut count = 0;
        let devices = network.function(of!(table, devices), "devices")?;
        // SAFETY: a place for the count.
        network.check("count its devices", unsafe { devices(&raw mut count) })?;
        let found: Result<_> = (0..count).map(|device| network.device(device)).collect();
        network.devices = found?;
        if network.devices.is_empty() {
            return Err(Error::System(format!("the network {} has no device", network.name)));
        }
        Ok(network)
    }

    /// Up to version 10 once for the process; in version 11 a context is made for each communicator, of which this first one is for
    /// none: without any, plugins may forget their devices.
    fn init(&self) -> Result<*mut c_void> {
        let code = match self.table {
            // SAFETY: a static of the library; the logger outlives it.
            Table::V8(table) => unsafe { (*table).init }.map(|init| unsafe { init(logger()) }),
            // SAFETY: as above.
            Table::V9(table) => unsafe { (*table).init }.map(|init| unsafe { init(logger()) }),
            // SAFETY: as above; no profiler.
            Table::V10(table) => {
                // SAFETY: as above.
                unsafe { (*table).init }.map(|init| unsafe { init(logger(), Some(no_profiler)) })
            }
            Table::V11(_) => return self.make_context(0),
        };
        self.check_begun(code.unwrap_or(SUCCESS)).map(|()| null_mut())
    }

    fn make_context(&self, comm_hash: u64) -> Result<*mut c_void> {
        let Table::V11(table) = self.table else { return Ok(null_mut()) };
        let mut pointer = null_mut();
        let mut config = Config { traffic_class: TRAFFIC_CLASS_UNDEFINED };
        // SAFETY: a static of the library.
        let init = self.function(unsafe { (*table).init }, "init")?;
        // SAFETY: places that live during the call; the logger outlives the library; no profiler.
        let code = unsafe { init(&raw mut pointer, comm_hash, &raw mut config, logger(), Some(no_profiler)) };
        self.check_begun(code)?;
        Ok(pointer)
    }

    fn end_context(&self, pointer: *mut c_void) -> Result<()> {
        let Table::V11(table) = self.table else { return Ok(()) };
        // SAFETY: a static of the library.
        match unsafe { (*table).finalize } {
            // SAFETY: a context of this plugin's, ended once.
            Some(finalize) => self.check("end", unsafe { finalize(pointer) }),
            None => Ok(()),
        }
    }

    fn device(&self, index: c_int) -> Result<Device> {
        let (name, speed) = match self.table {
            Table::V8(table) => {
                let mut told = MaybeUninit::zeroed();
                // SAFETY: a static of the library.
                let ask = self.function(unsafe { (*table).properties }, "getProperties")?;
                // SAFETY: room for what is written.
                self.check("describe a device", unsafe { ask(index, told.as_mut_ptr()) })?;
                // SAFETY: numbers and pointers, for which zero is a value.
                let told: nccl_net::PropertiesV8 = unsafe { told.assume_init() };
                (told.name, told.speed)
            }
            Table::V9(_) | Table::V10(_) => {
                let ask = match self.table {
                    // SAFETY: a static of the library.
                    Table::V9(table) => unsafe { (*table).properties },
                    // SAFETY: as above.
                    Table::V10(table) => unsafe { (*table).properties },
                    _ => None,
                };
                let mut told = MaybeUninit::zeroed();
                let ask = self.function(ask, "getProperties")?;
                // SAFETY: room for what is written.
                self.check("describe a device", unsafe { ask(index, told.as_mut_ptr()) })?;
                // SAFETY: numbers and pointers, for which zero is a value.
                let told: nccl_net::PropertiesV9 = unsafe { told.assume_init() };
                (told.name, told.speed)
            }
            Table::V11(table) => {
                let mut told = MaybeUninit::zeroed();
                // SAFETY: a static of the library.
                let ask = self.function(unsafe { (*table).properties }, "getProperties")?;
                // SAFETY: room for what is written.
                self.check("describe a device", unsafe { ask(index, told.as_mut_ptr()) })?;
                // SAFETY: numbers and pointers, for which zero is a value.
                let told: nccl_net::PropertiesV11 = unsafe { told.assume_init() };
                (told.v9.name, told.v9.speed)
            }
        };
        let speed_mbit = u32::try_from(speed).unwrap_or(0);
        if name.is_null() {
            return Ok(Device { name: format!("device {index}"), speed_mbit });
        }
        // SAFETY: by NCCL's interface, a NUL-terminated string that stays.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        Ok(Device { name, speed_mbit })
    }

    /// As the plugin calls itself.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its devices, of which there is one at least.
    pub(crate) fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The device for the NIC of this name and place in the list: of the same name, else by its place.
    pub(crate) fn device_of(&self, nic: &str, place: usize) -> usize {
        let same = self.devices.iter().position(|device| device.name == nic);
        same.unwrap_or(place % self.devices.len().max(1))
    }

    fn function<F>(&self, function: Option<F>, name: &str) -> Result<F> {
        function.ok_or_else(|| Error::InvalidUsage(format!("the network {} has no {name}", self.name)))
    }

    /// The plugin's own words, where it has warned during the call.
    fn check(&self, what: &str, code: Code) -> Result<()> {
        self.check_with(|| what.to_owned(), code)
    }

    fn check_with(&self, what: impl FnOnce() -> String, code: Code) -> Result<()> {
        let said = SAID.take();
        if code == SUCCESS {
            return Ok(());
        }
        Err(self.failed(said.warning, what, code))
    }

    /// Where a plugin does not begin it warns of no more than settings that it does not understand, for NCCL has other networks:
    /// its last word is why.
    fn check_begun(&self, code: Code) -> Result<()> {
        let said = SAID.take();
        if code == SUCCESS { Ok(()) } else { Err(self.failed(said.last, || "begin".to_owned(), code)) }
    }

    fn failed(&self, words: Option<String>, what: impl FnOnce() -> String, code: Code) -> Error {
        let text = words.unwrap_or_else(|| format!("it cannot {} (code {code})", what()));
        // As NCCL's own networks begin their lines.
        let text = text.strip_prefix(&format!("NET/{} : ", self.name)).unwrap_or(&text);
        Error::from_code(code, format!("network {}: {text}", self.name))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if !self.first.is_null() {
            // There is nobody to tell.
            let _ = self.end_context(self.first);
        }
    }
}

impl Context {
    /// For a communicator of this hash.
    pub(crate) fn new(network: &Arc<Network>, comm_hash: u64) -> Result<Arc<Self>> {
        let pointer = network.make_context(comm_hash)?;
        Ok(Arc::new(Self { network: Arc::clone(network), pointer }))
    }

    /// The network.
    pub(crate) fn network(&self) -> &Network {
        &self.network
    }

    /// Listens on a device; what comes with it is for whoever is to connect.
    pub(crate) fn listen(self: &Arc<Self>, device: usize) -> Result<(End, Handle)> {
        let (mut handle, mut listening) = (Handle([0; HANDLE_BYTES]), null_mut());
        let place = (&raw mut handle).cast::<c_void>();
        let device = c_int::try_from(device).unwrap_or(0);
        let old = match self.network.table {
            // SAFETY: a static of the library.
            Table::V8(table) => unsafe { (*table).listen },
            // SAFETY: as above.
            Table::V9(table) => unsafe { (*table).listen },
            // SAFETY: as above.
            Table::V10(table) => unsafe { (*table).listen },
            Table::V11(_) => None,
        };
        let code = if let Table::V11(table) = self.network.table {
            // SAFETY: as above.
            let listen = self.network.function(unsafe { (*table).listen }, "listen")?;
            // SAFETY: the context is of this plugin; room for a handle and a pointer.
            unsafe { listen(self.pointer, device, place, &raw mut listening) }
        } else {
            let listen = self.network.function(old, "listen")?;
            // SAFETY: room for a handle and a pointer.
            unsafe { listen(device, place, &raw mut listening) }
        };
        self.network.check("listen", code)?;
        let end = self.end(listening, Kind::Listen);
        let end =
            end.ok_or_else(|| Error::Internal(format!("network {}: it listens nowhere", self.network.name)))?;
        Ok((end, handle))
    }

    /// Goes on connecting to who listens; nothing while that takes longer. The handle is the same one at each call.
    pub(crate) fn connect(self: &Arc<Self>, device: usize, handle: &mut Handle) -> Result<Option<End>> {
        let (mut end, mut offload) = (null_mut(), null_mut());
        let handle = (&raw mut *handle).cast::<c_void>();
        let device = c_int::try_from(device).unwrap_or(0);
        let mut config = Config { traffic_class: TRAFFIC_CLASS_UNDEFINED };
        let (network, end_at, offload_at) = (&self.network, &raw mut end, &raw mut offload);
        let code = match network.table {
            Table::V8(table) => {
                // SAFETY: a static of the library.
                let connect = network.function(unsafe { (*table).connect }, "connect")?;
                // SAFETY: a handle and places that live during the call.
                unsafe { connect(device, handle, end_at, offload_at) }
            }
            Table::V9(table) => {
                // SAFETY: as above.
                let connect = network.function(unsafe { (*table).connect }, "connect")?;
                // SAFETY: as above.
                unsafe { connect(device, handle, end_at, offload_at) }
            }
            Table::V10(table) => {
                // SAFETY: as above.
                let connect = network.function(unsafe { (*table).connect }, "connect")?;
                // SAFETY: as above.
                unsafe { connect(device, &raw mut config, handle, end_at, offload_at) }
            }
            Table::V11(table) => {
                // SAFETY: as above.
                let connect = network.function(unsafe { (*table).connect }, "connect")?;
                // SAFETY: as above; the context is of this plugin.
                unsafe { connect(self.pointer, device, handle, end_at, offload_at) }
            }
        };
        network.check("connect", code)?;
        Ok(self.end(end, Kind::Send))
    }

    fn end(self: &Arc<Self>, pointer: *mut c_void, kind: Kind) -> Option<End> {
        NonNull::new(pointer).map(|pointer| End { context: Arc::clone(self), pointer, kind })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // There is nobody to tell.
        let _ = self.network.end_context(self.pointer);
    }
}

impl End {
    /// Goes on taking who connects; nothing while that takes longer.
    pub(crate) fn accept(&self) -> Result<Option<Self>> {
        let network = &self.context.network;
        let accept: Accept = network.function(of!(network.table, accept), "accept")?;
        let (mut end, mut offload) = (null_mut(), null_mut());
        // SAFETY: what listens, of this plugin, and places that live during the call.
        let code = unsafe { accept(self.pointer.as_ptr(), &raw mut end, &raw mut offload) };
        network.check("accept", code)?;
        Ok(self.context.end(end, Kind::Receive))
    }

    /// Registers memory for the connection.
    ///
    /// # Safety
    /// The memory stays until it is given back, and nothing refers to what the network may write.
    pub(crate) unsafe fn register(&self, memory: NonNull<u8>, len: usize) -> Result<Registration> {
        let network = &self.context.network;
        let register = network.function(of!(network.table, register), "regMr")?;
        let mut registration = null_mut();
        let (end, memory) = (self.pointer.as_ptr(), memory.as_ptr().cast());
        // SAFETY: the connection is of this plugin; the caller's promise.
        let code = unsafe { register(end, memory, len, PTR_HOST, &raw mut registration) };
        network.check_with(|| format!("register {len} bytes"), code)?;
        Ok(Registration(registration))
    }

    /// Gives registered memory back.
    pub(crate) fn deregister(&self, registration: &Registration) {
        let Some(deregister) = of!(self.context.network.table, deregister) else { return };
        // SAFETY: of this connection, given back once. There is nobody to tell of an error.
        let _ = unsafe { deregister(self.pointer.as_ptr(), registration.0) };
        SAID.take();
    }

    /// Begins to send; nothing where the other end has no room yet.
    ///
    /// # Safety
    /// The bytes lie in what is registered, and stay unchanged until the request is done.
    pub(crate) unsafe fn send(
        &self,
        memory: NonNull<u8>,
        len: usize,
        registration: &Registration,
    ) -> Result<Option<Request>> {
        let network = &self.context.network;
        let mut request = null_mut();
        let (end, at, memory) = (self.pointer.as_ptr(), &raw mut request, memory.as_ptr().cast());
        let code = match network.table {
            Table::V8(table) => {
                let len =
                    c_int::try_from(len).map_err(|_| Error::Internal(format!("a message of {len} bytes")))?;
                // SAFETY: a static of the library.
                let send = network.function(unsafe { (*table).send }, "isend")?;
                // SAFETY: the caller's promise.
                unsafe { send(end, memory, len, 0, registration.0, at) }
            }
            Table::V9(table) => {
                // SAFETY: as above.
                let send = network.function(unsafe { (*table).send }, "isend")?;
                // SAFETY: as above.
                unsafe { send(end, memory, len, 0, registration.0, at) }
            }
            Table::V10(table) => {
                // SAFETY: as above.
                let send = network.function(unsafe { (*table).send }, "isend")?;
                // SAFETY: as above; no event of a profiler.
                unsafe { send(end, memory, len, 0, registration.0, null_mut(), at) }
            }
            Table::V11(table) => {
                // SAFETY: as above.
                let send = network.function(unsafe { (*table).send }, "isend")?;
                // SAFETY: as above.
                unsafe { send(end, memory, len, 0, registration.0, null_mut(), at) }
            }
        };
        network.check_with(|| format!("send {len} bytes"), code)?;
        Ok(NonNull::new(request).map(Request))
    }

    /// Begins to receive at most so many bytes; nothing where the plugin cannot yet.
    ///
    /// # Safety
    /// The room lies in what is registered, and nothing refers to it until the request is done.
    pub(crate) unsafe fn receive(
        &self,
        memory: NonNull<u8>,
        room: usize,
        registration: &Registration,
    ) -> Result<Option<Request>> {
        let network = &self.context.network;
        let mut request = null_mut();
        let (mut memory, mut tag, mut registered) = (memory.as_ptr().cast(), 0, registration.0);
        let (mut room, mut events) = (room, null_mut());
        let (end, at) = (self.pointer.as_ptr(), &raw mut request);
        let (memories, tags, registrations) = (&raw mut memory, &raw mut tag, &raw mut registered);
        let code = match network.table {
            Table::V8(table) => {
                let mut room = c_int::try_from(room).unwrap_or(c_int::MAX);
                // SAFETY: a static of the library.
                let receive = network.function(unsafe { (*table).receive }, "irecv")?;
                // SAFETY: lists of one; the caller's promise.
                unsafe { receive(end, 1, memories, &raw mut room, tags, registrations, at) }
            }
            Table::V9(table) => {
                // SAFETY: as above.
                let receive = network.function(unsafe { (*table).receive }, "irecv")?;
                // SAFETY: as above.
                unsafe { receive(end, 1, memories, &raw mut room, tags, registrations, at) }
            }
            Table::V10(table) => {
                // SAFETY: as above.
                let receive = network.function(unsafe { (*table).receive }, "irecv")?;
                // SAFETY: as above; no event of a profiler.
                unsafe { receive(end, 1, memories, &raw mut room, tags, registrations, &raw mut events, at) }
            }
            Table::V11(table) => {
                // SAFETY: as above.
                let receive = network.function(unsafe { (*table).receive }, "irecv")?;
                // SAFETY: as above.
                unsafe { receive(end, 1, memories, &raw mut room, tags, registrations, &raw mut events, at) }
            }
        };
        network.check_with(|| format!("receive {room} bytes"), code)?;
        debug_assert_ne!(request.addr(), OPTIONAL_RECV_COMPLETION, "it was not asked for");
        Ok(NonNull::new(request).map(Request))
    }

    /// Goes on with a request; its bytes if it is done, after which it is no request any more.
    pub(crate) fn test(&self, request: Request) -> Result<Option<usize>> {
        let network = &self.context.network;
        let test = network.function(of!(network.table, test), "test")?;
        let (mut done, mut len) = (0, 0);
        // SAFETY: a request in flight of this plugin, and places that live during the call; it was of one buffer.
        let code = unsafe { test(request.0.as_ptr(), &raw mut done, &raw mut len) };
        network.check("go on with a request", code)?;
        Ok((done != 0).then(|| usize::try_from(len).unwrap_or(0)))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let table = self.context.network.table;
        let close: Option<Close> = match self.kind {
            Kind::Listen => of!(table, close_listen),
            Kind::Send => of!(table, close_send),
            Kind::Receive => of!(table, close_receive),
        };
        if let Some(close) = close {
            // SAFETY: of this plugin, closed once. There is nobody to tell of an error.
            let _ = unsafe { close(self.pointer.as_ptr()) };
            // What it has warned of is no call's error.
            SAID.take();
        }
    }
}

/// Events of a network for a profiler, which the engine does not tell one of. A plugin may call without looking whether it may.
unsafe extern "C" fn no_profiler(
    _event: *mut *mut c_void,
    _kind: c_int,
    _parent: *mut c_void,
    _id: i64,
    _told: *mut c_void,
) -> Code {
    SUCCESS
}

/// The logger that plugins get. Its variable arguments cannot be read in stable Rust, so the format itself is logged.
fn logger() -> Logger {
    type Fixed = extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char);
    type Variadic = unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, ...);
    // SAFETY: on the ABIs of Linux a variadic call passes these arguments as a call of a function with these alone does.
    Some(unsafe { std::mem::transmute::<Fixed, Variadic>(log_for_plugin) })
}

extern "C" fn log_for_plugin(
    level: c_int,
    flags: c_ulong,
    _file: *const c_char,
    _line: c_int,
    text: *const c_char,
) {
    if text.is_null() {
        return;
    }
    // SAFETY: a plugin's format is a NUL-terminated string.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().replace("%%", "%");
    let is_warning = level <= nccl_net::LOG_WARN;
    match is_warning {
        true => log::write(Level::Warn, subsystem::NET, 0, &text),
        false => log::write(Level::Info, flags, 0, &text),
    }
    if level <= nccl_net::LOG_INFO {
        SAID.with_borrow_mut(|said| {
            if is_warning {
                said.warning.get_or_insert_with(|| text.clone());
            }
            said.last = Some(text);
        });
    }
}
