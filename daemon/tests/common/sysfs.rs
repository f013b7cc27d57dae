//! The trees of `fixtures/sysfs` and, by `../rdma/NAME`, those of `fixtures/rdma`, unpacked.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Writes a tree into a folder; what is there already and has another content is exchanged.
pub fn unpack(tree: &str, root: &Path) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../fixtures/sysfs/{tree}.tree"));
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut folder = root.to_owned();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(base) = line.strip_prefix("< ") {
            let folder = tree.rsplit_once('/').map(|(folder, _)| format!("{folder}/")).unwrap_or_default();
            unpack(&format!("{folder}{base}"), root);
        } else if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            folder = root.join(name);
            fs::create_dir_all(&folder).expect("a folder");
        } else if let Some((name, text)) = line.split_once('\t') {
            // At once, as the kernel changes a value.
            let unfinished = root.join(".unfinished");
            fs::write(&unfinished, format!("{text}\n")).expect("a file");
            fs::rename(&unfinished, folder.join(name)).expect("a file");
        } else if let Some((name, target)) = line.split_once(" -> ") {
            let link = folder.join(name);
            if !link.is_symlink() {
                symlink(target, link).expect("a link");
            }
        } else {
            panic!("{}: what is {line:?}?", file.display());
        }
    }
}
