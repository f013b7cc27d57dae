//! The programs that tests need, and how to get them on Debian.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::process::{command, run, say};

/// A program, where it may lie, and what brings it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    program: &'static str,
    /// Folders beside those of `PATH`, in which it may lie as `<program>` or `<version>/bin/<program>`.
    folders: &'static [&'static str],
    apt_package: &'static str,
}

/// PostgreSQL's server.
pub(crate) const POSTGRES: Tool =
    Tool { program: "postgres", folders: &["/usr/lib/postgresql"], apt_package: "postgresql" };
/// Prometheus; its package brings promtool too.
pub(crate) const PROMETHEUS: Tool = Tool { program: "promtool", folders: &[], apt_package: "prometheus" };
/// Alertmanager; its package brings amtool too.
pub(crate) const ALERTMANAGER: Tool =
    Tool { program: "amtool", folders: &[], apt_package: "prometheus-alertmanager" };
/// wrk, for asking the daemon at a rate.
pub(crate) const WRK: Tool = Tool { program: "wrk", folders: &[], apt_package: "wrk" };
/// Chromium, for looking at the page.
pub(crate) const CHROMIUM: Tool = Tool { program: "chromium", folders: &[], apt_package: "chromium" };
/// pngquant, for pictures of the page that are small.
pub(crate) const PNGQUANT: Tool = Tool { program: "pngquant", folders: &[], apt_package: "pngquant" };
/// npm, for building the page.
pub(crate) const NPM: Tool = Tool { program: "npm", folders: &[], apt_package: "npm" };
/// A C compiler, for the test programs that are C on purpose.
pub(crate) const CC: Tool = Tool { program: "cc", folders: &[], apt_package: "gcc" };
/// A C++ compiler, for the peers whose API is C++.
pub(crate) const CXX: Tool = Tool { program: "c++", folders: &[], apt_package: "g++" };
/// A C compiler for the C library musl.
pub(crate) const MUSL_GCC: Tool = Tool { program: "musl-gcc", folders: &[], apt_package: "musl-tools" };
/// debootstrap, for the root of an older Debian.
pub(crate) const DEBOOTSTRAP: Tool =
    Tool { program: "debootstrap", folders: &["/usr/sbin"], apt_package: "debootstrap" };
/// Open MPI's launcher.
pub(crate) const MPIRUN: Tool = Tool { program: "mpirun", folders: &[], apt_package: "openmpi-bin" };
/// Open MPI's compiler; its package brings the headers.
pub(crate) const MPICC: Tool = Tool { program: "mpicc", folders: &[], apt_package: "libopenmpi-dev" };
/// ip; its package brings tc and ss too.
pub(crate) const IP: Tool = Tool { program: "ip", folders: &[], apt_package: "iproute2" };
/// iperf3, for what a connection carries.
pub(crate) const IPERF3: Tool = Tool { program: "iperf3", folders: &[], apt_package: "iperf3" };
/// nft, for losing packets.
pub(crate) const NFT: Tool = Tool { program: "nft", folders: &["/usr/sbin"], apt_package: "nftables" };
/// munged, by which the parts of Slurm know each other.
pub(crate) const MUNGED: Tool = Tool { program: "munged", folders: &["/usr/sbin"], apt_package: "munge" };
/// Slurm's controller ...
pub(crate) const SLURMCTLD: Tool =
    Tool { program: "slurmctld", folders: &["/usr/sbin"], apt_package: "slurmctld" };
/// ... its daemon of a node ...
pub(crate) const SLURMD: Tool = Tool { program: "slurmd", folders: &["/usr/sbin"], apt_package: "slurmd" };
/// ... and its commands.
pub(crate) const SBATCH: Tool = Tool { program: "sbatch", folders: &[], apt_package: "slurm-client" };
/// unshare; its package brings setpriv too.
pub(crate) const UNSHARE: Tool = Tool { program: "unshare", folders: &[], apt_package: "util-linux" };

/// podman, for running pods.
pub(crate) const PODMAN: Tool = Tool { program: "podman", folders: &[], apt_package: "podman" };
/// buildah, for images.
pub(crate) const BUILDAH: Tool = Tool { program: "buildah", folders: &[], apt_package: "buildah" };
/// runc, which starts the containers.
pub(crate) const RUNC: Tool = Tool { program: "runc", folders: &["/usr/sbin"], apt_package: "runc" };
/// catatonit, the first process of a pod.
pub(crate) const CATATONIT: Tool =
    Tool { program: "catatonit", folders: &["/usr/libexec/podman"], apt_package: "catatonit" };
/// busybox, for the smallest image with a shell.
pub(crate) const BUSYBOX: Tool = Tool { program: "busybox", folders: &[], apt_package: "busybox-static" };
/// sshd, for pretended hosts.
pub(crate) const SSHD: Tool =
    Tool { program: "sshd", folders: &["/usr/sbin"], apt_package: "openssh-server" };
