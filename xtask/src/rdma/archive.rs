//! An archive as the kernel unpacks it into its first file system: cpio's format "newc" (the kernel's
//! `Documentation/driver-api/early-userspace/buffer-format.rst`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

/// What lies at a path.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    /// A folder.
    Folder,
    /// A copy of a file of this machine.
    Copy(PathBuf),
    /// These bytes, executable.
    Program(Vec<u8>),
    /// These bytes.
    Text(String),
    /// A symbolic link.
    Link(String),
}

/// A tree in the making; paths begin with `/`.
#[derive(Clone, Debug, Default)]
pub(super) struct Archive {
    entries: BTreeMap<PathBuf, Entry>,
}

impl Archive {
    /// Sets what lies at a path, and the folders above it.
    pub(super) fn set(&mut self, path: impl AsRef<Path>, entry: Entry) {
        let path = path.as_ref();
        for above in path.ancestors().skip(1).filter(|above| *above != Path::new("/")) {
            self.entries.entry(above.to_owned()).or_insert(Entry::Folder);
        }
        self.entries.insert(path.to_owned(), entry);
    }

    /// Whether something lies there.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.entries.contains_key(path)
    }

    /// Differs where the archive would: by the names, and the files' sizes and times.
    pub(super) fn digest(&self) -> Result<String> {
        let mut digest = Sha256::new();
        for (path, entry) in &self.entries {
            digest.update(format!("\n{}\t", path.display()));
            match entry {
                Entry::Folder => digest.update("folder"),
                Entry::Program(bytes) => digest.update(bytes),
                Entry::Text(text) => digest.update(text),
                Entry::Link(target) => digest.update(format!("-> {target}")),
                Entry::Copy(from) => {
                    let about = fs::metadata(from).with_context(|| from.display().to_string())?;
                    let age = about.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
                    digest.update(format!("{} {} {age:?}", from.display(), about.len()));
                }
            }
        }
        let mut hex = String::new();
        for byte in digest.finalize().iter().take(DIGEST_BYTES) {
            let _ = write!(hex, "{byte:02x}");
        }
        Ok(hex)
    }

    /// The archive's bytes.
    pub(super) fn bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for (inode, (path, entry)) in self.entries.iter().enumerate() {
            let name = path.display().to_string();
            let (mode, content) = match entry {
                Entry::Folder => (0o40_755, Vec::new()),
                Entry::Program(program) => (0o100_755, program.clone()),
                Entry::Text(text) => (0o100_644, text.clone().into_bytes()),
                Entry::Link(target) => (0o120_777, target.clone().into_bytes()),
                Entry::Copy(from) => {
                    (0o100_755, fs::read(from).with_context(|| format!("cannot read {}", from.display()))?)
                }
            };
            record(&mut bytes, inode + 1, name.trim_start_matches('/'), mode, &content);
        }
        record(&mut bytes, 0, "TRAILER!!!", 0, &[]);
        Ok(bytes)
    }
}

fn record(bytes: &mut Vec<u8>, inode: usize, name: &str, mode: u32, content: &[u8]) {
    let (n_links, name_bytes, zero) = (1, name.len() + 1, 0);
    let mut head = format!("070701{inode:08x}{mode:08x}{zero:08x}{zero:08x}{n_links:08x}{zero:08x}");
    let _ = write!(head, "{:08x}", content.len());
    let _ = write!(head, "{zero:08x}{zero:08x}{zero:08x}{zero:08x}{name_bytes:08x}{zero:08x}{name}\0");
    for part in [head.as_bytes(), content] {
        bytes.extend(part);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
}

/// Of a digest, in a name: as good as all, among a handful.
const DIGEST_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpio_reads_what_was_written() {
        let mut archive = Archive::default();
        archive.set("/a/b/text", Entry::Text("five\n".to_owned()));
        archive.set("/a/link", Entry::Link("b/text".to_owned()));
        let bytes = archive.bytes().unwrap();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8_lossy(&bytes);
        let names: Vec<usize> = ["a\0", "a/b\0", "a/b/text\0", "a/link\0", "TRAILER!!!\0"]
            .map(|name| text.find(name).unwrap())
            .into();
        assert!(names.is_sorted(), "folders before what lies in them: {names:?}");
        assert!(text.contains("five\n") && text.contains("b/text"));
    }

    #[test]
    fn another_content_is_another_digest() {
        let digest = |text: &str| {
            let mut archive = Archive::default();
            archive.set("/text", Entry::Text(text.to_owned()));
            archive.digest().unwrap()
        };
        assert_eq!(digest("one"), digest("one"));
        assert_ne!(digest("one"), digest("two"));
    }
}
