//! Stacks of Python, read from the memory of a process that goes on: nothing is stopped and nothing is changed. Only names
//! of files and functions, and line numbers; never a value.

use py_spy::config::{Config, LineNo, LockingStrategy};
use py_spy::{Frame, PythonSpy};

use super::native::Maps;

/// Frames of one thread that are told.
const MAX_FRAMES: usize = 64;
/// A process that runs may change what is being read: then it is read again.
const TRIES: usize = 4;

/// One thread's stack.
#[derive(Clone, Debug)]
pub(super) struct Stack {
    /// Number of the thread as the process sees it; from Python 3.11 on.
    pub(super) own_thread: Option<u64>,
    /// `pthread_t`: an address in the thread's own stack, but for the main thread's.
    pub(super) pthread: u64,
    /// Innermost first.
    pub(super) frames: Vec<String>,
}

/// Whether there is a Python interpreter in the process. `executable` is its file.
pub(super) fn is_there(executable: &str, maps: &Maps) -> bool {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().starts_with("python");
    name(executable) || maps.0.iter().any(|mapping| is_library(&mapping.path))
}

fn is_library(path: &str) -> bool {
    path.rsplit('/').next().unwrap_or_default().starts_with("libpython")
}

/// The stacks of all Python threads.
///
/// # Errors
/// Why they cannot be read, in words.
pub(super) fn stacks(pid: u32, maps: &Maps) -> Result<Vec<Stack>, String> {
    // The library is opened by its path: it must be what the process has.
    let replaced = maps.0.iter().find(|mapping| is_library(&mapping.path) && mapping.file(pid).is_none());
    if let Some(replaced) = replaced {
        return Err(format!("{} was replaced since the process has loaded it", replaced.name()));
    }
    let config = Config {
        blocking: LockingStrategy::NonBlocking,
        native: false,
        // Names of threads are objects of the program: the kernel's are told instead.
        collect_thread_names: false,
        dump_locals: 0,
        full_filenames: true,
        lineno: LineNo::LastInstruction,
        ..Config::default()
    };
    let number = i32::try_from(pid).map_err(|error| error.to_string())?;
    let mut last = String::new();
    for _ in 0..TRIES {
        match PythonSpy::new(number, &config).and_then(|mut spy| spy.get_stack_traces()) {
            Ok(traces) => {
                let stack = |trace: py_spy::StackTrace| Stack {
                    own_thread: trace.os_thread_id,
                    pthread: trace.thread_id,
                    frames: trace.frames.iter().take(MAX_FRAMES).map(frame).collect(),
                };
                return Ok(traces.into_iter().map(stack).collect());
            }
            // The chain says what; its first words only that.
            Err(error) => last = format!("{error:#}"),
        }
    }
    Err(last)
}

/// `dataloader.py:214 __next__`. A file that many packages have is told with its folder, one of Python's own library with
/// all from there: `python3.11/multiprocessing/connection.py:930 wait`.
fn frame(frame: &Frame) -> String {
    let (line, function) = (frame.line, &frame.name);
    if let Some(path) = of_library(&frame.filename) {
        return super::shown(&format!("{path}:{line} {function}"));
    }
    let mut parts = frame.filename.rsplit('/');
    let name = parts.next().unwrap_or_default();
    let folder = parts.next().filter(|_| matches!(name, "__init__.py" | "__main__.py"));
    let folder = folder.map(|folder| format!("{folder}/")).unwrap_or_default();
    super::shown(&format!("{folder}{name}:{line} {function}"))
}

/// Of a file of the library that comes with Python, its path from the version's folder on.
fn of_library(filename: &str) -> Option<&str> {
    let at = filename.find("/python3.")? + 1;
    let path = &filename[at..];
    let version = path.split('/').next().unwrap_or_default().trim_start_matches("python3.");
    let lib = filename[..at - 1].rsplit('/').next().unwrap_or_default();
    let is_own = matches!(lib, "lib" | "lib64")
        && version.bytes().all(|byte| byte.is_ascii_digit())
        && !path.contains("/site-packages/")
        && !path.contains("/dist-packages/");
    is_own.then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_a_file_a_line_and_a_function() {
        let check = |filename: &str, name: &str, expected: &str| {
            let found = frame(&Frame {
                name: name.into(),
                filename: filename.into(),
                module: None,
                short_filename: None,
                line: 214,
                locals: None,
                is_entry: true,
                is_shim_entry: false,
            });
            assert_eq!(found, expected);
        };
        check("/usr/lib/torch/utils/data/dataloader.py", "__next__", "dataloader.py:214 __next__");
        check("/usr/lib/torch/utils/__init__.py", "f", "utils/__init__.py:214 f");
        check("/usr/lib/python3/dist-packages/torch/data.py", "f", "data.py:214 f");
        check("/opt/py/lib/python3.12/site-packages/torch/data.py", "f", "data.py:214 f");
        check(
            "/usr/lib/python3.11/multiprocessing/connection.py",
            "wait",
            "python3.11/multiprocessing/connection.py:214 wait",
        );
        check("/home/anna/python3.11-env/train.py", "f", "train.py:214 f");
        check("<string>", "<module>", "<string>:214 <module>");
        check("a\u{1b}[2Jb.py", "f\n", "a [2Jb.py:214 f");
    }
}
