//! `cargo xtask test`: all that CI checks, in the order in which mistakes are cheapest to find.

use anyhow::{Result, bail};

use crate::process::{cargo, command, npm, run, target_dir};
use crate::{build, dashboards, harm, kube, nccl, python, rdma, rig, tools};

pub(crate) fn run_all() -> Result<()> {
    tools::ensure(&[
        tools::CC,
        tools::CXX,
        tools::MUSL_GCC,
        tools::IP,
        tools::NFT,
        tools::UNSHARE,
        tools::MUNGED,
        tools::SLURMCTLD,
        tools::SLURMD,
        tools::SBATCH,
        tools::SSHD,
        tools::SSH,
        tools::POSTGRES,
        tools::PROMETHEUS,
        tools::ALERTMANAGER,
        tools::CHROMIUM,
        tools::NPM,
    ])?;
    tools::ensure_libclang()?;
    run(&mut cargo(["fmt", "--all", "--check"]))?;
    run(&mut cargo(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))?;
    // What is not built without an RDMA library's headers.
    let verbs = ["clippy", "-p", "ringscope-tensors", "--features", "verbs", "--all-targets", "--locked"];
    run(cargo(verbs).args(["--", "-D", "warnings"]))?;
    tools::ensure_cargo_deny()?;
    run(&mut cargo(["deny", "check", "bans", "licenses", "sources"]))?;
    web()?;
    dashboards::test()?;
    nccl::ensure()?;
    kube::ensure()?;
    python::ensure()?;
    python::check_types()?;
    // The tests drive the built libraries and the built command, as a user does.
    run(&mut build::debug())?;
    python::test_package()?;
    harm::test()?;
    rig::test()?;
    rdma::test()?;
    run(npm("web", ["run", "test:e2e"]).env("RINGSCOPE_BIN", target_dir().join("debug")))?;
    // The provider at which tests sign in.
    run(&mut npm("daemon/tests/oidc", ["ci", "--no-audit", "--no-fund"]))?;
    // All of them, also after one has failed: a second run would only then find the next.
    run(&mut cargo(["test", "--workspace", "--locked", "--no-fail-fast"]))?;
    // The end-to-end tests have run on the engine as NCCL 2.28; those that see most of its events and lines run as others.
    OTHER_VERSIONS.iter().try_for_each(|(version, tests)| {
        let mut other = cargo(["test", "--workspace", "--locked", "--no-fail-fast"]);
        other.args(tests.iter().flat_map(|test| ["--test", test]));
        run(other.env("RSCCL_FAITHFUL", version))
    })
}

/// Versions of NCCL with other lines and another interface of profilers than 2.28, and tests to be run as each.
const OTHER_VERSIONS: [(&str, &[&str]); 2] = [("2.30", &["demo"]), ("2.32", &["demo", "hang", "loading"])];

/// The page: a build that must give what is committed, types, the API's document, tests, and a browser.
fn web() -> Result<()> {
    install_web()?;
    // Not into web/dist: the daemon embeds it, and all of the daemon would be compiled anew for other times of files.
    let built = target_dir().join("web-dist");
    run(npm("web", ["run", "build", "--", "--emptyOutDir", "--outDir"]).arg(&built))?;
    let mut differs = command("git", ["diff", "--no-index", "--exit-code", "--stat", "web/dist"]);
    if run(differs.arg(&built)).is_err() {
        bail!("web/dist is not what web/src builds: run `cargo xtask web` and commit web/dist");
    }
    run(&mut npm("web", ["run", "check"]))?;
    run(&mut npm("web", ["run", "lint:api"]))?;
    run(&mut npm("web", ["test"]))?;
    run(&mut npm("web", ["run", "test:browser"]))
}

/// Builds `web/dist` from `web/src`.
pub(crate) fn build_web() -> Result<()> {
    install_web()?;
    run(&mut npm("web", ["run", "build"]))
}

fn install_web() -> Result<()> {
    tools::ensure(&[tools::NPM])?;
    run(&mut npm("web", ["ci", "--no-audit", "--no-fund"]))
}