/// ssh, which leads to them.
pub(crate) const SSH: Tool = Tool { program: "ssh", folders: &[], apt_package: "openssh-client" };
/// systemd-nspawn, for a machine with a systemd of its own.
pub(crate) const NSPAWN: Tool =
    Tool { program: "systemd-nspawn", folders: &[], apt_package: "systemd-container" };
/// rpm, for installing into a folder.
pub(crate) const RPM: Tool = Tool { program: "rpm", folders: &[], apt_package: "rpm" };

/// Installs the tools that are missing through apt, or fails with the command that does.
pub(crate) fn ensure(tools: &[Tool]) -> Result<()> {
    let missing: Vec<&str> =
        tools.iter().filter(|tool| !tool.is_there()).map(|tool| tool.apt_package).collect();
    if missing.is_empty() { Ok(()) } else { install(&missing) }
}

/// Installs packages through apt, or fails with the command that does.
pub(crate) fn install(missing: &[&str]) -> Result<()> {
    let install = format!("apt-get install -y --no-install-recommends {}", missing.join(" "));
    say(&format!("missing: {}; {install}", missing.join(", ")));
    let mut update = command("apt-get", ["update", "-qq"]);
    let mut apt = command("apt-get", ["install", "-y", "-qq", "--no-install-recommends"]);
    apt.args(missing).env("DEBIAN_FRONTEND", "noninteractive");
    let installed = run(&mut update).and_then(|()| run(&mut apt));
    if let Err(error) = installed {
        bail!("{error:#}; install them yourself as root: {install}");
    }
    Ok(())
}

/// Installs what the headers of libibverbs are read with: CMake and libclang. They are needed by the crates that speak verbs
/// alone, which are no default members of the workspace.
pub(crate) fn ensure_libclang() -> Result<()> {
    let folders = Path::new("/usr/lib").read_dir().into_iter().flatten().flatten();
    let holds = |folder: PathBuf| {
        let files = folder.join("lib").read_dir().into_iter().flatten().flatten();
        let mut names = files.map(|file| file.file_name());
        names.any(|name| {
            let name = name.to_string_lossy();
            name.starts_with("libclang.so") || name.starts_with("libclang-") && !name.contains("cpp")
        })
    };
    let is_there = folders.map(|entry| entry.path()).any(holds);
    let missing = [(on_path("cmake"), "cmake"), (is_there, "libclang-dev")];
    let missing: Vec<&str> =
        missing.iter().filter(|(there, _)| !there).map(|(_, package)| *package).collect();
    if missing.is_empty() { Ok(()) } else { install(&missing) }
}

/// Installs cargo-deny if it is missing.
pub(crate) fn ensure_cargo_deny() -> Result<()> {
    ensure_subcommand("deny")
}

/// Installs cargo-fuzz if it is missing.
pub(crate) fn ensure_cargo_fuzz() -> Result<()> {
    ensure_subcommand("fuzz")
}

/// `cargo <name>`, from the crate `cargo-<name>`.
fn ensure_subcommand(name: &str) -> Result<()> {
    let there =
        command(env!("CARGO"), [name, "--version"]).output().is_ok_and(|output| output.status.success());
    if there {
        return Ok(());
    }
    run(&mut command(env!("CARGO"), ["install", "--locked", &format!("cargo-{name}")]))
}

impl Tool {
    fn is_there(self) -> bool {
        on_path(self.program) || self.folders.iter().any(|folder| holds(Path::new(folder), self.program))
    }
}

fn on_path(program: &str) -> bool {
    Command::new("sh")
        .args(["-c", "command -v \"$0\" >/dev/null", program])
        .status()
        .is_ok_and(|status| status.success())
}

/// Whether `folder/program` exists, or `folder/<version>/bin/program` for some version.
fn holds(folder: &Path, program: &str) -> bool {
    if folder.join(program).is_file() {
        return true;
    }
    let Ok(versions) = folder.read_dir() else { return false };
    versions.flatten().any(|version| version.path().join("bin").join(program).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_lies_in_its_folder_or_below_its_version() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!holds(folder.path(), "slurmd") && !holds(&folder.path().join("none"), "slurmd"));
        std::fs::write(folder.path().join("slurmd"), "").unwrap();
        std::fs::create_dir_all(folder.path().join("15/bin")).unwrap();
        std::fs::write(folder.path().join("15/bin/postgres"), "").unwrap();
        assert!(holds(folder.path(), "slurmd") && holds(folder.path(), "postgres"));
        assert!(!holds(folder.path(), "15") && !holds(folder.path(), "bin"));
    }
}
