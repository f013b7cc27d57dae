//! The layers of the collector import one way: a room knows those before it, never those behind it.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Each knows itself and those before it.
const LAYERS: [&str; 8] =
    ["abi", "segment", "calls", "cuda_events", "profiler", "exports", "summation", "process"];

#[test]
fn no_layer_knows_one_behind_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut upwards = BTreeSet::new();
    for (own, layer) in LAYERS.iter().enumerate() {
        for file in rust_files(&root.join(layer)) {
            let text = code(&fs::read_to_string(&file).unwrap());
            let name = file.strip_prefix(&root).unwrap().display().to_string();
            for known in &LAYERS[own + 1..] {
                if knows(&text, known) {
                    upwards.insert((name.clone(), (*known).to_owned()));
                }
            }
        }
    }
    assert_eq!(upwards, BTreeSet::new(), "imports upwards");
}

/// Whether a text names `crate::LAYER`, alone or in braces.
fn knows(text: &str, layer: &str) -> bool {
    let is_word = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
    let after = |start: &str| text.split(start).skip(1).any(is_word);
    let in_braces = |list: &str| {
        let list = &list[..closing(list)];
        list.split([',', '{', '}'])
            .any(|item| item.split("::").next().is_some_and(|first| first.trim() == layer))
    };
    after(&format!("crate::{layer}")) || text.split("crate::{").skip(1).any(in_braces)
}

/// Where the brace that is open before the text is closed.
fn closing(text: &str) -> usize {
    let mut depth = 1;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// Without comments: what is said of another layer is no import.
fn code(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("a layer has a folder");
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| if path.is_dir() { rust_files(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

#[test]
fn an_import_is_seen_however_it_is_written() {
    for text in [
        "use crate::exports::a;",
        "use crate::{abi, exports};",
        "use crate::{abi::{x, y}, exports::b};",
        "crate::exports::c()",
    ] {
        assert!(knows(text, "exports"), "{text}");
    }
    for text in ["use crate::exports_of::a;", "use crate::{abi::exports_b};", "use crate::abi; x(exports)"] {
        assert!(!knows(text, "exports"), "{text}");
    }
}
