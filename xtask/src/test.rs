//! `cargo xtask test`: all that CI checks, in the order in which mistakes are cheapest to find.

use anyhow::{Result, bail};

use crate::process::{cargo, command, npm, run, target_dir};
use crate::{dashboards, nccl, python, rig, tools};

pub(crate) fn run_all() -> Result<()> {
    tools::ensure(&[
        tools::CC,
        tools::IP,
        tools::NFT,
        tools::POSTGRES,
        tools::PROMETHEUS,
        tools::ALERTMANAGER,
        tools::CHROMIUM,
        tools::NPM,
    ])?;
    run(&mut cargo(["fmt", "--all", "--check"]))?;
    run(&mut cargo(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))?;
    tools::ensure_cargo_deny()?;
    run(&mut cargo(["deny", "check", "bans", "licenses", "sources"]))?;
    web()?;
    dashboards::test()?;
    nccl::ensure()?;
    python::ensure()?;
    // The tests drive the built libraries and the built command, as a user does.
    run(&mut cargo(["build", "--workspace", "--locked"]))?;
    run(&mut cargo(["build", "-p", "ringscope", "--example", "simulate", "--locked"]))?;
    python::test_package()?;
    rig::test()?;
    run(npm("web", ["run", "test:e2e"]).env("RINGSCOPE_BIN", target_dir().join("debug")))?;
    run(&mut cargo(["test", "--workspace", "--locked"]))
}

/// The page: types, tests, a rebuild that must give what is committed, and a browser.
fn web() -> Result<()> {
    build_web()?;
    run(&mut npm("web", ["run", "check"]))?;
    run(&mut npm("web", ["test"]))?;
    let unchanged = command("git", ["diff", "--exit-code", "--stat", "--", "web/dist"]);
    let untracked =
        command("git", ["ls-files", "--others", "--exclude-standard", "--", "web/dist"]).output()?;
    let mut unchanged = unchanged;
    if run(&mut unchanged).is_err() || !untracked.stdout.is_empty() {
        bail!("web/dist is not what web/src builds: run `cargo xtask web` and commit web/dist");
    }
    run(&mut npm("web", ["run", "test:browser"]))
}

/// Builds `web/dist` from `web/src`.
pub(crate) fn build_web() -> Result<()> {
    tools::ensure(&[tools::NPM])?;
    run(&mut npm("web", ["ci", "--no-audit", "--no-fund"]))?;
    run(&mut npm("web", ["run", "build"]))
}
