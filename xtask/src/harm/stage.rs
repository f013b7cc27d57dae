//! Builds the programs when they are asked for, and knows the collector.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result, bail};
use ringscope_wire::segment::read;

use super::case::{Folder, Place, Program};
use crate::build;
use crate::process::{cargo, root, run, target_dir};

/// What C programs and stubs are built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Sanitizer {
    /// Races
    Thread,
    /// Reads and writes of memory that is not the program's
    Address,
}

/// What rows run on.
pub(super) struct Stage {
    sanitizer: Option<Sanitizer>,
    is_optimized: bool,
    /// The profiler plugin.
    library: PathBuf,
    /// What is preloaded.
    preloaded: PathBuf,
    /// Folder of the engine and the built programs of this repository.
    built: PathBuf,
    /// Folder of the compiled programs.
    programs: PathBuf,
    /// What was compiled by this run.
    compiled: Mutex<BTreeSet<String>>,
    n_folders: AtomicU32,
}

impl Stage {
    /// Builds the collector, unless there is one, and the engine.
    pub(super) fn build(
        collector: Option<&Path>,
        is_optimized: bool,
        sanitizer: Option<Sanitizer>,
    ) -> Result<Self> {
        let built = target_dir().join(if is_optimized { "release" } else { "debug" });
        let mut build = if is_optimized {
            cargo(["build", "--quiet", "--release", "-p", "ringscope-engine"])
        } else {
            build::debug()
        };
        if is_optimized && collector.is_none() {
            build.args(PACKAGES.iter().flat_map(|package| ["-p", package]));
        }
        if collector.is_none() || !built.join("librsccl.so").exists() {
            run(&mut build)?;
        }
        let library = collector.map_or_else(|| built.join("libringscope.so"), Path::to_owned);
        let library =
            library.canonicalize().with_context(|| format!("no collector {}", library.display()))?;
        let preload = library.with_file_name(PRELOAD);
        let preloaded = if preload.exists() { preload } else { library.clone() };
        let programs = target_dir().join("harm").join(sanitizer.map_or("programs", Sanitizer::name));
        std::fs::create_dir_all(&programs)?;
        let mut stage = Self {
            sanitizer,
            is_optimized: is_optimized || collector.is_some(),
            library,
            preloaded,
            built,
            programs,
            compiled: Mutex::default(),
            n_folders: AtomicU32::new(0),
        };
        stage.build_stubs()?;
        if sanitizer.is_some() {
            stage.preloaded = stage.sanitized_preload()?;
        }
        Ok(stage)
    }

    /// Whether the collector is as it is installed, or one that was given.
    pub(super) fn is_optimized(&self) -> bool {
        self.is_optimized
    }

    fn build_stubs(&self) -> Result<()> {
        for folder in ["stub", "gpu"] {
            std::fs::create_dir_all(self.programs.join(folder))?;
        }
        let shared = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"];
        self.compile("gpu/libcuda.so.1", "stub_cuda.c", &shared)?;
        // What NCCL itself needs, a program with it has in any case.
        let needed = ["-Wl,--no-as-needed", "-l:libpthread.so.0", "-l:libdl.so.2", "-l:libgcc_s.so.1"];
        let shared = [&["-shared", "-fPIC", "-Wl,-soname,libnccl.so.2"], &needed[..]].concat();
        self.compile("stub/libnccl.so.2", "stub_nccl.c", &shared)?;
        // Without a name of their own, so that the linker takes them for other libraries.
        for copy in ["first", "second"] {
            let (library, user) = (format!("lib{copy}.so"), format!("gpu/libschedule_{copy}.so"));
            self.compile(&format!("stub/{library}"), "stub_nccl.c", &["-shared", "-fPIC", "-ldl"])?;
            let over_gpu = ["-shared", "-fPIC", "-ldl", "-Wl,--no-as-needed", "-Lgpu", "-l:libcuda.so.1"];
            self.compile(&format!("gpu/{library}"), "stub_nccl.c", &over_gpu)?;
            let of_copy = format!("-l:{library}");
            self.compile(&user, "schedule.c", &["-shared", "-fPIC", "-ldl", "-Lgpu", &of_copy])?;
        }
        let over_gpu = [&shared[..], &["-Wl,--no-as-needed", "-Lgpu", "-l:libcuda.so.1"]].concat();
        self.compile("gpu/libnccl.so.2", "stub_nccl.c", &over_gpu)
    }

    /// What is preloaded, built with the sanitizer: with its runtime, and so not free of needs as the real one is.
    fn sanitized_preload(&self) -> Result<PathBuf> {
        let source = root().join("collector/preload/src/preload.c").display().to_string();
        self.compile(PRELOAD, &source, &["-shared", "-fPIC", "-fno-optimize-sibling-calls"])?;
        Ok(self.programs.join(PRELOAD))
    }

