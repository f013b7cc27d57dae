//! The layers of the collector import one way: a room knows those before it, never those behind it. No files import each
//! other in a circle.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
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
    paths("", text).iter().any(|path| path.split("::").next() == Some(layer))
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

#[test]
fn no_files_import_each_other_in_a_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let texts: BTreeMap<String, String> = rust_files(&root)
        .iter()
        .map(|file| {
            (module(file.strip_prefix(&root).unwrap()), without_tests(&fs::read_to_string(file).unwrap()))
        })
        .collect();
    let known = |path: &str| {
        let ends = path.match_indices("::").map(|(end, _)| end).chain([path.len()]);
        ends.map(|end| &path[..end]).filter(|start| texts.contains_key(*start)).last().map(str::to_owned)
    };
    let mut left: BTreeMap<&String, BTreeSet<String>> = BTreeMap::new();
    for (module, text) in &texts {
        let imports =
            paths(module, text).into_iter().filter_map(|path| known(&path)).filter(|other| other != module);
        left.insert(module, imports.collect());
    }
    // Again and again without those that import none of the others, or are imported by none.
    loop {
        let before = left.len();
        let modules: BTreeSet<String> = left.keys().map(|module| (*module).clone()).collect();
        left.values_mut().for_each(|imports| imports.retain(|other| modules.contains(other)));
        let imported: BTreeSet<String> = left.values().flatten().cloned().collect();
        left.retain(|module, imports| !imports.is_empty() && imported.contains(*module));
        if left.len() == before {
            break;
        }
    }
    assert_eq!(left, BTreeMap::new(), "each of these imports another of them");
}

/// The name of the module in a file, without `crate::`.
fn module(file: &Path) -> String {
    let parts = file.with_extension("");
    let parts =
        parts.iter().map(|part| part.to_str().unwrap()).filter(|part| !matches!(*part, "mod" | "lib"));
    parts.collect::<Vec<_>>().join("::")
}

/// The paths that a module's text names from the crate's root, or from its parent.
fn paths(module: &str, text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let parent = module.rsplit_once("::").map_or(String::new(), |(parent, _)| format!("{parent}::"));
    for (start, prefix) in [("crate::", ""), ("super::", parent.as_str())] {
        text.split(start).skip(1).for_each(|rest| leaves(prefix, rest, &mut found));
    }
    found
}

/// The paths of a tree of imports that begins the text, below a prefix.
fn leaves(prefix: &str, text: &str, found: &mut BTreeSet<String>) {
    let text = text.trim_start();
    let end =
        text.find(|next: char| !next.is_alphanumeric() && !matches!(next, '_' | ':')).unwrap_or(text.len());
    let path = format!("{prefix}{}", &text[..end]);
    let Some(list) = text[end..].strip_prefix('{').filter(|_| path.is_empty() || path.ends_with("::")) else {
        found.insert(path);
        return;
    };
    let (mut depth, mut from) = (0, 0);
    let list = &list[..closing(list)];
    for (at, next) in list.char_indices().chain([(list.len(), ',')]) {
        match next {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                leaves(&path, &list[from..at], found);
                from = at + 1;
            }
            _ => {}
        }
    }
}

/// A file's code without its tests, which stand at its end.
fn without_tests(text: &str) -> String {
    code(text.split("#[cfg(test)]").next().unwrap_or_default())
}

#[test]
fn a_tree_of_imports_is_taken_apart() {
    let text = "use crate::{a::{b, c::d}, e}; use super::f::{g, h}; crate::i::j(1); pub(super) x";
    let expected = ["a::b", "a::c::d", "e", "i::j", "room::f::g", "room::f::h"];
    let found = paths("room::own", text);
    assert!(expected.iter().all(|path| found.contains(*path)), "{found:?}");
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
