//! Fence: says things in the library's log.

#![expect(unsafe_code, reason = "the logger is the library's, a function of C with variable arguments")]

use std::ffi::{CString, c_int, c_ulong};
use std::sync::{Mutex, PoisonError};

use nccl_net::{LOG_INFO, LOG_WARN, Logger, SUBSYSTEM_ALL, SUBSYSTEM_INIT, SUBSYSTEM_NET};

static LOGGER: Mutex<Logger> = Mutex::new(None);

/// Where to say things from now on.
pub(crate) fn set(logger: Logger) {
    *LOGGER.lock().unwrap_or_else(PoisonError::into_inner) = logger;
}

/// Something is wrong.
pub(crate) fn warn(text: &str) {
    say(LOG_WARN, SUBSYSTEM_ALL, text);
}

/// What was found and chosen.
pub(crate) fn info(text: &str) {
    say(LOG_INFO, SUBSYSTEM_INIT | SUBSYSTEM_NET, text);
}

/// A text is its own format, with nothing in it that would ask for an argument: so a library that cannot read those shows it.
fn say(level: c_int, subsystems: c_ulong, text: &str) {
    let logger = *LOGGER.lock().unwrap_or_else(PoisonError::into_inner);
    let (Some(logger), Ok(text)) = (logger, CString::new(text.replace('%', "%%"))) else { return };
    // SAFETY: the library's logger, which outlives its plugins; the texts live during the call, and the format asks for nothing.
    unsafe { logger(level, subsystems, c"ringscope-net".as_ptr(), 0, text.as_ptr()) };
}
