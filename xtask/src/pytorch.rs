//! The backend "rsccl" of torch.distributed under PyTorch's own tests, and under scripts of its users.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Args as ClapArgs;

use crate::process::{cargo, command, root, run, say, target_dir};
use crate::{python, tools};

/// What PyTorch's own tests import beside PyTorch.
const EXPECTTEST: &str = "expecttest==0.3.0";
/// Scripts whose only change is the backend's name; PyTorch before 2.5 has what only the first one needs.
const SCRIPTS: [&str; 4] = ["ddp", "fsdp", "tensor_parallel", "pipeline"];
/// Ranks that each script is run with.
const N_RANKS: [usize; 2] = [2, 4];

/// Arguments of `cargo xtask pytorch`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// With PyTorch's newest wheel, 5.4 GB, instead of Debian's package; also runs the scripts of FSDP, tensor and pipeline
    /// parallel training beside Gloo
    #[arg(long)]
    newest: bool,
    /// Only these of PyTorch's tests
    #[arg(long, num_args = 1.., value_name = "TEST")]
    only: Vec<String>,
    /// Not PyTorch's tests, only the scripts
    #[arg(long, requires = "newest")]
    scripts: bool,
}

/// Runs them.
pub(crate) fn run_all(args: &Args) -> Result<()> {
    run(&mut cargo(["build", "--release", "-p", "ringscope-engine"]))?;
    let interpreter = if args.newest { newest()? } else { python::with_torch()? };
    if !args.scripts {
        let ran = ["rsccl", "gloo"].map(|backend| own_tests(&interpreter, backend, &args.only));
        ran.into_iter().collect::<Result<()>>()?;
    }
    if args.newest { scripts(&interpreter) } else { Ok(()) }
}

/// PyTorch's tests for any backend, or those that it has for Gloo, with rsccl in its place.
fn own_tests(interpreter: &Path, backend: &str, only: &[String]) -> Result<()> {
    let mut tests = Command::new(interpreter);
    tests.arg(root().join("engine/python/tests/pytorch/own_tests.py")).args(["--as", backend]);
    if !only.is_empty() {
        tests.arg("--only").args(only);
    }
    let beside = std::env::join_paths([root().join("engine/python"), expecttest()?])?;
    run(with_library(&mut tests).env("PYTHONPATH", beside))
}

/// Each script by Gloo and by rsccl: every rank must print the same of its parameters.
fn scripts(interpreter: &Path) -> Result<()> {
    for n_ranks in N_RANKS {
        for script in SCRIPTS {
            let [gloo, rsccl] =
                ["gloo", "rsccl"].map(|backend| parameters(interpreter, script, n_ranks, backend));
            let (gloo, rsccl) = (gloo?, rsccl?);
            // Two contributions have one sum; of more, the order of additions decides the last bits.
            let is_same = gloo == rsccl;
            ensure!(
                gloo.len() == n_ranks && rsccl.len() == n_ranks,
                "{script}: not each of {n_ranks} ranks printed its parameters"
            );
            ensure!(
                is_same || n_ranks > 2,
                "{script}: rsccl's parameters are not Gloo's: {rsccl:?}, {gloo:?}"
            );
            say(&format!(
                "{script}, {n_ranks} ranks: {}",
                if is_same { "Gloo's bits" } else { "runs; bits differ from Gloo's" }
            ));
        }
    }
    Ok(())
}

/// What the ranks of a script printed of their parameters.
fn parameters(interpreter: &Path, script: &str, n_ranks: usize, backend: &str) -> Result<Vec<String>> {
    let mut torchrun = Command::new(interpreter);
    torchrun.args(["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", &n_ranks.to_string()]);
    torchrun
        .arg(root().join("engine/python/tests/scripts").join(format!("{script}.py")))
        .args(["--backend", backend]);
    let ended = with_library(&mut torchrun).output().context("cannot start torchrun")?;
    let complaints = String::from_utf8_lossy(&ended.stderr);
    ensure!(
        ended.status.success(),
        "{script} on {backend} with {n_ranks} ranks ended with {}:\n{complaints}",
        ended.status
    );
    let printed = String::from_utf8_lossy(&ended.stdout);
    // Two ranks may write into one line.
    let mut lines: Vec<String> = printed
        .split("rank ")
        .filter(|line| line.contains("parameters"))
        .map(|line| line.trim().to_owned())
        .collect();
    lines.sort();
    Ok(lines)
}

fn with_library(program: &mut Command) -> &mut Command {
    program.env("RSCCL_LIBRARY", target_dir().join("release/librsccl.so"));
    program.env("RSCCL_NICS", "lo=127.0.0.1").env("OMP_NUM_THREADS", "1").env("PYTHONDONTWRITEBYTECODE", "1");
    program.current_dir(root())
}

/// A folder with expecttest.
fn expecttest() -> Result<PathBuf> {
    let folder = target_dir().join("pytorch/expecttest");
    if !folder.join("expecttest").exists() && !folder.join("expecttest.py").exists() {
        python::ensure()?;
        let mut pip = Command::new(target_dir().join("python/bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", EXPECTTEST, "--target"]);
        run(pip.arg(&folder))?;
    }
    Ok(folder)
}

/// An environment with PyTorch's newest wheel and this package, as a user installs it.
fn newest() -> Result<PathBuf> {
    let folder = target_dir().join("pytorch/newest");
    let interpreter = folder.join("bin/python");
    if !folder.join("bin/torchrun").exists() {
        tools::ensure(&[tools::CC])?;
        run(command("python3", ["-m", "venv"]).arg(&folder))?;
        let mut pip = Command::new(&interpreter);
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "torch",
            "numpy",
            "setuptools",
            "hypothesis",
        ]);
        run(&mut pip)?;
    }
    let mut pip = Command::new(&interpreter);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-build-isolation",
        "--editable",
    ]);
    run(pip.arg(root().join("engine/python")))?;
    Ok(interpreter)
}
