//! What guests are made of: Debian's packages on this machine, and a kernel of Debian's in `target/rdma/`.
//!
//! Never asks the network where what it needs is there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use super::cache;
use crate::process::{run, say};
use crate::tools;

/// Programs of a guest, under the name that they have on this machine too, and what brings them.
const PROGRAMS: [(&str, &str); 19] = [
    ("dash", "dash"),
    ("rdma", "iproute2"),
    ("tc", "iproute2"),
    ("ip", "iproute2"),
    ("ss", "iproute2"),
    ("ethtool", "ethtool"),
    ("strace", "strace"),
    ("ibv_devinfo", "ibverbs-utils"),
    ("ibv_devices", "ibverbs-utils"),
    ("ibv_rc_pingpong", "ibverbs-utils"),
    ("ibv_asyncwatch", "ibverbs-utils"),
    ("ib_write_bw", "perftest"),
    ("ib_write_lat", "perftest"),
    ("ib_read_bw", "perftest"),
    ("ib_read_lat", "perftest"),
    ("ib_send_bw", "perftest"),
    ("ib_send_lat", "perftest"),
    ("rping", "rdmacm-utils"),
    ("busybox", "busybox-static"),
];
/// Programs that run on this machine.
const OUTSIDE: [(&str, &str); 4] =
    [(QEMU, "qemu-system-x86"), ("depmod", "kmod"), ("setpriv", "util-linux"), ("cc", "gcc")];
/// The machine that guests are.
pub(super) const QEMU: &str = "qemu-system-x86_64";
/// The package whose dependency is the kernel.
const KERNEL: &str = "linux-image-amd64";
/// Where `PATH` leaves out what only root is thought to need.
const FOLDERS: [&str; 4] = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"];
/// Where Debian has the machine's libraries.
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

/// Installs what is missing; fails with the command that does.
pub(super) fn ensure_installed() -> Result<()> {
    ensure!(
        cfg!(target_arch = "x86_64"),
        "guests are x86-64 machines, and take their programs from this one"
    );
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    tools::install(&missing)?;
    let missing = self::missing();
    ensure!(missing.is_empty(), "apt has {} installed, and yet their files are missing", missing.join(", "));
    Ok(())
}

/// Packages of which something is not there.
fn missing() -> Vec<&'static str> {
    let all = OUTSIDE.iter().chain(&PROGRAMS);
    let mut missing: Vec<&str> =
        all.filter(|(program, _)| find(program).is_none()).map(|(_, package)| *package).collect();
    if providers().is_empty() {
        missing.push("ibverbs-providers");
    }
    missing.sort_unstable();
    missing.dedup();
    missing
}

/// Where the programs of a guest lie here.
pub(super) fn programs() -> Result<Vec<(&'static str, PathBuf)>> {
    let found = |(program, package): &(&'static str, &str)| {
        let path = find(program).with_context(|| format!("no {program}: apt-get install {package}"))?;
        Ok((*program, path))
    };
    PROGRAMS.iter().map(found).collect()
}

/// A program of this machine.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    FOLDERS.iter().map(|folder| Path::new(folder).join(program)).find(|path| path.is_file())
}

/// What libibverbs loads to drive soft RoCE and soft iWARP; its name has the version of an interface in it.
pub(super) fn providers() -> Vec<PathBuf> {
    let folder = Path::new(LIBRARIES).join("libibverbs");
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with("librxe-") || name.starts_with("libsiw-")
    };
    folder.read_dir().into_iter().flatten().flatten().map(|file| file.path()).filter(is_ours).collect()
}

/// Libraries that programs open by name, without being linked to them, and those of glibc that our libraries name for older systems.
pub(super) fn opened_libraries() -> Vec<PathBuf> {
    let names = [
        "libibverbs.so.1",
        "librdmacm.so.1",
        "libgcc_s.so.1",
        "libstdc++.so.6",
        "libm.so.6",
        "libpthread.so.0",
        "libdl.so.2",
        "librt.so.1",
    ];
    names.iter().map(|name| Path::new(LIBRARIES).join(name)).filter(|path| path.exists()).collect()
}

