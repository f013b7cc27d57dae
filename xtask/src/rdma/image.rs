//! What a guest boots: Debian's kernel, and a first file system that is all it has: busybox, RDMA's programs with their libraries, the
//! kernel modules that they need, [`init.sh`](./guest/init.sh), [`agent.c`](./guest/agent.c).
//!
//! Kept in `target/rdma/` under a name that changes with what is in it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::archive::{Archive, Entry};
use super::packages::{self, Kernel};
use super::{cache, network};
use crate::process::{root, say};

/// What a guest has beside the usual.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extras {
    /// Programs of this machine, under the same path in the guest, with the libraries that they are linked to.
    pub(crate) programs: Vec<PathBuf>,
    /// Folders of this machine, under the same path, with the libraries that libraries in them are linked to.
    pub(crate) folders: Vec<PathBuf>,
    /// TCP ports of guests that this machine reaches, as [`Guest::address`](super::pair::Guest::address) says.
    pub(crate) ports: Vec<u16>,
}

/// What QEMU is given.
#[derive(Clone, Debug)]
pub(super) struct Image {
    /// The kernel.
    pub(super) kernel: PathBuf,
    /// The first file system.
    pub(super) files: PathBuf,
}

/// Modules that are loaded at boot, in this order.
const LOADED: [&str; 11] = [
    "virtio_pci",
    "virtio_net",
    "9pnet_virtio",
    "9p",
    // Of what rxe counts its packets' checksums with.
    "crc32_generic",
    "crc32-pclmul",
    "ib_core",
    "ib_uverbs",
    "rdma_ucm",
    "rdma_rxe",
    "sch_netem",
];
/// Modules that lie ready.
const READY: [&str; 7] = ["sch_tbf", "sch_prio", "sch_ingress", "cls_matchall", "act_mirred", "ifb", "siw"];

/// Builds it, unless the cache has it.
pub(super) fn make(extras: &Extras) -> Result<Image> {
    let kernel = packages::kernel()?;
    let archive = contents(&kernel, extras)?;
    let files = cache::folder()?.join(format!("{FILES}{}", archive.digest()?));
    if !files.exists() {
        let bytes = archive.bytes()?;
        say(&format!("building the guests' files, {} MB", bytes.len() / 1_000_000));
        let fresh = cache::Fresh::folder("files")?;
        let made = fresh.0.join("files");
        fs::write(&made, bytes).context("cannot write the guests' files")?;
        cache::settle(&made, &files)?;
        cache::bound(FILES)?;
    }
    Ok(Image { kernel: kernel.image, files })
}

fn contents(kernel: &Kernel, extras: &Extras) -> Result<Archive> {
    let mut archive = Archive::default();
    for folder in ["/proc", "/sys", "/dev", "/tmp", "/run", "/share", "/root", "/var/run"] {
        archive.set(folder, Entry::Folder);
    }
    busybox(&mut archive)?;
    let mut linked: BTreeSet<PathBuf> = BTreeSet::new();
    for (name, path) in packages::programs()? {
        linked.insert(path.clone());
        archive.set(Path::new("/usr/bin").join(name), Entry::Copy(path));
    }
    // busybox' own shell would run its own ip and tc.
    archive.set("/bin/sh", Entry::Link("/usr/bin/dash".to_owned()));
    let given = packages::providers().into_iter().chain(packages::opened_libraries());
    for path in given.chain(extras.programs.iter().cloned()) {
        linked.insert(path.clone());
        archive.set(&path, Entry::Copy(path.clone()));
    }
    for folder in &extras.folders {
        copy(&mut archive, folder, &mut linked)?;
    }
    for path in libraries(&linked)? {
        if !archive.has(&path) {
            archive.set(&path, Entry::Copy(path.clone()));
        }
    }
    for driver in ["rxe", "siw"] {
        archive.set(format!("/etc/libibverbs.d/{driver}.driver"), Entry::Text(format!("driver {driver}\n")));
    }
    for program in ["agent", "res_qp"] {
        archive.set(format!("/usr/bin/{program}"), Entry::Program(compiled(program)?));
    }
    archive.set("/init", Entry::Program(include_bytes!("guest/init.sh").to_vec()));
    archive.set("/etc/passwd", Entry::Text("root:x:0:0::/root:/bin/sh\n".to_owned()));
    archive.set("/etc/group", Entry::Text("root:x:0:\n".to_owned()));
    archive.set("/etc/hosts", Entry::Text(network::hosts()));
    archive.set("/etc/rdma-mtu", Entry::Text(format!("{}\n", network::RDMA_MTU)));
    archive.set("/etc/modules", Entry::Text(LOADED.join("\n")));
    modules(&mut archive, kernel)?;
    Ok(archive)
}

