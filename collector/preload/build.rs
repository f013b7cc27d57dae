//! Compiles `libringscope_preload.so`, without a C library or anything else that it would need, and leaves a copy beside
//! the other libraries of the build.

use std::error::Error;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

const NAME: &str = "libringscope_preload.so";

/// Code that calls nothing: no canary, no `memcpy`; and calls that stay calls, for the linker looks who calls it.
const COMPILE: [&str; 10] = [
    "-std=gnu11",
    "-ffreestanding",
    "-fno-builtin",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fno-optimize-sibling-calls",
    "-fno-plt",
    "-fvisibility=hidden",
    "-U_FORTIFY_SOURCE",
    "-Wextra",
];

/// An object that needs nothing and is never unloaded. What is missing is an error here, not in a user's program.
const LINK: [&str; 8] = [
    "-shared",
    "-nostdlib",
    "-nostartfiles",
    "-Wl,-z,now,-z,relro,-z,noexecstack,-z,nodelete,-z,defs",
    "-Wl,--hash-style=both",
    "-Wl,--build-id=none",
    "-Wl,-soname,libringscope_preload.so",
    "-Wl,-s",
];

#[expect(clippy::disallowed_methods, reason = "a build script's settings are its environment")]
fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("no OUT_DIR")?);
    let mut build = cc::Build::new();
    build.opt_level(2).debug(false).pic(true).warnings(true);
    // On aarch64 atomics are else functions of the compiler's own library, which this object would need.
    let compiler = build.flag_if_supported("-mno-outline-atomics").try_get_compiler()?;
    let object = out.join(NAME);
    let mut command = compiler.to_command();
    if std::env::var("CARGO_CFG_TARGET_ARCH")? == "x86_64" {
        command.arg("-fcf-protection=full");
    }
    command.args(COMPILE).args(LINK).arg("-o").arg(&object).arg("src/preload.c");
    let done = command.output().map_err(|error| format!("{command:?}: {error}; apt-get install gcc"))?;
    if !done.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&done.stderr)).into());
    }
    for source in ["build.rs", "src/preload.c", "src/functions.h"] {
        println!("cargo:rerun-if-changed={source}");
    }
    leave_copy(&object, &out)
}

/// In `target/<profile>`, three folders above `OUT_DIR`. As old as its source, so that cargo builds it again where it is
/// missing, and only there.
fn leave_copy(object: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    let copy = out.ancestors().nth(3).ok_or("OUT_DIR lies in a folder of cargo's")?.join(NAME);
    let fresh = copy.with_extension("so.new");
    fs::copy(object, &fresh)?;
    File::options().write(true).open(&fresh)?.set_modified(fs::metadata("src/preload.c")?.modified()?)?;
    // Programs may have the old one open.
    fs::rename(&fresh, &copy)?;
    println!("cargo:rerun-if-changed={}", copy.display());
    Ok(())
}
