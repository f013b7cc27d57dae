//! Packages that need no system around them: an .rpm in an empty root, an image in a folder.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::packages::target::Target;
use crate::packages::{distribution, empty, folder, image, output, stem};
use crate::process::{run, say};

/// Lists and installs the .rpm.
pub(super) fn rpm(target: Target) -> Result<()> {
    let file = distribution::rpm(target);
    let listed = output(Command::new("rpm").args(["-qlp", "--nosignature"]).arg(&file))?;
    for path in super::INSTALLED {
        ensure!(listed.lines().any(|line| line == path), "{} has no {path}:\n{listed}", file.display());
    }
    let scripts = output(Command::new("rpm").args(["-qp", "--nosignature", "--scripts"]).arg(&file))?;
    ensure!(scripts.contains("systemd-sysusers"), "{} makes no users:\n{scripts}", file.display());
    let arch =
        output(Command::new("rpm").args(["-qp", "--nosignature", "--queryformat", "%{ARCH}"]).arg(&file))?;
    ensure!(arch == target.arch(), "{} is for {arch}", file.display());
    let root = folder().join("roots").join(format!("rpm-{}", target.arch()));
    empty(&root)?;
    let mut install = Command::new("rpm");
    // Nothing is in there that could run scripts or that the package could need.
    install.args(["-i", "--nodeps", "--noscripts", "--ignorearch", "--nosignature", "--root"]);
    run(install.arg(&root).arg(&file))?;
    for path in super::INSTALLED {
        ensure!(root.join(path.trim_start_matches('/')).exists(), "rpm -i has left no {path}");
    }
    says_its_version(target, &root.join("usr/bin/ringscope"), Path::new("/"))?;
    say(&format!("{} lists and installs", file.display()));
    Ok(())
}

/// Unpacks the image as a runtime does, and starts it as its user.
pub(super) fn image(target: Target) -> Result<()> {
    let archive = image::path(target);
    let folder = folder().join("roots").join(format!("image-{}", target.arch()));
    let (layout, root) = (folder.join("layout"), folder.join("root"));
    empty(&layout)?;
    empty(&root)?;
    run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&layout))?;
    let index = read(&layout.join("index.json"))?;
    let manifest = read(&blob(&layout, &index["manifests"][0])?)?;
    let config = read(&blob(&layout, &manifest["config"])?)?;
    let user = config["config"]["User"].as_str().unwrap_or_default().to_owned();
    ensure!(!user.is_empty() && !user.starts_with("0"), "the image runs as {user:?}");
    let layer = blob(&layout, &manifest["layers"][0])?;
    run(Command::new("tar").args(["-xzpf"]).arg(&layer).arg("-C").arg(&root))?;
    if target.is_native() {
        let mut inside = Command::new("chroot");
        inside.arg(format!("--userspec={user}")).arg(&root).args(["/usr/bin/ringscope", "--version"]);
        ensure!(
            output(&mut inside)?.contains(env!("CARGO_PKG_VERSION")),
            "the image does not say its version"
        );
    } else {
        says_its_version(target, &root.join("usr/bin/ringscope"), &root)?;
    }
    say(&format!("{}: user {user}, starts", stem(target)));
    Ok(())
}

/// The file of a descriptor, whose sum must be its name.
fn blob(layout: &Path, descriptor: &Value) -> Result<std::path::PathBuf> {
    let digest = descriptor["digest"].as_str().context("a descriptor has a digest")?;
    let path = layout.join("blobs").join(digest.replace(':', "/"));
    let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(
        digest == format!("sha256:{}", crate::packages::sums::of(&bytes)),
        "{} is not {digest}",
        path.display()
    );
    ensure!(descriptor["size"] == bytes.len(), "{} has {} bytes", path.display(), bytes.len());
    Ok(path)
}

fn read(path: &Path) -> Result<Value> {
    serde_json::from_slice(&fs::read(path)?).with_context(|| format!("{} is no JSON", path.display()))
}

fn says_its_version(target: Target, binary: &Path, root: &Path) -> Result<()> {
    let mut command = if target.is_native() {
        Command::new(binary)
    } else {
        let mut qemu = Command::new(target.qemu());
        let root = if root == Path::new("/") {
            format!("/usr/{}-linux-gnu", target.arch()).into()
        } else {
            root.to_owned()
        };
        qemu.arg("-L").arg(root).arg(binary);
        qemu
    };
    let told = output(command.arg("--version"))?;
    ensure!(told.contains(env!("CARGO_PKG_VERSION")), "{} says {told:?}", binary.display());
    Ok(())
}