fn busybox(archive: &mut Archive) -> Result<()> {
    let busybox = packages::find("busybox").context("no busybox: apt-get install busybox-static")?;
    let told = Command::new(&busybox).arg("--list").output().context("cannot start busybox")?;
    for applet in String::from_utf8_lossy(&told.stdout).lines() {
        archive.set(Path::new("/bin").join(applet), Entry::Link("/usr/bin/busybox".to_owned()));
    }
    // Where the kernel looks for it.
    archive.set("/sbin/modprobe", Entry::Link("/usr/bin/busybox".to_owned()));
    Ok(())
}

/// A folder with all in it; what can be linked to libraries is noted.
fn copy(archive: &mut Archive, folder: &Path, linked: &mut BTreeSet<PathBuf>) -> Result<()> {
    archive.set(folder, Entry::Folder);
    for file in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = file?.path();
        if path.is_symlink() {
            archive.set(&path, Entry::Link(fs::read_link(&path)?.display().to_string()));
        } else if path.is_dir() {
            copy(archive, &path, linked)?;
        } else {
            if path.to_string_lossy().contains(".so") {
                linked.insert(path.clone());
            }
            archive.set(&path, Entry::Copy(path.clone()));
        }
    }
    Ok(())
}

/// The libraries that files are linked to, by the loader's own word.
fn libraries(linked: &BTreeSet<PathBuf>) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for file in linked {
        let told = Command::new("ldd").arg(file).output().context("cannot start ldd")?;
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        ensure!(!told.contains("not found"), "{} lacks libraries:\n{told}", file.display());
        found.extend(told.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from));
    }
    Ok(found)
}

/// One of the guest's C programs, which need nothing in the guest.
fn compiled(name: &str) -> Result<Vec<u8>> {
    let source = root().join(format!("xtask/src/rdma/guest/{name}.c"));
    let mut as_text = Archive::default();
    as_text.set("/source", Entry::Text(fs::read_to_string(&source)?));
    let program = cache::folder()?.join(format!("{name}-{}", as_text.digest()?));
    if !program.exists() {
        let fresh = cache::Fresh::folder(name)?;
        let made = fresh.0.join(name);
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-static", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&made).arg(&source);
        let output = cc.output().context("cannot start cc: apt-get install gcc")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        cache::settle(&made, &program)?;
    }
    fs::read(&program).with_context(|| format!("cannot read {}", program.display()))
}

/// The modules and what they need, with the lists that `modprobe` looks into, cut to them.
fn modules(archive: &mut Archive, kernel: &Kernel) -> Result<()> {
    let inside = Path::new("/lib/modules").join(&kernel.version);
    let read = |list: &str| {
        fs::read_to_string(kernel.modules.join(list)).with_context(|| format!("the kernel's {list}"))
    };
    let dependencies = read("modules.dep")?;
    let mut wanted: BTreeSet<String> = LOADED.iter().chain(&READY).map(|name| module_name(name)).collect();
    // The kernel asks for checksums by such a name.
    wanted.insert("libcrc32c".to_owned());
    let (mut kept, mut files) = (String::new(), BTreeSet::new());
    for line in dependencies.lines() {
        let Some((path, needs)) = line.split_once(':') else { continue };
        if wanted.contains(&module_name(path)) {
            files.extend(needs.split_whitespace().chain([path]).map(str::to_owned));
        }
    }
    for line in dependencies.lines() {
        if line.split_once(':').is_some_and(|(path, _)| files.contains(path)) {
            kept.extend([line, "\n"]);
        }
    }
    let names: BTreeSet<String> = files.iter().map(|path| module_name(path)).collect();
    let known = |list: String| -> String {
        let is_known = |line: &&str| line.split(' ').next_back().is_some_and(|name| names.contains(name));
        list.lines().filter(is_known).flat_map(|line| [line, "\n"]).collect()
    };
    for list in ["modules.alias", "modules.symbols"] {
        archive.set(inside.join(list), Entry::Text(known(read(list)?)));
    }
    for list in ["modules.builtin", "modules.order"] {
        archive.set(inside.join(list), Entry::Text(read(list)?));
    }
    archive.set(inside.join("modules.dep"), Entry::Text(kept));
    for path in &files {
        archive.set(inside.join(path), Entry::Copy(kernel.modules.join(path)));
    }
    Ok(())
}

/// As the kernel names it: without folder and ending, and all dashes low.
fn module_name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split(".ko").next().unwrap_or(file).replace('-', "_")
}

const FILES: &str = "files-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_named_as_the_kernel_does() {
        for (path, name) in [
            ("kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko", "rdma_rxe"),
            ("kernel/arch/x86/crypto/crc32-pclmul.ko.xz", "crc32_pclmul"),
            ("9p", "9p"),
        ] {
            assert_eq!(module_name(path), name);
        }
    }
}