    /// A folder of one run.
    pub(super) fn folder(&self, place: Place) -> Result<Folder> {
        let name = format!(
            "ringscope-harm-{}-{}",
            std::process::id(),
            self.n_folders.fetch_add(1, Ordering::Relaxed)
        );
        let parent = match place {
            Place::Shm => PathBuf::from("/dev/shm"),
            Place::Disk => target_dir().join("harm"),
        };
        Folder::make(parent.join(name))
    }

    /// A folder of one run in that one.
    pub(super) fn folder_in(&self, parent: &Path) -> Result<Folder> {
        let number = self.n_folders.fetch_add(1, Ordering::Relaxed);
        Folder::make(parent.join(format!("ringscope-harm-{}-{number}", std::process::id())))
    }

    /// A program with the collector.
    pub(super) fn preloaded(&self, program: Program, segments: &Path) -> Result<Command> {
        let mut command = Command::new("env");
        command.arg(format!("LD_LIBRARY_PATH={}", self.library_path(program)?));
        command.args(self.collector_settings(segments)).arg(self.program(program)?);
        Ok(command)
    }

    /// A program, bare or with the collector, under the sanitizer that it was built with, if any.
    pub(super) fn sanitized(&self, program: Program, segments: Option<&Path>) -> Result<Command> {
        // Without random addresses: older thread sanitizers do not know all of today's.
        let mut command = Command::new(if self.sanitizer.is_some() { "setarch" } else { "env" });
        if self.sanitizer.is_some() {
            command.args(["-R", "env"]);
        }
        command.arg(format!("LD_LIBRARY_PATH={}", self.library_path(program)?));
        command.args([
            &format!("{TSAN_OPTIONS}:suppressions={}", sources().join("tsan.supp").display()),
            ASAN_OPTIONS,
        ]);
        if let Some(segments) = segments {
            command.args(self.collector_settings(segments));
        }
        command.arg(self.program(program)?);
        Ok(command)
    }

    /// Copies the collector into a folder of another root; what comes back gives its settings there.
    pub(super) fn copy_collector(&self, folder: &Path) -> Result<impl Fn(&Path, &Path) -> Vec<String>> {
        for path in [&self.library, &self.preloaded] {
            std::fs::copy(path, folder.join(path.file_name().context("no name")?))?;
        }
        let names = [&self.preloaded, &self.library].map(|path| path.file_name().map(ToOwned::to_owned));
        let [preloaded, library] = names.map(Option::unwrap_or_default);
        Ok(move |inside: &Path, segments: &Path| {
            settings(&inside.join(&preloaded), &inside.join(&library), segments)
        })
    }

    /// Compiles a program of `programs/`, or a library, against the C library of another root of Debian.
    pub(super) fn stub_for(
        &self,
        root: &Path,
        output: &Path,
        source: &str,
        is_shared: bool,
    ) -> Result<PathBuf> {
        let libraries = root.join("lib/x86_64-linux-gnu");
        let folder = output.parent().context("no folder")?.display().to_string();
        let path = |name: &str| libraries.join(name).display().to_string();
        let (libc, libdl, libpthread) = (path("libc.so.6"), path("libdl.so.2"), path("libpthread.so.0"));
        let loader = "-Wl,--dynamic-linker=/lib64/ld-linux-x86-64.so.2";
        // `-O0`: without functions that newer headers put in the place of older ones.
        let mut arguments =
            vec!["-O0", "-nostdlib", "-fno-stack-protector", "-Wl,--allow-shlib-undefined", "-o"];
        let (output, nccl) = (output.display().to_string(), format!("-L{folder}"));
        arguments.push(&output);
        let start = if is_shared { Vec::new() } else { vec!["/usr/lib/x86_64-linux-gnu/crt1.o"] };
        arguments.extend(start);
        if is_shared {
            arguments.extend(["-shared", "-fPIC", "-Wl,-soname,libnccl.so.2"]);
        } else {
            arguments.extend(["-no-pie", loader, &nccl]);
        }
        let source = sources().join(source).display().to_string();
        arguments.push(&source);
        if !is_shared {
            arguments.push("-l:libnccl.so.2");
        }
        arguments.extend([libdl.as_str(), &libpthread, &libc, "-lgcc"]);
        let done = Command::new("cc").args(&arguments).output().context("no cc: apt-get install gcc")?;
        if !done.status.success() {
            bail!("{source}: {}", String::from_utf8_lossy(&done.stderr));
        }
        Ok(output.into())
    }

