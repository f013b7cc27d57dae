//! The libraries that the engine is measured beside: from apt and PyPI, into the build folder, never committed. What does
//! not install is left out, with the reason.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::process::{command, run, target_dir};
use crate::tools;

/// Pinned, for a tuning table changes with its version. oneCCL's is the last whose wheel has the build for CPUs.
const WHEELS: [&str; 3] = ["impi-rt==2021.19.0", "impi-devel==2021.19.0", "oneccl-devel==2021.13.1"];
/// What the wheels must have brought.
const WITNESSES: [&str; 3] = ["bin/mpiexec.hydra", "lib/libmpi.so.12", "lib/ccl/cpu/lib/libccl.so.1"];
/// Gloo's library and headers have no program that could be looked for.
const GLOO_HEADER: &str = "/usr/include/gloo/config.h";

/// Open MPI with its compiler.
pub(crate) fn open_mpi() -> Result<()> {
    tools::ensure(&[tools::CC, tools::MPIRUN, tools::MPICC])
}

/// Gloo as Debian builds it, and a compiler for C++.
pub(crate) fn gloo() -> Result<()> {
    tools::ensure(&[tools::CXX])?;
    if Path::new(GLOO_HEADER).exists() { Ok(()) } else { tools::install(&["libgloo-dev"]) }
}

/// Intel MPI and oneCCL: their folder has `bin`, `include` and `lib`.
pub(crate) fn intel() -> Result<PathBuf> {
    // Intel's launcher may want libfabric, which Debian's Open MPI depends on.
    open_mpi()?;
    tools::ensure(&[tools::CXX])?;
    let folder = target_dir().join("peers/intel");
    if WITNESSES.iter().all(|file| folder.join(file).exists()) {
        return Ok(folder);
    }
    run(command("python3", ["-m", "venv"]).arg(&folder))?;
    let mut pip = std::process::Command::new(folder.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    run(pip.args(WHEELS)).context("PyPI gave no impi-rt, impi-devel and oneccl-devel")?;
    if let Some(missing) = WITNESSES.iter().find(|file| !folder.join(file).exists()) {
        bail!("the wheels brought no {missing}");
    }
    Ok(folder)
}
