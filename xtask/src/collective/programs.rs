//! The programs that call each library: compiled here, from engine/benches/peers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::contender::Library;
use super::options::Options;
use crate::process::{cargo, root, run, say, target_dir};
use crate::{peers, tools};

/// What could be built, and what could not.
#[derive(Debug)]
pub(crate) struct Programs {
    /// Where the programs, sockets and logs lie.
    pub(crate) folder: PathBuf,
    /// Intel's `bin`, `include` and `lib`, once they are there.
    pub(crate) intel: PathBuf,
    built: Vec<Library>,
    /// Library, and why it is left out.
    pub(crate) missing: Vec<(String, String)>,
}

impl Programs {
    /// Whether the program of a library is there.
    pub(crate) fn has(&self, library: Library) -> bool {
        self.built.contains(&library)
    }

    /// The program of a library.
    pub(crate) fn path(&self, library: Library) -> PathBuf {
        self.folder.join(library.program())
    }
}

/// Builds the engine and every program whose library installs.
pub(crate) fn build(options: &Options) -> Result<Programs> {
    let folder = target_dir().join("peers/programs");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut programs = Programs { folder, intel: PathBuf::new(), built: Vec::new(), missing: Vec::new() };
    for library in Library::ALL.into_iter().filter(|library| options.wants(library.name())) {
        match build_one(library, &mut programs) {
            Ok(()) => programs.built.push(library),
            Err(error) if library.is_peer() => {
                say(&format!("without {}: {error:#}", library.name()));
                programs.missing.push((library.name().to_owned(), format!("{error:#}")));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(programs)
}

fn build_one(library: Library, programs: &mut Programs) -> Result<()> {
    let output = programs.path(library);
    match library {
        Library::Rsccl => build_rsccl(&output),
        Library::Limit => {
            tools::ensure(&[tools::CC])?;
            compile("cc", "limit.c", &output, |_| ())
        }
        Library::OpenMpi => {
            peers::open_mpi()?;
            compile("mpicc", "mpi.c", &output, |_| ())
        }
        Library::Gloo => {
            peers::gloo()?;
            compile("c++", "gloo.cc", &output, |cc| {
                cc.arg("-lgloo");
            })
        }
        Library::IntelMpi | Library::OneCcl => {
            programs.intel = peers::intel()?;
            build_intel(library, &programs.intel, &output)
        }
    }
}

fn build_rsccl(output: &Path) -> Result<()> {
    tools::ensure(&[tools::CC])?;
    run(&mut cargo(["build", "--release", "-p", "ringscope-engine"]))?;
    let libraries = target_dir().join("release");
    compile("cc", "rsccl.c", output, |cc| {
        cc.arg("-I").arg(root().join("engine/include")).arg("-L").arg(&libraries).arg("-lrsccl");
        cc.arg(format!("-Wl,-rpath,{}", libraries.display()));
    })
}

fn build_intel(library: Library, intel: &Path, output: &Path) -> Result<()> {
    let libraries = [intel.join("lib/ccl/cpu/lib"), intel.join("lib")];
    let is_ccl = library == Library::OneCcl;
    let (compiler, source) = if is_ccl { ("c++", "oneccl.cc") } else { ("cc", "mpi.c") };
    compile(compiler, source, output, |cc| {
        cc.arg("-isystem").arg(intel.join("include"));
        for folder in &libraries {
            cc.arg("-L").arg(folder).arg(format!("-Wl,-rpath,{}", folder.display()));
        }
        if is_ccl {
            cc.arg("-l:libccl.so.1");
        }
        cc.arg("-lmpi");
    })
}

fn compile(compiler: &str, source: &str, output: &Path, more: impl FnOnce(&mut Command)) -> Result<()> {
    let mut command = Command::new(compiler);
    command.args(["-O2", "-Wall", "-o"]).arg(output).arg(root().join("engine/benches/peers").join(source));
    more(&mut command);
    run(&mut command)
}
