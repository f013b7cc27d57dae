//! Embeds the shared libraries that `RINGSCOPE_EMBED_DIR` names, if it does. Never builds them, never calls npm.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[expect(clippy::disallowed_methods, reason = "a build script's settings are its environment")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-env-changed=RINGSCOPE_EMBED_DIR");
    let embed_dir = std::env::var_os("RINGSCOPE_EMBED_DIR").map(PathBuf::from);
    let mut source = String::new();
    for (constant, file) in [
        ("LIBRINGSCOPE", "libringscope.so"),
        ("LIBRINGSCOPE_WATCHER", "libringscope_watcher.so"),
        ("LIBRINGSCOPE_PRELOAD", "libringscope_preload.so"),
        ("LIBRSCCL", "librsccl.so"),
    ] {
        let value = match &embed_dir {
            Some(dir) => embed(&dir.join(file))?,
            None => "None".to_owned(),
        };
        writeln!(source, "const {constant}: Option<&[u8]> = {value};")?;
    }
    let out_dir = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("no OUT_DIR")?);
    std::fs::write(out_dir.join("embedded_libraries.rs"), source)?;
    Ok(())
}

fn embed(path: &Path) -> Result<String, Box<dyn std::error::Error>> {
    let path =
        path.canonicalize().map_err(|error| format!("RINGSCOPE_EMBED_DIR: {}: {error}", path.display()))?;
    println!("cargo:rerun-if-changed={}", path.display());
    Ok(format!("Some(include_bytes!({:?}))", path.display().to_string()))
}