    /// Path of a program, which is compiled if it was not.
    pub(super) fn program(&self, program: Program) -> Result<PathBuf> {
        let (folder, name) = match program {
            Program::System(path) => return Ok(path.into()),
            Program::Stub(name) => ("stub", name),
            Program::Musl(name) => ("musl", name),
            Program::Gpu(name) => ("gpu", name),
            Program::Copies(name) => ("copies", name),
            Program::Engine(name) => ("engine", name),
        };
        let output = format!("{folder}/{name}");
        let mut compiled = self.compiled.lock().map_err(|_| anyhow::anyhow!("a compilation panicked"))?;
        if !compiled.insert(output.clone()) {
            return Ok(self.programs.join(output));
        }
        std::fs::create_dir_all(self.programs.join(folder))?;
        let (headers, libraries) =
            (format!("-I{}", root().join("engine/include").display()), format!("-L{}", self.built.display()));
        let arguments: &[&str] = match program {
            Program::Engine(_) => &[&headers, &libraries, "-l:librsccl.so", "-ldl"],
            Program::Copies(_) => &["-ldl"],
            Program::Gpu(_) => &["-Wl,--no-as-needed", "-Lgpu", "-l:libnccl.so.2", "-l:libcuda.so.1", "-ldl"],
            _ => &["-Lstub", "-l:libnccl.so.2", "-ldl"],
        };
        if let Program::Musl(_) = program {
            self.compile_with("musl-gcc", "musl-tools", &output, &format!("{name}.c"), &[])?;
        } else {
            self.compile(&output, &format!("{name}.c"), arguments)?;
        }
        Ok(self.programs.join(output))
    }

    /// Compiles a program of `programs/` in the folder of programs.
    fn compile(&self, output: &str, source: &str, arguments: &[&str]) -> Result<()> {
        self.compile_with("cc", "gcc", output, source, arguments)
    }

    fn compile_with(
        &self,
        compiler: &str,
        package: &str,
        output: &str,
        source: &str,
        arguments: &[&str],
    ) -> Result<()> {
        let done = Command::new(compiler)
            .current_dir(&self.programs)
            .args(["-O1", "-g", "-Wall", "-Wextra", "-pthread", "-o", output])
            .args(self.sanitizer.map(Sanitizer::argument))
            .arg(sources().join(source))
            .args(arguments)
            .output()
            .with_context(|| format!("no {compiler}: apt-get install {package}"))?;
        if !done.status.success() {
            bail!("{source}: {}", String::from_utf8_lossy(&done.stderr));
        }
        Ok(())
    }

    /// `LD_LIBRARY_PATH` of a program.
    pub(super) fn library_path(&self, program: Program) -> Result<String> {
        let folder = match program {
            Program::Engine(_) => self.built.clone(),
            Program::Gpu(_) | Program::Copies(_) => self.programs.join("gpu"),
            Program::Stub(_) | Program::Musl(_) | Program::System(_) => self.programs.join("stub"),
        };
        folder
            .into_os_string()
            .into_string()
            .map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))
    }

    /// The environment that `ringscope run` would give a job.
    pub(super) fn collector_settings(&self, segments: &Path) -> Vec<String> {
        settings(&self.preloaded, &self.library, segments)
    }
}

fn settings(preloaded: &Path, library: &Path, segments: &Path) -> Vec<String> {
    vec![
        format!("LD_PRELOAD={}", preloaded.display()),
        format!("RINGSCOPE_COLLECTOR={}", library.display()),
        format!("NCCL_PROFILER_PLUGIN={}", library.display()),
        format!("RINGSCOPE_DIR={}", segments.display()),
        format!("CONTROL_OFFSET={}", read::control_offset()),
    ]
}

impl Sanitizer {
    fn name(self) -> &'static str {
        match self {
            Self::Thread => "programs-thread",
            Self::Address => "programs-address",
        }
    }

    fn argument(self) -> &'static str {
        match self {
            Self::Thread => "-fsanitize=thread",
            Self::Address => "-fsanitize=address",
        }
    }
}

fn sources() -> PathBuf {
    root().join("xtask/src/harm/programs")
}

/// What makes the collector.
const PACKAGES: [&str; 2] = ["ringscope-collector", "ringscope-preload"];
/// What is preloaded, beside the collector.
const PRELOAD: &str = "libringscope_preload.so";
/// A child of several threads goes on, and does not end those that it has lost; a report ends the process.
const TSAN_OPTIONS: &str = "TSAN_OPTIONS=die_after_fork=0:report_thread_leaks=0:exitcode=66:halt_on_error=1";
/// The collector comes before its library in the order of loading.
const ASAN_OPTIONS: &str = "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0:exitcode=66";
