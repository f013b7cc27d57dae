//! The image of containers: an archive in OCI's layout, with the binary, glibc's files that it needs, and the roots of trust.
//!
//! It is written here and not by a builder of images, which would need rights, another machine for aarch64, and a base. As
//! `podman load`, `skopeo` and `docker load` (25 and later) read it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use tar::{EntryType, Header};

use super::binary;
use super::cross::Cross;
use super::sums;
use super::target::Target;

/// Writes the image's archive.
pub(super) fn make(target: Target, program: &Path) -> Result<()> {
    let date = super::source_date()?;
    let layer = layer(target, program, date)?;
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::best());
    gzip.write_all(&layer)?;
    let packed = gzip.finish()?;
    let created =
        super::output(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ", "-d", &format!("@{date}")]))?;
    let config = serde_json::to_vec(&config(target, created.trim(), &layer))?;
    let mut blobs = BTreeMap::new();
    let mut blob = |bytes: Vec<u8>, kind: &str| {
        let (digest, size) = (sums::of(&bytes), bytes.len());
        blobs.insert(format!("blobs/sha256/{digest}"), bytes);
        json!({"mediaType": format!("application/vnd.oci.image.{kind}"), "digest": format!("sha256:{digest}"), "size": size})
    };
    let config = blob(config, "config.v1+json");
    let layer = blob(packed, "layer.v1.tar+gzip");
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": [layer],
    });
    let mut manifest = blob(serde_json::to_vec(&manifest)?, "manifest.v1+json");
    manifest["annotations"] = json!({"org.opencontainers.image.ref.name": env!("CARGO_PKG_VERSION")});
    manifest["platform"] = json!({"architecture": target.debian(), "os": "linux"});
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [manifest],
    });
    let mut archive = Archive::new(Vec::new(), date);
    archive.file("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#, 0o644)?;
    archive.file("index.json", &serde_json::to_vec(&index)?, 0o644)?;
    archive.folder("blobs", 0o755, 0)?;
    archive.folder("blobs/sha256", 0o755, 0)?;
    for (path, bytes) in &blobs {
        archive.file(path, bytes, 0o644)?;
    }
    let path = path(target);
    let bytes = archive.finish()?;
    File::create(&path)?.write_all(&bytes).with_context(|| format!("cannot write {}", path.display()))
}

pub(super) fn path(target: Target) -> PathBuf {
    super::folder().join(format!("{}.oci.tar", super::stem(target)))
}

/// What runs, and as whom. The daemon needs no rights; for the agent the pod gives it those of docs/install.md.
fn config(target: Target, created: &str, layer: &[u8]) -> Value {
    json!({
        "created": created,
        "architecture": target.debian(),
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": ["PATH=/usr/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
            "Entrypoint": ["/usr/bin/ringscope"],
            "Cmd": ["serve", "--listen", "0.0.0.0:9440", "--data-dir", DATA, "--with-agent", "false"],
            "ExposedPorts": {"9440/tcp": {}},
            "Volumes": {DATA: {}},
            "WorkingDir": "/",
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "ringscope",
                "org.opencontainers.image.version": env!("CARGO_PKG_VERSION"),
                "org.opencontainers.image.source": env!("CARGO_PKG_REPOSITORY"),
                "org.opencontainers.image.licenses": "Apache-2.0 AND LGPL-2.1-or-later AND MPL-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", sums::of(layer))]},
        "history": [{"created": created, "created_by": "cargo xtask packages"}],
    })
}

