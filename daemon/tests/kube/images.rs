//! Images of what this build has made: ringscope's by packaging/image/Containerfile, and one of a job.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::podman::Podman;
use crate::programs::{root, target};

pub(crate) const RINGSCOPE: &str = "localhost/ringscope:test";
pub(crate) const JOB: &str = "localhost/job:test";
/// busybox and glibc.
const BASE: &str = "localhost/base:test";
/// Libraries that ringscope, the collector and the engine need, and what loads them.
const LIBRARIES: [&str; 6] =
    ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1"];

/// Builds all of them.
pub(crate) fn build(podman: &Podman) {
    let dir = podman.dir();
    base(podman, &dir.join("base"));
    ringscope(podman, &dir.join("ringscope"));
    job(podman, &dir.join("job"));
}

fn base(podman: &Podman, context: &Path) {
    for folder in ["bin", "etc", "lib64", "lib/x86_64-linux-gnu", "tmp", "meet"] {
        fs::create_dir_all(context.join(folder)).unwrap();
    }
    fs::set_permissions(context.join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|file| Path::new(file).exists());
    fs::copy(
        busybox.expect("busybox is not there: apt-get install busybox-static"),
        context.join("bin/busybox"),
    )
    .unwrap();
    for applet in ["sh", "mkdir", "chmod", "chown", "cat", "ls", "true", "sleep", "touch"] {
        std::os::unix::fs::symlink("busybox", context.join("bin").join(applet)).unwrap();
    }
    for library in LIBRARIES {
        let from = Path::new("/lib/x86_64-linux-gnu").join(library);
        fs::copy(&from, context.join("lib/x86_64-linux-gnu").join(library)).unwrap();
    }
    fs::copy("/lib64/ld-linux-x86-64.so.2", context.join("lib64/ld-linux-x86-64.so.2")).unwrap();
    let file = context.with_extension("Containerfile");
    fs::write(&file, "FROM scratch\nCOPY . /\n").unwrap();
    podman.build(&file, BASE, context, &[]);
}

/// The command of this build has no libraries inside; they lie beside it.
fn ringscope(podman: &Podman, context: &Path) {
    fs::create_dir(context).unwrap();
    stripped(Path::new(env!("CARGO_BIN_EXE_ringscope")), &context.join("ringscope"));
    for library in ["libringscope.so", "libringscope_watcher.so", "libringscope_preload.so"] {
        built(library, context);
    }
    let [builder, base] = ["BUILDER", "BASE"].map(|name| format!("--build-arg={name}={BASE}"));
    podman.build(&root().join("packaging/image/Containerfile"), RINGSCOPE, context, &[&builder, &base]);
}

/// engine/examples/job.c, as its head says how it is built.
fn job(podman: &Podman, context: &Path) {
    fs::create_dir(context).unwrap();
    built("librsccl.so", context);
    let mut cc = Command::new("cc");
    cc.arg(root().join("engine/examples/job.c")).arg("-o").arg(context.join("job"));
    cc.arg("-I").arg(root().join("engine/include")).arg("-L").arg(context).arg("-lrsccl");
    assert!(cc.args(["-Wl,-rpath,/opt/job"]).status().unwrap().success());
    let file = context.with_extension("Containerfile");
    // As users put the program into theirs.
    let program = format!("COPY --from={RINGSCOPE} /usr/bin/ /usr/bin/\nENV PATH=/usr/bin:/bin:/opt/job\n");
    fs::write(&file, format!("FROM {BASE}\nCOPY job librsccl.so /opt/job/\n{program}")).unwrap();
    podman.build(&file, JOB, context, &[]);
}

fn built(library: &str, context: &Path) {
    let from = target().join("debug").join(library);
    assert!(from.exists(), "{} is not built: cargo build --workspace --lib", from.display());
    stripped(&from, &context.join(library));
}

/// A build for debugging has ten times the size.
fn stripped(from: &Path, to: &Path) {
    let strip = Command::new("strip").args(["--strip-debug", "-o"]).arg(to).arg(from).status();
    assert!(strip.unwrap().success());
}
