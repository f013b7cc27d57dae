//! Programs that make packages: zig and cargo's, each of a fixed version in target/tools.

use std::process::Command;

use anyhow::Result;

use super::target::Target;
use crate::process::{cargo, command, run, target_dir};

/// Links against an old glibc, for another machine too; the Python package of zig brings compiler and C libraries.
const ZIG: [&str; 2] = ["cargo-zigbuild==0.24.1", "ziglang==0.17.1"];
/// Makes a .deb of what `package.metadata.deb` names.
pub(super) const DEB: (&str, &str) = ("cargo-deb", "3.8.0");
/// Makes an .rpm of what `package.metadata.generate-rpm` names.
pub(super) const RPM: (&str, &str) = ("cargo-generate-rpm", "0.21.1");
/// Makes the list of all crates that are inside.
pub(super) const CYCLONEDX: (&str, &str) = ("cargo-cyclonedx", "0.5.9");

/// `cargo zigbuild` and its kin, with the compiler's own library for the target.
pub(super) fn zig(target: Target) -> Result<Command> {
    let folder = target_dir().join("tools/python");
    let program = folder.join("bin/cargo-zigbuild");
    if !runs(&mut Command::new(&program)) {
        run(command("python3", ["-m", "venv"]).arg(&folder))?;
        let mut install = Command::new(folder.join("bin/python"));
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(ZIG);
        run(&mut install)?;
    }
    let installed = super::output(&mut command("rustup", ["target", "list", "--installed"]))?;
    if !installed.lines().any(|line| line == target.triple()) {
        run(&mut command("rustup", ["target", "add", target.triple()]))?;
    }
    // It looks for the compiler as a module of the first Python.
    let mut zig = Command::new("env");
    zig.arg(format!("PATH={}:{}", folder.join("bin").display(), super::path())).arg(program);
    zig.current_dir(crate::process::root());
    Ok(zig)
}

/// A cargo command of its crate, installed if it is missing.
pub(super) fn subcommand((name, version): (&str, &str)) -> Result<Command> {
    let folder = target_dir().join("tools");
    let program = folder.join("bin").join(name);
    let mark = folder.join(format!("{name}-{version}"));
    if !program.exists() || !mark.exists() {
        let mut install = cargo(["install", "--locked", "--force", "--root"]);
        install.arg(&folder).arg(format!("{name}@{version}"));
        install.env("CARGO_TARGET_DIR", folder.join("build")).envs(QUICK);
        run(&mut install)?;
        std::fs::write(&mark, "")?;
    }
    let mut command = Command::new(program);
    command.current_dir(crate::process::root());
    Ok(command)
}

fn runs(command: &mut Command) -> bool {
    command.arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Each runs for some seconds: optimizing it as a release takes minutes.
const QUICK: [(&str, &str); 4] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
];
