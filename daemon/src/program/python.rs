//! What a Python interpreter has installed, without importing any of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An interpreter's folders of packages.
#[derive(Clone, Debug, Default)]
pub struct Interpreter {
    folders: Vec<PathBuf>,
}

impl Interpreter {
    /// Asks the interpreter itself: only it knows its virtual environment and `.pth` files. `None` if it does not answer.
    #[must_use]
    pub fn ask(program: &Path) -> Option<Self> {
        let mut command = Command::new(program);
        command.args(["-c", "import sys\nprint('\\n'.join(sys.path))"]);
        // What is preloaded for the job has no business in this child.
        command.env_remove("LD_PRELOAD").stdin(Stdio::null()).stderr(Stdio::null());
        let output = command.output().ok().filter(|output| output.status.success())?;
        let text = String::from_utf8_lossy(&output.stdout);
        Some(Self { folders: text.lines().filter(|line| !line.is_empty()).map(PathBuf::from).collect() })
    }

    /// The NCCL library of NVIDIA's or AMD's package.
    #[must_use]
    pub fn nccl(&self) -> Option<PathBuf> {
        self.file("nvidia/nccl/lib/libnccl.so.2").or_else(|| self.file("_rocm_sdk_core/lib/librccl.so.1"))
    }

    /// The libraries of frameworks that call NCCL.
    #[must_use]
    pub fn frameworks(&self) -> Vec<PathBuf> {
        FRAMEWORKS.iter().filter_map(|file| self.file(file)).collect()
    }

    /// Packages that take NCCL's functions by `dlsym`, where a preloaded library is not asked.
    #[must_use]
    pub fn callers_by_dlsym(&self) -> Vec<&'static str> {
        let is_here = |package: &&&str| self.folders.iter().any(|folder| folder.join(package).is_dir());
        CALLERS_BY_DLSYM.iter().filter(is_here).copied().collect()
    }

    fn file(&self, name: &str) -> Option<PathBuf> {
        self.folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file())
    }
}

/// Relative to a folder of packages.
const FRAMEWORKS: [&str; 4] = [
    "torch/lib/libtorch_cuda.so",
    "torch/lib/libtorch_hip.so",
    "tensorflow/libtensorflow_cc.so.2",
    "jaxlib/libjax_common.so",
];
/// vLLM's and SGLang's pynccl, CuPy's and JAX's loaders, NVIDIA's nccl4py.
const CALLERS_BY_DLSYM: [&str; 5] = ["vllm", "sglang", "cupy", "jaxlib", "nccl"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_found_in_the_folders_of_the_interpreter() {
        let dir = tempfile::tempdir().unwrap();
        let wheel = dir.path().join("nvidia/nccl/lib");
        std::fs::create_dir_all(&wheel).unwrap();
        std::fs::create_dir(dir.path().join("vllm")).unwrap();
        std::fs::write(wheel.join("libnccl.so.2"), "").unwrap();
        let python = Interpreter { folders: vec!["/nowhere".into(), dir.path().to_owned()] };
        assert_eq!(python.nccl(), Some(wheel.join("libnccl.so.2")));
        assert_eq!(python.callers_by_dlsym(), ["vllm"]);
        assert_eq!(python.frameworks(), Vec::<PathBuf>::new());
    }

    #[test]
    fn what_is_no_interpreter_gives_no_answer() {
        assert!(Interpreter::ask(Path::new("/nonexistent/python3")).is_none());
        assert!(Interpreter::ask(Path::new("/bin/false")).is_none());
    }
}
