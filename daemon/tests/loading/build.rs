//! The programs and libraries of the matrix, built once: NCCL is the engine, under NCCL's own name.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::TempDir;

/// A folder with all of them.
pub(crate) struct Built {
    pub(crate) dir: TempDir,
}

impl Built {
    pub(crate) fn new() -> Self {
        let built = Self { dir: TempDir::new("loading") };
        let archive = archive();
        let whole = ["-Wl,--whole-archive", archive.to_str().unwrap(), "-Wl,--no-whole-archive"];
        let all = built.version_script("all.map", "framework_*; nccl*; pnccl*; rsccl*;");
        let hidden = built.version_script("hidden.map", "framework_*;");
        let shared = |script: &str| -> Vec<String> {
            let flags = ["-shared", "-fPIC", "-Wl,-z,nodelete", "-Wl,--gc-sections", "-Wl,--strip-debug"];
            flags.iter().map(ToString::to_string).chain([format!("-Wl,--version-script={script}")]).collect()
        };
        let engine = |soname: &str, script: &str| -> Vec<String> {
            let mut flags = shared(script);
            flags.push(format!("-Wl,-soname,{soname}"));
            flags.extend(
                whole.iter().chain(&["-lpthread", "-ldl", "-lm", "-lgcc_s", "-lrt"]).map(ToString::to_string),
            );
            flags
        };
        let linked = ["-l:libnccl.so.2".to_owned()];
        built.cc("libnccl.so.2", &[], &engine("libnccl.so.2", &all));
        built.cc("libexported.so", &["framework.c"], &engine("libexported.so", &all));
        built.cc("libhidden.so", &["framework.c"], &engine("libhidden.so", &hidden));
        built.cc(
            "libframework.so",
            &["framework.c"],
            &[&["-shared".into(), "-fPIC".into()], &linked[..]].concat(),
        );
        built.cc("linked", &["main.c", "framework.c"], &[&["-DLINKED".into()], &linked[..]].concat());
        for (name, library) in
            [("by-dlsym", "libnccl.so.2".to_owned()), ("by-path", built.path("libnccl.so.2"))]
        {
            let flags = ["-DLINKED".to_owned(), format!("-DBY_DLSYM=\"{library}\""), "-ldl".to_owned()];
            built.cc(name, &["main.c", "framework.c"], &flags);
        }
        built.cc("main", &["main.c"], &["-ldl".to_owned()]);
        built
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    fn version_script(&self, name: &str, global: &str) -> String {
        std::fs::write(self.dir.join(name), format!("{{ global: {global} local: *; }};\n")).unwrap();
        self.path(name)
    }

    fn cc(&self, output: &str, sources: &[&str], flags: &[String]) {
        let status = Command::new("cc")
            .args(["-Wall", "-Wextra", "-Werror", "-O1", "-I"])
            .arg(root().join("engine/include"))
            .args(sources.iter().map(|source| sources_dir().join(source)))
            .arg("-o")
            .arg(self.dir.join(output))
            .arg(format!("-L{}", self.dir.display()))
            .args(flags)
            .status()
            .expect("cc is missing: apt-get install gcc");
        assert!(status.success(), "{output} does not build");
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

pub(crate) fn sources_dir() -> PathBuf {
    root().join("daemon/tests/loading/c")
}

/// The engine to be linked into others.
fn archive() -> PathBuf {
    let folder = Path::new(crate::RINGSCOPE).parent().unwrap();
    let archive = folder.join("librsccl.a");
    assert!(archive.is_file(), "{} is missing: cargo build -p ringscope-engine", archive.display());
    archive
}
