//! One folder, and an archive of it, that holds ringscope against NCCL on a machine with a GPU and no network: binary,
//! libraries, scripts.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::build;
use crate::process::{root, say, target_dir};

/// An archive that is easily carried along.
const MAX_BYTES: u64 = 40 << 20;

/// Builds the release binary and libraries and puts them beside the scripts of `gpu/`.
pub(crate) fn make(out: Option<PathBuf>) -> Result<()> {
    let out = out.unwrap_or_else(|| target_dir().join("gpu-bundle"));
    let ringscope = build::binary()?;
    let dist = ringscope.parent().context("the binary lies in a folder")?;
    if out.join("run.sh").exists() {
        fs::remove_dir_all(&out).with_context(|| format!("cannot remove the old {}", out.display()))?;
    }
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    for name in build::LIBRARIES.into_iter().chain(["ringscope"]) {
        put(&dist.join(name), &out)?;
    }
    put(&target_dir().join("release/ringscope-sumd"), &out)?;
    for script in files(&root().join("gpu"))? {
        put(&script, &out)?;
    }
    let archive = pack(&out)?;
    let size = fs::metadata(&archive).with_context(|| format!("cannot read {}", archive.display()))?.len();
    if size > MAX_BYTES {
        bail!("{} has {size} bytes, more than the {MAX_BYTES} that are to be carried", archive.display());
    }
    say(&format!(
        "{} ({:.1} MiB): unpack it there, and run gpu-bundle/run.sh",
        archive.display(),
        mebibytes(size)
    ));
    Ok(())
}

/// The folder as `FOLDER.tar.gz`, beside it.
fn pack(folder: &Path) -> Result<PathBuf> {
    let archive = folder.with_extension("tar.gz");
    let written = || -> io::Result<()> {
        let mut tar = tar::Builder::new(GzEncoder::new(File::create(&archive)?, Compression::default()));
        tar.append_dir_all("gpu-bundle", folder)?;
        tar.into_inner()?.finish()?;
        Ok(())
    };
    written().with_context(|| format!("cannot write {}", archive.display()))?;
    Ok(archive)
}

/// The plain files of a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    Ok(paths.into_iter().filter(|path| path.is_file()).collect())
}

/// Copies a file with its permissions.
fn put(file: &Path, folder: &Path) -> Result<()> {
    let name = file.file_name().context("a file has a name")?;
    fs::copy(file, folder.join(name)).with_context(|| format!("cannot copy {}", file.display()))?;
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
