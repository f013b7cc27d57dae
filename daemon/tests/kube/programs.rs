//! Programs that are not Debian's, in the build folder: `cargo xtask kube` brings them.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::common::TempDir;

/// The oldest that the chart is for, one between, and the newest whose schemas there are.
pub(crate) const VERSIONS: [&str; 3] = ["1.25", "1.31", "1.37"];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The folder that cargo builds into.
pub(crate) fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().to_owned()
}

fn fetched(path: &str) -> PathBuf {
    let program = target().join("kube").join(path);
    assert!(program.exists(), "{} is not there: run `cargo xtask kube`", program.display());
    program
}

pub(crate) fn helm(arguments: &[&str]) -> Output {
    let folder = TempDir::new("helm");
    let mut helm = Command::new(fetched("helm"));
    helm.args(arguments).current_dir(root().join("packaging/chart"));
    // It keeps what it knows of repositories in the home of whoever runs it.
    helm.env("HELM_CACHE_HOME", folder.join("c")).env("HELM_CONFIG_HOME", folder.join("f"));
    helm.env("HELM_DATA_HOME", folder.join("d")).output().unwrap()
}

/// What the chart renders to as release `rings` in namespace `rings`, with `values` over its own and an image.
pub(crate) fn rendered(values: &Value) -> Vec<Value> {
    let folder = TempDir::new("values");
    let file = folder.join("values.json");
    fs::write(&file, values.to_string()).unwrap();
    let image = folder.join("image.json");
    fs::write(&image, r#"{"image": {"repository": "registry.example/ringscope"}}"#).unwrap();
    let files = ["--values", image.to_str().unwrap(), "--values", file.to_str().unwrap()];
    let output = helm(&[&["template", "rings", "ringscope", "--namespace", "rings"][..], &files].concat());
    assert!(output.status.success(), "{values}: {}", String::from_utf8_lossy(&output.stderr));
    documents(&output.stdout)
}

/// Documents of YAML as values.
pub(crate) fn documents(yaml: &[u8]) -> Vec<Value> {
    const READ: &str = "import json, sys, yaml; json.dump([one for one in yaml.safe_load_all(sys.stdin) if one], sys.stdout)";
    let mut python = Command::new(fetched("python/bin/python"));
    let mut read = python.args(["-c", READ]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    read.stdin.take().unwrap().write_all(yaml).unwrap();
    let output = read.wait_with_output().unwrap();
    assert!(output.status.success(), "no YAML: {}", String::from_utf8_lossy(yaml));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Whether all of them are what each version of Kubernetes takes, to the last field. Custom resources have no schema here.
pub(crate) fn are_valid(documents: &[Value]) {
    let folder = TempDir::new("resources");
    // One file with all: the validator takes its time to start.
    let file = folder.join("all.yaml");
    let texts: Vec<String> = documents.iter().map(|document| format!("---\n{document}\n")).collect();
    fs::write(&file, texts.concat()).unwrap();
    let checks = VERSIONS.map(|version| {
        let mut validate = Command::new(fetched("python/bin/kubernetes-validate"));
        validate.args(["--strict", "--no-warn", "-k", version]).arg(&file);
        (version, validate.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    });
    for (version, check) in checks {
        let output = check.wait_with_output().unwrap();
        let told = [output.stdout, output.stderr].concat();
        let told = String::from_utf8_lossy(&told);
        assert!(output.status.success(), "Kubernetes {version}: {told}");
        let n_passed = told.matches(" passed for resource ").count();
        let n_custom = documents.iter().filter(|document| is_custom(document)).count();
        assert_eq!(n_passed + n_custom, documents.len(), "Kubernetes {version}: {told}");
    }
}

/// Groups of Kubernetes' own end in `.k8s.io`, or have no dot; the JobSet's does too, and is none.
fn is_custom(document: &Value) -> bool {
    let version = document["apiVersion"].as_str().unwrap();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    group.contains('.') && !group.ends_with(".k8s.io") || group.contains(".x-k8s.io")
}
