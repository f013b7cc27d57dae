//! Running other programs, and saying what runs.

#![expect(clippy::print_stderr, reason = "the chores talk to a person")]

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::clock::Stopwatch;

/// From here on a command is named with its time, so that a reader of the log sees where the time of a test run goes.
const WORTH_SAYING: Duration = Duration::from_secs(5);

/// Root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_owned)
}

/// The build folder in use.
#[expect(clippy::disallowed_methods, reason = "cargo's own setting")]
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// One line for the person who waits.
pub(crate) fn say(words: &str) {
    eprintln!("xtask: {words}");
}

/// Runs a command in the repository's root, says how long a long one took, and fails if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let words = format!("{command:?}");
    say(&words);
    let clock = Stopwatch::start();
    let status = command.status().with_context(|| format!("cannot start {words}"))?;
    if clock.elapsed() >= WORTH_SAYING {
        say(&format!("{} s: {words}", clock.elapsed().as_secs()));
    }
    if !status.success() {
        bail!("{words} ended with {status}");
    }
    Ok(())
}

/// Runs a command in place of this process; returns only if it cannot.
pub(crate) fn replace(command: &mut Command) -> Result<()> {
    let words = format!("{command:?}");
    say(&words);
    Err(command.exec()).with_context(|| format!("cannot start {words}"))
}

/// `cargo` with these arguments, in the root.
pub(crate) fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    command(env!("CARGO"), arguments)
}

/// A program with these arguments, in the root.
pub(crate) fn command<const N: usize>(program: &str, arguments: [&str; N]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// `npm` with these arguments, in a folder of the repository.
pub(crate) fn npm<const N: usize>(folder: &str, arguments: [&str; N]) -> Command {
    let mut npm = command("npm", arguments);
    npm.current_dir(root().join(folder));
    npm
}
