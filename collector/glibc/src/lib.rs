//! For build scripts: links a shared library against glibc 2.17, whichever newer one this machine has.
//!
//! The linker takes each function in the newest version that it sees, and the library then needs a system as new as the one
//! that built it. So it is shown stand-ins for glibc's libraries, made from this machine's: the same names, each in the
//! newest version that 2.17 had, in the library that had it then. What is newer is not there: used for certain it is an
//! error of the build, and used if it is there (a weak symbol) it needs no version.
//!
//! `missing.c` has what was no function of the library then.

#![expect(clippy::disallowed_methods, reason = "a build script's settings are its environment")]
#![expect(clippy::print_stdout, reason = "so it speaks to cargo")]

mod stand_in;
mod symbols;

use std::error::Error;
use std::path::{Path, PathBuf};

use symbols::Version;

/// The glibc of the oldest systems that PyTorch's and NCCL's own builds run on (manylinux2014), and of the first that knew
/// aarch64.
const OLDEST: Version = Version(2, 17);

/// glibc's libraries, of which newer ones have all in the first, and its loaders.
const LIBRARIES: [&str; 6] = [
    "libc.so.6",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
];

/// Tells cargo to link the shared library of the package, whose build script calls this, against the oldest glibc.
///
/// # Errors
/// Without a C compiler for the target, or where glibc's own libraries cannot be read. Another C library is left as it is.
pub fn link_against_oldest() -> Result<(), Box<dyn Error>> {
    if std::env::var("CARGO_CFG_TARGET_ENV")? != "gnu" {
        return Ok(());
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("no OUT_DIR")?);
    let compiler = cc::Build::new().opt_level(2).debug(false).pic(true).try_get_compiler()?;
    let mut symbols = Vec::new();
    for library in LIBRARIES {
        if let Some(file) = file_of(&compiler, library)? {
            println!("cargo:rerun-if-changed={}", file.display());
            symbols.extend(symbols::read(&std::fs::read(&file)?, library, OLDEST)?);
        }
    }
    if symbols.is_empty() {
        return Err("the C compiler knows no libc.so.6: apt-get install libc6-dev".into());
    }
    let made = stand_in::make(&compiler, &symbols, &out)?;
    let missing = out.join("missing.o");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/missing.c");
    let flags = [
        "-c",
        "-std=gnu11",
        "-ffreestanding",
        "-fno-builtin",
        "-fvisibility=hidden",
        "-ffunction-sections",
        "-o",
    ];
    run(compiler.to_command().args(flags).arg(&missing).arg(&source))?;
    println!("cargo:rerun-if-changed={}", source.display());
    println!("cargo:rustc-cdylib-link-arg=-L{}", out.display());
    println!("cargo:rustc-cdylib-link-arg={}", missing.display());
    for library in made {
        println!("cargo:rustc-cdylib-link-arg={}", library.display());
    }
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,defs");
    Ok(())
}

/// The file that the compiler would link, if there is one. A library that it does not know it gives back as it was asked.
fn file_of(compiler: &cc::Tool, library: &str) -> Result<Option<PathBuf>, Box<dyn Error>> {
    let output = compiler.to_command().arg(format!("-print-file-name={library}")).output()?;
    let path = PathBuf::from(String::from_utf8(output.stdout)?.trim());
    Ok(path.is_absolute().then_some(path))
}

fn run(command: &mut std::process::Command) -> Result<(), Box<dyn Error>> {
    let done = command.output();
    let program = command.get_program().display();
    let done = done.map_err(|error| format!("{program}: {error}; apt-get install gcc"))?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("{program}: {}", String::from_utf8_lossy(&done.stderr)).into())
}
