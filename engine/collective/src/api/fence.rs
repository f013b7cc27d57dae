//! What every exported function goes through: no panic crosses into C, and an error leaves its text behind.

use std::cell::RefCell;
use std::collections::VecDeque;
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

/// Failures of communicators that the log has, the newest last.
static SAID: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());
/// Failures that are remembered: of so many communicators that a program goes on to call at a time.
const MAX_SAID: usize = 64;

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
            let text = error.to_string();
            if !is_repeated(&text, &mut lock(&SAID)) {
                log::write(Level::Warn, subsystem::ALL, 0, &text);
            }
            *lock(&LAST_ERROR) = text;
            error.code()
        }
    }
}

/// Whether each further call on a communicator that has failed says only this again. Its text begins with the communicator.
fn is_repeated(text: &str, said: &mut VecDeque<String>) -> bool {
    if !text.starts_with("comm 0x") {
        return false;
    }
    if said.iter().any(|known| known == text) {
        return true;
    }
    if said.len() == MAX_SAID {
        said.pop_front();
    }
    said.push_back(text.to_owned());
    false
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_communicator_is_told_of_once_and_a_wrong_call_each_time() {
        let mut said = VecDeque::new();
        let texts = ["comm 0x1: rank 1 died", "rank 9 of 4 ranks", "comm 0x2: rank 1 died"];
        let mut told = || texts.map(|text| is_repeated(text, &mut said));
        assert_eq!((told(), told()), ([false; 3], [true, false, true]));
        (0..MAX_SAID).for_each(|comm| assert!(!is_repeated(&format!("comm 0x{comm}: gone"), &mut said)));
        assert_eq!((is_repeated(texts[0], &mut said), said.len()), (false, MAX_SAID));
    }
}
