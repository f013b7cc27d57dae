//! NVIDIA's own library in the versions that the collector is tested with: fetched once, checked, kept in the build
//! folder, never committed.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::process::{command, run, say, target_dir};

/// Versions of the wheel `nvidia-nccl-cu12` for x86-64, each with the SHA-256 that its file must have: one for each
/// generation of the API, of the profiler interface and of commHash.
const WHEELS: [(&str, &str); 6] = [
    ("2.18.3", "89cf220910c43e53df992f54f7aa2a35c6d606b077c9ae95b1f17c544d3ad3f3"),
    ("2.21.5", "8579076d30a8c24988834445f8d633c697d42397e92ffc3f63fa26766d25e0a0"),
    ("2.27.7", "de5ba5562f08029a19cb1cd659404b18411ed0d6c90ac5f52f30bf99ad5809aa"),
    ("2.28.9", "485776daa8447da5da39681af455aa3b2c2586ddcf4af8772495e7c532c7e5ab"),
    ("2.29.7", "ecd0a012051abc20c1aa87328841efa8cade3ced65803046e38c2f03c0891fea"),
    ("2.32.3", "bb94b2348e4861d5e8aa00b36c3d12d9bdf9c6369b82cbb723de0b582280a21c"),
];

/// What is wanted of a wheel, and how it is unpacked: the file, and the folder for both.
const UNPACK: &str = "
import os, shutil, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
for name in ('lib/libnccl.so.2', 'include/nccl.h'):
    with wheel.open('nvidia/nccl/' + name) as source:
        with open(os.path.join(sys.argv[2], os.path.basename(name)), 'wb') as target:
            shutil.copyfileobj(source, target, 1 << 20)
";

/// Makes `target/nccl/<version>/{libnccl.so.2,nccl.h}` for every version, or fails with the command that does.
pub(crate) fn ensure() -> Result<()> {
    let folder = target_dir().join("nccl");
    for (version, sha256) in WHEELS {
        if !folder.join(version).join("libnccl.so.2").exists() {
            fetch(&folder, version, sha256).with_context(|| {
                format!("cannot get NCCL {version}; `cargo xtask nccl` tries again, with python3 and its pip")
            })?;
        }
    }
    Ok(())
}

fn fetch(folder: &Path, version: &str, sha256: &str) -> Result<()> {
    say(&format!("NCCL {version} is not in {} yet", folder.display()));
    let fresh = folder.join(format!("{version}.new"));
    if fresh.exists() {
        fs::remove_dir_all(&fresh)?;
    }
    fs::create_dir_all(&fresh)?;
    // pip refuses a file with another hash.
    let wanted = fresh.join("requirements.txt");
    fs::write(&wanted, format!("nvidia-nccl-cu12=={version} --hash=sha256:{sha256}\n"))?;
    let mut pip = command(
        "python3",
        ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-cache-dir"],
    );
    pip.args(["--only-binary", ":all:", "--require-hashes", "--dest"]).arg(&fresh).arg("--requirement");
    run(pip.arg(&wanted))?;
    let wheel = fs::read_dir(&fresh)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"));
    let Some(wheel) = wheel else { bail!("pip left no wheel in {}", fresh.display()) };
    run(command("python3", ["-c", UNPACK]).arg(&wheel).arg(&fresh))?;
    fs::remove_file(&wheel)?;
    fs::remove_file(&wanted)?;
    let place = folder.join(version);
    if place.exists() {
        fs::remove_dir_all(&place)?;
    }
    fs::rename(&fresh, &place).with_context(|| format!("cannot make {}", place.display()))
}
