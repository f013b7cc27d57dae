//! Python: programs that tests need, in an environment of their own in the build folder, and the tests of our package.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::process::{cargo, command, root, run, target_dir};
use crate::tools;

/// Sends the API what its document allows and what it does not; pinned, for what it tries changes with its version.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";
/// Checks the types of our package; pinned, for what it finds changes with its version.
const MYPY: &str = "mypy==2.4.1";
/// Where an interpreter may have numpy and PyTorch: what the person uses, else Debian's.
const INTERPRETERS: [&str; 2] = ["python3", "/usr/bin/python3"];
/// What brings them to Debian's.
const PACKAGES: [&str; 2] = ["python3-numpy", "python3-torch"];

/// Makes `target/python` with schemathesis and mypy in it, or fails with the command that does.
pub(crate) fn ensure() -> Result<()> {
    let folder = target_dir().join("python");
    if ["schemathesis", "mypy"].iter().all(|program| folder.join("bin").join(program).exists()) {
        return Ok(());
    }
    let made = run(command("python3", ["-m", "venv"]).arg(&folder)).and_then(|()| {
        let pip = folder.join("bin/python");
        let mut install = Command::new(pip);
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", SCHEMATHESIS, MYPY]);
        run(&mut install)
    });
    made.with_context(|| {
        format!(
            "cannot get {SCHEMATHESIS} and {MYPY}; `cargo xtask python` tries again, with python3 and its venv"
        )
    })
}

/// An interpreter that has numpy and PyTorch, which are installed where none has; or fails with the command that does.
pub(crate) fn with_torch() -> Result<PathBuf> {
    if let Some(found) = interpreter() {
        return Ok(found);
    }
    tools::install(&PACKAGES)?;
    match interpreter() {
        Some(found) => Ok(found),
        None => bail!("none of {} can import numpy and torch", INTERPRETERS.join(", ")),
    }
}

/// The tests of `ringscope_engine`, with the library and the server that were built for debugging, and those of the collector's
/// hook in Python.
pub(crate) fn test_package() -> Result<()> {
    for tests in ["engine/python/tests", "collector/python/tests"] {
        let mut test = Command::new(with_torch()?);
        test.args(["-m", "unittest", "discover", "--start-directory"]).arg(root().join(tests));
        test.env("RINGSCOPE_BIN", target_dir().join("debug"));
        run(test.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(root()))?;
    }
    Ok(())
}

/// The types of `ringscope_engine`, which it ships, against those of numpy and PyTorch.
pub(crate) fn check_types() -> Result<()> {
    ensure()?;
    let folder = target_dir().join("python");
    let mut check = Command::new(folder.join("bin/python"));
    check.args(["-m", "mypy", "--strict", "--cache-dir"]).arg(folder.join("types"));
    check.arg("--python-executable").arg(with_torch()?).arg("ringscope_engine");
    run(check.current_dir(root().join("engine/python")))
}

/// What the package adds to a training step, and what small tensors cost, with the library that was built for release.
pub(crate) fn bench(arguments: &[String]) -> Result<()> {
    for program in ["stand_in.py", "small.py", "rows.py", "late.py", "nics.py", "timeline.py"] {
        let mut bench = Command::new(with_torch()?);
        bench.arg(root().join("engine/python/bench").join(program)).args(arguments);
        bench.env("RSCCL_LIBRARY", target_dir().join("release/librsccl.so"));
        run(bench.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(root()))?;
    }
    Ok(())
}

/// Whether a summation group that runs for so many seconds needs more and more memory.
pub(crate) fn soak(seconds: u32) -> Result<()> {
    run(&mut cargo(["build", "--release", "-p", "ringscope-engine", "--lib", "--bins"]))?;
    let release = target_dir().join("release");
    let mut soak = Command::new(with_torch()?);
    soak.arg(root().join("engine/python/bench/soak.py")).args(["--seconds", &seconds.to_string()]);
    soak.arg("--server")
        .arg(release.join("ringscope-sumd"))
        .env("RSCCL_LIBRARY", release.join("librsccl.so"));
    run(soak.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(root()))
}

/// The backend rsccl of torch.distributed beside Gloo and MPI, with the library that was built for release, by two and four ranks.
pub(crate) fn bench_process_groups(arguments: &[String]) -> Result<()> {
    tools::ensure(&[tools::MPIRUN])?;
    let python = with_torch()?;
    let mut import = Command::new(&python);
    import.args(["-c", "import mpi4py"]).stderr(Stdio::null());
    if !import.status().is_ok_and(|status| status.success()) {
        tools::install(&["python3-mpi4py"])?;
    }
    for n_ranks in ["2", "4"] {
        let mut bench = command("mpirun", ["--allow-run-as-root", "--oversubscribe", "-n", n_ranks]);
        bench.arg(&python).arg(root().join("engine/python/bench/process_groups.py")).args(arguments);
        bench
            .env("RSCCL_LIBRARY", target_dir().join("release/librsccl.so"))
            .env("RSCCL_NICS", "lo=127.0.0.1");
        run(bench.env("OMP_NUM_THREADS", "1").env("PYTHONDONTWRITEBYTECODE", "1"))?;
    }
    Ok(())
}

fn interpreter() -> Option<PathBuf> {
    let has_both = |program: &str| {
        let mut import = Command::new(program);
        import.args(["-c", "import numpy, torch"]).stdout(Stdio::null()).stderr(Stdio::null());
        import.status().is_ok_and(|status| status.success())
    };
    INTERPRETERS.iter().find(|program| has_both(program)).map(PathBuf::from)
}