/// A kernel, unpacked.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    /// What QEMU boots.
    pub(super) image: PathBuf,
    /// Its modules, with a `modules.dep`.
    pub(super) modules: PathBuf,
    /// As `uname -r` says it.
    pub(super) version: String,
}

/// The kernel in the cache; fetched if there is none.
pub(super) fn kernel() -> Result<Kernel> {
    let place = cache::folder()?.join(format!("kernel-{KERNEL}"));
    if !place.exists() {
        fetch_kernel(&place)?;
    }
    let modules = place.join("lib/modules");
    let version = only_one(&modules)?;
    let version = version.file_name().context("a version")?.to_string_lossy().into_owned();
    let (bare, packed) = (place.join("boot").join(BARE), place.join(format!("boot/vmlinuz-{version}")));
    Ok(Kernel { image: if bare.exists() { bare } else { packed }, modules: modules.join(&version), version })
}

fn fetch_kernel(place: &Path) -> Result<()> {
    let package = match kernel_package()? {
        Some(package) => package,
        None => {
            run(Command::new("apt-get").args(["update", "-qq"]))?;
            kernel_package()?.with_context(|| format!("apt knows no {KERNEL}"))?
        }
    };
    let fresh = cache::Fresh::folder("kernel")?;
    say(&format!("fetching {package}, 70 MB"));
    let download = run(Command::new("apt-get").args(["download", "-qq", &package]).current_dir(&fresh.0));
    download.with_context(|| format!("no kernel for guests: apt-get download {package}"))?;
    let archive = only_one(&fresh.0)?;
    let unpacked = fresh.0.join("unpacked");
    run(Command::new("dpkg").arg("-x").arg(&archive).arg(&unpacked))?;
    let version = only_one(&unpacked.join("lib/modules"))?;
    let version = version.file_name().context("a version")?;
    let depmod = find("depmod").context("no depmod: apt-get install kmod")?;
    run(Command::new(depmod).arg("-b").arg(&unpacked).arg(version))?;
    let boot = unpacked.join("boot");
    let packed = fs::read(boot.join(format!("vmlinuz-{}", version.display())))?;
    if let Some(bare) = bare(&packed, &fresh.0)? {
        fs::write(boot.join(BARE), bare)?;
    }
    cache::settle(&unpacked, place)
}

/// The kernel without what unpacks it at boot, which would take an emulated processor as long as all the rest. None if it is not packed
/// by xz, as Debian's are.
fn bare(packed: &[u8], folder: &Path) -> Result<Option<Vec<u8>>> {
    let Some(start) = packed.windows(XZ.len()).position(|bytes| bytes == XZ) else { return Ok(None) };
    let archive = folder.join("kernel.xz");
    fs::write(&archive, packed.get(start..).unwrap_or_default())?;
    let unpacked = Command::new("xz").args(["-dc", "--single-stream"]).arg(&archive).output();
    fs::remove_file(&archive)?;
    Ok(unpacked.ok().map(|output| output.stdout).filter(|bytes| bytes.starts_with(b"\x7fELF")))
}

/// The package that the kernel is in today.
fn kernel_package() -> Result<Option<String>> {
    let output = Command::new("apt-cache").args(["depends", KERNEL]).output();
    let output = output.context("cannot start apt-cache; guests are made of Debian's packages")?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let named = |line: &str| Some(line.trim().strip_prefix("Depends: ")?.to_owned());
    Ok(told.lines().filter_map(named).find(|name| name.starts_with("linux-image-")))
}

fn only_one(folder: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    match <[PathBuf; 1]>::try_from(paths) {
        Ok([path]) => Ok(path),
        Err(paths) => bail!("{} has {} entries in place of one; remove it", folder.display(), paths.len()),
    }
}

/// A kernel that is not packed; QEMU boots it by its PVH note.
const BARE: &str = "vmlinux";
/// How xz' archives begin.
const XZ: &[u8] = b"\xfd7zXZ\0";
