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

/// A command about as a person would type it in the root. What is only taken out of its environment says nothing.
fn words(command: &Command) -> String {
    let folder = command.get_current_dir().filter(|folder| *folder != root());
    let folder = folder.map(|folder| format!("cd {folder:?} &&"));
    let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let set = set.map(|(name, value)| format!("{}={value:?}", name.display()));
    let typed = std::iter::once(command.get_program()).chain(command.get_args());
    folder.into_iter().chain(set).chain(typed.map(|word| format!("{word:?}"))).collect::<Vec<_>>().join(" ")
}

/// Runs a command in the repository's root, says how long a long one took, and fails if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let words = words(command);
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
    let words = words(command);
    say(&words);
    Err(command.exec()).with_context(|| format!("cannot start {words}"))
}

/// `cargo` with these arguments, in the root, as if a shell had started it: some build scripts (ring's) look at what `cargo run` tells its
/// program of itself, and what depends on them would be compiled anew at each change between `cargo xtask` and `cargo build`.
pub(crate) fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    let mut cargo = command(env!("CARGO"), arguments);
    let is_of_xtask = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_of_xtask)) {
        cargo.env_remove(name);
    }
    cargo
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
