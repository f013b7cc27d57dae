//! What every exported function goes through: no panic crosses into C, and an error leaves its text behind.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use crate::error::{Error, IN_PROGRESS, Progress, Result, SUCCESS};
use crate::lock::lock;
use crate::log::{self, Level, subsystem};
use crate::run::group;

/// The text of the process's last error, for `ncclGetLastError(NULL)`.
static LAST_ERROR: Mutex<String> = Mutex::new(String::new());

/// NCCL's text for an internal error sends its readers to NCCL's developers.
const PANICKED: &str = "the library panicked: a mistake of ringscope's engine, not of NCCL";

thread_local! {
    /// Keeps the text of `ncclGetLastError` alive until the thread's next call of it.
    static SHOWN: RefCell<CString> = RefCell::default();
}

/// Runs `call`; its result code.
pub(crate) fn guard<T: Into<Progress>>(call: impl FnOnce() -> Result<T>) -> c_int {
    let result =
        catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(Error::Internal(PANICKED.to_owned())));
    match result {
        Ok(progress) => match progress.into() {
            Progress::Done => SUCCESS,
            Progress::Started => IN_PROGRESS,
        },
        Err(error) => {
            let error = group::poison(error);
            log::write(Level::Warn, subsystem::ALL, 0, &error.to_string());
            *lock(&LAST_ERROR) = error.to_string();
            error.code()
        }
    }
}

/// `text`, or the process's last error, as a C string that lives until the thread's next call.
pub(crate) fn show(text: Option<String>) -> *const c_char {
    let text = text.unwrap_or_else(|| lock(&LAST_ERROR).clone());
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    let shown = SHOWN.try_with(|shown| {
        *shown.borrow_mut() = text;
        shown.borrow().as_ptr()
    });
    shown.unwrap_or(c"".as_ptr())
}

/// Both names of each function: `ncclX` or `rsum_x`, which a tool may interpose on, and the one with a `p` before it,
/// which it then calls.
#[macro_export]
macro_rules! export {
    ($($(#[$doc:meta])* fn $name:ident / $profiled:ident($($arg:ident: $type:ty),* $(,)?) -> $result:ty $body:block)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The arguments are what the function's header (`nccl.h`, `rsum.h`) asks for.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> $result $body

        /// The same, under the name that interposing tools call.
        ///
        /// # Safety
        /// The arguments are what the function's header (`nccl.h`, `rsum.h`) asks for.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $profiled($($arg: $type),*) -> $result $body
    )*};
}

pub use export;
