//! From the words of a command to the file that will run: `PATH`, scripts and their interpreters.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// A command as it will be executed.
#[derive(Clone, Debug)]
pub struct Command {
    /// The ELF file that the kernel starts: the program, or the interpreter of the script.
    pub program: PathBuf,
    /// Files among the command's words: the script, its arguments.
    pub files: Vec<PathBuf>,
}

/// Why a command cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// No such file.
    #[error("{word:?} is not found; is it installed and in PATH?")]
    NotFound {
        /// The first word.
        word: OsString,
    },
    /// Scripts that are each other's interpreters.
    #[error("{path} is a script whose interpreter is a script, and so on: name the program itself")]
    Scripts {
        /// The last script looked at.
        path: PathBuf,
    },
}

impl Command {
    /// Finds what the words would start, with this `PATH`.
    ///
    /// # Errors
    /// [`CommandError`].
    pub fn resolve(words: &[OsString], path: Option<&OsStr>) -> Result<Self, CommandError> {
        let (mut words, mut files) = (words.to_vec(), Vec::new());
        for _ in 0..MAX_INTERPRETERS {
            let word = words.first().cloned().unwrap_or_default();
            let program = find(&word, path).ok_or_else(|| CommandError::NotFound { word: word.clone() })?;
            if is_named(&program, "env") {
                words = after_env(&words);
                continue;
            }
            match interpreter(&program) {
                None => {
                    files.extend(words.iter().skip(1).map(PathBuf::from).filter(|word| word.is_file()));
                    return Ok(Self { program, files });
                }
                Some(line) => {
                    let rest = words.split_off(1);
                    words = line;
                    words.push(program.into());
                    words.extend(rest);
                }
            }
        }
        Err(CommandError::Scripts { path: words.first().map(PathBuf::from).unwrap_or_default() })
    }

    /// The Python interpreter that runs it, which may itself be a script (pyenv's are).
    #[must_use]
    pub fn python(&self) -> Option<&Path> {
        std::iter::once(&self.program).chain(&self.files).map(PathBuf::as_path).find(|file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let is_interpreter = name.starts_with("python") || name.starts_with("pypy");
            is_interpreter && file.extension().is_none_or(|extension| extension != "py")
        })
    }
}

/// What is left of `env [-S] [NAME=value…] CMD…`.
fn after_env(words: &[OsString]) -> Vec<OsString> {
    let is_own = |word: &&OsString| {
        let bytes = word.as_bytes();
        bytes.starts_with(b"-") || bytes.contains(&b'=')
    };
    words.iter().skip(1).skip_while(is_own).cloned().collect()
}

fn is_named(path: &Path, name: &str) -> bool {
    path.file_name().is_some_and(|file| file == name)
}

fn find(word: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    if word.is_empty() {
        return None;
    }
    if word.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(word)).filter(|path| path.is_file());
    }
    let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
    path.as_bytes()
        .split(|byte| *byte == b':')
        .map(|folder| Path::new(OsStr::from_bytes(folder)).join(word))
        .find(|file| file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok())
}

/// The words of a script's first line.
fn interpreter(path: &Path) -> Option<Vec<OsString>> {
    let mut head = Vec::new();
    File::open(path).ok()?.take(MAX_FIRST_LINE_BYTES).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let words: Vec<OsString> = (line.split(u8::is_ascii_whitespace))
        .filter(|word| !word.is_empty())
        .map(|word| OsStr::from_bytes(word).to_owned())
        .collect();
    (!words.is_empty()).then_some(words)
}

/// As the kernel allows.
const MAX_INTERPRETERS: usize = 8;
/// As the kernel reads (`BINPRM_BUF_SIZE`).
const MAX_FIRST_LINE_BYTES: u64 = 256;
/// What shells take where `PATH` is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_script_is_run_by_its_interpreter() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("train");
        std::fs::write(&script, "#!/usr/bin/env -S sh -e\n").unwrap();
        let script = script.display().to_string();
        let command = Command::resolve(&words(&[&script, "--steps", "5"]), None).unwrap();
        assert!(is_named(&command.program, "sh"), "{command:?}");
        assert_eq!(command.files, [PathBuf::from(&script)]);
        assert_eq!(command.python(), None);
    }

    #[test]
    fn a_python_that_is_a_script_is_one_still() {
        let dir = tempfile::tempdir().unwrap();
        let (python, script) = (dir.path().join("python3.11"), dir.path().join("python_job.py"));
        std::fs::write(&python, "#!/bin/sh\n").unwrap();
        std::fs::write(&script, "").unwrap();
        let command = Command::resolve(&[python.clone().into(), script.into()], None).unwrap();
        assert_eq!(command.python(), Some(&*python));
    }

    #[test]
    fn env_is_looked_through() {
        let command = Command::resolve(&words(&["env", "A=b", "sh", "-c", "true"]), None).unwrap();
        assert!(is_named(&command.program, "sh"), "{command:?}");
    }

    #[test]
    fn what_is_not_there_and_what_never_ends_is_said() {
        let error = Command::resolve(&words(&["no-such-command"]), None).unwrap_err().to_string();
        assert!(error.contains("no-such-command") && error.contains("PATH"), "{error}");
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("loop");
        std::fs::write(&script, format!("#!{}\n", script.display())).unwrap();
        let error = Command::resolve(&[script.into()], None).unwrap_err();
        assert!(matches!(error, CommandError::Scripts { .. }), "{error}");
        assert!(Command::resolve(&[], None).is_err());
    }
}