/// The only layer: everything that is in the image.
fn layer(target: Target, binary: &Path, date: u64) -> Result<Vec<u8>> {
    let mut layer = Archive::new(Vec::new(), date);
    for (folder, mode, owner) in FOLDERS {
        layer.folder(folder, mode, owner)?;
    }
    layer.file("usr/bin/ringscope", &fs::read(binary)?, 0o755)?;
    layer.file(
        "etc/passwd",
        format!("ringscope:x:{USER}:{USER}::{DATA}:/nonexistent\n").as_bytes(),
        0o644,
    )?;
    layer.file("etc/group", format!("ringscope:x:{USER}:\n").as_bytes(), 0o644)?;
    layer.file("etc/nsswitch.conf", b"hosts: files dns\n", 0o644)?;
    layer.file("etc/ssl/certs/ca-certificates.crt", &read(Path::new(ROOTS), "ca-certificates")?, 0o644)?;
    let cross = Cross::of(target);
    let loader = target.loader();
    for (name, library) in libraries(&cross, binary)? {
        // Debian's loader looks in /lib on all machines.
        let is_loader = loader.file_name().is_some_and(|file| file == name.as_str());
        let inside = if is_loader { loader.clone() } else { Path::new("/lib").join(name) };
        let inside = inside.display().to_string();
        layer.file(inside.trim_start_matches('/'), &fs::read(&library)?, 0o755)?;
    }
    layer.file(
        "usr/share/doc/ringscope/LICENSE",
        &fs::read(crate::process::root().join("LICENSE"))?,
        0o644,
    )?;
    layer.file("usr/share/doc/libc6/copyright", &read(Path::new(GLIBC_LICENCE), "libc6")?, 0o644)?;
    layer.finish()
}

/// What the binary and its libraries need, by name.
fn libraries(cross: &Cross, binary: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    let mut open = vec![binary.to_owned()];
    while let Some(file) = open.pop() {
        let told = super::output(Command::new("readelf").args(["-W", "-d"]).arg(&file))?;
        for name in binary::needed(&told) {
            if let Entry::Vacant(place) = found.entry(name) {
                let library = cross.library(place.key())?;
                open.push(library.clone());
                place.insert(library);
            }
        }
    }
    ensure!(found.keys().any(|name| name.starts_with("ld-linux")), "{} names no loader", binary.display());
    Ok(found)
}

fn read(file: &Path, package: &str) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("cannot read {}: apt-get install {package}", file.display()))
}

/// A tar whose bytes depend on what is in it alone.
struct Archive {
    tar: tar::Builder<Vec<u8>>,
    date: u64,
}

impl Archive {
    fn new(bytes: Vec<u8>, date: u64) -> Self {
        Self { tar: tar::Builder::new(bytes), date }
    }

    fn folder(&mut self, path: &str, mode: u32, owner: u64) -> Result<()> {
        self.entry(&format!("{path}/"), &[], EntryType::Directory, (mode, owner))
    }

    fn file(&mut self, path: &str, bytes: &[u8], mode: u32) -> Result<()> {
        self.entry(path, bytes, EntryType::Regular, (mode, 0))
    }

    fn entry(&mut self, path: &str, bytes: &[u8], kind: EntryType, (mode, owner): (u32, u64)) -> Result<()> {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(owner);
        header.set_gid(owner);
        header.set_mtime(self.date);
        header.set_size(u64::try_from(bytes.len())?);
        Ok(self.tar.append_data(&mut header, path, bytes)?)
    }

    fn finish(self) -> Result<Vec<u8>> {
        Ok(self.tar.into_inner()?)
    }
}

/// Nobody that a host knows; Kubernetes wants a number to see that it is not root.
const USER: u32 = 9440;
const DATA: &str = "/var/lib/ringscope";
const FOLDERS: [(&str, u32, u64); 20] = [
    ("dev", 0o755, 0),
    ("etc", 0o755, 0),
    ("etc/ssl", 0o755, 0),
    ("etc/ssl/certs", 0o755, 0),
    ("lib", 0o755, 0),
    ("lib64", 0o755, 0),
    ("proc", 0o755, 0),
    ("sys", 0o755, 0),
    ("tmp", 0o1777, 0),
    ("usr", 0o755, 0),
    ("usr/bin", 0o755, 0),
    ("usr/share", 0o755, 0),
    ("usr/share/doc", 0o755, 0),
    ("usr/share/doc/libc6", 0o755, 0),
    ("usr/share/doc/ringscope", 0o755, 0),
    ("var", 0o755, 0),
    ("var/lib", 0o755, 0),
    ("var/lib/ringscope", 0o750, USER as u64),
    ("run", 0o755, 0),
    ("dev/shm", 0o1777, 0),
];
/// Mozilla's roots, as Debian packs them.
const ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";
const GLIBC_LICENCE: &str = "/usr/share/doc/libc6/copyright";
