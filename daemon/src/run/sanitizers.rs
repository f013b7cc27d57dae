//! Programs that are built with a sanitizer: its runtime wants to come before all other libraries, and ends the program where
//! another does. A program that needs it has it behind what is preloaded, unless it is preloaded too
//! ([`ringscope_wire::settings::is_sanitizer`]).

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::program::{Command, Object};

/// `ASAN_OPTIONS` for the command, where its runtime would end it for what is preloaded.
pub(super) fn options(words: &[OsString], path: Option<&OsStr>, theirs: Option<&OsStr>) -> Option<OsString> {
    let program = Command::resolve(words, path).ok()?.program;
    needs_asan(&program).then(|| {
        // What the user says comes later, and counts.
        let mut options = OsString::from("verify_asan_link_order=0");
        if let Some(theirs) = theirs.filter(|theirs| !theirs.is_empty()) {
            options.push(":");
            options.push(theirs);
        }
        options
    })
}

fn needs_asan(program: &Path) -> bool {
    let needed = Object::read_head(program).map(|object| object.needed).unwrap_or_default();
    needed.iter().any(|name| ASAN.iter().any(|runtime| name.as_bytes().starts_with(runtime)))
}

/// Those that look at the order.
const ASAN: [&[u8]; 2] = [b"libasan.so", b"libclang_rt.asan"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_needs_no_runtime_gets_no_option() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(options(&[own.into()], None, None), None);
        assert_eq!(options(&["/nonexistent".into()], None, None), None);
    }
}
