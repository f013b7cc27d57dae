//! What a program is made of, read from its files: which libraries it loads, how it calls the collective library.
//!
//! Reads files and asks an interpreter for its folders. Never runs the program, never loads a library of it.

mod command;
mod object;
mod python;
mod search;

pub use command::{Command, CommandError};
pub use object::{Object, ObjectError};
pub use python::Interpreter;
pub use search::{Libraries, Loaded};

/// Sonames of libraries that speak NCCL's API, the usual one first.
pub const SONAMES: [&str; 4] = ["libnccl.so.2", "libnccl.so", "librccl.so.1", "librsccl.so"];

/// Whether a file's name is that of a library that speaks NCCL's API, in whatever version.
#[must_use]
pub fn is_nccl(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    ["libnccl.so", "librccl.so", "librsccl.so"]
        .iter()
        .any(|known| file.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_the_library_are_the_library_and_its_plugins_are_not() {
        for name in ["libnccl.so.2", "/opt/libnccl.so.2.27.5", "librccl.so.1", "librsccl.so"] {
            assert!(is_nccl(name), "{name}");
        }
        for name in ["libnccl-profiler.so", "libnccl-net.so", "libncclx.so", "libnccl.a"] {
            assert!(!is_nccl(name), "{name}");
        }
    }
}
