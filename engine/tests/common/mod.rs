//! Jobs of real processes for the integration tests: compiles the C programs, starts ranks, reads what they say.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::print_stdout, reason = "some tests say what they measured")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(unsafe_code, reason = "the library is loaded as a C program would load it")]

pub(crate) mod deaths;
pub(crate) mod events;
pub(crate) mod leftovers;
pub(crate) mod network;
pub(crate) mod process;
pub(crate) mod sum;
pub(crate) mod told;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use libloading::os::unix::Library;

/// The folder that has librsccl.so, beside this test's own.
pub(crate) fn library_folder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().to_owned()
}

/// A fresh folder.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("rsccl-test-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The folder of the C files.
pub(crate) fn source_folder() -> PathBuf {
    engine_folder().join("tests/c")
}

/// The engine's; tests of other crates use this file too.
fn engine_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine")
}

/// Compiles a C file of tests/c.
pub(crate) fn compile(source: &str, output: &Path, arguments: &[&str]) {
    compile_all(&[source_folder().join(source)], output, arguments);
}

fn compile_all(sources: &[PathBuf], output: &Path, arguments: &[&str]) {
    let libraries = library_folder();
    let status = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-O1", "-I"])
        .arg(engine_folder().join("include"))
        .args(sources)
        .arg("-o")
        .arg(output)
        .args(arguments)
        .arg("-L")
        .arg(&libraries)
        .arg(format!("-Wl,-rpath,{}", libraries.display()))
        .status()
        .expect("cc is missing: apt-get install gcc");
    assert!(status.success(), "{sources:?} does not compile");
}

/// The rank program.
pub(crate) fn rank_program(folder: &Path) -> PathBuf {
    let program = folder.join("rank");
    compile("rank.c", &program, &["-lrsccl"]);
    program
}

/// The program in which something goes wrong.
pub(crate) fn fault_program(folder: &Path) -> PathBuf {
    let program = folder.join("faults");
    compile("faults.c", &program, &["-lrsccl"]);
    program
}

/// The training job in which something goes wrong.
pub(crate) fn fault_job_program(folder: &Path) -> PathBuf {
    let program = folder.join("fault_job");
    let files = std::fs::read_dir(engine_folder().join("examples/fault_job")).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let sources: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|end| end == "c")).collect();
    compile_all(&sources, &program, &["-lrsccl", "-pthread"]);
    program
}

/// A unique id in hexadecimal; its root lives in this process.
pub(crate) fn unique_id() -> String {
    // SAFETY: the library's initialisers do nothing.
    let library = unsafe { Library::new(library_folder().join("librsccl.so")) }.unwrap();
    // SAFETY: the signature is nccl.h's.
    let get = unsafe { library.get::<unsafe extern "C" fn(*mut u8) -> i32>(b"ncclGetUniqueId\0") }.unwrap();
    let mut id = [0_u8; 128];
    // SAFETY: 128 bytes, as the function wants.
    assert_eq!(unsafe { get(id.as_mut_ptr()) }, 0);
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A rank's process.
pub(crate) struct Rank {
    pub(crate) child: Child,
    output: BufReader<ChildStdout>,
}

/// Two ranks per pretended host, two NICs each, addresses 127.0.NET+HOST.NIC.
pub(crate) struct Job<'a> {
    pub(crate) program: &'a Path,
    pub(crate) n_ranks: usize,
    pub(crate) command: &'a [&'a str],
    pub(crate) environment: &'a dyn Fn(usize) -> Vec<(String, String)>,
}

impl Job<'_> {
    /// Starts all ranks.
    pub(crate) fn start(&self) -> Vec<Rank> {
        let id = unique_id();
        self.start_with(&id)
    }

    /// Starts all ranks with an id.
    pub(crate) fn start_with(&self, id: &str) -> Vec<Rank> {
        (0..self.n_ranks).map(|rank| self.start_rank(rank, id)).collect()
    }

    /// Starts one of them.
    pub(crate) fn start_rank(&self, rank: usize, id: &str) -> Rank {
        let host = rank / 2 + 1;
        let mut command = Command::new(self.program);
        command
            .args([&rank.to_string(), &self.n_ranks.to_string(), id])
            .args(self.command)
            .env("RSCCL_HOST", format!("host-{host}"))
            .env("RSCCL_NICS", format!("mlx5_0=127.0.{host}.1,mlx5_1=127.0.{host}.2"))
            .env("RSCCL_TIMEOUT_S", "20")
            .envs((self.environment)(rank));
        Rank::start(&mut command)
    }
}

impl Drop for Rank {
    /// A test that fails leaves nobody behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Rank {
    /// Starts a rank's program, whose words are listened to.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// The next line that it says.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// All else that it says, once it has ended.
    pub(crate) fn rest(mut self) -> String {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        self.child.wait().unwrap();
        rest
    }
}

/// No environment beside the common one.
pub(crate) fn plain(_rank: usize) -> Vec<(String, String)> {
    Vec::new()
}
